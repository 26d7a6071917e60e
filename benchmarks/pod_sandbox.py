"""What it costs a pod's start that its QEMU is confined: the same machine with its sandbox and without.

Without it the command line is the same but for what `pytest_vperf.targets.pod.sandbox` adds: no shell that sets
limits and no setpriv before QEMU, no seccomp filter, and files by their paths. Nothing but this script can start a
pod so. Both are started in turn, in shuffled order, on one machine, and the ratio of each pair is what is reported:
median and the interval of order statistics for it (exact binomial, at least 95 %). What is prepared before the clock
of a start, the user and the opened files, is timed beside it. The first phase, until QEMU runs and answers, is told
by itself: all that is added happens there, but for the filter's share of each system call.

    python benchmarks/pod_sandbox.py [--pairs 30] [--accelerator tcg] [--firmware qboot]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

from alone import alone, interruptible
from interval import median_interval

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.place import Here
from pytest_vperf.targets.pod.pod import boot
from pytest_vperf.targets.pod.pods import IDLE
from pytest_vperf.targets.pod.qemu import LocalQemu
from pytest_vperf.targets.pod.sandbox import Sandbox, confine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qemu import QemuProcess

LIMIT = 60.0


class Open(Here):
    """This machine, where a pod's QEMU is what starts it."""

    def sandbox(self, qemu: str) -> str:
        """None."""
        return "none"

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Nothing is opened before."""
        return lambda: LocalQemu(qemu, config, run, group, Sandbox(config))


def start(assets: Assets, config: MachineConfig, firmware: str, run: Run) -> tuple[float, float]:
    """Milliseconds from the request until QEMU answers, and until the container runs."""
    with boot(assets, config, firmware, run, command=IDLE, timeout=LIMIT) as pod:
        return dict(pod.startup_time.breakdown)["process"], pod.startup_time.to("ms").value


def main() -> int:
    """Run the pairs and print the ratio."""
    parser = argparse.ArgumentParser(description="A pod's start, confined and not.")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--accelerator", default="tcg")
    parser.add_argument("--firmware", default="qboot")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shuffle = random.Random(options.seed)
    confined = prepare(default_rootfs())
    free = prepare(default_rootfs(), place=Open())
    config = confined.config(options.accelerator, options.firmware)
    times: dict[str, list[tuple[float, float]]] = {"confined": [], "free": []}
    before: list[float] = []
    with alone(), Run.begin() as run:
        arms = [("confined", confined), ("free", free)]
        for pair in range(options.pairs + 1):
            for name, assets in shuffle.sample(arms, 2):
                took = start(assets, config, options.firmware, run)
                if pair:  # the first pair warms the caches
                    times[name].append(took)
            began = time.perf_counter()
            sandbox = confine(confined.qemu, config)
            before.append(time.perf_counter() - began)
            sandbox.close()
    print(
        f"{options.accelerator} {options.firmware}, {options.pairs} interleaved pairs, seed {options.seed};"
        f" {confined.place.sandbox(confined.qemu)}"
    )
    for number, what in enumerate(("until QEMU answers", "until the container runs")):
        one, other = ([sample[number] for sample in times[name]] for name in ("confined", "free"))
        low, middle, high = median_interval([a / b for a, b in zip(one, other, strict=True)])
        least, extra, most = median_interval([a - b for a, b in zip(one, other, strict=True)])
        print(
            f"{what}: confined {statistics.median(one):.1f} ms, free {statistics.median(other):.1f} ms (medians)"
        )
        print(f"  confined / free median {middle:.3f}, 95 % interval {low:.3f} to {high:.3f}")
        print(
            f"  difference      median {extra:.1f} ms, 95 % interval {least:.1f} to {most:.1f} ms"
        )
    print(f"before the clock, beside it: median {statistics.median(before) * 1e3:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(interruptible("pod_sandbox", main))
