"""Bringing a database's tables up to date, with Alembic; whoever uses the database first does it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from pytest_vperf.results.store.model import StoreProblem

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: The last of `migrations`.
SCHEMA = "1"
VERSION_TABLE = "vperf_version"
MIGRATIONS = Path(__file__).parent / "migrations"
#: Held while the schema is brought up to date; any number that others of the database hardly use.
_LOCK = 0x76706572


def is_current(connection: Connection) -> bool:
    """Whether nothing has to be done, which is so all times but one, and takes no right to write."""
    table = sa.table(VERSION_TABLE, sa.column("version_num"))
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return False
    return connection.execute(sa.select(table.c.version_num)).scalars().all() == [SCHEMA]


def bring_up_to_date(connection: Connection, place: str) -> None:
    """Make the tables, or change them to what this version uses.

    Raises:
        StoreProblem: a later version did already.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    script = ScriptDirectory.from_config(config)
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        found = context.get_current_revision()
        if found == SCHEMA:
            return
        if found is not None and found not in {each.revision for each in script.walk_revisions()}:
            raise StoreProblem(
                f"{place}: its schema, {found!r}, is of a later version: update pytest-vperf"
            )
        command.upgrade(config, SCHEMA)
