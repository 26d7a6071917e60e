"""A neighbour on the machines' host: how it is made, and that a failure or interrupt leaves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotConnect, Completed, Facts, Unavailable
from pytest_vperf.targets.libvirt.neighbour import Neighbour
from pytest_vperf.targets.libvirt.network import Plug, VirtualLink

if TYPE_CHECKING:
    from collections.abc import Sequence


class Far:
    """The machines' host; its first command has the result ``first``."""

    name = "host (lab kvm)"

    def __init__(self, first: BaseException | int = 0) -> None:
        self.first = first
        self.told: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.told.append(argv)
        first = self.first if len(self.told) == 1 else 0
        if isinstance(first, BaseException):
            raise first
        return Completed(tuple(argv), first, b"", b"ip: File exists\n" if first else b"", 0.0)

    def facts(self) -> Facts:
        return Facts("host", self.name, {"on": "lab kvm"})


def made(far: Far, given_back: list[str], switch: str = "") -> Neighbour:
    link = VirtualLink("198.18.4.9", "n", "how", unplug=lambda: given_back.append("198.18.4.9"))
    plug = Plug("vp0a1b2c3dn0", "02:76:70:66:04:09", "198.18.4.9/24", link, switch)
    return Neighbour(far, plug, "0a1b2c3d", 7, " (lab kvm)")  # type: ignore[arg-type]


def test_a_neighbour_runs_commands_in_its_namespace_and_is_removed_once() -> None:
    far, given_back = Far(), list[str]()
    with made(far, given_back) as neighbour:
        neighbour.run(["ip", "link"])
        assert far.told[1] == [
            "nsenter",
            "--net=/run/netns/vperf-0a1b2c3d-other7",
            "--",
            "ip",
            "link",
        ]
        assert neighbour.facts().details["on"] == "lab kvm"
    neighbour.close()
    assert far.told[2][4:] == ["vperf-0a1b2c3d-other7", "vp0a1b2c3do7"]
    assert given_back == ["198.18.4.9"]


def test_a_failed_neighbour_leaves_nothing() -> None:
    far, given_back = Far(2), list[str]()
    with pytest.raises(
        Unavailable, match=r"no other host can be made on host \(lab kvm\): ip: File exists"
    ):
        made(far, given_back)
    assert far.told[1][4:] == ["vperf-0a1b2c3d-other7", "vp0a1b2c3do7"]
    assert given_back == ["198.18.4.9"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CannotConnect("ssh: gone")])
def test_an_interrupted_neighbour_leaves_nothing(error: BaseException) -> None:
    far, given_back = Far(error), list[str]()
    with pytest.raises(type(error)):
        made(far, given_back)
    assert [words[4:] for words in far.told[1:]] == [["vperf-0a1b2c3d-other7", "vp0a1b2c3do7"]]
    assert given_back == ["198.18.4.9"]


def test_on_open_vswitch_a_neighbour_has_a_port_of_the_switch() -> None:
    far, given_back = Far(), list[str]()
    with made(far, given_back, "openvswitch"):
        script, *words = [far.told[0][2], *far.told[0][4:]]
        assert 'add-port "$5" "$2" -- set Interface "$2" type=internal' in script
        assert "veth" not in script
        assert words[1:] == [
            "vp0a1b2c3do7",
            "vp0a1b2c3dq7",
            "02:76:70:66:04:09",
            "vp0a1b2c3dn0",
            "198.18.4.9/24",
        ]
    assert '--if-exists del-port "$2"' in far.told[1][2]
    assert given_back == ["198.18.4.9"]
