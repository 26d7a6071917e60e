"""Runs in a PostgreSQL server of the tests' own: Debian's, in a folder of its own, on a socket there."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from stores import AnyStore, document, save, stored

from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.results.store.model import Store

#: Debian keeps the programs of each version apart.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of the server, without a database; it refuses to run as root."""
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed")
    programs = PROGRAMS[-1]
    # Of the tests' other folders root alone may see the inside.
    folder = Path(tempfile.mkdtemp(prefix="vpt-", dir="/tmp"))
    words: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"
    subprocess.run(
        [*words, programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    options = ["-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*words, "--pdeathsig=INT", programs / "postgres", "-D", data, *options]
            if words
            else [programs / "postgres", "-D", data, *options],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        _await(folder / ".s.PGSQL.5432", process)
        yield f"postgresql://me@/%s?host={folder}"
    finally:
        process.terminate()  # as soon as nobody is connected
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await(socket: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            break
        if socket.exists():
            return
        time.sleep(0.1)
    pytest.fail((socket.parent / "log").read_text())


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


def test_a_database_that_is_not_there_is_said(server: str) -> None:
    with pytest.raises(StoreProblem, match='database "nowhere" does not exist'):
        open_store(server % "nowhere").check()
