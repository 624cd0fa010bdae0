"""The store of labels in a database, and its exchange of labels with tables."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, Self, cast

import pandas as pd
from sqlalchemy import Connection, Engine, RowMapping, Select, func, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from data.comparisons.labels.database import LABELS, VERSION, WRITES, StoreAddress
from data.comparisons.tables import LABEL_DTYPES
from data.errors import InputError
from data.people import require_person
from data.tables.specs import with_dtypes

#: Time of labels without one.
LONG_AGO = datetime.fromtimestamp(0, UTC)
Status = Literal["pass", "fail", "cannot_tell"]


class UnreachableError(InputError):
    """The store is unreachable; labels may be sent again with the same keys."""


class IncompatibleStoreError(UnreachableError):
    """A newer perfjudge, or an unreleased older one, has written the store."""


class KeyTakenError(InputError):
    """The store holds another label with this key."""


class TooManyLabelsError(InputError):
    """An annotator has reached the limit of labels per time."""


@dataclass(frozen=True)
class NewLabel:
    """An annotator's label of a comparison, to be added to the store.

    The `status` None withdraws the annotator's earlier label. `key` is chosen by the sender; a second label
    with the same key and content is the same label. `saw_verdict` is whether the annotator knew the verdict
    of the `model` (empty without a verdict), None if unknown. `labelled_at` is by default the time when the
    label is stored.
    """

    comparison_id: str
    status: Status | None
    labelled_by: str
    key: str
    saw_verdict: bool | None = None
    model: str = ""
    labelled_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class StoredLabel(NewLabel):
    """A label in the store; `number` ascends in the order of arrival, `labelled_at` is in UTC."""

    number: int
    labelled_at: datetime

    def is_same_label(self, other: NewLabel) -> bool:
        """Return whether `other` equals this label in all fields but `model`; a missing time is equal."""
        stored = replace(other, model=self.model, labelled_at=other.labelled_at or self.labelled_at)
        return asdict(stored).items() <= asdict(self).items()


@dataclass(frozen=True)
class Added:
    """A stored label and all labels of its comparison, oldest first; `fresh` is whether it is new."""

    label: StoredLabel
    history: list[StoredLabel]
    fresh: bool


#: Numbers of the first and the last migration; version 1 was never released.
FIRST, HEAD = "2", "2"
#: Unique key of PostgreSQL's advisory lock.
_LOCK = 0x7065_7266_6C61_626C
#: Seconds for which an SQLite file that others have locked is tried again.
_MIGRATION_PATIENCE = 15.0


def _migrate_tables(engine: Engine, address: str) -> None:
    """Create or upgrade the tables of labels; several processes may do so at once."""
    version = None
    with engine.connect() as connection:
        if inspect(connection).has_table(VERSION):
            query = text(f"SELECT version_num FROM {VERSION}")  # noqa: S608 - our own name
            version = connection.execute(query).scalar()
    if version == HEAD:
        return
    if version is not None and not int(FIRST) <= int(version) <= int(HEAD):
        age = "a newer" if int(version) > int(HEAD) else "an older"
        problem = f"was written by {age} perfjudge (tables of version {version}; this one knows {HEAD})"
        raise IncompatibleStoreError(problem, place=address)
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        # does nothing if another process has migrated meanwhile
        _run_migrations(connection)


def _run_migrations(connection: Connection) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import RevisionStep
    from alembic.script import ScriptDirectory

    # Alembic's commands keep their context in module globals, which MLflow's commands in another thread would
    # overwrite: each migration receives its operations as an argument instead
    place = str(Path(__file__).with_name("migrations"))
    scripts = ScriptDirectory(place, version_locations=[place])

    def missing_steps(_version: tuple[str, ...], context: MigrationContext) -> list[RevisionStep]:
        newest_first = scripts.iterate_revisions("head", context.get_current_revision() or "base")
        return [RevisionStep(scripts.revision_map, script, True) for script in [*newest_first][::-1]]

    context = MigrationContext.configure(connection, opts={"fn": missing_steps, "version_table": VERSION})
    context.run_migrations(op=Operations(context))


def _use_write_ahead_log(engine: Engine) -> None:
    """Let SQLite's readers and a writer work in parallel; retry while the file is locked."""
    end = time.monotonic() + _MIGRATION_PATIENCE
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


