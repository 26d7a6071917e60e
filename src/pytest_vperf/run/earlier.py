"""What the report of a run tells of earlier ones, which the store has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.reporting.html import past
from pytest_vperf.reporting.summary import say_notice
from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    import pytest

    from pytest_vperf.results.run import RunRecord
    from pytest_vperf.run.options import Settings


def earlier_runs(config: pytest.Config, settings: Settings, run: RunRecord) -> past.Earlier:
    """What stored runs have of this run's claims, if a report is asked for; what keeps it from the report is said."""
    place = settings.store
    asked = any(each.format == "html" for each in settings.exports)
    if not asked or not run.claims or ("://" not in place and not Path(place).exists()):
        return past.NOTHING
    this = past.this_run(run.mark, run.started, run.fingerprint or {}, run.claims)
    try:
        return past.earlier(this, open_store(place).runs(most=past.MOST_RUNS))
    except StoreProblem as error:
        why = str(error)
    except ImportError as missing:
        why = f"it takes {missing.name}: pip install 'pytest-vperf[store]'"
    say_notice(config, f"the report is without a history: {why}")
    return past.NOTHING
