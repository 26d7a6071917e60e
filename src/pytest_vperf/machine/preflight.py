"""The answer of a check of this machine: usable or not, why, and the command that fixes it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

_ADMINISTRATOR = ":/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Readiness:
    """The answer to "can this be used here?".

    Attributes:
        name: what was checked: ``pod``, ``accelerator kvm``, ``sysbench``.
        usable: whether it can be used now.
        why: the finding, in one line; for something usable, its version or path.
        remedy: the command that fixes it; empty if it is usable or nothing helps.
    """

    name: str
    usable: bool
    why: str
    remedy: str = ""


def program(name: str, package: str) -> Readiness:
    """Whether a program is on the search path (``/usr/sbin`` included), with its package as the remedy."""
    path = find_program(name)
    if path is None:
        return Readiness(name, False, f"{name} is not installed", f"apt-get install {package}")
    return Readiness(name, True, path)


def find_program(name: str) -> str | None:
    """The path of a program, even if the user's search path lacks the administrator's folders."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + _ADMINISTRATOR)
