"""The comparative analysis engine beside a straightforward script, and its cost as vectors become more.

All numbers are of synthetic matrices in the shape of the analysis engine paper's data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.similarity import differing_probability, em_steps
from benchmarks.synthetic_matrices import GROUPS, VECTORS, generate
from benchmarks.table import SEED, Table, load_note, time_call
from benchmarks.tan import fit_pyagrum
from data.matrices.tables import MatrixTables
from data.parallel import Compute, side_by_side
from training.evaluation.metrics import score_verdicts
from training.matrices.engine.engine import Engine
from training.matrices.engine.models import CATALOGUE
from training.matrices.schemes import FULL, Cell, Scheme

FOLDS, TRIALS, COMPONENTS = 10, 10, 100
#: The scheme of the analysis engine paper: raw metrics, pruned, models by group, components, balanced.
PAPER_SCHEME = Scheme("raw", "flattened", prune=True, grouping="given", components=COMPONENTS, balance=True)
CLASSIFIERS = ("decision-tree", "logistic", "tan", "similarity-logistic")
#: Levels per metric of TAN: the engine's initial value, kept where only the imbalance is tuned.
BINS = int(CATALOGUE["tan"].start["levels"])
#: Most iterations of expectation-maximisation.
ITERATIONS = 20
JOBS = 2
#: Folds and groups for which the plain script is timed.
PART_FOLDS, PART_GROUPS = 1, 2
SIZES = [20_000, 60_000, 200_000]
COLUMNS = {
    "classifier": "", "perfjudge, s": ".1f", "plain script, part, s": ".1f",
    "plain script, all folds and groups, s": ".0f", "times": ".1f",
    "perfjudge's balanced accuracy on the part": "", "plain script's on the part": "",
    "perfjudge's on all vectors": ".3f", "of pairs' differences": ".3f",
}  # fmt: skip
KEYS = ["workload", "group", "side", "pair_id"]
Array = NDArray[Any]


class Task(NamedTuple):
    """One classifier on one fold of the test cases."""

    model: str
    fold: int
    scheme: Scheme = PAPER_SCHEME
    vectors: int = VECTORS


class TaskResult(NamedTuple):
    """Processor seconds of fit and judgement; label, verdict and workload group of each test vector."""

    seconds: float
    truth: Array
    verdict: Array
    group: Array

    def of_groups(self, groups: Collection[str]) -> TaskResult:
        chosen = np.isin(self.group, list(groups))
        return TaskResult(self.seconds, self.truth[chosen], self.verdict[chosen], self.group[chosen])

    @property
    def with_counts(self) -> str:
        return f"{pooled_accuracy([self]):.3f} ({self.truth.sum()} of {len(self.truth):,} abnormal)"


def pooled_accuracy(judged: list[TaskResult]) -> float:
    truth, verdict = (np.concatenate(side) for side in zip(*(one[1:3] for one in judged), strict=True))
    return score_verdicts(truth, verdict, None).balanced_accuracy


@lru_cache(maxsize=1)
def tables_of(vectors: int) -> MatrixTables:
    tables = generate(vectors, SEED)
    return tables.select_runs(tables.runs["valid"].to_numpy(bool))


def split_fold(tables: MatrixTables, fold: int) -> tuple[MatrixTables, MatrixTables]:
    case = tables.runs["workload"].str.extract(r"(\d+)$", expand=False).astype(int).to_numpy()
    test = (case // GROUPS) % FOLDS == fold
    return tables.select_runs(~test), tables.select_runs(test)


def run_engine(task: Task) -> TaskResult:
    train, test = split_fold(tables_of(task.vectors), task.fold)
    engine = Engine(Cell(task.model, task.scheme), TRIALS, SEED)
    seconds, (_, vectors) = time_call(
        lambda: engine.fit(train).judge_pairs_and_vectors(test), time.process_time
    )
    flags = test.runs.set_index("run_id")["abnormal"]
    truth = flags.reindex(vectors["run_id"]).fillna(False).to_numpy(bool)
    group = vectors["group"].to_numpy(object)
    return TaskResult(seconds, truth, vectors["abnormal"].to_numpy(bool), group)


def run_all_folds(scheme: Scheme) -> tuple[float, dict[str, list[TaskResult]]]:
    tasks = [Task(model, fold, scheme) for model in CLASSIFIERS for fold in range(FOLDS)]
    seconds, results = time_call(lambda: side_by_side(run_engine, tasks, Compute(JOBS), "perfjudge"))
    folds = iter(results)
    return seconds, {model: list(islice(folds, FOLDS)) for model in CLASSIFIERS}


class PlainScript(NamedTuple):
    """One classifier, fitted group by group after a search, with plain scikit-learn."""

    model: str

    def run(self, train: MatrixTables, test: MatrixTables, groups: int) -> tuple[float, TaskResult]:
        """Standardise and project all groups once, then search and fit the first `groups` groups one by one.

        Returns the processor seconds of the common preparation, and the result, whose seconds are those of
        these groups alone.
        """
        common, prepared = time_call(lambda: self._prepare(train, test), time.process_time)
        x, runs, y, x_test, of_asked, truth = prepared

        def judge_groups() -> list[tuple[Array, Array]]:
            judged = []
            for group in sorted(runs["group"].unique())[:groups]:
                rows, new = (np.flatnonzero(side["group"] == group) for side in (runs, of_asked))
                workload = runs["workload"].to_numpy()[rows]
                judged.append((new, self._judge_group(x[rows], y[rows], workload, x_test[new])))
            return judged

        seconds, judged = time_call(judge_groups, time.process_time)
        positions, verdicts = (np.concatenate(parts) for parts in zip(*judged, strict=True))
        group = of_asked["group"].to_numpy(object)[positions]
        return common, TaskResult(seconds, truth[positions].astype(bool), verdicts, group)

    def _prepare(self, *parts: MatrixTables) -> list[Any]:
        """Return components, runs and labels of both parts; runs are paired for the similarity logistic."""
        from sklearn.decomposition import PCA
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        metrics, sides = parts[0].raw_metrics, list[Any]()
        project = make_pipeline(StandardScaler(), PCA(COMPONENTS, random_state=SEED))
        project.fit(parts[0].runs[metrics])
        for tables in parts:
            x = project.transform(tables.runs[metrics])[:, None, :]
            runs = tables.runs[KEYS].reset_index(drop=True)
            y = tables.runs["abnormal"].fillna(False).to_numpy(int)
            if self.model == "similarity-logistic":
                number = runs.groupby(["pair_id", "side"]).cumcount()
                numbered = runs.assign(number=number, row=runs.index)
                target, baseline = (numbered[numbered["side"] == side] for side in ("target", "baseline"))
                runs = target.merge(baseline, on=["pair_id", "number"], suffixes=("", "_baseline"))
                x, y = np.hstack([x[runs["row_baseline"]], x[runs["row"]]]), y[runs["row"]]
            sides += [x, runs, y]
        return sides

    def _judge_group(self, x: Array, y: Array, workload: Array, x_test: Array) -> Array:
        """Search on a 2:1 split by test case, refit with the best parameters and judge `x_test`."""
        import optuna
        from sklearn.metrics import average_precision_score, roc_curve
        from sklearn.model_selection import GroupShuffleSplit

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        splitter = GroupShuffleSplit(1, test_size=1 / 3, random_state=SEED)
        fit, validation = next(splitter.split(x, y, workload))

        def trial_score(trial: Any) -> float:
            params = {
                "components": trial.suggest_categorical("components", [100, 50, 25, 12, 6]),
                "rate": trial.suggest_categorical("rate", [None, 0.1, 0.2, 0.5, 1.0]),
                "cost_ratio": trial.suggest_float("cost_ratio", 1.0, 64.0, log=True),
            }
            trial.set_user_attr("params", params)
            if len(np.unique(y[validation])) == 1 or len(np.unique(y[fit])) == 1:
                return 0.0
            share = self._probability(params, x[fit], y[fit], x[validation])
            fpr, caught, thresholds = roc_curve(y[validation], share)
            best = (caught - fpr).argmax()
            trial.set_user_attr("threshold", thresholds[best])
            precision = average_precision_score(y[validation], share)
            return float((1 + caught[best] - fpr[best]) / 2 + precision) / 2

        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED))
        study.optimize(trial_score, TRIALS)
        best = study.best_trial.user_attrs
        return self._probability(best["params"], x, y, x_test) >= best.get("threshold", 0.5)

    def _probability(self, params: dict[str, Any], x: Array, y: Array, x_test: Array) -> Array:
        from imblearn.under_sampling import RandomUnderSampler
        from sklearn.linear_model import LogisticRegression
        from sklearn.tree import DecisionTreeClassifier

        x, x_test = (side[:, :, : params["components"]].reshape(len(side), -1) for side in (x, x_test))
        rate, cost = params["rate"], params["cost_ratio"]
        if rate is not None and rate > y.mean() / (1 - y.mean()):
            x, y = RandomUnderSampler(sampling_strategy=rate, random_state=SEED).fit_resample(x, y)
        costs = {0: 1.0, 1: cost}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.model == "tan":
                import pyagrum

                pyagrum.setNumberOfThreads(1)
                frames = [pd.DataFrame(side).add_prefix("c") for side in (x, x_test)]
                share = fit_pyagrum("quantile", frames[0], pd.Series(y, name="y"), frames[1]).probability
                return cost * share / (cost * share + 1 - share)
            if self.model == "similarity-logistic":
                weights = np.random.default_rng(SEED).normal(0, 0.1, x.shape[1] // 2 + 1)
                regression = LogisticRegression(warm_start=True, max_iter=200)
                climb = em_steps(x, y, weights, np.where(y == 1, cost, 1.0), regression)
                for weights, is_still in islice(climb, ITERATIONS):  # noqa: B007 - the last ones count
                    if is_still:
                        break
                return differing_probability(x_test, weights)
        classifier: Any = LogisticRegression(class_weight=costs, max_iter=1000)
        if self.model == "decision-tree":
            classifier = DecisionTreeClassifier(min_samples_leaf=2, class_weight=costs, random_state=SEED)
        return classifier.fit(x, y).predict_proba(x_test)[:, 1]


def comparison_table() -> Table:
    (clock, results), (contrast_clock, contrasted) = run_all_folds(PAPER_SCHEME), run_all_folds(FULL)
    train, test = split_fold(tables_of(VECTORS), 0)
    rows, seconds = list[tuple[object, ...]](), {}
    for model in CLASSIFIERS:
        common, part = PlainScript(model).run(train, test, PART_GROUPS)
        same = results[model][0].of_groups(set(part.group))
        engine = sum(result.seconds for result in results[model])
        other = FOLDS * (common + part.seconds * GROUPS / PART_GROUPS)
        seconds[model] = np.array([engine, other])
        pooled = pooled_accuracy(results[model]), pooled_accuracy(contrasted[model])
        times = engine, common + part.seconds, other, other / engine
        rows.append((model, *times, same.with_counts, part.with_counts, *pooled))
    for name, models in (("all", CLASSIFIERS), ("all but similarity-logistic", CLASSIFIERS[:-1])):
        engine, other = sum(seconds[model] for model in models)
        rows.append((name, engine, None, other, other / engine, *(None,) * 4))
    notes = f"""
    - On the clock: {clock:.1f} s for all four classifiers and {FOLDS} folds on {JOBS} processes, making the
      matrices in each process included. Seconds in the table are of one thread on the processor.
    - With differences of pairs in place of vectors (`FULL`): {contrast_clock:.1f} s on the clock.
    - Synthetic: 200 raw metrics, {GROUPS} groups, 300 test cases, seed {SEED}; folds of test cases.
    - Both search {TRIALS} configurations of components (up to {COMPONENTS}), undersampling and cost ratio on
      a 2:1 split of the training part, by test case, with classifiers by group.
    - Plain script: {PART_FOLDS} fold and {PART_GROUPS} of {GROUPS} groups were timed; their seconds were
      taken {FOLDS} times, those of groups {GROUPS / PART_GROUPS:.1f} times more.
    - Plain script: scikit-learn, imbalanced-learn's undersampling, pyagrum's TAN, and EM around
      scikit-learn's logistic regression; one thread.
    - The part: the first {PART_GROUPS} groups of the first fold, as the plain script was timed. Both were
      asked about all of their vectors; so few abnormal ones tell a large difference only.
    - Both cut the features of TAN into {BINS} levels of the same frequency.
    - The similarity logistic is counted by pairs of runs, the others by runs. Where a target run has no
      baseline run of its number, perfjudge takes another one, and the plain script none.
    - {load_note()}
    """
    return Table(f"The engine on {VECTORS:,} synthetic vectors, {FOLDS} folds", COLUMNS, rows, notes)


def growth_table(sizes: list[int]) -> Table:
    """Return a row per classifier: seconds of one fold by number of vectors, their ratio and exponent."""
    # warm-up: imports are not timed
    for model in CLASSIFIERS:
        run_engine(Task(model, 0, vectors=min(sizes) // 4))
    # one size after the other, as `tables_of` caches a single size
    seconds = [[run_engine(Task(model, 0, vectors=size)).seconds for model in CLASSIFIERS] for size in sizes]
    rows = [
        (model, *of_model, of_model[-1] / of_model[0], np.polyfit(np.log(sizes), np.log(of_model), 1)[0])
        for model, *of_model in zip(CLASSIFIERS, *seconds, strict=True)
    ]
    columns = {"classifier": "", **{f"{size:,}, s": ".1f" for size in sizes}}
    notes = [
        "Fit with search, and judgement, of one fold of ten on one thread; otherwise as engine.md.",
        f"{sizes[-1] / sizes[0]:.0f} times as many vectors; an exponent of 1 is linear growth.",
        load_note(),
    ]
    title = "The engine's cost by the number of synthetic vectors"
    return Table(title, columns | {"last / first": ".1f", "exponent": ".2f"}, rows, notes)


def main() -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        comparison_table().publish("engine")
        growth_table(SIZES).publish("engine-growth")


if __name__ == "__main__":
    from benchmarks import engine  # noqa: PLW0406 - other processes look for its functions there

    engine.main()
