"""The steps from a model's probability to the verdict, shared by evaluation, promotion and serving."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Decide
from data.errors import InputError
from data.tables.files import replacing
from data.tables.specs import read_table
from training.comparisons.family import Examples, Family, FeatureTable
from training.estimators.answering import CalibrationMap, Floats
from training.evaluation.calibration import calibration_error, learn_calibration
from training.evaluation.metrics import DIGITS
from training.evaluation.search import SearchOutcome
from training.evaluation.thresholds import (
    GUARANTEE,
    SHARES,
    DecisionPolicy,
    DecisionThresholds,
    GuaranteedRate,
    OrdinaryCases,
    RiskGuarantee,
    ScoredCases,
    VerdictCosts,
    below_min_effect,
    discount_below,
    guarantee_rates,
    limit_reviews,
    thresholds_for,
    verdicts_with_minimum,
)


def examples_of(family: Family, table: FeatureTable) -> Examples:
    """Return vectors ``x``, labels ``y`` and ``groups`` of `table`, and in ``bare`` those without history.

    `bare` has the same rows in the same order. The field `below` flags rows where no median worsened by at
    least the family's minimum effect size: by changes with history, in `bare` by those without. A row of
    unknown change is not flagged, and no row is if the minimum is 0. InputError if a file of the stage
    featurize is missing, or has other comparisons than `table` or another order of them.
    """
    min_effect_size, path = family.section.decide.min_effect_size or 0.0, family.stage_file("bare")
    bare = FeatureTable.read(path, table.columns).examples
    without = replace(bare, below=below_min_effect(read_changes(path, table), min_effect_size))
    below = below_min_effect(read_changes(family.stage_file("changes"), table), min_effect_size)
    return replace(table.examples, below=below, bare=without)


def read_changes(path: Path, table: FeatureTable) -> Floats:
    """Return the change of the median that worsened most in each comparison of `table`, from a Parquet file.

    It is the column ``worst_change`` of a file of the stage featurize, shape (n_comparisons,): the smallest
    change over the configurations, as a share of the baseline's median. Negative is worse; a change for the
    worse within between-run variation counts as 0; NaN is unknown. InputError if the file or the column is
    missing, or the comparisons or their order differ from those of the table.
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
class Decision:
    """The steps from a model's probability to the verdict."""

    calibration: CalibrationMap  # learned from rows not below the minimum effect size
    beneath: float  # factor of probabilities below the minimum effect size, where models don't learn
    threshold: float  # calibrated probability; ``fail`` is the better guess from there on
    guarantee: RiskGuarantee
    policy: DecisionPolicy
    cuts: DecisionThresholds
    sending: tuple[DecisionThresholds, ...]  # the thresholds for each review rate of `SENT`

    def calibrate_and_discount(self, probability: Floats, below: NDArray[np.bool_]) -> Floats:
        """Return calibrated probabilities, multiplied by `beneath` where `below`; shape (n_rows,)."""
        return discount_below(self.calibration.map_probability(probability), below, self.beneath)


def learn_decision(
    examples: Examples, probability: Floats, threshold: float, how: Decide, seed: int
) -> Decision:
    """Return calibration, thresholds and risk guarantees of a model, learned from out-of-fold predictions.

    `probability`, shape (n_rows,), are predictions for the training rows `examples`, not calibrated. From
    `threshold` on, also not calibrated, ``fail`` is the better guess. `how` has the limits on error and
    review rates, or costs, that set the thresholds ``cuts``. If a limit on false negatives (positives) cannot
    be guaranteed, ``pass`` (``fail``) is never given. A limit on false positives sets ``cuts.high`` even with
    one on reviews. `seed` is that of random splits. The calibration is not trained by rows below the minimum
    effect size, unless all are.
    """
    y, groups, below = examples.y, examples.groups, ~examples.needs_model
    used = np.full(len(below), True) if below.all() else ~below
    calibration = learn_calibration(y[used], probability[used], groups[used])
    # the fails below the minimum effect size, over the expected ones
    expected = calibration.map_probability(probability[below]).sum()
    beneath = min(1.0, float((y[below].sum() + 1) / (expected + 1)))
    adjusted = discount_below(calibration.map_probability(probability), below, beneath)
    costs = None if how.costs is None else VerdictCosts(**how.costs.model_dump())
    limits = how.max_false_negative_rate, how.max_false_positive_rate, how.max_review_rate
    policy = DecisionPolicy(*limits, costs)
    cut, guarantee = float(calibration.map_probability(threshold)), _guarantee(examples, adjusted, how, seed)
    usual = OrdinaryCases(np.where(below, 0.0, adjusted), groups)
    sending = tuple(limit_reviews(cut, usual, share, cheapest=0.0) for share in SENT)
    cuts = thresholds_for(guarantee, cut, policy, usual)
    return Decision(calibration, beneath, cut, guarantee, policy, cuts, sending)


