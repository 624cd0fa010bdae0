"""What became of promises on folds that had no say in them: counts of mistakes, and of what was unsure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.comparisons.decision import verdicts as decided
from training.comparisons.held import SENT, Decision
from training.evaluation.calibration import calibration_error
from training.evaluation.cuts import Wish, cuts_for
from training.evaluation.metrics import DIGITS

Floats = NDArray[np.float64]

#: The table of counts: one row a fold, an entry, a kind and a share.
FILE = "promises.parquet"
COUNTED = ("cases", "fails", "missed", "passes", "false_alarms", "unsure")


def outcomes(found: Decision, y: NDArray[np.int64], told: Floats, below: NDArray[np.bool_]) -> pd.DataFrame:
    """Count what cuts do to the test rows of a fold.

    Parameters
    ----------
    found : Decision
        From inside the training part.
    y : ndarray of shape (n_rows,)
        1 is fail.
    told : ndarray of shape (n_rows,)
        The calibrated probability.
    below : ndarray of bool, shape (n_rows,)
        What never fails, and passes unless misses are promised.

    Returns
    -------
    DataFrame
        ``kind`` ("chosen", "missed", "false_alarms" or "sent"), ``share`` (what was asked for), ``made``
        (whether that could be promised) and the counts `COUNTED`.
    """
    rows = [
        {"kind": kind, "share": share, "made": made, **_counts(y, said)}
        for kind, share, made, said in _asked(found, told, below)
    ]
    return pd.DataFrame(rows)


def _asked(
    found: Decision, told: Floats, below: NDArray[np.bool_]
) -> Iterator[tuple[str, float, bool, NDArray[np.str_]]]:
    """Yield kind, share, whether it could be promised, and the verdicts."""

    def wished(wish: Wish) -> NDArray[np.str_]:
        cuts = cuts_for(found.promise, found.threshold, wish)
        return decided(cuts, told, below, beneath=wish.beneath)

    yield "chosen", 0.0, True, decided(found.cuts, told, below, beneath=found.wish.beneath)
    for one in found.promise.missed:
        yield "missed", one.share, one.cut is not None, wished(Wish(missed=one.share))
    for one in found.promise.false_alarms:
        yield "false_alarms", one.share, one.cut is not None, wished(Wish(false_alarms=one.share))
    for share, cuts in zip(SENT, found.sending, strict=True):
        yield "sent", share, True, decided(cuts, told, below, beneath=False)


def _counts(y: NDArray[np.int64], said: NDArray[np.str_]) -> dict[str, int]:
    failed = y == 1
    counts = (
        len(y),
        failed.sum(),
        (failed & (said == "pass")).sum(),
        (~failed).sum(),
        (~failed & (said == "fail")).sum(),
        (said == "unsure").sum(),
    )
    return dict(zip(COUNTED, map(int, counts), strict=True))


def summaries(verdicts: pd.DataFrame, counted: pd.DataFrame, split: str) -> dict[str, Any]:
    """Return what metrics.json says of each model's probabilities and promises in one split.

    Parameters
    ----------
    verdicts : DataFrame
        Rows of oof.parquet.
    counted : DataFrame
        Rows of promises.parquet.
    """
    told = verdicts[(verdicts["split"] == split) & (verdicts["kind"] == "model")]
    counts = counted[counted["split"] == split].groupby("entry", sort=True)
    return {str(entry): _summary(told[told["entry"] == entry], rows) for entry, rows in counts}


def _summary(verdicts: pd.DataFrame, counted: pd.DataFrame) -> dict[str, Any]:
    failed = (verdicts["status"] == "fail").to_numpy(np.int64)
    error = calibration_error(failed, verdicts["probability"].to_numpy(np.float64))
    kinds = {str(kind): rates(rows).to_dict("records") for kind, rows in counted.groupby("kind", sort=True)}
    return {"calibration_error": round(error, DIGITS), **kinds}


def sent(promises: dict[str, Any]) -> pd.DataFrame:
    """Return what DVC draws: a row a model and a share that is sent to a person.

    Parameters
    ----------
    promises : dict
        As `summaries` returns it.
    """
    return pd.concat(
        [pd.DataFrame(one["sent"]).assign(entry=entry) for entry, one in promises.items()], ignore_index=True
    )[["entry", "unsure", "missed", "false_alarms"]]


def rates(counted: pd.DataFrame) -> pd.DataFrame:
    """Pool folds of one entry and kind: a row a share, with rates in place of counts.

    Returns
    -------
    DataFrame
        ``share``; ``folds``, ``made`` (in how many it could be promised) and ``held`` (in how many of these
        it held); ``missed`` of the fails, ``false_alarms`` of the passes and ``unsure`` of all cases.
    """
    wrong = counted["missed"] / counted["fails"]
    if (counted["kind"] == "false_alarms").any():
        wrong = counted["false_alarms"] / counted["passes"]
    kept = counted["made"] & (wrong <= counted["share"])
    shares = counted.assign(held=kept, folds=1).groupby("share", sort=True)
    sums = shares[[*COUNTED, "folds", "made", "held"]].sum().reset_index()
    parts = {"missed": "fails", "false_alarms": "passes", "unsure": "cases"}
    found = {name: (sums[name] / sums[whole]).round(DIGITS) for name, whole in parts.items()}
    return sums[["share", "folds", "made", "held"]].assign(**found)
