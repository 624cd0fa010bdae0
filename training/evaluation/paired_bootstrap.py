"""Two models on the same out-of-fold cases: the difference of their scores, and flipped verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.params import Promote
from training.evaluation.metrics import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Difference:
    """A difference of scores, candidate - champion, with a bootstrap interval; negative is worse.

    For verdicts it is that of balanced accuracy, for predictions champion - candidate of the mean relative
    error. Differences of error rates, where positive is worse, have the same form.
    """

    observed: float
    low: float
    high: float
    confidence: float

    @property
    def is_worse(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0

    @property
    def is_better(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0


@dataclass(frozen=True)
class BootstrapSettings:
    """Parameters of the bootstrap of whole groups."""

    n_bootstrap: int = 2000
    confidence: float = 0.95
    seed: int = 0

    @classmethod
    def from_params(cls, how: Promote, seed: int) -> Self:
        """Return the settings of a family's champion/challenger test."""
        return cls(how.n_bootstrap, how.confidence, seed)


def paired_difference(
    failed: Flags, candidate: Flags, present: Flags, groups: NDArray[np.str_], how: BootstrapSettings
) -> Difference:
    """Return the candidate's balanced accuracy minus the champion's, with a percentile interval.

    Whole `groups`, shape (n_rows,), are drawn with replacement. Both models are scored on the same draws;
    draws with only one label are left out (IndexError if all are). `failed` are the labels, `candidate` and
    `present` the verdicts of the candidate and of the champion, all of shape (n_rows,), True is fail.
    """
    gains = candidate.astype(np.float64) - present
    columns = np.stack([failed, failed * gains, ~failed, -(~failed * gains)])
    sums, draws = _draw_groups(columns, groups, how)
    usable = draws[(draws[:, 0] > 0) & (draws[:, 2] > 0)]
    return _with_interval(float(_accuracy_difference(sums)), _accuracy_difference(usable), how)


def _accuracy_difference(sums: Floats) -> Floats:
    """Return the difference; last axis: fails, more fails caught, passes, more passes spared."""
    return np.asarray((sums[..., 1] / sums[..., 0] + sums[..., 3] / sums[..., 2]) / 2, np.float64)


def paired_gain(
    candidate: Floats, present: Floats, groups: NDArray[np.str_], how: BootstrapSettings
) -> Difference:
    """Return the champion's mean error minus the candidate's, with a percentile interval.

    `candidate` and `present` (the champion's), shape (n_rows,), at least one row, are sizes of relative
    errors on the same rows; whole `groups` are drawn with replacement. Positive: the candidate is better.
    """
    columns = np.stack([present - candidate, np.ones(len(present))])
    _, draws = _draw_groups(columns, groups, how)
    return _with_interval(float((present - candidate).mean()), draws[:, 0] / draws[:, 1], how)


def _draw_groups(columns: Floats, groups: NDArray[np.str_], how: BootstrapSettings) -> tuple[Floats, Floats]:
    """Return each column's sum over all rows, and over the rows of groups drawn with replacement."""
    _, group = np.unique(groups, return_inverse=True)
    totals = np.stack([np.bincount(group, weights=column) for column in columns], axis=1)
    size = len(totals)
    draws = np.random.default_rng(how.seed).multinomial(size, np.full(size, 1 / size), size=how.n_bootstrap)
    return totals.sum(axis=0), np.asarray(draws @ totals, np.float64)


