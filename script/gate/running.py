"""Runs a step, judges what its tests did, and gives those that are due it their second chance."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gate import outcome, process
from gate.outcome import Outcome
from gate.steps import REQUIRED, ROOT, Step, interpreter

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With more failing tests than this, something is broken: they are not tried again.
TRIED_AGAIN = 10
#: Nobody answers there: what is fetched in spite of `prepare` fails at once, by its own words.
NOBODY = "http://127.0.0.1:9"


@dataclass
class Result:
    """What became of a step."""

    name: str
    seconds: float = 0.0
    outcome: Outcome = field(default_factory=Outcome)
    #: What failed and then passed alone.
    alone: list[str] = field(default_factory=list)
    #: Why the step is red, in words; empty if it is green.
    faults: list[str] = field(default_factory=list)


def run(step: Step, work: Path, arguments: Sequence[str]) -> Result:
    """Run a step, and once more what failed of it where a second chance is given."""
    result, began = Result(step.name), time.monotonic()
    print(f"\n==== {step.name}", flush=True)
    for command in step.commands:
        if step.tests:
            _run_tests(step, command, work, arguments, result, began)
        else:
            status = _command(step, command, work, began)
            if status == process.LIMIT_STATUS:
                result.faults.append(f"ended after the time limit of {step.limit:g} s")
            elif status:
                result.faults.append(f"exit status {status}")
        if result.faults:
            break
    result.seconds = time.monotonic() - began
    said = f"failed: {'; '.join(result.faults)}" if result.faults else "ok"
    print(f"==== {step.name}: {said} ({result.seconds:.0f} s)", flush=True)
    return result


def _run_tests(
    step: Step,
    command: Sequence[str],
    work: Path,
    arguments: Sequence[str],
    result: Result,
    began: float,
) -> None:
    chosen = arguments or step.selects
    pytest = [*command, *chosen, "-o", f"cache_dir={work / step.name}-cache"]
    result.outcome, status = _pytest(step, pytest, step.name, work, began)
    result.faults += outcome.faults(result.outcome, status, step.skips)
    if status == process.LIMIT_STATUS:
        running = outcome.named(result.outcome.running) or "none"
        result.faults[:0] = [f"ended after the time limit of {step.limit:g} s; running: {running}"]
    failed = result.outcome.of("failed")
    if not failed:
        return
    if not step.again or result.faults or len(failed) > TRIED_AGAIN:
        result.faults.append(f"{len(failed)} failed: {outcome.named(failed)}")
        return
    print(f"\n==== {step.name}, once more and alone: {outcome.named(failed)}", flush=True)
    again, status = _pytest(
        step,
        [*pytest, "-n", "0", "--last-failed", "--last-failed-no-failures=none"],
        f"{step.name}-alone",
        work,
        began,
    )
    result.faults += outcome.faults(again, status, step.skips)
    for test in failed:
        if again.ended.get(test) == "passed":
            result.alone.append(test)
            result.outcome.ended[test] = "passed"
    still = [test for test in failed if test not in result.alone]
    if still:
        result.faults.append(f"{len(still)} failed, alone too: {outcome.named(still)}")


def _pytest(
    step: Step, command: Sequence[str], name: str, work: Path, began: float
) -> tuple[Outcome, int]:
    record = work / f"{name}.jsonl"
    reports = Path(os.environ.get("VPERF_JUNIT_DIR") or work)
    argv = [
        *command,
        *("-p", "gate.record", f"--gate-record={record}"),
        f"--junitxml={reports / name}.xml",
    ]
    status = _command(step, argv, work, began)
    return outcome.read(record), status


def _command(step: Step, command: Sequence[str], work: Path, began: float) -> int:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "script"), "PYTHONUNBUFFERED": "1"}
    # With it, as in many images of containers, each of the many pytests that tests start would rewrite and compile
    # every plugin's modules again: 2.9 s instead of 0.7 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["VPERF_TEST_INSTALLED"] = "1"  # tests/unit/test_installed.py then checks it
    if step.again:
        environment.setdefault("VPERF_TEST_REQUIRE", REQUIRED)
    if step.offline:
        environment |= dict.fromkeys(("http_proxy", "https_proxy"), NOBODY)
        environment |= {"no_proxy": "localhost,127.0.0.1,::1"}
    return process.run(
        [interpreter(), *command],
        limit=max(1.0, step.limit - (time.monotonic() - began)),
        log=work / f"{step.name}.txt",
        cwd=ROOT,
        env=environment,
    )
