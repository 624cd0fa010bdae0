"""Tree-augmented naive Bayes beside pyagrum and pgmpy: time, tree, accuracy and memory.

Run it with ``uv run --group benchmarks python -m benchmarks.tan``; it writes ``docs/results/tan.md``. In the
stated shape it takes the peers a quarter of an hour.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import Table, machine
from training.estimators.tan import TAN
from training.evaluation.threshold import best_cut

COMMAND = "uv run --group benchmarks python -m benchmarks.tan"
SEED = 20261121
BINS = 5
ABNORMAL = 0.2
#: How often a feature repeats its parent, and how much more often where the class is abnormal (every tenth).
REPEATS, MORE = 0.3, 0.3

COLUMNS = (
    "library",
    "fit, s",
    "predict, s",
    "times perfjudge's fit and predict",
    "tree",
)

Levels = NDArray[np.int64]
Edges = frozenset[frozenset[int]]


@dataclass(frozen=True)
class Problem:
    """Levels to learn from and levels to judge, drawn from the same tree."""

    x: Levels
    y: Levels
    asked: Levels
    truth: Levels


@dataclass(frozen=True)
class Run:
    """What one library did.

    Attributes
    ----------
    fit, predict : float
        Seconds.
    edges : frozenset
        Of the tree over the features, undirected.
    probability : ndarray
        Of the second class, for the first rows that were asked.
    """

    name: str
    fit: float
    predict: float
    edges: Edges
    probability: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """Fit and predict together."""
        return self.fit + self.predict

    def row(self, ours: Run, truth: Levels, common: int) -> tuple[str, ...]:
        """Return its row in the table, beside the run `ours`; all answered for the first `common` rows."""
        asked = len(self.probability)
        return (
            self.name,
            f"{self.fit:.2f}",
            f"{self.predict:.2f} ({asked:,} rows)",
            f"{self.seconds / ours.seconds:.0f}",
            "the same" if self.edges == ours.edges else "another",
            *_accuracy(self.probability[:common], truth),
            *(_accuracy(self.probability, truth) if asked == len(truth) else ("", "")),
        )


def _accuracy(probability: NDArray[np.float64], truth: Levels) -> tuple[str, str]:
    """Return balanced accuracy at the best threshold for these very rows, and area under ROC."""
    from sklearn.metrics import roc_auc_score

    own = truth[: len(probability)]
    return f"{best_cut(own, probability).balanced_accuracy:.4f}", f"{roc_auc_score(own, probability):.4f}"


def problem(rows: int, features: int, seed: int = SEED) -> Problem:
    """Draw levels in which a feature repeats an earlier one, some the more often in the abnormal class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(2 * rows) < ABNORMAL).astype(np.int64)
    x = rng.integers(0, BINS, (2 * rows, features))
    for feature in range(1, features):
        share = REPEATS + MORE * y * (feature % 10 == 0)
        repeats = rng.random(2 * rows) < share
        x[repeats, feature] = x[repeats, rng.integers(feature)]
    return Problem(x[:rows], y[:rows], x[rows:], y[rows:])


def ours(given: Problem) -> Run:
    """Fit and ask `training.estimators.tan.TAN` on one thread; the run of median seconds, of three."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return sorted((_once(given) for _ in range(3)), key=lambda run: run.seconds)[1]


def _once(given: Problem) -> Run:
    x, asked = given.x.astype(np.float64), given.asked.astype(np.float64)
    start = time.perf_counter()
    model = TAN(BINS).fit(x, given.y)
    fitted = time.perf_counter()
    probability = model.predict_proba(asked)[:, 1]
    done = time.perf_counter()
    parents = enumerate(model.parents_.tolist())
    edges = frozenset(frozenset(edge) for edge in parents if edge[1] >= 0)
    return Run("perfjudge", fitted - start, done - fitted, edges, probability)


def by_pyagrum(given: Problem) -> Run:
    """Fit and ask pyagrum's classifier."""
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor
    from pyagrum.skbn import BNClassifier

    as_they_are = DiscreteTypeProcessor("NoDiscretization", None)
    model = BNClassifier(type_processor=as_they_are, learningMethod="TAN", prior="Smoothing", priorWeight=1)
    start = time.perf_counter()
    model.fit(_frame(given.x), pd.Series(given.y, name="y"))
    fitted = time.perf_counter()
    probability = model.predict_proba(_frame(given.asked))[:, 1]
    done = time.perf_counter()
    names = [(model.bn_.variable(a).name(), model.bn_.variable(b).name()) for a, b in model.bn_.arcs()]
    return Run("pyagrum", fitted - start, done - fitted, _edges(names), np.asarray(probability))


