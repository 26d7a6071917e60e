"""Where guests get KVM: the named daemon, then this machine, then a lab; always reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.libvirt.connect import KvmHost, choose_kvm

if TYPE_CHECKING:
    from pytest_vperf.targets.libvirt.daemon import Daemon

WORKS = Readiness("kvm", True, "it works")
BROKEN = Readiness("kvm", False, "it hangs", "another host")


class Daemons:
    """The available daemons with the state of their KVM; records which were tried."""

    def __init__(self, local: Readiness = WORKS, **kvm: Readiness) -> None:
        self._local, self._kvm = local, kvm
        self.looked: list[str] = []

    def _at(self, name: str) -> Daemon | None:
        self.looked.append(name)
        return cast("Daemon", name) if name in self._kvm else None

    def _probe(self, daemon: Any) -> Readiness:
        self.looked.append(f"probe {daemon}")
        return self._kvm[daemon]

    def _find_local(self) -> Readiness:
        self.looked.append("local")
        return self._local

    def choose(self) -> KvmHost:
        return choose_kvm(
            named=lambda: self._at("named"),
            local=self._find_local,
            here=lambda: cast("Daemon", self._at("here")),
            lab=lambda: self._at("lab"),
            probe=self._probe,
        )


@pytest.mark.parametrize("kvm", [WORKS, BROKEN])
def test_a_named_daemon_is_never_replaced(kvm: Readiness) -> None:
    daemons = Daemons(named=kvm, here=WORKS, lab=WORKS)
    assert daemons.choose() == KvmHost(cast("Daemon", "named"), kvm)
    assert daemons.looked == ["named", "probe named"]


def test_this_machine_comes_before_a_lab() -> None:
    daemons = Daemons(here=WORKS, lab=WORKS)
    assert daemons.choose() == KvmHost(cast("Daemon", "here"), WORKS)
    assert "lab" not in daemons.looked


def test_a_machine_without_kvm_starts_no_daemon() -> None:
    daemons = Daemons(BROKEN, here=WORKS, lab=WORKS)
    assert daemons.choose() == KvmHost(cast("Daemon", "lab"), WORKS)
    assert daemons.looked == ["named", "local", "lab", "probe lab"]


def test_a_lab_is_chosen_where_the_local_daemon_has_no_kvm() -> None:
    daemons = Daemons(here=BROKEN, lab=WORKS)
    assert daemons.choose() == KvmHost(cast("Daemon", "lab"), WORKS)
    assert daemons.looked == ["named", "local", "here", "probe here", "lab", "probe lab"]


def test_a_failing_lab_is_reported_as_the_answer() -> None:
    assert Daemons(BROKEN, lab=BROKEN).choose() == KvmHost(cast("Daemon", "lab"), BROKEN)


@pytest.mark.parametrize(
    ("daemons", "remedy"),
    [
        (
            Daemons(BROKEN),
            "another host; or --vperf-lab=kvm, which starts a host with KVM inside QEMU",
        ),
        (
            Daemons(here=BROKEN),
            "another host; or --vperf-lab=kvm, which starts a host with KVM inside QEMU",
        ),
        (
            Daemons(Readiness("kvm", False, "it hangs")),
            "--vperf-lab=kvm, which starts a host with KVM inside QEMU",
        ),
    ],
    ids=["machine", "daemon", "no remedy"],
)
def test_without_kvm_anywhere_the_remedy_is_given(daemons: Daemons, remedy: str) -> None:
    assert daemons.choose() == KvmHost(
        None, Readiness("guest kvm", False, "no KVM here: it hangs", remedy)
    )
