"""The commit that a run is of: that of the folder that pytest was called in."""

from __future__ import annotations

from typing import NamedTuple


class Commit(NamedTuple):
    """A commit.

    Attributes:
        id: in full; empty outside of a repository, or if Git does not answer.
        dirty: whether files had changed since.
        branch: empty if it is not known.
    """

    id: str = ""
    dirty: bool = False
    branch: str = ""


def read_commit() -> Commit:
    """Ask Git, or Mercurial, as pytest-benchmark does."""
    from pytest_benchmark.utils import get_commit_info

    found = get_commit_info()
    if not found.get("time"):
        return Commit()
    branch = str(found["branch"])
    return Commit(str(found["id"]), bool(found["dirty"]), "" if branch.startswith("(") else branch)
