"""The comparisons that may be labelled on a server: reports, verdicts, and their labelling order."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from threading import Lock, Thread
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from data.comparisons import formats
from data.comparisons.labels.consensus import Rule, consensus_status
from data.comparisons.sides import Ints, NamedSides, Samples, Siblings
from data.comparisons.tables import CANNOT_TELL, LABEL_DTYPES, ComparisonTables, version_ranges
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import with_dtypes
from serving.comparisons.evaluated import consensus_rule
from serving.comparisons.explain.counterfactuals import pack_samples, scale_targets
from serving.comparisons.judge import Judgement, judge_sides
from serving.comparisons.labels.review import LabelCandidates
from serving.comparisons.model import Judge
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.reports.verdict_lines import Answer
from training.registry.champions import project_root

#: Versions kept on either side of a relevant one: more than any feature uses.
_NEAR = 12
#: Hexadecimal digits of the key of a report or a comparison.
_DIGITS = 20


def keep_nearby_versions(siblings: Siblings) -> Siblings:
    """Return a copy with only the targets' versions, those of the same names, and 12 on either side of each.

    Versions of different operations of one benchmark and machine may share a name; if a target has several
    versions, only the name of its first one counts. Each remaining part of a series becomes a series of its
    own; features of siblings do not change. Without versions or targets, `siblings` is returned.
    """
    versions, spans = siblings.versions, siblings.stop - siblings.first
    if not len(versions.series) or not spans.any():
        return siblings
    names = versions.name[siblings.first[spans > 0]]
    targets = [np.arange(first, stop) for first, stop in zip(siblings.first, siblings.stop, strict=True)]
    same_name = np.flatnonzero(np.isin(versions.name, names[names >= 0]))
    relevant = np.unique(np.concatenate([same_name, *targets]))
    around = (relevant[:, None] + np.arange(-_NEAR, _NEAR + 1)).ravel()
    rows = np.unique(around[(around >= 0) & (around < len(versions.series))])
    # versions that did not follow each other belong to different series
    begins = (np.diff(rows, prepend=rows[:1]) > 1) | (np.diff(versions.series[rows], prepend=-1) != 0)
    lists = Samples(versions.values, np.zeros(0, np.int64), versions.starts[rows], versions.starts[rows + 1])
    near = replace(
        versions,
        values=pack_samples(lists).values,
        starts=np.append(0, lists.lengths.cumsum()),
        series=np.cumsum(begins),
        operation=versions.operation[rows],
        name=versions.name[rows],
        lower=versions.lower[rows],
    )
    first = np.where(spans > 0, np.searchsorted(rows, siblings.first), 0)
    return Siblings(near, first, first + spans)


def key_of(*names: str) -> str:
    """Return 20 hexadecimal digits for addresses: a hash of `names` that does not reveal them."""
    return sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class OfferedReport:
    """The comparisons of two versions, or two ranges of versions, on one machine."""

    key: str
    number: int  # position in the source, from 1; names the report while its versions are hidden
    machine: str
    baseline: str  # baseline, target: a version such as ``v3``, or a range such as ``v1..v3``
    target: str
    rows: Ints  # its comparisons, by benchmark and operation

    def report_title(self, *, shown: bool) -> str:
        """Return the versions as ``baseline → target`` if `shown`, else ``Report`` with its number."""
        return f"{self.baseline} \N{RIGHTWARDS ARROW} {self.target}" if shown else f"Report {self.number}"


@dataclass(frozen=True, kw_only=True)
class OfferedComparisons:
    """All comparisons of a source with distinct identifiers."""

    tables: ComparisonTables  # including comparisons that cannot be judged
    named: NamedSides
    units: Sequence[str]
    versions: Sequence[str]
    keys: Sequence[str]  # in addresses
    positions: Mapping[str, int]  # the row of every comparison by its identifier
    by_key: Mapping[str, int]  # and by its key
    reports: Mapping[str, OfferedReport]  # by their keys
    labels: Mapping[str, str]  # the labels in the source, by identifier
    counting: Rule  # how labels of several annotators are aggregated

    @classmethod
    def read(cls, source: Path) -> OfferedComparisons:
        """Return the comparisons of a source of any format, without its erroneous parts.

        Raises InputError if it cannot be read or contains no comparison, or if ``params.yaml`` is invalid.
        """
        problems = Problems(keep_going=True)
        chunks = formats.stream_tables(formats.recognise_format(source), [source], problems, chunk_rows=None)
        tables = ComparisonTables.join_tables(list(chunks))
        if tables.comparisons.empty:
            raise problems.skipped[0] if problems.skipped else InputError("holds no comparison", file=source)
        return cls.from_tables(tables, consensus_rule(project_root()))

    @classmethod
    def from_tables(cls, tables: ComparisonTables, counting: Rule = "majority") -> OfferedComparisons:
        """Return the comparisons of `tables`, grouped into reports by machine and versions.

        Of comparisons with equal ids, only the first is offered. `counting`: how labels of several annotators
        are aggregated, "majority" or "dawid-skene".
        """
        comparisons = tables.comparisons.drop_duplicates("comparison_id").reset_index(drop=True)
        tables = ComparisonTables(tables.results, comparisons, tables.labels)
        named, spans = NamedSides.from_tables(tables), version_ranges(tables)
        keys = [key_of(name) for name in named.identifiers]
        names = comparisons[["benchmark", "operation"]].to_numpy(str)
        frame = pd.DataFrame({"machine": comparisons["machine"], "versions": spans})
        reports: dict[str, OfferedReport] = {}
        for (machine, span), group in frame.groupby(["machine", "versions"], sort=False).groups.items():
            rows = np.asarray(group, np.int64)
            rows = rows[np.lexsort(names[rows].T[::-1])]
            key = key_of("report", machine, span)
            before, _, after = span.partition(" -> ")
            reports[key] = OfferedReport(key, len(reports) + 1, machine, before, after, rows)
        return cls(
            tables=tables,
            named=named,
            units=named.units(),
            versions=spans,
            keys=keys,
            positions={name: row for row, name in enumerate(named.identifiers)},
            by_key={key: row for row, key in enumerate(keys)},
            reports=reports,
            labels=consensus_status(tables.labels, counting).dropna().to_dict(),
            counting=counting,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def select_comparisons(self, rows: Ints) -> NamedSides:
        """Return the comparisons `rows`, with all sibling versions that their features need."""
        named = self.named
        sides = scale_targets(named.sides, rows, np.ones((len(rows), 1)))
        if sides.siblings is not None:
            sides = replace(sides, siblings=keep_nearby_versions(sides.siblings))
        identifiers, benchmarks, operations, units = (
            [column[row] for row in rows.tolist()]
            for column in (named.identifiers, named.benchmarks, named.operations, self.units)
        )
        return NamedSides(identifiers, benchmarks, operations, sides, lambda: units)

    def mask_name(self, name: str, row: int) -> str:
        """Return `name` with an ellipsis in place of the versions and the file name of the comparison `row`.

        `name`: of a machine, a benchmark or an operation.
        """
        report, source = self.report_of(row), self.tables.comparisons["source"].iloc[row]
        hidden = {text for span in (report.baseline, report.target) for text in (span, *span.split(".."))}
        if not pd.isna(source):
            hidden.add(Path(re.split(r":\d", str(source))[0]).stem)
        # plain numbers occur in many names, and reveal only an order
        for text in sorted((text for text in hidden if text and not text.isdecimal()), key=len, reverse=True):
            name = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "\N{HORIZONTAL ELLIPSIS}", name)
        return name

    def report_of(self, row: int) -> OfferedReport:
        """Return the report that the comparison `row` belongs to."""
        machine = self.tables.comparisons["machine"].iloc[row]
        return self.reports[key_of("report", machine, self.versions[row])]


LOG = logging.getLogger("perfjudge")
T = TypeVar("T")
#: Replaces another annotator's label until the reader has labelled the comparison.
HIDDEN = "labelled"
#: Number of new labels after which the order is computed again.
EVERY = 10
#: Most seconds that a request waits until the source is read.
PATIENCE = 20.0
_NONE = (
    "there is nothing to label here; perfjudge serve --comparisons SOURCE offers comparisons of any format,"
    " uv run dvc repro those of the project"
)


class GivenVote(NamedTuple):
    """One annotator's label of a comparison."""

    labelled_by: str
    status: str


