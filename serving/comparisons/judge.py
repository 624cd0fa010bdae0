"""Verdicts on many comparisons at once, each with its probability and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import number_with_noun
from data.comparisons.sides import Ints, NamedSides, Sides
from data.comparisons.tables import ComparisonTables
from data.comparisons.validity import invalid_reasons as problems_of
from features.comparisons.between_run_variation import ASSUMED
from features.comparisons.run_shifts import RunShifts
from features.comparisons.vectors import PreparedComparisons, feature_vectors
from serving.comparisons.between_runs import AdjustedVerdicts, adjust_answers, adjust_to_runs
from serving.comparisons.explain.explanations import DistributionWarning, Explanations, NearestExample, Reason
from serving.comparisons.explain.sentences import describe_change
from serving.comparisons.guarantees import base_rate_notes
from serving.comparisons.model import Judge, with_card
from serving.comparisons.run_reasons import RunReason
from serving.models import ModelRef
from serving.reports.verdict_lines import Answer, VerdictLine
from training.comparisons.base_rate import FEWEST, BaseRate, estimate_base_rate
from training.comparisons.stored import Card
from training.estimators.answering import Floats, Unit
from training.evaluation.thresholds import below_min_effect, verdicts_with_minimum

#: Smaller changes have one significant digit, others one decimal.
_ONE_DECIMAL = 1e-3
#: A share of regressions, above 0 and below 1; "estimate": from the comparisons; None: that of the training.
BaseRateOption = float | Literal["estimate"] | None
#: The part that decided: the model, the minimum effect size, between-run variation, or the validity check.
DecidedBy = Literal["model", "min_effect_size", "between_run_variation", "validity"]
#: The model has computed a probability where these decided, as between-run variation only doubts its fails.
_WITH_MODEL: frozenset[DecidedBy] = frozenset({"model", "between_run_variation"})


class Move(NamedTuple):
    """Change of the median of one configuration, without excluded samples."""

    threads: int
    baseline_median: float  # baseline_median, target_median: in the unit of the result
    target_median: float
    change: float  # as a share of the baseline's median; negative is worse

    @property
    def in_words(self) -> str:
        """The configuration and its change in words, such as ``4 threads: median 7.1 % worse``."""
        size = abs(self.change)
        number = f"{100 * size:.1f}" if size >= _ONE_DECIMAL else f"{100 * size:.1g}"
        change = f"{number} % {'worse' if self.change < 0 else 'better'}" if size else "unchanged"
        return f"{number_with_noun(self.threads, 'thread')}: median {change}"


def configuration_moves(prepared: PreparedComparisons, configurations: Ints) -> Iterator[Move | None]:
    """Yield the change of the median of each of the `configurations` as a `Move`; None for -1.

    `configurations`: indices in ``prepared.sides``. A move has ``threads, baseline_median, target_median``
    and ``change``, a share, negative is worse.
    """
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
    remarks: tuple[str, ...]  # on excluded outliers and later versions
    moved: Move | None  # the configuration with the worst change; None if the comparison is invalid
    improved: Move | None  # another configuration, with the largest improvement
    unsure_from: float  # from here to the threshold the verdict is ``unsure``
    min_effect_size: float  # as a share
    explanations: Explanations  # computes the properties below for many verdicts at once
    row: int
    run_reason: RunReason | None = None  # if between-run variation decided
    has_counterfactual: bool = True  # False if the verdict also depends on other comparisons or runs
    #: standard deviation of the difference of two builds, from all operations; None: from this operation
    usual_difference: float | None = None

    @property
    def reason(self) -> str:
        """The reason in one sentence of at most 15 words."""
        if self.invalid_reason is not None:
            return self.invalid_reason
        if self.run_reason is not None:
            words = self.explanations.direction(self.row)
            share = np.nan if self.moved is None else self.moved.change
            change = "" if self.moved is None else describe_change(share, words)
            return self.run_reason.in_words(change, words, share)
        below = self.min_effect_size if self.decided_by == "min_effect_size" else None
        return self.explanations.reason(self.row, self.verdict, below, self.usual_difference)

    @property
    def details(self) -> tuple[str, ...]:
        """Remarks, evidence, counterfactual, examples and warning as phrases; empty if invalid."""
        if self.invalid_reason is not None:
            return ()
        improved = "" if self.improved is None else self.improved.in_words
        warning = "" if self.out_of_distribution is None else self.out_of_distribution.words
        examples = (example.in_words for example in self.examples)
        is_by_runs = self.run_reason is not None
        # then the reason has the change and the variation that decided
        words, counterfactual = (self.words[2:], "") if is_by_runs else (self.words, self.counterfactual)
        phrases = (*self.remarks, *words, improved, counterfactual, *examples, warning)
        return tuple(filter(None, phrases))

    @property
    def line(self) -> VerdictLine:
        """The verdict and its reason as a line of a table."""
        return VerdictLine(self.verdict, self.probability, self.benchmark, self.operation, self.reason)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The strongest contributions, the strongest first; empty unless the model decided."""
        return self.explanations.top_reasons(self.row)

    @property
    def words(self) -> tuple[str, ...]:
        """The evidence as phrases; empty if the comparison is invalid."""
        return self.explanations.evidence_sentences(self.row, self.verdict, self.usual_difference)

    @property
    def examples(self) -> tuple[NearestExample, ...]:
        """The most similar labelled comparison of each label, the label equal to the verdict first."""
        return self.explanations.examples_by_label(self.row, self.verdict)

    @property
    def counterfactual_change(self) -> float | None:
        """The smallest change of the worst median that flips the verdict; None if no change does, or unknown.

        As a share of the baseline's median; negative is worse.
        """
        return self.explanations.counterfactual_change(self.row) if self.has_counterfactual else None

    @property
    def counterfactual(self) -> str:
        """`counterfactual_change` in words; empty if that is None."""
        return self.explanations.counterfactual(self.row) if self.has_counterfactual else ""

    @property
    def out_of_distribution(self) -> DistributionWarning | None:
        """A warning if the comparison is out of the distribution of the training data, else None."""
        return self.explanations.out_of_distribution(self.row)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdicts on many comparisons; their objects are created on demand."""

    model: ModelRef
    unit: Unit  # of all contributions
    card: Card  # the metadata of the model
    answers: NDArray[np.str_]  # shape (n_comparisons,), the verdicts, in the order of the comparisons
    probability: Floats  # shape (n_comparisons,), of a regression; NaN if invalid
    iterate_verdicts: Callable[[], Iterable[Verdict]]  # yields the verdicts with their details
    model_vectors: Floats  # shape (n_vectors, n_features), of the comparisons that the model decided
    out_of_distribution: Callable[[], NDArray[np.bool_]]  # returns which comparisons are out of distribution
    notes: tuple[str, ...] = ()  # assumptions about the input, one line each
    by_runs: int = 0  # number of comparisons that between-run variation decides; no guarantee covers them
    base_rate: BaseRate | None = None  # the share of regressions, if it was given or estimated

    def __len__(self) -> int:
        return len(self.answers)

    def count_verdicts(self, answer: Answer) -> int:
        """Return the number of comparisons with the verdict `answer`."""
        return int(np.count_nonzero(self.answers == answer))

    def first_lines(self, max_lines: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `max_lines` at most, as lines of a table."""
        return (verdict.line for verdict in islice(self.iterate_verdicts(), max_lines))

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts as a sequence."""
        return tuple(self.iterate_verdicts())

    @property
    def verdict_by_id(self) -> dict[str, str]:
        """The verdict of every comparison by its id; of equal ids, the last one counts."""
        return {verdict.comparison_id: verdict.verdict for verdict in self.verdicts}

    def split_groups(self, sizes: Sequence[int]) -> Iterator[Judgement]:
        """Yield the judgements of consecutive groups of comparisons, whose numbers are `sizes`."""
        start, first_vector, flags = 0, 0, self.out_of_distribution()
        for size in sizes:
            rows = slice(start, start + size)
            group = self.verdicts[rows]
            end_vector = first_vector + sum(verdict.decided_by in _WITH_MODEL for verdict in group)
            yield replace(
                self,
                answers=self.answers[rows],
                probability=self.probability[rows],
                iterate_verdicts=partial(iter, group),
                model_vectors=self.model_vectors[first_vector:end_vector],
                out_of_distribution=partial(flags.__getitem__, rows),
            )
            start, first_vector = rows.stop, end_vector


def judge_tables(
    tables: ComparisonTables, served: Judge, notes: Sequence[str] = (), assumed: float = ASSUMED
) -> Judgement:
    """Return the verdicts of `judge_sides` on all comparisons of `tables`; labels are ignored.

    `notes`, `assumed` and the ModelError are those of `judge_sides`.
    """
    return judge_sides(NamedSides.from_tables(tables), served, notes, assumed)


def judge_sides(
    named: NamedSides,
    served: Judge,
    notes: Sequence[str] = (),
    assumed: float = ASSUMED,
    *,
    base_rate: BaseRateOption = None,
) -> Judgement:
    """Return the verdicts on all comparisons, in their order; those that cannot be judged are ``invalid``.

    Comparisons are judged independently, except that features of sibling operations use other operations with
    the same version name. `notes`: assumptions about the input, to be part of the answer. `assumed`: least
    standard deviation between runs, as a share, if a comparison has too few runs to estimate it; then a fail
    within that variation becomes ``unsure``. With enough runs, or with 0, the model decides. `base_rate`: the
    share of regressions (above 0, below 1) that probabilities and thresholds are corrected for, or "estimate"
    from these comparisons together; None: that of the training data. Raises ModelError if the model computes
    a number that is not finite; for explanations, when they are accessed. With `base_rate`, InputError if the
    model has no training scores; for "estimate", also if these are of one label only, or fewer than 100
    comparisons can be judged.
    """
    if base_rate is not None:
        served, rate = _at_base_rate(named, served, base_rate)
        noted = (*notes, *base_rate_notes(rate))
        return replace(judge_sides(named, served, noted, assumed), base_rate=rate)
    model, card, problems = served.model, served.model.card, problems_of(named.sides)
    prepared, judgeable = PreparedComparisons.from_sides(named.sides, card.run_spread), problems == ""
    below = judgeable & below_min_effect(prepared.worst_change, card.min_effect_size)
    features = feature_vectors(prepared.sides, card.feature_set, steps=prepared.steps)
    columns = model.select_features(features)
    decided = judgeable & ~below
    if card.policy.allows_unsure_below and below.any():
        # a guarantee on misses also covers comparisons below the minimum effect size
        discounted = card.discount(model.predict_probability(columns[below]), np.ones(below.sum(), bool))
        decided[below] = discounted >= card.decision_thresholds.low
    columns = columns[decided]
    probability = np.where(judgeable, 0.0, np.nan)
    if len(columns):
        probability[decided] = model.predict_probability(columns)
        probability = card.discount(probability, below)
    answers = verdicts_with_minimum(
        card.decision_thresholds, probability, below, unsure_below=card.policy.allows_unsure_below
    )
    adjusted = AdjustedVerdicts(answers, probability, {})
    if assumed and (answers == "fail").any():
        shifts = RunShifts.of_singles(prepared.sides, assumed)
        adjusted = adjust_to_runs(answers, probability, shifts, prepared.worst, card)

    def decide_modified(sides: Sides) -> NDArray[np.str_]:
        found = model.decide_verdicts(sides)
        if assumed and (found == "fail").any():
            found = adjust_answers(found, RunShifts.of_singles(sides, assumed), card)
        return found

    explanations = Explanations(
        prepared=prepared,
        units=named.units,
        answers=adjusted.answers,
        place=np.where(decided, decided.cumsum() - 1, -1),
        columns=columns,
        model=model,
        decide=decide_modified,
    )
    arrays = (array.tolist() for array in (answers, probability, problems, below))
    rows = [named.identifiers, named.benchmarks, named.operations, *arrays]
    remarks = _remarks_by_row(prepared, retrospective=card.feature_set == "retrospective")
    return Judgement(
        model=served.ref,
        unit=model.unit,
        card=card,
        answers=adjusted.answers,
        probability=adjusted.probability,
        iterate_verdicts=lambda: with_adjusted(
            _iterate_verdicts(rows, prepared, remarks, card, explanations), adjusted
        ),
        model_vectors=columns,
        out_of_distribution=lambda: explanations.is_out_of_distribution,
        notes=tuple(notes),
        by_runs=len(adjusted.reasons),
    )


def _at_base_rate(named: NamedSides, served: Judge, base_rate: float | str) -> tuple[Judge, BaseRate]:
    card = served.model.card
    training, plain = card.require_scores(), card.at_training_rate()
    probability = judge_sides(named, with_card(served, plain), assumed=0).probability
    valid = probability[~np.isnan(probability)]
    if isinstance(base_rate, str):
        rate = estimate_base_rate(training, valid, plain.threshold)
    else:
        rate = BaseRate(base_rate)
    usual = valid if len(valid) >= FEWEST else None
    return with_card(served, card.at_base_rate(rate.rate, usual)), rate


def with_adjusted(verdicts: Iterable[Verdict], adjusted: AdjustedVerdicts) -> Iterator[Verdict]:
    """Yield the verdicts, replaced where between-run variation decided; nothing is changed in place.

    `verdicts` are in the order of the rows of `adjusted`; rows without a reason in it are yielded unchanged,
    others as copies with its verdict, probability and reason.
    """
    for row, verdict in enumerate(verdicts):
        reason = adjusted.reasons.get(row)
        yield (
            verdict
            if reason is None
            else verdict._replace(
                verdict=cast(Answer, str(adjusted.answers[row])),
                probability=float(adjusted.probability[row]),
                decided_by="between_run_variation",
                run_reason=reason,
            )
        )


def _remarks_by_row(prepared: PreparedComparisons, *, retrospective: bool) -> Mapping[int, tuple[str, ...]]:
    outliers, sides = prepared.outliers, prepared.sides
    remarks: dict[int, tuple[str, ...]] = {}
    columns = (column.tolist() for column in vars(outliers).values())
    for row, threads, side, samples, value, median in zip(*columns, strict=True):
        configuration = number_with_noun(threads, "thread")
        outlier, place = f"one sample of {samples}", f"{side}, {configuration}"
        if side == "history":
            outlier, place = f"one run of {samples} before the target", configuration
        remark = f"{outlier} is left out: {value:.4g} against a median of {median:.4g} ({place})"
        remarks[row] = (*remarks.get(row, ()), remark)
    later = np.bincount(sides.comparison, sides.later.lengths, sides.n_comparisons) > 0
    remark = "versions after the target are known; this model does not look at them"
    if retrospective:
        remark = "judged in hindsight, but no version after the target is known"
    for row in np.flatnonzero(later != retrospective).tolist():
        remarks[row] = (*remarks.get(row, ()), remark)
    return remarks


def _iterate_verdicts(
    columns: Sequence[Sequence[Any]],
    prepared: PreparedComparisons,
    remarks: Mapping[int, tuple[str, ...]],
    card: Card,
    explanations: Explanations,
) -> Iterator[Verdict]:
    cuts, min_effect_size = card.decision_thresholds, card.min_effect_size
    change = np.append(prepared.change, np.nan)[prepared.best]
    is_better = (prepared.best != prepared.worst) & (change > 0) & (change >= min_effect_size)
    worst_moves = configuration_moves(prepared, prepared.worst)
    best_moves = configuration_moves(prepared, np.where(is_better, prepared.best, -1))
    rows = zip(zip(*columns[:4], strict=True), *columns[4:], worst_moves, best_moves, strict=True)
    start: tuple[str, str, str, Answer]
    for row, (start, probability, problem, below, worst, best) in enumerate(rows):
        end = cuts.low, min_effect_size, explanations, row
        if problem:
            yield Verdict(*start, None, cuts.high, problem, "validity", (), None, None, *end)
        else:
            by: DecidedBy = "min_effect_size" if below and start[3] == "pass" else "model"
            yield Verdict(*start, probability, cuts.high, None, by, remarks.get(row, ()), worst, best, *end)
