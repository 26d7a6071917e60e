"""Which store a path or a URL is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.results.store.files import FileStore

if TYPE_CHECKING:
    from pytest_vperf.results.store.model import Store


def open_store(text: str) -> Store:
    """Open a store; whether it can be reached is seen when it is used.

    Args:
        text: a folder, or a URL of a database as SQLAlchemy has them.

    Raises:
        StoreProblem: it is no URL of a database, or what it takes is not installed.
    """
    if "://" not in text:
        return FileStore(Path(text))
    from pytest_vperf.results.store.sql import SqlStore

    return SqlStore.of(text)
