"""The user's own labs are ended by command and leave nothing; these are the last tests with shared labs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.lab import labs, state

if TYPE_CHECKING:
    from labs_here import SharedLabs


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("kvm", ("lab", "down", "kvm")),
        pytest.param("xen", ("clean", "--labs"), marks=pytest.mark.patient),
    ],
)
def test_a_running_lab_is_ended_by_command(
    shared_labs: SharedLabs, kind: str, words: tuple[str, ...]
) -> None:
    folder = shared_labs.get(kind).ssh_config.parent
    assert state.processes(folder)
    said = shared_labs.vperf(*words, timeout=120, check=False).stdout
    assert f"lab {kind}: ended\n" in said
    assert state.processes(folder) == []
    assert not folder.exists()
    with shared_labs.as_user():
        assert labs.running(kind) is None
