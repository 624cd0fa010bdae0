"""Impact models fitted to the table of features, and the scores of their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.files import digest_of
from features.corun.rates import CORUN, KEYS, MOST, OTHERS, OWN, Floats, Placed
from training.corun.estimators.models import CATALOGUE, prepared_model
from training.corun.estimators.pressure import PAIR_SEPARATOR, Named, Words, pair_members
from training.corun.estimators.smooth import sides_of
from training.estimators.catalogue import Params
from training.evaluation.metrics import DIGITS, half_width, summarise_folds

#: Features of solo times that plain models take in addition to the rates.
_TIMES = ("own_seconds", "others_seconds")
_MACHINE = ("machine_", "engine_")
#: The first feature of time; the columns before it are rates.
_DERIVED = "own_seconds"
#: Largest predicted impact, for models that extrapolate.
_LARGEST = 1000.0


@dataclass(frozen=True)
class Ranges:
    """Classes of impacts: ranges as wide as a share of a task's mean impact (0.03 in the co-run paper).

    `means` are of training rows, by task; `overall` is used for tasks without training rows.
    """

    share: float
    means: dict[str, float]
    overall: float

    @classmethod
    def from_impacts(cls, tasks: Words, impacts: Floats, share: float) -> Ranges:
        """Return the ranges for training rows; `tasks` and `impacts` have shape (n_rows,)."""
        names, owners = np.unique(tasks, return_inverse=True)
        means = np.bincount(owners, impacts) / np.bincount(owners)
        return cls(share, dict(zip(names.tolist(), means.tolist(), strict=True)), float(impacts.mean()))

    def range_widths(self, tasks: Words) -> Floats:
        """Return the width of the ranges of each row's task, shape (n_rows,), in the unit of impacts."""
        return self.share * np.array([self.means.get(task, self.overall) for task in tasks.tolist()])

    def range_numbers(self, tasks: Words, impacts: Floats) -> NDArray[np.int64]:
        """Return the number, from 0, of the range that contains each impact, shape (n_rows,)."""
        return np.floor(impacts / self.range_widths(tasks)).astype(np.int64)


@dataclass(frozen=True)
class RangeModel:
    """A classifier of ranges that predicts impacts; `classes` are ranges of training rows, ascending."""

    classifier: Any
    classes: NDArray[np.int64]
    ranges: Ranges

    @classmethod
    def fit_classifier(
        cls, classifier: Any, x: Floats, impacts: Floats, tasks: Words, share: float
    ) -> RangeModel:
        """Return a model with `classifier` fitted to ranges of `impacts`, `share` of task means wide."""
        ranges = Ranges.from_impacts(tasks, impacts, share)
        classes, class_numbers = np.unique(ranges.range_numbers(tasks, impacts), return_inverse=True)
        return cls(classifier.fit(x, class_numbers), classes, ranges)

    def predict(self, x: Floats, tasks: Words) -> Floats:
        """Return the impact in the middle of each row's predicted range, shape (n_rows,).

        `x`: shape (n_rows, n_features). `tasks`: shape (n_rows,).
        """
        numbers = self.classes[np.asarray(self.classifier.predict(x), np.int64)]
        return (numbers + 0.5) * self.ranges.range_widths(tasks)


