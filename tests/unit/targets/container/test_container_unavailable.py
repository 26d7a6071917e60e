"""An unavailable container is reported with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import Once, Unavailable
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.container.engine import Engine


def test_a_missing_engine_is_reported_with_the_containers_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path))

    def connect() -> Engine:
        raise Unavailable("no engine here")

    engine = Once(connect)  # raises the same error each time
    with Run.begin() as run:
        for runtime in ("runc", "runsc"):
            containers = Containers(engine, run, Scope(), runtime=runtime, rootfs=lambda _: "")
            with pytest.raises(Unavailable, match="no engine here") as caught:
                containers.start()
            assert caught.value.target == f"container {runtime}"


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("", "the runtime has no name"),
        ("./no/such/runc", "the runtime ./no/such/runc is no program"),
        ("nosuch --flag", "the runtime nosuch is no program"),
        ("'./runc", "No closing quotation"),
    ],
)
def test_another_runtime_has_to_be_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, message: str
) -> None:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path))

    def connect() -> Engine:
        raise Unavailable("no engine here")

    with Run.begin() as run:
        containers = Containers(connect, run, Scope(), rootfs=lambda _: "")
        with pytest.raises(ValueError, match=f"^{message}$"):
            containers.of(runtime=runtime)
