"""Scores of verdicts: the rates of both kinds of error, per fold and pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def half_width(misses: NDArray[np.float64], confidence: float) -> float:
    """Return the half width of intervals (split conformal: Vovk and others 2005, Lei and others 2018).

    It is the k-th smallest absolute value of the n out-of-fold errors `misses`, shape (n,), in their unit,
    with k = ceil((n + 1) confidence), or the largest if k > n; `confidence`, above 0, is the nominal coverage
    of the intervals. IndexError without errors.
    """
    rank = int(np.ceil((len(misses) + 1) * confidence))
    return float(np.sort(np.abs(misses))[min(rank, len(misses)) - 1])


#: Digits kept in metrics.json.
DIGITS = 6
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Measures of one set of verdicts; ``fail`` is the positive class."""

    balanced_accuracy: float  # mean of the shares of fails and of passes that are judged correctly
    false_negative_rate: float  # share of the fails that are missed
    false_positive_rate: float  # share of the passes that raise a false alarm
    #: precision, recall, f1, accuracy: precision is 0 where nothing is judged to fail.
    precision: float
    recall: float
    f1: float
    accuracy: float
    #: Of the ranking by probability; None for entries without one, such as rules.
    average_precision: float | None


METRICS = tuple(Scores.__dataclass_fields__)
#: The metric that needs a common scale of probabilities.
RANKED = "average_precision"


def score_verdicts(
    failed: NDArray[np.bool_], judged: NDArray[np.bool_], probability: NDArray[np.float64] | None
) -> Scores:
    """Return the scores of verdicts; `failed` are the labels, `judged` the verdicts, True is fail.

    `probability` is that of fail, or None. All have shape (n,); ZeroDivisionError unless both labels occur.
    """
    caught = int((failed & judged).sum())
    alarms = int((~failed & judged).sum())
    fails, passes = int(failed.sum()), int((~failed).sum())
    recall, spared = caught / fails, 1 - alarms / passes
    ranking = None if probability is None else average_precision(failed, probability)
    precision = caught / (caught + alarms) if caught + alarms else 0.0
    return Scores(
        balanced_accuracy=(recall + spared) / 2,
        false_negative_rate=1 - recall,
        false_positive_rate=1 - spared,
        precision=precision,
        recall=recall,
        f1=2 * caught / (2 * caught + alarms + fails - caught),
        accuracy=float((failed == judged).mean()),
        average_precision=ranking,
    )


def average_precision(failed: NDArray[Any], probability: Floats, weights: Floats | None = None) -> float:
    """Return the average precision of a ranking by `probability`; `failed` is true, or 1, for a fail.

    Equal to scikit-learn's, and faster for few rows. All arrays have shape (n_rows,), no value may be NaN,
    and one fail at least must have a weight above 0. `weights` None: all 1.
    """
    weights = np.ones(len(failed)) if weights is None else weights
    order = np.argsort(-probability, kind="stable")
    order = order[weights[order] > 0]
    last = np.append(np.flatnonzero(np.diff(probability[order])), len(order) - 1)
    caught = np.cumsum(weights[order] * failed[order])[last]
    precision = caught / np.cumsum(weights[order])[last]
    # in the order in which scikit-learn adds, so that results are equal to the last bit
    recall = np.append((caught / caught[-1])[::-1], 0.0)
    return max(0.0, float(-np.sum(np.diff(recall) * precision[::-1].copy())))