#: Number of labels per insert: SQLite limits the number of values in a statement.
AT_ONCE = 500
#: Period in seconds of the limit on an annotator's labels.
LIMIT_SECONDS = 60.0
#: Fields in which imported labels differ from each other.
_IDENTIFYING = ("comparison_id", "status", "labelled_by", "labelled_at")
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class LabelStore:
    """Append-only labels in a database; several threads and processes may use it at the same time.

    It connects, and creates or upgrades its tables, on first use; an SQLite file is created with the first
    label. `address` is ``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``, else InputError. Methods
    that read or write raise UnreachableError if the database is unreachable or incompatible; a missing SQLite
    file reads as empty.
    """

    def __init__(self, address: str) -> None:
        self.address = StoreAddress.from_address(address)
        self._unreachable, self._unwritable, self._retry_lock = False, False, Lock()
        self._engine = self.address.new_engine()
        self._migrated, self._lock = False, Lock()

    @classmethod
    def open(cls, address: str) -> Self:
        """Return the store after connecting to it and creating its tables.

        InputError if the address is invalid, a newer perfjudge wrote the database, or it is unreachable
        (`UnreachableError`).
        """
        store = cls(address)
        try:
            with store._open_transaction(writes=True):
                return store
        except InputError:
            store.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def check_reachable(self) -> None:
        """Raise an UnreachableError if the store is unreachable or an incompatible perfjudge wrote it.

        After labels could not be stored, also if it is still impossible to write.
        """
        if self._unwritable:
            self.add_all([])
        self.label_history("")

    @property
    def is_unreachable(self) -> bool:
        """Whether the last attempt to reach the store failed; if so, a thread tries again meanwhile."""
        if self._unreachable and self._retry_lock.acquire(blocking=False):
            Thread(target=self._retry_connection, daemon=True).start()
        return self._unreachable

    def _retry_connection(self) -> None:
        with suppress(UnreachableError):
            self.check_reachable()
        self._retry_lock.release()

    def add_label(self, label: NewLabel) -> StoredLabel:
        """Add one label and return it as stored; an equal label with the same key is not added again.

        KeyTakenError if another label has its key; UnreachableError if the store is unreachable.
        """
        (added,) = self.add_all([label])
        if isinstance(added, InputError):
            raise added
        return added.label

    def add_all(self, labels: Sequence[NewLabel], max_recent: int | None = None) -> list[Added | InputError]:
        """Add labels in one transaction; return for each `Added`, or the error for which it was refused.

        `max_recent` is the maximum number of labels of an annotator within `LIMIT_SECONDS` seconds; further
        ones are refused with TooManyLabelsError, a label with the key of another one with KeyTakenError.
        UnreachableError if the store is unreachable: the labels may have been stored or not, and adding them
        again is safe.
        """
        now = datetime.now(UTC)
        with self._open_transaction(writes=True) as connection:
            keys = select(LABELS.c.key).where(LABELS.c.key.in_({label.key for label in labels}))
            stored = {*connection.scalars(keys)}
            fresh: dict[str, NewLabel] = {}
            for label in labels:
                if label.key not in stored:
                    fresh.setdefault(label.key, label)
            people = {label.labelled_by for label in fresh.values()}
            query = _recent_query(people, now - timedelta(seconds=LIMIT_SECONDS))
            recent = {person: (count, last) for person, count, last in connection.execute(query)}
            late, rows = set[str](), list[dict[str, Any]]()
            for label in fresh.values():
                count, last = recent.get(label.labelled_by, (0, LONG_AGO))
                if count < (max_recent or math.inf):
                    # the annotator's labels ascend in time
                    last = max(now, last + timedelta(microseconds=1))
                    rows.append(asdict(label) | {"labelled_at": label.labelled_at or last})
                else:
                    late.add(label.key)
                recent[label.labelled_by] = count + 1, last
            inserted: set[str] = set()
            if rows:
                # the same order in all transactions prevents deadlocks
                insert = _INSERT[connection.dialect.name](LABELS).values(sorted(rows, key=itemgetter("key")))
                insert = insert.on_conflict_do_nothing(index_elements=["key"]).returning(LABELS.c.key)
                inserted = {*connection.scalars(insert)}
            histories: dict[str, list[StoredLabel]] = {label.comparison_id: [] for label in labels}
            for row in connection.execute(_history_query(histories)).mappings():
                histories[row["comparison_id"]].append(StoredLabel(**row))
        return [
            TooManyLabelsError(f"{label.labelled_by} labels too quickly")
            if label.key in late
            else _label_outcome(label, histories[label.comparison_id], fresh=label.key in inserted)
            for label in labels
        ]

    def label_history(self, comparison_id: str) -> list[StoredLabel]:
        """Return all labels of a comparison, oldest first, also withdrawals; empty without labels."""
        return [StoredLabel(**row) for row in self._query_rows(_history_query([comparison_id]))]

    def current_labels(self) -> pd.DataFrame:
        """Return `last_labels` (each annotator's last label per comparison) without withdrawn labels."""
        last = self.last_labels()
        return last[last["status"].notna()].reset_index(drop=True)

    def last_labels(self) -> pd.DataFrame:
        """Return each annotator's last label of each comparison, with the columns ``LABEL_DTYPES``.

        Rows are in the order of arrival. `labelled_by` is also the ``annotator``; the status of withdrawn
        labels is missing.
        """
        keys = [LABELS.c.comparison_id, LABELS.c.labelled_by]
        newest = [LABELS.c.labelled_at.desc(), LABELS.c.number.desc()]
        rank = func.row_number().over(partition_by=keys, order_by=newest)
        ranked = select(LABELS, rank.label("rank")).subquery()
        wanted = select(ranked).where(ranked.c.rank == 1).order_by(ranked.c.number)
        rows = [{**row, "annotator": row["labelled_by"]} for row in self._query_rows(wanted)]
        return with_dtypes(pd.DataFrame(rows, columns=[*LABEL_DTYPES]), LABEL_DTYPES)

    def all_identifying_values(self) -> set[tuple[object, ...]]:
        """Return (comparison_id, status, labelled_by, labelled_at) of all labels, also withdrawals."""
        columns = [LABELS.c[name] for name in _IDENTIFYING]
        return {tuple(row.values()) for row in self._query_rows(select(*columns))}

    def _query_rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        if self.address.sqlite_file is not None and not self.address.sqlite_file.exists():
            return []
        with self._open_transaction() as connection:
            return connection.execute(query).mappings().all()

    @contextmanager
    def _open_transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        try:
            with self._lock:
                if not self._migrated:
                    _migrate_tables(self._engine, self.address.text)
                    self._migrated = True
            options = {WRITES: writes}
            with self._engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as exc:
            self._unreachable, self._unwritable = True, self._unwritable or writes
            cause = exc.orig if isinstance(exc, DBAPIError) else exc
            reason = next(iter(str(cause).strip().splitlines()), "") or type(cause).__name__
            problem = f"the labels cannot be reached ({reason})"
            raise UnreachableError(problem, place=self.address.text) from exc
        # reading may go on while nothing can be stored
        self._unwritable = self._unwritable and not writes
        self._unreachable = self._unwritable


