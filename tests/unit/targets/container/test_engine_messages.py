"""Messages when no engine answers; no real engine is started or asked."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.container import address, engine
from pytest_vperf.targets.container.address import knock, plain
from pytest_vperf.targets.container.engine import check


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(engine, "default_sockets", lambda: [tmp_path / "docker.sock"])


def test_an_engine_that_is_named_but_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    with pytest.raises(CannotConnect) as caught:
        engine.answering_engine()
    assert str(caught.value) == (
        "the Docker engine at unix:///no/such.sock (named by DOCKER_HOST) does not answer:"
        " No such file or directory"
    )
    first, second = check(["runc"])
    assert (first.usable, first.remedy) == (False, "start that engine, or unset DOCKER_HOST")
    assert (second.name, second.why) == ("container runc", "no engine to run it")


def test_a_socket_that_this_user_may_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(engine, "knock", lambda path: refused)
    monkeypatch.setattr(engine, "_user", lambda: "ada")
    with pytest.raises(Unavailable) as caught:
        engine.answering_engine()
    assert caught.value.reason.endswith("docker.sock: permission denied")
    assert caught.value.remedy == "sudo usermod -aG docker ada, then log in again"


def test_without_root_a_missing_engine_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_program", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    readiness = check(["runc", "runsc"])
    assert [entry.name for entry in readiness] == ["container", "container runc", "container runsc"]
    assert not any(entry.usable for entry in readiness)
    assert readiness[0].why == "no Docker engine answers, and only root can start a private one"
    assert readiness[0].remedy == "sudo systemctl start docker"


def test_no_engine_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_program", lambda name: None)
    assert check([])[0].why == "no Docker engine answers, and dockerd is not installed"
    assert check([])[0].remedy == "apt-get install docker.io"


def test_an_unknown_runtime_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_program", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    container, runtime = check(["runq"])
    assert container.why == "no engine answers; a private dockerd will be started"
    assert (runtime.usable, runtime.why) == (False, "runq is not a runtime known here")


def test_the_user_s_own_engine_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert address.default_sockets() == [
        Path("/var/run/docker.sock"),
        Path("/run/user/7/docker.sock"),
    ]


def test_a_socket_is_probed_by_connecting(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert isinstance(knock(path), FileNotFoundError)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert isinstance(knock(path), ConnectionRefusedError)
        listener.listen()
        assert knock(path) is None


def test_the_innermost_error_is_shown() -> None:
    inner = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    outer = RuntimeError("HTTPConnectionPool(host='localhost', port=2375)")
    assert plain(outer) == "HTTPConnectionPool(host='localhost', port=2375)"
    outer.__cause__ = inner
    assert plain(outer) == "Connection refused"
    assert plain(RuntimeError("wrapped", ("aborted", inner))) == "Connection refused"
    assert plain(TimeoutError("timed out")) == "it took too long"
