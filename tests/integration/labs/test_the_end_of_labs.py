"""The user's own labs are ended by command and leave nothing; these are the last tests with shared labs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from page_blocks import ROOT, Reader, blocks

from pytest_vperf.lab import labs, state

if TYPE_CHECKING:
    from pathlib import Path

    from labs_here import SharedLabs


#: What the page of labs types, the last of which ends the one that it has up.
PAGE = [
    command
    for block in blocks(ROOT / "docs" / "lab.md")
    if block.starts_targets and block.language == "console"
    for command in block.commands
]


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("kvm", PAGE),
        pytest.param("xen", ["vperf clean --labs"], marks=pytest.mark.patient),
    ],
)
def test_a_running_lab_is_ended_by_command(
    shared_labs: SharedLabs, kind: str, commands: list[str], tmp_path: Path
) -> None:
    host = shared_labs.get(kind)
    folder = host.ssh_config.parent
    assert state.processes(folder)
    with shared_labs.as_user():
        reader = Reader(tmp_path)
    *before, end = commands
    said = "".join(map(reader.run, before))
    assert said.count(host.uri) == len(before[:2])  # `up` and `status` say it
    assert f"lab {kind}: ended\n" in reader.run(end)
    assert state.processes(folder) == []
    assert not folder.exists()
    with shared_labs.as_user():
        assert labs.running(kind) is None
