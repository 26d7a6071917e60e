"""A limit is set completely or not at all, and missing requirements are reported."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine.networks import namespace_name
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network import commands, link
from pytest_vperf.targets.network.commands import ip, ip_json
from pytest_vperf.targets.network.link import Port
from pytest_vperf.targets.network.switch import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def port() -> Iterator[Port]:
    """A pair of links in its own namespace."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    try:
        namespace = Namespace.create(namespace_name(secrets.token_hex(4), "unit"))
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        pair = ("type", "veth", "peer", "name", "q")
        ip("link", "add", "p", *pair, namespace=namespace.path)
        yield Port(namespace.path, "p", "i")
    finally:
        namespace.delete()


def links(port: Port) -> set[str]:
    found = {entry["ifname"] for entry in ip_json("link", "show", namespace=port.namespace)}
    return found - {"lo"}


@pytest.mark.parametrize(
    "interruption", [TargetError("the kernel has no u32"), KeyboardInterrupt()]
)
def test_a_limit_that_fails_half_way_is_rolled_back(
    port: Port, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    real = commands.tc

    def fail(*words: str, namespace: Path) -> str:
        if words[0] == "filter":
            raise interruption
        return real(*words, namespace=namespace)

    with monkeypatch.context() as context:
        context.setattr(link, "tc", fail)
        with pytest.raises(type(interruption)):
            link.limit_rate(port, "100 Mbit/s")
    assert links(port) == {"p", "q"}
    assert link.rate_in_force(port) is None
    try:
        assert link.limit_rate(port, "100 Mbit/s").value == 100_000_000
    except Unavailable as error:
        pytest.skip(str(error))
    link.lift_rate_limit(port)
    link.lift_rate_limit(port)
    assert links(port) == {"p", "q"}


# As Linux and iproute2 6.1 say it.
@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Error: Unknown device type.", "modprobe"),
        ("Error: Specified qdisc kind is unknown.", "modprobe"),
        ("Error: TC classifier not found. We have an error talking to the kernel", "modprobe"),
        ("Error: Failed to load TC action module.", "modprobe"),
        ("RTNETLINK answers: Operation not permitted", "--privileged"),
        ("mount --make-shared /run/netns failed: Permission denied", "--privileged"),
    ],
)
def test_targets_that_this_machine_lacks_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, remedy: str
) -> None:
    program = tmp_path / "ip"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="ip link add x: ") as caught:
        ip("link", "add", "x")
    assert remedy in caught.value.remedy


def test_another_refusal_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ip"
    program.write_text(
        "#!/bin/sh\n[ $1 = -j ] && echo hello && exit 0\necho 'File exists' >&2\nexit 2\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="ip link add x: File exists") as caught:
        ip("link", "add", "x")
    assert not isinstance(caught.value, Unavailable)
    with pytest.raises(TargetError, match="ip's output is not understood: hello"):
        ip_json("link", "show")


@pytest.mark.parametrize("missing", ["ip", "nsenter"])
def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def find(name: str) -> Any:
        return None if name == missing else f"/usr/bin/{name}"

    monkeypatch.setattr(commands, "find_program", find)
    with pytest.raises(Unavailable, match=f"^{missing} is not installed .*apt-get install"):
        ip("link", "show", namespace=Path("/run/netns/none"))
