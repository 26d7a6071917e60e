"""Fetches what the tests with real targets need: `python -m gate.prepare LAB…`.

It fetches the package lists, the images, the guest kernel, and the hosts of the labs that are named, unless they are
there. So a mirror that does not answer is told here, by its own name, and no test is blamed for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from gate.steps import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf import Tool

#: Seconds to wait before another try.
PAUSES = (10.0, 30.0)


def main(labs: list[str]) -> int:
    """Fetch all, and return the exit status."""
    for what, fetch in _fetched(labs):
        if not _tried(what, fetch):
            return 1
    return 0


def _fetched(labs: list[str]) -> list[tuple[str, Callable[[], object]]]:
    from pytest_vperf.fixtures import core
    from pytest_vperf.lab import image as host_image
    from pytest_vperf.lab.labs import kind_of
    from pytest_vperf.targets.image import rootfs
    from pytest_vperf.targets.kernel import guest_kernel
    from pytest_vperf.workloads.registry import TOOLS

    def host_of(lab: str) -> Callable[[], object]:
        return lambda: host_image.build(kind_of(lab), print)

    return [
        ("the package lists", _package_lists),
        ("the small image", rootfs.default_rootfs),
        ("the image with the tools", lambda: core.make_tools_image(print)),
        (
            "the image with an example's tool",
            lambda: core.make_tools_image(print, [*TOOLS, *_of_examples()]),
        ),
        ("the guest kernel", guest_kernel.distribution_kernel),
        *((f"the lab's {lab} host", host_of(lab)) for lab in labs),
    ]


def _of_examples() -> list[Tool]:
    """The tools of the packages in ``examples/``."""
    sys.path.insert(0, str(ROOT / "examples" / "hackbench"))
    from vperf_hackbench import pytest_vperf_tools

    return pytest_vperf_tools()


def _package_lists() -> None:
    if os.geteuid() != 0:
        print("only root fetches the package lists: those that are there are used")
        return
    # One of many sources may be out of reach, and may not be needed; what cannot be fetched in the end is told below.
    subprocess.run(["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "update"], check=True)


def _tried(what: str, fetch: Callable[[], object]) -> bool:
    began = time.monotonic()
    for pause in (*PAUSES, None):
        try:
            fetch()
        except Exception as error:  # whatever it is: it is said, and there is no run without it
            print(f"prepare: {what}: {error}", flush=True)
        else:
            print(f"prepare: {what}: {time.monotonic() - began:.1f} s", flush=True)
            return True
        if pause is not None:
            print(f"prepare: once more in {pause:g} s", flush=True)
            time.sleep(pause)
    print(
        f"prepare: {what} could not be had in {len(PAUSES) + 1} tries: the mirror does not answer?"
    )
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
