"""Engineers compared with the consensus of the others, and scores of all judges on the same comparisons."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import time_call
from data.comparisons.formats.sap_hana import (
    BENCHMARK,
    Annotations,
    ChangePoint,
    Span,
    annotations_of,
    find_boundaries,
)
from data.comparisons.params import LabelRules
from data.comparisons.sides import HISTORY_VERSIONS, Sides
from training.comparisons import family
from training.comparisons.family import RULES
from training.evaluation.metrics import score_verdicts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class VersionedSeries:
    better: float
    values: Floats
    starts: Ints
    orders: Ints

    @classmethod
    def of(cls, results: pd.DataFrame) -> VersionedSeries:
        """Build the series from the results of one operation at one configuration."""
        rows = results.sort_values("order", kind="stable")
        orders = rows["order"].to_numpy(np.int64)
        first = np.flatnonzero(np.diff(orders, prepend=orders[0] - 1))
        better = -1.0 if rows["better"].iloc[0] == "lower" else 1.0
        return cls(better, rows["value"].to_numpy(np.float64), np.r_[first, len(orders)], orders[first])

    @cached_property
    def medians(self) -> Floats:
        return np.array([np.median(part) for part in np.split(self.values, self.starts[1:-1])])

    def place(self, order: int) -> int:
        """Return the index of the first version whose order is at least `order`."""
        return int(np.searchsorted(self.orders, order))

    def worsened(self, first: int, at: int, stop: int) -> bool:
        """Return whether the median of the samples got worse from versions ``first:at`` to ``at:stop``."""
        low, middle, high = self.starts[[first, at, stop]]
        before, after = np.median(self.values[low:middle]), np.median(self.values[middle:high])
        return bool(self.better * (after - before) < 0)


def series_of(results: pd.DataFrame) -> Mapping[str, VersionedSeries]:
    """Return the series by operation; operations measured with several threads are left out."""
    groups = results.groupby("operation", sort=True)
    return {str(name): VersionedSeries.of(rows) for name, rows in groups if rows["threads"].eq(1).all()}


@dataclass(frozen=True)
class Stretch:
    """The versions ``first:stop`` of a series."""

    series: VersionedSeries
    first: int
    stop: int

    @property
    def medians(self) -> Floats:
        return self.series.medians[self.first : self.stop]

    def worsened(self, at: int, rules: LabelRules) -> bool:
        """Return whether it got worse at a position, by the rule that gives labels their direction."""
        if not 0 < at < self.stop - self.first:
            return False
        middle = self.first + at
        low, high = middle - rules.versions_before, middle + rules.versions_after
        return self.series.worsened(max(low, self.first), middle, min(high, self.stop))


@dataclass(frozen=True)
class Points:
    """Change points found by a tool in one way: the stretch, the position in it, and the strength of each."""

    stretch: Ints
    position: Ints
    strength: Floats


@dataclass(frozen=True)
class View:
    """The versions shown to the tools: for each comparison its stretch, and the boundary's position in it."""

    stretches: Sequence[Stretch]
    owner: Ints
    place: Ints
    rules: LabelRules

    @cached_property
    def worse(self) -> NDArray[np.bool_]:
        """Whether it got worse at positions around each boundary, shape (n_comparisons, 2 * within + 1)."""
        around = range(-self.rules.match_window, self.rules.match_window + 1)
        pairs = list(zip(self.owner.tolist(), self.place.tolist(), strict=True))
        checked = {(stretch, place + by) for stretch, place in pairs for by in around}
        worsened = {
            (stretch, at): self.stretches[stretch].worsened(at, self.rules) for stretch, at in checked
        }
        return np.array([[worsened[stretch, place + by] for by in around] for stretch, place in pairs])

    def evidence(self, points: Points) -> Floats:
        """Return the strength of the strongest change point at each position around each boundary.

        Shape (n_comparisons, 2 * within + 1); NaN at positions without a change point, and where the series
        did not get worse.
        """
        within, strongest = self.rules.match_window, np.full(self.worse.shape, -np.inf)
        cases = pd.DataFrame({"case": np.arange(len(self.owner)), "stretch": self.owner, "place": self.place})
        matches = pd.DataFrame(vars(points)).merge(cases, on="stretch")
        by = matches["position"].to_numpy() - matches["place"].to_numpy()
        near = np.abs(by) <= within
        at = matches["case"].to_numpy()[near], by[near] + within
        np.maximum.at(strongest, at, matches["strength"].to_numpy()[near])
        return np.where(self.worse & (strongest > -np.inf), strongest, np.nan)


