"""Comparisons become verdicts: all at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons import validity
from data.comparisons.posted import NamedSides
from data.comparisons.tables import ComparisonTables
from features.comparisons.asked import Asked
from features.comparisons.vectors import vectors
from serving.comparisons.model import Judge
from serving.comparisons.moves import WITHIN_RUNS, Move, floored, improved, left_out, moves
from serving.models import ModelRef
from serving.pages.verdict_lines import Answer, VerdictLine
from training.comparisons.decision import SAME, below_floor
from training.comparisons.stored import Card
from training.estimators.answering import Floats, Unit

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
    answers : ndarray of str, shape (n_comparisons,)
        The verdicts, in the order of the comparisons.
    told : callable
        Yields the same one by one, with all that is to be said; anew whenever it is called.
    asked : ndarray of shape (n_asked, n_features)
        The vectors that the model was asked about: of all comparisons but those that it did not decide.
    notes : tuple of str
        What had to be assumed of the input, one line each.
    """

    model: ModelRef
    unit: Unit
    threshold: float
    answers: NDArray[np.str_]
    told: Callable[[], Iterable[Verdict]]
    asked: Floats
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.answers)

    def count(self, answer: Answer) -> int:
        """Return how many comparisons got this verdict."""
        return int(np.count_nonzero(self.answers == answer))

    def first(self, most: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `most` at most, as lines of a table."""
        for one in islice(self.told(), most):
            why = one.invalid_reason or ("" if one.moved is None else one.moved.told)
            yield VerdictLine(one.verdict, one.probability, one.benchmark, one.operation, why)

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts one by one, kept."""
        return tuple(self.told())

    @property
    def statuses(self) -> dict[str, str]:
        """Return the verdict of every comparison by its id."""
        return {one.comparison_id: one.verdict for one in self.verdicts}

    def parts(self, sizes: Sequence[int]) -> Iterator[Judgement]:
        """Yield the judgements of the first, the next, ... so many comparisons."""
        start, asked = 0, 0
        for size in sizes:
            own = self.verdicts[start : start + size]
            then = asked + sum(one.decided_by == "model" for one in own)
            told, answers = partial(iter, own), self.answers[start : start + size]
            yield replace(self, answers=answers, told=told, asked=self.asked[asked:then])
            start, asked = start + size, then


def judge(
    tables: ComparisonTables, served: Judge, reasons: int = REASONS, notes: Sequence[str] = ()
) -> Judgement:
    """Give a verdict on every comparison of `tables`; see `judged`. Labels are not looked at."""
    return judged(NamedSides.of(tables), served, reasons, notes)


def judged(named: NamedSides, served: Judge, reasons: int = REASONS, notes: Sequence[str] = ()) -> Judgement:
    """Give a verdict on every comparison.

    Parameters
    ----------
    named : NamedSides
    served : Judge
        The model; its card's threshold decides between pass and fail, but its floor comes first.
    reasons : int
        How many reasons each verdict gives.
    notes : sequence of str
        What had to be assumed to read the comparisons; it goes into the answer.

    Returns
    -------
    Judgement
        In the order of the comparisons. What is said of one does not depend on the others.
    """
    model, card, problems = served.model, served.model.card, validity.reasons(named.sides)
    asked, judgeable = Asked.of(named.sides, card.run_spread), problems == ""
    below = judgeable & below_floor(asked.worst_change, card.floor)
    left = judgeable & ~below
    columns = model.asked(vectors(asked.sides, card.run_spread))[left]
    probability = np.where(below, 0.0, np.nan)
    amounts = np.zeros_like(columns)
    if len(columns):
        probability[left], amounts = model.answers(columns)
    answers = np.where(judgeable, np.where(probability >= card.threshold, "fail", "pass"), "invalid")
    names = named.identifiers, named.benchmarks, named.operations
    found = [*names, *(one.tolist() for one in (answers, probability, problems, below))]
    told = partial(_verdicts, found, asked, card, partial(_reasons, columns, amounts, card.features, reasons))
    return Judgement(served.ref, model.unit, card.threshold, answers, told, columns, tuple(notes))


def _verdicts(
    columns: Sequence[Sequence[Any]],
    asked: Asked,
    card: Card,
    reasons: Callable[[], Iterator[tuple[Reason, ...]]],
) -> Iterator[Verdict]:
    """Yield the verdicts of comparisons; `reasons` yields those of what the model decided."""
    remarks, given, floor, threshold = left_out(asked.wild), reasons(), floored(card.floor), card.threshold
    moved = (moves(asked, found) for found in (asked.worst, improved(asked, card.floor)))
    rows = zip(zip(*columns[:4], strict=True), *columns[4:], *moved, strict=True)
    start: tuple[str, str, str, Answer]
    for place, (start, probability, problem, below, worst, best) in enumerate(rows):
        if problem:
            yield Verdict(*start, None, threshold, (), problem, "validity")
            continue
        within = worst is not None and worst.change < -card.floor - SAME
        told = (*((WITHIN_RUNS if within else floor,) if below else ()), *remarks.get(place, ()))
        why = () if below else next(given)
        decided: DecidedBy = "floor" if below else "model"
        yield Verdict(*start, probability, threshold, why, None, decided, told, worst, best)


def _reasons(
    columns: Floats, contributions: Floats, names: Sequence[str], count: int
) -> Iterator[tuple[Reason, ...]]:
    """Yield what speaks loudest for each verdict, the strongest first."""
    index = strongest(contributions, count)
    each = np.arange(len(index))[:, None]
    told = (one.tolist() for one in (index, columns[each, index], contributions[each, index]))
    for row in zip(*told, strict=True):
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
    each = np.arange(len(values))[:, None]
    return np.asarray(top[each, np.argsort(-size[each, top], axis=1, kind="stable")])
