"""Comparisons become verdicts: all at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import validity
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.asked import Asked
from features.comparisons.vectors import vectors
from serving.comparisons.model import Judge
from serving.comparisons.moves import Move, floored, improved, left_out, moves
from serving.comparisons.reasons import strongest
from serving.models import ModelRef
from serving.pages.verdict_lines import Answer
from training.comparisons.decision import below_floor
from training.comparisons.ready import ReadyModel
from training.estimators.answering import Unit

#: How many reasons a verdict gives.
REASONS = 3

#: What decided: the model; the floor, without asking it; or that the comparison cannot be judged.
DecidedBy = Literal["model", "floor", "validity"]


class Reason(NamedTuple):
    """One feature of one comparison.

    Attributes
    ----------
    value : float or None
        In the feature's own units; None where it cannot be known.
    contribution : float
        Positive = towards fail, in the judgement's ``contribution_unit``.
    """

    feature: str
    value: float | None
    contribution: float


class Verdict(NamedTuple):
    """What is said of one comparison.

    Attributes
    ----------
    probability : float or None
        Of a regression; None if the comparison cannot be judged, 0 below the floor.
    reasons : tuple of Reason
        The strongest contributions, the strongest first; empty unless the model decided.
    invalid_reason : str or None
        Why it cannot be judged.
    decided_by : {"model", "floor", "validity"}
    remarks : tuple of str
        That it is below the floor, and which wild samples were left out.
    moved : Move or None
        The configuration that moved most towards worse; None if the comparison cannot be judged.
    improved : Move or None
        Another one that got better, the most.
    """

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Answer
    probability: float | None
    threshold: float
    reasons: tuple[Reason, ...]
    invalid_reason: str | None
    decided_by: DecidedBy
    remarks: tuple[str, ...] = ()
    moved: Move | None = None
    improved: Move | None = None


@dataclass(frozen=True)
class Top:
    """The strongest reasons of the comparisons that were judged, a row each."""

    names: tuple[str, ...]
    features: NDArray[np.int64]
    measured: NDArray[np.float64]
    contributions: NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """The verdicts on many comparisons, kept as arrays until somebody reads them.

    Attributes
    ----------
    model : ModelRef
    unit : {"log-odds", "probability"}
        The unit of all contributions.
    threshold : float
    comparisons : DataFrame
        What was judged, one row each.
    answers : ndarray of str, shape (n_comparisons,)
    probability : ndarray of shape (n_comparisons,)
        NaN where the answer is ``invalid``, 0 below the floor.
    problems : ndarray of str, shape (n_comparisons,)
        Why it is ``invalid``, "" where it is not.
    top : Top
        One row per comparison that the model was asked about, in order.
    asked : Asked
        What was compared.
    below : ndarray of bool, shape (n_comparisons,)
        What can be judged, but is below the floor.
    floor : float
        As a share of the baseline's median.
    notes : tuple of str
        What had to be assumed of the input, one line each.
    """

    model: ModelRef
    unit: Unit
    threshold: float
    comparisons: pd.DataFrame
    answers: NDArray[np.str_]
    probability: NDArray[np.float64]
    problems: NDArray[np.str_]
    top: Top
    asked: Asked
    below: NDArray[np.bool_]
    floor: float
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.answers)

    def count(self, answer: Answer) -> int:
        """Return how many comparisons got this verdict."""
        return int(np.count_nonzero(self.answers == answer))

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts one by one, in the order of the comparisons."""
        return tuple(self._iterate())

    @property
    def statuses(self) -> dict[str, str]:
        """Return the verdict of every comparison by its id."""
        return dict(zip(self.comparisons["comparison_id"].tolist(), self.answers.tolist(), strict=True))

    def _iterate(self) -> Iterator[Verdict]:
        given, remarks = iter(_reasons(self.top)), left_out(self.asked.wild)
        names = (self.comparisons[name].tolist() for name in ("comparison_id", "benchmark", "operation"))
        found = (one.tolist() for one in (self.answers, self.probability, self.problems, self.below))
        moved = (moves(self.asked, rows) for rows in (self.asked.worst, improved(self.asked, self.floor)))
        rows = enumerate(zip(*names, *found, *moved, strict=True))
        for place, (identity, benchmark, operation, answer, probability, problem, below, *how) in rows:
            told = remarks.get(place, ())
            start = identity, benchmark, operation, answer
            if answer == "invalid":
                yield Verdict(*start, None, self.threshold, (), problem, "validity")
            elif below:
                told = (floored(self.floor), *told)
                yield Verdict(*start, probability, self.threshold, (), None, "floor", told, *how)
            else:
                yield Verdict(*start, probability, self.threshold, next(given), None, "model", told, *how)


def judge(
    tables: ComparisonTables, served: Judge, reasons: int = REASONS, notes: Sequence[str] = ()
) -> Judgement:
    """Give a verdict on every comparison of `tables`.

    Parameters
    ----------
    tables : ComparisonTables
        Labels are not looked at.
    served : Judge
        The model; its card's threshold decides between pass and fail, but its floor comes first.
    reasons : int
        How many reasons each verdict gives.
    notes : sequence of str
        What had to be assumed to read the tables; it goes into the answer.

    Returns
    -------
    Judgement
        In the order of the comparisons table.
    """
    sides = Sides.of(tables)
    problems = np.asarray(validity.reasons(sides), str)
    judged, asked, card = problems == "", Asked.of(sides), served.model.card
    below = judged & below_floor(asked.worst_change, card.floor)
    left = judged & ~below
    features = vectors(asked.sides)[left]
    probability = np.where(below, 0.0, np.nan)
    if left.any():
        probability[left] = served.model.probability(features)
    threshold = card.threshold
    answers = np.where(judged, np.where(probability >= threshold, "fail", "pass"), "invalid")
    top = _top(features, served.model, reasons)
    unit = served.model.unit
    said = answers, probability, problems, top, asked, below, card.floor, tuple(notes)
    return Judgement(served.ref, unit, threshold, tables.comparisons, *said)


def _top(features: pd.DataFrame, model: ReadyModel, count: int) -> Top:
    names = model.card.features
    if not len(features):
        nothing = np.zeros((0, 0))
        return Top(names, nothing.astype(np.int64), nothing, nothing)
    amounts = model.contributions(features)
    index = strongest(amounts, count)
    values = features[list(names)].to_numpy(np.float64)
    return Top(names, index, *(np.take_along_axis(array, index, axis=1) for array in (values, amounts)))


def _reasons(top: Top) -> Iterator[tuple[Reason, ...]]:
    rows = zip(top.features.tolist(), top.measured.tolist(), top.contributions.tolist(), strict=True)
    for features, values, given in rows:
        yield tuple(
            Reason(top.names[feature], value if value == value else None, contribution)  # noqa: PLR0124
            for feature, value, contribution in zip(features, values, given, strict=True)
        )
