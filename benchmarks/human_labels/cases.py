"""Engineers compared with the consensus of the others, and scores of all judges on the same comparisons."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_curve

from benchmarks.table import time_call
from data.comparisons.formats import sap_hana
from data.comparisons.params import LabelRules
from data.comparisons.sides import HISTORY_VERSIONS, Floats, Ints, Sides
from training.comparisons import family
from training.comparisons.family import RULES
from training.evaluation.metrics import score_verdicts

Flags = NDArray[np.bool_]
#: Most versions between a boundary and its change point; the best value counts, in the tool's favour.
REACHES = (0, 1, 2, 3, 5)
#: False positive rates at which the false negative rate is reported.
ALARMS = (0.02, 0.005)
#: An engineer's rates are reported for more than `ENOUGH` boundaries with at least `FAILS` fails.
ENOUGH, FAILS = 100, 10
_SHARES, _P, _T = np.geomspace(0.001, 1, 61), np.geomspace(0.5, 1e-30, 91), np.geomspace(0.5, 100, 61)
#: By rule: its function, the argument that is varied, and its values from the loosest to the strictest.
_VARIED: Mapping[str, tuple[Any, str, Floats]] = {
    "median-5": (family.median_worse, "share", _SHARES),
    "mann-whitney-05": (family.mann_whitney, "p", _P),
    "welch-05": (family.welch_rule, "p", _P),
    "asv": (family.asv_rule, "share", _SHARES),
    "perfherder": (family.perfherder_rule, "t", _T),
    "conbench": (family.conbench_rule, "z", _T),
}


@dataclass(frozen=True)
class VersionedSeries:
    better: float
    samples: Floats
    starts: Ints
    orders: Ints

    @classmethod
    def of(cls, results: pd.DataFrame) -> VersionedSeries:
        rows = results.sort_values("order", kind="stable")
        orders = rows["order"].to_numpy(np.int64)
        first = np.flatnonzero(np.diff(orders, prepend=orders[0] - 1))
        better = -1.0 if rows["better"].iloc[0] == "lower" else 1.0
        return cls(better, rows["value"].to_numpy(np.float64), np.r_[first, len(orders)], orders[first])

    @cached_property
    def medians(self) -> Floats:
        return np.array([np.median(part) for part in np.split(self.samples, self.starts[1:-1])])

    @property
    def whole(self) -> Stretch:
        return Stretch(self, 0, len(self.orders))

    def place(self, order: int) -> int:
        return int(np.searchsorted(self.orders, order))


SeriesByName = Mapping[str, VersionedSeries]


def series_of(results: pd.DataFrame) -> SeriesByName:
    """Return the series by operation; operations measured with several threads are left out."""
    groups = results.groupby("operation", sort=True)
    return {str(name): VersionedSeries.of(rows) for name, rows in groups if rows["threads"].eq(1).all()}


class Stretch(NamedTuple):
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
        ends = max(middle - rules.versions_before, self.first), min(middle + rules.versions_after, self.stop)
        low, split, high = self.series.starts[[ends[0], middle, ends[1]]]
        before, after = (np.median(side) for side in np.split(self.series.samples[low:high], [split - low]))
        return bool(self.series.better * (after - before) < 0)


class Points(NamedTuple):
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
    def worse(self) -> Flags:
        """Whether it got worse at positions around each boundary, shape (n_comparisons, 2 * within + 1)."""
        around = range(-self.rules.match_window, self.rules.match_window + 1)
        pairs = list(zip(self.owner.tolist(), self.place.tolist(), strict=True))
        checked = {(stretch, place + by) for stretch, place in pairs for by in around}
        worsened = {one: self.stretches[one[0]].worsened(one[1], self.rules) for one in checked}
        return np.array([[worsened[stretch, place + by] for by in around] for stretch, place in pairs])

    def evidence(self, points: Points) -> Floats:
        """Return the strength of the strongest change point at each position around each boundary.

        Shape (n_comparisons, 2 * within + 1); NaN at positions without a change point, and where the series
        did not get worse.
        """
        within, strongest = self.rules.match_window, np.full(self.worse.shape, -np.inf)
        cases = pd.DataFrame({"case": np.arange(len(self.owner)), "stretch": self.owner, "place": self.place})
        matches = pd.DataFrame(points._asdict()).merge(cases, on="stretch")
        by = matches["position"].to_numpy() - matches["place"].to_numpy()
        near = np.abs(by) <= within
        at = matches["case"].to_numpy()[near], by[near] + within
        np.maximum.at(strongest, at, matches["strength"].to_numpy()[near])
        return np.where(self.worse & (strongest > -np.inf), strongest, np.nan)


def online_view(series: SeriesByName, comparisons: pd.DataFrame, rules: LabelRules) -> View:
    """Return a view of the history, baseline and target of each comparison, without later versions."""
    stretches, positions = [], []
    for row in comparisons.itertuples():
        versions = series[row.operation]
        first = max(versions.place(row.baseline_from) - HISTORY_VERSIONS, 0)
        stretches.append(Stretch(versions, first, versions.place(row.target_to + 1)))
        positions.append(versions.place(row.target_from) - first)
    return View(stretches, np.arange(len(positions)), np.array(positions, np.int64), rules)


def hindsight_view(series: SeriesByName, comparisons: pd.DataFrame, rules: LabelRules) -> View:
    operations = sorted(comparisons["operation"].unique())
    positions = [series[row.operation].place(row.target_from) for row in comparisons.itertuples()]
    owner = np.searchsorted(operations, comparisons["operation"].to_numpy(str))
    return View([series[name].whole for name in operations], owner, np.array(positions, np.int64), rules)


@dataclass(frozen=True)
class Cases:
    ids: Sequence[str]
    failed: Flags
    fold: Ints

    @property
    def folds(self) -> list[Flags]:
        return [self.fold == fold for fold in np.unique(self.fold)]


@dataclass(frozen=True)
class Judge:
    """A judge's verdicts at its setting and its scores, if it has any, in the order of the cases."""

    name: str
    kind: str
    setting: str
    judged: Flags
    score: Floats | None
    seconds: float  # of the processor


