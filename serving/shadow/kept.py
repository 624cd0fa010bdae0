"""The figures of the shadow, kept in a file of SQLite beside the registry's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from data.errors import InputError
from serving.shadow.held import Contenders, Disagreement, HeldTogether
from training.registry.champions import local_store, project_root

#: How many disagreements are kept in all, and how many an answer tells.
KEPT, TOLD = 1000, 50
#: Where requests come from.
HTTP = "http"
_VERSION = 1
_TABLES = """
CREATE TABLE said (
    name TEXT, champion TEXT, challenger TEXT, source TEXT, champion_said TEXT, challenger_said TEXT,
    count INTEGER NOT NULL, since TEXT NOT NULL, until TEXT NOT NULL,
    PRIMARY KEY (name, champion, challenger, source, champion_said, challenger_said)
);
CREATE TABLE disagreements (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    name TEXT, champion TEXT, challenger TEXT, source TEXT,
    case_id TEXT, about TEXT, champion_said TEXT, challenger_said TEXT,
    champion_probability REAL, challenger_probability REAL
);
CREATE TABLE lost (why TEXT PRIMARY KEY, count INTEGER NOT NULL);
PRAGMA user_version = 1;
"""


@dataclass(frozen=True)
class SaidBoth:
    """How often the champion said one thing where the challenger said another."""

    champion: str
    challenger: str
    count: int

    @property
    def differs(self) -> bool:
        """Whether that is a disagreement."""
        return self.champion != self.challenger


@dataclass(frozen=True)
class ShadowFigures:
    """What was found of two contenders.

    Attributes
    ----------
    name, champion, challenger, source : str
        As of `serving.shadow.held.Contenders`.
    since, until : str
        When the first and the last case was judged, in UTC, as ISO 8601 has it.
    judged, agreed : int
        How many cases there were, and in how many both said the same.
    said : list of SaidBoth
    """

    name: str
    champion: str
    challenger: str
    source: str
    since: str
    until: str
    judged: int
    agreed: int
    said: list[SaidBoth] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The same in one line."""
        where = "requests" if self.source == HTTP else self.source
        differ = [f"{one.count} {one.champion} and {one.challenger}" for one in self.said if one.differs]
        apart = f" (v{self.champion} and v{self.challenger} say: {', '.join(differ)})" if differ else ""
        share = f"{self.agreed / self.judged:.1%}" if self.judged else "none"
        return f"both say the same of {share} of {self.judged:,} cases of {where}{apart}"


@dataclass(frozen=True)
class Disagreed:
    """A disagreement: when, and between whom."""

    at: str
    contenders: Contenders
    disagreement: Disagreement


@dataclass(frozen=True)
class ShadowReport:
    """All that is kept.

    Attributes
    ----------
    running : bool
        Whether this server asks challengers.
    lost : mapping
        How many requests were not looked at, by why.
    figures : list of ShadowFigures
        The last ones first.
    disagreements : list of Disagreed
        The last ones first.
    """

    running: bool
    lost: Mapping[str, int]
    figures: list[ShadowFigures]
    disagreements: list[Disagreed]


def place() -> Path:
    """Return where the figures are kept: beside the registry, or else in the project."""
    local = local_store()
    return (project_root() if local is None else local.parent) / "shadow.db"


def keep(path: Path, contenders: Contenders, held: HeldTogether) -> None:
    """Add to what is kept of two contenders."""
    with _writing(path) as store:
        _add(store, contenders, held)


def replace(path: Path, contenders: Contenders, held: HeldTogether) -> None:
    """Keep this in place of what was kept of the same contenders on the same source."""
    key = astuple(contenders)
    with _writing(path) as store:
        for table in ("said", "disagreements"):
            store.execute(
                f"DELETE FROM {table} WHERE (name, champion, challenger, source) = (?, ?, ?, ?)",  # noqa: S608 - our own names
                key,
            )
        _add(store, contenders, held)


