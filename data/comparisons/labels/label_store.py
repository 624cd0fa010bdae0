"""The store of labels in a database, and its exchange of labels with tables."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, Self, cast

import pandas as pd
from sqlalchemy import Connection, Engine, func, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from data.comparisons.labels.database import LABELS, VERSION, WRITES, Place
from data.comparisons.tables import LABEL_DTYPES
from data.errors import InputError
from data.tables.specs import typed

#: Time of labels without one.
LONG_AGO = datetime.fromtimestamp(0, UTC)
Status = Literal["pass", "fail", "cannot_tell"]


class AwayError(InputError):
    """The store is unreachable; labels may be sent again with the same keys."""


class NewerError(AwayError):
    """A newer perfjudge, or an unreleased older one, has written the store."""


class KeyTakenError(InputError):
    """The store holds another label with this key."""


class TooManyError(InputError):
    """An annotator has reached the limit of labels per time."""


@dataclass(frozen=True)
class GivenLabel:
    """An annotator's label of a comparison, to be added to the store.

    Attributes
    ----------
    status : {"pass", "fail", "cannot_tell"} or None
        None withdraws the annotator's earlier label.
    key : str
        Chosen by the sender; a second label with the same key and content is the same label.
    saw_verdict : bool or None
        Whether the annotator knew the model's verdict; None if unknown.
    model : str
        The model of that verdict; empty if there was no verdict.
    labelled_at : datetime or None
        None: the time when it is stored.
    """

    comparison_id: str
    status: Status | None
    labelled_by: str
    key: str
    saw_verdict: bool | None = None
    model: str = ""
    labelled_at: datetime | None = None

    @property
    def content(self) -> tuple[object, ...]:
        """The fields that identify a label apart from its key."""
        return self.comparison_id, self.status, self.labelled_by, self.labelled_at

    def at(self, now: datetime) -> Self:
        """Return the label with the time `now` if it has none."""
        return replace(self, labelled_at=self.labelled_at or now)


@dataclass(frozen=True)
class KeptLabel:
    """A label in the store; `number` ascends in the order of arrival, `labelled_at` is in UTC."""

    number: int
    comparison_id: str
    status: Status | None
    labelled_by: str
    key: str
    saw_verdict: bool | None
    model: str
    labelled_at: datetime

    @property
    def age(self) -> tuple[datetime, int]:
        """The sort key of labels, the oldest first."""
        return self.labelled_at, self.number

    def says(self, given: GivenLabel) -> bool:
        """Return whether `given` is this label; `model` is ignored, as it may have changed in between."""
        told = (one.name for one in fields(given) if one.name not in {"labelled_at", "model"})
        same = all(getattr(self, name) == getattr(given, name) for name in told)
        return same and given.labelled_at in {None, self.labelled_at}


@dataclass(frozen=True)
class Added:
    """A stored label and all labels of its comparison, oldest first; `fresh` is whether it is new."""

    label: KeptLabel
    history: list[KeptLabel]
    fresh: bool


#: Numbers of the first and the last migration; version 1 was never released.
FIRST, HEAD = "2", "2"
#: Unique key of PostgreSQL's advisory lock.
_LOCK = 0x7065_7266_6C61_626C
#: Seconds for which an SQLite file that others have locked is tried again.
_MIGRATION_PATIENCE = 15.0


def migrate(engine: Engine, told: str) -> None:
    """Create or upgrade the tables; safe if several processes do so at the same time.

    NewerError if a newer perfjudge, or an unreleased older one, has written the database.
    """
    with engine.connect() as connection:
        found = _found(connection)
    if found is not None and not int(FIRST) <= int(found) <= int(HEAD):
        age = "a newer" if int(found) > int(HEAD) else "an older"
        problem = f"was written by {age} perfjudge (tables of version {found}; this one knows {HEAD})"
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
        # does nothing if another process has migrated meanwhile
        _run(connection)


def _run(connection: Connection) -> None:
    """Run the missing migrations, the oldest first."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import RevisionStep
    from alembic.script import ScriptDirectory

    # Alembic's commands keep their context in module globals, which MLflow's commands in another thread would
    # overwrite: each migration receives its operations as an argument instead
    place = str(Path(__file__).with_name("migrations"))
    scripts = ScriptDirectory(place, version_locations=[place])

    def lacking(_found: tuple[str, ...], context: MigrationContext) -> list[RevisionStep]:
        newest_first = scripts.iterate_revisions("head", context.get_current_revision() or "base")
        return [RevisionStep(scripts.revision_map, one, True) for one in [*newest_first][::-1]]

    context = MigrationContext.configure(connection, opts={"fn": lacking, "version_table": VERSION})
    context.run_migrations(op=Operations(context))


