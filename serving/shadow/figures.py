"""Agreement of champion and challenger: counted in a SQLite file next to the registry, served over HTTP."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from data.errors import InputError
from serving.http import schemas
from serving.plugins import Opinion
from training.registry.champions import local_store, project_root

#: Maximum number of disagreements in the file, and in an answer; characters of each text in them.
KEPT, TOLD, LETTERS = 1000, 50, 200
#: The source of cases from requests.
HTTP = "http"
_TABLES = Path(__file__).with_name("tables.sql").read_text("utf-8")
_SAME_KEY = "(name, champion, challenger, source) = (?, ?, ?, ?)"
_ADD_PAIR = (
    "INSERT INTO verdict_pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET count = count + excluded.count, until = excluded.until"
)
_ADD_DISAGREEMENT = "INSERT INTO disagreements VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_OLD = "DELETE FROM disagreements WHERE number <= (SELECT max(number) FROM disagreements) - ?"
_ADD_LOST = "INSERT INTO lost VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"


@dataclass(frozen=True)
class Contenders:
    """The compared versions of a registered model; ``source`` is ``http`` or the path of the judged input."""

    name: str
    champion: str
    challenger: str
    source: str


@dataclass(frozen=True)
class Disagreement:
    """A case with different verdicts of champion and challenger."""

    case: str
    about: str
    champion: str
    challenger: str
    champion_probability: float | None
    challenger_probability: float | None


@dataclass(frozen=True)
class OpinionCounts:
    """Counts of the pairs of verdicts (champion's, challenger's), and the cases with different ones."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def compare_opinions(self, champion: Sequence[Opinion], challenger: Sequence[Opinion]) -> None:
        """Add two models' pairs of verdicts and disagreements; InputError if cases or their order differ."""
        if [opinion.case for opinion in champion] != [opinion.case for opinion in challenger]:
            raise InputError("the challenger judged other cases than the champion")
        for first, second in zip(champion, challenger, strict=True):
            verdicts = first.verdict, second.verdict
            self.counts[verdicts] += 1
            if first.verdict != second.verdict:
                case = first.case[:LETTERS], first.about[:LETTERS]
                probabilities = first.probability, second.probability
                self.disagreements.append(Disagreement(*case, *verdicts, *probabilities))


@dataclass(frozen=True)
class VerdictPair:
    """The number of cases with this pair of verdicts."""

    champion: str
    challenger: str
    count: int

    @property
    def differs(self) -> bool:
        """Whether the verdicts differ."""
        return self.champion != self.challenger


