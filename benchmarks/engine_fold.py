"""One classifier on one fold of synthetic matrices, timed: what the processes of `benchmarks.engine` do.

`plain` is the opponent: what one writes with scikit-learn, imbalanced-learn and pyagrum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.similarity import STILL, differing, steps
from benchmarks.synthetic_matrices import GROUPS, VECTORS, generate
from benchmarks.table import SEED, clocked
from benchmarks.tan import pyagrums
from data.matrices.tables import MatrixTables
from training.matrices.engine.engine import Engine, Scheme
from training.matrices.engine.models import CATALOGUE

FOLDS, TRIALS, COMPONENTS = 10, 10, 100
#: The seed's remedies on vectors: raw metrics, pruned, by group, projected, balanced.
SEEDS = Scheme("raw", "flattened", prune=True, grouping="given", components=COMPONENTS, balance=True)
CLASSIFIERS = ("decision-tree", "logistic", "tan", "similarity-logistic")
#: What the engine's own TAN starts with, and keeps where only the imbalance is tuned.
BINS = int(CATALOGUE["tan"].start["levels"])
#: Of expectation-maximisation at most.
ITERATIONS = 20


@dataclass(frozen=True)
class Task:
    """One classifier on one fold; ``seconds`` of a result are of fit and judgement, on the processor."""

    model: str
    fold: int
    scheme: Scheme = SEEDS
    vectors: int = VECTORS


@dataclass(frozen=True)
class Judged:
    """What came of a task: the seconds, and of each test vector its group, what it is, and what was said.

    Attributes
    ----------
    seconds : float
    truth, told : ndarray of bool, shape (n_vectors,)
        Whether it is, and was called, abnormal.
    group : ndarray of object, shape (n_vectors,)
    """

    seconds: float
    truth: np.ndarray
    told: np.ndarray
    group: np.ndarray

    def of_groups(self, groups: Collection[str]) -> Judged:
        """Return the vectors of these groups; the seconds are of all."""
        chosen = np.isin(self.group, list(groups))
        return replace(self, truth=self.truth[chosen], told=self.told[chosen], group=self.group[chosen])


@lru_cache(maxsize=1)
def tables_of(vectors: int) -> MatrixTables:
    """Return the valid runs' tables; invalid ones teach nothing and are not counted by the seed."""
    tables = generate(vectors, SEED)
    return tables.of_runs(tables.runs["valid"].to_numpy(bool))