@dataclass(frozen=True)
class ImpactTable:
    """The table of features of co-runs from the stage featurize, and the SHA-256 of its file."""

    frame: pd.DataFrame
    digest: str

    @classmethod
    def read(cls, path: Path) -> ImpactTable:
        """Read features.parquet of featurize; InputError if it, or a column, is missing, or it is damaged."""
        # pyarrow is in an extra
        from data.tables.parquet import read_written_table

        if not path.is_file():
            raise InputError("no such file; run featurize first", file=path)
        frame = read_written_table(path)
        missing = [name for name in (*KEYS, _DERIVED) if name not in frame.columns]
        if missing:
            expected = f'expected the column "{missing[0]}" of the stage featurize'
            raise InputError(f"{len(frame.columns)} columns; {expected}", file=path)
        return cls(frame.reset_index(drop=True), digest_of(path))

    @cached_property
    def varying_features(self) -> tuple[str, ...]:
        """The names of the features with more than one value, in the order of the columns."""
        columns = self.frame.columns[len(KEYS) :]
        values = self.frame[columns]
        return tuple(columns[(values.max() > values.min()).to_numpy()])

    @cached_property
    def rate_features(self) -> tuple[str, ...]:
        """The names of the varying features that are event rates (equation 1 of the co-run paper)."""
        first = self.frame.columns.get_loc(_DERIVED)
        rates = set(self.frame.columns[len(KEYS) : first])
        return tuple(name for name in self.varying_features if name in rates)

    @cached_property
    def plain_features(self) -> tuple[str, ...]:
        """The names of the features for models other than ours: rates, solo times, machine properties."""
        plain = {*self.rate_features, *_TIMES}
        return tuple(name for name in self.varying_features if name in plain or name.startswith(_MACHINE))

    def model_features(self, model: str) -> tuple[str, ...]:
        """Return the names of the features that `model` takes, a name in the catalogue."""
        return self.plain_features if CATALOGUE[model].is_prepared else self.varying_features

    @property
    def rate_events(self) -> tuple[str, ...]:
        """The names of the events whose rates are features."""
        prefixes = (OWN, OTHERS, MOST)
        names = (name.removeprefix(p) for name in self.rate_features for p in prefixes if name.startswith(p))
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class FittedImpact:
    """A fitted model and the columns that it takes."""

    model: Any
    columns: tuple[str, ...]

    def predict(self, rows: pd.DataFrame) -> Floats:
        """Return impacts (co-run / solo time), (n_rows,), of features and ``task, corunners, machine``."""
        return self.predict_matrix(rows[list(self.columns)].to_numpy(np.float64), named_of(rows))

    def predict_matrix(self, x: Floats, named: Named) -> Floats:
        """Return impacts (co-run / solo time), shape (n_rows,), of features, (n_rows, n_columns)."""
        if isinstance(self.model, RangeModel):
            return self.model.predict(x, np.array([pair_members(pair)[0] for pair in named.pairs], np.str_))
        if hasattr(self.model, "pairs_"):
            return np.asarray(self.model.predict(x, named), np.float64)
        return np.asarray(np.exp(np.minimum(self.model.predict(x), np.log(_LARGEST))), np.float64)

    def is_correct(self, rows: pd.DataFrame, predicted: Floats, tolerance: float) -> NDArray[np.bool_]:
        """Return whether each row is predicted correctly, shape (n_rows,), as the co-run paper counts.

        A regression is correct within `tolerance`, a share of the measured ``rows["impact"]``, a
        classification in the right range.
        """
        measured = rows["impact"].to_numpy(np.float64)
        if isinstance(self.model, RangeModel):
            tasks, ranges = rows["task"].to_numpy(np.str_), self.model.ranges
            return ranges.range_numbers(tasks, predicted) == ranges.range_numbers(tasks, measured)
        return np.abs(predicted / measured - 1) < tolerance


