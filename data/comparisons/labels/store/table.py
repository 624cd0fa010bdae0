"""The table of labels, as the last migration leaves it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Dialect, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeDecorator

#: The table, and the one that says which migrations it has had: a database may hold other things, too.
NAME, VERSION = "perfjudge_labels", "perfjudge_labels_version"


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC, which SQLite keeps without its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the time in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


LABELS = Table(
    NAME,
    MetaData(),
    # SQLite numbers rows by itself only where this is its INTEGER
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("comparison_id", Text, nullable=False),
    Column("status", Text),
    Column("labelled_by", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("saw_verdict", Boolean),
    Column("model", Text, nullable=False),
    Column("labelled_at", UtcTime, nullable=False),
)
