"""The steps from a model's probability to the verdict, shared by evaluation, promotion and serving."""

from __future__ import annotations

from collections.abc import Iterable
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
    floor, path = family.section.decide.floor or 0.0, family.featurized("bare")
    bare = FeatureTable.read(path, table.columns).examples
    without = replace(bare, below=below_floor(read_changes(path, table), floor))
    below = below_floor(read_changes(family.featurized("changes"), table), floor)
    return replace(table.examples, below=below, bare=without)


def read_changes(path: Path, table: FeatureTable) -> Floats:
    """Read the ``worst_change`` of each comparison of `table` from a file of the stage featurize.

    The result has shape (n_comparisons,). Raises InputError if the file has other comparisons.
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
    threshold: float  # calibrated probability; ``fail`` is the better guess from there on
    promise: RiskGuarantee
    wish: DecisionPolicy
    cuts: DecisionThresholds
    sending: tuple[DecisionThresholds, ...]  # the thresholds for each review rate of `SENT`

    def told(self, probability: Floats, below: NDArray[np.bool_]) -> Floats:
        """Return calibrated probabilities, multiplied by `beneath` below the minimum effect size."""
        return discounted(self.calibration.of(probability), below, self.beneath)


def decision(inner: HeldRows, threshold: float, how: Decide, seed: int) -> Decision:
    """Learn the steps from probability to verdict from out-of-fold predictions."""
    below, above = inner.below, ~inner.below
    calibration = calibrated(inner.y[above], inner.probability[above], inner.groups[above])
    # the fails below the minimum effect size, over the expected ones
    expected = calibration.of(inner.probability[below]).sum()
    beneath = min(1.0, float((inner.y[below].sum() + 1) / (expected + 1)))
    adjusted = discounted(calibration.of(inner.probability), below, beneath)
    costs = None if how.costs is None else VerdictCosts(**how.costs.model_dump())
    wish = DecisionPolicy(how.missed, how.false_alarms, how.looks, costs)
    cut, promise = float(calibration.of(threshold)), promised(inner, adjusted, how, seed)
    usual = Usual(np.where(below, 0.0, adjusted), inner.groups)
    sending = tuple(looking(cut, usual, share, Limits(cheapest=0.0)) for share in SENT)
    return Decision(calibration, beneath, cut, promise, wish, cuts_for(promise, cut, wish, usual), sending)


def promised(inner: HeldRows, adjusted: Floats, how: Decide, seed: int) -> RiskGuarantee:
    """Return the guarantees for the calibrated probabilities `adjusted` of the rows `inner`."""
    fails, passes = inner.y == 1, inner.y == 0
    missed = kept(Scored(adjusted, fails, inner.groups), _shares(how.missed), how.confidence, seed)
    # nothing fails below the minimum effect size
    spared = Scored(np.where(inner.below, 1.0, 1 - adjusted), passes, inner.groups)
    turned = kept(spared, _shares(how.false_alarms), how.confidence, seed)
    return RiskGuarantee(
        how.confidence,
        int(fails.sum()),
        len(np.unique(inner.groups[fails])),
        tuple(missed),
        tuple(level.turned() for level in turned),
        GUARANTEE,
    )


def _shares(wished: float | None) -> list[float]:
    return sorted({*SHARES, *([] if wished is None else [wished])})


def write_held(directory: Path, predicted: Iterable[tuple[str, str, Floats]]) -> None:
    """Write out-of-fold probabilities; `predicted` has part, model and the probabilities of training rows."""
    with replacing(directory / OUT_OF_FOLD_FILE) as path, path.open("wb") as file:
        arrays: dict[str, Any] = {f"{part} {model}": probability for part, model, probability in predicted}
        np.savez_compressed(file, **arrays)


def read_held(directory: Path, cells: Iterable[tuple[str, str]]) -> list[Floats]:
    """Return the out-of-fold probabilities of each part and model in `cells`."""
    path = directory / OUT_OF_FOLD_FILE
    try:
        with np.load(path, allow_pickle=False) as archive:
            return [archive[f"{part} {model}"] for part, model in cells]
    except OSError as exc:
        raise InputError("no such file; run tune first", file=path) from exc
    except KeyError as exc:
        raise InputError(f"{exc}; run tune first", file=path) from exc


#: Columns of counts; one row per fold, entry, kind and share.
COUNTED = ("cases", "fails", "missed", "passes", "false_alarms", "unsure")


def outcomes(
    learned: Decision, y: NDArray[np.int64], adjusted: Floats, below: NDArray[np.bool_]
) -> pd.DataFrame:
    """Count the verdicts that each threshold gives for the test rows of a fold.

    `y` are the labels, 1 is fail; `adjusted` the calibrated probabilities; `below` flags rows below the
    minimum effect size; all of shape (n_rows,). Columns: ``kind`` ("chosen", "missed", "false_alarms" or
    "sent"), ``share`` (the requested limit), ``made`` (whether it could be guaranteed) and `COUNTED`.
    """
    promise, threshold = learned.promise, learned.threshold
    cells = [("chosen", 0.0, True, learned.cuts, learned.wish.beneath)]
    for level in promise.missed:
        wish = DecisionPolicy(missed=level.share)
        cells.append(("missed", level.share, level.cut is not None, cuts_for(promise, threshold, wish), True))
    for level in promise.false_alarms:
        wish = DecisionPolicy(false_alarms=level.share)
        cells.append(
            ("false_alarms", level.share, level.cut is not None, cuts_for(promise, threshold, wish), False)
        )
    cells += [("sent", share, True, cuts, False) for share, cuts in zip(SENT, learned.sending, strict=True)]
    failed, rows = y == 1, []
    for kind, share, made, cuts, beneath in cells:
        verdict = verdicts(cuts, adjusted, below, beneath=beneath)
        counts = (
            len(y),
            failed.sum(),
            (failed & (verdict == "pass")).sum(),
            (~failed).sum(),
            (~failed & (verdict == "fail")).sum(),
            (verdict == "unsure").sum(),
        )
        counted = zip(COUNTED, map(int, counts), strict=True)
        rows.append({"kind": kind, "share": share, "made": made, **dict(counted)})
    return pd.DataFrame(rows)


def summaries(verdicts: pd.DataFrame, counted: pd.DataFrame, split: str) -> dict[str, Any]:
    """Return the entries of metrics.json on each model's probabilities and guarantees in one split."""
    summary: dict[str, Any] = {}
    for entry, counts in counted[counted["split"] == split].groupby("entry", sort=True):
        rows = verdicts[
            (verdicts["split"] == split) & (verdicts["kind"] == "model") & (verdicts["entry"] == entry)
        ]
        failed = (rows["status"] == "fail").to_numpy(np.int64)
        error = calibration_error(failed, rows["probability"].to_numpy(np.float64))
        kinds = {
            str(kind): rates(part).to_dict("records") for kind, part in counts.groupby("kind", sort=True)
        }
        summary[str(entry)] = {"calibration_error": round(error, DIGITS), **kinds}
    return summary


