"""Runs in a database, through SQLAlchemy: PostgreSQL, or SQLite.

A run is a row, with its record, compressed, in one piece; each figure that later runs are held against is a row of
its own, found by the name of its claim. The schema is the business of Alembic: whoever uses a database first brings
it up to date, and a newer one than this version knows is refused.
"""

from __future__ import annotations

import json
import re
import zlib
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pytest_vperf.results.levels import Level
from pytest_vperf.results.reading import MAX_BYTES
from pytest_vperf.results.store.model import StoredRun, StoreProblem

try:
    import sqlalchemy as sa

    from pytest_vperf.results.store.answering import Answering
    from pytest_vperf.results.store.schema import bring_up_to_date, is_current
except ImportError as missing:
    raise StoreProblem(
        f"a database takes {missing.name}: pip install 'pytest-vperf[store]'"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.engine import Connection, Engine

#: The tables as this version uses them; `pytest_vperf.results.store.schema` makes them.
TABLES = sa.MetaData()
RUN = sa.Table(
    "vperf_run",
    TABLES,
    sa.Column("mark", sa.String(12), primary_key=True),
    sa.Column("started", sa.String(32), nullable=False, index=True),
    sa.Column("name", sa.String(100), nullable=False, index=True),
    sa.Column("commit_id", sa.String(64), nullable=False, index=True),
    sa.Column("dirty", sa.Boolean, nullable=False),
    sa.Column("branch", sa.String(200), nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)
LEVEL = sa.Table(
    "vperf_level",
    TABLES,
    sa.Column("mark", sa.String(12), sa.ForeignKey(RUN.c.mark), primary_key=True),
    sa.Column("claim", sa.String(200), primary_key=True),
    sa.Column("side", sa.String(100), primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("unit", sa.String(40), nullable=False),
    sa.Column("better", sa.String(6), nullable=False),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Index("vperf_level_claim", "claim"),
)
_HEAD = [column for column in RUN.c if column is not RUN.c.document]
#: Seconds that a writer waits for another one of an SQLite file.
_PATIENCE = 60
#: Seconds that a server may take for a connection, and for what one method of the store asks of it.
_CONNECTS, ANSWERS = 30, 300
#: The first part of a URL, and the driver that it stands for.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
}


class SqlStore:
    """A database of runs.

    Attributes:
        place: the URL, without its password.
    """

    def __init__(self, engine: Engine, place: str, answering: Answering | None = None) -> None:
        self.place = place
        self._engine = engine
        self._answering = answering
        self._current = False  # whether the schema was seen to be this version's

    @classmethod
    def of(cls, text: str) -> SqlStore:
        """The store that a URL names; nothing is connected yet.

        Raises:
            StoreProblem: it is no URL, not of a database that is known here, or its driver is not installed.
        """
        try:
            url = sa.engine.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise StoreProblem(
                f"{_hidden(text)} is no URL of a database, such as postgresql://USER@HOST/NAME"
            ) from None
        driver = _DRIVERS.get(url.drivername)
        if driver is None:
            raise StoreProblem(
                f"{url.drivername}: runs are kept in postgresql://USER@HOST/NAME, sqlite:///FILE, or a folder"
            )
        place, url = url.render_as_string(hide_password=True), url.set(drivername=driver)
        try:
            if driver.startswith("postgresql"):
                engine = _of_server(url)
                return cls(engine, place, Answering(engine, ANSWERS))
            if not url.database or url.database == ":memory:":
                raise StoreProblem("sqlite: name a file: sqlite:///FILE, sqlite:////FOLDER/FILE")
            return cls(_of_file(url), place)
        except ImportError as missing:
            raise StoreProblem(
                f"{url.drivername} takes {missing.name}: pip install 'pytest-vperf[store]'"
            ) from None

    @property
    def damaged(self) -> list[str]:
        """Nothing: a row is there whole, or not at all."""
        return []

    def check(self) -> None:
        """Connect, and bring the schema up to date."""
        with self._connected(writes=True):
            pass

    def save(self, run: StoredRun, document: Iterable[bytes]) -> None:
        """Insert the run and its figures, in one transaction."""
        packer = zlib.compressobj()
        packed = b"".join([*map(packer.compress, document), packer.flush()])
        with self._connected(writes=True) as connection:
            connection.execute(sa.delete(LEVEL).where(LEVEL.c.mark == run.mark))
            connection.execute(sa.delete(RUN).where(RUN.c.mark == run.mark))
            connection.execute(
                sa.insert(RUN),
                {
                    "mark": run.mark,
                    "started": run.started,
                    "name": run.name,
                    "commit_id": run.commit,
                    "dirty": run.dirty,
                    "branch": run.branch,
                    "fingerprint": json.dumps(dict(run.fingerprint)),
                    "document": packed,
                },
            )
            if run.levels:
                rows = [{"mark": run.mark, **each._asdict()} for each in run.levels]
                connection.execute(sa.insert(LEVEL), rows)

    def runs(
        self, *, name: str = "", commit: str = "", claim: str = "", most: int | None = None
    ) -> list[StoredRun]:
        """Select them, and their figures."""
        wanted = sa.select(*_HEAD)
        if name:
            wanted = wanted.where(RUN.c.name == name)
        if commit:
            wanted = wanted.where(RUN.c.commit_id.startswith(commit, autoescape=True))
        own = sa.true() if not claim else LEVEL.c.claim == claim
        if claim:
            wanted = wanted.where(sa.exists().where(LEVEL.c.mark == RUN.c.mark, own))
        wanted = wanted.order_by(RUN.c.started.desc(), RUN.c.mark.desc()).limit(most)
        figures = sa.select(LEVEL).where(own).order_by(LEVEL.c.mark, LEVEL.c.claim, LEVEL.c.side)
        if name or commit or most is not None:
            figures = figures.where(LEVEL.c.mark.in_(sa.select(wanted.subquery().c.mark)))
        with self._connected() as connection:
            # In this order, so that a run that is saved in between has its figures, or is not there.
            found = connection.execute(wanted).all()
            levels = {
                mark: tuple(Level(*row[1:]) for row in rows)
                for mark, rows in groupby(connection.execute(figures), itemgetter(0))
            }
        machine = cache(json.loads)  # nearly all are of a few machines
        return [_run(row, machine(row.fingerprint), levels.get(row.mark, ())) for row in found]

    def document(self, mark: str) -> Iterator[bytes]:
        """Select the record, and unpack it."""
        wanted = sa.select(RUN.c.document).where(RUN.c.mark == mark)
        with self._connected() as connection:
            packed = connection.execute(wanted).scalar_one_or_none()
        if packed is None:
            raise StoreProblem(f"{self.place} has no run {mark}")
        unpacker = zlib.decompressobj()
        try:
            yield unpacker.decompress(packed, MAX_BYTES)
        except zlib.error as error:
            raise StoreProblem(f"{self.place}: the record of run {mark}: {error}") from None
        if unpacker.unconsumed_tail:
            raise StoreProblem(
                f"{self.place}: the record of run {mark} is larger than {MAX_BYTES >> 20} MiB"
            )

    @contextmanager
    def _connected(self, *, writes: bool = False) -> Iterator[Connection]:
        """A transaction on a database whose schema is this version's."""
        answering = self._answering
        try:
            with answering.within() if answering else nullcontext():
                if not self._current:
                    with self._engine.connect() as connection, connection.begin():
                        self._current = is_current(connection)
                if not self._current:
                    with self._engine.connect().execution_options(vperf_writes=True) as connection:
                        bring_up_to_date(connection, self.place)
                    self._current = True
                connection = self._engine.connect().execution_options(vperf_writes=writes)
                with connection, connection.begin():
                    yield connection
        except ImportError as missing:
            raise StoreProblem(
                f"a database takes {missing.name}: pip install 'pytest-vperf[store]'"
            ) from None
        except sa.exc.SQLAlchemyError as error:
            why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            if answering and answering.late:
                why = f"the server did not answer within {answering.seconds:g} s"
            raise StoreProblem(f"{self.place}: {why}") from None


def _hidden(text: str) -> str:
    """A text that may be a URL, without what may be a password."""
    return re.sub(r"//[^/@]*@", "//…@", text)


def _run(row: Any, fingerprint: dict[str, str], levels: tuple[Level, ...]) -> StoredRun:
    return StoredRun(
        mark=row.mark,
        started=row.started,
        name=row.name,
        commit=row.commit_id,
        dirty=row.dirty,
        branch=row.branch,
        fingerprint=fingerprint,
        levels=levels,
    )


def _of_server(url: sa.engine.URL) -> Engine:
    limit = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECTS}
    return sa.create_engine(url, pool_pre_ping=True, connect_args=limit)


def _of_file(url: sa.engine.URL) -> Engine:
    """An engine for an SQLite file: several writers wait for each other, instead of one of them failing."""
    engine = sa.create_engine(url, connect_args={"timeout": _PATIENCE})

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: object) -> None:
        connection.isolation_level = (
            None  # or Python's module would begin transactions of its own, and later
        )
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that begins by reading cannot write once another one has.
        writes = connection.get_execution_options().get("vperf_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
