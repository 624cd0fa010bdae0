"""What to look at first: which operations got worse and how much, which became better, which are unstable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from data.comparisons.sides import Floats
from serving.comparisons.timelines.timeline import Marks, TimelineOperation, TimelineReport
from serving.comparisons.timelines.wording import moved, some, told
from serving.pages.charts import counted, percent

UNSURE, FAIL, INVALID = 2, 3, 4
_MEDIAN = 2


@dataclass(frozen=True)
class Finding:
    """What one operation's chart shows, in words.

    Attributes
    ----------
    number : int
        Index of the operation in the report.
    severity : float
        As a share, the greatest loss of its lasting changes, or, if that is more, the usual one beside the
        baseline of the versions judged fail.
    worse, better : tuple of str
        Its lasting changes, the greatest first.
    verdicts : str
        Which versions were judged fail; empty if none was.
    marked : bool
        Whether a verdict is unsure or fail, or something changed for good.
    """

    number: int
    operation: TimelineOperation
    severity: float
    worse: tuple[str, ...]
    better: tuple[str, ...]
    verdicts: str
    marked: bool

    @property
    def bad(self) -> bool:
        """Whether it belongs to what to look at first."""
        return bool(self.worse or self.verdicts)

    @property
    def much(self) -> str:
        """How much worse it became, in words."""
        return moved(-self.severity) if self.severity > 0 else "not worse in the median"

    @property
    def gain(self) -> float:
        """The greatest lasting change for the better, as a share."""
        return max((change.share for change in self.operation.changes), default=0.0)

    @property
    def words(self) -> str:
        """All of it in one line."""
        line = "; ".join(filter(None, [self.listed("worse"), self.listed("better"), self.verdicts]))
        return line[:1].upper() + line[1:]

    def listed(self, which: Literal["worse", "better"]) -> str:
        """Name the greatest few of its lasting changes."""
        return some(getattr(self, which), between="; ")


def findings(report: TimelineReport) -> list[Finding]:
    """Return a finding per operation, in the report's order."""
    return [_finding(report, number, one) for number, one in enumerate(report.operations)]


def worst(found: Sequence[Finding]) -> list[Finding]:
    """Return those that got worse, the worst first."""
    return sorted((one for one in found if one.bad), key=lambda one: -one.severity)


def gained(found: Sequence[Finding]) -> list[Finding]:
    """Return those that became better for good, the greatest gain first."""
    return sorted((one for one in found if one.better), key=lambda one: -one.gain)


def shaky(found: Sequence[Finding]) -> list[Finding]:
    """Return the unstable ones, the most unstable first."""
    unstable = (one for one in found if one.operation.unstable)
    return sorted(unstable, key=lambda one: -np.nan_to_num(one.operation.instability))


def ranked(found: Sequence[Finding]) -> list[int]:
    """Return each operation's place when the worst come first, then what has marks, then the others."""
    order = sorted(
        range(len(found)), key=lambda at: (not found[at].bad, -found[at].severity, not found[at].marked)
    )
    return np.argsort(order).tolist()


def losses(operation: TimelineOperation, baseline: int) -> Floats:
    """Return how much worse each version's featured median is than the baseline's, as a share."""
    medians = operation.five[operation.featured, :, _MEDIAN]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = medians / medians[baseline] - 1
    return change if operation.better == "lower" else -change


def _finding(report: TimelineReport, number: int, operation: TimelineOperation) -> Finding:
    changes = sorted(operation.changes, key=lambda change: -abs(change.share))
    many = len(operation.threads)
    bad = tuple(told(change, report.versions, many) for change in changes if change.share < 0)
    good = tuple(told(change, report.versions, many) for change in changes if change.share >= 0)
    both = operation.against_baseline, operation.against_before
    fails = (both[0] == FAIL) | (both[1] == FAIL)
    lost = losses(operation, report.baseline)[fails]
    known = lost[np.isfinite(lost)]
    usual = float(np.median(known)) if known.size else 0.0
    severity = max(0.0, usual, *(-change.share for change in changes))
    marked = bool(changes) or any(np.isin(one, (UNSURE, FAIL)).any() for one in both)
    return Finding(number, operation, severity, bad, good, _verdicts(report, operation), marked)


def _verdicts(report: TimelineReport, operation: TimelineOperation) -> str:
    began, below = _named(report, operation.against_before), _named(report, operation.against_baseline)
    told_of = [f"began with {some(began)}"] if began else []
    if below:
        sure = np.nanmax(np.append(operation.probability[operation.against_baseline == FAIL], -1))
        likely = f", the surest with {percent(float(sure))}" if sure >= 0 else ""
        told_of += [f"{counted(len(below), 'version')} worse than the baseline ({some(below, 1)}{likely})"]
    return "judged fail: " + "; ".join(told_of) if told_of else ""


def _named(report: TimelineReport, marks: Marks) -> list[str]:
    return [report.versions[at].name for at in np.flatnonzero(marks == FAIL)]
