"""Checks that a run really measured: `python -m gate.measured CLAIMS.json`; docs/results.md has the keys.

An advisory run passes whatever the verdicts are; one in which nothing could start would pass too.
So here: the starts of emulated pods with each firmware, and of containers with each runtime, were measured
with at least 5 samples each; every sample is positive; the phases of a start add up to it; and what was
not measured says why.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

LEAST_SAMPLES = 5
#: What a machine without hardware virtualisation can measure, and so every machine that this runs on.
#: The claim's name, and the name of the target that must have been measured.
EXPECTED = {
    "startup.pod.tcg.qboot": "pod tcg qboot",
    "startup.pod.tcg.seabios": "pod tcg seabios",
    "startup.container.runc": "container runc",
    "startup.container.runsc": "container runsc",
}
#: By how much the sum of the phases may differ from the whole, as a part of the whole.
TOLERANCE = 0.01


def main(path: str) -> int:
    """Print a line per claim and one per fault, and return the exit status."""
    try:
        claims: list[dict[str, Any]] = json.loads(Path(path).read_text("utf-8"))["claims"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"FAULT {path}: no record of claims: {error!r}")
        return 1
    faults: list[str] = []
    for claim in claims:
        print(line(claim))
        faults += [f"{claim['name']}: {fault}" for fault in faults_of(claim)]
    for name, target in EXPECTED.items():
        if not any(was_measured(claim, target) for claim in claims if claim["name"] == name):
            faults.append(f"{name} does not have {LEAST_SAMPLES} samples of {target}")
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


def judged(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples of a claim that count: all but the warm-up."""
    return [sample for sample in claim["observations"] if not sample["warm_up"]]


def line(claim: dict[str, Any]) -> str:
    """One line that says what was measured, or why nothing was."""
    samples = judged(claim)
    if not samples:
        return f"{claim['verdict']:>14}  {claim['name']}: {claim['reason']}"
    arms: list[str] = []
    for arm in ("a", "b"):
        values = [sample["value"] for sample in samples if sample["arm"] == arm]
        if values:
            arms.append(f"{len(values)} samples, median {statistics.median(values):.1f}")
    phases = " + ".join(f"{name} {value:.1f}" for name, value in claim["phases"].items())
    text = f"{claim['verdict']:>14}  {claim['name']}: {' against '.join(arms)} {samples[0]['unit']}"
    return f"{text} = {phases}" if phases else text


def faults_of(claim: dict[str, Any]) -> list[str]:
    """What is wrong with a claim's record, in words."""
    samples = judged(claim)
    if not samples:
        return [] if claim["reason"] else ["has no samples and no reason"]
    faults: list[str] = []
    for sample in samples:
        value, parts = sample["value"], sample["parts"]
        if not (math.isfinite(value) and value > 0):
            faults.append(f"sample {sample['order']} is {value}, not positive")
        elif parts and abs(sum(parts.values()) - value) > TOLERANCE * value:
            total = sum(parts.values())
            faults.append(f"sample {sample['order']}: the phases add up to {total}, not {value}")
        elif any(part < 0 for part in parts.values()):
            faults.append(f"sample {sample['order']} has a negative phase: {parts}")
        elif not parts and any(target["kind"] == "pod" for target in claim["targets"]):
            faults.append(f"sample {sample['order']} of a pod has no phases")
    return faults


def was_measured(claim: dict[str, Any], target: str) -> bool:
    """Whether a claim has enough samples, all of one target."""
    names = {each["name"] for each in claim["targets"]}
    return names == {target} and len(judged(claim)) >= LEAST_SAMPLES


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