@dataclass(frozen=True)
class ImpactRecipe:
    """Settings for fitting a model of the catalogue.

    `share` is the width of ranges as a share of a task's mean impact; `rates` are the features that are left
    out where ``params["rates"]`` is false.
    """

    model: str
    params: Params
    columns: tuple[str, ...]
    share: float
    seed: int
    rates: tuple[str, ...] = ()

    def fit(self, rows: pd.DataFrame) -> FittedImpact:
        """Return the model fitted to rows of the table of features, whose column ``impact`` is the target."""
        model_params = {name: value for name, value in self.params.items() if name != "rates"}
        gone = set() if self.params.get("rates", True) else set(self.rates)
        columns = tuple(name for name in self.columns if name not in gone)
        unfitted = prepared_model(CATALOGUE[self.model], model_params, self.seed)
        x, y = rows[list(columns)].to_numpy(np.float64), rows["impact"].to_numpy(np.float64)
        if CATALOGUE[self.model].kind == "classification":
            tasks = rows["task"].to_numpy(np.str_)
            return FittedImpact(RangeModel.fit_classifier(unfitted, x, y, tasks, self.share), columns)
        if not CATALOGUE[self.model].is_prepared:
            return FittedImpact(unfitted.fit(x, y, named_of(rows), sides_of(columns)), columns)
        return FittedImpact(unfitted.fit(x, np.log(y)), columns)


def named_of(rows: pd.DataFrame) -> Named:
    """Return ``pairs`` (task, line break, co-runners) and ``machines`` of rows, both of shape (n_rows,).

    `rows` has the columns ``task, corunners, machine``.
    """
    pairs = (rows["task"] + PAIR_SEPARATOR + rows["corunners"]).to_numpy(np.str_)
    return Named(pairs, rows["machine"].to_numpy(np.str_))


#: Least number of repetitions to measure how well they agree.
_REPEATS = 2


def score_predictions(rows: pd.DataFrame) -> dict[str, float]:
    """Return the scores of rows of oof.parquet, at least one, by name.

    ``within_tolerance`` is the share of rows with ``right``; ``mape, median_error, p90_error`` are of
    |predicted / measured - 1|; ``r2`` is 0 where all measured impacts are equal; ``coverage`` is the share of
    rows measured from ``low`` to ``high``, ``interval_width`` the mean of (high - low) / predicted.
    """
    error = np.abs(rows["predicted"].to_numpy(np.float64) / rows["measured"].to_numpy(np.float64) - 1)
    return {
        "within_tolerance": float(rows["right"].mean()),
        "mape": float(error.mean()),
        "median_error": float(np.median(error)),
        "p90_error": float(np.quantile(error, 0.9)),
        "r2": explained_share(rows),
        "coverage": float(rows["measured"].between(rows["low"], rows["high"]).mean()),
        "interval_width": float(((rows["high"] - rows["low"]) / rows["predicted"]).mean()),
    }


def explained_share(rows: pd.DataFrame) -> float:
    """Return R2 of the columns ``measured, predicted``; 0 where all measured values are equal."""
    measured, predicted = rows["measured"].to_numpy(np.float64), rows["predicted"].to_numpy(np.float64)
    spread = float(((measured - measured.mean()) ** 2).sum())
    return 1 - float(((measured - predicted) ** 2).sum()) / spread if spread else 0.0


def accuracy_scores(errors: Any, tolerance: float) -> dict[str, float]:
    """Return the share of `errors` below `tolerance`, ``within_tolerance``, and their mean, ``mape``.

    `errors`, an array or series of at least one, are sizes of relative errors; all are shares, not per cent.
    """
    return {"within_tolerance": float((errors < tolerance).mean()), "mape": float(errors.mean())}


def summarise_predictions(rows: pd.DataFrame) -> dict[str, Any]:
    """Return ``kind``, and by score of `score_predictions` a dict ``mean, std, pooled``.

    Scores are ``within_tolerance, mape, median_error, p90_error, r2, coverage, interval_width``; ``mean`` and
    ``std`` (by n) are over folds, ``pooled`` of all rows; 6 decimals, None in place of NaN. `rows` are one
    model's rows of oof.parquet in one design.
    """
    folds = [score_predictions(fold_rows) for _, fold_rows in rows.groupby("fold", sort=True)]
    spreads = {
        name: summarise_folds([fold_scores[name] for fold_scores in folds], pooled)
        for name, pooled in score_predictions(rows).items()
    }
    return {"kind": str(rows["kind"].iloc[0]), **spreads}


