"""The comparisons that may be labelled on a server, their verdicts, and their labelling order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Lock, Thread
from typing import Generic, NamedTuple, TypeVar

import pandas as pd

from data.comparisons.labels.consensus import Rule, consensus
from data.comparisons.tables import CANNOT_TELL, LABEL_DTYPES
from data.errors import InputError
from serving.comparisons.evaluated import rule_under
from serving.comparisons.judge import Judgement, judged
from serving.comparisons.labelling.offered import Ints, Offered
from serving.comparisons.labels.command import ToLabel
from serving.comparisons.model import Judge
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.reports.verdict_lines import Answer
from training.registry.champions import project_root

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
class LabelsGiven:
    """The current labels of a store, without withdrawn ones."""

    table: pd.DataFrame  # with the columns of `data.comparisons.tables`; `annotator` is `labelled_by`
    votes: Mapping[str, Sequence[GivenVote]] = field(default_factory=dict)  # by comparison_id
    away: str = ""  # why the labels are unknown; empty if they are known

    @classmethod
    def of(cls, current: pd.DataFrame) -> LabelsGiven:
        """Convert the current labels of a store."""
        table = current.assign(annotator=current["labelled_by"])[[*LABEL_DTYPES]]
        votes: dict[str, list[GivenVote]] = {}
        for row in table.itertuples():
            votes.setdefault(row.comparison_id, []).append(GivenVote(row.labelled_by, row.status))
        return cls(table, votes)

    @classmethod
    def none(cls, away: str = "") -> LabelsGiven:
        """Return no labels; `away`: why they are unknown."""
        empty = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in LABEL_DTYPES.items()})
        return cls(empty, away=away)

    @property
    def decided(self) -> pd.DataFrame:
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
    given: LabelsGiven
    sees_all: bool = False

    def answer(self, comparison_id: str) -> str:
        """Return the reader's current label of a comparison; empty without one."""
        votes = self.given.votes.get(comparison_id, ()) if self.name else ()
        return next((vote.status for vote in votes if vote.labelled_by == self.name), "")

    def sees(self, comparison_id: str) -> bool:
        """Return whether the versions, the verdict and all labels of a comparison may be shown."""
        return self.sees_all or self.answer(comparison_id) != ""

    def votes(self, comparison_id: str) -> Sequence[GivenVote]:
        """Return the labels of a comparison, with hidden statuses if they may not be shown."""
        votes = self.given.votes.get(comparison_id, ())
        return votes if self.sees(comparison_id) else [GivenVote(vote.labelled_by, HIDDEN) for vote in votes]


@dataclass(frozen=True)
class LabelOrder:
    """The labelling order of comparisons."""

    #: all comparisons without a label in the source; at the end those labelled here, in case their labels are
    #: withdrawn
    identifiers: Sequence[str]
    labels: int  # number of labels that the order is computed from

    @classmethod
    def of(
        cls, unlabelled: ToLabel, source_labels: pd.DataFrame, given: pd.DataFrame, counting: Rule
    ) -> LabelOrder:
        """Return the order by the labels of the source and those given here."""
        labels = pd.concat([source_labels, given], ignore_index=True)
        identifiers = unlabelled.labelled(labels, counting).identifiers()
        settled = {*identifiers, *consensus(source_labels, counting).dropna().index}
        others = unlabelled.comparisons["comparison_id"]
        return cls([*identifiers, *others[~others.isin(settled)]], len(given))


@dataclass
class Background(Generic[T]):
    """A value that a thread computes, once per state of its inputs."""

    name: str  # of the computation, for the log
    value: T | None = None  # the last result; None before the first
    trouble: str = ""  # why the last computation failed; empty if it did not
    state: Hashable = None  # the state that `value` or `trouble` belongs to
    _thread: Thread | None = None
    _lock: Lock = field(default_factory=Lock)

    def of(self, state: Hashable, compute: Callable[[], T]) -> T | None:
        """Return the last result; if it belongs to another state, start to compute the next one."""
        with self._lock:
            if self.state != state and self._thread is None:
                self._thread = Thread(target=self._run, args=(state, compute), name=self.name, daemon=True)
                self._thread.start()
        return self.value

    def wait(self, seconds: float) -> None:
        """Wait until the current computation ends, `seconds` at most."""
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _run(self, state: Hashable, compute: Callable[[], T]) -> None:
        trouble = ""
        try:
            self.value = compute()
        except InputError as exc:
            trouble = str(exc)
        except Exception as exc:
            LOG.exception("%s failed", self.name)
            trouble = f"{self.name} failed ({type(exc).__name__}); the server's log says more"
        self.trouble, self.state, self._thread = trouble, state, None


