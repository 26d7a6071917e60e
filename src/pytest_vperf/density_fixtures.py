"""The fixture that fills this host: ``density(pods)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.density.filling import Filling
    from pytest_vperf.density.kinds import Starter
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.workloads.guestmem import GuestMem
    from pytest_vperf.workloads.procmem import ProcMem


@pytest.fixture
def density(
    request: pytest.FixtureRequest,
    vperf_run: Run,
    scope: Scope,
    procmem: ProcMem,
    guestmem: GuestMem,
) -> Callable[..., Filling]:
    """Fills this host with targets of one kind, until no more fit: ``density(pods).carried()``.

    ``density(starter, most=…, budget=…, floor=…, **options)``: ``starter`` is ``containers``, ``pods``, ``guests`` or
    ``domus``, and ``options`` are those of its ``start``, which gives each 1 processor and 512 MiB. ``most``,
    ``budget`` (``4 GiB``, all together) and ``floor`` are the test's own wish; the options ``--density-max``,
    ``--density-memory`` and ``--density-floor`` win over it.
    """
    from pytest_vperf.density.bounds import Bounds
    from pytest_vperf.density.fill import fill
    from pytest_vperf.machine import lock
    from pytest_vperf.targets.limits import bytes_of

    session = claims_session(request.config)
    asked = session.settings.density

    def make(
        starter: Starter,
        *,
        most: int | None = None,
        budget: int | str | None = None,
        floor: int | str | None = None,
        **options: object,
    ) -> Filling:
        bounds = Bounds(
            most if asked["most"] is None else asked["most"],
            bytes_of(budget) if asked["memory"] is None else asked["memory"],
            bytes_of(floor) if asked["floor"] is None else asked["floor"],
        )
        # Two fillings would each take what the other one measures, and a claim that is judged elsewhere would suffer.
        holder = request.node.name
        try:
            with lock.measuring(lambda who: session.progress.waiting(holder, who)):
                return fill(
                    starter,
                    options,
                    bounds,
                    run=vperf_run,
                    scope=scope,
                    procmem=procmem,
                    guestmem=guestmem,
                    nodeid=request.node.nodeid,
                    seed=session.settings.seed,
                    say=session.progress.note,
                    keep=session.keep_filling,
                )
        finally:
            session.progress.done()

    return make
