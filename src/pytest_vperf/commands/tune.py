"""``vperf doctor --tune``: this machine's settings, those that add noise, and the commands that change them.

``--apply`` changes them while a command runs, or until it is interrupted, and then restores them.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import noise_settings, noise_warnings, tuning
from pytest_vperf.machine.tuning import Busy, TuningError
from pytest_vperf.reporting.console import say, tell
from pytest_vperf.targets.process import ready

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import FrameType

    from pytest_vperf.machine.noise_warnings import NoiseWarning
    from pytest_vperf.machine.tuning import Change

OK, FAILED = 0, 1
CANNOT_EXECUTE, NOT_FOUND = 126, 127  # as in a shell
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    *,
    apply: bool = False,
    also: Collection[str] = (),
    command: Sequence[str] = (),
    root: Path = Path("/"),
) -> int:
    """Show the settings, and change them for a while if ``apply`` is set.

    Args:
        apply: change them.
        also: settings of `tuning.ASKED` to change as well.
        command: the command to run meanwhile; without it, waits for Ctrl-C, SIGTERM, or the end of standard input.
        root: the folder with the machine's ``sys`` and ``proc``.

    Returns:
        The command's status, as in a shell; 1 if something could not be changed or restored; else 0.
    """
    try:
        done = tuning.recover()
    except TuningError as error:
        _complain(error)
        if apply or not isinstance(error, Busy):
            return FAILED
        done = ""
    if done:
        say("vperf", f"{done}")
    settings = noise_settings.settings(root)
    planned = tuning.changes(root, settings, also)
    # With a command, only its own output is shown.
    if not command:
        _show(settings, noise_warnings.look(root), planned, root)
        _show_asked(settings, also, root)
    if not apply:
        return OK
    try:
        with signals_deferred() as ended, tuning.tuned(root, planned) if planned else _as_it_is():
            status = _during(planned, command, ended)
    except (TuningError, OSError) as error:
        _complain(error)
        return FAILED
    if planned:
        say("vperf", f"restored {_counted(planned)}")
    return status


def _during(planned: Sequence[Change], command: Sequence[str], ended: socket.socket) -> int:
    if planned:
        say("vperf", f"changed {_counted(planned)}")
    else:
        say("vperf", "there is nothing to change")
    if command:
        return _run_command(command)
    if planned:
        say("vperf", "waiting; Ctrl-C restores them")
        _wait_for_end(ended)
    return OK


def _as_it_is() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _counted(planned: Sequence[Change]) -> str:
    titles = {knob.key: knob.title for knob in tuning.KNOBS}
    return ", ".join(titles[key] for key in dict.fromkeys(change.key for change in planned))


def _complain(error: Exception) -> None:
    for line in str(error).splitlines():
        say("vperf doctor --tune", line)


def _show(
    settings: dict[str, str],
    noisy: Sequence[NoiseWarning],
    planned: Sequence[Change],
    root: Path,
) -> None:
    from pytest_vperf.reporting.console import print_table

    print_table(("setting", "value"), list(settings.items()))
    tell()
    if noisy:
        print_table(
            ("noise", "value", "why it matters", "to change it"),
            [(each.name, each.value, each.why, each.remedy) for each in noisy],
        )
    else:
        tell("nothing was found that makes this machine noisy")
    commands = tuning.commands(planned, root)
    if commands:
        tell("\nas root, until the next boot (or with --apply, for a while):")
        for line in commands:
            tell(f"  {line}")


def _show_asked(settings: dict[str, str], also: Collection[str], root: Path) -> None:
    """Show settings that are changed only on request, because they have other effects."""
    for knob in tuning.KNOBS:
        if not knob.asked or knob.key in also or settings[knob.key].startswith("unknown"):
            continue
        commands = tuning.commands(tuning.changes_of(knob, root), root)
        if commands:
            tell(f"\nonly if you want it (or with --also={knob.key}): {knob.why}")
            tell(f"  {'; '.join(commands)}")


@contextlib.contextmanager
def signals_deferred() -> Iterator[socket.socket]:
    """Make SIGINT, SIGTERM and SIGHUP interrupt nothing inside the context; each makes the socket readable.

    An exception raised by a signal could leave settings half changed, or half restored.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    earlier = {number: signal.getsignal(number) for number in _ENDING}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def heard(number: int, frame: FrameType | None) -> None:
        pass

    try:
        for number in _ENDING:
            if earlier[number] is not signal.SIG_IGN:  # nohup
                signal.signal(number, heard)
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number in _ENDING:
            signal.signal(number, earlier[number])
        reader.close()
        writer.close()


def _wait_for_end(ended: socket.socket) -> None:
    """Wait for a signal, or for the end of standard input if it can end."""
    watched: list[socket.socket | int] = [ended]
    if _can_end(0):
        watched.append(0)
    while True:
        readable, _ = ready(watched, [], math.inf)
        if ended in readable:
            return
        if 0 in readable:
            with contextlib.suppress(OSError):
                if os.read(0, 4096):
                    continue
            return


def _can_end(descriptor: int) -> bool:
    """Whether somebody can close a file: not ``/dev/null``, nor a terminal that we are not in the foreground of."""
    try:
        if os.isatty(descriptor):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
        return not os.path.samestat(os.fstat(descriptor), os.stat(os.devnull))  # noqa: PTH116
    except OSError:
        return False


def _run_command(command: Sequence[str]) -> int:
    """Run a command to its end, and pass signals on to it."""
    try:
        process = subprocess.Popen(list(command))
    except OSError as error:
        say("vperf", f"{command[0]}: {error.strerror or error}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    with _passed_on(process.send_signal):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _passed_on(send: Callable[[int], None]) -> Iterator[None]:
    def pass_on(number: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches the terminal's whole foreground group, so the command has it already.
        if number != signal.SIGINT or not _in_foreground():
            send(number)

    earlier = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number in _ENDING:
            if earlier[number] is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        yield
    finally:
        for number in _ENDING:
            signal.signal(number, earlier[number])


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
