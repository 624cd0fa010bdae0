"""The labels that were given, and how much of them and of the model a reader may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from data.comparisons.tables import CANNOT_TELL, LABEL_DTYPES

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