def parted(tables: MatrixTables, fold: int) -> tuple[MatrixTables, MatrixTables]:
    """Return training and test tables; test cases stay whole, every group is in every fold."""
    case = tables.runs["workload"].str.extract(r"(\d+)$", expand=False).astype(int).to_numpy()
    test = (case // GROUPS) % FOLDS == fold
    return tables.of_runs(~test), tables.of_runs(test)


def ours(task: Task) -> Judged:
    """Fit the engine, search included, and judge the fold."""
    train, test = parted(tables_of(task.vectors), task.fold)
    engine = Engine(task.scheme, task.model, TRIALS, SEED)
    seconds, vectors = clocked(lambda: engine.fit(train).vectors(test), time.process_time)
    flags = test.runs.set_index("run_id")["abnormal"]
    truth = flags.reindex(vectors["run_id"]).fillna(False).to_numpy(bool)
    group = vectors["group"].to_numpy(object)
    return Judged(seconds, truth, vectors["abnormal"].to_numpy(bool), group)


def plain(  # noqa: PLR0917
    model: str, train: MatrixTables, test: MatrixTables, groups: int, components: int, trials: int, seed: int
) -> tuple[float, Judged]:
    """Standardise and project once, then search and fit group by group; time the first `groups` groups.

    Returns
    -------
    tuple of (float, Judged)
        Processor seconds for what is done once a fold, and what came of the groups that were timed.
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    start = time.process_time()
    paired = model == "similarity-logistic"
    scaler = StandardScaler().fit(train.runs[train.raw])
    pca = PCA(components, random_state=seed).fit(scaler.transform(train.runs[train.raw]))
    sides = []
    for tables in (train, test):
        x = pca.transform(scaler.transform(tables.runs[train.raw]))
        runs = tables.runs[["workload", "group", "side", "pair_id"]]
        y = tables.runs["abnormal"].fillna(False).to_numpy(int)
        sides.append(_paired(x, runs, y) if paired else (x[:, None, :], runs.reset_index(drop=True), y))
    common = time.process_time() - start
    start = time.process_time()
    (x, runs, y), (asked, of_asked, truth) = sides
    chosen, told = sorted(runs["group"].unique())[:groups], []
    for group in chosen:
        rows, new = (runs["group"] == group).to_numpy(), (of_asked["group"] == group).to_numpy()
        known = x[rows], y[rows], runs["workload"][rows].to_numpy()
        told.append((np.flatnonzero(new), _group(model, known, asked[new], trials, seed)))
    seconds = time.process_time() - start
    places, said = (np.concatenate(parts) for parts in zip(*told, strict=True))
    group_of = of_asked["group"].to_numpy(object)[places]
    return common, Judged(seconds, truth[places].astype(bool), said, group_of)


def _paired(x: np.ndarray, runs: Any, y: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray]:
    numbered = runs.assign(row=np.arange(len(runs)), number=runs.groupby(["pair_id", "side"]).cumcount())
    both = numbered[numbered["side"] == "target"].merge(
        numbered[numbered["side"] == "baseline"], on=["pair_id", "number"], suffixes=("", "_baseline")
    )
    return np.stack([x[both["row_baseline"]], x[both["row"]]], axis=1), both, y[both["row"]]


def _group(model: str, known: tuple[Any, Any, Any], asked: np.ndarray, trials: int, seed: int) -> np.ndarray:
    """Search on a 2:1 split by test case, fit with the best, and judge."""
    import optuna
    from sklearn.metrics import average_precision_score, roc_curve
    from sklearn.model_selection import GroupShuffleSplit

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    x, y, workload = known
    fit, held = next(GroupShuffleSplit(1, test_size=1 / 3, random_state=seed).split(x, y, workload))

    def worth(trial: Any) -> float:
        params = {
            "components": trial.suggest_categorical("components", [100, 50, 25, 12, 6]),
            "rate": trial.suggest_categorical("rate", [None, 0.1, 0.2, 0.5, 1.0]),
            "cost_ratio": trial.suggest_float("cost_ratio", 1.0, 64.0, log=True),
        }
        trial.set_user_attr("params", params)
        if len(np.unique(y[held])) == 1 or len(np.unique(y[fit])) == 1:
            return 0.0
        share = _probability(model, params, x[fit], y[fit], x[held], seed)
        missed, caught, thresholds = roc_curve(y[held], share)
        best = (caught - missed).argmax()
        trial.set_user_attr("threshold", thresholds[best])
        return float((1 + caught[best] - missed[best]) / 2 + average_precision_score(y[held], share)) / 2

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(worth, trials)
    best = study.best_trial.user_attrs
    return _probability(model, best["params"], x, y, asked, seed) >= best.get("threshold", 0.5)


def _probability(  # noqa: PLR0917
    model: str, params: dict[str, Any], x: np.ndarray, y: np.ndarray, asked: np.ndarray, seed: int
) -> np.ndarray:
    from imblearn.under_sampling import RandomUnderSampler
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    x, asked = (side[:, :, : params["components"]].reshape(len(side), -1) for side in (x, asked))
    if params["rate"] is not None and params["rate"] > y.mean() / (1 - y.mean()):
        x, y = RandomUnderSampler(sampling_strategy=params["rate"], random_state=seed).fit_resample(x, y)
    costs = {0: 1.0, 1: params["cost_ratio"]}
    if model == "tan":
        return _tan(x, y, asked, params["cost_ratio"])
    if model == "similarity-logistic":
        return _similarity(x, y, asked, costs, seed)
    classifier = {
        "decision-tree": DecisionTreeClassifier(min_samples_leaf=2, class_weight=costs, random_state=seed),
        "logistic": LogisticRegression(class_weight=costs, max_iter=1000),
    }[model]
    return classifier.fit(x, y).predict_proba(asked)[:, 1]


def _tan(x: np.ndarray, y: np.ndarray, asked: np.ndarray, cost: float) -> np.ndarray:
    import pandas as pd
    import pyagrum
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor

    pyagrum.setNumberOfThreads(1)
    names = [f"c{number}" for number in range(x.shape[1])]
    network = pyagrums(DiscreteTypeProcessor("quantile", BINS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network.fit(pd.DataFrame(x, columns=names), pd.Series(y, name="y"))
        share = np.asarray(network.predict_proba(pd.DataFrame(asked, columns=names)))[:, 1]
    return cost * share / (cost * share + 1 - share)


def _similarity(x: np.ndarray, y: np.ndarray, asked: np.ndarray, costs: dict[int, float], seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    weights = np.random.default_rng(seed).normal(0, 0.1, x.shape[1] // 2 + 1)
    regression = LogisticRegression(warm_start=True, max_iter=200)
    climb = steps(x, y, weights, np.where(y == 1, costs[1], costs[0]), regression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in islice(climb, ITERATIONS):
            before, weights = weights, found
            if np.abs(weights - before).max() < STILL:
                break
    return differing(asked, weights)