def by_pgmpy(given: Problem, asked: int) -> Run:
    """Fit pgmpy's tree and tables, and ask it about the first `asked` rows."""
    with warnings.catch_warnings():
        # it warns of its own modules' future names at import
        warnings.simplefilter("ignore")
        from pgmpy.estimators import TreeSearch
        from pgmpy.models import DiscreteBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    frame = _frame(given.x).assign(y=given.y)
    start = time.perf_counter()
    # without a root, pgmpy computes all weights twice
    tree = TreeSearch(frame, root_node="m0").estimate("tan", class_node="y", show_progress=False)
    model = DiscreteBayesianNetwork(tree.edges())
    model.fit(frame, estimator=DiscreteBayesianEstimator(prior_type="K2"))
    fitted = time.perf_counter()
    probability = model.predict_probability(_frame(given.asked[:asked]))["y_1"].to_numpy()
    done = time.perf_counter()
    return Run("pgmpy", fitted - start, done - fitted, _edges(tree.edges()), probability)


def memory(given: Problem) -> float:
    """Return the peak of what fit and predict allocate, as a multiple of the data's size."""
    x = given.x.astype(np.float64)
    tracemalloc.start()
    TAN(BINS).fit(x, given.y).predict(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / x.nbytes


def _frame(x: Levels) -> pd.DataFrame:
    return pd.DataFrame(x, columns=[f"m{feature}" for feature in range(x.shape[1])])


def _edges(names: list[tuple[str, str]]) -> Edges:
    return frozenset(frozenset(int(name[1:]) for name in edge) for edge in names if "y" not in edge)


def main() -> None:
    """Measure, print and write the table."""
    from rich.progress import track

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--pgmpy-asked", type=int, default=100, help="rows that pgmpy is asked about")
    options = parser.parse_args()
    given, load = problem(options.rows, options.features), os.getloadavg()[0]
    steps = (ours, by_pyagrum, lambda given: by_pgmpy(given, options.pgmpy_asked))
    runs = [step(given) for step in track(steps, "Tree-augmented naive Bayes", transient=True)]
    common = min(len(run.probability) for run in runs)
    Table(
        f"Tree-augmented naive Bayes, {options.rows:,} x {options.features} in {BINS} levels",
        COMMAND,
        (
            *COLUMNS,
            f"balanced accuracy, first {common:,} rows",
            "area under ROC",
            f"balanced accuracy, all {options.rows:,} rows",
            "area under ROC",
        ),
        [run.row(runs[0], given.truth, common) for run in runs],
        [
            f"Synthetic levels drawn from a tree, {ABNORMAL:.0%} abnormal, seed {SEED}.",
            f"{options.rows:,} rows to learn from, and {options.rows:,} others to judge.",
            "perfjudge: one thread, the median of three runs; the peers run once, with all their threads.",
            f"pgmpy is asked about the first {options.pgmpy_asked:,} rows only, since each takes it long.",
            "Balanced accuracy: each at the threshold that is best for it on the very rows that are counted.",
            f"Memory that perfjudge allocates at its peak: {memory(given):.2f} times the data.",
            f"{machine()}; load average {load:.1f} before and {os.getloadavg()[0]:.1f} after.",
        ],
    ).publish("tan")


if __name__ == "__main__":
    main()
