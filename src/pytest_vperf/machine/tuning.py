"""Changing settings of the kernel for a while: whoever changes them holds a lock, and leaves a way back.

The earlier state is in the *journal*, on disk, before anything is changed, and goes when it is restored. A child
process, the *guardian*, restores it when this process dies; if that was killed as well, `tuning_journal.recover`
does, which ``vperf clean`` and the next ``vperf doctor --tune`` call.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_vperf.machine import restore_settings
from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.machine.tuning_journal import (
    journal_path,
    recover_locked,
    restore_and_forget,
    write_journal,
)
from pytest_vperf.machine.tuning_lock import TuningError, exclusive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_vperf.machine.tuning_knobs import Change

# How long a guardian may take to end once its pipe is closed, in s.
_GUARDIAN_LIMIT = 30.0


@contextlib.contextmanager
def tuned(root: Path, planned: Sequence[Change]) -> Iterator[None]:
    """Within the context the planned changes are made; afterwards everything is as it was.

    The caller sees to it that no signal interrupts the change or the restoring; `pytest_vperf.tune` does.

    Raises:
        Busy: another process has changed them.
        TuningError: a file cannot be written, and everything is as it was; or, on leaving, something could not be
            restored, and the journal is still there.
        OSError: the journal cannot be written; nothing was changed.
    """
    # Asked before anything else, so that who may not change settings learns which file says so.
    for change in planned:
        if not os.access(change.path, os.W_OK):
            raise TuningError(f"{change.path} cannot be written: {_closed(change.path)}")
    with exclusive() as lock:
        recover_locked()
        _check_plan(planned)
        journal = journal_path()
        write_journal(journal, root, planned)
        try:
            guardian = _start_guardian(journal, lock)
        except BaseException:
            journal.unlink()
            raise
        try:
            try:
                _apply(planned)
                yield
            finally:
                restore_and_forget(journal)
        finally:
            end_by_input(guardian, _GUARDIAN_LIMIT)


def _check_plan(planned: Sequence[Change]) -> None:
    """What is to be restored must be what was there when nobody else changed it."""
    for change in planned:
        if restore_settings.read(change.path) != change.before:
            raise TuningError(f"{change.path} was changed meanwhile; try again")


def _closed(path: Path) -> str:
    if not os.path.lexists(path):
        return "it is not there any more"
    if os.geteuid() != 0:
        return "this needs root"
    return "it is read-only here"


def _apply(planned: Sequence[Change]) -> None:
    for change in planned:
        try:
            restore_settings.write(change.path, change.word)
        except OSError as error:
            raise TuningError(
                f"{change.path} could not be set to {change.word!r}: {error.strerror or error}"
            ) from None


def _start_guardian(journal: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start the process that restores when this one dies, and wait until it is ready.

    Raises:
        TuningError: it cannot be started.
    """
    guardian = subprocess.Popen(
        [sys.executable, "-I", restore_settings.__file__, str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(lock,),
        start_new_session=True,  # what a terminal sends to its foreground group does not reach it
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},  # without a run's mark: it is no run's
    )
    assert guardian.stdout is not None
    with guardian.stdout as stream:
        ready = stream.readline()
    if ready != b"ready\n":
        end_by_input(guardian, _GUARDIAN_LIMIT)
        raise TuningError("the process that restores the settings after a crash did not start")
    return guardian
