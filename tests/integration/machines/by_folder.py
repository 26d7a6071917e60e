"""Gives each worker whole files or folders of tests.

The files of a folder share expensive resources (lab hosts, a libvirt daemon), or would see one another's traces.
Marks of `xdist_group` would say the same, but xdist 3.8 heeds none with pytest 9.2 (pytest-xdist, issue 1386).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from xdist.scheduler import LoadFileScheduling

_HERE = Path(__file__).parents[1].name


class ByFolder(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """Hands out whole files, and folders of ``tests/integration`` whole."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """A test's unit of scheduling: its folder below ``integration``, else its file.

    >>> scope_of("tests/integration/labs/test_lab.py::test_it")
    'labs'
    >>> scope_of("tests/integration/metrology/cpu/test_cpu_quota.py::test_it")
    'metrology/cpu'
    >>> scope_of("tests/integration/test_pod.py::test_it")
    'test_pod.py'
    """
    path = PurePosixPath(nodeid.split("::", 1)[0])
    folders = path.parts[:-1]
    below = folders[folders.index(_HERE) + 1 :] if _HERE in folders else folders
    return "/".join(below) if below else path.name
