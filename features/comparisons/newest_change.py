"""The newest level of a series against its level at the baseline, with a confidence interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from data.comparisons.sides import Floats
from data.deferred import special
from features.comparisons.lasting_changes import (
    PENALTY,
    SHORTEST,
    SMALLEST,
    SeriesLevels,
    Shift,
    log_medians,
)
from features.comparisons.summaries import NOISE_FLOOR

#: Confidence level of intervals.
CONFIDENCE = 0.95
#: Largest one-sided p-value of the change that ends the baseline's level.
_LARGEST_P = 0.0005
#: Numbers of versions by which the begin or the end of a creeping drop may differ.
_MOVES = (-6, -4, -2, -1, 1, 2, 4, 6)


@dataclass(frozen=True)
class NewestChange:
    """How much the newest versions of one series differ from the baseline's level; negative is worse."""

    change: float  # as a share of the baseline's level
    low: float  # low, high: ends of the 95 % interval of `change`; NaN with too few versions
    high: float
    p_value: float  # two-sided, of no difference; NaN with too few versions
    baseline_level: float  # baseline_level, newest_level: in the unit of the series
    newest_level: float
    since: int | None  # index of the first version of the change that still lasts; None if there is none
    creeping: bool  # whether the change at `since` takes several versions
    lasting: bool  # whether a lasting change lies between the baseline and the newest version

    @property
    def lost(self) -> bool:
        """Whether lasting changes make it worse: by `SMALLEST` or more, and by the whole interval."""
        return self.lasting and self.change <= -SMALLEST and self.high < 0

    @property
    def gained(self) -> bool:
        """Whether lasting changes make it better: by `SMALLEST` or more, and by the whole interval."""
        return self.lasting and self.change >= SMALLEST and self.low > 0


def newest_change(
    medians: Floats, shifts: Sequence[Shift], sign: float, baseline: int, recent: int | None = None
) -> NewestChange | None:
    """Return the change from the baseline to the newest measured version of one series.

    The levels of both versions, which are fitted to the series, are compared. The newest level begins at the
    last of the lasting changes after the baseline, or at `recent` if there is none. It also begins at
    `recent` if that is later than the last lasting change and fewer than `SHORTEST` (3) versions were
    measured from `recent` on.

    ``since`` of the result is the index of the first version of the earliest change from which on all levels
    are worse (or all better) than the baseline's by `SMALLEST` (0.5 %) or more: None if the newest level is
    not, and if there is neither a lasting change nor `recent`.

    medians: shape (n_versions,); NaN, 0 and negative ones count as not measured. shifts: the lasting changes
    of the series. sign: 1 where higher is better, -1 where lower is. baseline: index of the baseline's
    version. recent: index of the version since which verdicts say that the series is worse; None: the newest
    `SHORTEST` versions. Returns None if the baseline has no result, or no later version has one.
    """
    logs = log_medians(medians)
    known = np.flatnonzero(np.isfinite(logs))
    later = known[known > baseline]
    if not len(later) or not np.isfinite(logs[baseline]):
        return None
    newest = int(later[-1])
    between = [shift for shift in shifts if baseline < shift.last <= newest]
    begin, lasting = max((shift.last for shift in between), default=baseline), bool(between)
    if not lasting:
        start = int(later[-SHORTEST:][0]) if recent is None else recent
        between = [Shift("drop", start, start, 0.0)]
    elif recent is not None and recent > begin and (known >= recent).sum() < SHORTEST:
        between.append(Shift("drop", recent, recent, 0.0))
    whole = [*(shift for shift in shifts if shift.last <= baseline), *between]
    levels = SeriesLevels.fit(logs, whole)
    ends = _interval(logs, levels, whole, baseline, newest)
    low, high = sorted(sign * float(np.expm1(end)) for end in ends)
    change = sign * float(np.expm1(levels.difference(baseline, newest)[0]))
    course = levels.course
    since = _last_crossing(sign * (course - course[baseline]), between, worse=change < 0)
    shown = since if lasting or recent is not None else None
    return NewestChange(
        change,
        low,
        high,
        p_value=_p_value(levels, baseline, newest),
        baseline_level=float(np.exp(course[baseline])),
        newest_level=float(np.exp(course[newest])),
        since=None if shown is None else shown.first,
        creeping=shown is not None and shown.last > shown.first,
        lasting=lasting,
    )


