"""What the outputs of our own programs have in common: a name with a version first, ``checked: yes`` last."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.figures import TOKEN

if TYPE_CHECKING:
    from pytest_vperf.workloads.figures import Reader


def implementation(reader: Reader) -> str:
    """The program's name and version, e.g. ``vperf-stream 1.0``.

    Raises:
        ParseError: it is not there, or the program does not say that its results were right.
    """
    name = reader.need(rf"^({re.escape(reader.tool)} [0-9]+\.[0-9]+)$", "name and version")
    reader.need(r"^checked: yes$", "word that the results were checked")
    return name[1]


def figure(reader: Reader, label: str) -> float:
    """A line ``label: number``; zero makes no sense in any of them.

    Raises:
        ParseError: it is not there, or is no number.
    """
    match = reader.need(rf"^{re.escape(label)}: ({TOKEN})$", label)
    return reader.number(match[1], label, positive=True)


def version_of(tool: str, output: Output) -> str:
    """The version that ``--version`` printed.

    Raises:
        ParseError: it is not there.
    """
    match = re.search(
        rf"^{re.escape(tool)} ([0-9]+\.[0-9]+)$", output.stdout, re.MULTILINE | re.ASCII
    )
    if match is None:
        raise ParseError(tool, "there is no version in what --version printed", output)
    return match[1]


def check_time(time: float, most: float) -> None:
    """Refuse a run's length that the programs refuse.

    Raises:
        ValueError: with the limits.
    """
    number = isinstance(time, (int, float)) and not isinstance(time, bool)
    if not number or not math.isfinite(time) or not 0.01 <= time <= most:
        raise ValueError(f"time is {time!r}, not a number of seconds from 0.01 to {most:g}")
