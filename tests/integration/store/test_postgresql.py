"""Runs in a PostgreSQL server of the tests' own: Debian's, in a folder of its own, on a socket there."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import psutil
import pytest
import sqlalchemy as sa
from postgresql_here import PROGRAMS, data_of, postgresql
from stores import AnyStore, document, save, stored

from pytest_vperf.results.store import sql
from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.results.store.model import Store


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of the server, with a place for the name of the database."""
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed")
    with postgresql() as url:
        yield url


@pytest.fixture(scope="module")
def new_database(server: str) -> Callable[[], str]:
    """Makes a database, and returns its URL."""
    numbers = count()

    def make() -> str:
        name = f"runs_{next(numbers)}"
        engine = sa.create_engine((server % "postgres").replace("postgresql", "postgresql+psycopg"))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return server % name

    return make


@pytest.fixture
def store(new_database: Callable[[], str]) -> Store:
    return open_store(new_database())


class TestPostgresql(AnyStore):
    pass


def test_a_reader_may_be_forbidden_to_write(new_database: Callable[[], str]) -> None:
    place = new_database()
    save(open_store(place), stored(1))
    engine = sa.create_engine(place.replace("postgresql", "postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE reader LOGIN")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    engine.dispose()
    reader = open_store(place.replace("//me@", "//reader@"))
    assert [run.mark for run in reader.runs()] == [stored(1).mark]
    with pytest.raises(StoreProblem, match="permission denied for table vperf_"):
        reader.save(stored(2), document(stored(2)))


def test_a_server_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has ended must end, whether or not it can be kept."""
    with postgresql() as url:
        place = f"{url % 'postgres'}&connect_timeout=5"
        save(
            open_store(place), stored(1)
        )  # it makes the tables, for which a busy machine takes long
        monkeypatch.setattr(sql, "ANSWERS", 5)
        known, new = open_store(place), open_store(place)
        known.check()
        server = psutil.Process(int((data_of(url) / "postmaster.pid").read_text().split()[0]))
        stopped = [server, *server.children()]
        for process in stopped:
            process.suspend()
        try:
            for use in (
                known.runs,
                lambda: known.save(stored(2), document(stored(2))),
                new.check,
            ):
                with pytest.raises(StoreProblem) as caught:
                    use()
                assert str(caught.value) == f"{known.place}: the server did not answer within 5 s"
        finally:
            for process in stopped:
                process.resume()
        assert [run.mark for run in known.runs()] == [stored(1).mark]


def test_a_database_that_is_not_there_is_said(server: str) -> None:
    with pytest.raises(StoreProblem, match='database "nowhere" does not exist'):
        open_store(server % "nowhere").check()
