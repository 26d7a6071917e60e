"""The agent's program, compiled once per content of the sources beside this file.

Why not qemu-guest-agent: a start ends when the machine *says* so (design rule 7), but qemu-guest-agent only answers
requests, and has to be polled for the end of a command, too. Ours pushes both, is one static program that needs
nothing from the image, and is also the machine's init.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import compiler
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.machine.preflight import Readiness

#: Optimised for size, because the kernel unpacks it at every start.
FLAGS = ("-Os", "-std=gnu11", "-Wall", "-Wextra")


def sources() -> dict[str, bytes]:
    """The agent's C files by name."""
    folder = resources.files(__package__) / "source"
    return {
        item.name: item.read_bytes()
        for item in sorted(folder.iterdir(), key=lambda item: item.name)
        if item.name.endswith((".c", ".h"))
    }


def check() -> Readiness:
    """Whether the agent can be compiled here."""
    return compiler.check()


def build_agent() -> Path:
    """The compiled agent.

    Raises:
        Unavailable: there is no C compiler.
        CannotStart: the compiler failed; with its message.
    """
    try:
        return compiler.build("agent", "agent", sources(), FLAGS)
    except compiler.CompilerMissing as error:
        raise Unavailable(str(error), remedy=error.remedy) from None
    except compiler.CompilerFailed as error:
        raise CannotStart(f"the pod's {error}") from None
