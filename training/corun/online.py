"""Impact from the first samples of a new task, alone and with co-runners (co-run paper, equations 2 to 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import SAMPLE_DTYPES
from features.corun.rates import CORUN, Floats
from training.corun.estimators.fitting import accuracy_scores, explained_share
from training.corun.splits import DESIGNS
from training.estimators.answering import model_answering, require_finite

RUN = ["machine", "task", "corunners", "phase", "repetition"]
#: Rates are compared as log(rate + 1) in events per second.
_ONE = 1.0
#: Models of stage two: those of table 1, and boosted trees.
SECOND = ("linear", "svm", "random-forest", "xgboost")
#: Parameters of a forest in stage two: small trees predict unseen tasks better, and are fitted sooner.
_SMALL_TREES = {"leaf": 2, "features": 0.2}
#: Columns that identify a sampled co-run.
KEYS = [*CORUN, "repetition"]


@dataclass(frozen=True)
class SampledRuns:
    """Rates of the first seconds of runs, and of whole runs, as logarithms.

    `runs` has the columns of `RUN`. `start`, shape (n_runs, n_events, 3), is the rate over the sampled
    seconds, over their last half and over the last interval; `final`, shape (n_runs, n_events), the rate over
    the run.
    """

    runs: pd.DataFrame
    events: tuple[str, ...]
    start: Floats
    final: Floats

    @classmethod
    def from_samples(cls, samples: pd.DataFrame, seconds: float) -> SampledRuns:
        """Return the rates of all runs in `samples`, from the intervals that end by `seconds`.

        `samples` has the columns of `RUN`, ``t_seconds`` (end of the interval) and a count per event; a
        missing count is 0. At least the first interval of a run is used. Runs are sorted by the columns of
        `RUN`.
        """
        events = tuple(name for name in samples.columns if name not in SAMPLE_DTYPES)
        ordered = samples.sort_values([*RUN, "t_seconds"])
        counts = np.nan_to_num(ordered[list(events)].to_numpy(np.float64))
        first = ~ordered.duplicated(RUN).to_numpy()
        cuts = np.flatnonzero(first)[1:]
        start, final = [], []
        times_of = np.split(ordered["t_seconds"].to_numpy(np.float64), cuts)
        for times, run_counts in zip(times_of, np.split(counts, cuts), strict=True):
            start.append(start_rates(times, run_counts, seconds))
            final.append(_log_rates(run_counts.sum(axis=0) / times[-1]))
        runs = ordered.loc[first, RUN].reset_index(drop=True)
        return cls(runs, events, np.array(start), np.array(final))


def start_rates(times: Floats, counts: Floats, seconds: float) -> Floats:
    """Return rates of one run's first seconds as log(rate + 1), shape (n_events, 3), rates per second.

    The three are over the intervals that end by `seconds` (at least the first), over the last half of these
    (rounded up), and over the last of them. `times`, shape (n_intervals,), are the ends of the intervals in
    seconds since the start; `counts`, shape (n_intervals, n_events), are those of each interval.
    """
    number = max(int((times <= seconds + 1e-9).sum()), 1)
    starts = np.concatenate([[0.0], times[:-1]])
    rates = [
        _log_rates(counts[begin:number].sum(axis=0) / (times[number - 1] - starts[begin]))
        for begin in (0, number // 2, number - 1)
    ]
    return np.stack(rates, axis=1)


def _log_rates(rates: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(rates, 0) + _ONE))


@dataclass(frozen=True)
class RatioSpread:
    """Mean (n_events,) and covariance (n_events, n_events) of the log event ratios of training co-runs."""

    mean: Floats
    covariance: Floats

    @classmethod
    def from_ratios(cls, ratios: Floats) -> RatioSpread:
        """Return mean and covariance of `ratios`, log ratios of event rates, shape (n_coruns, n_events)."""
        return cls(ratios.mean(axis=0), np.atleast_2d(np.cov(ratios.T, bias=True)))

    def fill_missing(self, ratios: Floats, is_counted: NDArray[np.bool_]) -> Floats:
        """Return the log event ratios of one co-run, with uncounted events replaced by their expected values.

        The expectation is conditional on the counted events. `ratios` (log ratios of event rates),
        `is_counted` and the result have shape (n_events,).
        """
        if is_counted.all():
            return ratios
        counted_covariance = self.covariance[np.ix_(is_counted, is_counted)]
        ridged = _with_ridge(counted_covariance, float(np.trace(self.covariance)) / len(is_counted))
        weights = np.linalg.solve(ridged, ratios[is_counted] - self.mean[is_counted])
        expected = self.mean + self.covariance[:, is_counted] @ weights
        return np.where(is_counted, ratios, expected)

    def swap_log_odds(self, ratios: Floats, is_counted: NDArray[np.bool_]) -> float:
        """Return the log-odds that solo run and co-run are swapped, from the ratios of counted events.

        When swapped, all ratios change their sign: linear discriminant analysis with the covariance of
        training co-runs. `ratios` (log ratios of event rates) and `is_counted` have shape (n_events,).
        """
        counted_covariance = self.covariance[np.ix_(is_counted, is_counted)]
        variance = float(np.trace(counted_covariance)) / len(counted_covariance)
        ridged = _with_ridge(counted_covariance, variance)
        return float(-2 * ratios[is_counted] @ np.linalg.solve(ridged, self.mean[is_counted]))


def _with_ridge(covariance: Floats, variance: float) -> Floats:
    # nearly constant events must not dominate
    return covariance + 1e-3 * max(variance, 1e-12) * np.eye(len(covariance))


@dataclass(frozen=True)
class OnlineModel:
    """The two stages of the online model.

    `coefficients`, shape (n_events, 4), is stage one, a linear model per event: intercept and weights of the
    three rates (equations 2 and 3); `second` is stage two, from impact ratios to log impact (4 and 5).
    """

    events: tuple[str, ...]
    coefficients: Floats
    second: Any
    changes: RatioSpread

    def completion_rates(self, start: Floats) -> Floats:
        """Return predicted log(rate + 1) of whole runs, (n_runs, n_events), from `SampledRuns.start`."""
        return _completion_rates(self.coefficients, start)

    def impacts_of_ratios(self, ratios: Floats) -> Floats:
        """Return impacts of log event ratios (n_rows, n_events); ModelError unless finite and positive."""
        name = type(self.second).__name__
        with model_answering(name):
            impacts = np.asarray(np.exp(self.second.predict(ratios)), np.float64)
            require_finite(name, "impact", impacts, 1 / impacts)
        return impacts

    def predict(self, solo: Floats, corun: Floats) -> Floats:
        """Return impacts (co-run / solo time), shape (n_runs,); ModelError unless finite and positive.

        `solo` and `corun`, (n_runs, n_events, 3), are `SampledRuns.start` of each task's solo run and co-run.
        """
        ratios = self.completion_rates(corun) - self.completion_rates(solo)
        return self.impacts_of_ratios(ratios)


def _completion_rates(coefficients: Floats, start: Floats) -> Floats:
    return np.asarray(coefficients[:, 0] + np.einsum("rek,ek->re", start, coefficients[:, 1:]))


def fit_online_models(
    sampled: SampledRuns, pairs: pd.DataFrame, second_stages: Iterable[Any]
) -> list[OnlineModel]:
    """Return one model for each regression in `second_stages`, in this order; stage one is fitted once.

    Stage one predicts a run's event rates from those of its first seconds; stage two predicts log impact from
    the ratios of co-run to solo rates. The regressions are fitted in place. `pairs` is a table of `pair_runs`
    with at least one row.
    """
    used, events = np.union1d(pairs["solo"], pairs["corun"]), range(len(sampled.events))
    coefficients = np.array([_stage_one(sampled.start[used, e], sampled.final[used, e]) for e in events])
    done = _completion_rates(coefficients, sampled.start)
    # on the scale of logarithms: log(1 + (co-run - solo) / solo)
    ratios = done[pairs["corun"]] - done[pairs["solo"]]
    changes, logs = RatioSpread.from_ratios(ratios), np.log(pairs["impact"].to_numpy(np.float64))
    return [
        OnlineModel(sampled.events, coefficients, second.fit(ratios, logs), changes)
        for second in second_stages
    ]


def _stage_one(start: Floats, final: Floats) -> Floats:
    """Fit the change from the mean rate of the sampled seconds to completion by ridge regression."""
    design = np.column_stack([np.ones(len(start)), start - start[:, :1]])[:, [0, 2, 3]]
    penalty = 1e-3 * len(start) * np.diag([0.0, 1.0, 1.0])
    squares = design.T @ design + penalty + 1e-12 * np.eye(3)
    intercept, half, last = np.linalg.solve(squares, design.T @ (final - start[:, 0]))
    return np.array([intercept, 1 - half - last, half, last])


def pair_runs(runs: pd.DataFrame, instances: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sampled co-run with the first sampled solo run of its task on the same machine.

    Rows and "first" are in the order of `runs`. Columns: ``solo, corun`` (row numbers of `runs`, from 0), and
    ``impact`` (co-run / solo time) and ``families`` (of all tasks, joined by ``+``) from the row of
    `instances` with an equal ``task, corunners, machine``: the same for all repetitions of a co-run. Co-runs
    without a solo run or such a row are left out.
    """
    numbered = runs.assign(corun=np.arange(len(runs)))
    solo = numbered[numbered["phase"] == "solo"].drop_duplicates(["machine", "task"])
    alone = solo[["machine", "task", "corun"]].rename(columns={"corun": "solo"})
    coruns = numbered[numbered["phase"] == "corun"].merge(alone, on=["machine", "task"])
    pairs = coruns.merge(instances[[*CORUN, "impact", "families"]], on=CORUN)
    return pairs[["solo", "corun", "impact", "families"]]


