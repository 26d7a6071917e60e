"""The agent's program, compiled from the sources beside this file, once per content.

Why an agent of ours and not qemu-guest-agent: a start ends when the machine *says* so (design rule 7), and
qemu-guest-agent only answers when asked; its guest-exec is polled for the end of a command as well. Ours
pushes both, is one static program that needs nothing of the image, and is the machine's init at once.
"""

from __future__ import annotations

import subprocess
from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

#: Static, because the machine has no libraries; small, because the kernel unpacks it at every start.
FLAGS = ("-static", "-Os", "-std=gnu11", "-Wall", "-Wextra")


def sources() -> dict[str, bytes]:
    """The agent's C files by name."""
    folder = resources.files(__package__) / "agent"
    return {
        item.name: item.read_bytes()
        for item in sorted(folder.iterdir(), key=lambda item: item.name)
        if item.name.endswith((".c", ".h"))
    }


def check() -> Readiness:
    """Whether the agent can be compiled here."""
    compiler = find_program("cc") or find_program("gcc")
    if compiler is None:
        return Readiness("compiler", False, "no C compiler (cc)", "apt-get install gcc libc6-dev")
    return Readiness("compiler", True, compiler)


def build_agent() -> Path:
    """The compiled agent.

    Raises:
        Unavailable: there is no C compiler.
        CannotStart: the compiler failed; the message has its words.
    """
    compiler = check()
    if not compiler.usable:
        raise Unavailable(compiler.why, remedy=compiler.remedy)
    texts = sources()
    key = cache.content_key([*FLAGS, *(part for item in texts.items() for part in item)])

    def compile_into(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_bytes(text)
        files = [str(folder / name) for name in texts if name.endswith(".c")]
        done = subprocess.run(
            [compiler.why, *FLAGS, "-s", "-o", str(folder / "agent"), *files],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotStart(
                f"the pod agent does not compile with {compiler.why}; a static C library is needed "
                f"(apt-get install libc6-dev):\n{done.stderr.strip()[-800:]}"
            )

    return cache.entry("agent", key, compile_into) / "agent"
