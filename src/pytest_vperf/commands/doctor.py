"""``vperf doctor``: what is usable on this machine, what is not and why, and the command that fixes it.

Every answer comes from the code that would use the feature, such as a target's own check; the doctor never guesses.
Only the requested checks are made.

A container is started with each runtime, since an installed one may still fail to start anything, e.g. because of
this host's control groups. For domUs it only checks that this machine is a Xen host with libvirt.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.machine import cache
from pytest_vperf.machine import checks as hazards
from pytest_vperf.machine import checks as tools
from pytest_vperf.machine.lock import LockTimeout, measuring
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.run import doors
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.container import engine as engines
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen.domus import need_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_vperf.targets.container.engine import Engine


def check(runtimes: Sequence[str] = ("runc",)) -> list[Readiness]:
    """Check whether containers start here, and with which runtimes; if no engine answers, in a private one.

    Waits for a measurement in progress.

    Returns:
        ``container`` for the engine, then ``container RUNTIME`` for each.
    """
    quick = engines.check(runtimes)
    if not quick[0].usable:
        return quick
    try:
        # Starting containers would disturb a measurement in progress.
        with measuring(), Run.begin() as run, engines.Engine.connect(run) as engine:
            rootfs = image.import_into(engine.client, image.default_rootfs())
            why = quick[0].why if engine.private else engine.description
            return [
                Readiness("container", True, why),
                *(_started(engine, run, rootfs, answer) for answer in quick[1:]),
            ]
    except (TargetError, LockTimeout) as error:
        missing = _refusal("container", error)
        return [missing, *(dataclasses.replace(missing, name=each.name) for each in quick[1:])]


def _started(engine: Engine, run: Run, rootfs: str, quick: Readiness) -> Readiness:
    """The answer for one runtime; ``quick`` is the result of its quick check."""
    if not quick.usable:
        return quick
    runtime = quick.name.removeprefix("container ")
    scope = Scope()
    try:
        Containers(lambda: engine, run, scope, runtime=runtime, rootfs=lambda _: rootfs).start()
    except TargetError as error:
        return _refusal(quick.name, error)
    finally:
        scope.close_since()
    return quick


def _refusal(name: str, error: TargetError | LockTimeout) -> Readiness:
    if isinstance(error, Unavailable):
        return Readiness(name, False, error.reason, error.remedy)
    return Readiness(name, False, " ".join(str(error).split()))


NAME = "domu"


def preflight_check() -> Readiness:
    """Check whether domUs can be started on this machine."""
    from pytest_vperf.targets.libvirt import connect
    from pytest_vperf.targets.libvirt.connection import Connection

    try:
        connect.need_dom0()
        connection = Connection.open(connect.XEN)
        try:
            need_mode(connection, "pv")
            hypervisor = connection.versions()["hypervisor"]
        finally:
            connection.close()
    except Unavailable as error:
        return Readiness(NAME, False, error.reason, error.remedy)
    except TargetError as error:
        return Readiness(NAME, False, str(error), "start libvirtd, as root")
    return Readiness(NAME, True, f"{hypervisor}, libvirt answers")


USABLE, NOT_USABLE, USAGE_ERROR = 0, 1, 2
#: Runtimes that are always checked; others only if installed.
USUAL_RUNTIMES = ("runc", "runsc")
DEFAULT_RUNTIME = "runc"
#: The name of the check for noise, which is informative: it never ends as "not usable".
NOISE = "noise"
POD_NAMES = (
    "pod",
    "accelerator kvm",
    "accelerator tcg",
    "accelerator xen",
    "firmware qboot",
    "firmware seabios",
)
GUEST_NAMES = ("guest", "guests with kvm", "guests with tcg")


@dataclass(frozen=True)
class Check:
    """A check and the names it answers for.

    Attributes:
        names: the names of the answers, known before the check runs.
        make: runs the check.
        waiting: shown on a terminal meanwhile; empty for a quick check.
    """

    names: tuple[str, ...]
    make: Callable[[], Sequence[Readiness]]
    waiting: str = ""


def run(
    names: Sequence[str] = (),
    *,
    json: bool = False,
    guest_kernel: Path | None = None,
    runtimes: Sequence[str] = (),
) -> int:
    """Check, print the answers, and return the exit status.

    Args:
        names: the names to check, in full (``accelerator kvm``) or without the first word (``kvm``); all if empty.
        json: print JSON instead of a table.
        guest_kernel: the kernel that pods boot; ``None`` means the distribution's.
        runtimes: OCI runtimes to check; if empty, the usual ones. ``container`` means the engine and these, or runc.

    Returns:
        With names: 0 if all are usable. Without: 0 if containers or pods are. Else 1; 2 for an unknown name.

    Raises:
        PermissionError: the cache folder is not this user's.
    """
    checks = all_checks(guest_kernel, runtimes)
    known = [name for check in checks for name in check.names]
    wanted: list[str] = []
    for name in names:
        meant = full_names(name, known, runtimes or (DEFAULT_RUNTIME,))
        if not meant:
            print(foreign_text.lines(_unknown(name, known)), file=sys.stderr)
            return USAGE_ERROR
        wanted += [full for full in meant if full not in wanted]
    cache.root()  # no check is of use without a cache folder
    answers = ask(checks, wanted)
    usable = is_well(answers, wanted)
    if json:
        document = {"usable": usable, "checks": [asdict(answer) for answer in answers]}
        print(foreign_text.to_json(document, indent=1))
    else:
        _print(answers)
    return USABLE if usable else NOT_USABLE


def all_checks(guest_kernel: Path | None, runtimes: Sequence[str]) -> list[Check]:
    """Every check, in the order of the report."""
    from pytest_vperf.targets.image import debian
    from pytest_vperf.workloads.registry import TOOLS, packages_of

    packages = packages_of(TOOLS)
    return [
        Check(("host",), lambda: [Readiness("host", True, "commands run on this machine itself")]),
        _containers(tuple(runtimes)),
        Check(POD_NAMES, lambda: _pods(guest_kernel), "probing pods, which starts some …"),
        Check(GUEST_NAMES, lambda: _guests(guest_kernel), "probing guests, which starts one …"),
        Check(("domu",), _domus),
        *_of_packages(),
        Check(("lab",), _labs),
        Check((debian.NAME, *packages), lambda: debian.check(packages)),
        Check(("libvirt-python", "libvirt"), tools.check_libvirt),
        Check(("openvswitch",), lambda: [_open_vswitch()]),
        Check(("python packages",), lambda: [tools.check_packages()]),
        Check((hazards.KVM_DEVICE,), lambda: [hazards.check_kvm_device()]),
        Check((NOISE,), lambda: [_noise()]),
    ]


def _of_packages() -> list[Check]:
    """The checks of kinds of targets from other packages."""
    try:
        kinds = doors.installed_kinds()
    except Exception as error:  # whatever a package may raise
        name, why = f"group {doors.GROUP}", f"{type(error).__name__}: {error}"
        broken = Readiness(name, False, f"a package of it cannot be imported: {why}")
        return [Check((name,), lambda: [broken])]
    return [Check((kind.name,), kind.check) for kind in kinds if kind.check is not None]


def _noise() -> Readiness:
    """What makes this machine noisy; it stays usable."""
    from pytest_vperf.machine.noise_warnings import look

    found = look()
    if not found:
        return Readiness(NOISE, True, "nothing was found that makes this machine noisy")
    return Readiness(NOISE, True, "; ".join(each.short for each in found), "vperf doctor --tune")


def _containers(runtimes: tuple[str, ...]) -> Check:
    from pytest_vperf.targets.container import runtimes as oci_runtimes

    asked = runtimes or tuple(dict.fromkeys((*USUAL_RUNTIMES, *oci_runtimes.installed())))

    def make() -> list[Readiness]:

        return check(asked)

    names = ("container", *(f"container {runtime}" for runtime in asked))
    return Check(names, make, "probing containers …")


def _pods(guest_kernel: Path | None) -> list[Readiness]:
    from pytest_vperf.targets.pod import probe

    return probe.check(guest_kernel)


def _domus() -> list[Readiness]:

    return [preflight_check()]


def _labs() -> list[Readiness]:
    from pytest_vperf.lab import labs

    return [labs.check()]


def _open_vswitch() -> Readiness:
    from pytest_vperf.targets.network import open_vswitch

    return open_vswitch.check()


def _guests(guest_kernel: Path | None) -> list[Readiness]:
    from pytest_vperf.targets.guest import probe

    return probe.check(guest_kernel)


def full_names(name: str, known: Sequence[str], runtimes: Sequence[str]) -> list[str]:
    """The full names that a name on the command line stands for; empty if it is unknown.

    Args:
        name: as given: a full name, its last word, or ``container``.
        known: every full name.
        runtimes: the runtimes that ``container`` includes, besides the engine itself.
    """
    if name == "container":
        return ["container", *(f"container {runtime}" for runtime in runtimes)]
    if name in known:
        return [name]
    return [full for full in known if full.endswith(f" {name}") and full.count(" ") == 1]


def _unknown(name: str, known: Sequence[str]) -> str:
    short = [full.split(" ", 1)[1] for full in known if full.startswith("accelerator ")]
    near = difflib.get_close_matches(name, [*short, *known], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    lines = [
        f"vperf doctor: unknown name {name!r}.{hint} Known names:",
        f"  {', '.join(known)}",
        "The first of two words may be left out: kvm is 'accelerator kvm'. "
        "Name other runtimes with --container-runtime.",
    ]
    return "\n".join(lines)


def ask(checks: Sequence[Check], wanted: Sequence[str]) -> list[Readiness]:
    """The answers for the wanted names, in the order of the report; all answers if no name is given."""
    answers: list[Readiness] = []
    for check in checks:
        chosen = [name for name in check.names if name in wanted]
        if wanted and not chosen:
            continue
        found = _make(check)
        if not wanted:
            answers += found
            continue
        by_name = {answer.name: answer for answer in found}
        silent = "its check gave no answer"
        answers += [by_name.get(name, Readiness(name, False, silent)) for name in chosen]
    return answers


def _make(check: Check) -> Sequence[Readiness]:
    from pytest_vperf.reporting.console import waiting_line

    with waiting_line(check.waiting):
        try:
            return check.make()
        except Exception as error:  # a broken check must not hide the answers of the others
            words = " ".join(str(error).split()) or type(error).__name__
            return [Readiness(name, False, f"the check failed: {words}") for name in check.names]


def is_well(answers: Sequence[Readiness], wanted: Sequence[str]) -> bool:
    """Whether all wanted names are usable; without any, whether containers or pods are."""
    if wanted:
        return all(answer.usable for answer in answers)
    return any(
        answer.usable and (answer.name == "pod" or answer.name.startswith("container "))
        for answer in answers
    )


def _print(answers: Sequence[Readiness]) -> None:
    from rich.text import Text

    from pytest_vperf.reporting.console import print_table

    def state(answer: Readiness) -> Text:
        if answer.name == NOISE:
            return Text("noisy", "yellow") if answer.remedy else Text("quiet", "green")
        return Text(*states[answer.usable])

    states = {True: ("usable", "green"), False: ("not usable", "red")}
    print_table(
        ("name", "", "why", "to mend it"),
        [(answer.name, state(answer), answer.why, answer.remedy) for answer in answers],
    )
