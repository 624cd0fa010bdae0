"""The database table of labels, as the last migration leaves it, and connections to it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Boolean,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Integer,
    Text,
    column,
    create_engine,
    event,
    make_url,
    table,
)
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import TypeDecorator

from data.errors import InputError

#: The table of labels and that of its migrations; the database may have tables of others.
NAME, VERSION = "perfjudge_labels", "perfjudge_labels_version"


class UtcTime(TypeDecorator[datetime]):
    """Column type of times in UTC; SQLite stores them without their time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert a time to UTC before it is stored."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return a stored time in UTC; None for NULL."""
        return value and (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC))


#: The columns of the table, which the migrations define.
LABELS = table(
    NAME,
    *(column(name, Text) for name in ("comparison_id", "status", "labelled_by", "key", "model")),
    column("number", Integer),
    column("saw_verdict", Boolean),
    column("labelled_at", UtcTime),
)


EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"
#: Seconds to wait for another writer (SQLite), and for a connection to a server.
_PATIENCE, _CONNECTING = 15, 3
#: Milliseconds after which an unresponsive connection is closed.
_SILENCE = 10_000
#: Execution option of connections that will write.
WRITES = "perfjudge_writes"


@dataclass(frozen=True)
class StoreAddress:
    """The address of a label store; `text` is for messages, without user, password and options."""

    url: URL = field(repr=False)
    text: str

    @classmethod
    def from_address(cls, address: str) -> StoreAddress:
        """Parse ``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``.

        InputError for another address; it does not quote the address, which may hold a password.
        """
        try:
            url = make_url(address)
        except (ArgumentError, ValueError) as exc:
            raise InputError(f"the address of the labels is invalid; {EXPECTED}") from exc
        kind = url.drivername.partition("+")[0]
        if kind == "sqlite" and url.database and url.database != ":memory:":
            return cls(url.set(drivername="sqlite"), f"sqlite:///{url.database}")
        if kind in {"postgresql", "postgres"}:
            port = "" if url.port is None else f":{url.port}"
            address = f"postgresql://{url.host or ''}{port}/{url.database or ''}"
            return cls(url.set(drivername="postgresql+psycopg"), address)
        raise InputError(f"the address of the labels has the kind {kind[:20]!r}; {EXPECTED}")

    @property
    def sqlite_file(self) -> Path | None:
        """The file of an SQLite database; None for a server."""
        return Path(self.url.database or "") if self.url.drivername == "sqlite" else None

    def new_engine(self) -> Engine:
        """Return a new SQLAlchemy engine, which connects on first use."""
        if self.sqlite_file is not None:
            engine = create_engine(self.url, connect_args={"timeout": _PATIENCE}, hide_parameters=True)
            event.listen(engine, "connect", _make_durable)
            event.listen(engine, "begin", _begin_transaction)
            return engine
        timeouts = {"connect_timeout": _CONNECTING, "tcp_user_timeout": _SILENCE}
        waits = {name: value for name, value in timeouts.items() if name not in self.url.query}
        return create_engine(
            self.url, connect_args=waits, pool_pre_ping=True, pool_timeout=_CONNECTING, hide_parameters=True
        )


def _make_durable(connection: sqlite3.Connection, _record: Any) -> None:
    """Make commits durable; `_begin_transaction` starts transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")


def _begin_transaction(connection: Connection) -> None:
    # a transaction that reads before it writes would fail, instead of waiting, if another one writes
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
