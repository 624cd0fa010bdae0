"""Similarity logistic beside a plain EM loop around scikit-learn's logistic regression.

Run it with ``uv run python -m benchmarks.similarity``; it writes ``docs/results/similarity.md``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Table, machine
from training.estimators.similarity import SimilarityLogistic

COMMAND = "uv run python -m benchmarks.similarity"
SEED = 20261121
RIDGE = 1.0
#: Of the true weights, and of the baseline in its target.
LENGTH, LIKENESS, INTERCEPT = 3.0, 0.8, -2.0
#: Plain EM usually ends where no weight moves by more.
STILL = 1e-3
REPEATS = 3
COLUMNS = (
    "way",
    "processor seconds",
    "iterations",
    "times",
    "penalised log-likelihood",
    "largest difference of a weight",
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Pairs drawn from the model itself; `weights` with the intercept last."""

    x: Floats
    y: NDArray[np.int64]
    weights: Floats


@dataclass(frozen=True)
class Run:
    """What one way found; `weights` with the intercept last."""

    name: str
    seconds: float
    iterations: int
    weights: Floats

    def row(self, ours: Run, given: Problem) -> tuple[str, ...]:
        """Return its row in the table, beside the run `ours`."""
        apart = min(np.abs(sign * self.weights - ours.weights).max() for sign in (1, -1))
        return (
            self.name,
            f"{self.seconds:.2f}",
            str(self.iterations),
            f"{self.seconds / ours.seconds:.1f}",
            f"{likelihood(given, self.weights):.4f}",
            f"{apart:.1e}",
        )


def problem(pairs: int, features: int) -> Problem:
    """Draw pairs whose targets resemble their baselines."""
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=features)
    weights *= LENGTH / np.linalg.norm(weights)
    baseline = rng.normal(size=(pairs, features))
    target = LIKENESS * baseline + np.sqrt(1 - LIKENESS**2) * rng.normal(size=(pairs, features))
    hidden = [rng.random(pairs) < _share(side @ weights + INTERCEPT) for side in (baseline, target)]
    different = (hidden[0] != hidden[1]).astype(np.int64)
    return Problem(np.hstack([baseline, target]), different, np.append(weights, INTERCEPT))


def likelihood(given: Problem, weights: Floats) -> float:
    """Return the penalised log-likelihood of the labels, as the seed writes the model."""
    p, q = (_share(side @ weights[:-1] + weights[-1]) for side in np.hsplit(given.x, 2))
    differ = p * (1 - q) + q * (1 - p)
    own = np.log(np.where(given.y == 1, differ, 1 - differ)).sum()
    return float(own - RIDGE / 2 * weights[:-1] @ weights[:-1])


def median_of(run: Callable[[], Run]) -> Run:
    """Do the same `REPEATS` times and return the run of median seconds; all end at the same weights."""
    return sorted((run() for _ in range(REPEATS)), key=lambda one: one.seconds)[REPEATS // 2]


def ours(given: Problem, solver: str) -> Run:
    """Fit `training.estimators.similarity.SimilarityLogistic`."""
    start = time.process_time()
    model = SimilarityLogistic(solver, ridge=RIDGE).fit(given.x, given.y)
    seconds = time.process_time() - start
    return Run(f"perfjudge, {solver}", seconds, model.n_iter_, np.append(model.coef_[0], model.intercept_))


def plain_em(given: Problem, most: int, goal: float | None = None) -> Run:
    """Alternate between Bayes' rule and scikit-learn's logistic regression.

    It starts at the true weights turned half-way towards noise, which is better than anyone would know, and
    each regression starts where the last one ended. The likelihood, by which the end at `goal` is told, is
    not in its seconds.

    Parameters
    ----------
    given : Problem
    most : int
        Iterations.
    goal : float, optional
        The log-likelihood at which it ends; without one it ends where no weight moves by `STILL`, as one
        would write it.
    """
    from sklearn.linear_model import LogisticRegression

    n, features = len(given.y), given.x.shape[1] // 2
    rows = np.vstack(np.hsplit(given.x, 2))
    twice, labels = np.vstack([rows, rows]), np.repeat([1, 0], 2 * n)
    noise = np.random.default_rng(SEED + 1).normal(size=features + 1)
    weights = given.weights + noise * np.linalg.norm(given.weights) / np.linalg.norm(noise)
    regression = LogisticRegression(C=1 / RIDGE, warm_start=True, max_iter=200)
    seconds, iterations, done = 0.0, 0, False
    while iterations < most and not done:
        start = time.process_time()
        p, q = (_share(side @ weights[:-1] + weights[-1]) for side in np.hsplit(given.x, 2))
        same, different = p * q + (1 - p) * (1 - q), p * (1 - q) + (1 - p) * q
        of_baseline = np.where(given.y == 1, p * (1 - q) / different, p * q / same)
        of_target = np.where(given.y == 1, q * (1 - p) / different, p * q / same)
        share = np.concatenate([of_baseline, of_target])
        regression.fit(twice, labels, sample_weight=np.concatenate([share, 1 - share]))
        before, weights = weights, np.append(regression.coef_[0], regression.intercept_)
        done = bool(np.abs(weights - before).max() < STILL)
        seconds += time.process_time() - start
        iterations += 1
        if goal is not None:
            done = likelihood(given, weights) >= goal
    end = f"until no weight moves by {STILL:g}" if goal is None else "towards the same likelihood"
    return Run(f"plain EM, {end}", seconds, iterations, weights)


def _share(scores: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-scores)))


def main() -> None:
    """Measure, print and write the table."""
    from rich.progress import track
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument(
        "--short-of", type=float, default=0.01, help="of the log-likelihood: plain EM ends there"
    )
    parser.add_argument("--most", type=int, default=500, help="iterations of plain EM")
    options = parser.parse_args()
    given, load = problem(options.pairs, options.features), os.getloadavg()[0]
    with threadpool_limits(1):
        em = median_of(lambda: ours(given, "em"))
        goal = likelihood(given, em.weights) - options.short_of
        steps = (
            lambda: ours(given, "direct"),
            lambda: plain_em(given, options.most, goal),
            lambda: plain_em(given, options.most),
        )
        others = [median_of(step) for step in track(steps, "Similarity logistic", transient=True)]
    Table(
        f"Similarity logistic, {options.pairs:,} pairs x {options.features} features",
        COMMAND,
        COLUMNS,
        [run.row(em, given) for run in (em, *others)],
        [
            f"Synthetic pairs, {given.y.mean():.1%} dissimilar, seed {SEED}; ridge {RIDGE:g}.",
            "Plain EM: Bayes' rule, then LogisticRegression on every row as 1 and as 0, warm start.",
            (
                f"Towards the same likelihood: it ends {options.short_of:g} short of perfjudge, or after"
                f" {options.most} iterations; the likelihood is computed outside the clock."
            ),
            "Plain EM starts nearer the true weights than could be known; perfjudge finds its own start.",
            f"Seconds of the processor, on one thread; the median of {REPEATS} runs of each.",
            "perfjudge's iterations that find its start are within its seconds, and not counted here.",
            f"{machine()}; load average {load:.1f} before and {os.getloadavg()[0]:.1f} after.",
        ],
    ).publish("similarity")


if __name__ == "__main__":
    main()