def _log_ahead(engine: Engine) -> None:
    """Switch SQLite to write-ahead logging, so that readers and a writer work in parallel; retry if busy."""
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
WHILE = 60.0
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@dataclass
class Lately:
    """The number of labels that an annotator gave recently, and the time of the last one."""

    many: int = 0
    last: datetime = LONG_AGO

    def counted(self) -> int:
        """Count one more label and return the new number."""
        self.many += 1
        return self.many

    def next(self, now: datetime) -> datetime:
        """Return the time of the annotator's next label: `now`, but always after the last label."""
        self.last = max(now, self.last + timedelta(microseconds=1))
        return self.last


class LabelStore:
    """Append-only labels in a database; several threads and processes may use it at the same time.

    It connects, and creates or upgrades its tables, on first use. An SQLite file is created with the first
    label. `address` is as of `Place.of`.
    """

    def __init__(self, address: str) -> None:
        self.place = Place.of(address)
        self._away, self._looking = False, Lock()
        self._engine = self.place.engine()
        self._migrated, self._lock = False, Lock()

    @classmethod
    def open(cls, address: str) -> Self:
        """Return the store after connecting to it and creating its tables.

        Raises
        ------
        InputError
            If the address is invalid, a newer perfjudge wrote the database, or it is unreachable
            (`AwayError`).
        """
        store = cls(address)
        try:
            with store._asked(writes=True):
                return store
        except InputError:
            store.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def look(self) -> None:
        """Check that the store is reachable; raises as `open`."""
        self.history("")

    @property
    def away(self) -> bool:
        """Whether the store was unreachable at the last attempt; if so, a thread tries again."""
        if self._away and self._looking.acquire(blocking=False):
            Thread(target=self._look_again, daemon=True).start()
        return self._away

    def _look_again(self) -> None:
        with suppress(AwayError):
            self.look()
        self._looking.release()

    def add(self, label: GivenLabel) -> KeptLabel:
        """Add one label; raises the errors that `add_all` returns or raises."""
        (added,) = self.add_all([label])
        if isinstance(added, InputError):
            raise added
        return added.label

    def add_all(self, labels: Sequence[GivenLabel], most: int | None = None) -> list[Added | InputError]:
        """Add labels in one transaction.

        Parameters
        ----------
        most : int, optional
            Maximum number of labels of an annotator within `WHILE` seconds; further ones are refused.

        Returns
        -------
        list
            For each label `Added`, or the reason why it was refused: `KeyTakenError`, `TooManyError`.

        Raises
        ------
        AwayError
            If the store is unreachable. The labels may have been stored or not; adding them again is safe.
        """
        now = datetime.now(UTC)
        with self._asked(writes=True) as connection:
            known = _known(connection, labels)
            fresh = _first([one for one in labels if one.key not in known])
            lately = _lately(connection, {one.labelled_by for one in fresh}, now - timedelta(seconds=WHILE))
            late = {one.key for one in fresh if lately[one.labelled_by].counted() > (most or math.inf)}
            timed = [one.at(lately[one.labelled_by].next(now)) for one in fresh if one.key not in late]
            # the same order in all transactions prevents deadlocks
            rows = sorted(map(asdict, timed), key=itemgetter("key"))
            inserted = _inserted(connection, rows) if rows else set()
            histories = _histories(connection, {one.comparison_id for one in labels})
        return [
            TooManyError(f"{one.labelled_by} labels too quickly")
            if one.key in late
            else _outcome(one, histories[one.comparison_id], fresh=one.key in inserted)
            for one in labels
        ]

    def history(self, comparison_id: str) -> list[KeptLabel]:
        """Return all labels of a comparison, the oldest first; AwayError if the store is unreachable."""
        if self._is_empty:
            return []
        with self._asked() as connection:
            return _histories(connection, {comparison_id})[comparison_id]

    def current(self) -> pd.DataFrame:
        """Return `last` without withdrawn labels."""
        last = self.last()
        return last[last["status"].notna()].reset_index(drop=True)

    def last(self) -> pd.DataFrame:
        """Return each annotator's last label of each comparison, with the columns of the table of labels.

        `labelled_by` is also the ``annotator``; the status of withdrawn labels is missing. AwayError if the
        store is unreachable.
        """
        whose = [LABELS.c.comparison_id, LABELS.c.labelled_by]
        newest = [LABELS.c.labelled_at.desc(), LABELS.c.number.desc()]
        place = func.row_number().over(partition_by=whose, order_by=newest)
        placed = select(LABELS, place.label("place")).subquery()
        wanted = select(placed).where(placed.c.place == 1).order_by(placed.c.number)
        rows: list[dict[str, Any]] = []
        if not self._is_empty:
            with self._asked() as connection:
                found = connection.execute(wanted).mappings()
                rows = [{**row, "annotator": row["labelled_by"]} for row in found]
        return typed(pd.DataFrame(rows, columns=[*LABEL_DTYPES]), LABEL_DTYPES)

    def everything(self) -> set[tuple[object, ...]]:
        """Return the ``content`` of all labels; AwayError if the store is unreachable."""
        if self._is_empty:
            return set()
        columns = [LABELS.c[name] for name in ("comparison_id", "status", "labelled_by", "labelled_at")]
        with self._asked() as connection:
            return {tuple(row) for row in connection.execute(select(*columns))}

    def recent(self, person: str, seconds: float) -> int:
        """Return the number of an annotator's labels of the last `seconds`; AwayError as of `history`."""
        if self._is_empty:
            return 0
        with self._asked() as connection:
            since = datetime.now(UTC) - timedelta(seconds=seconds)
            return _lately(connection, {person}, since)[person].many

    @property
    def _is_empty(self) -> bool:
        return self.place.file is not None and not self.place.file.exists()

    @contextmanager
    def _asked(self, *, writes: bool = False) -> Iterator[Connection]:
        try:
            self._ready()
            with (
                self._engine.connect().execution_options(**{WRITES: writes}) as connection,
                connection.begin(),
            ):
                yield connection
        except SQLAlchemyError as exc:
            self._away = True
            raise AwayError(f"the labels cannot be reached ({_said(exc)})", place=self.place.told) from exc
        self._away = False

    def _ready(self) -> None:
        if not self._migrated:
            with self._lock:
                if not self._migrated:
                    migrate(self._engine, self.place.told)
                    self._migrated = True


