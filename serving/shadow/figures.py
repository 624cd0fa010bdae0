"""Agreement of champion and challenger: counted in a SQLite file next to the registry, served over HTTP."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from data.errors import InputError
from serving.http import schemas
from serving.supply import Opinion
from training.registry.champions import local_store, project_root

#: Disagreements in the file, and in an answer; letters of a text of one.
KEPT, TOLD, LETTERS = 1000, 50, 200
#: The source of cases that came in requests.
HTTP = "http"
_TABLES = """
CREATE TABLE IF NOT EXISTS said (
    name TEXT, champion TEXT, challenger TEXT, source TEXT, champion_said TEXT, challenger_said TEXT,
    count INTEGER NOT NULL, since TEXT NOT NULL, until TEXT NOT NULL,
    PRIMARY KEY (name, champion, challenger, source, champion_said, challenger_said)
);
CREATE TABLE IF NOT EXISTS disagreements (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    name TEXT, champion TEXT, challenger TEXT, source TEXT,
    case_id TEXT, about TEXT, champion_said TEXT, challenger_said TEXT,
    champion_probability REAL, challenger_probability REAL
);
CREATE TABLE IF NOT EXISTS lost (why TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Contenders:
    """Who is compared, on what.

    Attributes
    ----------
    name : str
        The registered name.
    champion, challenger : str
        The versions.
    source : str
        ``http``, or the path of what was judged.
    """

    name: str
    champion: str
    challenger: str
    source: str


@dataclass(frozen=True)
class Disagreement:
    """A case of which the two give different verdicts."""

    case: str
    about: str
    champion: str
    challenger: str
    champion_probability: float | None
    challenger_probability: float | None


@dataclass(frozen=True)
class OpinionCounts:
    """How often each pair of verdicts (champion's, challenger's) occurred, and where they differ."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, champion: Sequence[Opinion], challenger: Sequence[Opinion]) -> None:
        """Compare two models' opinions of the same cases; InputError if the cases or their order differ."""
        if [one.case for one in champion] != [one.case for one in challenger]:
            raise InputError("the challenger was not asked about the same cases as the champion")
        for own, other in zip(champion, challenger, strict=True):
            self.counts[own.verdict, other.verdict] += 1
            if own.verdict != other.verdict:
                case, about = own.case[:LETTERS], own.about[:LETTERS]
                probabilities = own.probability, other.probability
                self.disagreements.append(
                    Disagreement(case, about, own.verdict, other.verdict, *probabilities)
                )


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
class ShadowFigures(Contenders):
    """What was found of two contenders.

    Attributes
    ----------
    name, champion, challenger, source : str
        As of `serving.shadow.figures.Contenders`.
    since, until : str
        When the first and the last case was judged, in UTC, as ISO 8601 has it.
    judged, agreed : int
        How many cases there were, and in how many both said the same.
    said : list of SaidBoth
    """

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


def figures_file() -> Path:
    """Return the path of the SQLite file: next to a local registry, or else in the project."""
    local = local_store()
    return (project_root() if local is None else local.parent) / "shadow.db"


def record(path: Path, contenders: Contenders, found: OpinionCounts, *, replace: bool = False) -> None:
    """Add counts to those of the same contenders on the same source, or put them in their place."""
    key, now = astuple(contenders), datetime.now(UTC).isoformat(timespec="seconds")
    with _opened(path, "written") as store:
        for table in ("said", "disagreements") if replace else ():
            store.execute(
                f"DELETE FROM {table} WHERE (name, champion, challenger, source) = (?, ?, ?, ?)",  # noqa: S608 - our own names
                key,
            )
        store.executemany(
            "INSERT INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET count = count + excluded.count, until = excluded.until",
            [(*key, *said, count, now, now) for said, count in found.counts.items()],
        )
        store.executemany(
            "INSERT INTO disagreements VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(now, *key, *astuple(one)) for one in found.disagreements[-KEPT:]],
        )
        store.execute(
            "DELETE FROM disagreements WHERE number <= (SELECT max(number) FROM disagreements) - ?", (KEPT,)
        )


def record_lost(path: Path, why: str, count: int) -> None:
    """Count requests that no challenger judged."""
    with _opened(path, "written") as store:
        store.execute(
            "INSERT INTO lost VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (why, count),
        )


def report(path: Path, *, running: bool = False) -> ShadowReport:
    """Return all figures, empty if the file does not exist; InputError if it cannot be read."""
    if not path.is_file():
        return ShadowReport(running, {}, [], [])
    with _opened(path, "read") as store:
        lost = dict(store.execute("SELECT why, count FROM lost ORDER BY why"))
        rows = store.execute(
            "SELECT at, name, champion, challenger, source, case_id, about, champion_said, challenger_said, "
            "champion_probability, challenger_probability FROM disagreements ORDER BY number DESC LIMIT ?",
            (TOLD,),
        )
        differ = [Disagreed(at, Contenders(*rest[:4]), Disagreement(*rest[4:])) for at, *rest in rows]
        return ShadowReport(running, lost, _figures(store), differ)


def figures_of(name: str, versions: set[str]) -> list[ShadowFigures]:
    """Return the figures of two versions of a model, in either role; none where they cannot be read."""
    with suppress(InputError):
        known = report(figures_file()).figures
        return [one for one in known if one.name == name and {one.champion, one.challenger} == versions]
    return []


def _figures(store: sqlite3.Connection) -> list[ShadowFigures]:
    rows = defaultdict[tuple[str, ...], list[tuple[str, str, SaidBoth]]](list)
    for *key, champion, challenger, count, since, until in store.execute("SELECT * FROM said ORDER BY 5, 6"):
        rows[tuple(key)].append((since, until, SaidBoth(champion, challenger, count)))
    found = []
    for (name, champion, challenger, source), several in rows.items():
        begins, ends, said = zip(*several, strict=True)
        judged = sum(one.count for one in said)
        agreed = sum(one.count for one in said if not one.differs)
        found.append(
            ShadowFigures(
                name, champion, challenger, source, min(begins), max(ends), judged, agreed, list(said)
            )
        )
    return sorted(found, key=lambda one: one.until, reverse=True)


@contextmanager
def _opened(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    """Give the tables of the file in one transaction; InputError if they cannot be read or written."""
    try:
        with closing(sqlite3.connect(path, timeout=15, isolation_level=None)) as store:
            store.execute("PRAGMA journal_mode=WAL")
            store.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";")[:-1]:
                store.execute(statement)
            yield store
            store.execute("COMMIT")
    except sqlite3.DatabaseError as exc:
        raise InputError(f"cannot be {how} ({exc})", file=path) from exc


def install(app: FastAPI) -> None:
    """Let `app` answer with the figures."""

    @app.get("/v1/shadow", responses=schemas.responses(422))
    def shadow() -> ShadowReport:
        """Tell how often challengers say what champions say, and of which cases they don't."""
        return report(figures_file(), running=app.state.settings.shadow is not None)


class ShadowCollector(Collector):
    """Counts pairs of verdicts on requests for Prometheus."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield one family of counters."""
        labels = ["model", "champion", "challenger", "said", "would_say"]
        counted = CounterMetricFamily(
            "perfjudge_shadow_verdicts", "Verdicts of champions, and what challengers say", labels=labels
        )
        # /v1/shadow reports figures that cannot be read
        with suppress(InputError):
            for pair in report(figures_file()).figures:
                for one in pair.said if pair.source == HTTP else ():
                    versions = pair.name, pair.champion, pair.challenger
                    counted.add_metric((*versions, one.champion, one.challenger), one.count)
        yield counted
