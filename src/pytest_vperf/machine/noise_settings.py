"""The kernel settings that determine how steady this machine is, each as a short text.

Whether a value is good is decided in `pytest_vperf.machine.noise_warnings`.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = "sys/devices/system/cpu"
THP = "sys/kernel/mm/transparent_hugepage"
CLOCK = "sys/devices/system/clocksource/clocksource0"

#: The beginning of a value that could not be read; the reason follows.
UNKNOWN = "unknown: "
# No valid value is longer; anything longer is cut before it reaches a record or a terminal.
_LONGEST = 120


class Unreadable(Exception):
    """A setting that this machine does not show; the message says why."""


def settings(root: Path = Path("/")) -> dict[str, str]:
    """Every setting by name, for this machine or the one whose files are under ``root``; never raises.

    A setting that cannot be read is ``unknown: `` followed by the reason. The keys: ``governor``,
    ``frequency_driver``,
    ``turbo``, ``smt``, ``thp``, ``thp_defrag``, ``aslr``, ``numa_balancing``, ``numa_nodes``, ``swappiness``,
    ``swap``, ``isolated_cpus``, ``clocksource``. `docs/noise.md` says what they mean.
    """
    readers: dict[str, Callable[[], str]] = {
        "governor": lambda: _per_policy(root, "scaling_governor"),
        "frequency_driver": lambda: _per_policy(root, "scaling_driver"),
        "turbo": lambda: _turbo(root),
        "smt": lambda: _smt(root),
        "thp": lambda: chosen(read(root / THP / "enabled")),
        "thp_defrag": lambda: chosen(read(root / THP / "defrag")),
        "aslr": lambda: _number(root / "proc/sys/kernel/randomize_va_space"),
        "numa_balancing": lambda: _number(root / "proc/sys/kernel/numa_balancing"),
        "numa_nodes": lambda: read(root / "sys/devices/system/node/online"),
        "swappiness": lambda: _number(root / "proc/sys/vm/swappiness"),
        "swap": lambda: _swap(root),
        "isolated_cpus": lambda: read(root / CPU / "isolated") or "none",
        "clocksource": lambda: read(root / CLOCK / "current_clocksource"),
    }
    found = {}
    for name, reader in readers.items():
        try:
            found[name] = reader()
        except Unreadable as reason:
            found[name] = f"{UNKNOWN}{reason}"
    return found


def read(path: Path) -> str:
    """The content of a setting's file, stripped and safe to print.

    Raises:
        Unreadable: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            text = stream.read(4096).decode("utf-8", "replace")
    except OSError as error:
        raise Unreadable(_reason(error, path)) from None
    printable = foreign_text.line(text)
    return printable if len(printable) <= _LONGEST else f"{printable[: _LONGEST - 1]}…"


def _reason(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"there is no {path}"
    return f"{path}: {error.strerror or error}"


def chosen(text: str) -> str:
    """The word in brackets in a list such as ``always [madvise] never``.

    Raises:
        Unreadable: not exactly one word is in brackets.
    """
    words = re.findall(r"\[([\w+-]+)\]", text)
    if len(words) != 1:
        raise Unreadable(f"no single choice is marked in {text!r}")
    return str(words[0])


def policies(root: Path) -> list[Path]:
    """The folders of the frequency policies, one for each processor or group of processors, in order."""
    try:
        names = os.listdir(root / CPU / "cpufreq")  # noqa: PTH208 - names are wanted
    except OSError:
        return []
    numbers = sorted(int(name[6:]) for name in names if re.fullmatch(r"policy[0-9]{1,6}", name))
    return [root / CPU / "cpufreq" / f"policy{number}" for number in numbers]


def _per_policy(root: Path, name: str) -> str:
    folders = policies(root)
    if not folders:
        raise Unreadable(f"there are no frequency policies in {root / CPU / 'cpufreq'}")
    by_value: dict[str, list[int]] = {}
    for folder in folders:
        by_value.setdefault(read(folder / name), []).append(int(folder.name[6:]))
    if len(by_value) == 1:
        return next(iter(by_value))
    return ", ".join(f"{value} (policy {_ranges(which)})" for value, which in by_value.items())


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers as the kernel writes lists of processors, but with spaces: ``0-3 8``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def _number(path: Path) -> str:
    text = read(path)
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise Unreadable(f"{path} holds no number but {text!r}")
    return text


def turbo_file(root: Path) -> Path | None:
    """The file that switches turbo frequencies, if there is one; Intel's driver has its own, with the opposite
    meaning."""
    for name in ("intel_pstate/no_turbo", "cpufreq/boost"):
        if (root / CPU / name).exists():
            return root / CPU / name
    return None


def _turbo(root: Path) -> str:
    path = turbo_file(root)
    if path is None:
        raise Unreadable(f"no frequency driver in {root / CPU} has a switch for it")
    value = _number(path)
    if value not in ("0", "1"):
        raise Unreadable(f"{path} holds neither 0 nor 1 but {value}")
    return "off" if (value == "1") == (path.name == "no_turbo") else "on"


def _smt(root: Path) -> str:
    """The state of SMT as the kernel names it: ``on``, ``off``, ``forceoff``, ``notsupported``, ``notimplemented``, a
    number."""
    control = read(root / CPU / "smt/control")
    try:
        active = read(root / CPU / "smt/active")
    except Unreadable:
        return control
    # The switch may be on although all siblings are offline.
    return f"{control} (no siblings online)" if (control, active) == ("on", "0") else control


def _swap(root: Path) -> str:
    """``none``, or how much swap is in use, in MiB."""
    path = root / "proc/swaps"
    try:
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()[1:]
    except OSError as error:
        raise Unreadable(_reason(error, path)) from None
    size = used = 0
    for line in lines:
        # Name, type, size and used in KiB, priority; space in a name is escaped (proc_swaps(5)).
        words = line.split()
        if len(words) != 5 or not (words[2].isdecimal() and words[3].isdecimal()):
            raise Unreadable(f"{path} is not understood")
        size, used = size + int(words[2]), used + int(words[3])
    if not size:
        return "none"
    return f"{used / 1024:.1f} MiB of {size / 1024:.0f} MiB in use"