def with_first_change(
    medians: Floats, shifts: Sequence[Shift], sign: float, baseline: int
) -> tuple[Shift, ...]:
    """Return the lasting changes of one series, and one after 1 or 2 versions of the baseline's level.

    `find_lasting_changes` needs `SHORTEST` (3) versions before a change: an earlier one is overlooked, or
    found after the third version of the level. Here, such a change must have twice the evidence of other
    lasting changes, a p-value of at most 0.001, a size of at least `SMALLEST` (0.5 %), and `SHORTEST`
    versions after it. Arguments are those of `newest_change`; the result has the earliest change first.
    """
    logs = log_medians(medians)
    start = max((shift.last for shift in shifts if shift.last <= baseline), default=0)
    others = [*shifts]
    # a change that was found after the third version may have come earlier
    late = next((shift for shift in shifts if shift.last > baseline and shift.kind != "creep"), None)
    if late is not None and np.isfinite(logs[start : late.first]).sum() == SHORTEST:
        others.remove(late)
    stop = min((shift.first for shift in others if shift.last > baseline), default=len(logs))
    known = start + np.flatnonzero(np.isfinite(logs[start:stop]))
    # one or two versions do not show their noise
    changed, clearest = tuple(shifts), 2 * PENALTY
    for few in range(max(1, int((known <= baseline).sum())), SHORTEST + 1 if baseline in known else 0):
        before, after = logs[known[:few]], logs[known[few:]]
        if len(after) < SHORTEST:
            break
        spread, size = max(float(after.std(ddof=1)), NOISE_FLOOR), float(after.mean() - before.mean())
        squared = (size / spread) ** 2 / (1 / few + 1 / len(after))
        share, freedom = sign * float(np.expm1(size)), len(after) - 1
        if (
            squared < clearest
            or abs(share) < SMALLEST
            or special.stdtr(freedom, -np.sqrt(squared)) > _LARGEST_P
        ):
            continue
        at, clearest = int(known[few]), squared
        first = Shift("gain" if share > 0 else "drop", at, at, share)
        changed = (
            tuple(sorted((*others, first), key=attrgetter("first"))) if few < SHORTEST else tuple(shifts)
        )
    return changed


def _p_value(levels: SeriesLevels, before: int, after: int) -> float:
    difference, error = levels.difference(before, after)
    if levels.degrees_of_freedom <= 0 or not error > 0:
        return np.nan
    return float(2 * special.stdtr(levels.degrees_of_freedom, -abs(difference) / error))


def _interval(
    logs: Floats, levels: SeriesLevels, shifts: Sequence[Shift], before: int, after: int
) -> tuple[float, float]:
    """Return the ends of the interval of the difference of two levels, logarithms; NaN if unknown.

    Where a change takes several versions, its begin and end are uncertain, too: the interval is that of the
    profile likelihood over other begins and ends.
    """
    if levels.degrees_of_freedom <= 0:
        return np.nan, np.nan
    squared = float(special.stdtrit(levels.degrees_of_freedom, (1 + CONFIDENCE) / 2)) ** 2
    least, ends = levels.squared_distance(logs, levels.noise), []
    for fit in (levels, *(SeriesLevels.fit(logs, other) for other in _other_ends(shifts, len(logs)))):
        room = squared - max(0.0, fit.squared_distance(logs, levels.noise) - least)
        if room >= 0 or fit is levels:
            middle, error = fit.difference(before, after)
            error *= np.sqrt(room) * (levels.noise / fit.noise)
            ends += [middle - error, middle + error]
    return min(ends), max(ends)


def _other_ends(shifts: Sequence[Shift], n_versions: int) -> Iterator[list[Shift]]:
    """Yield the changes with another begin or end of one that takes several versions."""
    for at, shift in enumerate(shifts):
        if shift.last > shift.first:
            for by in _MOVES:
                for begin, end in ((by, 0), (0, by), (-by, by)):
                    other = shift._replace(first=shift.first + begin, last=shift.last + end)
                    if 1 <= other.first < other.last < n_versions:
                        yield [*shifts[:at], other, *shifts[at + 1 :]]


def _last_crossing(course: Floats, shifts: Sequence[Shift], *, worse: bool) -> Shift | None:
    """Return the change since which the course has stayed on this side of the baseline's level.

    course: shape (n_versions,), logarithms relative to the level at the baseline, positive is better.
    """
    crossing = None
    for shift in sorted(shifts, key=lambda shift: -shift.last):
        level = course[shift.last]
        if (level if worse else -level) > -np.log1p(SMALLEST):
            break
        crossing = shift
    return crossing
