"""The labels that were given, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from data.comparisons.tables import LABEL_DTYPES


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
