"""Two models on the same out-of-fold cases: the difference of their scores, and flipped verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How much better the candidate is than the champion, with a bootstrap interval; negative is worse.

    For verdicts it is the difference in balanced accuracy, for predictions in mean relative error.
    """

    observed: float
    low: float
    high: float
    confidence: float

    @property
    def worse(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def paired_difference(
    failed: Flags,
    candidate: Flags,
    present: Flags,
    groups: NDArray[np.str_],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Difference:
    """Estimate the difference in balanced accuracy, with an interval; positive: the candidate is better.

    Comparisons of one operation resemble each other, so whole groups are drawn with replacement. Both models
    are scored on the same draws.

    Parameters
    ----------
    failed : ndarray of bool, shape (n_rows,)
        The labels.
    candidate, present : ndarray of bool, shape (n_rows,)
        The verdicts of the candidate and of the champion.
    groups : ndarray of shape (n_rows,)
    resamples : int
        Number of draws. Draws without any fail or pass are left out.
    confidence : float
        Confidence level of the percentile interval, for example 0.95.
    """
    gains = candidate.astype(np.float64) - present
    columns = np.stack([failed, failed * gains, ~failed, -(~failed * gains)])
    sums, draws = _drawn(columns, groups, resamples, seed)
    usable = draws[(draws[:, 0] > 0) & (draws[:, 2] > 0)]
    return _found(float(_difference(sums)), _difference(usable), confidence)


def _difference(sums: Floats) -> Floats:
    """Return the difference; last axis: fails, more fails caught, passes, more passes spared."""
    return np.asarray((sums[..., 1] / sums[..., 0] + sums[..., 3] / sums[..., 2]) / 2, np.float64)


def paired_gain(
    candidate: Floats,
    present: Floats,
    groups: NDArray[np.str_],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Difference:
    """Estimate how much smaller the candidate's mean error is, with an interval.

    `candidate` and `present`, shape (n_rows,), are relative errors on the same rows; whole `groups` are
    drawn.
    """
    columns = np.stack([present - candidate, np.ones(len(present))])
    _, draws = _drawn(columns, groups, resamples, seed)
    return _found(float((present - candidate).mean()), draws[:, 0] / draws[:, 1], confidence)


def _drawn(columns: Floats, groups: NDArray[np.str_], resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return each column's sum over all rows, and over the rows of groups drawn with replacement."""
    _, group = np.unique(groups, return_inverse=True)
    totals = np.stack([np.bincount(group, weights=column) for column in columns], axis=1)
    size = len(totals)
    draws = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=resamples)
    return totals.sum(axis=0), np.asarray(draws @ totals, np.float64)


def _found(observed: float, drawn: Floats, confidence: float) -> Difference:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Difference(observed, float(low), float(high), confidence)


#: Columns that stored predictions may not have; then the other entry's are used.
_SHARED = ("status", "measured", "group", "words")
_KNOWN = (*_SHARED, "fold", "verdict", "probability", "threshold", "predicted")


@dataclass(frozen=True)
class OutOfFoldPredictions:
    """The out-of-fold predictions of one entry.

    Attributes
    ----------
    what : str
        The subject of the predictions, in a word or two.
    entry : str
        The model's or rule's name.
    rows : DataFrame
        ``case`` (unique) and, as far as known, ``group, fold``; of verdicts ``verdict, status, probability,
        threshold``, of numbers ``measured, predicted``; ``words``, a further description of the case.
    tolerance : float or None
        Largest relative error of a correct prediction; None: verdicts.
    """

    what: str
    entry: str
    rows: pd.DataFrame
    tolerance: float | None = None


def by_entry(
    what: str, rows: pd.DataFrame, champion: str, tolerance: float | None = None, column: str = "entry"
) -> list[OutOfFoldPredictions]:
    """Split rows by the entry named in `column`; the champion comes first, then the others by name."""
    names = sorted(rows[column].unique(), key=lambda name: (name != champion, name))
    return [OutOfFoldPredictions(what, str(name), rows[rows[column] == name], tolerance) for name in names]


@dataclass(frozen=True)
class Drawing:
    """Parameters of the bootstrap of whole groups."""

    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class ScoreChange:
    """One score of both on the same cases; `difference` is after minus before."""

    score: str
    before: float
    after: float
    difference: Difference
    lower_is_better: bool

    @property
    def found(self) -> str:
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
class Paired:
    """Two entries compared on their common cases.

    Attributes
    ----------
    what : str
        The subject of the predictions.
    common, only_before, only_after : int
        Numbers of cases.
    relabelled : tuple of str
        Cases whose label changed; both entries are scored by the present labels.
    other_folds : int or None
        Common cases in another fold, so that training differed; None where folds are not known.
    flips : tuple of FlippedCase
        Those that became wrong first.
    """

    what: str
    before: str
    after: str
    common: int
    only_before: int
    only_after: int
    relabelled: tuple[str, ...] = ()
    other_folds: int | None = None
    scores: tuple[ScoreChange, ...] = ()
    flips: tuple[FlippedCase, ...] = field(default=(), repr=False)

    @property
    def same(self) -> bool:
        """Whether all verdicts and scores are equal."""
        return not self.flips and all(one.found == "the same" for one in self.scores)


def paired(before: OutOfFoldPredictions, after: OutOfFoldPredictions, how: Drawing) -> Paired:
    """Compare two entries on their common cases."""
    numbers = after.tolerance is not None
    told = "measured" if numbers else "status"
    rows = _joined(before.rows, after.rows).dropna(subset=[told])
    bare = Paired(
        after.what,
        before.entry,
        after.entry,
        len(rows),
        len(before.rows) - len(rows),
        len(after.rows) - len(rows),
        tuple(rows["case"][rows[f"{told}_before"] != rows[told]]),
        _regrouped(rows),
    )
    if rows.empty:
        return bare
    found = _errors(rows, after.tolerance or 0.0) if numbers else _judged(rows)
    scores = _scores(found, rows["group"].to_numpy(np.str_), how)
    flips = _flips(rows, found, "predicted" if numbers else "probability", told)
    return replace(bare, scores=tuple(scores), flips=tuple(flips))


def _joined(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the common cases; columns of `before` get the suffix ``_before``."""
    columns = ["case", *(sorted({*_KNOWN, *before, *after} - {"case"}))]
    sides = [one.reindex(columns=columns) for one in (before, after)]
    rows = sides[0].merge(sides[1], on="case", suffixes=("_before", ""))
    for column in _SHARED:
        old, new = rows[f"{column}_before"], rows[column]
        rows[f"{column}_before"], rows[column] = old.where(old.notna(), new), new.where(new.notna(), old)
    return rows.assign(group=rows["group"].where(rows["group"].notna(), rows["case"]))


def _regrouped(rows: pd.DataFrame) -> int | None:
    """Count the cases that are not in the fold that has most cases of their former fold."""
    known = rows.dropna(subset=["fold_before", "fold"])
    if known.empty:
        return None
    shares = pd.crosstab(known["fold_before"], known["fold"])
    return int(len(known) - shares.max(axis="columns").sum())


@dataclass(frozen=True)
class _Seen:
    """Verdicts of both, whether each is wrong, and the relative errors of numbers."""

    verdicts: tuple[NDArray[np.str_], NDArray[np.str_]]
    wrong: tuple[Flags, Flags]
    failed: Flags | None = None
    misses: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def _judged(rows: pd.DataFrame) -> _Seen:
    failed = (rows["status"] == "fail").to_numpy(bool)
    old, new = (rows[column].to_numpy(np.str_) for column in ("verdict_before", "verdict"))
    return _Seen((old, new), ((old == "fail") != failed, (new == "fail") != failed), failed)


def _errors(rows: pd.DataFrame, tolerance: float) -> _Seen:
    old, new = (
        (rows[column] / rows["measured"] - 1).abs().to_numpy(np.float64)
        for column in ("predicted_before", "predicted")
    )
    wrong = old > tolerance, new > tolerance
    said = tuple(np.where(flags, "outside", "within") for flags in wrong)
    return _Seen((said[0], said[1]), wrong, None, (old, new))


def _scores(seen: _Seen, groups: NDArray[np.str_], how: Drawing) -> Iterator[ScoreChange]:
    everywhere = np.ones(len(groups), bool)
    if seen.misses is not None:
        yield _mean("mean error", seen.misses, everywhere, groups, how)
        yield _mean("outside the tolerance", _numbers(seen.wrong), everywhere, groups, how)
    if seen.failed is None:
        return
    failed, (old, new) = seen.failed, seen.wrong
    if failed.any() and not failed.all():
        values = [1 - (wrong[failed].mean() + wrong[~failed].mean()) / 2 for wrong in (old, new)]
        found = paired_difference(failed, failed != new, failed != old, groups, **asdict(how))
        yield ScoreChange("balanced accuracy", float(values[0]), float(values[1]), found, False)
    for name, rows in (("missed", failed), ("false alarms", ~failed)):
        if rows.any():
            yield _mean(name, _numbers(seen.wrong), rows, groups, how)


def _numbers(flags: tuple[Flags, Flags]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return flags[0].astype(np.float64), flags[1].astype(np.float64)


def _mean(
    name: str,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
    rows: Flags,
    groups: NDArray[np.str_],
    how: Drawing,
) -> ScoreChange:
    """Compare the means over some rows of a value that is better if lower."""
    old, new = (one[rows] for one in values)
    grown = paired_gain(old, new, groups[rows], **asdict(how))
    return ScoreChange(name, float(old.mean()), float(new.mean()), grown, True)


def _flips(rows: pd.DataFrame, seen: _Seen, value: str, told: str) -> Iterator[FlippedCase]:
    old, new = seen.verdicts
    places = np.flatnonzero(old != new)
    for place in sorted(places, key=lambda place: (not seen.wrong[1][place], str(rows["case"].iloc[place]))):
        row = rows.iloc[place]
        label = row[told] if isinstance(row[told], str) else f"{row[told]:.4g}"
        sides = [
            Statement(str(said[place]), _known(row, f"{value}{mark}"), _known(row, f"threshold{mark}"))
            for said, mark in ((old, "_before"), (new, ""))
        ]
        words = () if pd.isna(row["words"]) or not row["words"] else (str(row["words"]),)
        yield FlippedCase(str(row["case"]), label, sides[0], sides[1], not seen.wrong[1][place], words)


def _known(row: pd.Series, column: str) -> float | None:
    value = row[column]
    return None if pd.isna(value) else float(value)
