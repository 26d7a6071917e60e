"""A container's start against the docker command line: ``docker run --rm`` of the same image, same engine.

Two figures of the command are taken from each run of it: until the container's process prints its first byte
(what a start is compared with fairly, since both end when the process runs), and until the command has ended
(what a person waits for). Started in turn with the target's start, in shuffled order; what is reported is the
ratio of each pair: median, and the interval of order statistics for it (exact binomial, at least 95 %).

    python benchmarks/container_start.py [--pairs 30] [--runtime runc]
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from alone import alone, interruptible
from interval import median_interval

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine
from pytest_vperf.targets.image.rootfs import default_rootfs, import_into
from pytest_vperf.targets.scope import Scope

DOCKER = "/usr/bin/docker"


def command_line(url: str, runtime: str, image: str) -> tuple[float, float]:
    """Seconds of ``docker run --rm``: until the first byte, and until its end."""
    argv = [DOCKER, "--host", url, "run", "--rm", "--network", "none", "--runtime", runtime, image]
    began = time.perf_counter()
    with subprocess.Popen([*argv, "echo", "up"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        up = time.perf_counter() - began
        process.stdout.read()
        process.wait()
    if first != b"u" or process.returncode:
        raise SystemExit(f"docker run failed with status {process.returncode}")
    return up, time.perf_counter() - began


def main() -> int:
    """Run the pairs and print the ratios."""
    parser = argparse.ArgumentParser(description="A container's start against docker run --rm.")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--runtime", default="runc")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not Path(DOCKER).exists():
        raise SystemExit(f"{DOCKER} is not installed: apt-get install docker.io")
    shuffle = random.Random(options.seed)
    ours: list[float] = []
    ups: list[float] = []
    ends: list[float] = []
    scope = Scope()
    with alone(), Run.begin() as run, Engine.connect(run) as engine:
        image = import_into(engine.client, default_rootfs())
        containers = Containers(
            lambda: engine, run, scope, runtime=options.runtime, rootfs=lambda _: image
        )
        for pair in range(options.pairs + 1):
            for arm in shuffle.sample(["ours", "docker"], 2):
                if arm == "ours":
                    ours.append(containers.start().startup_time.to("s").value)
                    scope.close_since()
                else:
                    up, end = command_line(engine.url, options.runtime, image)
                    ups.append(up)
                    ends.append(end)
            if not pair:  # the first pair warms the caches
                for samples in (ours, ups, ends):
                    samples.clear()
    print(f"{options.runtime}, {options.pairs} interleaved pairs, seed {options.seed}")
    print(f"start                      median {statistics.median(ours) * 1e3:6.0f} ms")
    for what, samples in (("to its first byte", ups), ("to its end", ends)):
        low, middle, high = median_interval([a / b for a, b in zip(ours, samples, strict=True)])
        print(f"docker run {what:15} median {statistics.median(samples) * 1e3:6.0f} ms")
        print(
            f"start / docker run         median {middle:.3f}, 95 % interval {low:.3f} to {high:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(interruptible("container_start", main))
