"""The plugin's options and markers: what the command line and the ini file may say, and the settings that it makes.

Imported by every test run, so it only declares; `pytest_vperf.run.settings` reads and checks the values. A new option
is an entry of the table and a field of `Settings` here; whatever uses it takes it from there.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vperf.pytest_internals import given_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.targets.sides import Sides
    from pytest_vperf.thresholds.judge import Setting

#: The accelerators a pod can be asked for.
ACCELERATORS = ("kvm", "tcg")
#: What fails a test, from nothing to all that was not shown to hold.
LEVELS = ("advisory", "refuted", "measured", "strict")
#: The kinds of hosts that a lab has.
LABS = ("kvm", "xen")
#: How a fleet shares tests: each once on every type of machine, or on every machine.
FLEET_RUNS = ("spread", "each")

Kind = Literal["text", "maybe", "flag", "path", "names", "texts", "paths"]
#: What a value is: argparse's action, then type and default of the ini setting. Names have commas between them.
_KINDS: dict[Kind, tuple[str, Any, Any]] = {
    "text": ("store", "string", ""),
    "maybe": ("store", "string", ""),
    "flag": ("store_true", "bool", False),
    "path": ("store", "string", ""),
    "names": ("append", "string", ""),
    "texts": ("append", "args", []),
    "paths": ("append", "args", []),
}


#: Options whose short names would mean nothing in an ini file.
_INI = {"--hw": "claims_hw", "--baseline": "claims_baseline"}


# Neither dataclasses nor named tuples: every run loads this module, and the making of one takes up to a millisecond.

Level = Literal["advisory", "refuted", "measured", "strict"]


class AskedExport(SimpleNamespace):
    """A file that the run writes when it has ended.

    Attributes:
        option: that asks for it.
        format: the name of its format.
        path: the file.
    """

    option: str
    format: str
    path: Path


class Settings(SimpleNamespace):
    """What this run was asked for.

    Attributes:
        hardware: a profile's name, or ``auto``.
        level: what fails a test: ``refuted`` claims alone, also what was not ``measured``, or, ``strict``, all that
            was not shown to hold; ``advisory``: nothing.
        judge: tolerance, alpha, beta, pairs and budget, each with where it comes from; a claim or its test may
            say otherwise, see `pytest_vperf.claims.plan`.
        sessions: in how many sessions a limit is judged, 3 or 1.
        time: seconds that the claims of the run share; ``None``: no limit.
        json: where the record of the run goes.
        benchmark_json: where its times go for pytest-benchmark.
        exports: files that are written when the run has ended.
        save: the name that the run is kept by, empty without one; ``None``: it is not kept.
        store: where runs are kept, a path or a URL.
        baseline: the stored runs that claims are held against; ``None``: none.
        thresholds: folders of threshold files, beside the shipped ones.
        runtimes: OCI runtimes for containers, at least one.
        image: a container image's reference, or the absolute path of a ``.tar``; ``None`` builds one.
        host_tools: whether the host runs its own tools, and not the image's.
        on: the machine that targets are started on, ``ssh://…`` or ``lab:KIND``; empty: this one.
        disks: block devices that may be overwritten.
        machines: addresses of machines that are known by SSH alone, by the names that the user gave them.
        load_host: ``ssh://…`` of the other host of network tests; empty: a network namespace of this machine.
        libvirt_uris: of the daemons that whole machines are started through, by driver, ``qemu`` or ``xen``; one
            that is not named is this machine's, or of the run.
        labs: kinds of hosts that are started inside QEMU where this machine is none: ``kvm``, ``xen``.
        guest_kernel: the kernel of pods and guests; ``None`` takes the distribution's.
        guest_image: the guests' own image; ``None`` makes their disk from the image with the tools.
        accelerators: of pods; empty is auto.
        start_timeout: seconds that one pod may take to start.
        density_max: how many targets a test of density may start; ``None``: as many as fit.
        density_memory: bytes that they may take, all together; ``None``: all that is available.
        density_floor: bytes that this host keeps meanwhile; ``None``: the usual reserve.
        scale_count: how many targets run at once where a claim is about many.
        sides: of a gate; none in another run.
        fleet: the file of the machines that run the tests; ``None``: this one does.
        fleet_run: whether each test runs once on each type of machine, ``spread``, or on each machine.
        fleet_hw: the types of machines that are taken; none: all.
        fleet_plan: the folder for what each machine is to run, which is not run; ``None``: it is.
        seed: of every random order, drawn per run where none was given; kept in each record.
    """

    hardware: str
    level: Level
    judge: Mapping[str, Setting]
    sessions: Literal[1, 3]
    time: float | None
    json: Path | None
    benchmark_json: Path | None
    exports: tuple[AskedExport, ...]
    save: str | None
    store: str
    baseline: str | None
    thresholds: tuple[Path, ...]
    runtimes: tuple[str, ...]
    image: str | None
    host_tools: bool
    on: str
    disks: tuple[str, ...]
    machines: Mapping[str, tuple[str, ...]]
    load_host: str
    libvirt_uris: Mapping[str, str]
    labs: tuple[str, ...]
    guest_kernel: Path | None
    guest_image: Path | None
    accelerators: tuple[str, ...]
    start_timeout: float
    density_max: int | None
    density_memory: int | None
    density_floor: int | None
    scale_count: int
    sides: Sides
    fleet: Path | None
    fleet_run: Literal["spread", "each"]
    fleet_hw: tuple[str, ...]
    fleet_plan: Path | None
    seed: int

    @property
    def budget(self) -> float:
        """Seconds that a claim may sample where neither it nor its test says otherwise."""
        return self.judge["budget"].value


class Option:
    """One option and its ini setting: all that there is to say of it, but for what uses its setting.

    Args:
        usage: its name, and after = what ``--help`` calls its value.
        setting: the field of `Settings` that it is, alone or with other options.
        kind: of its value; names and several values may be given by repeating the option, and a text that may be
            left out is empty then.
        reads: the name of its reader in `pytest_vperf.run.settings`; empty where several options are read together.
        takes: of a whole number: its pattern, and what it is, in words.
        example: a value other than the default.
        default: its value where nobody says otherwise; empty: there is none.
        otherwise: what happens then, in words.
        typed: whether the command line alone may give it, since a file goes to other machines with its project.
        help: what ``--help`` says, without the default and the ini setting.

    Attributes:
        name: what is typed.
        ini: the ini setting; pytest keeps what the command line says by the same name.
    """

    def __init__(
        self,
        usage: str,
        setting: str,
        kind: Kind = "text",
        reads: str = "",
        takes: tuple[str, str] = ("", ""),
        example: str = "",
        default: str = "",
        otherwise: str = "",
        help: str = "",
        typed: bool = False,
    ) -> None:
        self.usage, self.setting, self.kind, self.reads = usage, setting, kind, reads
        self.takes, self.example, self.default, self.otherwise = takes, example, default, otherwise
        self.help, self.typed = help, typed
        self.name = usage.partition("=")[0]
        self.ini = _INI.get(self.name, self.name[2:].replace("-", "_"))

    def declare(self, group: pytest.OptionGroup, parser: pytest.Parser) -> None:
        """Tell pytest of it; on the command line, what is not given is ``None``."""
        usual = self.default or self.otherwise
        place = "no ini setting" if self.typed else f"ini: {self.ini}"
        text = f"{self.help} ({f'default: {usual}; ' if usual else ''}{place})"
        action, type_, unset = _KINDS[self.kind]
        value = self.usage.partition("=")[2]
        more: dict[str, Any] = {} if self.kind == "flag" else {"metavar": value}
        if self.kind == "maybe":
            more = {"metavar": value.strip("[]"), "nargs": "?", "const": ""}
        group.addoption(
            self.name,
            **more,
            dest=self.ini,
            action=action,
            default=None,
            help=text.replace("%", "%%"),
        )
        if self.typed:
            return
        seen = ", seen from the root folder" if self.kind in ("path", "paths") else ""
        parser.addini(self.ini, f"default of {self.name}{seen}", type_, unset)


# fmt: off
#: Every option, as ``--help`` shows them; those named like a key of ``judge`` in a threshold file mean the same.
_TABLE = (
    Option("--hw=NAME", "hardware", reads="text", example="lab", default="auto", help=
        "hardware profile to judge by; 'auto' matches this machine's fingerprint; the profile 'any' is always added"),
    Option("--claims-level=LEVEL", "level", example="measured",
        otherwise="refuted; in a gate, or with a baseline, measured", help=
        "what fails a test: 'refuted' claims alone; also what was not 'measured'; or, 'strict', all that did not "
        "hold; or, 'advisory', nothing"),
    Option("--claims-strict", "level", kind="flag", help="the same as --claims-level=strict"),
    Option("--claims-advisory", "level", kind="flag", help="the same as --claims-level=advisory"),
    Option("--claims-tolerance=PERCENT", "judge", example="3 %", default="2 %", help=
        "how much worse counts as no worse, and how far as near, such as '2 %' or 0.02; between the sides of a gate "
        "it is 5 % where nobody says; limits and ratios are taken as they are written. Of these five settings "
        "the more specific wins: judge in the threshold file, then the marker vperf, then the option, then the ini "
        "file; --claims-budget comes before all"),
    Option("--claims-alpha=CHANCE", "judge", example="0.02", default="0.01", help=
        "greatest chance that any true claim is refuted, in the run as a whole: each test that asks for claims has "
        "an equal share of it. Its first claim gets that share, the k-th one from the second on 1/(k(k+1)) of it, "
        "all later claims together at most half a share more: the run errs with at most alpha where each test has "
        "one claim, and with at most 1.5 alpha where tests have several"),
    Option("--claims-beta=CHANCE", "judge", example="0.02", default="0.01", help=
        "greatest chance that an untrue claim holds, of each claim"),
    Option("--claims-pairs=N", "judge", example="64", default="512", help=
        "greatest number of pairs of a comparison, or of samples of a limit"),
    Option("--claims-budget=TIME", "judge", example="2 min", default="60 s",
        help="time one claim may sample, such as '60 s' or '2 min'"),
    Option("--claims-time=TIME", "time", reads="duration", example="15m",
        otherwise="as long as the claims need", help=
        "time for the whole run, such as '15 min': its claims share it, and where it is short it goes to those whose "
        "verdict is nearest"),
    Option("--claims-sessions=N", "sessions", reads="number", example="1",
        takes=("[13]", "1 or 3"), default="3", help=
        "in how many sessions, spread over the run, a limit is judged: 3, or 1 to judge it at once, which is marked "
        "as weaker"),
    Option("--claims-base=KEY=VALUE", "sides", kind="texts", example="env.A=1",
        otherwise="what the run uses anyway", help=
        "make the run a gate: every claim is judged as no worse on head than on base; what base is: "
        "runtime=NAME|PATH (with arguments), image=REF|FILE.tar, engine=URL, kernel=FILE, qemu=NAME|PATH, "
        "firmware=FILE, and for commands on the host path=DIR, env.NAME=VALUE; may be repeated"),
    Option("--claims-head=KEY=VALUE", "sides", kind="texts", example="env.A=2", help=
        "what head is, likewise; NAME:KEY=VALUE where there are several heads"),
    Option("--same-on-purpose", "sides", kind="flag", help="compare two sides even if they are the same bytes"),
    Option("--claims-json=FILE", "json", kind="path", reads="path", example="out.json",
        help="write every claim with its verdict and all its samples to FILE"),
    Option("--claims-benchmark-json=FILE", "benchmark_json", kind="path", reads="path", example="bench.json", help=
        "write the samples of every claim about a time to FILE, for pytest-benchmark's compare and histograms"),
    Option("--claims-export=FORMAT=FILE", "exports", kind="texts", example="markdown=out.md", help=
        "write the claims as FORMAT to FILE when the run has ended: html, markdown, codequality, openmetrics, or a "
        "format of a plug-in; may be repeated"),
    Option("--claims-report=FILE", "exports", kind="path", example="out.html", help=
        "write the run as a page of HTML to FILE, with pictures of all samples; it opens in a browser without a "
        "network; 'vperf report' makes it of records"),
    Option("--claims-markdown=FILE", "exports", kind="path", example="out.md", help=
        "write the answer and the claims as a page of Markdown to FILE; in GitHub Actions it is the step's summary "
        "by itself"),
    Option("--claims-codequality=FILE", "exports", kind="path", example="out.json", help=
        "write the claims that fail as GitLab's code quality report to FILE, for annotations at their tests; GitHub "
        "gets its own by itself"),
    Option("--claims-openmetrics=FILE", "exports", kind="path", example="out.txt", help=
        "write verdicts and figures as OpenMetrics text to FILE, for GitLab's metrics report and node exporters"),
    Option("--claims-save=[NAME]", "save", kind="maybe", reads="name_of_run", example="main",
        otherwise="the run is not kept", help=
        "keep the run with all its samples in the store, by NAME if there is one, for 'vperf compare'; in the ini "
        "file 'true' is without a name"),
    Option("--claims-store=DIR|URL", "store", reads="store", example="sqlite:///runs.db", default=".vperf", help=
        "where runs are kept: a folder, seen from the root folder, or a database such as "
        "postgresql://USER@HOST/NAME or sqlite:///FILE"),
    Option("--baseline=RUNS", "baseline", reads="text", example="main", help=
        "hold each claim's figure against those of runs that were kept, too: a name, a commit, a file of "
        "--claims-json, a folder"),
    Option("--claims-thresholds=DIR", "thresholds", kind="paths", reads="folders", example="mine",
        otherwise="thresholds/ in the root folder", help=
        "folder of threshold files, may be repeated; its figures count before the shipped ones"),
    Option("--claims-seed=N", "seed", reads="number", example="7",
        takes=(r"\d{1,18}", "a whole number from 0 on"), otherwise="drawn per run, and recorded", help=
        "seed of the random order of comparisons"),
    Option("--container-runtime=NAME[,NAME]", "runtimes", kind="names", example="runsc", default="runc", help=
        "OCI runtime for containers, such as runc or runsc; tests that ask for containers run once for each"),
    Option("--container-image=REF|FILE.tar", "image", reads="image", example="debian:12", help=
        "image for containers and pods: a reference the engine has, or a file written by 'docker export'",
        otherwise="a small one, and one with tools for tests that use them, built locally"),
    Option("--vperf-host-tools", "host_tools", kind="flag", reads="flag", help=
        "run the tools that are installed on the host, instead of those of the image in place; what they measure is "
        "then compared with other builds only where a test says so"),
    Option("--guest-kernel=FILE", "guest_kernel", kind="path", reads="file", example="vmlinuz",
        otherwise="the distribution's cloud kernel", help=
        "kernel that pods, guests and domUs boot"),
    Option("--guest-image=FILE.qcow2", "guest_image", kind="path", reads="guest_image", example="own.qcow2",
        otherwise="made from the container image", help=
        "disk image of an installed system that guests boot, with its own boot loader for a BIOS, kernel and "
        "qemu-guest-agent; nothing is written to it"),
    Option("--vperf-kernel=FILE", "sides", kind="path", example="vmlinuz",
        help="the same as --claims-head=kernel=FILE"),
    Option("--baseline-kernel=FILE", "sides", kind="path", example="vmlinuz",
        otherwise="what pods boot otherwise, see --guest-kernel", help=
        "the same as --claims-base=kernel=FILE"),
    Option("--vperf-accelerator=NAME[,NAME]", "accelerators", kind="names", reads="accelerators", example="tcg",
        default="auto", help=
        f"accelerator for pods: {', '.join(ACCELERATORS)}"),
    Option("--start-timeout=TIME", "start_timeout", reads="seconds", example="3 s", default="120 s", help=
        "time one pod may take to start before it is given up"),
    Option("--density-memory=SIZE", "density_memory", reads="size", example="6 GiB",
        otherwise="all that is available but the reserve, see --density-floor", help=
        "memory of this host that the targets of a test of density may take, all together, such as '6 GiB'"),
    Option("--density-max=N", "density_max", reads="number", example="3",
        takes=(r"[1-9]\d{0,8}", "a whole number from 1 on"), otherwise="as many as fit",
        help="how many targets such a test starts at most"),
    Option("--density-floor=SIZE", "density_floor", reads="size", example="1 GiB",
        help="memory that the host keeps available meanwhile",
        otherwise="512 MiB, on a small host an eighth of its memory; of domUs' hypervisor nothing"),
    Option("--scale-count=N", "scale_count", reads="number", example="3",
        takes=(r"[1-9]\d{0,3}", "a whole number from 1 to 9999"), default="100", help=
        "how many targets run at once in the claims marked 'scale'; a published figure is of a hundred, and is "
        "judged with a hundred alone"),
    Option("--vperf-on=URL", "on", reads="on", example="lab:kvm", otherwise="this machine", help=
        "machine that every target is started on: ssh://[user@]host[:port], with its own Docker engine, QEMU and "
        "libvirt, or lab:KIND, a host inside QEMU, see 'vperf lab'"),
    Option("--claims-fleet=FILE", "fleet", kind="path", reads="fleet", example="fleet.yaml",
        otherwise="this machine", help=
        "run the tests on the machines that FILE names, with an ordinary pytest on each; see 'A fleet' in the "
        "documentation"),
    Option("--claims-fleet-run=spread|each", "fleet_run", reads="fleet_run", example="each", default="spread", help=
        "'spread': each test runs once on every type of machine, whose machines share the tests; 'each': every test "
        "runs on every machine"),
    Option("--claims-fleet-hw=TYPE[,TYPE]", "fleet_hw", kind="names", reads="names", example="type1",
        otherwise="all types", help="take machines of these hardware types alone"),
    Option("--claims-fleet-plan=DIR", "fleet_plan", kind="path", reads="path", example="orders",
        otherwise="the tests are run", help=
        "run nothing: write what each machine is to run into DIR, for 'python -m pytest_vperf.fleet.shard'; see "
        "'A fleet of CI runners' in the documentation"),
    Option("--vperf-disk=DEVICE", "disks", kind="texts", reads="disks", example="/dev/sdb",
        otherwise="disks of the run, which are files", typed=True, help=
        "block device that claims about disks are measured on, such as /dev/sdb: ALL THAT IS ON IT IS LOST; what is "
        "mounted or used otherwise is refused; may be repeated"),
    Option("--vperf-machine=NAME=URL", "machines", kind="texts", reads="machines", example="esxi=ssh://guest",
        otherwise="none", help=
        "a virtual machine or container of any system that is known by SSH alone, such as "
        "esxi=ssh://root@guest; may be repeated: of the same name, the first one answers and the others load their "
        "host; the name 'host' is their hardware without the system"),
    Option("--load-host=URL", "load_host", reads="load_host", example="ssh://there", default="embedded", help=
        "the other host of network tests: 'embedded', a network namespace of this machine, or "
        "ssh://[user@]host[:port], a machine where the tools are installed"),
    Option("--libvirt-uri=URI", "libvirt_uris", kind="texts", reads="libvirt_uris", example="qemu:///system",
        otherwise="this machine's, or one started for the run", help=
        "libvirt daemon that guests are started through, such as qemu:///system or qemu+ssh://root@HOST/system, or "
        "domUs, such as xen+ssh://root@HOST/; may be given once for each"),
    Option("--vperf-lab=KIND[,KIND]", "labs", kind="names", reads="labs", example="xen", otherwise="none", help=
        f"use a host inside QEMU where this machine is none of that kind: {', '.join(LABS)}; see 'vperf lab'"),
)
# fmt: on

#: The same, by ini setting.
OPTIONS = {option.ini: option for option in _TABLE}

#: Options that are ``--vperf-NAME`` and were ``--NAME``, as test suites call their own; what their ini settings were.
RENAMED = {
    "kernel": "new_kernel",
    "on": "on",
    "lab": "lab",
    "accelerator": "pod_accelerator",
    "host-tools": "host_tools",
}

#: Options that are short for ``--claims-export=FORMAT=FILE``, with the format.
EXPORTS = {
    "claims_report": "html",
    "claims_markdown": "markdown",
    "claims_codequality": "codequality",
    "claims_openmetrics": "openmetrics",
}

#: One marker per family of claims, with the line that ``pytest --markers`` shows, and one with settings.
MARKERS = (
    (
        "vperf(tolerance='2 %', alpha=0.01, beta=0.01, pairs=512, budget='60 s')",
        "how the claims of a test are judged, see the options --claims-tolerance and so on; wins over the options, "
        "and the claim's entry in the threshold file wins over it",
    ),
    ("startup", "a claim about how fast a target starts"),
    ("replace", "a claim about replacing what runs in a machine that is kept"),
    ("density", "a claim about how many targets one host carries"),
    ("footprint", "a claim about the memory a target needs"),
    ("cpu", "a claim about the speed of the processor in a target"),
    ("priority", "a claim about weights and shares of the processor"),
    ("memory", "a claim about the speed of memory in a target"),
    ("disk", "a claim about block devices and file systems"),
    ("network", "a claim about the throughput of the network"),
    ("response", "a claim about response times"),
    ("saturation", "a claim about where more load no longer increases throughput"),
    ("scale", "a claim about many targets at once"),
    ("gate", "a claim about how two builds differ alone, see --claims-head"),
    ("gallery", "a claim that a project publishes about itself"),
    ("slow", "a claim that takes minutes; leave it out with -m 'not slow'"),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options, all in one group, and their ini settings."""
    group = parser.getgroup("vperf", "performance claims (pytest-vperf)")
    for option in OPTIONS.values():
        option.declare(group, parser)


