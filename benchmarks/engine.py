"""The comparative analysis engine beside a straightforward script, and its cost as vectors become more.

Run it with ``uv run --group benchmarks python -m benchmarks.engine``; it writes ``docs/results/engine.md``
and ``docs/results/engine-growth.md``. All numbers are of synthetic matrices in the shape of the
analysis engine paper's data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.similarity import WEIGHT_TOLERANCE, differing_probability, em_steps
from benchmarks.synthetic_matrices import GROUPS, VECTORS, generate
from benchmarks.table import SEED, Table, load_average, load_note, machine_line, time_call
from benchmarks.tan import pyagrum_classifier
from data.matrices.tables import MatrixTables
from data.parallel import Compute, side_by_side
from training.matrices.engine.engine import FULL, Engine, Scheme
from training.matrices.engine.models import CATALOGUE

FOLDS, TRIALS, COMPONENTS = 10, 10, 100
#: The scheme of the analysis engine paper: raw metrics, pruned, models by group, components, balanced.
PAPER_SCHEME = Scheme("raw", "flattened", prune=True, grouping="given", components=COMPONENTS, balance=True)
CLASSIFIERS = ("decision-tree", "logistic", "tan", "similarity-logistic")
#: Levels per metric of TAN: the engine's initial value, kept where only the imbalance is tuned.
BINS = int(CATALOGUE["tan"].start["levels"])
#: Most iterations of expectation-maximisation.
ITERATIONS = 20


@dataclass(frozen=True)
class Task:
    """One classifier on one fold of the test cases."""

    model: str
    fold: int
    scheme: Scheme = PAPER_SCHEME
    vectors: int = VECTORS


@dataclass(frozen=True)
class TaskResult:
    """The result of one task.

    `seconds` is the processor time of fit and judgement. The arrays have one entry per test vector: the
    label, the verdict and the workload group.
    """

    seconds: float
    truth: np.ndarray
    verdict: np.ndarray
    group: np.ndarray

    def of_groups(self, groups: Collection[str]) -> TaskResult:
        """Return a copy with the vectors of `groups` only; `seconds` stays that of all vectors."""
        chosen = np.isin(self.group, list(groups))
        return replace(self, truth=self.truth[chosen], verdict=self.verdict[chosen], group=self.group[chosen])


@lru_cache(maxsize=1)
def tables_of(vectors: int) -> MatrixTables:
    """Return synthetic tables of the valid runs; as in the paper, invalid runs are left out."""
    tables = generate(vectors, SEED)
    return tables.select_runs(tables.runs["valid"].to_numpy(bool))


def split_fold(tables: MatrixTables, fold: int) -> tuple[MatrixTables, MatrixTables]:
    """Return training and test tables; test cases stay whole, and every fold has cases of every group."""
    case = tables.runs["workload"].str.extract(r"(\d+)$", expand=False).astype(int).to_numpy()
    test = (case // GROUPS) % FOLDS == fold
    return tables.select_runs(~test), tables.select_runs(test)


def run_engine(task: Task) -> TaskResult:
    """Fit the engine with its search, judge the test part of the fold, and time both."""
    train, test = split_fold(tables_of(task.vectors), task.fold)
    engine = Engine(task.scheme, task.model, TRIALS, SEED)
    seconds, vectors = time_call(lambda: engine.fit(train).judge_vectors(test), time.process_time)
    flags = test.runs.set_index("run_id")["abnormal"]
    truth = flags.reindex(vectors["run_id"]).fillna(False).to_numpy(bool)
    group = vectors["group"].to_numpy(object)
    return TaskResult(seconds, truth, vectors["abnormal"].to_numpy(bool), group)


def run_plain_script(  # noqa: PLR0917
    model: str, train: MatrixTables, test: MatrixTables, groups: int, components: int, trials: int, seed: int
) -> tuple[float, TaskResult]:
    """Standardise and project all groups once, then search and fit the first `groups` groups one by one.

    Returns the seconds of the common preparation, and the result, whose seconds are those of these groups
    alone.
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    start = time.process_time()
    paired = model == "similarity-logistic"
    scaler = StandardScaler().fit(train.runs[train.raw_metrics])
    pca = PCA(components, random_state=seed).fit(scaler.transform(train.runs[train.raw_metrics]))
    sides = []
    for tables in (train, test):
        x = pca.transform(scaler.transform(tables.runs[train.raw_metrics]))
        runs = tables.runs[["workload", "group", "side", "pair_id"]]
        y = tables.runs["abnormal"].fillna(False).to_numpy(int)
        sides.append(_pair_runs(x, runs, y) if paired else (x[:, None, :], runs.reset_index(drop=True), y))
    common = time.process_time() - start
    start = time.process_time()
    (x, runs, y), (x_test, of_asked, truth) = sides
    chosen, judged_groups = sorted(runs["group"].unique())[:groups], []
    for group in chosen:
        rows, new = (runs["group"] == group).to_numpy(), (of_asked["group"] == group).to_numpy()
        training = x[rows], y[rows], runs["workload"][rows].to_numpy()
        judged_groups.append((np.flatnonzero(new), _judge_group(model, training, x_test[new], trials, seed)))
    seconds = time.process_time() - start
    positions, verdicts = (np.concatenate(parts) for parts in zip(*judged_groups, strict=True))
    group_of = of_asked["group"].to_numpy(object)[positions]
    return common, TaskResult(seconds, truth[positions].astype(bool), verdicts, group_of)