def fail_flags(verdicts: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where the label (``status``) is fail, and where the ``verdict`` is; both shape (n_rows,)."""
    return (verdicts["status"] == "fail").to_numpy(bool), (verdicts["verdict"] == "fail").to_numpy(bool)


def score_rows(verdicts: pd.DataFrame) -> Scores:
    """Return the `Scores` of rows of one entry of oof.parquet: balanced accuracy, error rates and others.

    The rows have ``status`` (the label), ``verdict`` and ``probability``; any verdict except ``fail`` counts
    as pass. ZeroDivisionError unless both labels occur. Average precision is None if a probability is
    missing.
    """
    ranked = verdicts["probability"].notna().all()
    probability = verdicts["probability"].to_numpy(np.float64) if ranked else None
    return score_verdicts(*fail_flags(verdicts), probability)


def summarise_entry(verdicts: pd.DataFrame) -> dict[str, Any]:
    """Return the ``kind`` of one entry in one split, and by metric a dict ``mean, std, pooled``.

    The metrics are those of `Scores`. ``mean`` and ``std`` (of the population) are over the folds of all
    repeats; ``pooled`` is the metric of all rows together. Average precision is not pooled (None), because
    the probabilities of the folds' models are on different scales; its ``mean, std`` are None, too, if a
    probability is missing. `verdicts` are the rows of oof.parquet of this entry and split; ZeroDivisionError
    unless both labels occur in every fold.
    """
    folds = [score_rows(rows) for _, rows in verdicts.groupby(["repeat", "fold"], sort=True)]
    pooled = score_rows(verdicts)
    content: dict[str, Any] = {"kind": str(verdicts["kind"].iloc[0])}
    for metric in METRICS:
        values = [getattr(fold, metric) for fold in folds]
        complete = None not in values
        whole = getattr(pooled, metric) if complete and metric != RANKED else None
        content[metric] = summarise_folds(values if complete else [], whole)
    return content


def summarise_folds(folds: Sequence[float] | Floats, pooled: float | None) -> dict[str, float | None]:
    """Return the ``mean`` and population ``std`` over `folds` and the ``pooled`` value, to 6 decimals.

    `folds` has shape (n_folds,) and the unit of `pooled`. ``mean`` and ``std`` are None without folds, or if
    a fold is NaN; ``pooled`` is None if it is NaN or None.
    """
    mean, std = (np.mean(folds), np.std(folds)) if len(folds) else (np.nan, np.nan)

    def rounded(value: Any) -> float | None:
        return None if value is None or np.isnan(value) else round(float(value), DIGITS)

    return {"mean": rounded(mean), "std": rounded(std), "pooled": rounded(pooled)}


def precision_by_recall(verdicts: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the recalls, ascending to 1, and the mean over the folds of the precision at each recall.

    `verdicts` are rows of oof.parquet of one entry in one split; folds without fails are ignored; ValueError
    if all are, or a probability is missing. A fold's precision at a recall that it does not reach exactly is
    the one at its next larger recall. The area below is the mean of the folds' average precision. Both
    results have shape (n_recalls,), from 0 to 1.
    """
    folds = (rows for _, rows in verdicts.groupby(["repeat", "fold"]))
    steps = [_precision_steps(rows) for rows in folds if (rows["status"] == "fail").any()]
    recall = np.unique(np.concatenate([reached for reached, _ in steps]))
    at_recall = [precision[np.searchsorted(reached, recall)] for reached, precision in steps]
    return recall, np.mean(at_recall, axis=0)


def _precision_steps(fold: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the recalls above 0 of one fold, ascending, and the precision where each is first reached."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(fold["status"] == "fail", fold["probability"])
    # the last point belongs to no threshold
    reached, first = np.unique(recall[-2::-1], return_index=True)
    above = reached > 0
    return reached[above], precision[-2::-1][first[above]]


def summarise_entries(verdicts: pd.DataFrame, split: str) -> dict[str, Any]:
    """Return, by entry of `verdicts` in `split`, its ``kind``, and by metric a dict ``mean, std, pooled``.

    `verdicts` are rows of oof.parquet. Entries are sorted; each is as `summarise_entry` returns it. The
    result is empty if the split has no rows; ZeroDivisionError unless each entry has both labels in every
    fold.
    """
    by_entry = verdicts[verdicts["split"] == split].groupby("entry", sort=True)
    return {str(entry): summarise_entry(rows) for entry, rows in by_entry}


def rank_models(summaries: dict[str, Any]) -> list[str]:
    """Return the models by pooled balanced accuracy, mean average precision (both highest first), and name.

    `summaries` is the result of `summarise_entries`; entries of other kinds, such as rules, are left out.
    TypeError if a model has no average precision.
    """

    def rank(name: str) -> tuple[float, float, str]:
        entry = summaries[name]
        return -entry["balanced_accuracy"]["pooled"], -entry[RANKED]["mean"], name

    return sorted((name for name, entry in summaries.items() if entry["kind"] == "model"), key=rank)


def confusion_counts(failed: NDArray[np.bool_], judged: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return counts, shape (2, 2): rows are labels, columns verdicts, each pass (False), then fail (True)."""
    return np.bincount(2 * failed + judged, minlength=4).reshape(2, 2)


def as_dict(score: Scores) -> dict[str, float]:
    """Return the scores that have a value, by name; ``average_precision`` may be missing."""
    return {name: value for name, value in asdict(score).items() if value is not None}
