"""Alembic's part of bringing a database up to date; `pytest_vperf.results.store.sql` has the connection."""

from __future__ import annotations

from alembic import context

_given = context.config.attributes
context.configure(connection=_given["connection"], version_table=_given["version_table"])
# The transaction is the caller's, with its lock.
context.run_migrations()