def _guarantee(examples: Examples, adjusted: Floats, how: Decide, seed: int) -> RiskGuarantee:
    """Return the thresholds that guarantee limits on either error rate, at the confidence of `how`.

    Limits are 0.5, 1, 2, 5, 10 and 20 %, and those that `how` requests, ascending: on false negatives, if
    ``pass`` is given below the threshold; on false positives, if ``fail`` is given from it on. `adjusted`,
    shape (n_rows,), are calibrated probabilities; rows below the minimum effect size never fail.
    """
    fails, groups = examples.y == 1, examples.groups

    def guaranteed(scores: Floats, protected: NDArray[np.bool_], limit: float | None) -> list[GuaranteedRate]:
        shares = sorted({*SHARES, *([] if limit is None else [limit])})
        return guarantee_rates(ScoredCases(scores, protected, groups), shares, how.confidence, seed)

    misses = guaranteed(adjusted, fails, how.max_false_negative_rate)
    passing = np.where(examples.needs_model, 1 - adjusted, 1.0)
    alarms = guaranteed(passing, examples.y == 0, how.max_false_positive_rate)
    opposite = tuple(level.for_opposite_class() for level in alarms)
    n_fails, n_groups = int(fails.sum()), len(np.unique(groups[fails]))
    return RiskGuarantee(how.confidence, n_fails, n_groups, tuple(misses), opposite, GUARANTEE)


def write_out_of_fold(directory: Path, results: Iterable[SearchOutcome[Any]]) -> None:
    """Write held.npz to `directory`: an array of out-of-fold probabilities per search.

    The array of a search is named "<part> <model>". The directory is created if missing; an existing file is
    replaced.
    """
    with replacing(directory / OUT_OF_FOLD_FILE) as path, path.open("wb") as file:
        arrays: dict[str, Any] = {f"{result.part} {result.model}": result.out_of_fold for result in results}
        np.savez_compressed(file, **arrays)


def read_out_of_fold(directory: Path, cells: Iterable[tuple[str, str]]) -> list[Floats]:
    """Return the out-of-fold probabilities of each (part, model) in `cells`, in their order.

    They are those that `write_out_of_fold` wrote to held.npz in `directory`; each has shape
    (n_training_rows,), which is not checked. InputError if the file is missing, unreadable or damaged, or
    has no such entry.
    """
    path = directory / OUT_OF_FOLD_FILE
    try:
        # numpy leaves damaged files open that it has opened itself
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return [archive[f"{part} {model}"] for part, model in cells]
    except FileNotFoundError as exc:
        raise InputError("no such file; run tune first", file=path) from exc
    except KeyError as exc:
        raise InputError(f"{exc}; run tune first", file=path) from exc
    except (BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error) as exc:
        raise InputError("is damaged or unreadable; run tune again", file=path) from exc


#: Columns of counts; one row per fold, entry, kind and share.
COUNTED = ("cases", "fails", "false_negatives", "passes", "false_positives", "unsure")


