"""What a model says of all comparisons that are offered, and what it would learn most from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from data.comparisons.labels.consensus import Rule, consensus
from data.comparisons.tables import CANNOT_TELL, LABEL_DTYPES
from serving.comparisons.judge import judged
from serving.comparisons.labelling.offered import Offered
from serving.comparisons.labels.command import ToLabel
from serving.comparisons.model import Judge
from serving.models import ModelRef
from serving.reports.verdict_lines import Answer

#: What stands for an answer of somebody else before the reader has given their own.
HIDDEN = "labelled"


class GivenVote(NamedTuple):
    """What somebody says of a comparison."""

    labelled_by: str
    status: str


@dataclass(frozen=True)
class LabelsGiven:
    """What people say now, withdrawn labels left out.

    Attributes
    ----------
    table : DataFrame
        As of `data.comparisons.tables`; who labelled is the annotator.
    votes : mapping
        By comparison_id.
    away : str
        Why nobody knows what they say now; empty if it is known.
    """

    table: pd.DataFrame
    votes: Mapping[str, Sequence[GivenVote]] = field(default_factory=dict)
    away: str = ""

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

    Attributes
    ----------
    name : str
        Empty if it is not known.
    given : LabelsGiven
    sees_all : bool
    """

    name: str
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
class Opinions:
    """What the served model says.

    Attributes
    ----------
    ref : ModelRef or None
        None: there is no model.
    answers : sequence of str
        Its verdicts, in the order of the comparisons; empty without a model.
    """

    ref: ModelRef | None
    answers: Sequence[Answer]

    @classmethod
    def of(cls, offered: Offered, served: Judge | None) -> Opinions:
        """Ask the model."""
        if served is None:
            return cls(None, ())
        return cls(served.ref, judged(offered.named, served).answers.tolist())


@dataclass(frozen=True)
class LabelOrder:
    """Which comparisons to label first.

    Attributes
    ----------
    identifiers : sequence of str
        Of all but what the source has labelled, the first first; at the end those that were labelled here,
        which are to be labelled again if their labels are withdrawn.
    labels : int
        How many labels it is computed from.
    """

    identifiers: Sequence[str]
    labels: int

    @classmethod
    def of(cls, known: ToLabel, own: pd.DataFrame, given: pd.DataFrame, counting: Rule) -> LabelOrder:
        """Order them by the labels of the source and those that were given here."""
        told = known.labelled(pd.concat([own, given], ignore_index=True), counting)
        unlabelled = told.identifiers()
        settled = {*unlabelled, *consensus(own, counting).dropna().index}
        others = known.comparisons["comparison_id"]
        return cls([*unlabelled, *others[~others.isin(settled)]], len(given))