def event_ratios(samples: pd.DataFrame, instances: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return each sampled co-run's change of event rates: log(rate + 1), co-run minus solo run.

    Columns: ``task, corunners, machine, repetition``, then one per event. Rates are over the first `seconds`.
    Co-runs, and the solo run of each, are those of `pair_runs`.
    """
    sampled = SampledRuns.from_samples(samples, seconds)
    pairs = pair_runs(sampled.runs, instances)
    changed = sampled.start[pairs["corun"], :, 0] - sampled.start[pairs["solo"], :, 0]
    keys = sampled.runs.iloc[pairs["corun"]][KEYS].reset_index(drop=True)
    return pd.concat([keys, pd.DataFrame(changed, columns=list(sampled.events))], axis="columns")


def second_stage_model(name: str, seed: int) -> Any:
    """Return the unfitted stage-two regression `name`, one of `SECOND`; KeyError if it is another name.

    It predicts log impact and takes the features as they are; no step scales them.
    """
    from training.corun.estimators.models import CATALOGUE

    if name not in SECOND:
        raise KeyError(name)
    model = CATALOGUE[name]
    params = {**model.start, **model.in_search, "trees": 100}
    return model.build(params | (_SMALL_TREES if name == "random-forest" else {}), seed, None)


@dataclass(frozen=True)
class SampleFold:
    """A fold of co-runs with samples of `seconds` seconds: training and test pairs."""

    sampled: SampledRuns
    train_pairs: pd.DataFrame
    test_pairs: pd.DataFrame
    design: str
    fold: int
    seconds: float
    seed: int

    @classmethod
    def iterate_folds(
        cls, samples: pd.DataFrame, instances: pd.DataFrame, seconds: float, folds: int, seed: int
    ) -> Iterator[SampleFold]:
        """Yield the folds of two designs, without empty sides: "random", then "tasks" (unseen families)."""
        sampled = SampledRuns.from_samples(samples, seconds)
        pairs = pair_runs(sampled.runs, instances)
        for design in ("random", "tasks"):
            for fold, (train, test) in enumerate(DESIGNS[design].divide(pairs, folds, seed)):
                if len(train) and len(test):
                    yield cls(sampled, pairs.iloc[train], pairs.iloc[test], design, fold, seconds, seed)


def predict_held_out(sample_fold: SampleFold) -> pd.DataFrame:
    """Return the impact ``measured`` and ``predicted`` of a fold's test co-runs, for each model of `SECOND`.

    A row per model and co-run, with ``task, corunners, machine, repetition, model, design, fold, seconds``;
    the last is how much of each run the models see. They are fitted to the fold's training co-runs.
    ModelError if a predicted impact is not finite and above 0.
    """
    sampled, test_pairs = sample_fold.sampled, sample_fold.test_pairs
    solo, corun = test_pairs["solo"], test_pairs["corun"]
    keys = sampled.runs.iloc[corun][KEYS].reset_index(drop=True)
    second_stages = [second_stage_model(name, sample_fold.seed) for name in SECOND]
    models = fit_online_models(sampled, sample_fold.train_pairs, second_stages)
    measured, predictions = test_pairs["impact"].to_numpy(), []
    for name, model in zip(SECOND, models, strict=True):
        predicted = model.predict(sampled.start[solo], sampled.start[corun])
        predictions.append(keys.assign(model=name, measured=measured, predicted=predicted))
    return pd.concat(predictions).assign(
        design=sample_fold.design, fold=sample_fold.fold, seconds=sample_fold.seconds
    )


def accuracy_by_seconds(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Return the accuracy of `predict_held_out`, a row per ``seconds, design, model``, in this order.

    Further columns: ``within_tolerance`` (share of relative errors below `tolerance`), ``spread`` (its
    standard deviation over folds, by n), ``mape`` and ``r2``, of the rows of all folds together.
    """
    keys, rows = ["seconds", "design", "model"], []
    for values, group_rows in predictions.groupby(keys, sort=True):
        error = np.abs(group_rows["predicted"] / group_rows["measured"] - 1)
        inside = (error < tolerance).groupby(group_rows["fold"]).mean()
        scores = {"spread": float(inside.std(ddof=0)), "r2": explained_share(group_rows)}
        rows.append(dict(zip(keys, values, strict=True)) | scores | accuracy_scores(error, tolerance))
    return pd.DataFrame(rows, columns=[*keys, "within_tolerance", "spread", "mape", "r2"])
