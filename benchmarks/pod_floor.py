"""A pod's start against its floor: the same QEMU command line without disk, agent port and container.

The floor is timed from the request to the first line of the machine's first process; a pod's start to its
container running. Both are started in turn, in shuffled order, on one machine, and the ratio of each pair is
what is reported: median and the interval of order statistics for it (exact binomial, at least 95 %).

    python benchmarks/pod_floor.py [--pairs 15] [--accelerator tcg] [--firmware qboot]
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

from alone import alone, interruptible
from interval import median_interval

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.machine import AGENT_LINE, Machine
from pytest_vperf.targets.pod.pod import boot
from pytest_vperf.targets.pod.pods import IDLE
from pytest_vperf.targets.pod.qemu import LocalQemu
from pytest_vperf.targets.pod.sandbox import confine

if TYPE_CHECKING:
    from pytest_vperf.targets.pod.config import MachineConfig

LIMIT = 60.0


def pod_start(assets: Assets, config: MachineConfig, firmware: str, run: Run) -> float:
    """Seconds from the request until the container runs."""
    with boot(assets, config, firmware, run, command=IDLE, timeout=LIMIT) as pod:
        return pod.startup_time.to("s").value


def floor_start(assets: Assets, config: MachineConfig, firmware: str, run: Run) -> float:
    """Seconds from the request until the first process prints; the same QEMU, kernel and initramfs."""
    bare = dataclasses.replace(config, disk=None)
    sandbox = confine(assets.qemu, bare)  # before the clock, as a pod's
    began = time.perf_counter()
    name = f"floor {config.accelerator} {firmware}"
    machine = Machine(LocalQemu(assets.qemu, bare, run, sandbox=sandbox), bare, name)
    try:
        machine.go(LIMIT)
        machine.await_console(AGENT_LINE, began + LIMIT)
        return time.perf_counter() - began
    finally:
        machine.close()


def main() -> int:
    """Run the pairs and print the ratio."""
    parser = argparse.ArgumentParser(description="A pod's start against its floor.")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--accelerator", default="tcg")
    parser.add_argument("--firmware", default="qboot")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shuffle = random.Random(options.seed)
    assets = prepare(default_rootfs())
    config = assets.config(options.accelerator, options.firmware)
    pods: list[float] = []
    floors: list[float] = []
    with alone(), Run.begin() as run:
        arms = [(pods, pod_start), (floors, floor_start)]
        for pair in range(options.pairs + 1):
            for samples, start in shuffle.sample(arms, 2):
                seconds = start(assets, config, options.firmware, run)
                if pair:  # the first pair warms the caches
                    samples.append(seconds)
    low, middle, high = median_interval(
        [pod / floor for pod, floor in zip(pods, floors, strict=True)]
    )
    print(
        f"{options.accelerator} {options.firmware}, {options.pairs} interleaved pairs, seed {options.seed}"
    )
    print(f"pod start    median {statistics.median(pods) * 1e3:7.0f} ms")
    print(f"floor        median {statistics.median(floors) * 1e3:7.0f} ms")
    print(f"pod / floor  median {middle:.3f}, 95 % interval {low:.3f} to {high:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(interruptible("pod_floor", main))