def log_width(rows: pd.DataFrame, confidence: float) -> float:
    """Return the half width of intervals of log impact that would contain the share `confidence` of the rows.

    It is `half_width` of ln(measured / predicted); IndexError without rows.
    """
    return half_width(np.log(rows["measured"] / rows["predicted"]).to_numpy(np.float64), confidence)


def with_intervals(rows: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return one model's rows in one design, sorted by fold, renumbered, with intervals ``low`` and ``high``.

    They are ``predicted`` divided and multiplied by one factor per fold, which comes from the residuals of
    the other folds (a single fold: its own), for a coverage of `confidence`. ValueError without rows.
    """
    parts = []
    for fold, fold_rows in rows.groupby("fold", sort=True):
        others = rows[rows["fold"] != fold]
        factor = np.exp(log_width(others if len(others) else fold_rows, confidence))
        predicted = fold_rows["predicted"]
        parts.append(fold_rows.assign(low=predicted / factor, high=predicted * factor))
    return pd.concat(parts, ignore_index=True)


def repeatability_scores(pairs: pd.DataFrame, solo: pd.Series, tolerance: float) -> dict[str, Any]:
    """Return how well repeated measurements of `pairs` agree, which limits every accuracy.

    `pairs` is the table of `CorunTables`; `solo`, indexed by machine and task, has seconds of solo runs.
    Returns ``repeated``, the number of co-runs with repetitions; ``within_tolerance, mape, p90_error`` of
    each repetition as a prediction of the median of the others, and ``same_range``, how often both are in the
    same range (`tolerance` of the task's mean impact wide), None without repetitions; ``solo_spread``, the
    median coefficient of variation of solo times, None if no task has two on a machine.
    """
    alone = solo.groupby(level=[0, 1])
    spread = (alone.std(ddof=1) / alone.mean()).dropna()
    median = alone.median().reindex(pd.MultiIndex.from_frame(pairs[["machine", "task"]])).to_numpy()
    runs = Placed.from_pairs(pairs).as_columns.assign(impact=pairs["corun_seconds"].to_numpy() / median)
    repeated = [
        repetitions.assign(others=[repetitions["impact"].drop(place).median() for place in repetitions.index])
        for _, repetitions in runs.groupby(["machine", "task", "corunners"], sort=True)
        if len(repetitions) >= _REPEATS
    ]
    compared_runs = pd.concat(repeated, ignore_index=True) if repeated else runs.iloc[:0].assign(others=0.0)
    scores: dict[str, Any] = {"repeated": len(compared_runs[CORUN].drop_duplicates())}
    scores |= dict.fromkeys(("within_tolerance", "mape", "p90_error", "same_range", "solo_spread"))
    if len(compared_runs):
        impact, others = (compared_runs[name].to_numpy(np.float64) for name in ("impact", "others"))
        error = (compared_runs["impact"] / compared_runs["others"] - 1).abs()
        impacts = runs["impact"].to_numpy(np.float64)
        ranges = Ranges.from_impacts(runs["task"].to_numpy(np.str_), impacts, tolerance)
        tasks = compared_runs["task"].to_numpy(np.str_)
        same = ranges.range_numbers(tasks, impact) == ranges.range_numbers(tasks, others)
        scores |= accuracy_scores(error, tolerance)
        scores |= {"p90_error": float(error.quantile(0.9)), "same_range": float(same.mean())}
    if len(spread):
        scores["solo_spread"] = float(spread.median())
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value for name, value in scores.items()
    }


def rank_models(summaries: dict[str, Any]) -> list[str]:
    """Return the names of the regressions by pooled ``mape``, the smallest first, ties by name.

    `summaries` has a result of `summarise_predictions` by model; models of another kind are left out.
    """
    models = {name: content for name, content in summaries.items() if content["kind"] == "regression"}
    return sorted(models, key=lambda name: (models[name]["mape"]["pooled"], name))