def online_view(series: Mapping[str, VersionedSeries], comparisons: pd.DataFrame, rules: LabelRules) -> View:
    """Return a view of the history, baseline and target of each comparison, without later versions."""
    stretches, positions = [], []
    for row in comparisons.itertuples():
        versions = series[row.operation]
        first = max(versions.place(row.baseline_from) - HISTORY_VERSIONS, 0)
        stretches.append(Stretch(versions, first, versions.place(row.target_to + 1)))
        positions.append(versions.place(row.target_from) - first)
    return View(stretches, np.arange(len(positions)), np.array(positions, np.int64), rules)


def hindsight_view(
    series: Mapping[str, VersionedSeries], comparisons: pd.DataFrame, rules: LabelRules
) -> View:
    """Return a view of whole series, later versions included."""
    operations = sorted(comparisons["operation"].unique())
    stretches = [Stretch(series[name], 0, len(series[name].orders)) for name in operations]
    positions = [series[row.operation].place(row.target_from) for row in comparisons.itertuples()]
    owner = np.searchsorted(operations, comparisons["operation"].to_numpy(str))
    return View(stretches, owner, np.array(positions, np.int64), rules)


def chunk_slices(view: View, versions: int) -> list[slice]:
    """Divide the stretches of a view into chunks of about `versions` versions each."""
    lengths = np.cumsum([stretch.stop - stretch.first for stretch in view.stretches])
    edges = np.unique(np.searchsorted(lengths, np.arange(0, lengths[-1], versions)))
    return [
        slice(stretch, two) for stretch, two in pairwise([*edges.tolist(), len(lengths)]) if stretch < two
    ]


Flags = NDArray[np.bool_]
#: Most versions between a boundary and its change point; the best value counts, in the tool's favour.
REACHES = (0, 1, 2, 3, 5)
#: False positive rates at which the false negative rate is reported.
ALARMS = (0.02, 0.005)


@dataclass(frozen=True)
class Cases:
    """The comparisons that all judges judge, their labels and their folds."""

    ids: Sequence[str]
    failed: Flags
    fold: Ints


@dataclass(frozen=True)
class Judge:
    name: str
    kind: str
    setting: str
    judged: Flags | None
    score: Floats | None
    inside: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class Curve:
    """False negative rate against false positive rate over all thresholds of a score."""

    cuts: Floats
    false_negative_rate: Floats
    false_positive_rate: Floats

    @classmethod
    def of(cls, failed: Flags, score: Floats) -> Curve:
        """Compute the curve; scores of at least ``cuts[i]`` fail, and the first cut fails nothing."""
        values, place = np.unique(-score, return_inverse=True)
        caught = np.cumsum(np.bincount(place, failed, len(values))) / failed.sum()
        false_positive_rate = np.cumsum(np.bincount(place, ~failed, len(values))) / (~failed).sum()
        return cls(np.r_[np.inf, -values], 1 - np.r_[0.0, caught], np.r_[0.0, false_positive_rate])

    @cached_property
    def best(self) -> int:
        """Index of the cut with the highest balanced accuracy."""
        return int(np.argmin(self.false_negative_rate + self.false_positive_rate))

    def false_negative_rate_at(self, share: float) -> float:
        """Return the lowest false negative rate among cuts with a false positive rate of at most `share`."""
        return float(self.false_negative_rate[self.false_positive_rate <= share].min())


@dataclass(frozen=True)
class VerdictRates:
    """Rates of verdicts, and the standard deviation of the balanced accuracy over folds."""

    balanced: float
    spread: float
    false_negative_rate: float
    false_positive_rate: float


def verdict_rates(cases: Cases, judged: Flags) -> VerdictRates:
    pooled = score_verdicts(cases.failed, judged, None)
    folds = [
        score_verdicts(cases.failed[rows], judged[rows], None).balanced_accuracy
        for rows in (cases.fold == fold for fold in np.unique(cases.fold))
    ]
    rates = pooled.false_negative_rate, pooled.false_positive_rate
    return VerdictRates(pooled.balanced_accuracy, float(np.std(folds)), *rates)


