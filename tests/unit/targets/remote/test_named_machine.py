"""Machines that are known by SSH alone, with a program in place of ssh that runs the commands here."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, Facts, TargetError, Unavailable
from pytest_vperf.targets.remote import address, named
from pytest_vperf.targets.remote.machine import RemoteMachine
from pytest_vperf.targets.remote.named import NamedMachine, Reached, System
from pytest_vperf.targets.remote.systems import HOST, LOOK, SYSTEMS, Shown, contradiction
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "hypervisor", "container", "wrong"),
    [
        ("esxi", "vmware", "", ""),
        ("xenserver", "xen", "", ""),
        ("hyperv", "hyperv", "", ""),
        ("openvz", "none", "openvz", ""),
        ("openvz", "kvm", "openvz", ""),
        ("lxc", "none", "lxc", ""),
        ("esxi", "kvm", "", "it shows no hypervisor of that name (vmware), but hypervisor kvm"),
        ("esxi", "none", "", "it shows no hypervisor of that name (vmware), but no hypervisor"),
        (
            "hyperv",
            "unknown",
            "",
            "it shows no hypervisor of that name (hyperv), but hypervisor unknown",
        ),
        (
            "esxi",
            "vmware",
            "lxc",
            "it is a container, by what it shows: container lxc, hypervisor vmware",
        ),
        ("openvz", "none", "", "it shows no container of openvz, but no hypervisor"),
        (
            "openvz",
            "none",
            "lxc",
            "it shows no container of openvz, but container lxc, no hypervisor",
        ),
        # What is nobody's name can be anything.
        ("bhyve", "unknown", "", ""),
        ("mine", "none", "podman", ""),
        (HOST, "none", "", ""),
        (HOST, "kvm", "docker", ""),
    ],
)
def test_a_system_s_name_is_for_machines_that_show_it(
    name: str, hypervisor: str, container: str, wrong: str
) -> None:
    assert contradiction(name, Shown(hypervisor, container)) == wrong


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_system_of_the_document_is_taken_at_its_word(name: str) -> None:
    assert contradiction(name, Shown("none", ""))
    assert contradiction(name, Shown("unknown", ""))


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ((), ""),
        (("proc/vz",), "openvz"),
        (("proc/vz", "proc/bc"), ""),
        (("run/systemd/container=systemd-nspawn",), "systemd-nspawn"),
        ((".dockerenv",), "docker"),
        (("run/.containerenv",), "podman"),
        (("proc/1/environ=A=b\0container=lxc\0",), "lxc"),
        (("proc/1/environ=A=b\0",), ""),
        (("proc/1/environ=container=lxc\0", "run/systemd/container=lxc-libvirt"), "lxc-libvirt"),
    ],
)
def test_containers_are_told_by_their_own_files(
    tmp_path: Path, files: tuple[str, ...], container: str
) -> None:
    for each in files:
        name, _, content = each.partition("=")
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    script = LOOK
    for folder in ("/proc/vz", "/proc/bc", "/proc/1/", "/run/", "/.dockerenv"):
        script = script.replace(folder, f"{tmp_path}{folder}")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    namespace, *said = done.stdout.splitlines()
    assert said == ([container] if container else [])
    assert re.fullmatch(r"pid:\[\d+\] \d+:\d+", namespace)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh_in_place: Path) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    with Run.begin() as run:
        yield run


@pytest.fixture
def machine(run: Run) -> Iterator[RemoteMachine]:
    made = RemoteMachine(address.of_url("ssh://root@guest"), run, say=lambda _: None)
    yield made
    made.close()


@pytest.fixture
def scope() -> Iterator[Scope]:
    scope = Scope()
    yield scope
    scope.close_since()


@pytest.fixture
def system(run: Run, scope: Scope, machine: RemoteMachine) -> Callable[..., System]:
    """Makes a system of what its machines show, by their addresses."""

    def make(name: str, addresses: dict[str, tuple[str, ...]], **shows: Shown) -> System:
        def reach(url: str) -> Reached:
            host = url.partition("@")[2]
            if host == "gone":
                raise CannotConnect("root@gone: ssh cannot reach gone", target="root@gone")
            shown = shows.get(host, Shown("vmware", ""))
            # Two addresses of one machine have names that begin alike.
            return Reached(machine, shown, host[:1], {"clock_rate": "1.0000"})

        return System(name, addresses, reach, run, scope, rootfs=None, client=lambda _: machine.ssh)

    return make


def test_the_first_one_answers_and_the_others_load(system: Callable[..., System]) -> None:
    esxi = system("esxi", {"esxi": ("ssh://root@a", "ssh://root@b", "ssh://root@c")})
    target = esxi.reach()
    assert target.name == "machine esxi"
    assert [each.name for each in esxi.loaders()] == [
        "machine esxi, loader 1",
        "machine esxi, loader 2",
    ]
    facts = target.facts()
    assert (facts.kind, facts.details["system"]) == ("machine", "esxi")
    assert facts.details["clock_rate"] == "1.0000"
    assert facts.details["on"] == "root@guest"
    assert target.run(["echo", "hello"]).text == "hello\n"
    with pytest.raises(Unavailable, match="usage of a machine reached by SSH is unknown"):
        target.usage()


def test_what_was_not_named_says_how_to_name_it(system: Callable[..., System]) -> None:
    esxi = system("esxi", {"esxi": ("ssh://root@a",)})
    with pytest.raises(
        Unavailable,
        match=r"^no machine was named to load the host of machine esxi \(to mend it:"
        r" --vperf-machine=esxi=ssh://USER@OTHER, again for each of them, after the one that answers\)$",
    ):
        esxi.loaders()
    with pytest.raises(
        Unavailable,
        match=r"^no machine of the name host is known \(to mend it: --vperf-machine=host=ssh://USER@HOST"
        r" names one\)$",
    ) as caught:
        esxi.host()
    assert caught.value.target == "host of machine esxi"
    with pytest.raises(Unavailable, match=r"^no machine of the name openvz is known"):
        system("openvz", {"esxi": ("ssh://root@a",)}).reach()


def test_a_machine_of_another_system_is_refused(system: Callable[..., System]) -> None:
    esxi = system("esxi", {"esxi": ("ssh://root@a", "ssh://root@b")}, b=Shown("kvm", ""))
    esxi.reach()
    with pytest.raises(
        Unavailable,
        match=r"^ssh://root@b is named esxi, and it shows no hypervisor of that name \(vmware\), but hypervisor"
        r" kvm \(to mend it: --vperf-machine=NAME=ssh://root@b, with another name\)$",
    ):
        esxi.loaders()


def test_a_machine_does_not_load_itself(system: Callable[..., System]) -> None:
    """By another of its addresses."""
    esxi = system("esxi", {"esxi": ("ssh://root@a", "ssh://root@alias")})
    with pytest.raises(
        TargetError,
        match=r"^machine esxi: ssh://root@a and ssh://root@alias are one machine: name each once$",
    ):
        esxi.loaders()


@pytest.mark.parametrize("host", ["ssh://root@alias", "ssh://root@a", "ssh://root@beta"])
def test_a_machine_is_not_its_own_host(system: Callable[..., System], host: str) -> None:
    """Nor is one that loads the host: what a system adds would be nothing."""
    esxi = system("esxi", {"esxi": ("ssh://root@a", "ssh://root@b"), HOST: (host,)})
    with pytest.raises(
        TargetError, match=rf"^machine esxi: {host} and ssh://root@. are one machine"
    ):
        esxi.host()


def test_one_that_cannot_be_reached_is_an_error_of_its_own(system: Callable[..., System]) -> None:
    with pytest.raises(CannotConnect, match="ssh cannot reach gone"):
        system("esxi", {"esxi": ("ssh://root@gone",)}).reach()


def test_only_machines_with_one_kind_of_processor_are_compared(
    system: Callable[..., System], monkeypatch: pytest.MonkeyPatch
) -> None:
    esxi = system("esxi", {"esxi": ("ssh://root@a",)})
    ours, theirs = esxi.reach(), esxi.reach()
    ours.check_alike(theirs)
    other = Facts("machine", "machine hyperv", {"on_cpu_model": "Xeon"})
    found = Facts("machine", "machine esxi", {"on_cpu_model": "EPYC"})
    monkeypatch.setattr(NamedMachine, "facts", lambda self: other if self is theirs else found)
    with pytest.raises(Unavailable, match=r"^machine esxi has a processor EPYC, and .* has Xeon: "):
        ours.check_alike(theirs)


def test_what_a_machine_shows_is_in_its_record(machine: RemoteMachine) -> None:
    reached = named.look(machine, {"clock_rate": "1.0000"})
    assert reached.details["shows"] == str(reached.shown)
    assert reached.identity.startswith(machine.boot_id)
    assert ("emulated" in reached.details) == machine.fingerprint.emulated
