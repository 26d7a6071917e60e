"""The packages of `examples/`: those that need no target are tried, and each is short and is its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from installed_examples import EXAMPLES, ROOT, run_tests

if TYPE_CHECKING:
    from pathlib import Path


def test_the_tests_of_the_export_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    assert " 3 passed " in run_tests("csv", tmp_path)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda each: each.name)
def test_it_is_short_and_is_its_page(folder: Path) -> None:
    files = sorted(each for each in folder.iterdir() if each.is_file())
    assert sum(each.read_text().count("\n") for each in files) < 150
    (page,) = (
        page.read_text()
        for page in (ROOT / "docs").glob("write-*.md")
        if f"examples/{folder.name}`" in page.read_text()
    )
    for each in files:
        language = {".py": "python", ".toml": "toml", ".yaml": "yaml"}[each.suffix]
        assert f"```{language}\n{each.read_text()}```\n" in page, each.name