class Curve(NamedTuple):
    """Rates over all thresholds of a score: scores of at least ``cuts[i]`` fail, none at the first cut."""

    cuts: Floats
    false_negative_rate: Floats
    false_positive_rate: Floats

    @classmethod
    def of(cls, failed: Flags, score: Floats) -> Curve:
        false_positive_rate, caught, cuts = roc_curve(failed, score, drop_intermediate=False)
        return cls(cuts, 1 - caught, false_positive_rate)

    @property
    def best_cut(self) -> float:
        return float(self.cuts[np.argmin(self.false_negative_rate + self.false_positive_rate)])

    def false_negative_rate_at(self, share: float) -> float:
        """Return the lowest false negative rate among cuts with a false positive rate of at most `share`."""
        return float(self.false_negative_rate[self.false_positive_rate <= share].min())


class VerdictRates(NamedTuple):
    """Rates of verdicts, and the standard deviation of the balanced accuracy over folds."""

    balanced: float
    spread: float
    false_negative_rate: float
    false_positive_rate: float

    @classmethod
    def of(cls, failed: Flags, judged: Flags, spread: float = np.nan) -> VerdictRates:
        scores = score_verdicts(failed, judged, None)
        return cls(scores.balanced_accuracy, spread, scores.false_negative_rate, scores.false_positive_rate)


def verdict_rates(cases: Cases, judged: Flags) -> VerdictRates:
    folds = [VerdictRates.of(cases.failed[rows], judged[rows]).balanced for rows in cases.folds]
    return VerdictRates.of(cases.failed, judged, float(np.std(folds)))


def rates_at_best_cut(cases: Cases, score: Floats) -> VerdictRates:
    return verdict_rates(cases, score >= Curve.of(cases.failed, score).best_cut)


def rates_from_other_folds(cases: Cases, score: Floats) -> VerdictRates:
    """Score a judge with, in each fold, the threshold that is best in the other folds."""
    judged = np.zeros(len(score), bool)
    for test in cases.folds:
        judged[test] = score[test] >= Curve.of(cases.failed[~test], score[~test]).best_cut
    return verdict_rates(cases, judged)


def average_precision(cases: Cases, score: Floats) -> tuple[float, float]:
    folds = [average_precision_score(cases.failed[rows], score[rows]) for rows in cases.folds]
    return float(np.mean(folds)), float(np.std(folds))


def best_reach(cases: Cases, evidence: Floats) -> tuple[int, Floats]:
    """Return the reach with the highest balanced accuracy, and the score of each comparison with it."""
    middle, strengths = evidence.shape[1] // 2, np.nan_to_num(evidence)
    reaches = [reach for reach in REACHES if reach <= middle]
    scored = [(reach, strengths[:, middle - reach : middle + reach + 1].max(axis=1)) for reach in reaches]
    return max(scored, key=lambda candidate: rates_at_best_cut(cases, candidate[1]).balanced)