def _pair_runs(x: np.ndarray, runs: Any, y: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray]:
    numbered = runs.assign(row=np.arange(len(runs)), number=runs.groupby(["pair_id", "side"]).cumcount())
    merged = numbered[numbered["side"] == "target"].merge(
        numbered[numbered["side"] == "baseline"], on=["pair_id", "number"], suffixes=("", "_baseline")
    )
    return np.stack([x[merged["row_baseline"]], x[merged["row"]]], axis=1), merged, y[merged["row"]]


def _judge_group(
    model: str, training: tuple[Any, Any, Any], x_test: np.ndarray, trials: int, seed: int
) -> np.ndarray:
    """Search on a 2:1 split by test case, refit with the best parameters and judge `x_test`."""
    import optuna
    from sklearn.metrics import average_precision_score, roc_curve
    from sklearn.model_selection import GroupShuffleSplit

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    x, y, workload = training
    fit, validation = next(GroupShuffleSplit(1, test_size=1 / 3, random_state=seed).split(x, y, workload))

    def trial_score(trial: Any) -> float:
        params = {
            "components": trial.suggest_categorical("components", [100, 50, 25, 12, 6]),
            "rate": trial.suggest_categorical("rate", [None, 0.1, 0.2, 0.5, 1.0]),
            "cost_ratio": trial.suggest_float("cost_ratio", 1.0, 64.0, log=True),
        }
        trial.set_user_attr("params", params)
        if len(np.unique(y[validation])) == 1 or len(np.unique(y[fit])) == 1:
            return 0.0
        share = _abnormal_probability(model, params, x[fit], y[fit], x[validation], seed)
        fpr, caught, thresholds = roc_curve(y[validation], share)
        best = (caught - fpr).argmax()
        trial.set_user_attr("threshold", thresholds[best])
        return float((1 + caught[best] - fpr[best]) / 2 + average_precision_score(y[validation], share)) / 2

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(trial_score, trials)
    best = study.best_trial.user_attrs
    return _abnormal_probability(model, best["params"], x, y, x_test, seed) >= best.get("threshold", 0.5)


def _abnormal_probability(  # noqa: PLR0917
    model: str, params: dict[str, Any], x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int
) -> np.ndarray:
    from imblearn.under_sampling import RandomUnderSampler
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    x, x_test = (side[:, :, : params["components"]].reshape(len(side), -1) for side in (x, x_test))
    if params["rate"] is not None and params["rate"] > y.mean() / (1 - y.mean()):
        x, y = RandomUnderSampler(sampling_strategy=params["rate"], random_state=seed).fit_resample(x, y)
    costs = {0: 1.0, 1: params["cost_ratio"]}
    if model == "tan":
        return _tan_probability(x, y, x_test, params["cost_ratio"])
    if model == "similarity-logistic":
        return _differing_probability(x, y, x_test, costs, seed)
    classifier = {
        "decision-tree": DecisionTreeClassifier(min_samples_leaf=2, class_weight=costs, random_state=seed),
        "logistic": LogisticRegression(class_weight=costs, max_iter=1000),
    }[model]
    return classifier.fit(x, y).predict_proba(x_test)[:, 1]