def sent(promises: dict[str, Any]) -> pd.DataFrame:
    """Return the data of DVC's plot: one row per model and review rate."""
    tables = [pd.DataFrame(rows["sent"]).assign(entry=entry) for entry, rows in promises.items()]
    return pd.concat(tables, ignore_index=True)[["entry", "unsure", "missed", "false_alarms"]]


def rates(counted: pd.DataFrame) -> pd.DataFrame:
    """Pool the folds of one entry and kind: one row per share, with rates instead of counts.

    ``share``; ``folds``, ``made`` (number of folds where it could be guaranteed) and ``held`` (in how many of
    these it held); ``missed``, a share of the fails, ``false_alarms``, of the passes, and ``unsure``, of all
    cases.
    """
    wrong = counted["missed"] / counted["fails"]
    if (counted["kind"] == "false_alarms").any():
        wrong = counted["false_alarms"] / counted["passes"]
    within = counted["made"] & (wrong <= counted["share"])
    shares = counted.assign(held=within, folds=1).groupby("share", sort=True)
    sums = shares[[*COUNTED, "folds", "made", "held"]].sum().reset_index()
    parts = {"missed": "fails", "false_alarms": "passes", "unsure": "cases"}
    pooled = {name: (sums[name] / sums[whole]).round(DIGITS) for name, whole in parts.items()}
    return sums[["share", "folds", "made", "held"]].assign(**pooled)
