"""Statistical significance of differences, so that no title names a winner by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pandas as pd

from training.evaluation.paired_bootstrap import Difference, paired_difference

#: Of intervals.
CONFIDENCE = 0.95
_DRAWS = 1000
#: An interval of about that confidence goes so many standard errors to each side.
ERRORS = 2.0


@dataclass(frozen=True)
class Leaders:
    """The best of several, and those that do not differ significantly from it.

    Attributes
    ----------
    alike : tuple of str
        The others whose difference from the best has an interval that spans zero, the best first.
    """

    best: str
    alike: tuple[str, ...]

    @classmethod
    def of(cls, scores: pd.DataFrame) -> Leaders:
        """Find them in scores that are the better the larger they are.

        Parameters
        ----------
        scores : DataFrame
            A row per fold (or other thing that all were measured on), a column per entry. Differences are
            paired by rows; their intervals are those of Student's t.
        """
        from scipy.stats import t

        means = scores.mean().sort_values(ascending=False, kind="stable")
        best = means.index[0]
        gaps = scores.rsub(scores[best], axis="index").drop(columns=best)
        known = gaps.count()
        # one row has no interval
        reach = t.ppf((1 + CONFIDENCE) / 2, known.clip(lower=2) - 1) * gaps.std() / np.sqrt(known)
        alike = gaps.columns[((gaps.mean() - reach) <= 0) | (known < 2)]  # noqa: PLR2004 - a spread
        return cls(str(best), tuple(str(name) for name in means.index if name in alike))

    @property
    def all(self) -> tuple[str, ...]:
        """The best and those like it."""
        return (self.best, *self.alike)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Write names as a sentence has them: ``a, b and c``, or ``a, b and 3 more``."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def told_apart(gain: float, *spreads: float, folds: int) -> bool:
    """Return whether a difference of means over folds is larger than its interval, were both independent."""
    error = sqrt(sum(spread**2 for spread in spreads) / max(folds - 1, 1))
    return folds > 1 and abs(gain) > ERRORS * error


def between(one: pd.DataFrame, other: pd.DataFrame, key: str, groups: pd.Series, seed: int) -> Difference:
    """Return the difference in balanced accuracy of two judges of the same cases.

    Parameters
    ----------
    one, other : DataFrame
        ``verdict, status`` and the column `key`, each case once.
    groups : Series
        By case: what is drawn whole in the bootstrap.
    """
    both = one.merge(other[[key, "verdict"]], on=key, suffixes=("", "_other"))
    failed, judged, others = (
        (both[column] == "fail").to_numpy(bool) for column in ("status", "verdict", "verdict_other")
    )
    drawn = groups.loc[both[key]].to_numpy(str)
    return paired_difference(
        failed, judged, others, drawn, resamples=_DRAWS, confidence=CONFIDENCE, seed=seed
    )


def lead(found: Difference) -> str:
    """Describe a difference and its interval: above, below or not significant."""
    low, high = (f"{end:+.3f}".replace("-", "\N{MINUS SIGN}") for end in (found.low, found.high))
    if found.low <= 0 <= found.high:
        return f"cannot be told from (difference {low} to {high})"
    return f"is {'above' if found.low > 0 else 'below'} (by {low} to {high})"


def more_often(times: int, of: int) -> bool:
    """Return whether `times` out of `of` differs significantly from one half (binomial test)."""
    from scipy.stats import binomtest

    return bool(binomtest(times, of).pvalue < 1 - CONFIDENCE)
