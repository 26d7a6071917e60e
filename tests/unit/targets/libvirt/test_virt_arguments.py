"""Arguments of a full machine are checked before any daemon is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.quantity import QuantityError
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.libvirt.domain import memory_mib_of, vcpus_of
from pytest_vperf.targets.xen.domus import Domus
from pytest_vperf.targets.xen.pods import XenPods

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.libvirt.daemon import Daemon

NONE = cast("Any", None)
#: Name in messages → makes the starter of such machines on a daemon.
KINDS: dict[str, Callable[[Callable[[], Daemon]], Any]] = {
    "guest kvm": lambda daemon: Guests(daemon, NONE, NONE, NONE),
    "guest tcg": lambda daemon: Guests(daemon, NONE, NONE, NONE, accelerator="tcg"),
    "domu pv": lambda daemon: Domus(daemon, NONE, NONE, NONE),
    "pod xen": lambda daemon: XenPods(daemon, NONE, NONE),
}


def unasked() -> Daemon:
    pytest.fail("a daemon was looked for")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"vcpus": 0}, "vcpus is 0, not a whole number of at least 1"),
        ({"vcpus": 1.5}, "vcpus is 1.5, not a whole number of at least 1"),
        ({"memory": "1 KiB"}, "memory is '1 KiB', less than 1 MiB"),
        ({"cpus": 0.0}, "cpus is 0.0: the smallest quota is 0.01 CPUs"),
        ({"cpu_shares": 1}, "cpu_shares is 1, not between 2 and 262144"),
        ({"cpuset": "x"}, "cpuset is 'x': *"),
    ],
)
def test_bad_arguments_are_refused_before_a_daemon_is_asked(
    kind: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        KINDS[kind](unasked).start(**arguments)
    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([text])


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (
            "guest kvm",
            {"init": "sysv"},
            "unknown init 'sysv': choose one of systemd, rescue, small",
        ),
        ("domu pv", {"init": ""}, "unknown init '': choose one of systemd, rescue, small"),
        ("domu pv", {"mode": "pvm"}, "unknown mode 'pvm' of a domU: choose one of pv, pvh, hvm"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(
    kind: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        KINDS[kind](unasked).start(**arguments)
    assert str(caught.value) == text


def test_an_unknown_accelerator_is_refused() -> None:
    with pytest.raises(CannotStart) as caught:
        Guests(unasked, NONE, NONE, NONE, accelerator="hvf")
    assert str(caught.value) == ("unknown accelerator 'hvf' for guests: choose one of kvm, tcg")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_daemon_is_reported_with_the_machines_kind(kind: str) -> None:
    def missing() -> Daemon:
        raise Unavailable("no libvirt here", remedy="install it")

    with pytest.raises(TargetError) as caught:
        KINDS[kind](missing).start()
    assert isinstance(caught.value, Unavailable)
    assert (caught.value.reason, caught.value.target) == ("no libvirt here", kind)


def test_emulated_kvm_allows_one_processor() -> None:
    daemon = cast("Any", SimpleNamespace(mark=" (lab kvm)", details={"emulated": "yes"}))
    with pytest.raises(Unavailable) as caught:
        Guests(lambda: daemon, NONE, NONE, NONE).start(vcpus=2)
    assert str(caught.value) == (
        "with more than one processor, guests hang where KVM is emulated itself, and their host with them"
        " (to mend it: give it one, or a host whose processor has KVM)"
    )
    assert caught.value.target == "guest kvm (lab kvm)"


@pytest.mark.parametrize("value", [True, "2", None, -1, 2.0])
def test_bad_numbers_of_processors_are_refused(value: object) -> None:
    with pytest.raises(CannotStart, match=r"^vcpus is .*, not a whole number of at least 1$"):
        vcpus_of(value)


@pytest.mark.parametrize(
    ("value", "size"), [("512 MiB", 512), ("1 GiB", 1024), ("1 GB", 954), ("1 MiB", 1)]
)
def test_accepted_memory_sizes(value: str, size: int) -> None:
    assert memory_mib_of(value) == size


@pytest.mark.parametrize("value", ["512", "much", "5 ms", ""])
def test_bad_memory_sizes_are_refused(value: str) -> None:
    with pytest.raises(QuantityError, match="memory"):
        memory_mib_of(value)
