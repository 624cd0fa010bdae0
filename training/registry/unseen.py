"""The candidate against the champion on cases that neither has seen, by what each said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.params import Promote
from training.evaluation.bootstrap import paired_difference, paired_gain
from training.registry.contest import Compared

Compare = Callable[[pd.DataFrame, pd.DataFrame], Compared | None]


def by_verdicts(keys: Sequence[str], how: Promote, seed: int, cases: str) -> Compare:
    """Return what compares by balanced accuracy; None without a common case that failed, and one that passed.

    Parameters
    ----------
    keys : sequence of str
        What a case is known by. Beside them both frames have ``verdict``, the candidate's ``status`` and
        ``group``: whole groups are drawn.
    how : Promote
    seed : int
    cases : str
        What they are called.
    """

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
        both = own.merge(theirs[[*keys, "verdict"]], on=list(keys), suffixes=("", "_theirs"))
        failed, mine, other = (
            (both[column] == "fail").to_numpy(bool) for column in ("status", "verdict", "verdict_theirs")
        )
        if failed.all() or not failed.any():
            return None
        difference = paired_difference(failed, mine, other, _groups(both), **_drawn(how, seed))
        return Compared(difference, cases, "balanced accuracy")

    return compare


def by_errors(keys: Sequence[str], how: Promote, seed: int, cases: str) -> Compare:
    """Return what compares by mean relative error; None without a common case.

    Parameters
    ----------
    keys, how, seed, cases
        As of `by_verdicts`. Beside the keys both frames have ``predicted``, the candidate's ``measured`` and
        ``group``.
    """

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
        both = own.merge(theirs[[*keys, "predicted"]], on=list(keys), suffixes=("", "_theirs"))
        if both.empty:
            return None
        mine, other = (
            (both[column] / both["measured"] - 1).abs().to_numpy(np.float64)
            for column in ("predicted", "predicted_theirs")
        )
        difference = paired_gain(mine, other, _groups(both), **_drawn(how, seed))
        return Compared(difference, cases, "mean error smaller by")

    return compare


def _groups(both: pd.DataFrame) -> NDArray[np.str_]:
    return both["group"].to_numpy(np.str_)


def _drawn(how: Promote, seed: int) -> dict[str, Any]:
    return {"resamples": how.resamples, "confidence": how.confidence, "seed": seed}
