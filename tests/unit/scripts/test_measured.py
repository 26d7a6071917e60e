"""The check that claims were really measured, on runs that measured and on runs that did not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEASURED = Path(__file__).parents[3] / "script" / "gate" / "measured.py"


def _run(record: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(MEASURED), str(record)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _claim(name: str, kind: str, target: str, samples: int = 5, **parts: float) -> dict[str, Any]:
    parts = parts or {"process": 40.0, "kernel": 60.0}
    return {
        "name": name,
        "verdict": "refuted" if samples else "not measured",
        "reason": "" if samples else "no /dev/kvm",
        "phases": parts if samples else {},
        "targets": [{"kind": kind, "name": target, "details": {}}] if samples else [],
        "observations": [
            {"order": n, "at": 0.1, "arm": "a", "value": 100.0, "unit": "ms"}
            | {"warm_up": n == 0, "parts": parts}
            for n in range(samples + 1 if samples else 0)
        ],
    }


POD = _claim("startup.pod.tcg.qboot", "pod", "pod tcg qboot")
OTHERS = [
    _claim("startup.pod.tcg.seabios", "pod", "pod tcg seabios"),
    _claim("startup.container.runc", "container", "container runc", start=100.0),
    _claim("startup.container.runsc", "container", "container runsc", start=100.0),
]
NOT_MEASURED = _claim("startup.pod.kvm", "pod", "pod kvm qboot", samples=0)
FAULT = "FAULT startup.pod.tcg.qboot does not have 5 samples of pod tcg qboot"


def _check(folder: Path, *claims: dict[str, Any]) -> tuple[int, list[str]]:
    record = folder / "claims.json"
    record.write_text(json.dumps({"claims": claims}))
    done = _run(record)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_a_run_that_measured(tmp_path: Path) -> None:
    status, lines = _check(tmp_path, POD, *OTHERS, NOT_MEASURED)
    assert status == 0
    assert lines == [
        "       refuted  startup.pod.tcg.qboot: 5 samples, median 100.0 ms = process 40.0 + kernel 60.0",
        "       refuted  startup.pod.tcg.seabios: 5 samples, median 100.0 ms = process 40.0 + kernel 60.0",
        "       refuted  startup.container.runc: 5 samples, median 100.0 ms = start 100.0",
        "       refuted  startup.container.runsc: 5 samples, median 100.0 ms = start 100.0",
        "  not measured  startup.pod.kvm: no /dev/kvm",
    ]


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        (OTHERS, FAULT),
        (
            [POD, *OTHERS[:2]],
            "FAULT startup.container.runsc does not have 5 samples of container runsc",
        ),
        ([_claim(POD["name"], "pod", "pod tcg qboot", samples=4), *OTHERS], FAULT),
        ([_claim(POD["name"], "pod", "pod kvm qboot"), *OTHERS], FAULT),
        (
            [POD, *OTHERS, _claim("gap", "pod", "pod tcg qboot", process=40.0, kernel=58.0)],
            "FAULT gap: sample 1: the phases add up to 98.0, not 100.0",
        ),
        (
            [POD, *OTHERS, _claim("back", "pod", "pod tcg qboot", process=140.0, kernel=-40.0)],
            "FAULT back: sample 1 has a negative phase: {'process': 140.0, 'kernel': -40.0}",
        ),
        ([POD, *OTHERS, NOT_MEASURED | {"reason": ""}], "has no samples and no reason"),
    ],
)
def test_a_run_that_did_not_measure(
    tmp_path: Path, claims: list[dict[str, Any]], fault: str
) -> None:
    status, lines = _check(tmp_path, *claims)
    assert status == 1
    assert any(fault in line for line in lines)


def test_a_missing_record_is_a_fault(tmp_path: Path) -> None:
    done = _run(tmp_path / "none.json")
    assert done.returncode == 1
    assert done.stdout.startswith(f"FAULT {tmp_path / 'none.json'}: no record of claims: ")