def _history_query(comparisons: Collection[str]) -> Select[Any]:
    oldest = LABELS.c.labelled_at, LABELS.c.number
    return select(LABELS).where(LABELS.c.comparison_id.in_(comparisons)).order_by(*oldest)


def _recent_query(people: Collection[str], since: datetime) -> Select[Any]:
    """Return a query for the number and last time of labels after `since`, per annotator with labels."""
    by, at = LABELS.c.labelled_by, LABELS.c.labelled_at
    columns = by, func.count().label("count"), func.max(at).label("last")
    return select(*columns).where(by.in_(people), at > since).group_by(by)


def _label_outcome(new_label: NewLabel, history: list[StoredLabel], *, fresh: bool) -> Added | InputError:
    stored = next((label for label in history if label.is_same_label(new_label)), None)
    if stored is None:
        return KeyTakenError(f'key="{new_label.key}" is another label; expected a new key')
    return Added(stored, history, fresh)


@dataclass(frozen=True)
class ImportedLabelCounts:
    """Numbers of labels that were added, were already known, or were skipped.

    Skipped are ``unattributed`` labels, which have no annotator, and ``contradictory`` ones: a later row has
    another status of the same annotator and time.
    """

    added: int
    already_stored: int
    unattributed: int
    contradictory: int