@dataclass(frozen=True)
class StoredLabels:
    """The current labels of a store, without withdrawn ones."""

    table: pd.DataFrame  # with the columns `LABEL_DTYPES`; `annotator` is `labelled_by`
    votes: Mapping[str, Sequence[GivenVote]] = field(default_factory=dict)  # by comparison_id
    away: str = ""  # why the labels are unknown; empty if they are known

    @classmethod
    def from_current(cls, current: pd.DataFrame) -> StoredLabels:
        """Return the labels of the table `current`, as `LabelStore.current_labels` returns it."""
        votes: dict[str, list[GivenVote]] = {}
        for row in current.itertuples():
            votes.setdefault(row.comparison_id, []).append(GivenVote(row.labelled_by, row.status))
        return cls(current, votes)

    @classmethod
    def empty_labels(cls, away: str = "") -> StoredLabels:
        """Return an object without labels; `away`: why they are unknown."""
        return cls(with_dtypes(None, LABEL_DTYPES), away=away)

    @property
    def decided_rows(self) -> pd.DataFrame:
        """The rows of `table` with pass or fail."""
        return self.table[self.table["status"] != CANNOT_TELL]

    def is_decided(self, comparison_id: str) -> bool:
        """Return whether an annotator labelled a comparison pass or fail."""
        return any(vote.status != CANNOT_TELL for vote in self.votes.get(comparison_id, ()))