def rates_at_best_cut(cases: Cases, score: Floats) -> VerdictRates:
    """Score a judge at the threshold that is best on these comparisons themselves."""
    curve = Curve.of(cases.failed, score)
    return verdict_rates(cases, score >= curve.cuts[curve.best])


def rates_from_other_folds(cases: Cases, score: Floats) -> VerdictRates:
    """Score a judge with, in each fold, the threshold that is best in the other folds."""
    judged = np.zeros(len(score), bool)
    for fold in np.unique(cases.fold):
        test = cases.fold == fold
        curve = Curve.of(cases.failed[~test], score[~test])
        judged[test] = score[test] >= curve.cuts[curve.best]
    return verdict_rates(cases, judged)


def average_precision(cases: Cases, score: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of the average precision over the folds."""
    from sklearn.metrics import average_precision_score

    rows = [cases.fold == fold for fold in np.unique(cases.fold)]
    folds = [average_precision_score(cases.failed[in_fold], score[in_fold]) for in_fold in rows]
    return float(np.mean(folds)), float(np.std(folds))


def best_reach(cases: Cases, evidence: Floats) -> tuple[int, Floats]:
    """Return the reach with the highest balanced accuracy, and the score of each comparison with it."""
    middle, strengths = evidence.shape[1] // 2, np.nan_to_num(evidence)
    reaches = [reach for reach in REACHES if reach <= middle]
    scored = [(reach, strengths[:, middle - reach : middle + reach + 1].max(axis=1)) for reach in reaches]
    return max(scored, key=lambda candidate: rates_at_best_cut(cases, candidate[1]).balanced)


_SHARES = np.geomspace(0.001, 1, 61)
_P = np.geomspace(0.5, 1e-30, 91)
_T = np.geomspace(0.5, 100, 61)


@dataclass(frozen=True)
class _Varied:
    """A rule, the argument that is varied, and its values from the loosest to the strictest."""

    rule: Any
    argument: str
    values: Floats

    def score(self, sides: Sides) -> Floats:
        """Return the 1-based index of the strictest value at which the rule fires, 0 where it never does."""
        score = np.zeros(sides.n_comparisons)
        for strictness, value in enumerate(self.values, start=1):
            score[self.rule(sides, **{self.argument: value})] = strictness
        return score


_VARIED: Mapping[str, _Varied] = {
    "median-5": _Varied(family.median_worse, "share", _SHARES),
    "mann-whitney-05": _Varied(family.mann_whitney, "p", _P),
    "welch-05": _Varied(family.welch_rule, "p", _P),
    "asv": _Varied(family.asv_rule, "share", _SHARES),
    "perfherder": _Varied(family.perfherder_rule, "t", _T),
    "conbench": _Varied(family.conbench_rule, "z", _T),
}


def rule_judges(sides: Sides, index: pd.Index, cases: Cases) -> list[Judge]:
    rows = index.get_indexer(pd.Index(cases.ids))
    return [_rule_judge(name, sides, rows) for name in RULES]


def _rule_judge(name: str, sides: Sides, rows: NDArray[np.intp]) -> Judge:
    seconds, judged = time_call(partial(RULES[name], sides), time.process_time)
    varied = _VARIED.get(name)
    score = None if varied is None else varied.score(sides)[rows]
    setting = "as it is" if varied is None else f"as it is; {varied.argument} varied"
    return Judge(name, "rule", setting, judged[rows], score, seconds=seconds)


#: An engineer's rates are reported for more than `ENOUGH` boundaries with at least `FAILS` fails.
ENOUGH, FAILS = 100, 10


@dataclass(frozen=True)
class Engineer:
    name: str
    ids: Sequence[str]
    failed: Flags
    judged: Flags

    @property
    def is_reported(self) -> bool:
        """Whether there are enough boundaries and fails to report rates."""
        return len(self.failed) > ENOUGH and int(self.failed.sum()) >= FAILS

    @property
    def engineer_rates(self) -> VerdictRates:
        verdict_scores = score_verdicts(self.failed, self.judged, None)
        return VerdictRates(
            verdict_scores.balanced_accuracy,
            np.nan,
            verdict_scores.false_negative_rate,
            verdict_scores.false_positive_rate,
        )

    def limited_to(self, cases: Cases, judged: Flags) -> tuple[Engineer, Engineer]:
        """Return this engineer's and another judge's verdicts, both limited to the boundaries in `cases`."""
        place = pd.Index(cases.ids).get_indexer(pd.Index(self.ids))
        shared = place >= 0
        ids, failed = (
            [boundary for boundary, is_shared in zip(self.ids, shared, strict=True) if is_shared],
            self.failed[shared],
        )
        other = Engineer("other", ids, failed, judged[place[shared]])
        return Engineer(self.name, ids, failed, self.judged[shared]), other


@dataclass(frozen=True)
class ReviewedSeries:
    """The versions of one series that annotators looked at, and their marks."""

    name: str
    series: VersionedSeries
    spans: list[Span]
    marks: list[ChangePoint]

    @classmethod
    def of(cls, name: str, series: VersionedSeries, splits: list[Annotations]) -> ReviewedSeries:
        """Merge the splits of a series; marks and spans are counted from the first version of the series."""
        count = len(series.orders)
        stops = [
            count if split.versions is None else min(count, split.first + split.versions) for split in splits
        ]
        spans = [
            Span(split.first, stop, tuple(split.marks)) for split, stop in zip(splits, stops, strict=True)
        ]
        marks = {
            ChangePoint(split.first + version, person)
            for split in splits
            for person, versions in split.marks.items()
            for version in versions
        }
        return cls(name, series, spans, sorted(marks))

    def verdicts(self, name: str, rules: LabelRules) -> Iterator[tuple[str, bool, bool]]:
        """Yield boundaries that all looked at: id, whether the others fail it, whether `name` does."""
        spans = [
            Span(span.first, span.stop, tuple(other for other in span.annotators if other != name))
            for span in self.spans
            if name in span.annotators
        ]
        marked_versions = [mark.version for mark in self.marks if mark.annotator == name]
        others = [mark for mark in self.marks if mark.annotator != name]
        for boundary in find_boundaries(spans, others, rules):
            at = boundary.version
            near = [mark for mark in marked_versions if abs(mark - at) <= rules.match_window]
            yield (
                f"{BENCHMARK}/{self.name}/{at}",
                boundary.marked and self._worsened(at, rules),
                any(self._worsened(mark, rules) for mark in near),
            )

    def _worsened(self, at: int, rules: LabelRules) -> bool:
        low, high = (
            max(at - rules.versions_before, 0),
            min(at + rules.versions_after, len(self.series.orders)),
        )
        return low < at < high and self.series.worsened(low, at, high)


def compare_engineers(path: Path, series: Mapping[str, VersionedSeries], rules: LabelRules) -> list[Engineer]:
    """Compare each annotator of the data set under `path` with the consensus of the others."""
    marked = annotations_of(path / "annotations.json")
    reviewed = [
        ReviewedSeries.of(name, operation, marked[name.lstrip("0") or "0"])
        for name, operation in series.items()
        if (name.lstrip("0") or "0") in marked
    ]
    names = {name for operation in reviewed for span in operation.spans for name in span.annotators}
    return [
        _build_engineer(
            name, [verdict for operation in reviewed for verdict in operation.verdicts(name, rules)]
        )
        for name in sorted(names, key=lambda name: (len(name), name))
    ]


def _build_engineer(name: str, boundary_verdicts: list[tuple[str, bool, bool]]) -> Engineer:
    failed, judged = np.array([verdicts for _, *verdicts in boundary_verdicts], bool).reshape(-1, 2).T
    return Engineer(name, [boundary_id for boundary_id, *_ in boundary_verdicts], failed, judged)


def pool_engineers(all_of_them: list[Engineer]) -> Engineer:
    failed, judged = ([getattr(engineer, side) for engineer in all_of_them] for side in ("failed", "judged"))
    ids = [boundary for engineer in all_of_them for boundary in engineer.ids]
    return Engineer("all", ids, np.concatenate(failed), np.concatenate(judged))
