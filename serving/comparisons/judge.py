"""Verdicts on many comparisons at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import counted
from data.comparisons.sides import NamedSides
from data.comparisons.tables import ComparisonTables
from data.comparisons.validity import reasons as problems_of
from features.comparisons.vectors import PreparedComparisons, vectors
from serving.comparisons.explain.explanations import Explanations, NearestExample, Reason, Unlike
from serving.comparisons.model import Judge
from serving.models import ModelRef
from serving.reports.verdict_lines import Answer, VerdictLine
from training.comparisons.stored import Card
from training.estimators.answering import Floats, Unit
from training.evaluation.thresholds import SAME, below_floor, discounted, verdicts

Ints = NDArray[np.int64]
#: Smaller changes have one significant digit, others one decimal.
_ONE_DECIMAL = 1e-3
#: Number of reasons of a verdict.
REASONS = 3
#: The part that decided: the model, the minimum effect size, or the validity check.
DecidedBy = Literal["model", "floor", "validity"]


class Move(NamedTuple):
    """Change of the median of one configuration, without excluded samples."""

    threads: int
    baseline_median: float  # baseline_median, target_median: in the unit of the result
    target_median: float
    change: float  # as a share of the baseline's median; negative is worse

    @property
    def in_words(self) -> str:
        """The configuration and its change in words."""
        size = abs(self.change)
        number = f"{100 * size:.1f}" if size >= _ONE_DECIMAL else f"{100 * size:.1g}"
        change = f"{number} % {'worse' if self.change < 0 else 'better'}" if size else "unchanged"
        return f"{counted(self.threads, 'thread')}: median {change}"


def moves(prepared: PreparedComparisons, configurations: Ints) -> Iterator[Move | None]:
    """Yield the change of each of these configurations; None for -1."""
    sides, present = prepared.sides, configurations >= 0
    columns = (sides.threads, sides.baseline_five[:, 2], sides.target_five[:, 2], prepared.change)
    changes = map(Move, *(column[configurations[present]].tolist() for column in columns))
    return (next(changes) if is_present else None for is_present in present.tolist())


class Verdict(NamedTuple):
    """The verdict on one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Answer
    probability: float | None  # of a regression; None if invalid, 0 below the minimum effect size
    threshold: float
    invalid_reason: str | None
    decided_by: DecidedBy
    remarks: tuple[str, ...]  # on the minimum effect size, excluded outliers and later versions
    moved: Move | None  # the configuration with the worst change; None if the comparison is invalid
    improved: Move | None  # another configuration, with the largest improvement
    unsure_from: float  # from here to the threshold the verdict is ``unsure``
    explanations: Explanations  # computes the properties below for many verdicts at once
    row: int

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The strongest contributions, the strongest first; empty unless the model decided."""
        return self.explanations.reasons(self.row)

    @property
    def words(self) -> tuple[str, ...]:
        """The evidence in sentences; empty if the comparison is invalid."""
        return self.explanations.words(self.row)

    @property
    def examples(self) -> tuple[NearestExample, ...]:
        """The most similar labelled comparison of each label, the label equal to the verdict first."""
        return self.explanations.examples(self.row)

    @property
    def flips_at(self) -> float | None:
        """The smallest change of the worst median that flips the verdict; None if no change does.

        As a share of the baseline's median; negative is worse.
        """
        return self.explanations.flips_at(self.row)

    @property
    def flip(self) -> str:
        """`flips_at` in words; empty if no change flips the verdict."""
        return self.explanations.flip(self.row)

    @property
    def unlike(self) -> Unlike | None:
        """A warning if the comparison is out of the distribution of the training data."""
        return self.explanations.unlike(self.row)

    def _content(self) -> tuple[object, ...]:
        return *self[:-2], self.reasons, self.words, self.examples, self.flips_at, self.unlike

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdicts on many comparisons; their objects are created on demand."""

    model: ModelRef
    unit: Unit  # of all contributions
    card: Card  # the metadata of the model
    answers: NDArray[np.str_]  # shape (n_comparisons,), the verdicts, in the order of the comparisons
    iterate_verdicts: Callable[[], Iterable[Verdict]]  # yields the verdicts with their details
    model_vectors: Floats  # shape (n_vectors, n_features), of the comparisons that the model decided
    out_of_distribution: Callable[[], NDArray[np.bool_]]  # returns which comparisons are out of distribution
    notes: tuple[str, ...] = ()  # assumptions about the input, one line each

    def __len__(self) -> int:
        return len(self.answers)

    def count(self, answer: Answer) -> int:
        """Return the number of comparisons with this verdict."""
        return int(np.count_nonzero(self.answers == answer))

    def first(self, most: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `most` at most, as lines of a table."""
        for verdict in islice(self.iterate_verdicts(), most):
            why = verdict.invalid_reason or "; ".join(verdict.words)
            yield VerdictLine(verdict.verdict, verdict.probability, verdict.benchmark, verdict.operation, why)

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts as a sequence."""
        return tuple(self.iterate_verdicts())

    @property
    def statuses(self) -> dict[str, str]:
        """The verdict of every comparison by its id."""
        return {verdict.comparison_id: verdict.verdict for verdict in self.verdicts}

    def parts(self, sizes: Sequence[int]) -> Iterator[Judgement]:
        """Yield the judgements of consecutive groups of comparisons of these sizes."""
        start, first_vector = 0, 0
        for size in sizes:
            rows = slice(start, start + size)
            group = self.verdicts[rows]
            end_vector = first_vector + sum(verdict.decided_by == "model" for verdict in group)
            yield replace(
                self,
                answers=self.answers[rows],
                iterate_verdicts=partial(iter, group),
                model_vectors=self.model_vectors[first_vector:end_vector],
                out_of_distribution=partial(self._strange_rows, rows),
            )
            start, first_vector = rows.stop, end_vector

    def _strange_rows(self, rows: slice) -> NDArray[np.bool_]:
        return self.out_of_distribution()[rows]


def judge(
    tables: ComparisonTables, served: Judge, reasons: int = REASONS, notes: Sequence[str] = ()
) -> Judgement:
    """Give a verdict on every comparison of `tables`, ignoring labels; see `judged`."""
    return judged(NamedSides.of(tables), served, reasons, notes)


def judged(named: NamedSides, served: Judge, reasons: int = REASONS, notes: Sequence[str] = ()) -> Judgement:
    """Give a verdict on every comparison, in their order.

    Comparisons are judged independently, except that features of sibling operations use other operations
    with the same version name.

    `reasons`: number of reasons of each verdict.
    `notes`: assumptions about the input, to be part of the answer.
    """
    model, card, problems = served.model, served.model.card, problems_of(named.sides)
    prepared, judgeable = PreparedComparisons.of(named.sides, card.run_spread), problems == ""
    below = judgeable & below_floor(prepared.worst_change, card.floor)
    columns = model.asked(vectors(prepared.sides, model.computed, steps=prepared.steps))
    decided = judgeable & ~below
    if card.wish.beneath and below.any():
        # a guarantee on misses also covers comparisons below the minimum effect size
        decided[below] = card.beneath * model.probability(columns[below]) >= card.deciding.low
    columns = columns[decided]
    probability = np.where(judgeable, 0.0, np.nan)
    contributions = np.zeros_like(columns)
    if len(columns):
        probability[decided], contributions = model.answers(columns)
        probability = discounted(probability, below, card.beneath)
    answers = verdicts(card.deciding, probability, below, beneath=card.wish.beneath)
    explanations = Explanations(
        prepared=prepared,
        units=named.units,
        answers=answers,
        place=np.where(decided, decided.cumsum() - 1, -1),
        columns=columns,
        contributions=contributions,
        features=card.features,
        count=reasons,
        decide=model.verdicts,
        precedents=model.precedents,
    )
    arrays = (answers, probability, problems, below)
    rows = [named.identifiers, named.benchmarks, named.operations, *(array.tolist() for array in arrays)]
    remarks = _remarks(prepared, retrospective=model.computed == "retrospective")
    return Judgement(
        model=served.ref,
        unit=model.unit,
        card=card,
        answers=answers,
        iterate_verdicts=partial(_verdicts, rows, prepared, remarks, card, explanations),
        model_vectors=columns,
        out_of_distribution=lambda: explanations.is_strange,
        notes=tuple(notes),
    )


def _remarks(prepared: PreparedComparisons, *, retrospective: bool) -> Mapping[int, tuple[str, ...]]:
    """Return remarks on excluded outliers and on later versions, by row."""
    wild, sides = prepared.wild, prepared.sides
    remarks: dict[int, tuple[str, ...]] = {}
    columns = (wild.comparison, wild.threads, wild.side, wild.samples, wild.value, wild.median)
    for row, threads, side, samples, value, median in zip(*(c.tolist() for c in columns), strict=True):
        configuration = counted(threads, "thread")
        outlier, place = f"one sample of {samples}", f"{side}, {configuration}"
        if side == "history":
            outlier, place = f"one run of {samples} before the target", configuration
        remark = f"{outlier} is left out: {value:.4g} against a median of {median:.4g} ({place})"
        remarks[row] = (*remarks.get(row, ()), remark)
    later = np.bincount(sides.comparison, sides.later.lengths, sides.n_comparisons) > 0
    if retrospective:
        remark = "judged in hindsight, but no version after the target is known"
    else:
        remark = "versions after the target are known; this model does not look at them"
    for row in np.flatnonzero(later != retrospective).tolist():
        remarks[row] = (*remarks.get(row, ()), remark)
    return remarks


def _verdicts(
    columns: Sequence[Sequence[Any]],
    prepared: PreparedComparisons,
    remarks: Mapping[int, tuple[str, ...]],
    card: Card,
    explanations: Explanations,
) -> Iterator[Verdict]:
    cuts = card.deciding
    change = np.append(prepared.change, np.nan)[prepared.best]
    is_better = (prepared.best != prepared.worst) & (change > 0) & (change >= card.floor)
    best_moves = moves(prepared, np.where(is_better, prepared.best, -1))
    rows = zip(
        zip(*columns[:4], strict=True), *columns[4:], moves(prepared, prepared.worst), best_moves, strict=True
    )
    start: tuple[str, str, str, Answer]
    for row, (start, probability, problem, below, worst, best) in enumerate(rows):
        if problem:
            yield Verdict(
                *start, None, cuts.high, problem, "validity", (), None, None, cuts.low, explanations, row
            )
            continue
        row_remarks = remarks.get(row, ())
        if below and worst is not None:
            row_remarks = (_floor_remark(worst.change, card.floor), *row_remarks)
        by: DecidedBy = "floor" if below and start[3] == "pass" else "model"
        yield Verdict(
            *start, probability, cuts.high, None, by, row_remarks, worst, best, cuts.low, explanations, row
        )


def _floor_remark(change: float, floor: float) -> str:
    if change > 0:
        return "no median got worse"
    if change < -floor - SAME:
        return "no more than runs of this operation differ by"
    return f"below the floor of {100 * floor:g} %"
