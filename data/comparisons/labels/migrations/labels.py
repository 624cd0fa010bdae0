"""Migration that creates the append-only table of labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "2"
down_revision = None

_TABLE = "perfjudge_labels"
_REFUSED = "labels are only added: a withdrawn one is a row of its own"


def upgrade(op: Operations) -> None:
    """Create the table of labels, with triggers that refuse changes and deletions.

    The database is SQLite or PostgreSQL. SQLAlchemyError if the table exists.
    """
    op.create_table(
        _TABLE,
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("comparison_id", sa.Text, nullable=False, index=True),
        sa.Column("status", sa.Text),
        sa.Column("labelled_by", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("saw_verdict", sa.Boolean),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("labelled_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("status IN ('pass', 'fail', 'cannot_tell')", name=f"{_TABLE}_status"),
        # never reuse a number
        sqlite_autoincrement=True,
    )
    op.create_index(f"{_TABLE}_of_whom", _TABLE, ["labelled_by", "labelled_at"])
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {_TABLE}_no_{change.lower()} BEFORE {change} ON {_TABLE} "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {_TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {_TABLE}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_refuse()"
    )
