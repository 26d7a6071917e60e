"""One file of a control group: what is written to it, and whether what it then says is what was asked for.

A limit is read back before the target is used (design rule 11): the engine of a container, and even a kernel, may
take a request and not enforce it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine.procfile import text
from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pytest_vperf.machine.procfile import Read


@dataclass(frozen=True)
class Setting:
    """One file of a control group.

    Attributes:
        name: under which it is found in a target's facts.
        file: its name.
        value: what is written.
        same: whether what was read back is what was asked for.
        optional: the file need not be there.
        written: whether the file is written to, and not only read back.
    """

    name: str
    file: str
    value: str
    same: Callable[[str], bool]
    optional: bool = False
    written: bool = True


def exact(name: str, file: str, value: str) -> Setting:
    """A file that has one value, and has to say it as it was written."""
    return Setting(name, file, value, lambda found: found == value)


def among_lines(name: str, file: str, line: str, words: set[str]) -> Setting:
    """A file with a line for each disk: one of them has to be, or to have, the words."""
    return Setting(
        name,
        file,
        line,
        lambda found: any(words <= {each, *each.split(" ")} for each in found.splitlines()),
    )


def check(
    settings: Iterable[Setting],
    folder: Path,
    target: str,
    *,
    unenforced: str = "",
    read: Read = text,
) -> dict[str, str]:
    """Read settings back from a control group.

    Args:
        settings: what was asked for.
        folder: the group's, of one controller.
        target: the target's name, for messages.
        unenforced: added to the message, where it is known why a setting may not be there.
        read: reads the files of the machine that the group is on.

    Returns:
        Setting → the text of its file.

    Raises:
        CannotStart: a file has something else than was asked for, or cannot be read; with both values.
    """
    found = {}
    for setting in settings:
        path = folder / setting.file
        try:
            value = read(path).strip()
        except OSError as error:
            if setting.optional:
                continue
            value = f"nothing: {error.strerror}"
        if not setting.same(value):
            raise CannotStart(
                f"{target}: asked for {setting.name} {setting.value!r}, the system has {value!r}"
                f" in {path}{unenforced}",
                target=target,
            )
        if setting.written:  # else it says again what another file says
            found[setting.name] = _line(value, setting.value)
    return found


def _line(text: str, asked: str) -> str:
    """Of a file with a line for each disk, the disk's own."""
    number = asked.partition(" ")[0]
    if ":" not in number:
        return text
    return next(line for line in text.splitlines() if line.partition(" ")[0] == number)
