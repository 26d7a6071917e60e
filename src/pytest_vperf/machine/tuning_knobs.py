"""The settings that add noise and can be changed while the kernel runs: which files, which value, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.noise_settings import CPU, THP, UNKNOWN, policies, turbo_file
from pytest_vperf.machine.restore_settings import read, state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


@dataclass(frozen=True)
class Change:
    """One file that would be written.

    Attributes:
        key: the setting it belongs to.
        path: the file.
        before: what it holds now, to the byte.
        word: what is to be written.
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
        title: its name for people.
        why: how it disturbs measurements; short.
        noisy: whether its value, one that could be read, does so; the other settings may matter.
        files: the files that hold it.
        word: what to write into a file that holds a text; ``None`` where it is quiet, or has nothing better.
        along: files that the kernel may change along with it, which are to be as before afterwards too.
        asked: it is changed only where it is asked for by its key, since it does more than make noise.
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
# With "userspace" somebody has set a frequency, which stays.
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


#: In the order they are applied; they are restored in the opposite one. Taking processors away comes last, since the
#: files of the others' settings go with them.
KNOBS = (
    Knob(
        "turbo",
        "turbo",
        "the clock rate then depends on heat and on how many cores are busy",
        lambda settings: settings["turbo"] == "on",
        lambda root: [path] if (path := turbo_file(root)) else [],
        _turbo_word,
        # A switch of the boost sets the policies' limits anew.
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
        _smaller(1),  # 0 would leave nothing between ease and an end for want of memory
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
        _online_files,  # "on" brings back those too that somebody took away singly
        asked=True,
    ),
)
#: What is changed only on request.
ASKED = tuple(knob.key for knob in KNOBS if knob.asked)


def changes(root: Path, settings: Mapping[str, str], also: Collection[str] = ()) -> list[Change]:
    """The files to write for a quieter machine, in order; none of a setting whose files cannot be read.

    Args:
        root: where ``sys`` and ``proc`` are.
        settings: those of that machine.
        also: of `ASKED`, those that are to be changed too.
    """
    found = []
    for knob in KNOBS:
        wanted = knob.key in also if knob.asked else knob.noisy(settings)
        if wanted and _known(settings[knob.key]):
            found += changes_of(knob, root)
    return found


def changes_of(knob: Knob, root: Path) -> list[Change]:
    """What would be written to make one setting quiet."""
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
    """The files that may change along with the planned ones, each with its content; those that cannot be read not."""
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
