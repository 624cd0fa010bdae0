"""The steps from a model's probability to the verdict, shared by evaluation, promotion and serving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Decide
from data.errors import InputError
from data.tables.files import replacing
from data.tables.specs import read_table
from training.comparisons.family import Examples, Family, FeatureTable
from training.estimators.answering import CalibrationMap
from training.evaluation.calibration import calibrated, calibration_error
from training.evaluation.metrics import DIGITS
from training.evaluation.thresholds import (
    GUARANTEE,
    SHARES,
    DecisionPolicy,
    DecisionThresholds,
    Limits,
    RiskGuarantee,
    Scored,
    Usual,
    VerdictCosts,
    below_floor,
    cuts_for,
    discounted,
    kept,
    looking,
    verdicts,
)

Floats = NDArray[np.float64]


def examples_of(family: Family, table: FeatureTable) -> Examples:
    """Return the labelled rows of `table`, and as `bare` those computed without history.

    Rows below the minimum effect size are flagged.
    """
    floor, bare = family.section.decide.floor or 0.0, FeatureTable.read(family.bare, table.columns)
    without = replace(bare.examples, below=below_floor(read_changes(family.bare, table), floor))
    below = below_floor(read_changes(family.changes, table), floor)
    return replace(table.examples, below=below, bare=without)


def read_changes(path: Path, table: FeatureTable) -> Floats:
    """Read the ``worst_change`` of each comparison of `table` from a file of the stage featurize.

    Returns
    -------
    ndarray of shape (n_comparisons,)
        In the order of `table`.

    Raises
    ------
    InputError
        If the file has other comparisons.
    """
    frame = read_table(path, {"comparison_id": "str", "worst_change": "float64"})
    if frame["comparison_id"].tolist() != table.frame["comparison_id"].tolist():
        raise InputError("holds other comparisons than the features; run featurize again", file=path)
    return frame["worst_change"].to_numpy(np.float64)


#: The file next to tuned.json.
OUT_OF_FOLD_FILE = "held.npz"
#: Review rates that are evaluated; the comparisons most worth a review are sent first.
SENT = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)


@dataclass(frozen=True)
class HeldRows:
    """The training rows of a part, with the out-of-fold predictions of inner folds."""

    y: NDArray[np.int64]  # shape (n_rows,): 1 is fail
    groups: NDArray[np.str_]  # shape (n_rows,)
    probability: Floats  # shape (n_rows,): Not calibrated
    #: Shape (n_rows,): Rows below the minimum effect size: they never fail, and pass unless misses are
    #: limited.
    below: NDArray[np.bool_]


@dataclass(frozen=True)
class Decision:
    """The steps from a model's probability to the verdict."""

    calibration: CalibrationMap  # learned from rows not below the minimum effect size
    beneath: float  # factor of probabilities below the minimum effect size, where models don't learn
    threshold: float  # calibrated probability from which ``fail`` is the better guess
    promise: RiskGuarantee
    wish: DecisionPolicy
    cuts: DecisionThresholds
    sending: tuple[DecisionThresholds, ...]  # the thresholds for each review rate of `SENT`

    def told(self, probability: Floats, below: NDArray[np.bool_]) -> Floats:
        """Return calibrated probabilities, multiplied by `beneath` below the minimum effect size."""
        return discounted(self.calibration.of(probability), below, self.beneath)


def decision(held: HeldRows, threshold: float, how: Decide, seed: int) -> Decision:
    """Learn the steps from probability to verdict from out-of-fold predictions."""
    asked = ~held.below
    calibration = calibrated(held.y[asked], held.probability[asked], held.groups[asked])
    beneath = _beneath(held.y[held.below], calibration.of(held.probability[held.below]))
    told = discounted(calibration.of(held.probability), held.below, beneath)
    cut, wish, promise = calibration.at(threshold), wish_of(how), promised(held, told, how, seed)
    usual = Usual(np.where(held.below, 0.0, told), held.groups)
    sending = tuple(looking(cut, usual, share, Limits(cheapest=0.0)) for share in SENT)
    return Decision(calibration, beneath, cut, promise, wish, cuts_for(promise, cut, wish, usual), sending)


def _beneath(y: NDArray[np.int64], told: Floats) -> float:
    """Return (fails + 1) / (expected fails + 1) of rows below the minimum effect size, at most 1."""
    return min(1.0, float((y.sum() + 1) / (told.sum() + 1)))


def promised(held: HeldRows, told: Floats, how: Decide, seed: int) -> RiskGuarantee:
    """Return the risk guarantees that hold for the calibrated probabilities `told` of the rows `held`."""
    fails, passes = held.y == 1, held.y == 0
    missed = kept(Scored(told, fails, held.groups), _shares(how.missed), how.confidence, seed)
    # nothing fails below the minimum effect size
    spared = Scored(np.where(held.below, 1.0, 1 - told), passes, held.groups)
    turned = kept(spared, _shares(how.false_alarms), how.confidence, seed)
    return RiskGuarantee(
        how.confidence,
        int(fails.sum()),
        len(np.unique(held.groups[fails])),
        tuple(missed),
        tuple(one.turned() for one in turned),
        GUARANTEE,
    )


