"""A claim that waits for another measurement says so where there is no terminal, once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_vperf.machine import lock

if TYPE_CHECKING:
    import pytest

TEST = """
    from pytest_vperf.quantity import Quantity

    def test_it(claim):
        claim("start.quick").holds(lambda: Quantity(300, "ms", discrete=True))
"""


def test_a_log_has_a_line_about_the_wait(project: pytest.Pytester) -> None:
    path = project.makepyfile(TEST)
    with lock.measuring():
        process = project.popen(
            [sys.executable, "-m", "pytest", str(path), "--claims-sessions=1"],
            stdin=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        said = b""
        while b"waits for" not in said:
            line = process.stdout.readline()
            assert line, said.decode()
            said += line
    rest, _ = process.communicate(timeout=60)
    text = (said + rest).decode()
    assert "claims: start.quick waits for another measurement on this machine, process " in text, (
        text
    )
    assert text.count("waits for another measurement") == 1
    assert "1 held" in text
