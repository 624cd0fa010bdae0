"""The engineers: each beside the consensus of the others, on the boundaries that the others agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.human_labels.judges import Cases, Flags, Worth
from benchmarks.human_labels.series import VersionedSeries
from data.comparisons.formats.sap_hana import (
    BENCHMARK,
    Annotations,
    ChangePoint,
    Span,
    annotations_of,
    boundaries,
)
from data.comparisons.params import LabelRules
from training.evaluation.metrics import scores

#: Of so many boundaries at most, or fewer fails, an engineer's rates are not told.
ENOUGH, FAILS = 100, 10


@dataclass(frozen=True)
class Engineer:
    """One engineer's verdicts.

    Attributes
    ----------
    name : str
        As the study numbers them.
    ids : sequence of str
        The boundaries, as comparisons of the data set are called.
    failed : ndarray of bool, shape (n_boundaries,)
        What the others say.
    judged : ndarray of bool, shape (n_boundaries,)
        What this one says.
    """

    name: str
    ids: Sequence[str]
    failed: Flags
    judged: Flags

    @property
    def told(self) -> bool:
        """Whether there are enough cases to tell rates of."""
        return len(self.failed) > ENOUGH and int(self.failed.sum()) >= FAILS

    @property
    def worth(self) -> Worth:
        """Rates of the verdicts; there are no folds."""
        own = scores(self.failed, self.judged, None)
        return Worth(own.balanced_accuracy, np.nan, own.false_negative_rate, own.false_positive_rate)

    def among(self, cases: Cases, judged: Flags) -> tuple[Engineer, Engineer]:
        """Return this one's verdicts on what `cases` have, too, and another judge's on the same.

        Parameters
        ----------
        cases : Cases
        judged : ndarray of bool, shape (n_comparisons,)
            The other's verdicts on them.
        """
        place = pd.Index(cases.ids).get_indexer(pd.Index(self.ids))
        known = place >= 0
        ids, failed = [one for one, kept in zip(self.ids, known, strict=True) if kept], self.failed[known]
        other = Engineer("other", ids, failed, judged[place[known]])
        return Engineer(self.name, ids, failed, self.judged[known]), other


@dataclass(frozen=True)
class Looked:
    """What people looked at in a series, and what they marked there."""

    name: str
    series: VersionedSeries
    spans: list[Span]
    marks: list[ChangePoint]

    @classmethod
    def of(cls, name: str, series: VersionedSeries, splits: list[Annotations]) -> Looked:
        """Count the marks of all splits from the first version."""
        count = len(series.orders)
        stops = [count if one.versions is None else min(count, one.first + one.versions) for one in splits]
        spans = [Span(one.first, stop, tuple(one.marks)) for one, stop in zip(splits, stops, strict=True)]
        marks = {
            ChangePoint(one.first + version, person)
            for one in splits
            for person, versions in one.marks.items()
            for version in versions
        }
        return cls(name, series, spans, sorted(marks))

    def verdicts(self, name: str, rules: LabelRules) -> Iterator[tuple[str, bool, bool]]:
        """Yield boundaries that `name` and the others have looked at, what they say and what `name` says."""
        spans = [
            Span(one.first, one.stop, tuple(other for other in one.annotators if other != name))
            for one in self.spans
            if name in one.annotators
        ]
        own = [mark.version for mark in self.marks if mark.annotator == name]
        others = [mark for mark in self.marks if mark.annotator != name]
        for boundary in boundaries(spans, others, rules):
            at = boundary.version
            near = [mark for mark in own if abs(mark - at) <= rules.within]
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


def engineers(path: Path, series: Mapping[str, VersionedSeries], rules: LabelRules) -> list[Engineer]:
    """Judge everybody who marked series of the data set under `path`."""
    marked = annotations_of(path / "annotations.json")
    found = [
        Looked.of(name, one, marked[name.lstrip("0") or "0"])
        for name, one in series.items()
        if (name.lstrip("0") or "0") in marked
    ]
    names = {name for one in found for span in one.spans for name in span.annotators}
    return [
        _engineer(name, [said for one in found for said in one.verdicts(name, rules)])
        for name in sorted(names, key=lambda name: (len(name), name))
    ]


def _engineer(name: str, said: list[tuple[str, bool, bool]]) -> Engineer:
    failed, judged = np.array([verdicts for _, *verdicts in said], bool).reshape(-1, 2).T
    return Engineer(name, [one for one, *_ in said], failed, judged)


def pooled(all_of_them: list[Engineer]) -> Engineer:
    """Return all verdicts together."""
    failed, judged = ([getattr(one, side) for one in all_of_them] for side in ("failed", "judged"))
    ids = [boundary for one in all_of_them for boundary in one.ids]
    return Engineer("all", ids, np.concatenate(failed), np.concatenate(judged))
