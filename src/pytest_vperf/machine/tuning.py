"""Changing kernel settings temporarily, under a lock, and with a way back.

The earlier state is written to the *journal*, on disk, before anything is changed, and removed once it is restored. A
child process, the *guardian*, restores it if this process dies; if both were killed, `recover` does, called by
``vperf clean`` and the next ``vperf doctor --tune``. Only one process at a time may change settings. The lock is one
open file that the process and its guardian share, so it is free only when both have ended: a journal that exists
while nobody holds the lock was left by a process that was killed together with its guardian.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import restore_settings
from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.machine.lock import try_lock
from pytest_vperf.machine.noise_settings import CPU, THP, UNKNOWN, policies, turbo_file
from pytest_vperf.machine.restore_settings import JournalError, boot_id, load, read, restore, state
from pytest_vperf.machine.runs import runs_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Change:
    """One file to be written.

    Attributes:
        key: the setting it belongs to.
        path: the file.
        before: its exact content now.
        word: the text to write.
    """

    key: str
    path: Path
    before: str
    word: str


@dataclass(frozen=True)
class Knob:
    """A setting that can be made quieter.

    Attributes:
        key: its name in `noise_settings.settings`.
        title: its readable name.
        why: how it disturbs measurements; short.
        noisy: whether its value, if readable, disturbs; gets all settings, as others may matter.
        files: the files that hold it.
        word: the text to write into a file, given its value; ``None`` if it is quiet already, or has no better value.
        along: files that the kernel may change along with it, which are restored too.
        asked: whether it is changed only on request, since it does more than make noise.
    """

    key: str
    title: str
    why: str
    noisy: Callable[[Mapping[str, str]], bool]
    files: Callable[[Path], list[Path]]
    word: Callable[[Path, str], str | None]
    along: Callable[[Path], list[Path]] = lambda root: []
    asked: bool = False


# "performance" asks for the highest frequency all the time (admin-guide/pm/cpufreq.rst, "Generic Scaling Governors").
# With "userspace" somebody has set a fixed frequency, which is kept.
_STEADY_GOVERNORS = {"performance", "userspace"}


def _governors(value: str) -> set[str]:
    return {part.split(" ", 1)[0] for part in value.split(", ")}


def _governor_word(path: Path, text: str) -> str | None:
    if text in _STEADY_GOVERNORS:
        return None
    try:
        available = read(path.with_name("scaling_available_governors")).split()
    except OSError:
        return None
    return "performance" if "performance" in available else None


def _turbo_word(path: Path, text: str) -> str | None:
    off = "1" if path.name == "no_turbo" else "0"  # no_turbo: admin-guide/pm/intel_pstate.rst
    return None if text == off else off


def _madvise(path: Path, text: str) -> str | None:
    return None if text == "madvise" else "madvise"


def _smaller(goal: int) -> Callable[[Path, str], str | None]:
    return lambda path, text: str(goal) if text.isdecimal() and int(text) > goal else None


def _one(relative: str) -> Callable[[Path], list[Path]]:
    return lambda root: [root / relative]


def _policy_files(*names: str) -> Callable[[Path], list[Path]]:
    return lambda root: [folder / name for folder in policies(root) for name in names]


def _online_files(root: Path) -> list[Path]:
    return sorted((root / CPU).glob("cpu[0-9]*/online"))


def _swaps(settings: Mapping[str, str]) -> bool:
    return re.match(r"(none|0\.0 MiB)", settings["swap"]) is None and _known(settings["swap"])


def _known(value: str) -> bool:
    return not value.startswith(UNKNOWN)


#: In the order they are applied; restoring reverses it. Taking processors offline comes last, since that removes
#: files of other settings.
KNOBS = (
    Knob(
        "turbo",
        "turbo",
        "the clock rate then depends on heat and on how many cores are busy",
        lambda settings: settings["turbo"] == "on",
        lambda root: [path] if (path := turbo_file(root)) else [],
        _turbo_word,
        # Switching turbo resets the policies' limits.
        _policy_files("scaling_min_freq", "scaling_max_freq"),
    ),
    Knob(
        "governor",
        "CPU governor",
        "the clock rate follows the load, with a delay",
        lambda settings: bool(_governors(settings["governor"]) - _STEADY_GOVERNORS),
        _policy_files("scaling_governor"),
        _governor_word,
        # With intel_pstate and amd_pstate "performance" sets it too.
        _policy_files("energy_performance_preference"),
    ),
    Knob(
        "thp",
        "transparent huge pages",
        "memory gets huge pages or not, as there are some free, and is rearranged in the background",
        lambda settings: settings["thp"] == "always",
        _one(f"{THP}/enabled"),
        _madvise,
    ),
    Knob(
        "thp_defrag",
        "defragmentation for huge pages",
        # admin-guide/mm/transhuge.rst: with "always" a page fault reclaims and compacts memory.
        "a program that touches new memory may have to wait until some is made contiguous",
        lambda settings: settings["thp_defrag"] == "always" and settings["thp"] == "always",
        _one(f"{THP}/defrag"),
        _madvise,
    ),
    Knob(
        "numa_balancing",
        "NUMA balancing",
        # admin-guide/sysctl/kernel.rst, "numa_balancing".
        "the kernel unmaps memory to see who uses it, and moves it between nodes",
        lambda settings: (
            settings["numa_balancing"] != "0"
            and _known(settings["numa_nodes"])
            and settings["numa_nodes"] != "0"
        ),
        _one("proc/sys/kernel/numa_balancing"),
        _smaller(0),
    ),
    Knob(
        "swappiness",
        "swap in use",
        "what was swapped out is read from a disk when it is touched",
        _swaps,
        _one("proc/sys/vm/swappiness"),
        _smaller(1),  # 0 would leave no step between enough memory and the OOM killer
    ),
    Knob(
        "aslr",
        "address space layout randomisation",
        "each process has another memory layout, which changes its speed a little; it also protects from attacks",
        # Never called noise: without it every process has one layout, as likely a lucky or an unlucky one
        # (Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong!, ASPLOS 2009).
        lambda settings: False,
        _one("proc/sys/kernel/randomize_va_space"),
        _smaller(0),
        asked=True,
    ),
    Knob(
        "smt",
        "SMT",
        "what runs on a core's other thread slows this one; without it half of the processors are gone",
        lambda settings: settings["smt"] == "on" or settings["smt"].isdecimal(),
        _one(f"{CPU}/smt/control"),
        lambda path, text: "off" if text == "on" or (text.isdecimal() and text != "1") else None,
        _online_files,  # "on" also brings back processors that somebody took offline one by one
        asked=True,
    ),
)
#: The settings that are changed only on request.
ASKED = tuple(knob.key for knob in KNOBS if knob.asked)


def changes(root: Path, settings: Mapping[str, str], also: Collection[str] = ()) -> list[Change]:
    """The changes for a quieter machine, in order; files that cannot be read are left out.

    Args:
        root: where ``sys`` and ``proc`` are.
        settings: those of that machine.
        also: the settings in `ASKED` to change as well.
    """
    found = []
    for knob in KNOBS:
        wanted = knob.key in also if knob.asked else knob.noisy(settings)
        if wanted and _known(settings[knob.key]):
            found += changes_of(knob, root)
    return found


def changes_of(knob: Knob, root: Path) -> list[Change]:
    """The changes that make one setting quiet."""
    found = []
    for path in knob.files(root):
        try:
            before = read(path)
        except OSError:
            continue
        word = knob.word(path, state(before))
        if word is not None:
            found.append(Change(knob.key, path, before, word))
    return found


def kept_along(root: Path, planned: Sequence[Change]) -> list[tuple[Path, str]]:
    """The readable files that may change along with the planned ones, each with its content."""
    keys = {change.key for change in planned}
    found = []
    for knob in KNOBS:
        for path in knob.along(root) if knob.key in keys else ():
            try:
                found.append((path, read(path)))
            except OSError:
                continue
    return found


def commands(planned: Sequence[Change], root: Path) -> list[str]:
    """The shell commands, for root, that make the planned changes."""
    found = []
    for key in dict.fromkeys(change.key for change in planned):
        mine = [change for change in planned if change.key == key]
        word = mine[0].word
        if len(mine) == 1:
            name = mine[0].path.relative_to(root).as_posix()
            if name.startswith("proc/sys/") and root == Path("/"):
                found.append(f"sysctl -w {name.removeprefix('proc/sys/').replace('/', '.')}={word}")
            else:
                found.append(f"echo {word} > {mine[0].path}")
            continue
        paths = " ".join(str(change.path) for change in mine)
        if len(mine) == len(policies(root)):
            paths = str(mine[0].path.parent.parent / "policy*" / mine[0].path.name)
        found.append(f"echo {word} | tee {paths}")
    return found


#: How long to wait for the guardian of a dead process to restore the settings, in s.
PATIENCE = 5.0


class TuningError(Exception):
    """Settings could not be changed or restored; the message is for the user, one line per problem."""


class Busy(TuningError):
    """Another process has changed the settings and will restore them."""


def _lock_path() -> Path:
    return runs_folder() / "tuning.lock"


@contextlib.contextmanager
def exclusive() -> Iterator[int]:
    """Hold the lock on the settings; yields its descriptor, which the guardian shares.

    Raises:
        Busy: a living process holds it.
        OSError: its file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(_lock_path(), flags, 0o600)
    try:
        _acquire(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int) -> None:
    """Take the lock, giving the guardian of a dead process time to finish."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if try_lock(descriptor):
            return
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        if holder.isdecimal() and _lives(int(holder)):
            raise Busy(
                f"process {holder} has changed the settings of this machine, and will restore them; "
                "wait for its end, or end it"
            )
        if time.monotonic() > deadline:
            raise Busy(
                "the settings of this machine are still being restored after a process that was killed"
            )
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    import psutil

    from pytest_vperf.machine.processes import gone

    try:
        return not gone(psutil.Process(pid))
    except psutil.Error:
        return False


def is_held() -> bool:
    """Whether the lock is held now."""
    try:
        descriptor = os.open(_lock_path(), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def journal_path() -> Path:
    """The path of the journal, in the folder of the user's runs.

    Raises:
        PermissionError: as `runs_folder`.
    """
    return runs_folder() / "tuning.json"


def write_journal(journal: Path, root: Path, planned: Sequence[Change]) -> None:
    """Write the earlier state of everything that changes, in one step and synced to disk; private to this user."""
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
        load(Path(draft))  # find out now if it could not be restored from
        Path(draft).replace(journal)
    except BaseException as error:
        Path(draft).unlink(missing_ok=True)
        if isinstance(error, JournalError):
            raise TuningError(str(error).replace(draft, "the earlier state")) from None
        raise


def restore_and_forget(journal: Path) -> None:
    """Restore the settings in a journal and remove it; keep it if anything fails.

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
    # If a failed change is being handled, report both.
    failed = sys.exc_info()[1]
    words = [str(failed)] if isinstance(failed, TuningError) else []
    if journal.exists():
        errors.append(f"the earlier state is kept in {journal}; `vperf clean` tries again")
    raise TuningError("\n".join([*words, *errors])) from None


