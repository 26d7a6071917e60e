"""The packages of `examples/` whose tests start targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from installed_examples import run_tests

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(600)
def test_the_tests_of_the_tool(tmp_path: Path) -> None:
    assert " 5 passed " in run_tests("hackbench", tmp_path)
