"""Ending a command where processes are seen from inside alone: by the mark that all it started carries."""

from __future__ import annotations

#: Again until nothing is found: a process may be made between the look and the signal. Any shell with grep will do.
_SCRIPT = (
    "for turn in 1 2 3 4 5; do found=;"
    ' for e in /proc/[0-9]*/environ; do if grep -q "{variable}=$1" "$e" 2>/dev/null; then'
    " p=${{e#/proc/}}; kill -9 ${{p%/environ}} && found=yes; fi; done;"
    ' [ "$found" ] || break; done'
)


def end_marked(variable: str, mark: str) -> list[str]:
    """The command that kills every process with ``variable=mark`` in its environment; it must not have it itself.

    Args:
        variable: its name.
        mark: its value: letters and digits.
    """
    return ["sh", "-c", _SCRIPT.format(variable=variable), "sh", mark]