def _tan_probability(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, cost: float) -> np.ndarray:
    import pandas as pd
    import pyagrum
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor

    pyagrum.setNumberOfThreads(1)
    names = [f"c{number}" for number in range(x.shape[1])]
    network = pyagrum_classifier(DiscreteTypeProcessor("quantile", BINS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network.fit(pd.DataFrame(x, columns=names), pd.Series(y, name="y"))
        share = np.asarray(network.predict_proba(pd.DataFrame(x_test, columns=names)))[:, 1]
    return cost * share / (cost * share + 1 - share)


def _differing_probability(
    x: np.ndarray, y: np.ndarray, x_test: np.ndarray, costs: dict[int, float], seed: int
) -> Any:
    from sklearn.linear_model import LogisticRegression

    weights = np.random.default_rng(seed).normal(0, 0.1, x.shape[1] // 2 + 1)
    regression = LogisticRegression(warm_start=True, max_iter=200)
    climb = em_steps(x, y, weights, np.where(y == 1, costs[1], costs[0]), regression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for new_weights in islice(climb, ITERATIONS):
            before, weights = weights, new_weights
            if np.abs(weights - before).max() < WEIGHT_TOLERANCE:
                break
    return differing_probability(x_test, weights)


JOBS = 2
#: Folds and groups for which the plain script is timed.
PART_FOLDS, PART_GROUPS = 1, 2
SIZES = (20_000, 60_000, 200_000)
COLUMNS = {
    "classifier": "", "perfjudge, s": ".1f", "plain script, part, s": ".1f",
    "plain script, all folds and groups, s": ".0f", "times": ".1f",
    "perfjudge's balanced accuracy on the part": "", "plain script's on the part": "",
    "perfjudge's on all vectors": ".3f", "of pairs' differences": ".3f",
}  # fmt: skip
GROWTH = {"last / first": ".1f", "exponent": ".2f"}


def pooled_accuracy(judged: list[TaskResult]) -> float:
    """Return the balanced accuracy over the vectors of all folds together."""
    truth, verdict = (
        np.concatenate([getattr(result, name) for result in judged]) for name in ("truth", "verdict")
    )
    return float((verdict[truth].mean() + (~verdict[~truth]).mean()) / 2)


def with_counts(judged: TaskResult) -> str:
    """Return the balanced accuracy with the numbers of abnormal and of all vectors, as text."""
    return f"{pooled_accuracy([judged]):.3f} ({judged.truth.sum()} of {len(judged.truth):,} abnormal)"


def run_all_folds(scheme: Scheme) -> tuple[float, dict[str, list[TaskResult]]]:
    """Return the wall-clock seconds of all tasks, and the results of each classifier by fold."""
    tasks = [Task(model, fold, scheme) for model in CLASSIFIERS for fold in range(FOLDS)]
    seconds, results = time_call(lambda: side_by_side(run_engine, tasks, Compute(JOBS), "perfjudge"))
    folds = iter(results)
    return seconds, {model: list(islice(folds, FOLDS)) for model in CLASSIFIERS}


def comparison_table() -> Table:
    """Run the engine on all folds and the plain script on a part of one fold; return the table."""
    before = load_average()
    clock, results = run_all_folds(PAPER_SCHEME)
    contrast_clock, contrasted = run_all_folds(FULL)
    train, test = split_fold(tables_of(VECTORS), 0)
    rows: list[tuple[object, ...]] = []
    seconds = {}
    for model in CLASSIFIERS:
        engine_seconds = sum(result.seconds for result in results[model])
        common, part = run_plain_script(model, train, test, PART_GROUPS, COMPONENTS, TRIALS, SEED)
        same = results[model][0].of_groups(set(part.group))
        timed = common + part.seconds
        other = FOLDS * (common + part.seconds * GROUPS / PART_GROUPS)
        seconds[model] = np.array([engine_seconds, other])
        on_part, on_all = (
            map(with_counts, (same, part)),
            map(pooled_accuracy, (results[model], contrasted[model])),
        )
        rows.append((model, engine_seconds, timed, other, other / engine_seconds, *on_part, *on_all))
    for name, models in (("all", CLASSIFIERS), ("all but similarity-logistic", CLASSIFIERS[:-1])):
        engine_seconds, other = sum(seconds[model] for model in models)
        rows.append((name, engine_seconds, None, other, other / engine_seconds, *(None,) * 4))
    return Table(
        f"The engine on {VECTORS:,} synthetic vectors, {FOLDS} folds",
        COLUMNS,
        rows,
        [*_notes(clock, contrast_clock), load_note(before)],
    )


def _notes(clock: float, contrast_clock: float) -> list[str]:
    return f"""\
On the clock: {clock:.1f} s for all four classifiers and {FOLDS} folds on {JOBS} processes, making the \
matrices in each process included. Seconds in the table are of one thread on the processor.
With differences of pairs in place of vectors (`FULL`): {contrast_clock:.1f} s on the clock.
Synthetic: 200 raw metrics, {GROUPS} groups, 300 test cases, seed {SEED}; folds of test cases.
Both search {TRIALS} configurations of components (up to {COMPONENTS}), undersampling and cost ratio on a \
2:1 split of the training part, by test case, with classifiers by group.
Plain script: {PART_FOLDS} fold and {PART_GROUPS} of {GROUPS} groups were timed; their seconds were taken \
{FOLDS} times, those of groups {GROUPS / PART_GROUPS:.1f} times more.
Plain script: scikit-learn, imbalanced-learn's undersampling, pyagrum's TAN, and EM around scikit-learn's \
logistic regression; one thread.
The part: the first {PART_GROUPS} groups of the first fold, as the plain script was timed. Both were asked \
about all of their vectors; so few abnormal ones tell a large difference only.
Both cut the features of TAN into {BINS} levels of the same frequency.
The similarity logistic is counted by pairs of runs, the others by runs. Where a target run has no baseline \
run of its number, perfjudge takes another one, and the plain script none.
""".splitlines()


def growth_rows(sizes: list[int]) -> Iterator[tuple[object, ...]]:
    """Yield a row per classifier: seconds of one fold by number of vectors, their ratio and exponent."""
    # one size after the other, as `tables_of` caches a single size
    seconds = [
        [run_engine(Task(model, 0, PAPER_SCHEME, size)).seconds for model in CLASSIFIERS] for size in sizes
    ]
    for model, *model_seconds in zip(CLASSIFIERS, *seconds, strict=True):
        exponent = np.polyfit(np.log(sizes), np.log(model_seconds), 1)[0]
        yield model, *model_seconds, model_seconds[-1] / model_seconds[0], exponent


def main() -> None:
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--growth-only", action="store_true", help="leave the plain script out")
    options = parser.parse_args()
    with threadpool_limits(1):
        if not options.growth_only:
            comparison_table().publish("engine")
        # warm-up: imports are not timed
        for model in CLASSIFIERS:
            run_engine(Task(model, 0, vectors=min(options.sizes) // 4))
        sizes = options.sizes
        Table(
            "The engine's cost by the number of synthetic vectors",
            {"classifier": "", **{f"{size:,}, s": ".1f" for size in sizes}} | GROWTH,
            list(growth_rows(sizes)),
            [
                "Fit with search, and judgement, of one fold of ten on one thread; otherwise as engine.md.",
                f"{sizes[-1] / sizes[0]:.0f} times as many vectors; an exponent of 1 is linear growth.",
                f"{machine_line()}; load average {load_average():.1f} after.",
            ],
        ).publish("engine-growth")


if __name__ == "__main__":
    from benchmarks import engine  # noqa: PLW0406 - other processes look for its functions there

    engine.main()
