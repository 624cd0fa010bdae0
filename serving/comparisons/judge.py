"""Comparisons become verdicts: all at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import counted
from data.comparisons.sides import NamedSides, Sides
from data.comparisons.tables import ComparisonTables
from data.comparisons.validity import reasons as problems_of
from features.comparisons.outliers import Wild
from features.comparisons.vectors import PreparedComparisons, vectors
from serving.comparisons.explain.explanations import Explanations, NearestExample, Reason, Unlike
from serving.comparisons.model import Judge
from serving.models import ModelRef
from serving.reports.verdict_lines import Answer, VerdictLine
from training.comparisons.stored import Card, ReadyModel
from training.estimators.answering import Floats, Unit
from training.evaluation.thresholds import SAME, below_floor, discounted, verdicts

Ints = NDArray[np.int64]
#: Changes are told with one digit from this share on, smaller ones with the digit that they have.
_ONE_DIGIT = 1e-3


class Move(NamedTuple):
    """What the median of one configuration did, without samples that were left out."""

    threads: int
    baseline_median: float  # baseline_median, target_median: in the unit of the result
    target_median: float
    change: float  # as a share of the baseline's median; negative is worse

    @property
    def told(self) -> str:
        """In words."""
        return f"{counted(self.threads, 'thread')}: median {_change(self.change)}"


def moves(asked: PreparedComparisons, configurations: Ints) -> Iterator[Move | None]:
    """Yield what the median of each of these configurations did; None for -1."""
    sides, known = asked.sides, configurations >= 0
    columns = (sides.threads, sides.baseline_five[:, 2], sides.target_five[:, 2], asked.change)
    told = map(Move, *(column[configurations[known]].tolist() for column in columns))
    return (next(told) if one else None for one in known.tolist())


def improved(asked: PreparedComparisons, floor: float) -> Ints:
    """Return the configuration of every comparison that got better most, -1 where none did beside the worst.

    Improvements below the floor are none, either.
    """
    change = np.append(asked.change, np.nan)[asked.best]
    better = (asked.best != asked.worst) & (change > 0) & (change >= floor)
    return np.where(better, asked.best, -1)


def left_out(wild: Wild) -> dict[int, tuple[str, ...]]:
    """Say of every comparison that had wild samples or runs which ones were left out, by its row."""
    found: dict[int, tuple[str, ...]] = {}
    columns = (wild.comparison, wild.threads, wild.side, wild.samples, wild.value, wild.median)
    for row, threads, side, samples, value, median in zip(*(c.tolist() for c in columns), strict=True):
        configuration = counted(threads, "thread")
        what, place = f"one sample of {samples}", f"{side}, {configuration}"
        if side == "history":
            what, place = f"one run of {samples} before the target", configuration
        told = f"{what} is left out: {value:.4g} against a median of {median:.4g} ({place})"
        found[row] = (*found.get(row, ()), told)
    return found


def in_hindsight(sides: Sides, *, looked_at: bool) -> dict[int, tuple[str, ...]]:
    """Say where versions after the target are known for nothing, or wanted and not known, by comparison."""
    if looked_at:
        lacking = np.bincount(sides.comparison, sides.later.lengths, sides.n_comparisons) == 0
        rows, told = np.flatnonzero(lacking), "judged in hindsight, but no version after the target is known"
    else:
        rows = np.unique(sides.comparison[sides.later.lengths > 0])
        told = "versions after the target are known; this model does not look at them"
    return dict.fromkeys(rows.tolist(), (told,))


def floored(change: float, floor: float) -> str:
    """Say why a change does not count as a loss, whatever the model says of it.

    `change`: of the median that moved most towards worse, as a share; negative is worse.
    `floor`: the smallest loss that counts, as a share.
    """
    if change > 0:
        return "no median got worse"
    if change < -floor - SAME:
        return "no more than runs of this operation differ by"
    return f"below the floor of {100 * floor:g} %"


def _change(change: float) -> str:
    if change == 0:
        return "unchanged"
    size = abs(change)
    number = f"{100 * size:.1f}" if size >= _ONE_DIGIT else f"{100 * size:.1g}"
    return f"{number} % {'worse' if change < 0 else 'better'}"


#: How many reasons a verdict gives.
REASONS = 3

#: What decided: the model; the floor, without asking it; or that the comparison cannot be judged.
DecidedBy = Literal["model", "floor", "validity"]


class Verdict(NamedTuple):
    """What is said of one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Answer
    probability: float | None  # of a regression; None if the comparison cannot be judged, 0 below the floor
    threshold: float
    invalid_reason: str | None  # why it cannot be judged
    decided_by: DecidedBy  # one of "model", "floor", "validity"
    #: that no median got worse, or by less than the floor, which wild samples were left out, and whether
    #: versions after the target are known that the model does not look at, or not known though it does
    remarks: tuple[str, ...]
    #: the configuration that moved most towards worse; None if the comparison cannot be judged
    moved: Move | None
    improved: Move | None  # another one that got better, the most
    unsure_from: float  # from here to the threshold the verdict is ``unsure``
    explanations: Explanations  # computes the properties below for many verdicts at once, when they are read
    row: int

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The strongest contributions, the strongest first; empty unless the model decided."""
        return self.explanations.reasons(self.row)

    @property
    def words(self) -> tuple[str, ...]:
        """The grounds of the verdict in sentences; empty if the comparison cannot be judged."""
        return self.explanations.words(self.row)

    @property
    def examples(self) -> tuple[NearestExample, ...]:
        """The most similar labelled comparison of each label, that of the same verdict first."""
        return self.explanations.examples(self.row)

    @property
    def flips_at(self) -> float | None:
        """The change of the worst median from which on the verdict is the other one; None if none flips it.

        As a share of the baseline's median; negative is worse.
        """
        return self.explanations.flips_at(self.row)

    @property
    def flip(self) -> str:
        """`flips_at` in words; empty if nothing flips the verdict."""
        return self.explanations.flip(self.row)

    @property
    def unlike(self) -> Unlike | None:
        """A warning where the comparison is unlike those that the model was trained on."""
        return self.explanations.unlike(self.row)

    def _content(self) -> tuple[object, ...]:
        return *self[:-2], self.reasons, self.words, self.examples, self.flips_at, self.unlike

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())


@dataclass(frozen=True)
class Judgement:
    """The verdicts on many comparisons, which become objects when somebody reads them."""

    model: ModelRef
    unit: Unit  # one of "log-odds", "probability", the unit of all contributions
    card: Card  # of the model: what the probabilities are, what is promised, and where the verdicts begin
    answers: NDArray[np.str_]  # shape (n_comparisons,), the verdicts, in the order of the comparisons
    #: yields the same one by one, with all that is to be said; anew whenever it is called
    told: Callable[[], Iterable[Verdict]]
    #: shape (n_asked, n_features), the vectors that the model was asked about: of all comparisons but those
    #: that it did not decide
    asked: Floats
    #: tells which comparisons are unlike those that the model was trained on, shape (n_comparisons,)
    strange: Callable[[], NDArray[np.bool_]]
    notes: tuple[str, ...] = ()  # what had to be assumed of the input, one line each

    def __len__(self) -> int:
        return len(self.answers)

    def count(self, answer: Answer) -> int:
        """Return how many comparisons got this verdict."""
        return int(np.count_nonzero(self.answers == answer))

    def first(self, most: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `most` at most, as lines of a table."""
        for one in islice(self.told(), most):
            why = one.invalid_reason or "; ".join(one.words)
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
            part = slice(start, start + size)
            told, strange = partial(iter, own), partial(self._strange_of, part)
            asked_of = self.asked[asked:then]
            yield replace(self, answers=self.answers[part], told=told, asked=asked_of, strange=strange)
            start, asked = start + size, then

    def _strange_of(self, part: slice) -> NDArray[np.bool_]:
        return self.strange()[part]


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
        The model; its card's cuts decide between pass, unsure and fail, but its floor comes first.
    reasons : int
        How many reasons each verdict gives.
    notes : sequence of str
        What had to be assumed to read the comparisons; it goes into the answer.

    Returns
    -------
    Judgement
        In the order of the comparisons. What is said of one does not depend on the others, but for
        tables that name their versions: what other operations did at the same one counts, too.
    """
    model, card, problems = served.model, served.model.card, problems_of(named.sides)
    asked, judgeable = PreparedComparisons.of(named.sides, card.run_spread), problems == ""
    below = judgeable & below_floor(asked.worst_change, card.floor)
    columns = model.asked(vectors(asked.sides, model.computed, steps=asked.steps))
    left = judgeable & ~(below & ~_doubted(model, columns, below))
    columns = columns[left]
    probability = np.where(judgeable, 0.0, np.nan)
    amounts = np.zeros_like(columns)
    if len(columns):
        probability[left], amounts = model.answers(columns)
        probability = discounted(probability, below, card.beneath)
    answers = verdicts(card.deciding, probability, below, beneath=card.wish.beneath)
    explanations = Explanations(
        asked,
        named.units,
        answers,
        np.where(left, left.cumsum() - 1, -1),
        columns,
        amounts,
        card.features,
        reasons,
        model.verdicts,
        model.precedents,
    )
    names = named.identifiers, named.benchmarks, named.operations
    found = [*names, *(one.tolist() for one in (answers, probability, problems, below))]
    # what stood aside: wild samples, and versions after the target
    aside = left_out(asked.wild), in_hindsight(asked.sides, looked_at=model.computed == "retrospective")
    told = partial(_verdicts, found, asked, aside, card, explanations)
    return Judgement(served.ref, model.unit, card, answers, told, columns, explanations.strange, tuple(notes))


def _doubted(model: ReadyModel, columns: Floats, below: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of those below the floor are unsure: none, unless misses are promised."""
    found = np.zeros_like(below)
    if model.card.wish.beneath and below.any():
        found[below] = model.card.beneath * model.probability(columns[below]) >= model.card.deciding.low
    return found


def _verdicts(
    columns: Sequence[Sequence[Any]],
    asked: PreparedComparisons,
    aside: tuple[dict[int, tuple[str, ...]], ...],
    card: Card,
    explanations: Explanations,
) -> Iterator[Verdict]:
    """Yield the verdicts of comparisons."""
    cuts = card.deciding
    moved = (moves(asked, found) for found in (asked.worst, improved(asked, card.floor)))
    rows = zip(zip(*columns[:4], strict=True), *columns[4:], *moved, strict=True)
    start: tuple[str, str, str, Answer]
    for place, (start, probability, problem, below, worst, best) in enumerate(rows):
        if problem:
            yield Verdict(
                *start, None, cuts.high, problem, "validity", (), None, None, cuts.low, explanations, place
            )
            continue
        told = (
            *((floored(worst.change, card.floor),) if below and worst is not None else ()),
            *(one for said in aside for one in said.get(place, ())),
        )
        by: DecidedBy = "floor" if below and start[3] == "pass" else "model"
        yield Verdict(
            *start, probability, cuts.high, None, by, told, worst, best, cuts.low, explanations, place
        )
