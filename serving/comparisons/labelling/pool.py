"""What may be labelled at a server: the comparisons of one source, given when the server starts."""

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

#: What stands for an answer of somebody else before the reader has given their own.
HIDDEN = "labelled"


class GivenVote(NamedTuple):
    """What somebody says of a comparison."""

    labelled_by: str
    status: str


@dataclass(frozen=True)
class LabelsGiven:
    """What people say now, withdrawn labels left out."""

    table: pd.DataFrame  # as of `data.comparisons.tables`; who labelled is the annotator
    votes: Mapping[str, Sequence[GivenVote]] = field(default_factory=dict)  # by comparison_id
    away: str = ""  # why nobody knows what they say now; empty if it is known

    @classmethod
    def of(cls, current: pd.DataFrame) -> LabelsGiven:
        """Take them from what a store says is current."""
        table = current.assign(annotator=current["labelled_by"])[[*LABEL_DTYPES]]
        votes: dict[str, list[GivenVote]] = {}
        for name, who, status in zip(
            table["comparison_id"], table["labelled_by"], table["status"], strict=True
        ):
            votes.setdefault(name, []).append(GivenVote(who, status))
        return cls(table, votes)

    @classmethod
    def none(cls, away: str = "") -> LabelsGiven:
        """Return that there are none, or that none are known."""
        empty = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in LABEL_DTYPES.items()})
        return cls(empty, away=away)

    @property
    def decided(self) -> pd.DataFrame:
        """The rows of the table that say pass or fail."""
        return self.table[self.table["status"] != CANNOT_TELL]

    def is_decided(self, comparison_id: str) -> bool:
        """Return whether somebody says pass or fail of a comparison."""
        return any(vote.status != CANNOT_TELL for vote in self.votes.get(comparison_id, ()))

    def status_by(self, person: str, comparison_id: str) -> str:
        """Return the current answer of a person to a comparison; empty if there is none."""
        votes = self.votes.get(comparison_id, ())
        return next((vote.status for vote in votes if vote.labelled_by == person), "")


@dataclass(frozen=True)
class Reader:
    """The person for whom a page is made, and what they may see.

    Versions, verdicts and the labels of others give an answer away. So they are shown of a comparison only
    after the reader has answered it, unless the reader wants to see everything.
    """

    name: str  # empty if it is not known
    given: LabelsGiven
    sees_all: bool = False

    def answer(self, comparison_id: str) -> str:
        """Return the reader's current answer to a comparison; empty if there is none."""
        return self.given.status_by(self.name, comparison_id) if self.name else ""

    def sees(self, comparison_id: str) -> bool:
        """Return whether the versions, the verdict and all labels of a comparison may be shown."""
        return self.sees_all or self.answer(comparison_id) != ""

    def votes(self, comparison_id: str) -> Sequence[GivenVote]:
        """Return the labels of a comparison; what they say is left out where it may not be shown."""
        votes = self.given.votes.get(comparison_id, ())
        return votes if self.sees(comparison_id) else [GivenVote(vote.labelled_by, HIDDEN) for vote in votes]


@dataclass(frozen=True)
class LabelOrder:
    """Which comparisons to label first."""

    #: of all but what the source has labelled, the first first; at the end those that were labelled here,
    #: which are to be labelled again if their labels are withdrawn
    identifiers: Sequence[str]
    labels: int  # how many labels it is computed from

    @classmethod
    def of(cls, known: ToLabel, own: pd.DataFrame, given: pd.DataFrame, counting: Rule) -> LabelOrder:
        """Order them by the labels of the source and those that were given here."""
        told = known.labelled(pd.concat([own, given], ignore_index=True), counting)
        unlabelled = told.identifiers()
        settled = {*unlabelled, *consensus(own, counting).dropna().index}
        others = known.comparisons["comparison_id"]
        return cls([*unlabelled, *others[~others.isin(settled)]], len(given))


LOG = logging.getLogger("perfjudge")
T = TypeVar("T")


@dataclass
class Background(Generic[T]):
    """A value that a thread computes, once for each state of what it depends on."""

    name: str  # what is computed, for the log
    value: T | None = None  # what was computed last; None until then
    trouble: str = ""  # why the last computing failed; empty if it did not
    state: Hashable = None  # what the value, or the trouble, belongs to
    _thread: Thread | None = None
    _lock: Lock = field(default_factory=Lock)

    def of(self, state: Hashable, compute: Callable[[], T]) -> T | None:
        """Return what was computed last; unless that is of this state, compute it anew meanwhile."""
        with self._lock:
            if self.state != state and self._thread is None:
                self._thread = Thread(target=self._run, args=(state, compute), name=self.name, daemon=True)
                self._thread.start()
        return self.value

    def wait(self, seconds: float) -> None:
        """Wait for what is being computed, if anything is."""
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


