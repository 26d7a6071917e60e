"""Machines that are known by SSH alone, as a user names them: a system container of LXC, and a guest of libvirt."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import lxc_here
import pytest
import ssh_login
import sshd_here
from named_here import Named, details
from ssh_login import Keys, Login, put_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from guests_here import Place

    from pytest_vperf.machine.preflight import Readiness

#: Each condition, of the shipped claims.
CONDITIONS = ("idle", "loaded_system", "loaded_both")


@pytest.fixture(scope="module")
def keys(short_folder: Path) -> Keys:
    return Keys.make(short_folder / "keys")


@pytest.fixture
def named(tmp_path: Path) -> Named:
    return Named(tmp_path)


@pytest.fixture(scope="module")
def lxc(
    short_folder: Path, keys: Keys, require: Callable[[str, Readiness], None]
) -> Iterator[list[Login]]:
    """Two containers."""
    require("host", lxc_here.check())
    with (
        lxc_here.container(short_folder / "lxc1", keys) as first,
        lxc_here.container(short_folder / "lxc2", keys) as second,
    ):
        yield [first, second]


def left() -> list[str]:
    """What runs have left here where those on other machines have their folders."""
    return sorted(str(each) for each in Path("/var/tmp").glob("vperf-????????"))


def test_a_container_of_lxc_answers_in_each_condition(named: Named, lxc: list[Login]) -> None:
    before = left()
    words = [f"lxc={each.url}" for each in lxc]
    claims = named.pytest(words, lxc, "-k", "test_a_machine_answers and lxc")
    assert [each["name"] for each in claims] == [
        f"response.{condition}.machine.lxc" for condition in CONDITIONS
    ], named.said
    for claim in claims:
        assert claim["n"] >= 1, named.said
        # Nobody publishes such a figure.
        assert claim["verdict"] == "not comparable"
        told = details(claim, "machine lxc")
        assert told["system"] == "lxc"
        assert told["shows"].startswith("container lxc, ")
        assert abs(float(told["clock_rate"]) - 1) < 0.02
        assert told["tool_netserver"].endswith("(image: /usr/bin/netserver)")
    loaded = claims[1]["targets"]
    assert "machine lxc, loader 1" in [each["name"] for each in loaded]
    # Nothing of it stays in the container, nor here.
    for each in lxc:
        login = ["ssh", "-F", str(named.folder / "ssh_config"), f"root@{each.address}"]
        found = subprocess.run(
            [*login, "ls /var/tmp; ls /tmp; cat /proc/[0-9]*/comm"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        # The lock stays, as on each machine that is measured on.
        assert "vperf" not in found.replace("vperf-measuring.lock", "")
        assert "stress-ng" not in found
        assert "netserver" not in found
    assert left() == before


def test_what_lxc_adds_to_its_host(named: Named, lxc: list[Login], short_folder: Path) -> None:
    with sshd_here.serve(short_folder / "named-host") as server:
        host = Login("127.0.0.1", server.port, Keys(short_folder / "named-host"))
        words = [*(f"lxc={each.url}" for each in lxc), f"host=ssh://127.0.0.1:{server.port}"]
        (claim,) = named.pytest(
            words, [*lxc, host], "-k", "overhead_of_a_machine and lxc and loaded_system"
        )
    assert claim["name"] == "response.loaded_system.machine_over_host.lxc"
    assert claim["n"] >= 1, named.said
    assert details(claim, "host of machine lxc")["system"] == "host"


def test_a_container_of_lxc_is_nothing_else(named: Named, lxc: list[Login]) -> None:
    words = [f"openvz={lxc[0].url}", f"esxi={lxc[1].url}"]
    claims = named.pytest(words, lxc, "-k", "machine and idle and (openvz or esxi)")
    assert claims
    for claim in claims:
        assert (claim["verdict"], claim["n"]) == ("not measured", 0), claim
    reasons = {each["name"]: each["reason"] for each in claims}
    assert reasons["response.idle.machine.openvz"].startswith(
        f"{lxc[0].url} is named openvz, and it shows no container of openvz, but container lxc, "
    )
    assert reasons["response.idle.machine.esxi"].startswith(
        f"{lxc[1].url} is named esxi, and it is a container, by what it shows: container lxc, "
    )


def test_machines_that_were_named_are_compared_with_each_other(
    named: Named, lxc: list[Login]
) -> None:
    thresholds = named.folder / "thresholds"
    thresholds.mkdir()
    (thresholds / "any.yaml").write_text(
        "hardware: {name: any, match: {}}\nclaims:\n  mine.one_over_two:\n    ratio: {at_most: 3}\n"
        "    source: {document: ours, section: one}\n"
    )
    test = named.folder / "test_mine.py"
    test.write_text(
        """
def test_one_is_as_good_as_the_other(claim, systems, netperf):
    proven = claim("mine.one_over_two")
    one, two = systems("one"), systems("two")
    first, second = one.reach(), two.reach()
    first.check_alike(second)
    client = one.other_host(first)
    with netperf.serve(first) as here, netperf.serve(second) as there:
        proven.compares(
            lambda: netperf.tcp_rr(client, to=here, time=1).time,
            to=lambda: netperf.tcp_rr(client, to=there, time=1).time,
        )


def test_a_named_machine_is_not_compared_with_this_one(claim, systems, native, sysbench):
    first = systems("one").reach()
    claim("mine.one_over_two").compares(
        lambda: sysbench.cpu(first, max_prime=1000, events=100).total_time,
        to=lambda: sysbench.cpu(native, max_prime=1000, events=100).total_time,
    )
"""
    )
    words = [f"one={lxc[0].url}", f"two={lxc[1].url}"]
    own = (f"--claims-thresholds={thresholds}", "--claims-budget=15 s")
    claims = named.pytest(words, lxc, *own, test=test)
    assert len(claims) == 2, named.said
    compared, refused = claims
    assert (compared["n"] >= 3, refused["verdict"]) == (True, "not measured"), named.said
    assert refused["reason"].startswith(
        "claim 'mine.one_over_two' would compare machines, not targets: "
    )


def test_a_guest_answers_that_is_known_by_ssh_alone(
    named: Named,
    guest_place: Place,
    keys: Keys,
    short_folder: Path,
    require: Callable[[str, Readiness], None],
) -> None:
    require("host", ssh_login.check())
    guests = guest_place.guests()
    with guests.start(network=guests.network, memory="512 MiB", init="small") as guest:
        put_server(guest, keys, short_folder)
        assert guest.link is not None
        login = Login(guest.link.address, 22, keys)  # type: ignore[attr-defined]
        login.await_answer(short_folder / "log")
        (claim,) = named.pytest(
            [f"guest={login.url}"], [login], "-k", "test_a_machine_answers and guest and idle"
        )
    assert claim["name"] == "response.idle.machine.guest"
    assert claim["n"] >= 1, named.said
    told = details(claim, "machine guest")
    # It has no clock of a hypervisor: QEMU emulates it, and its speed is that of no hardware.
    assert (told["emulated"], told["on_emulated"]) == ("yes", "yes")
    assert claim["verdict"] == "not comparable"