def _shares(wished: float | None) -> list[float]:
    return sorted({*SHARES, *([] if wished is None else [wished])})


def wish_of(how: Decide) -> DecisionPolicy:
    """Return the policy that the parameters ``decide`` request."""
    costs = None if how.costs is None else VerdictCosts(**how.costs.model_dump())
    return DecisionPolicy(how.missed, how.false_alarms, how.looks, costs)


def write_held(directory: Path, said: Iterable[tuple[str, str, Floats]]) -> None:
    """Write out-of-fold probabilities; `said` has part, model and the probabilities of training rows."""
    with replacing(directory / OUT_OF_FOLD_FILE) as path, path.open("wb") as file:
        arrays: dict[str, Any] = {_key(part, model): told for part, model, told in said}
        np.savez_compressed(file, **arrays)


def read_held(directory: Path, cells: Iterable[tuple[str, str]]) -> list[Floats]:
    """Return the out-of-fold probabilities of each part and model in `cells`."""
    path = directory / OUT_OF_FOLD_FILE
    try:
        with np.load(path, allow_pickle=False) as found:
            return [found[_key(part, model)] for part, model in cells]
    except OSError as exc:
        raise InputError("no such file; run tune first", file=path) from exc
    except KeyError as exc:
        raise InputError(f"lacks {exc}; run tune first", file=path) from exc


def _key(part: str, model: str) -> str:
    return f"{part} {model}"


#: Columns of counts; one row per fold, entry, kind and share.
COUNTED = ("cases", "fails", "missed", "passes", "false_alarms", "unsure")


def outcomes(found: Decision, y: NDArray[np.int64], told: Floats, below: NDArray[np.bool_]) -> pd.DataFrame:
    """Count the verdicts that each threshold gives for the test rows of a fold.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        1 is fail.
    told : ndarray of shape (n_rows,)
        The calibrated probability.
    below : ndarray of bool, shape (n_rows,)
        Rows below the minimum effect size: they never fail, and pass unless misses are limited.

    Returns
    -------
    DataFrame
        ``kind`` ("chosen", "missed", "false_alarms" or "sent"), ``share`` (the requested limit), ``made``
        (whether it could be guaranteed) and the counts `COUNTED`.
    """
    rows = [
        {"kind": kind, "share": share, "made": made, **_counts(y, said)}
        for kind, share, made, said in _asked(found, told, below)
    ]
    return pd.DataFrame(rows)


def _asked(
    found: Decision, told: Floats, below: NDArray[np.bool_]
) -> Iterator[tuple[str, float, bool, NDArray[np.str_]]]:
    """Yield kind, share, whether it could be guaranteed, and the verdicts."""

    def wished(wish: DecisionPolicy) -> NDArray[np.str_]:
        cuts = cuts_for(found.promise, found.threshold, wish)
        return verdicts(cuts, told, below, beneath=wish.beneath)

    yield "chosen", 0.0, True, verdicts(found.cuts, told, below, beneath=found.wish.beneath)
    for one in found.promise.missed:
        yield "missed", one.share, one.cut is not None, wished(DecisionPolicy(missed=one.share))
    for one in found.promise.false_alarms:
        yield "false_alarms", one.share, one.cut is not None, wished(DecisionPolicy(false_alarms=one.share))
    for share, cuts in zip(SENT, found.sending, strict=True):
        yield "sent", share, True, verdicts(cuts, told, below, beneath=False)


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
    """Return the entries of metrics.json on each model's probabilities and guarantees in one split."""
    told = verdicts[(verdicts["split"] == split) & (verdicts["kind"] == "model")]
    counts = counted[counted["split"] == split].groupby("entry", sort=True)
    return {str(entry): _summary(told[told["entry"] == entry], rows) for entry, rows in counts}


def _summary(verdicts: pd.DataFrame, counted: pd.DataFrame) -> dict[str, Any]:
    failed = (verdicts["status"] == "fail").to_numpy(np.int64)
    error = calibration_error(failed, verdicts["probability"].to_numpy(np.float64))
    kinds = {str(kind): rates(rows).to_dict("records") for kind, rows in counted.groupby("kind", sort=True)}
    return {"calibration_error": round(error, DIGITS), **kinds}


def sent(promises: dict[str, Any]) -> pd.DataFrame:
    """Return the data of DVC's plot: one row per model and review rate."""
    return pd.concat(
        [pd.DataFrame(one["sent"]).assign(entry=entry) for entry, one in promises.items()], ignore_index=True
    )[["entry", "unsure", "missed", "false_alarms"]]


def rates(counted: pd.DataFrame) -> pd.DataFrame:
    """Pool the folds of one entry and kind: one row per share, with rates instead of counts.

    ``share``; ``folds``, ``made`` (number of folds where it could be guaranteed) and ``held`` (in how many of
    these it held); ``missed``, a share of the fails, ``false_alarms``, of the passes, and ``unsure``, of all
    cases.
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
