"""Where runs are kept: a folder and a database answer the same questions alike."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest
from stores import AnyStore, save, stored

from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.results.store.model import Store


@pytest.fixture(params=["folder", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(
        str(tmp_path / "runs") if request.param == "folder" else f"sqlite:///{tmp_path / 'runs.db'}"
    )


class TestStores(AnyStore):
    pass


# A folder.


def test_a_file_that_is_no_run_is_left_out(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    save(store, stored(1))
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "20261126T091200.000Z-0123456789ab.json").write_text('{"format": 1, "claims": [\n')
    (tmp_path / "20261126T091300.000Z-0123456789ab.json").write_bytes(b"\xff" * 100)
    (tmp_path / "20261126T091400.000Z-0123456789ab.json").mkdir()
    assert [run.mark for run in store.runs()] == [stored(1).mark]
    assert len(store.damaged) == 3


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreProblem, match=r"/file/runs: Not a directory$"):
        open_store(str(tmp_path / "file/runs")).check()


# A database.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me:secret@host/runs",
         "mysql: runs are kept in postgresql://USER@HOST/NAME, sqlite:///FILE, or a folder"),
        ("sqlite://", "sqlite: name a file: sqlite:///FILE, sqlite:////FOLDER/FILE"),
        ("postgresql://me:secret@host:port/runs", "postgresql://…@host:port/runs is no URL of a database, such as postgresql://USER@HOST/NAME"),
    ],
)  # fmt: skip
def test_a_database_that_is_none_is_refused(url: str, message: str) -> None:
    with pytest.raises(StoreProblem) as caught:
        open_store(url)
    assert str(caught.value) == message


def test_a_database_that_does_not_answer_is_said_without_its_password() -> None:
    with pytest.raises(StoreProblem) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/runs").check()
    assert str(caught.value).startswith("postgresql://me:***@127.0.0.1:1/runs: connection failed")
    assert "secret" not in str(caught.value)


def test_a_schema_of_a_later_version_is_refused(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'runs.db'}"
    save(open_store(place), stored(1))
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE vperf_version SET version_num = '99'")
    with pytest.raises(StoreProblem) as caught:
        open_store(place).runs()
    assert str(caught.value) == (
        f"{place}: its schema, '99', is of a later version: update pytest-vperf"
    )


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreProblem, match=r"file is not a database$"):
        open_store(f"sqlite:///{tmp_path / 'runs.db'}").runs()


def test_the_tables_are_those_that_the_migrations_make(tmp_path: Path) -> None:
    """A change of the tables needs a migration, which brings a database of the version before to the same."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from pytest_vperf.results.store import schema, sql

    store = sql.SqlStore.of(f"sqlite:///{tmp_path / 'runs.db'}")
    store.check()
    with store._engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": schema.VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, sql.TABLES) == []
        assert context.get_current_revision() == schema.SCHEMA


def test_a_database_of_an_earlier_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a version whose tables have a column more, and which says what it is in the runs that are there."""
    from pytest_vperf.results.store import schema

    place = f"sqlite:///{tmp_path / 'runs.db'}"
    save(open_store(place), stored(1))
    own = shutil.copytree(schema.MIGRATIONS, tmp_path / "migrations")
    later = (own / "versions" / "v1_runs.py").read_text().partition("def upgrade")[0]
    later = later.replace(
        'revision = "1"\ndown_revision = None', 'revision = "2"\ndown_revision = "1"'
    )
    later += (
        "def upgrade() -> None:\n"
        "    column = sa.Column('host', sa.String, nullable=False, server_default='this one')\n"
        "    op.add_column('vperf_run', column)\n"
    )
    (own / "versions" / "v2_host.py").write_text(later)
    with monkeypatch.context() as changed:
        changed.setattr(schema, "MIGRATIONS", own)
        changed.setattr(schema, "SCHEMA", "2")
        assert open_store(place).runs() == [stored(1)]
        save(open_store(place), stored(2))
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        found = connection.execute("SELECT host FROM vperf_run").fetchall()
    assert found == [("this one",)] * 2
    with pytest.raises(StoreProblem, match="its schema, '2', is of a later version"):
        open_store(place).runs()


def test_a_database_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'runs.db'}"
    save(open_store(place), stored(1))
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    uri = f"sqlite:///file:{tmp_path / 'runs.db'}?mode=ro&uri=true"
    assert open_store(uri).runs() == [stored(1)]
    with pytest.raises(StoreProblem, match="attempt to write a readonly database"):
        save(open_store(uri), stored(2))