def _said(exc: SQLAlchemyError) -> str:
    own = exc.orig if isinstance(exc, DBAPIError) else exc
    return next(iter(str(own).strip().splitlines()), "") or type(own).__name__


def _known(connection: Connection, labels: Iterable[GivenLabel]) -> set[str]:
    return {*connection.scalars(select(LABELS.c.key).where(LABELS.c.key.in_({one.key for one in labels})))}


def _inserted(connection: Connection, rows: list[dict[str, Any]]) -> set[str]:
    """Insert rows; return the keys of those whose key was not yet in the table."""
    insert = _INSERT[connection.dialect.name](LABELS).values(rows)
    return {
        *connection.scalars(insert.on_conflict_do_nothing(index_elements=["key"]).returning(LABELS.c.key))
    }


def _histories(connection: Connection, comparisons: Collection[str]) -> dict[str, list[KeptLabel]]:
    found: dict[str, list[KeptLabel]] = {one: [] for one in comparisons}
    for row in connection.execute(select(LABELS).where(LABELS.c.comparison_id.in_(comparisons))):
        found[row.comparison_id].append(KeptLabel(*row))
    return {name: sorted(history, key=lambda one: one.age) for name, history in found.items()}


def _first(labels: Iterable[GivenLabel]) -> list[GivenLabel]:
    found: dict[str, GivenLabel] = {}
    for one in labels:
        found.setdefault(one.key, one)
    return [*found.values()]


