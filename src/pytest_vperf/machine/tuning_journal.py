"""The way back: the earlier state of settings, on disk while they are changed, and gone when they are restored.

What is still there although nobody holds the lock was left by a process that was killed together with its guardian.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.restore_settings import JournalError, boot_id, load, restore
from pytest_vperf.machine.runs import runs_folder
from pytest_vperf.machine.tuning_knobs import kept_along
from pytest_vperf.machine.tuning_lock import TuningError, exclusive, is_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.machine.tuning_knobs import Change


def journal_path() -> Path:
    """Where the earlier state is kept while settings are changed: in the folder of the user's runs.

    Raises:
        PermissionError: as `runs_folder`.
    """
    return runs_folder() / "tuning.json"


def write_journal(journal: Path, root: Path, planned: Sequence[Change]) -> None:
    """Write the earlier state of everything that changes, whole and on the disk; private to this user."""
    along = kept_along(root, planned)
    files = [*along, *((change.path, change.before) for change in planned)]
    document = {
        "format": 1,
        "boot": boot_id(root),
        "pid": os.getpid(),
        "root": str(root),
        "entries": [
            {"path": path.relative_to(root).as_posix(), "before": before} for path, before in files
        ],
    }
    descriptor, draft = tempfile.mkstemp(prefix=".tuning-", dir=journal.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
            stream.flush()
            os.fsync(descriptor)
        load(Path(draft))  # a journal that could not be restored from is found out now
        Path(draft).replace(journal)
    except BaseException as error:
        Path(draft).unlink(missing_ok=True)
        if isinstance(error, JournalError):
            raise TuningError(str(error).replace(draft, "the earlier state")) from None
        raise


def restore_and_forget(journal: Path) -> None:
    """Restore what a journal holds, and remove it; if anything is left, it stays.

    Raises:
        TuningError: something could not be restored.
    """
    try:
        document = load(journal)
        errors = restore(Path(document["root"]), document["entries"])
    except FileNotFoundError:
        errors = [f"{journal} is gone, so the settings could not be set back"]
    except (OSError, JournalError) as error:
        errors = [str(error)]
    if not errors:
        journal.unlink(missing_ok=True)
        return
    # Raised while a failed change is handled: then both are told.
    failed = sys.exc_info()[1]
    words = [str(failed)] if isinstance(failed, TuningError) else []
    if journal.exists():
        errors.append(f"the earlier state is kept in {journal}; `vperf clean` tries again")
    raise TuningError("\n".join([*words, *errors])) from None


def recover() -> str:
    """Restore what a process that was killed left changed; what was done, in a line, or nothing.

    Raises:
        Busy: the settings are changed by a process that lives.
        TuningError: something could not be restored; the journal is kept.
        PermissionError: as `runs_folder`.
    """
    if not os.path.lexists(journal_path()):
        return ""
    with exclusive():
        return recover_locked()


def recover_locked() -> str:
    """`recover`, for who holds the lock already."""
    journal = journal_path()
    try:
        document = load(journal)
    except FileNotFoundError:
        return ""
    except (OSError, JournalError) as error:
        raise TuningError(
            f"{error}; it holds what settings were before a process that was killed changed them: "
            "look into it, set them back, and remove it"
        ) from None
    if _is_outdated(document["boot"], Path(document["root"])):
        journal.unlink()
        return f"{journal} is of an earlier boot, which has reset the settings; it was removed"
    restore_and_forget(journal)
    return f"the settings that process {document['pid']} had changed are as they were"


def _is_outdated(boot: str, root: Path) -> bool:
    """Whether a journal was written before the machine was last started: settings do not outlive that."""
    return boot != boot_id(root)


def left_over() -> tuple[str, str] | None:
    """What a killed process left changed, if anything: its number, and one line about it.

    Raises:
        PermissionError: as `runs_folder`.
    """
    journal = journal_path()
    if not os.path.lexists(journal) or is_held():
        return None
    try:
        document = load(journal)
    except FileNotFoundError:
        return None
    except (OSError, JournalError) as error:
        return "-", str(error)
    pid = str(document["pid"])
    if _is_outdated(document["boot"], Path(document["root"])):
        return pid, f"{journal}, of an earlier boot"
    return pid, f"{len(document['entries'])} settings of this machine, in {journal}"
