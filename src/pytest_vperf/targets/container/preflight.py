"""What ``vperf doctor`` says about containers: one is started with each runtime.

That a runtime is installed proves little: one that does not like this host's control groups, say, refuses
when it is to start something.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_vperf.machine.lock import LockTimeout, measuring
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.container import engine as engines
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.container.engine import Engine


def check(runtimes: Sequence[str] = ("runc",)) -> list[Readiness]:
    """Whether containers can be started here, and with which runtimes; where none answers, in a private engine.

    Waits for a measurement that goes on.

    Returns:
        ``container`` for the engine, then ``container RUNTIME`` for each.
    """
    quick = engines.check(runtimes)
    if not quick[0].usable:
        return quick
    try:
        # What is started here would disturb a measurement that goes on.
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
    """The answer for one runtime, whose quick check said ``quick``."""
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