def recover() -> str:
    """Restore what a killed process left changed; return what was done, in a line, or empty.

    Raises:
        Busy: a living process has changed the settings.
        TuningError: something could not be restored; the journal is kept.
        PermissionError: as `runs_folder`.
    """
    if not os.path.lexists(journal_path()):
        return ""
    with exclusive():
        return recover_locked()


def recover_locked() -> str:
    """`recover`, for a caller that already holds the lock."""
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
    """Whether a journal was written before the last boot, which resets the settings."""
    return boot != boot_id(root)


def left_over() -> tuple[str, str] | None:
    """The number of a killed process that left settings changed, and a line about them; ``None`` if there is none.

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


# How long the guardian may take to end once its pipe is closed, in s.
_GUARDIAN_LIMIT = 30.0


@contextlib.contextmanager
def tuned(root: Path, planned: Sequence[Change]) -> Iterator[None]:
    """Make the planned changes within the context, and restore everything afterwards.

    The caller must keep signals from interrupting the change or the restoring, as `pytest_vperf.commands.tune` does.

    Raises:
        Busy: another process has changed them.
        TuningError: a file cannot be written, and everything is as it was; or, on leaving, something could not be
            restored, and the journal is still there.
        OSError: the journal cannot be written; nothing was changed.
    """
    # Checked first, so that a user without permission learns which file refuses.
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
    """Refuse a plan whose files have changed since: a stale value must not be restored."""
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
    """Start the process that restores the settings if this one dies, and wait until it is ready.

    Raises:
        TuningError: it cannot be started.
    """
    guardian = subprocess.Popen(
        [sys.executable, "-I", restore_settings.__file__, str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(lock,),
        start_new_session=True,  # signals to the terminal's foreground group do not reach it
        env={
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
        },  # without the mark of a run, which it does not belong to
    )
    assert guardian.stdout is not None
    with guardian.stdout as stream:
        ready = stream.readline()
    if ready != b"ready\n":
        end_by_input(guardian, _GUARDIAN_LIMIT)
        raise TuningError("the process that restores the settings after a crash did not start")
    return guardian
