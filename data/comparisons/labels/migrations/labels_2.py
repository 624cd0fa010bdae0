"""The status of a label may be ``cannot_tell``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "2"
down_revision = "1"

_TABLE = "perfjudge_labels"
_OLD = f"{_TABLE}_before_2"
_STATUS = f"{_TABLE}_status"
_ALLOWED = "status IN ('pass', 'fail', 'cannot_tell')"


def upgrade(op: Operations) -> None:
    """Widen the check of the status; rows keep their numbers, and the database still refuses changes."""
    if op.get_bind().dialect.name == "sqlite":
        _copy_table(op)
    else:
        op.drop_constraint(_STATUS, _TABLE, type_="check")
        op.create_check_constraint(_STATUS, _TABLE, _ALLOWED)


def _copy_table(op: Operations) -> None:
    """Copy the rows into a new table, because SQLite cannot change the check of a table."""
    of_table = {"table": _TABLE}
    connection = op.get_bind()
    found = connection.execute(
        sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"), of_table
    )
    triggers = [(row.name, row.sql) for row in found]
    # a renamed table would take its triggers and indexes along, under names that the new table needs
    for name, _ in triggers:
        op.execute(f"DROP TRIGGER {name}")
    indexes = [f"ix_{_TABLE}_comparison_id", f"{_TABLE}_of_whom"]
    for name in indexes:
        op.drop_index(name, _TABLE)
    op.rename_table(_TABLE, _OLD)
    op.create_table(
        _TABLE,
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("comparison_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text),
        sa.Column("labelled_by", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("saw_verdict", sa.Boolean),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("labelled_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(_ALLOWED, name=_STATUS),
        sqlite_autoincrement=True,
    )
    op.execute(f"INSERT INTO {_TABLE} SELECT * FROM {_OLD} ORDER BY number")  # noqa: S608 - our own names
    op.drop_table(_OLD)
    for name, columns in zip(indexes, (["comparison_id"], ["labelled_by", "labelled_at"]), strict=True):
        op.create_index(name, _TABLE, columns)
    for _, sql in triggers:
        op.execute(sql)