def _with_interval(observed: float, drawn: Floats, how: BootstrapSettings) -> Difference:
    tail = (1 - how.confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Difference(observed, float(low), float(high), how.confidence)


#: Columns that stored predictions may not have; then the other entry's are used.
_SHARED = ("status", "measured", "group", "words")
_KNOWN = (*_SHARED, "fold", "verdict", "probability", "threshold", "predicted")


@dataclass(frozen=True)
class OutOfFoldPredictions:
    """The out-of-fold predictions of one entry."""

    what: str  # the subject of the predictions, in a word or two
    entry: str  # the model's or rule's name
    #: ``case`` (unique) and, as far as known, ``group, fold``; of verdicts ``verdict, status, probability,
    #: threshold``, of numbers ``measured, predicted``; ``words``, a further description of the case.
    rows: pd.DataFrame
    tolerance: float | None = None  # largest relative error of a correct prediction; None: verdicts


def by_entry(
    what: str, rows: pd.DataFrame, champion: str, tolerance: float | None = None, column: str = "entry"
) -> list[OutOfFoldPredictions]:
    """Return the predictions of each value of `column`, an entry; `champion` first, then the others by name.

    Without rows of the champion, only the others are returned; the list may be empty. `what` names the
    predicted quantity in messages. `tolerance` is the largest relative error of a correct number, None for
    verdicts.
    """
    names = sorted(rows[column].unique(), key=lambda name: (name != champion, name))
    return [OutOfFoldPredictions(what, str(name), rows[rows[column] == name], tolerance) for name in names]


@dataclass(frozen=True)
class ScoreChange:
    """One score of both on the same cases; `difference` is after minus before."""

    score: str
    before: float
    after: float
    difference: Difference
    lower_is_better: bool

    @property
    def direction(self) -> str:
        """Whether the score is better, worse, equal, or not distinguishable as the interval contains zero."""
        low, high = self.difference.low, self.difference.high
        if low == high == 0:
            return "the same"
        if low <= 0 <= high:
            return "cannot be told apart"
        return "better" if (low > 0) != self.lower_is_better else "worse"


@dataclass(frozen=True)
class Statement:
    """One entry's verdict on a case, and its probability of fail or predicted number."""

    verdict: str
    value: float | None
    threshold: float | None


@dataclass(frozen=True)
class FlippedCase:
    """A case with two verdicts; `label` is the truth, `righted` says whether the later one is correct."""

    case: str
    label: str
    before: Statement
    after: Statement
    righted: bool
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryComparison:
    """Two entries compared on their common cases."""

    what: str  # the subject of the predictions
    #: before, after: names of the entries.
    before: str
    after: str
    #: common, only_before, only_after: numbers of cases.
    common: int
    only_before: int
    only_after: int
    relabelled: tuple[str, ...] = ()  # cases whose label changed; the present labels score both entries
    #: Common cases in another fold, so that training differed; None where folds are not known.
    other_folds: int | None = None
    scores: tuple[ScoreChange, ...] = ()
    flipped: tuple[FlippedCase, ...] = field(default=(), repr=False)  # those that became wrong first

    @property
    def is_unchanged(self) -> bool:
        """Whether the states have common cases, whose verdicts and scores are all equal."""
        scores_differ = any(change.direction != "the same" for change in self.scores)
        return self.common > 0 and not self.flipped and not scores_differ


def compare_entries(
    before: OutOfFoldPredictions, after: OutOfFoldPredictions, how: BootstrapSettings
) -> EntryComparison:
    """Return the ``scores``, their differences and the ``flipped`` verdicts of two entries on common cases.

    Both are scored by the labels of `after` (by those of `before` where missing); cases without a label are
    counted as ``only_before`` and ``only_after``, not as ``common``. Verdicts are scored by balanced accuracy
    and the rates of missed fails and of false alarms, each if the labels that it needs occur; scores count
    ``unsure`` as ``pass``, but a change between them is a flipped verdict. Numbers (`after` has a tolerance)
    are scored by mean relative error and the share outside the tolerance; their verdicts are "within" and
    "outside". Differences are after minus before, with a bootstrap interval. ``relabelled`` are cases whose
    label changed, ``other_folds`` is the number of cases in another fold (None if folds are not known).
    Flipped cases whose later verdict is wrong come first. Without a common case, scores and flipped cases are
    empty.
    """
    numbers = after.tolerance is not None
    truth = "measured" if numbers else "status"
    rows = _join_cases(before.rows, after.rows).dropna(subset=[truth])
    for side in ("_before", ""):
        if numbers:
            error = (rows[f"predicted{side}"] / rows["measured"] - 1).abs().astype("float64")
            rows[f"error{side}"], rows[f"wrong{side}"] = error, error > after.tolerance
            rows[f"verdict{side}"] = np.where(rows[f"wrong{side}"], "outside", "within")
        else:
            verdict = rows[f"verdict{side}"].to_numpy(np.str_)
            rows[f"verdict{side}"] = verdict
            rows[f"wrong{side}"] = (verdict == "fail") != (rows["status"] == "fail")
    names = after.what, before.entry, after.entry
    only = len(before.rows) - len(rows), len(after.rows) - len(rows)
    relabelled = tuple(rows["case"][rows[f"{truth}_before"] != rows[truth]])
    scores = tuple(_score_changes(rows, numbers, how)) if len(rows) else ()
    flipped = tuple(_flipped_cases(rows, "predicted" if numbers else "probability", truth))
    return EntryComparison(*names, len(rows), *only, relabelled, _count_regrouped(rows), scores, flipped)


def _join_cases(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the common cases; columns of `before` get the suffix ``_before``."""
    columns = ["case", *(sorted({*_KNOWN, *before, *after} - {"case"}))]
    sides = [side.reindex(columns=columns) for side in (before, after)]
    rows = sides[0].merge(sides[1], on="case", suffixes=("_before", ""))
    for column in _SHARED:
        old, new = rows[f"{column}_before"], rows[column]
        rows[f"{column}_before"], rows[column] = old.where(old.notna(), new), new.where(new.notna(), old)
    rows["group"] = rows["group"].where(rows["group"].notna(), rows["case"])
    return rows


def _count_regrouped(rows: pd.DataFrame) -> int | None:
    """Count the cases that are not in the fold that has most cases of their former fold."""
    both_folds = rows.dropna(subset=["fold_before", "fold"])
    if both_folds.empty:
        return None
    shares = pd.crosstab(both_folds["fold_before"], both_folds["fold"])
    return int(len(both_folds) - shares.max(axis="columns").sum())


def _score_changes(rows: pd.DataFrame, numbers: bool, how: BootstrapSettings) -> Iterator[ScoreChange]:
    if numbers:
        yield _mean_change("mean error", "error", rows, how)
        yield _mean_change("outside the tolerance", "wrong", rows, how)
        return
    failed = (rows["status"] == "fail").to_numpy(bool)
    if failed.any() and not failed.all():
        old, new = (rows[column].to_numpy(bool) for column in ("wrong_before", "wrong"))
        before, after = (1 - float(wrong[failed].mean() + wrong[~failed].mean()) / 2 for wrong in (old, new))
        groups = rows["group"].to_numpy(np.str_)
        difference = paired_difference(failed, failed != new, failed != old, groups, how)
        yield ScoreChange("balanced accuracy", before, after, difference, False)
    for name, flags in (("missed", failed), ("false alarms", ~failed)):
        if flags.any():
            yield _mean_change(name, "wrong", rows[flags], how)


def _mean_change(name: str, column: str, rows: pd.DataFrame, how: BootstrapSettings) -> ScoreChange:
    old, new = (rows[side].to_numpy(np.float64) for side in (f"{column}_before", column))
    gain = paired_gain(old, new, rows["group"].to_numpy(np.str_), how)
    return ScoreChange(name, float(old.mean()), float(new.mean()), gain, True)


def _flipped_cases(rows: pd.DataFrame, value: str, truth: str) -> Iterator[FlippedCase]:
    flipped = rows[rows["verdict_before"] != rows["verdict"]].to_dict("records")
    for row in sorted(flipped, key=lambda row: (not row["wrong"], str(row["case"]))):
        label = row[truth] if isinstance(row[truth], str) else f"{row[truth]:.4g}"
        before, after = (_statement(row, value, side) for side in ("_before", ""))
        words = () if pd.isna(row["words"]) or not row["words"] else (str(row["words"]),)
        yield FlippedCase(str(row["case"]), label, before, after, not row["wrong"], words)


def _statement(row: Mapping[str, Any], value: str, side: str) -> Statement:
    numbers = (row[f"{value}{side}"], row[f"threshold{side}"])
    number, threshold = (None if pd.isna(number) else float(number) for number in numbers)
    return Statement(str(row[f"verdict{side}"]), number, threshold)