@dataclass(frozen=True)
class ShadowFigures(Contenders):
    """The agreement of two versions on one source.

    ``since`` and ``until`` are times of the first and the last judged case, in UTC (ISO 8601); ``judged`` and
    ``agreed`` are numbers of cases, and of cases with equal verdicts.
    """

    since: str
    until: str
    judged: int
    agreed: int
    verdict_pairs: list[VerdictPair] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The agreement in one line."""
        source = "requests" if self.source == HTTP else self.source
        pairs = (pair for pair in self.verdict_pairs if pair.differs)
        differ = [f"{pair.count} {pair.champion} and {pair.challenger}" for pair in pairs]
        different = f"different verdicts of v{self.champion} and v{self.challenger}"
        details = f" ({different}: {', '.join(differ)})" if differ else ""
        share = f"{self.agreed / self.judged:.1%}" if self.judged else "none"
        return f"same verdict on {share} of {self.judged:,} cases of {source}{details}"


@dataclass(frozen=True)
class Disagreed:
    """A disagreement, its time, and the compared versions."""

    at: str
    contenders: Contenders
    disagreement: Disagreement


@dataclass(frozen=True)
class ShadowReport:
    """All results of shadow mode.

    Attributes
    ----------
    running : bool
        Whether this server runs challengers.
    lost : mapping
        Number of requests that were not judged, by reason.
    figures : list of ShadowFigures
        Agreement by versions and source, the latest first.
    disagreements : list of Disagreed
        The latest ones first, at most `TOLD`.
    """

    running: bool
    lost: Mapping[str, int]
    figures: list[ShadowFigures]
    disagreements: list[Disagreed]


def figures_file() -> Path:
    """Return the path of ``shadow.db``, a SQLite file: next to a local registry, or else in the project."""
    local = local_store()
    return (project_root() if local is None else local.parent) / "shadow.db"


def record_counts(
    path: Path, contenders: Contenders, counts: OpinionCounts, *, replace: bool = False
) -> None:
    """Add counts and disagreements to the stored ones of the same versions and source, or `replace` these.

    `path` is the SQLite file, created if missing (not its directory). It keeps at most the last 1000
    disagreements of all versions. InputError if it cannot be written.
    """
    key, now = astuple(contenders), datetime.now(UTC).isoformat(timespec="seconds")
    with _open_database(path, "written") as store:
        for table in ("verdict_pairs", "disagreements") if replace else ():
            store.execute(f"DELETE FROM {table} WHERE {_SAME_KEY}", key)  # noqa: S608 - our own names
        pairs = [(*key, *verdicts, count, now, now) for verdicts, count in counts.counts.items()]
        store.executemany(_ADD_PAIR, pairs)
        cases = [(now, *key, *astuple(case)) for case in counts.disagreements[-KEPT:]]
        store.executemany(_ADD_DISAGREEMENT, cases)
        store.execute(_DROP_OLD, (KEPT,))


def record_lost(path: Path, reason: str, count: int) -> None:
    """Add `count` to the number of requests not judged by a challenger for `reason`; see `record_counts`."""
    with _open_database(path, "written") as store:
        store.execute(_ADD_LOST, (reason, count))


def read_report(path: Path, *, running: bool = False) -> ShadowReport:
    """Return all results in the SQLite file `path`, empty if missing; InputError if it cannot be read."""
    if not path.is_file():
        return ShadowReport(running, {}, [], [])
    with _open_database(path, "read") as store:
        lost = dict(store.execute("SELECT reason, count FROM lost ORDER BY reason"))
        rows = store.execute("SELECT * FROM disagreements ORDER BY number DESC LIMIT ?", (TOLD,))
        differ = [Disagreed(at, Contenders(*rest[:4]), Disagreement(*rest[4:])) for _, at, *rest in rows]
        return ShadowReport(running, lost, _read_figures(store), differ)


def figures_of(name: str, versions: set[str]) -> list[ShadowFigures]:
    """Return the agreement of two versions of model `name`, an entry per source, the latest judged first.

    If both were champion in turn, cases of requests are added up; of any other source, only the latest are
    kept. Empty if `figures_file` does not exist or cannot be read.
    """
    by_source: dict[str, ShadowFigures] = {}
    with suppress(InputError):
        for pair in read_report(figures_file()).figures:
            if pair.name == name and {pair.champion, pair.challenger} == versions:
                latest = by_source.setdefault(pair.source, pair)
                if latest is not pair and pair.source == HTTP:
                    by_source[HTTP] = _add_exchanged(latest, pair)
    return list(by_source.values())


def _add_exchanged(latest: ShadowFigures, earlier: ShadowFigures) -> ShadowFigures:
    """Return `latest` with the cases of `earlier` added, whose champion is the challenger of `latest`."""
    counts = Counter({(pair.champion, pair.challenger): pair.count for pair in latest.verdict_pairs})
    counts.update({(pair.challenger, pair.champion): pair.count for pair in earlier.verdict_pairs})
    return replace(
        latest,
        since=min(latest.since, earlier.since),
        judged=latest.judged + earlier.judged,
        agreed=latest.agreed + earlier.agreed,
        verdict_pairs=[VerdictPair(*verdicts, count) for verdicts, count in sorted(counts.items())],
    )


def _read_figures(store: sqlite3.Connection) -> list[ShadowFigures]:
    verdict_pairs = defaultdict[tuple[str, ...], list[VerdictPair]](list)
    for *key, champion, challenger, count, _, _ in store.execute("SELECT * FROM verdict_pairs ORDER BY 5, 6"):
        verdict_pairs[tuple(key)].append(VerdictPair(champion, challenger, count))
    rows = store.execute(
        "SELECT name, champion, challenger, source, min(since), max(until), sum(count), "
        "sum(count * (champion_verdict = challenger_verdict)) FROM verdict_pairs GROUP BY 1, 2, 3, 4 "
        "ORDER BY max(until) DESC, min(rowid)"
    )
    return [ShadowFigures(*(*row, verdict_pairs[row[:4]])) for row in rows]


@contextmanager
def _open_database(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    """Yield the database in one transaction; InputError if it cannot be read or written."""
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


def add_shadow_endpoint(app: FastAPI) -> None:
    """Add the endpoint ``GET /v1/shadow`` to `app`: a `ShadowReport`, or 422 if its file cannot be read."""

    @app.get("/v1/shadow", responses=schemas.refusal_responses(422))
    def shadow() -> ShadowReport:
        """Return the agreement of champions and challengers, and the cases on which they disagree."""
        return read_report(figures_file(), running=app.state.settings.shadow is not None)


class ShadowCollector(Collector):
    """Counts pairs of verdicts on requests for Prometheus."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield a counter of verdicts on requests by model, versions and both verdicts."""
        labels = ["model", "champion", "challenger", "champion_verdict", "challenger_verdict"]
        description = "Verdicts of champions and of challengers on the same cases"
        counter = CounterMetricFamily("perfjudge_shadow_verdicts", description, labels=labels)
        # /v1/shadow reports that the file cannot be read
        with suppress(InputError):
            for pair in read_report(figures_file()).figures:
                versions = pair.name, pair.champion, pair.challenger
                for verdicts in pair.verdict_pairs if pair.source == HTTP else ():
                    counter.add_metric((*versions, verdicts.champion, verdicts.challenger), verdicts.count)
        yield counter
