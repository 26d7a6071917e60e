"""A failed container start leaves nothing, as recorded by a fake engine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from docker.errors import APIError

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotStart, Command, Completed, Unavailable
from pytest_vperf.targets.container import container as container_module
from pytest_vperf.targets.container import containers as containers_module
from pytest_vperf.targets.container import start as container_network
from pytest_vperf.targets.container.container import Container
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator


class Api:
    """A fake engine API; a container's ID is its name."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.there: set[str] = set()

    def create_host_config(self, **given: object) -> dict[str, object]:
        return given

    def create_container_config(self, *_: object, **given: object) -> dict[str, object]:
        return given

    def create_container_from_config(self, _: object, name: str) -> dict[str, str]:
        identity = name.split("-")[2]
        self.there.add(identity)
        return {"Id": identity}

    def start(self, identity: str) -> None:
        if identity.startswith(self.refused):
            raise APIError("500 Server Error", explanation="cannot do that: unknown")

    def remove_container(self, identity: str, **_: object) -> None:
        if identity not in self.there:
            raise APIError("404 Not Found")
        self.there.remove(identity)

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"State": {"Running": True, "Pid": os.getpid()}}

    def inspect_image(self, _: str) -> dict[str, Any]:
        return {"Config": {"Labels": None}}

    def exec_create(self, *_: object, **__: object) -> None:
        raise APIError("no")

    def ping(self) -> None:
        """Answer."""


class Link:
    """A link that records whether it was closed."""

    closed = False

    def details(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setattr(container_network, "namespace_of", lambda *_: tmp_path)
    with Run.begin() as run:
        yield run


def starting(api: Api, run: Run, runtime: str, **given: object) -> Containers:
    engine: Any = SimpleNamespace(
        client=SimpleNamespace(api=api),
        url="unix:///none",
        version="1",
        info={},
        machine=None,
        runtimes=lambda: {},
        runtime_version=lambda _: "",
        read=Path.read_text,
        require_runtime=lambda _: None,
        private=True,
    )
    vars(engine).update(given)
    return Containers(lambda: engine, run, Scope(), runtime=runtime, rootfs=lambda _: "image")


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
@pytest.mark.parametrize("error", [Unavailable("no disk"), KeyboardInterrupt()])
def test_a_start_that_fails_at_its_last_step_leaves_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, runtime: str, error: BaseException
) -> None:
    def fail(_: object) -> None:
        assert api.there
        raise error

    api, link = Api(), Link()
    network: Any = SimpleNamespace(join=lambda *_, **__: link)
    monkeypatch.setattr(Container, "check_devices", fail)
    with pytest.raises(type(error)):
        starting(api, run, runtime).start(network=network)
    assert api.there == set()
    assert link.closed


def test_a_refused_network_holder_leaves_nothing(run: Run) -> None:
    api = Api("network")
    network: Any = SimpleNamespace()
    with pytest.raises(CannotStart) as caught:
        starting(api, run, "runsc").start(network=network)
    words = "the holder of the network of container runsc did not start: cannot do that"
    assert str(caught.value) == words
    assert api.there == set()


def test_the_network_holder_of_a_refused_container_is_removed(run: Run) -> None:
    api, link = Api(), Link()

    def join(*_: object, **__: object) -> Link:
        assert [name.startswith("network") for name in api.there] == [True]
        api.refused = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
        return link

    network: Any = SimpleNamespace(join=join)
    with pytest.raises(CannotStart, match=r"^container runsc did not start: cannot do that$"):
        starting(api, run, "runsc").start(network=network)
    assert api.there == set()
    assert link.closed


def test_an_engine_of_ours_cannot_give_the_host_s_network(run: Run) -> None:
    with pytest.raises(Unavailable, match="is separate from the host's network") as caught:
        starting(Api(), run, "runc").start(network="host")
    assert caught.value.target == "container runc"


class Inside:
    """Commands in the containers of an engine on another machine: the boot ID is of the runtime's kernel."""

    boots: ClassVar[dict[str, str]] = {}

    def __init__(self, engine: Any, identity: str, _: object = "") -> None:
        self.runtime = engine.client.api.runtimes[identity]

    def run(self, command: Command) -> Completed:
        return Completed(command.argv, 0, f"{self.boots[self.runtime]}\n".encode(), b"", 0.0)


@pytest.mark.parametrize(
    ("boots", "kind"),
    [
        ({"runc": "there", "strange": "there"}, "container"),
        ({"runc": "there", "strange": "its own"}, "pod"),
        ({"runc": "", "strange": "there"}, "container"),  # nothing to compare it with
    ],
    ids=["container", "pod", "unknown"],
)
def test_a_kernel_is_compared_with_the_engines_wherever_that_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, boots: dict[str, str], kind: str
) -> None:
    """The socket of an engine that somebody else started may lead to another machine."""

    class There(Api):
        runtimes: ClassVar[dict[str, str]] = {}

        def create_container_config(self, *_: object, **given: Any) -> dict[str, object]:
            self.created = given["host_config"]["runtime"]
            return given

        def create_container_from_config(self, _: object, name: str) -> dict[str, str]:
            identity = super().create_container_from_config(_, name)
            self.runtimes[identity["Id"]] = self.created
            return identity

    monkeypatch.setattr(Inside, "boots", boots)
    for module in (containers_module, container_module):
        monkeypatch.setattr(module, "Exec", Inside)
    api = There()
    containers = starting(api, run, "strange", private=False)
    assert containers.kind == kind
    assert api.there == set()


def test_a_boot_id_that_cannot_be_read_makes_no_pod(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(containers_module, "_printed", lambda *_: "its own")
    assert starting(Api(), run, "strange", read=refused).kind == "container"
