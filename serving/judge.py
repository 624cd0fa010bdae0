"""Comparisons become verdicts: all at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data import validity
from data.sides import Sides
from data.tables import ComparisonTables
from features.comparisons import vectors
from serving.model import ModelRef, Served
from serving.reasons import strongest
from serving.verdict_lines import Answer
from training.answering import Unit
from training.ready import ReadyModel

#: How many reasons a verdict gives.
REASONS = 3


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
        Of a regression; None if the comparison cannot be judged.
    reasons : tuple of Reason
        The strongest contributions, the strongest first; empty if the comparison cannot be judged.
    invalid_reason : str or None
        Why it cannot be judged.
    """

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Answer
    probability: float | None
    threshold: float
    reasons: tuple[Reason, ...]
    invalid_reason: str | None


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
        NaN where the answer is ``invalid``.
    problems : ndarray of str, shape (n_comparisons,)
        Why it is ``invalid``, "" where it is not.
    top : Top
        One row per comparison whose answer is not ``invalid``, in order.
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
        given = iter(_reasons(self.top))
        columns = (self.comparisons[name].tolist() for name in ("comparison_id", "benchmark", "operation"))
        numbers = self.probability.tolist()
        rows = zip(*columns, self.answers.tolist(), numbers, self.problems.tolist(), strict=True)
        for identity, benchmark, operation, answer, probability, problem in rows:
            if answer == "invalid":
                yield Verdict(identity, benchmark, operation, answer, None, self.threshold, (), problem)
            else:
                reasons = next(given)
                yield Verdict(
                    identity, benchmark, operation, answer, probability, self.threshold, reasons, None
                )


def judge(
    tables: ComparisonTables, served: Served, reasons: int = REASONS, notes: Sequence[str] = ()
) -> Judgement:
    """Give a verdict on every comparison of `tables`.

    Parameters
    ----------
    tables : ComparisonTables
        Labels are not looked at.
    served : Served
        The model; its card's threshold decides between pass and fail.
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
    judged = problems == ""
    features = vectors(sides)[judged]
    probability = np.full(len(judged), np.nan)
    if judged.any():
        probability[judged] = served.model.probability(features)
    threshold = served.model.card.threshold
    answers = np.where(judged, np.where(probability >= threshold, "fail", "pass"), "invalid")
    top = _top(features, served.model, reasons)
    unit = served.model.unit
    return Judgement(
        served.ref, unit, threshold, tables.comparisons, answers, probability, problems, top, tuple(notes)
    )


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
