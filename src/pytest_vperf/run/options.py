"""The plugin's options and markers: what the command line and the ini file may say.

Imported by every test run, so it only declares; `pytest_vperf.run.settings` reads and checks the values.
"""

from __future__ import annotations

import pytest

#: The accelerators a pod can be asked for.
ACCELERATORS = ("kvm", "tcg")
#: The kinds of hosts that a lab has.
LABS = ("kvm", "xen")
DEFAULT_START_TIMEOUT = "120 s"
DEFAULT_RUNTIME = "runc"
#: How many targets run at once where a claim is about many: as many as the published ones.
DEFAULT_SCALE_COUNT = "100"

#: How claims are judged where nobody says otherwise, as --help shows it.
JUDGE_DEFAULTS = {
    "tolerance": "2 %",
    "alpha": "0.01",
    "beta": "0.01",
    "pairs": "512",
    "budget": "60 s",
}
DEFAULT_SESSIONS = "3"

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
    ("saturation", "a claim about where a growing load stops to bring more"),
    ("scale", "a claim about many targets at once"),
    ("kernel", "a claim that compares kernels or runtimes with a baseline"),
    ("slow", "a claim that takes minutes; leave it out with -m 'not slow'"),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options, all in one group, and their ini settings."""
    group = parser.getgroup("vperf", "performance claims (pytest-vperf)")
    group.addoption(
        "--hw",
        dest="claims_hw",
        metavar="NAME",
        help="hardware profile to judge by; 'auto' matches this machine's fingerprint; "
        "the profile 'any' is always added (default: auto; ini: claims_hw)",
    )
    group.addoption(
        "--claims-strict",
        action="store_true",
        default=None,
        help="fail claims that end inconclusive, not comparable or not measured (ini: claims_strict)",
    )
    group.addoption(
        "--claims-advisory",
        action="store_true",
        default=None,
        help="judge and report, but never fail a test for a verdict (ini: claims_advisory)",
    )
    _add_judge_options(group)
    group.addoption(
        "--claims-json",
        metavar="FILE",
        help="write every claim with its verdict and all its samples to FILE (ini: claims_json)",
    )
    group.addoption(
        "--claims-thresholds",
        metavar="DIR",
        action="append",
        help="folder of threshold files, may be repeated; wins over the shipped ones "
        "(default: thresholds/ in the root folder; ini: claims_thresholds)",
    )
    group.addoption(
        "--claims-seed",
        metavar="N",
        help="seed of the random order of comparisons (default: drawn per run, and recorded; "
        "ini: claims_seed)",
    )
    group.addoption(
        "--container-runtime",
        metavar="NAME[,NAME]",
        action="append",
        help="OCI runtime for containers, such as runc or runsc; tests that ask for containers run "
        f"once for each (default: {DEFAULT_RUNTIME}; ini: container_runtime)",
    )
    group.addoption(
        "--container-image",
        metavar="REF|FILE.tar",
        help="image for containers and pods: a reference the engine has, or a file written by "
        "'docker export' (default: a small one, and one with tools for tests that use them, built locally; "
        "ini: container_image)",
    )
    group.addoption(
        "--host-tools",
        action="store_true",
        default=None,
        help="run the tools that are installed on the host, instead of those of the image in place; what they "
        "measure is then compared with other builds only where a test says so (ini: host_tools)",
    )
    group.addoption(
        "--guest-kernel",
        metavar="FILE",
        help="kernel that pods boot (default: the distribution's cloud kernel; ini: guest_kernel)",
    )
    group.addoption(
        "--kernel",
        dest="new_kernel",
        metavar="FILE",
        help="kernel in question of the claims marked 'kernel', which compare it with another one (ini: new_kernel)",
    )
    group.addoption(
        "--baseline-kernel",
        metavar="FILE",
        help="kernel that it is compared with (default: what pods boot otherwise, see --guest-kernel; "
        "ini: baseline_kernel)",
    )
    group.addoption(
        "--accelerator",
        dest="pod_accelerator",
        metavar="NAME[,NAME]",
        action="append",
        help=f"accelerator for pods: {', '.join(ACCELERATORS)} (default: auto; ini: pod_accelerator)",
    )
    group.addoption(
        "--start-timeout",
        metavar="TIME",
        help="time one pod may take to start before it is given up "
        f"(default: {DEFAULT_START_TIMEOUT}; ini: start_timeout)",
    )
    group.addoption(
        "--density-memory",
        metavar="SIZE",
        help="memory of this host that the targets of a test of density may take, all together, such as '6 GiB' "
        "(default: all that is available but the reserve, see --density-floor; ini: density_memory)",
    )
    group.addoption(
        "--density-max",
        metavar="N",
        help="how many targets such a test starts at most (default: as many as fit; ini: density_max)",
    )
    group.addoption(
        "--density-floor",
        metavar="SIZE",
        help="memory that the host keeps available meanwhile (default: 512 MiB, on a small host an eighth of its "
        "memory; of domUs' hypervisor nothing; ini: density_floor)",
    )
    for name in ("memory", "max", "floor"):
        parser.addini(f"density_{name}", f"default of --density-{name}")
    group.addoption(
        "--scale-count",
        metavar="N",
        help="how many targets run at once in the claims marked 'scale'; a published figure is of a hundred, and is "
        f"judged with a hundred alone (default: {DEFAULT_SCALE_COUNT}; ini: scale_count)",
    )
    parser.addini("scale_count", "default of --scale-count")
    group.addoption(
        "--on",
        metavar="URL",
        help="machine that every target is started on: ssh://[user@]host[:port], with its own Docker engine, QEMU "
        "and libvirt, or lab:KIND, a host inside QEMU, see 'vperf lab' (default: this machine; ini: on)",
    )
    parser.addini("on", "default of --on")
    group.addoption(
        "--load-host",
        metavar="URL",
        help="the other host of network tests: 'embedded', a network namespace of this machine, or "
        "ssh://[user@]host[:port], a machine where the tools are installed (default: embedded; ini: load_host)",
    )
    group.addoption(
        "--libvirt-uri",
        metavar="URI",
        action="append",
        help="libvirt daemon that guests are started through, such as qemu:///system or "
        "qemu+ssh://root@HOST/system, or domUs, such as xen+ssh://root@HOST/; may be given once for each "
        "(default: this machine's, or one started for the run; ini: libvirt_uri)",
    )
    parser.addini("libvirt_uri", "default of --libvirt-uri", type="args", default=[])
    group.addoption(
        "--lab",
        metavar="KIND[,KIND]",
        action="append",
        help=f"use a host inside QEMU where this machine is none of that kind: {', '.join(LABS)}; see 'vperf lab' "
        "(default: none; ini: lab)",
    )
    parser.addini("lab", "default of --lab")
    parser.addini("load_host", "default of --load-host")
    parser.addini("start_timeout", "default of --start-timeout")
    parser.addini("claims_hw", "default of --hw")
    parser.addini("claims_strict", "default of --claims-strict", type="bool", default=False)
    parser.addini("claims_advisory", "default of --claims-advisory", type="bool", default=False)
    for key in (*JUDGE_DEFAULTS, "sessions"):
        parser.addini(f"claims_{key}", f"default of --claims-{key}")
    parser.addini("claims_json", "default of --claims-json, seen from the root folder")
    parser.addini(
        "claims_thresholds",
        "default of --claims-thresholds, seen from the root folder",
        type="args",
    )
    parser.addini("claims_seed", "default of --claims-seed")
    parser.addini("container_runtime", "default of --container-runtime")
    parser.addini("container_image", "default of --container-image")
    parser.addini("host_tools", "default of --host-tools", type="bool", default=False)
    parser.addini("guest_kernel", "default of --guest-kernel, seen from the root folder")
    parser.addini("new_kernel", "default of --kernel, seen from the root folder")
    parser.addini("baseline_kernel", "default of --baseline-kernel, seen from the root folder")
    parser.addini("pod_accelerator", "default of --accelerator")


def _add_judge_options(group: pytest.OptionGroup) -> None:
    """How claims are judged; the keys are those of ``judge`` in a threshold file and of the marker."""
    for key, metavar, meaning in (
        (
            "tolerance",
            "PERCENT",
            "how much worse counts as no worse, and how far as near, such as '2 %%' or 0.02; published limits and "
            "ratios are widened by nothing. Of these five settings the more specific wins: judge in the threshold "
            "file, then the marker vperf, then the option, then the ini file; --claims-budget comes before all",
        ),
        (
            "alpha",
            "CHANCE",
            "greatest chance that any true claim is refuted, in the run as a whole: each test that asks for claims "
            "has an equal share of it. Its first claim gets that share, the k-th one from the second on 1/(k(k+1)) "
            "of it, all later claims together at most half a share more: the run errs with at most alpha where each "
            "test has one claim, and with at most 1.5 alpha where tests have several",
        ),
        ("beta", "CHANCE", "greatest chance that an untrue claim holds, of each claim"),
        ("pairs", "N", "greatest number of pairs of a comparison, or of samples of a limit"),
        ("budget", "TIME", "time one claim may sample, such as '60 s' or '2 min'"),
    ):
        default = JUDGE_DEFAULTS[key].replace("%", "%%")
        group.addoption(
            f"--claims-{key}",
            metavar=metavar,
            help=f"{meaning} (default: {default}; ini: claims_{key})",
        )
    group.addoption(
        "--claims-sessions",
        metavar="N",
        help="in how many sessions, spread over the run, a limit is judged: 3, or 1 to judge it at once, which is "
        f"marked as weaker (default: {DEFAULT_SESSIONS}; ini: claims_sessions)",
    )


#: The options, as pytest keeps them; their ini settings have the same names.
_NAMES = (
    *(f"claims_{key}" for key in JUDGE_DEFAULTS),
    *("claims_sessions", "claims_hw", "claims_strict", "claims_advisory", "claims_json"),
    *("claims_thresholds", "claims_seed", "container_runtime", "container_image"),
    *("lab", "host_tools", "on", "load_host", "libvirt_uri"),
    *("new_kernel", "baseline_kernel"),
    *("guest_kernel", "pod_accelerator", "start_timeout", "scale_count"),
    *("density_memory", "density_max", "density_floor"),
)


def given_on_command_line(config: pytest.Config) -> bool:
    """Whether any option of the plugin was given, and is to be checked although nothing may claim."""
    return any(config.getoption(name) is not None for name in _NAMES)


def given_in_ini(config: pytest.Config) -> bool:
    """Whether any setting of the plugin was given in the ini file, or with ``-o``."""
    try:
        return any(config.getini(name) for name in _NAMES)
    except (TypeError, ValueError, pytest.UsageError):
        return True  # one is not understood; reading the settings says which