@dataclass(frozen=True)
class Reader:
    """The person who reads a page, and the data that they may see.

    Versions, verdicts and the labels of others would influence a label. So they are shown only after the
    reader has labelled the comparison, unless the reader wants to see everything.
    """

    name: str  # empty if unknown
    labels: StoredLabels
    sees_all: bool = False

    def reader_label(self, comparison_id: str) -> str:
        """Return the reader's label of a comparison: pass, fail or cannot_tell; empty without one."""
        votes = self.labels.votes.get(comparison_id, ()) if self.name else ()
        return next((vote.status for vote in votes if vote.labelled_by == self.name), "")

    def may_see(self, comparison_id: str) -> bool:
        """Return whether the versions, the verdict and all labels of a comparison may be shown."""
        return self.sees_all or self.reader_label(comparison_id) != ""

    def visible_votes(self, comparison_id: str) -> Sequence[GivenVote]:
        """Return the labels of a comparison, with the status `HIDDEN` if they may not be shown."""
        votes = self.labels.votes.get(comparison_id, ())
        return votes if self.may_see(comparison_id) else [vote._replace(status=HIDDEN) for vote in votes]


class LabelOrder(NamedTuple):
    """The labelling order of comparisons."""

    #: all comparisons without a label in the source; at the end those labelled here, in case their labels are
    #: withdrawn
    identifiers: Sequence[str]
    labels: int  # number of labels that the order is computed from


@dataclass
class Background(Generic[T]):
    """A value that a thread computes, once per state of its inputs."""

    name: str  # of the computation, for the log
    value: T | None = None  # the last result; None before the first
    failure: str = ""  # why the last computation failed; empty if it did not
    state: Hashable = None  # the state that `value` or `failure` belongs to
    _thread: Thread | None = None
    _lock: Lock = field(default_factory=Lock)

    def latest_value(self, state: Hashable, compute: Callable[[], T]) -> T | None:
        """Return the last result, None before the first; if it belongs to another state, start a thread.

        The thread calls `compute`; if that raises, `failure` is set and the last result stays.
        """
        with self._lock:
            if self.state != state and self._thread is None:
                run = partial(self._run_computation, state, compute)
                self._thread = Thread(target=run, name=self.name, daemon=True)
                self._thread.start()
        return self.value

    def wait_until_done(self, seconds: float) -> None:
        """Wait until the current computation ends, `seconds` at most."""
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _run_computation(self, state: Hashable, compute: Callable[[], T]) -> None:
        failure = ""
        try:
            self.value = compute()
        except InputError as exc:
            failure = str(exc)
        except Exception as exc:
            LOG.exception("%s failed", self.name)
            failure = f"{self.name} failed ({type(exc).__name__}); the server's log says more"
        self.failure, self.state, self._thread = failure, state, None