def lose(path: Path, why: str, count: int) -> None:
    """Count requests that were not looked at."""
    with _writing(path) as store:
        store.execute(
            "INSERT INTO lost VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (why, count),
        )


def report(path: Path, *, running: bool = False) -> ShadowReport:
    """Return what is kept; nothing where there is no file.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    if not path.is_file():
        return ShadowReport(running, {}, [], [])
    try:
        with closing(sqlite3.connect(path, timeout=15)) as store:
            # whoever begins the file may not have come to its tables yet
            if not _version_of(store):
                return ShadowReport(running, {}, [], [])
            lost = dict(store.execute("SELECT why, count FROM lost ORDER BY why"))
            return ShadowReport(running, lost, _figures(store), _disagreements(store))
    except sqlite3.DatabaseError as exc:
        raise InputError(f"cannot be read ({exc})", file=path) from exc


def figures_of(name: str, versions: set[str]) -> list[ShadowFigures]:
    """Return what is kept of two versions of a model, in whichever role; nothing where it cannot be read."""
    try:
        known = report(place()).figures
    except InputError:
        return []
    return [one for one in known if one.name == name and {one.champion, one.challenger} == versions]


def _add(store: sqlite3.Connection, contenders: Contenders, held: HeldTogether) -> None:
    key, now = astuple(contenders), datetime.now(UTC).isoformat(timespec="seconds")
    store.executemany(
        "INSERT INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET count = count + excluded.count, until = excluded.until",
        [(*key, *said, count, now, now) for said, count in held.counts.items()],
    )
    store.executemany(
        "INSERT INTO disagreements VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(now, *key, *astuple(one)) for one in held.disagreements[-KEPT:]],
    )
    store.execute(
        "DELETE FROM disagreements WHERE number <= (SELECT max(number) FROM disagreements) - ?", (KEPT,)
    )


@contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path, timeout=15, isolation_level=None)) as store:
            store.execute("PRAGMA journal_mode=WAL")
            store.execute("BEGIN IMMEDIATE")
            version = _version_of(store)
            if version > _VERSION:
                raise InputError(f"was written by a newer perfjudge (tables of version {version})", file=path)
            if not version:
                for statement in _TABLES.split(";")[:-1]:
                    store.execute(statement)
            yield store
            store.execute("COMMIT")
    except sqlite3.DatabaseError as exc:
        raise InputError(f"cannot be written ({exc})", file=path) from exc


def _version_of(store: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    return int(store.execute("PRAGMA user_version").fetchone()[0])


def _figures(store: sqlite3.Connection) -> list[ShadowFigures]:
    pairs = store.execute(
        "SELECT name, champion, challenger, source, min(since), max(until) FROM said "
        "GROUP BY name, champion, challenger, source ORDER BY max(until) DESC"
    ).fetchall()
    return [_figure(store, pair) for pair in pairs]


def _figure(store: sqlite3.Connection, row: Sequence[str]) -> ShadowFigures:
    *key, since, until = row
    said = [
        SaidBoth(*one)
        for one in store.execute(
            "SELECT champion_said, challenger_said, count FROM said "
            "WHERE (name, champion, challenger, source) = (?, ?, ?, ?) ORDER BY 1, 2",
            key,
        )
    ]
    name, champion, challenger, source = key
    judged = sum(one.count for one in said)
    same = sum(one.count for one in said if not one.differs)
    return ShadowFigures(name, champion, challenger, source, since, until, judged, same, said)


def _disagreements(store: sqlite3.Connection) -> list[Disagreed]:
    rows = store.execute(
        "SELECT at, name, champion, challenger, source, case_id, about, champion_said, challenger_said, "
        "champion_probability, challenger_probability FROM disagreements ORDER BY number DESC LIMIT ?",
        (TOLD,),
    )
    return [Disagreed(at, Contenders(*rest[:4]), Disagreement(*rest[4:])) for at, *rest in rows]
