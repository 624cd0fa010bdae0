"""Explanations of verdicts, computed on demand for blocks of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import number_with_noun
from data.comparisons.sides import Floats, Ints
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain import sentences
from serving.comparisons.explain.counterfactuals import Decide, counterfactuals
from serving.comparisons.explain.features import (
    FACTS,
    Fact,
    describe_feature,
    feature_meaning,
    format_value,
    needed_sources,
    percent,
)
from training.comparisons.stored import ReadyModel

#: Features compared with nearest examples, in words.
_COMPARED = {
    "medians_min": "shift",
    "baseline_noise_max": "noise",
    "superiority_min": "share of better pairs",
    "history_excess_min": "size by earlier steps",
}
#: Values are similar if they differ by at most the first, or by at most the second times the larger one.
_SIMILAR, _OF_LARGER = 0.02, 0.5
#: Number of reasons of a verdict.
REASONS = 3
#: Comparisons per block, of counterfactuals and of all else.
_FLIPS_BLOCK, _BLOCK = 4096, 1024

T = TypeVar("T")


class NearestExample(NamedTuple):
    """A labelled comparison that is similar to the judged one."""

    comparison_id: str
    benchmark: str
    operation: str
    label: str
    labelled_by: str  # labelled_by, labelled_at: annotators and time (ISO 8601); empty if unknown
    labelled_at: str
    distance: float  # in standard deviations of features, weighted by their importance
    near: str  # features with similar values, and features with different ones

    @property
    def in_words(self) -> str:
        """The example in one line: its label, comparison, annotators, day and similar features."""
        by = f" by {self.labelled_by}" if self.labelled_by else ""
        on = f" on {self.labelled_at[:10]}" if self.labelled_at else ""
        return f"nearest {self.label}: {self.comparison_id}, labelled{by}{on}; {self.near}"


def _are_similar(names: Sequence[str], theirs: Floats, ours: Floats) -> NDArray[np.bool_]:
    is_rooted = np.array([name.startswith("medians") for name in names], bool)
    theirs, ours = (np.where(is_rooted, values * np.abs(values), values) for values in (theirs, ours))
    larger = np.maximum(np.abs(theirs), np.abs(ours))
    return np.asarray(np.abs(theirs - ours) <= np.maximum(_SIMILAR, _OF_LARGER * larger))


@lru_cache(8192)
def _named_value(name: str, value: float) -> str:
    return f"{_COMPARED[name]} {_value_text(name, value)}" if value == value else ""  # noqa: PLR0124 - NaN


def _value_text(name: str, value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return ""
    if not name.startswith("medians"):
        return format_value(name, value)
    return f"{percent(value * value)} {'worse' if value < 0 else 'better'}"


class Reason(NamedTuple):
    """The contribution of one feature."""

    feature: str
    value: float | None  # in the units of the feature; None if unknown
    contribution: float  # positive = towards fail, in the judgement's ``contribution_unit``


class DistributionWarning(NamedTuple):
    """A warning that a comparison is out of distribution, with the feature that differs most."""

    feature: str
    value: float | None  # None if it is missing here but never in training
    low: float  # low, high: range of 98 of 100 training comparisons
    high: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Explanations:
    """The explanations of the verdicts of one judgement, by row."""

    prepared: PreparedComparisons
    units: Callable[[], Sequence[str]]  # returns the unit of every comparison
    answers: NDArray[np.str_]  # shape (n_comparisons,), the verdicts
    place: Ints  # shape (n_comparisons,), the row of `columns`; -1 if the model did not decide
    columns: Floats  # shape (n_vectors, n_features)
    model: ReadyModel
    decide: Decide  # the verdicts on modified comparisons
    _blocks: dict[Callable[..., Any], tuple[int, Mapping[int, Any]]] = field(default_factory=dict)
    _reasons: dict[tuple[int, str, float | None], str] = field(default_factory=dict)

    def top_reasons(self, row: int) -> tuple[Reason, ...]:
        """Return the features with the strongest contributions, in order; empty unless the model decided."""
        columns = self._cached_result(row, Explanations._strongest_columns, self._is_decided)
        return tuple(
            Reason(self.model.card.features[feature], _none_if_nan(value), amount)
            for feature, value, amount in zip(*columns or ((), (), ()), strict=True)
        )

    def evidence_sentences(self, row: int, answer: str, difference: float | None = None) -> tuple[str, ...]:
        """Return the evidence as phrases like ``median 7.1 % slower``; empty if the comparison is invalid.

        The order is: the change, the usual variation, facts for the verdict `answer`, a fact against it.
        `difference` replaces the standard deviation of the difference of two builds, as a share.
        """
        measurements = self._cached_result(row, Explanations._measurements, self._is_valid)
        if measurements is None:
            return ()
        facts = sentences.Facts.from_measured(self.prepared.sides, measurements)
        facts = facts._replace(decisive=_with_difference(facts.decisive, difference))
        leaning = self._cached_result(row, Explanations._fact_contributions, self._is_decided) or ()
        words = sentences.direction_words(self._named_units[row], facts.sign)
        change, variation, *others = sentences.write_sentences(facts, words, answer, leaning)
        if difference is not None:
            earlier = facts.past.earlier
            builds = f" and {number_with_noun(earlier, 'earlier build')}" if earlier else ""
            variation = f"{facts.decisive.variation.in_words()}, estimated from all operations{builds}"
        return (change, variation, *others)

    def reason(self, row: int, answer: str, below: float | None, difference: float | None = None) -> str:
        """Return the reason of the verdict `answer` on a valid comparison in one sentence.

        `below`: the minimum effect size, as a share, if it decided; else None. `difference` replaces the
        standard deviation of the difference of two builds, as a share.
        """
        key = row, answer, difference
        if key in self._reasons:
            return self._reasons[key]
        facts = self._cached_result(row, Explanations._decisive_facts, self._is_valid)
        assert facts is not None, "the comparison is valid"
        facts, direction = _with_difference(facts, difference), self.direction(row)
        warning = bool(self.is_out_of_distribution[row])
        reason = sentences.write_reason(facts, direction, answer, below, out_of_distribution=warning)
        return self._reasons.setdefault(key, reason)

    def direction(self, row: int) -> sentences.Direction:
        """Return the words for changes of a comparison, such as slower and faster."""
        return sentences.direction_words(self._named_units[row], self._worst_signs[row])

    def counterfactual_change(self, row: int) -> float | None:
        """Return the smallest change of the median that flips the verdict; None if no change does.

        A share of the baseline's median, of the configuration with the worst change; negative is worse.
        """
        change = self._cached_result(row, Explanations._counterfactuals, self._is_valid, _FLIPS_BLOCK)
        return _none_if_nan(change)

    def counterfactual(self, row: int) -> str:
        """Return `counterfactual_change` in words like ``would fail from 3.0 % slower on``; empty if None."""
        change = self.counterfactual_change(row)
        if change is None:
            return ""
        return sentences.describe_counterfactual(change, self.answers[row] == "fail", self.direction(row))

    def examples_by_label(self, row: int, answer: str) -> tuple[NearestExample, ...]:
        """Return the nearest labelled comparison of each label, the label equal to `answer` first.

        Empty if the model did not decide or has no stored examples.
        """
        if self.model.examples is None or self.place[row] < 0:
            return ()
        columns = self._cached_result(row, Explanations._nearest_rows, self._is_decided)
        assert columns is not None, "the model decided"
        index, distance, theirs, ours, similar = columns
        names, examples = self._compared_features, []
        our_values = [_value_text(name, value) for name, value in zip(names, ours, strict=True)]
        fails = int(answer == "fail")
        for label in (fails, 1 - fails):
            if index[label] < 0:
                continue
            words: dict[str, list[str]] = {"similar": [], "other": []}
            values = zip(names, theirs[label], our_values, similar[label], strict=True)
            for name, value, our_value, is_similar in values:
                if our_value and (their_value := _named_value(name, value)):
                    words["similar" if is_similar else "other"].append(f"{their_value} (here {our_value})")
            near = "; ".join(f"{word} {', '.join(texts)}" for word, texts in words.items() if texts)
            example = self.model.examples.example_records[int(index[label])]
            examples.append(NearestExample(*example, distance[label], near))
        return tuple(examples)

    @cached_property
    def is_out_of_distribution(self) -> NDArray[np.bool_]:
        """Flags of comparisons out of the distribution of the training data, shape (n_comparisons,)."""
        strange = np.zeros(len(self.answers), bool)
        if self.model.examples is not None:
            is_outside = self.model.examples.distribution.is_out_of_distribution
            strange[self._is_decided] = is_outside(self.columns[self.place[self._is_decided]])
        return strange

    def out_of_distribution(self, row: int) -> DistributionWarning | None:
        """Return a warning with the most unusual feature; None if the comparison is in distribution."""
        if self.model.examples is None or not self.is_out_of_distribution[row]:
            return None
        familiar, values = self.model.examples.distribution, self.columns[self.place[row]]
        at = familiar.most_unusual_feature(values)
        name, value = self.model.card.features[at], float(values[at])
        low, high = float(familiar.low[at]), float(familiar.high[at])
        missing = familiar.new_gaps(values)
        if missing:
            source = needed_sources(self.model.card.features[feature] for feature in missing)
            words = f"too little is known of {source}; all training comparisons have more"
        else:
            combined = ", strange beside the other features" if low <= value <= high else ""
            configurations = int(self.prepared.sides.per_comparison[row])
            usual = f"usually {format_value(name, low)} to {format_value(name, high)}{combined}"
            words = f"{describe_feature(name, configurations)} is {format_value(name, value)} ({usual})"
        words = f"unlike the training data: {words}"
        return DistributionWarning(name, _none_if_nan(value), low, high, words)

    def _cached_result(
        self,
        row: int,
        compute: Callable[[Explanations, Ints], Iterable[T]],
        has_result: NDArray[np.bool_],
        size: int = _BLOCK,
    ) -> T | None:
        """Return the result of `compute` for a row, from the cached block of rows that contains it.

        `compute` gets the rows of the block where `has_result` is true; None for other rows.
        """
        start = row - row % size
        block = self._blocks.get(compute)
        if block is None or block[0] != start:
            rows = start + np.flatnonzero(has_result[start : start + size])
            results = compute(self, rows) if len(rows) else ()
            block = self._blocks[compute] = start, dict(zip(rows.tolist(), results, strict=True))
        return block[1].get(row)

    @cached_property
    def _is_valid(self) -> NDArray[np.bool_]:
        return self.answers != "invalid"

    @cached_property
    def _is_decided(self) -> NDArray[np.bool_]:
        return self.place >= 0

    def _strongest_columns(self, rows: Ints) -> Iterable[tuple[Sequence[Any], ...]]:
        columns, amounts = self.columns[self.place[rows]], self.contributions[self.place[rows]]
        index = strongest_features(amounts, REASONS)
        each_row = np.arange(len(index))[:, None]
        return _zip_lists(index, columns[each_row, index], amounts[each_row, index])

    def _measurements(self, rows: Ints) -> Iterable[sentences.Measured]:
        return sentences.measure_comparisons(self.prepared, rows)

    def _decisive_facts(self, rows: Ints) -> Iterable[sentences.DecisiveFacts]:
        return sentences.decisive_facts(self.prepared, rows)

    def _fact_contributions(self, rows: Ints) -> Iterable[Sequence[tuple[Fact, float]]]:
        """Return pairs of facts and contributions, the strongest first; positive is towards ``fail``."""
        weights = self.contributions[self.place[rows]] @ self._fact_indicators
        order = np.argsort(-np.abs(weights), axis=1, kind="stable")
        for facts, amounts in _zip_lists(order, np.take_along_axis(weights, order, axis=1)):
            yield [(FACTS[at], amount) for at, amount in zip(facts, amounts, strict=True)]

    def _counterfactuals(self, rows: Ints) -> Iterable[float]:
        return counterfactuals(self.prepared, rows, self.answers[rows], self.decide).tolist()

    def _nearest_rows(self, rows: Ints) -> Iterable[tuple[Sequence[Any], ...]]:
        assert self.model.examples is not None, "there are examples"
        vectors = self.columns[self.place[rows]]
        positions = [self.model.card.features.index(name) for name in self._compared_features]
        index, distance = self.model.examples.find_nearest(vectors)
        theirs = self.model.examples.rows[index[..., None], positions].astype(np.float64)
        ours = vectors[:, positions]
        similar = _are_similar(self._compared_features, theirs, ours[:, None])
        return _zip_lists(index, distance, theirs, ours, similar)

    @cached_property
    def _compared_features(self) -> Sequence[str]:
        return [name for name in _COMPARED if name in self.model.card.features]

    @cached_property
    def _fact_indicators(self) -> Floats:
        """Which fact each feature measures, shape (n_features, n_facts), 0 or 1."""
        is_of_fact = np.zeros((len(self.model.card.features), len(FACTS)))
        for place, feature in enumerate(self.model.card.features):
            if (entry := feature_meaning(feature)) is not None:
                is_of_fact[place, FACTS.index(entry.fact)] = 1.0
        return is_of_fact

    @cached_property
    def _worst_signs(self) -> Sequence[float]:
        """-1 where lower is better in the configuration with the worst change, else 1; 0 without any."""
        return np.append(self.prepared.sides.sign, 0.0)[self.prepared.worst].tolist()

    @cached_property
    def _named_units(self) -> Sequence[str]:
        return self.units()

    @cached_property
    def contributions(self) -> Floats:
        """The contributions of all features, shape as `columns`; ModelError if one is not finite."""
        return self.model.predict_and_explain(self.columns)[1] if len(self.columns) else self.columns


def _with_difference(facts: sentences.DecisiveFacts, difference: float | None) -> sentences.DecisiveFacts:
    if difference is None:
        return facts
    return facts._replace(variation=sentences.UsualVariation(difference, is_measured=True))


def _zip_lists(*columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _none_if_nan(value: float | None) -> float | None:
    return None if value != value else value  # noqa: PLR0124 - faster than isnan


def strongest_features(values: NDArray[np.float64], count: int) -> Ints:
    """Return the columns of the largest absolute contributions of each row, the largest first.

    `values`: contributions, shape (n_comparisons, n_features), without NaN. The result is indices, shape
    (n_comparisons, `count`), or with all features if they are fewer; the order of equal ones is undefined.
    """
    n_features = values.shape[1]
    count = min(count, n_features)
    if count == 0 or not len(values):
        return np.zeros((len(values), count), np.int64)
    size = np.abs(values)
    top = np.argpartition(size, n_features - count, axis=1)[:, n_features - count :]
    each_row = np.arange(len(values))[:, None]
    return np.asarray(top[each_row, np.argsort(-size[each_row, top], axis=1, kind="stable")])