def _lately(connection: Connection, people: Collection[str], since: datetime) -> dict[str, Lately]:
    by, at = LABELS.c.labelled_by, LABELS.c.labelled_at
    counted = select(by, func.count(), func.max(at)).where(by.in_(people), at > since).group_by(by)
    found = {person: Lately(many, last) for person, many, last in connection.execute(counted)}
    return {person: found.get(person) or Lately() for person in people}


def _outcome(given: GivenLabel, history: list[KeptLabel], *, fresh: bool) -> Added | InputError:
    kept = next((one for one in history if one.says(given)), None)
    if kept is None:
        return KeyTakenError(f'key="{given.key}" is another label; expected a new key')
    return Added(kept, history, fresh)


@dataclass(frozen=True)
class Moved:
    """Numbers of labels that were added, were already known, or were left out for want of an annotator."""

    added: int
    known: int
    nobodys: int


def move_in(labels: pd.DataFrame, store: LabelStore, by: str | None = None) -> Moved:
    """Add the labels of a table to a store, except those that it already has.

    A label without a time is older than any with one. Labels without an annotator are added as labels of
    `by`; without `by` they are left out, because they are a consensus or the truth of an injected change.

    Raises
    ------
    InputError
        If a label's time is in the future, or the store is unreachable; earlier labels may have been added.
    """
    people = labels["annotator"].fillna(by) if by is not None else labels["annotator"]
    named = labels.assign(annotator=people)[people.notna()]
    kept = store.everything()
    given = [one for one in map(_given, named.to_dict("records")) if one.content not in kept]
    fresh = 0
    for start in range(0, len(given), AT_ONCE):
        for added in store.add_all(given[start : start + AT_ONCE]):
            if isinstance(added, InputError):
                raise added
            fresh += added.fresh
    return Moved(fresh, len(named) - fresh, len(labels) - len(named))


def _given(row: dict[str, object]) -> GivenLabel:
    at = LONG_AGO if pd.isna(row["labelled_at"]) else pd.Timestamp(str(row["labelled_at"])).to_pydatetime()
    if at > datetime.now(UTC):
        raise InputError(
            f'labelled_at="{at.isoformat()}" is in the future', place=f'label of "{row["comparison_id"]}"'
        )
    told = (str(row["comparison_id"]), str(row["status"]), str(row["annotator"]), at.isoformat())
    key = sha256("\n".join(map(repr, told)).encode()).hexdigest()
    return GivenLabel(told[0], cast(Status, told[1]), told[2], f"imported-{key}", labelled_at=at)


def moved_out(store: LabelStore, labels: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the current labels of a store as the table of labels; AwayError if the store is unreachable.

    `labels` of the data are included, unless their annotator has labelled the same comparison in the store,
    even if that label was withdrawn.
    """
    last = store.last()
    last["labelled_at"] = last["labelled_at"].where(last["labelled_at"] > LONG_AGO)
    given = last[last["status"].notna()]
    if labels is None:
        return given
    whose = ["comparison_id", "annotator"]
    replaced = pd.MultiIndex.from_frame(labels[whose]).isin(pd.MultiIndex.from_frame(last[whose]))
    return typed(pd.concat([labels[~replaced], given], ignore_index=True), LABEL_DTYPES)
