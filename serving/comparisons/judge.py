"""Comparisons become verdicts: all at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

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
from serving.models import ModelRef
from serving.pages.verdict_lines import Answer, VerdictLine
from training.comparisons.decision import below_floor
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card
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
class Judgement:
    """The verdicts on many comparisons, which become objects when somebody reads them.

    Attributes
    ----------
    model : ModelRef
    unit : {"log-odds", "probability"}
        The unit of all contributions.
    threshold : float
    comparisons : DataFrame
        What was judged, one row each.
    answers : ndarray of str, shape (n_comparisons,)
    told : iterator of Verdict
        The verdicts one by one, once.
    notes : tuple of str
        What had to be assumed of the input, one line each.
    """

    model: ModelRef
    unit: Unit
    threshold: float
    comparisons: pd.DataFrame
    answers: NDArray[np.str_]
    told: Iterator[Verdict]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.answers)

    def count(self, answer: Answer) -> int:
        """Return how many comparisons got this verdict."""
        return int(np.count_nonzero(self.answers == answer))

    def first(self, most: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `most` at most, as lines of a table."""
        for one in self.verdicts[:most]:
            why = one.invalid_reason or ("" if one.moved is None else one.moved.told)
            yield VerdictLine(one.verdict, one.probability, one.benchmark, one.operation, why)

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts one by one, in the order of the comparisons."""
        return tuple(self.told)

    @property
    def statuses(self) -> dict[str, str]:
        """Return the verdict of every comparison by its id."""
        return dict(zip(self.comparisons["comparison_id"].tolist(), self.answers.tolist(), strict=True))


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
    sides, model, comparisons = Sides.of(tables), served.model, tables.comparisons
    problems = np.asarray(validity.reasons(sides), str)
    judged, asked, card = problems == "", Asked.of(sides), model.card
    below = judged & below_floor(asked.worst_change, card.floor)
    left = judged & ~below
    features = vectors(asked.sides)[left]
    probability = np.where(below, 0.0, np.nan)
    if left.any():
        probability[left] = model.probability(features)
    answers = np.where(judged, np.where(probability >= card.threshold, "fail", "pass"), "invalid")
    names = [comparisons[name] for name in ("comparison_id", "benchmark", "operation")]
    columns = (column.tolist() for column in (*names, answers, probability, problems, below))
    told = _verdicts(zip(*columns, strict=True), asked, card, _reasons(features, model, reasons))
    return Judgement(served.ref, model.unit, card.threshold, comparisons, answers, told, tuple(notes))


def _verdicts(
    rows: Iterable[tuple[Any, ...]], asked: Asked, card: Card, given: Iterator[tuple[Reason, ...]]
) -> Iterator[Verdict]:
    """Yield the verdicts of comparisons; `given` has the reasons of those that the model decided."""
    remarks = left_out(asked.wild)
    moved = (moves(asked, found) for found in (asked.worst, improved(asked, card.floor)))
    for place, (row, worst, best) in enumerate(zip(rows, *moved, strict=True)):
        identity, benchmark, operation, answer, probability, problem, below = row
        start = identity, benchmark, operation, answer
        if problem:
            yield Verdict(*start, None, card.threshold, (), problem, "validity")
            continue
        told = (*((floored(card.floor),) if below else ()), *remarks.get(place, ()))
        reasons = () if below else next(given)
        decided: DecidedBy = "floor" if below else "model"
        yield Verdict(*start, probability, card.threshold, reasons, None, decided, told, worst, best)


def _reasons(features: pd.DataFrame, model: ReadyModel, count: int) -> Iterator[tuple[Reason, ...]]:
    """Yield what speaks loudest for each verdict, the strongest first."""
    if not len(features):
        return
    names = model.card.features
    amounts = model.contributions(features)
    index = strongest(amounts, count)
    values = np.take_along_axis(features[list(names)].to_numpy(np.float64), index, axis=1)
    columns = index, values, np.take_along_axis(amounts, index, axis=1)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield tuple(
            Reason(names[feature], value if value == value else None, contribution)  # noqa: PLR0124
            for feature, value, contribution in zip(*row, strict=True)
        )


def strongest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return which features contribute most, the strongest first, shape (n_comparisons, <= count).

    Strong is a large contribution in either direction; its sign tells which.
    """
    n_features = values.shape[1]
    count = min(count, n_features)
    if count == 0 or not len(values):
        return np.zeros((len(values), count), np.int64)
    size = np.abs(values)
    top = np.argpartition(size, n_features - count, axis=1)[:, n_features - count :]
    order = np.argsort(-np.take_along_axis(size, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)