def count_outcomes(
    learned: Decision, y: NDArray[np.int64], adjusted: Floats, below: NDArray[np.bool_]
) -> pd.DataFrame:
    """Return the numbers of wrong verdicts and of ``unsure`` among a fold's test rows, per set of thresholds.

    `y` are the labels, 1 is fail; `adjusted` the calibrated probabilities; `below` flags rows below the
    minimum effect size; all of shape (n_rows,). Columns: ``kind, share, made, cases, fails, false_negatives,
    passes, false_positives, unsure``; an ``unsure`` row is not wrong. Kinds, in this order: "chosen" (the
    thresholds in use; ``share`` 0), "max_false_negative_rate" and "max_false_positive_rate" (a row per rate,
    the ``share``; ``made`` is whether a threshold guarantees it, else ``pass``, or ``fail``, is not given)
    and "sent" (``share``: the limit on ``unsure``). ``made`` is True for other kinds; shares ascend within a
    kind.
    """
    guarantee, threshold = learned.guarantee, learned.threshold
    cells = [("chosen", 0.0, True, learned.cuts, learned.policy.allows_unsure_below)]
    for kind in ("max_false_negative_rate", "max_false_positive_rate"):
        for level in getattr(guarantee, kind):
            policy = DecisionPolicy(**{kind: level.share})
            cuts = thresholds_for(guarantee, threshold, policy)
            cells.append((kind, level.share, level.cut is not None, cuts, policy.allows_unsure_below))
    cells += [("sent", share, True, cuts, False) for share, cuts in zip(SENT, learned.sending, strict=True)]
    failed, rows = y == 1, []
    for kind, share, made, cuts, beneath in cells:
        verdict = verdicts_with_minimum(cuts, adjusted, below, unsure_below=beneath)
        misses, alarms = failed & (verdict == "pass"), ~failed & (verdict == "fail")
        sums = (int(flags.sum()) for flags in (failed, misses, ~failed, alarms, verdict == "unsure"))
        counts = dict(zip(COUNTED, (len(y), *sums), strict=True))
        rows.append({"kind": kind, "share": share, "made": made, **counts})
    return pd.DataFrame(rows)


def summarise_split(verdicts: pd.DataFrame, counted: pd.DataFrame, split: str) -> dict[str, Any]:
    """Return, for each model, its calibration error and its error rates by kind and limit in one split.

    `verdicts` are the rows of oof.parquet, `counted` those of `count_outcomes` with ``split, entry``. The
    result has, by model, sorted by name, a dict of ``calibration_error`` (6 decimals) and, for each ``kind``
    in `counted`, a list of dicts, the rows of `pool_rates`. It is empty if `counted` has no row of `split`.
    """
    summary: dict[str, Any] = {}
    for entry, counts in counted[counted["split"] == split].groupby("entry", sort=True):
        rows = verdicts[(verdicts["split"] == split) & (verdicts["entry"] == entry)]
        failed = (rows["status"] == "fail").to_numpy(np.int64)
        error = calibration_error(failed, rows["probability"].to_numpy(np.float64))
        by_kind = counts.groupby("kind", sort=True)
        rates = {str(kind): pool_rates(part).to_dict("records") for kind, part in by_kind}
        summary[str(entry)] = {"calibration_error": round(error, DIGITS), **rates}
    return summary


def review_curve(by_entry: dict[str, Any]) -> pd.DataFrame:
    """Return ``entry, unsure, false_negative_rate, false_positive_rate``, a row per model and review limit.

    `by_entry` is a result of `summarise_split`: of each model, in its order, the list ``sent`` is added to
    the table. ``unsure`` is the share of all cases that were ``unsure``, not the limit. The rates are shares
    of all fails with the verdict ``pass``, and of all passes with ``fail``. ValueError if `by_entry` is
    empty.
    """
    tables = [pd.DataFrame(rows["sent"]).assign(entry=entry) for entry, rows in by_entry.items()]
    columns = ["entry", "unsure", "false_negative_rate", "false_positive_rate"]
    return pd.concat(tables, ignore_index=True)[columns]


def pool_rates(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the error rates over all folds of one entry and kind, one row per limit, ascending.

    Columns: ``share``, the limit; ``folds``, their number; ``made``, the number of folds where the limit
    could be guaranteed; ``n_kept``, the number of these where the rate of false positives (for the kind
    "max_false_positive_rate"), else of false negatives, exists and was at most the limit;
    ``false_negative_rate``, a share of the fails, ``false_positive_rate``, of the passes, and ``unsure``, of
    all cases, with 6 decimals, NaN without cases. `counted` are rows of `count_outcomes`.
    """
    wrong = counted["false_negatives"] / counted["fails"]
    if (counted["kind"] == "max_false_positive_rate").any():
        wrong = counted["false_positives"] / counted["passes"]
    within = counted["made"] & (wrong <= counted["share"])
    shares = counted.assign(n_kept=within, folds=1).groupby("share", sort=True)
    sums = shares[[*COUNTED, "folds", "made", "n_kept"]].sum().reset_index()
    parts = {
        "false_negative_rate": ("false_negatives", "fails"),
        "false_positive_rate": ("false_positives", "passes"),
        "unsure": ("unsure", "cases"),
    }
    pooled = {name: (sums[count] / sums[whole]).round(DIGITS) for name, (count, whole) in parts.items()}
    return sums[["share", "folds", "made", "n_kept"]].assign(**pooled)
