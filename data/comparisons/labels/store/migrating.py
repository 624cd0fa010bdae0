"""Bringing a database to the tables of this version, however many processes do so at once."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError

from data.comparisons.labels.store.address import WRITES
from data.comparisons.labels.store.given import NewerError
from data.comparisons.labels.store.table import VERSION

#: The last of the migrations, which are called by numbers.
HEAD = "2"
#: What PostgreSQL knows the lock by: nobody else's.
_LOCK = 0x7065_7266_6C61_626C
#: Seconds for which a file that others change is tried again.
_PATIENCE = 15.0


def migrate(engine: Engine, told: str) -> None:
    """Bring a database up to date; it may be empty, and others may do the same at the same time.

    Raises
    ------
    NewerError
        If a newer perfjudge has written it.
    """
    with engine.connect() as connection:
        found = _found(connection)
    if found is not None and int(found) > int(HEAD):
        problem = f"was written by a newer perfjudge (tables of version {found}; this one knows {HEAD})"
        raise NewerError(problem, place=told)
    if found != HEAD:
        _upgrade(engine)


def _found(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION}")).scalar()  # noqa: S608 - our own name


def _upgrade(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        _log_ahead(engine)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        # who has waited finds that there is nothing left to do
        _run(connection)


def _run(connection: Connection) -> None:
    """Run what migrations a database lacks, the oldest first.

    Alembic's own commands keep what runs in the globals of its modules, where MLflow's commands in another
    thread would take it away. Hence migrations are given what they work with.
    """
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import RevisionStep
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(__file__).with_name("migrations")))

    def lacking(_found: tuple[str, ...], context: MigrationContext) -> list[RevisionStep]:
        newest_first = scripts.iterate_revisions("head", context.get_current_revision() or "base")
        return [RevisionStep(scripts.revision_map, one, True) for one in [*newest_first][::-1]]

    context = MigrationContext.configure(connection, opts={"fn": lacking, "version_table": VERSION})
    context.run_migrations(op=Operations(context))


def _log_ahead(engine: Engine) -> None:
    """Let a writer and readers work at the same time; for this, SQLite does not wait for others by itself."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with engine.connect() as connection:
                driver = connection.connection.dbapi_connection
                assert driver is not None
                driver.cursor().execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as exc:
            if time.monotonic() > end:
                raise OperationalError("PRAGMA journal_mode", None, exc) from exc
            time.sleep(0.02)
        else:
            return