#: After so many labels it is computed anew what to label first.
EVERY = 10
#: Seconds for which a label waits until it is known what may be labelled.
PATIENCE = 20.0
_NONE = (
    "there is nothing to label here; perfjudge serve --comparisons SOURCE offers comparisons of any format,"
    " uv run dvc repro those of the project"
)


class LabelPool:
    """The comparisons of a source, what the served model says of them, and which ones to label first.

    All is computed in threads of its own, and nothing before somebody asks, so that the server starts at
    once. The source is read once, later changes of its files are not followed; verdicts follow the model, the
    order the labels.

    `source`: comparisons in any format that is read; None: nothing is offered.
    `model`: what judges them.
    """

    def __init__(self, source: Path | None, model: HotReloadingModel | None = None) -> None:
        self.source, self._model = source, model
        self._offered = Background[Offered]("reading the comparisons")
        self._verdicts = Background[Sequence[Answer]]("judging the comparisons")
        self._known = Background[ToLabel]("learning what to label first")
        self._order = Background[LabelOrder]("ordering what to label first")
        self._counting: Rule = "majority"

    def identifier(self, name: str) -> str | None:
        """Return the comparison_id of an offered comparison; waits until the source is read.

        `name`: the comparison_id itself, or the key that stands for it in addresses of pages.
        Returns: None if no such comparison is offered.
        Raises InputError if it cannot be read, or takes longer than `PATIENCE`.
        """
        if self.source is None:
            return None
        self._reading(self.source)
        self._offered.wait(PATIENCE)
        if self._offered.value is None:
            raise InputError(self._offered.trouble or "they are being read")
        offered = self._offered.value
        row = offered.places.get(name, offered.by_key.get(name))
        return None if row is None else offered.named.identifiers[row]

    def offered(self) -> Offered:
        """Return what is offered.

        Raises RefusedError 404 if nothing is; 503 while the source is being read, or if it could not be.
        """
        if self.source is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, _NONE)
        found = self._reading(self.source)
        if found is None:
            told = self._offered.trouble or "the comparisons are being read"
            headers = None if self._offered.trouble else {"retry-after": "1"}
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, told, headers)
        return found

    def verdicts(self) -> Sequence[Answer] | None:
        """Return the verdicts on all comparisons: empty without a model, None while they are computed.

        Raises as `offered`.
        """
        offered, served = self.offered(), self._served()
        return self._verdicts.of(_identity(served), partial(_all_verdicts, offered, served))

    def judgement(self, rows: Ints) -> Judgement | None:
        """Return all that the model says of some comparisons; None without a model. Raises as `offered`."""
        served = self._served()
        return None if served is None else judged(self.offered().part(rows), served)

    def order(self, given: pd.DataFrame, *, anew: bool = False) -> LabelOrder | None:
        """Return which comparisons to label first; None while that is computed for the first time.

        `given`: the labels that were given here, as of `data.comparisons.tables`.
        `anew`: whether every label is to count; else what the last `EVERY` said may be left out.
        """
        offered, served = self.offered(), self._served()
        known = self._known.of(_identity(served), partial(self._learn, offered, served))
        if known is None:
            return None
        state = _identity(served), self._counted(len(given), anew=anew)
        compute = partial(LabelOrder.of, known, offered.tables.labels, given, self._counting)
        return self._order.of(state, compute)

    def troubles(self) -> list[str]:
        """Say what could not be computed."""
        return [one.trouble for one in (self._verdicts, self._known, self._order) if one.trouble]

    def _counted(self, labels: int, *, anew: bool) -> int:
        """Return how many labels the order is to be computed from."""
        before = self._order.value
        if before is None or anew or abs(labels - before.labels) >= EVERY:
            return labels
        return before.labels

    def _reading(self, source: Path) -> Offered | None:
        """Return what is offered; None while it is read, which begins when somebody first asks."""
        return self._offered.of(source, partial(self._read, source))

    def _read(self, source: Path) -> Offered:
        self._counting = rule_under(project_root())
        return Offered.read(source, self._counting)

    def _learn(self, offered: Offered, served: Judge | None) -> ToLabel:
        return ToLabel.of(offered.tables, served, self._counting)

    def _served(self) -> Judge | None:
        try:
            served: Judge | None = None if self._model is None else self._model.get()
        except InputError:
            return None
        return served


def _all_verdicts(offered: Offered, served: Judge | None) -> Sequence[Answer]:
    return () if served is None else judged(offered.named, served).answers.tolist()


def _identity(served: Judge | None) -> tuple[str, str]:
    return ("", "") if served is None else (served.ref.uri, served.ref.version)
