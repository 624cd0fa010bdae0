"""Tree-augmented naive Bayes compared with pyagrum and pgmpy: time, tree, accuracy and memory."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from benchmarks.table import SEED, Table, load_note, median_run, time_call
from data.comparisons.sides import Floats, Ints
from training.estimators.tan import TAN
from training.evaluation.thresholds import best_cut

BINS = 5
ABNORMAL = 0.2
#: How often a feature repeats an earlier one, and how much more often in the abnormal class (every tenth).
REPEATS, MORE = 0.3, 0.3
COLUMNS = {
    "library": "", "fit, s": ".2f", "predict, s": "", "times perfjudge's fit and predict": ".0f", "tree": "",
}  # fmt: skip
Edges = frozenset[frozenset[int]]


class Problem(NamedTuple):
    x: pd.DataFrame
    y: pd.Series
    x_test: pd.DataFrame
    truth: Ints


class Run(NamedTuple):
    """Seconds of fit and prediction, the tree's edges, and probabilities of the first test rows."""

    name: str
    fit: float
    predict: float
    edges: Edges
    probability: Floats

    @property
    def seconds(self) -> float:
        return self.fit + self.predict

    def row(self, ours: Run, truth: Ints, common: int) -> tuple[object, ...]:
        n_predicted = len(self.probability)
        tree = "the same" if self.edges == ours.edges else "another"
        cells = self.fit, f"{self.predict:.2f} ({n_predicted:,} rows)", self.seconds / ours.seconds, tree
        on_all = _accuracy(self.probability, truth) if n_predicted == len(truth) else (None, None)
        return self.name, *cells, *_accuracy(self.probability[:common], truth), *on_all


def _accuracy(probability: Floats, truth: Ints) -> tuple[float, float]:
    """Return balanced accuracy at the threshold that is best on these rows, and area under ROC."""
    from sklearn.metrics import roc_auc_score

    row_truth = truth[: len(probability)]
    return best_cut(row_truth, probability).balanced_accuracy, roc_auc_score(row_truth, probability)


def draw_problem(rows: int, features: int) -> Problem:
    """Draw levels where features often repeat earlier ones; some more often in the abnormal class."""
    rng = np.random.default_rng(SEED)
    y = (rng.random(2 * rows) < ABNORMAL).astype(np.int64)
    x = rng.integers(0, BINS, (2 * rows, features))
    for feature in range(1, features):
        share = REPEATS + MORE * y * (feature % 10 == 0)
        repeats = rng.random(2 * rows) < share
        x[repeats, feature] = x[repeats, rng.integers(feature)]
    levels = pd.DataFrame(x, columns=[f"m{feature}" for feature in range(features)])
    return Problem(levels[:rows], pd.Series(y[:rows], name="y"), levels[rows:], y[rows:])


def run_perfjudge(drawn: Problem) -> Run:
    """Fit `training.estimators.tan.TAN` on one thread and predict; return the run of median time of three."""
    from threadpoolctl import threadpool_limits

    x, x_test = drawn.x.to_numpy(np.float64), drawn.x_test.to_numpy(np.float64)

    def once() -> Run:
        fit, model = time_call(lambda: TAN(BINS).fit(x, drawn.y.to_numpy()))
        predict, probability = time_call(lambda: model.predict_proba(x_test)[:, 1])
        parents = enumerate(model.parents_.tolist())
        edges = frozenset(frozenset(edge) for edge in parents if edge[1] >= 0)
        return Run("perfjudge", fit, predict, edges, probability)

    with threadpool_limits(1):
        return median_run(once)


def fit_pyagrum(levels: str, x: pd.DataFrame, y: pd.Series, x_test: pd.DataFrame) -> Run:
    """Run pyagrum's classifier, smoothed as ours; `levels` is how it discretises numbers, as in `BINS`."""
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor
    from pyagrum.skbn import BNClassifier

    types = DiscreteTypeProcessor(levels, None if levels == "NoDiscretization" else BINS)
    model = BNClassifier(type_processor=types, learningMethod="TAN", prior="Smoothing", priorWeight=1)
    fit, _ = time_call(lambda: model.fit(x, y))
    predict, probability = time_call(lambda: model.predict_proba(x_test)[:, 1])
    names = [(model.bn_.variable(a).name(), model.bn_.variable(b).name()) for a, b in model.bn_.arcs()]
    return Run("pyagrum", fit, predict, _feature_edges(names), np.asarray(probability))


def run_pyagrum(drawn: Problem) -> Run:
    return fit_pyagrum("NoDiscretization", drawn.x, drawn.y, drawn.x_test)


def run_pgmpy(drawn: Problem, n_rows: int) -> Run:
    with warnings.catch_warnings():
        # pgmpy warns at import about future names of its modules
        warnings.simplefilter("ignore")
        from pgmpy.estimators import TreeSearch
        from pgmpy.models import DiscreteBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    frame = drawn.x.assign(y=drawn.y)

    def fitted() -> Any:
        # without a root, pgmpy computes all weights twice
        tree = TreeSearch(frame, root_node="m0").estimate("tan", class_node="y", show_progress=False)
        model = DiscreteBayesianNetwork(tree.edges())
        model.fit(frame, estimator=DiscreteBayesianEstimator(prior_type="K2"))
        return model

    fit, model = time_call(fitted)
    predict, answer = time_call(lambda: model.predict_probability(drawn.x_test[:n_rows]))
    return Run("pgmpy", fit, predict, _feature_edges(model.edges()), answer["y_1"].to_numpy())


def _feature_edges(names: Iterable[tuple[str, str]]) -> Edges:
    return frozenset(frozenset(int(name[1:]) for name in edge) for edge in names if "y" not in edge)


def relative_peak_memory(drawn: Problem) -> float:
    x = drawn.x.to_numpy(np.float64)
    tracemalloc.start()
    TAN(BINS).fit(x, drawn.y.to_numpy()).predict(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / x.nbytes


def main(rows: int = 20_000, features: int = 200, pgmpy_rows: int = 100) -> None:
    """Measure, print and write the table; pgmpy is asked about so many rows."""
    from rich.progress import track

    drawn = draw_problem(rows, features)
    steps = (run_perfjudge, run_pyagrum, lambda drawn: run_pgmpy(drawn, pgmpy_rows))
    runs = [step(drawn) for step in track(steps, "Tree-augmented naive Bayes", transient=True)]
    common = min(len(run.probability) for run in runs)
    counted = product((f"first {common:,}", f"all {rows:,}"), ("balanced accuracy", "area under ROC"))
    accuracies = [f"{what}, {which} rows" for which, what in counted]
    notes = f"""
    - Synthetic levels drawn from a tree, {ABNORMAL:.0%} abnormal, seed {SEED}.
    - {rows:,} rows to learn from, and {rows:,} others to judge.
    - perfjudge: one thread, the median of three runs; the peers run once, with all their threads.
    - pgmpy is asked about the first {pgmpy_rows:,} rows only, since each takes it long.
    - Balanced accuracy: each at the threshold that is best for it on the very rows that are counted.
    - Memory that perfjudge allocates at its peak: {relative_peak_memory(drawn):.2f} times the data.
    - {load_note()}
    """
    title = f"Tree-augmented naive Bayes, {rows:,} x {features} in {BINS} levels"
    cells = [run.row(runs[0], drawn.truth, common) for run in runs]
    Table(title, COLUMNS | dict.fromkeys(accuracies, ".4f"), cells, notes).publish("tan")


if __name__ == "__main__":
    typer.run(main)
