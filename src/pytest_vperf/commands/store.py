"""The store that a command reads: the one that is named, or the project's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_vperf.reporting.console import say
from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.results.store.model import Store


@contextmanager
def reading(program: str, given: str | None) -> Iterator[Store]:
    """Open it, and say in the end on standard error what was found in it that is no run.

    Args:
        program: as messages name it.
        given: a folder or a URL; without one, that of the ini setting ``claims_store``, or its default.

    Raises:
        StoreProblem: it is no URL of a database, what it takes is not installed, or the project's settings are not
            understood.
    """
    if given is None:
        from pytest_vperf.commands.claims.tests import ProjectError, ask

        try:
            given = ask().store
        except ProjectError as error:
            raise StoreProblem(str(error)) from None
    store = open_store(given)
    try:
        yield store
    finally:
        for each in store.damaged:
            say(program, f"left out: {each}")