class LabelPool:
    """The comparisons of a source, their verdicts by the served model, and the order to label them.

    Everything is computed on demand in background threads, so that the server starts at once. The source is
    read once; verdicts follow the model, the order follows the labels.

    `source`: comparisons in any supported format; None: no comparisons.
    `model`: the model that judges them.
    """

    def __init__(self, source: Path | None, model: HotReloadingModel | None = None) -> None:
        self.source, self._model = source, model
        self._offered = Background[Offered]("reading the comparisons")
        self._verdicts = Background[Sequence[Answer]]("judging the comparisons")
        self._unlabelled = Background[ToLabel]("learning what to label first")
        self._order = Background[LabelOrder]("ordering what to label first")
        self._counting: Rule = "majority"

    def identifier(self, name: str) -> str | None:
        """Return the comparison_id of an offered comparison, after the source is read; None without one.

        `name`: the comparison_id, or the key of the comparison in addresses.
        Raises InputError if the source cannot be read within `PATIENCE` seconds.
        """
        if self.source is None:
            return None
        self._read(self.source)
        self._offered.wait(PATIENCE)
        offered = self._offered.value
        if offered is None:
            raise InputError(self._offered.trouble or "they are being read")
        row = offered.places.get(name, offered.by_key.get(name))
        return None if row is None else offered.named.identifiers[row]

    def offered(self) -> Offered:
        """Return the comparisons.

        Raises RefusedError with status 404 without a source, 503 until it is read or if it cannot be read.
        """
        if self.source is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, _NONE)
        offered = self._read(self.source)
        if offered is None:
            detail = self._offered.trouble or "the comparisons are being read"
            headers = None if self._offered.trouble else {"retry-after": "1"}
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers)
        return offered

    def verdicts(self) -> Sequence[Answer] | None:
        """Return the verdicts on all comparisons: empty without a model, None while they are computed.

        Raises as `offered`.
        """
        offered, served = self.offered(), self._served()

        def compute() -> Sequence[Answer]:
            return () if served is None else judged(offered.named, served).answers.tolist()

        return self._verdicts.of(_identity(served), compute)

    def judgement(self, rows: Ints) -> Judgement | None:
        """Return the judgement of some comparisons; None without a model. Raises as `offered`."""
        served = self._served()
        return None if served is None else judged(self.offered().part(rows), served)

    def order(self, given: pd.DataFrame, *, anew: bool = False) -> LabelOrder | None:
        """Return the labelling order; None until the first one is computed.

        `given`: labels given here, with the columns of `data.comparisons.tables`.
        `anew`: use every label; else up to `EVERY` new ones may be ignored.
        """
        offered, served = self.offered(), self._served()
        unlabelled = self._unlabelled.of(
            _identity(served), lambda: ToLabel.of(offered.tables, served, self._counting)
        )
        if unlabelled is None:
            return None
        before, labels = self._order.value, len(given)
        if before is not None and not anew and abs(labels - before.labels) < EVERY:
            labels = before.labels
        compute = partial(LabelOrder.of, unlabelled, offered.tables.labels, given, self._counting)
        return self._order.of((_identity(served), labels), compute)

    def troubles(self) -> list[str]:
        """Return why computations failed."""
        computations = (self._verdicts, self._unlabelled, self._order)
        return [computation.trouble for computation in computations if computation.trouble]

    def _read(self, source: Path) -> Offered | None:
        def read() -> Offered:
            self._counting = rule_under(project_root())
            return Offered.read(source, self._counting)

        return self._offered.of(source, read)

    def _served(self) -> Judge | None:
        try:
            served: Judge | None = None if self._model is None else self._model.get()
        except InputError:
            return None
        return served


def _identity(served: Judge | None) -> tuple[str, str]:
    return ("", "") if served is None else (served.ref.uri, served.ref.version)
