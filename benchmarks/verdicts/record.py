"""Records noise on this machine: one unchanged workload, sample after sample, as a trace."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from verdicts.workloads import WORKLOADS, NotHere

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Samples of each workload: some seconds' worth, of a container's start a minute's or two.
SAMPLES: Mapping[str, int] = {
    "process": 8000,
    "python": 2500,
    "spin": 4000,
    "sysbench": 2000,
    "tcp": 8000,
    "memory": 4000,
    "container": 300,
}


def record(names: Sequence[str], folder: Path, samples: int | None = None) -> int:
    """Record each workload into a file of its own; one that cannot run here is left out with its reason.

    The first samples are kept: a cold start is part of what noise is.

    Returns:
        the exit status: 1 if none was recorded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recorded = 0
    for name in names:
        try:
            found = _record(name, samples or SAMPLES[name])
        except NotHere as error:
            print(f"{name}: left out: {error}")
            continue
        path = folder / f"{name}.json"
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")
        times = found["t"]
        print(f"{name}: {len(times)} samples in {times[-1]:.1f} s: {path}")
        recorded += 1
    return int(not recorded)


def _record(name: str, samples: int) -> dict[str, list[float] | str]:
    times, values = [], []
    load = os.getloadavg()
    with WORKLOADS[name]() as sample:
        zero = time.perf_counter()
        for _ in range(samples):
            times.append(round(time.perf_counter() - zero, 4))
            values.append(float(f"{sample(0):.6g}"))
    return {
        "metric": name,
        "recorded": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "load": [round(value, 2) for value in load],
        "t": times,
        "v": values,
    }