def import_label_table(labels: pd.DataFrame, store: LabelStore, by: str | None = None) -> ImportedLabelCounts:
    """Add the labels of a table to a store, except those that it already has; return their counts.

    Labels are equal if comparison, status, annotator and time, in whole microseconds, are. Of an annotator's
    labels of a comparison with the same time, or none, the last in the table counts; others are
    ``contradictory``, or ``already_stored`` if their status is the same. A label without a time counts as
    older than any with one. Labels without an annotator are added as labels of `by`; without `by` they are
    skipped (``unattributed``). InputError if a label's annotator is not a name of 1 to 64 visible characters
    or its time is in the future or before 1970 (then none is added), or the store is unreachable; earlier
    labels may have been added.
    """
    people = labels["annotator"].fillna(by) if by is not None else labels["annotator"]
    # databases store no nanoseconds
    times = labels["labelled_at"].dt.floor("us")
    named = labels.assign(annotator=people, labelled_at=times)[people.notna()]
    for row in named.drop_duplicates("annotator").to_dict("records"):
        require_person(str(row["annotator"]), "annotator", f'label of "{row["comparison_id"]}"')
    stored, identify = store.all_identifying_values(), attrgetter(*_IDENTIFYING)
    moment = ["comparison_id", "annotator", "labelled_at"]
    last = named.drop_duplicates(moment, keep="last")
    contradictory = len(named.drop_duplicates([*moment, "status"])) - len(last)
    new = [label for label in map(_from_row, last.to_dict("records")) if identify(label) not in stored]
    fresh = 0
    for start in range(0, len(new), AT_ONCE):
        for added in store.add_all(new[start : start + AT_ONCE]):
            if isinstance(added, InputError):
                raise added
            fresh += added.fresh
    known = len(named) - fresh - contradictory
    return ImportedLabelCounts(fresh, known, len(labels) - len(named), contradictory)


def _from_row(row: dict[str, object]) -> NewLabel:
    moment = None if pd.isna(row["labelled_at"]) else pd.Timestamp(str(row["labelled_at"]))
    if moment is not None and not LONG_AGO < moment <= datetime.now(UTC):
        problem = f'labelled_at="{moment}" is in the future or before 1970'
        raise InputError(problem, place=f'label of "{row["comparison_id"]}"')
    at = LONG_AGO if moment is None else moment.to_pydatetime()
    values = (str(row["comparison_id"]), str(row["status"]), str(row["annotator"]), at.isoformat())
    key = sha256("\n".join(map(repr, values)).encode()).hexdigest()
    return NewLabel(values[0], cast(Status, values[1]), values[2], f"imported-{key}", labelled_at=at)


def export_label_table(store: LabelStore, labels: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the current labels of a store, as a table with columns ``LABEL_DTYPES``.

    Current is the last label of each annotator on each comparison, unless it was withdrawn. The rows of
    `labels`, the table of the data, come first; a row is skipped if the store has a label, even a withdrawn
    one, of the same annotator on the same comparison. UnreachableError (an InputError) if the store is
    unreachable.
    """
    last = store.last_labels()
    last["labelled_at"] = last["labelled_at"].where(last["labelled_at"] > LONG_AGO)
    current = last[last["status"].notna()]
    if labels is None:
        return current
    keys = ["comparison_id", "annotator"]
    replaced = pd.MultiIndex.from_frame(labels[keys]).isin(pd.MultiIndex.from_frame(last[keys]))
    return with_dtypes(pd.concat([labels[~replaced], current], ignore_index=True), LABEL_DTYPES)
