"""Statistical significance of differences, for titles and advice of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pandas as pd

from serving.reports.charts import percent
from training.evaluation.paired_bootstrap import BootstrapSettings, Difference, paired_difference

#: Confidence of intervals, and number of bootstrap draws.
CONFIDENCE, _DRAWS = 0.95, 1000
#: Half the width of an interval of about that confidence, in standard errors.
ERRORS = 2.0


@dataclass(frozen=True)
class Leaders:
    """The best of several entries, and others without a significant difference from it, the best first."""

    best: str
    alike: tuple[str, ...]

    @classmethod
    def from_scores(cls, scores: pd.DataFrame) -> Leaders:
        """Return the best entry, by mean score, and the entries that do not differ significantly from it.

        `scores`: a row per fold, or per other unit of measurement, a column per entry; larger is better.
        Differences are paired by rows; an entry is alike if Student's t interval spans zero, or without two
        rows. The first column wins ties.
        """
        from scipy.stats import t

        means = scores.mean().sort_values(ascending=False, kind="stable")
        best = means.index[0]
        gaps = scores.rsub(scores[best], axis="index").drop(columns=best)
        counts = gaps.count()
        # one row has no interval
        reach = t.ppf((1 + CONFIDENCE) / 2, counts.clip(lower=2) - 1) * gaps.std() / np.sqrt(counts)
        alike = gaps.columns[((gaps.mean() - reach) <= 0) | (counts < 2)]  # noqa: PLR2004 - a spread
        return cls(str(best), tuple(str(name) for name in means.index if name in alike))

    @property
    def all_names(self) -> tuple[str, ...]:
        """The best entry, then the entries that do not differ significantly from it."""
        return (self.best, *self.alike)


def join_names(names: Sequence[str], max_names: int = 4) -> str:
    """Return names as an enumeration, ``a, b and c``; of more than `max_names`, ``a, b, c and 3 more``.

    The second form has the first `max_names` - 1 names. IndexError if `names` is empty.
    """
    shown = list(names)
    if len(names) > max_names:
        shown[max_names - 1 :] = [f"{len(names) - max_names + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def is_significant(gain: float, *spreads: float, folds: int) -> bool:
    """Return whether the size of `gain`, a difference of independent means, exceeds two standard errors.

    `spreads`: standard deviations over the folds (divisor: `folds`), one per mean. False for a single fold.
    """
    error = sqrt(sum(spread**2 for spread in spreads) / max(folds - 1, 1))
    return folds > 1 and abs(gain) > ERRORS * error


def compare_entries(
    verdicts: pd.DataFrame, other_verdicts: pd.DataFrame, key: str, groups: pd.Series, seed: int
) -> Difference:
    """Return the balanced accuracy of an entry minus that of another on the same cases, with a 95 % interval.

    `verdicts`, `other_verdicts`: ``verdict, status`` (the label) and the column `key` (ids of cases), each
    case once; cases of only one entry are ignored. A verdict other than fail counts as pass. The common cases
    must have both labels (else IndexError). `groups`: group of each case, indexed by its id; the bootstrap
    draws whole groups, by `seed`.
    """
    paired = verdicts.merge(other_verdicts[[key, "verdict"]], on=key, suffixes=("", "_other"))
    failed, judged, others = (
        (paired[column] == "fail").to_numpy(bool) for column in ("status", "verdict", "verdict_other")
    )
    drawn = groups.loc[paired[key]].to_numpy(str)
    return paired_difference(failed, judged, others, drawn, BootstrapSettings(_DRAWS, CONFIDENCE, seed))


def difference_predicate(difference: Difference) -> str:
    """Return a difference and its interval as a predicate, such as ``is above (by +0.010 to +0.030)``.

    An interval that contains 0, even as an end, gives ``does not differ significantly (difference -0.010 to
    +0.030) from``. Minus signs are U+2212.
    """
    low, high = (f"{end:+.3f}".replace("-", "\N{MINUS SIGN}") for end in (difference.low, difference.high))
    if difference.low <= 0 <= difference.high:
        return f"does not differ significantly (difference {low} to {high}) from"
    return f"is {'above' if difference.low > 0 else 'below'} (by {low} to {high})"


def differs_from_half(times: int, total: int) -> bool:
    """Return whether `times` of `total` (at least 1) differs from a half (two-sided binomial test at 5 %)."""
    from scipy.stats import binomtest

    return bool(binomtest(times, total).pvalue < 1 - CONFIDENCE)


def common_causes(worst: pd.DataFrame, cases: pd.DataFrame, names: Mapping[str, str], noun: str) -> str:
    """Return a sentence on the values that are significantly more frequent in `worst` than in all `cases`.

    `worst`: some rows of `cases`. `names`: by column, its name in the sentences (several columns may share
    one); a column with the same value in all rows is no possible cause, and neither is an empty value. The
    hypergeometric test is one-sided, at 5 % divided by the number of values (Bonferroni). `noun`: the plural
    of a case. The value of most of the `worst` comes first; empty without a possible cause.
    """
    from scipy.stats import hypergeom

    counts = {column: cases[column].replace("", None).value_counts() for column in names}
    tried = [
        (column, value, int(total))
        for column, totals in counts.items()
        if totals.max() < len(cases)
        for value, total in totals.items()
    ]
    test = f"one-sided hypergeometric test at {percent(1 - CONFIDENCE, 0)}, corrected for {len(tried)} tests"
    found = []
    for column, value, total in tried:
        count = int((worst[column] == value).sum())
        if hypergeom.sf(count - 1, len(cases), total, len(worst)) < (1 - CONFIDENCE) / len(tried):
            share = percent(total / len(cases))
            found.append((count, f'{names[column]} "{value}" ({count} of {len(worst)}; {share} of all)'))
    if found:
        causes = join_names([words for _, words in sorted(found, key=lambda one: -one[0])], len(found))
        return (
            f"Significantly more frequent among these {len(worst)} {noun} than among all {len(cases):,} "
            f"({test}): {causes}."
        )
    if not tried:
        return ""
    kinds = join_names([f"no {name}" for name in dict.fromkeys(names[column] for column, _, _ in tried)])
    return (
        f"N{kinds[1:]} is significantly more frequent among these {len(worst)} {noun} than among all "
        f"{len(cases):,} ({test})."
    )
