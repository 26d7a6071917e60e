"""The record of a filled host: in the file, on the terminal, and from a worker of pytest-xdist."""

from __future__ import annotations

import json

import pytest

RECORD = {
    "name": "pod tcg qboot",
    "nodeid": "test_it.py::test_it",
    "started_at": "2026-01-01T00:00:00+00:00",
    "duration_s": 5.0,
    "teardown_s": None,
    "count": 3,
    "stop": "most",
    "why": "3 run, as many as were asked for (--density-max)",
    "most": 3,
    "memory": 1 << 30,
    "memory_asked": False,
    "floor": 1 << 29,
    "floor_asked": False,
    "at_once": 2,
    "held": True,
    "outside": False,
    "watched": "",
    "options": {},
    "curve": [],
    "process": {"rss": {"min": 1.0, "mean": 2.0, "max": 3.0}},
    "inside": {},
    "cost": None,
    "cost_in_group": None,
    "targets": [],
}


@pytest.mark.parametrize("options", [[], ["-n", "1"]])
def test_a_filling_is_recorded_and_shown(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(f"""
        import json
        from pytest_vperf.run.stash import claims_session
        def test_it(request):
            session, record = claims_session(request.config), json.loads({json.dumps(RECORD)!r})
            session.keep_filling(record)
            record["teardown_s"] = 0.5
            session.keep_filling(None)
    """)
    result = pytester.runpytest_subprocess("--claims-json=run.json", *options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*= density =*",
            "density *count *stopped by *VmRSS *",
            "pod tcg qboot * 3 * most * 1/2/3 * - *",
            "pod tcg qboot:  3 run, as many as were asked for (--density-max)",
        ]
    )
    result.stdout.no_fnmatch_line("*= claims =*")
    document = json.loads((pytester.path / "run.json").read_text())
    assert document["fillings"] == [{**RECORD, "teardown_s": 0.5}]
    assert document["claims"] == []
