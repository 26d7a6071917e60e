"""A program in a target: how it is called there, and which bytes it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program as one target runs it. Made by `pytest_vperf.targets.base.Target.program`.

    Attributes:
        name: as it was asked for, e.g. ``sysbench``.
        argv: the words before its arguments. More than a path on the host, where a program of the image runs
            through the image's own loader.
        path: where the file is: in the image, e.g. ``/usr/bin/sysbench``; or, of an installed tool, on the host.
        sha256: of the file, in hexadecimal; equal in two targets where both run the same bytes.
        origin: ``image``, or ``host`` for a tool that is installed there.
    """

    name: str
    argv: tuple[str, ...]
    path: str
    sha256: str
    origin: str