def refuse_old_names(config: pytest.Config, parser: pytest.Parser, args: Sequence[str]) -> None:
    """Name the new option where an old name is given; one that a conftest or another plugin declares is theirs.

    Args:
        config: of a run whose first conftest files are loaded.
        parser: with all that they declared.
        args: of the command line, ``addopts`` included.

    Raises:
        pytest.UsageError: an old name is given, and nobody declares it.
    """
    old = {f"--{name}": f"--vperf-{name}" for name in RENAMED}
    if any(word.partition("=")[0] in old for word in args):
        for word in parser.parse_known_and_unknown_args(args)[1]:
            if (name := word.partition("=")[0]) in old:
                raise pytest.UsageError(f"{name} is called {old[name]} now")
    given = given_settings(config)
    for name, ini in RENAMED.items():
        if ini in given and not _declared(config, ini):
            now = f"vperf_{name}".replace("-", "_")
            raise pytest.UsageError(f"the ini setting {ini} is called {now} now")


def refuse_settings(config: pytest.Config) -> None:
    """Refuse ini settings of options that the command line alone may give.

    Raises:
        pytest.UsageError: one is set.
    """
    given = given_settings(config)
    for option in OPTIONS.values():
        if option.typed and option.ini in given:
            raise pytest.UsageError(
                f"{option.ini} is no ini setting, since a file goes to other machines with its project:"
                f" give {option.name} on the command line"
            )


def _declared(config: pytest.Config, ini: str) -> bool:
    """Whether anybody declares an ini setting, whatever its value."""
    try:
        config.getini(ini)
    except (TypeError, ValueError, pytest.UsageError) as error:
        return not str(error).startswith("unknown configuration value")
    return True


def given_on_command_line(config: pytest.Config) -> bool:
    """Whether any option of the plugin was given, and is to be checked although nothing may claim."""
    given = vars(config.option)
    return any(given.get(name) is not None for name in OPTIONS)


def given_in_ini(config: pytest.Config) -> bool:
    """Whether any setting of the plugin was given in the ini file, or with ``-o``."""
    return not given_settings(config).isdisjoint(OPTIONS)
