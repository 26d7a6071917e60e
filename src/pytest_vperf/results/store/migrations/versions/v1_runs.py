"""Runs, and the figures of their claims."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "vperf_run",
        sa.Column("mark", sa.String(12), primary_key=True),
        sa.Column("started", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("commit_id", sa.String(64), nullable=False),
        sa.Column("dirty", sa.Boolean, nullable=False),
        sa.Column("branch", sa.String(200), nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    for column in ("started", "name", "commit_id"):
        op.create_index(f"ix_vperf_run_{column}", "vperf_run", [column])
    op.create_table(
        "vperf_level",
        sa.Column("mark", sa.String(12), sa.ForeignKey("vperf_run.mark"), primary_key=True),
        sa.Column("claim", sa.String(200), primary_key=True),
        sa.Column("side", sa.String(100), primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("better", sa.String(6), nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
    )
    op.create_index("vperf_level_claim", "vperf_level", ["claim"])
