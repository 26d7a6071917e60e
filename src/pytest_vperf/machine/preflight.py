"""What a check of this machine says: usable, or not usable, why, and the command that mends it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

_ADMINISTRATOR = ":/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Readiness:
    """The answer to "can this be used here?".

    Attributes:
        name: what was asked for: ``pod``, ``accelerator kvm``, ``sysbench``.
        usable: whether it can be used now.
        why: what was found; one line. For a usable thing its version or path.
        remedy: the command that mends it; empty where it is usable or nothing helps.
    """

    name: str
    usable: bool
    why: str
    remedy: str = ""


def program(name: str, package: str) -> Readiness:
    """Whether a program is on the search path (``/usr/sbin`` included), and the package that brings it."""
    path = find_program(name)
    if path is None:
        return Readiness(name, False, f"{name} is not installed", f"apt-get install {package}")
    return Readiness(name, True, path)


def find_program(name: str) -> str | None:
    """The path of a program, also where a user's search path leaves out the administrator's folders."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + _ADMINISTRATOR)