class LabelPool:
    """The comparisons of a source, their verdicts by the served model, and the order to label them.

    Everything is computed on demand in background threads, so that the server starts at once. The source is
    read once; verdicts follow the model, the order follows the labels.
    `source`: comparisons in any supported format; None: no comparisons. `model`: the model that judges them.
    """

    def __init__(self, source: Path | None, model: HotReloadingModel | None = None) -> None:
        self.source, self._model = source, model
        self._offered = Background[OfferedComparisons]("reading the comparisons")
        self._verdicts = Background[Sequence[Answer]]("judging the comparisons")
        self._unlabelled = Background[LabelCandidates]("learning what to label first")
        self._order = Background[LabelOrder]("ordering what to label first")
        self._model_failure = ""

    def find_identifier(self, name: str) -> str | None:
        """Return the comparison_id of an offered comparison; None if no comparison has this name.

        `name`: the comparison_id, or the key of the comparison in addresses.
        Raises InputError if the source cannot be read within `PATIENCE` seconds.
        """
        if self.source is None:
            return None
        self._offered.latest_value(self.source, partial(OfferedComparisons.read, self.source))
        self._offered.wait_until_done(PATIENCE)
        if (offered := self._offered.value) is None:
            raise InputError(self._offered.failure or "they are being read")
        row = offered.positions.get(name, offered.by_key.get(name))
        return None if row is None else offered.named.identifiers[row]

    def offered_comparisons(self) -> OfferedComparisons:
        """Return all comparisons of the source, which a background thread reads on the first call.

        Raises RefusedError with status 404 without a source, 503 until it is read or if it cannot be read.
        """
        if self.source is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, _NONE)
        offered = self._offered.latest_value(self.source, partial(OfferedComparisons.read, self.source))
        if offered is None:
            detail = self._offered.failure or "the comparisons are being read"
            headers = None if self._offered.failure else {"retry-after": "1"}
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers)
        return offered

    def offered_verdicts(self) -> Sequence[Answer] | None:
        """Return the verdicts on all comparisons: empty without a model, None before the first are computed.

        Raises RefusedError with status 404 without a source, 503 until it is read.
        """
        offered, served = self.offered_comparisons(), self._served_model()

        def compute_verdicts() -> Sequence[Answer]:
            return () if served is None else judge_sides(offered.named, served).answers.tolist()

        return self._verdicts.latest_value(_model_identity(served), compute_verdicts)

    def judge_rows(self, rows: Ints) -> Judgement | None:
        """Return the judgement of the comparisons `rows`; None without a model.

        Raises RefusedError with status 404 without a source, 503 until it is read.
        """
        if (served := self._served_model()) is None:
            return None
        return judge_sides(self.offered_comparisons().select_comparisons(rows), served)

    def labelling_order(
        self, given_labels: pd.DataFrame, *, use_all_labels: bool = False
    ) -> LabelOrder | None:
        """Return the labelling order; None until the first one is computed.

        `given_labels`: labels given here, with the columns `LABEL_DTYPES`.
        `use_all_labels`: use every label; else up to `EVERY` new ones may be ignored.
        Raises RefusedError with status 404 without a source, 503 until it is read.
        """
        offered, served = self.offered_comparisons(), self._served_model()
        learn = partial(LabelCandidates.from_tables, offered.tables, served, offered.counting)
        candidates = self._unlabelled.latest_value(_model_identity(served), learn)
        if candidates is None:
            return None
        before, labels = self._order.value, len(given_labels)
        if before is not None and not use_all_labels and abs(labels - before.labels) < EVERY:
            labels = before.labels

        def compute_order() -> LabelOrder:
            all_labels = pd.concat([offered.tables.labels, given_labels], ignore_index=True)
            first = candidates.ordered_identifiers(all_labels, offered.counting)
            others = candidates.comparisons["comparison_id"]
            others = others[~others.isin({*first, *offered.labels})]
            return LabelOrder([*first, *others], len(given_labels))

        return self._order.latest_value((_model_identity(served), labels), compute_order)

    @property
    def order_failure(self) -> str:
        """Why the last labelling order could not be computed; empty if it could."""
        return self._unlabelled.failure or self._order.failure

    def failure_reasons(self) -> list[str]:
        """Return why no model is available, and why computations failed; empty if neither is the case.

        Loads the model if it is not loaded.
        """
        missing = ""
        if self._served_model() is None and self._model_failure:
            missing = f"no model is available ({self._model_failure}), so a rank statistic orders comparisons"
        return [reason for reason in (missing, self._verdicts.failure, self.order_failure) if reason]

    def _served_model(self) -> Judge | None:
        """Return the model; None without one, or if it cannot be loaded, as `failure_reasons` explains."""
        try:
            served: Judge | None = None if self._model is None else self._model.ensure_loaded()
        except InputError as exc:
            if str(exc) != self._model_failure:
                LOG.warning("labelling: no model is available (%s)", exc)
            self._model_failure = str(exc)
            return None
        self._model_failure = ""
        return served


def _model_identity(served: Judge | None) -> tuple[str, str]:
    return ("", "") if served is None else (served.ref.uri, served.ref.version)