def rule_judges(sides: Sides) -> Iterator[Judge]:
    """Yield the rules; a score is the 1-based index of the strictest value at which the rule fires, or 0."""
    for name, rule in RULES.items():
        seconds, judged = time_call(partial(rule, sides), time.process_time)
        score, setting = None, "as it is"
        if name in _VARIED:
            varied, argument, values = _VARIED[name]
            score, setting = np.zeros(len(judged)), f"as it is; {argument} varied"
            for strictness, value in enumerate(values, start=1):
                score[varied(sides, **{argument: value})] = strictness
        yield Judge(name, "rule", setting, judged, score, seconds)


@dataclass(frozen=True)
class Engineer:
    name: str
    ids: Sequence[str]
    failed: Flags
    judged: Flags

    @property
    def is_reported(self) -> bool:
        return len(self.failed) > ENOUGH and int(self.failed.sum()) >= FAILS

    @property
    def engineer_rates(self) -> VerdictRates:
        return VerdictRates.of(self.failed, self.judged)

    def limited_to(self, cases: Cases, judged: Flags) -> tuple[Engineer, Engineer]:
        """Return this engineer's and another judge's verdicts, both limited to the boundaries in `cases`."""
        place = pd.Index(cases.ids).get_indexer(pd.Index(self.ids))
        shared = np.flatnonzero(place >= 0)
        ids, failed = [self.ids[index] for index in shared], self.failed[shared]
        here = Engineer(self.name, ids, failed, self.judged[shared])
        return here, replace(here, name="other", judged=judged[place[shared]])


@dataclass(frozen=True)
class ReviewedSeries:
    name: str
    series: VersionedSeries
    spans: list[sap_hana.Span]
    marks: list[sap_hana.ChangePoint]

    @classmethod
    def of(cls, name: str, series: VersionedSeries, splits: list[sap_hana.Annotations]) -> ReviewedSeries:
        """Merge the splits of a series; marks and spans are counted from the first version of the series."""
        count, spans, marks = len(series.orders), [], set()
        for split in splits:
            stop = count if split.versions is None else min(count, split.first + split.versions)
            spans.append(sap_hana.Span(split.first, stop, tuple(split.marks)))
            for person, versions in split.marks.items():
                marks |= {sap_hana.ChangePoint(split.first + version, person) for version in versions}
        return cls(name, series, spans, sorted(marks))

    def verdicts(self, name: str, rules: LabelRules) -> Iterator[tuple[str, bool, bool]]:
        """Yield boundaries that all looked at: id, whether the others fail it, whether `name` does."""
        spans = [
            replace(span, annotators=tuple(other for other in span.annotators if other != name))
            for span in self.spans
            if name in span.annotators
        ]
        marked_versions = [mark.version for mark in self.marks if mark.annotator == name]
        others = [mark for mark in self.marks if mark.annotator != name]
        for boundary in sap_hana.find_boundaries(spans, others, rules):
            at, whole = boundary.version, self.series.whole
            near = [mark for mark in marked_versions if abs(mark - at) <= rules.match_window]
            failed = boundary.marked and whole.worsened(at, rules)
            judged = any(whole.worsened(mark, rules) for mark in near)
            yield f"{sap_hana.BENCHMARK}/{self.name}/{at}", failed, judged


def compare_engineers(path: Path, series: SeriesByName, rules: LabelRules) -> list[Engineer]:
    marked, reviewed = sap_hana.annotations_of(path / "annotations.json"), []
    for operation, versions in series.items():
        if splits := marked.get(operation.lstrip("0") or "0"):
            reviewed.append(ReviewedSeries.of(operation, versions, splits))
    names = {name for operation in reviewed for span in operation.spans for name in span.annotators}
    engineers = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        verdicts = [verdict for operation in reviewed for verdict in operation.verdicts(name, rules)]
        failed, judged = np.array([both for _, *both in verdicts], bool).reshape(-1, 2).T
        engineers.append(Engineer(name, [boundary for boundary, *_ in verdicts], failed, judged))
    return engineers


def pool_engineers(engineers: list[Engineer]) -> Engineer:
    failed, judged = (np.concatenate([vars(one)[side] for one in engineers]) for side in ("failed", "judged"))
    return Engineer("all", [boundary for one in engineers for boundary in one.ids], failed, judged)
