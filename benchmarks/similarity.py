"""Similarity logistic compared with a plain EM loop around scikit-learn's logistic regression."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import typer
from scipy.special import expit

from benchmarks.table import SEED, Table, load_note, median_run, time_call
from data.comparisons.sides import Floats, Ints
from training.estimators.similarity_logistic import SimilarityLogistic

RIDGE = 1.0
#: Norm of the true weights, correlation of target and baseline, and intercept.
LENGTH, LIKENESS, INTERCEPT = 3.0, 0.8, -2.0
#: Plain EM usually ends when no weight moves by more.
WEIGHT_TOLERANCE = 1e-3
COLUMNS = {
    "way": "", "processor seconds": ".2f", "iterations": "d", "times": ".1f",
    "penalised log-likelihood": ".4f", "largest difference of a weight": ".1e",
}  # fmt: skip


class Problem(NamedTuple):
    """Pairs drawn from the model itself; the last entry of `weights` is the intercept."""

    x: Floats
    y: Ints
    weights: Floats

    def likelihood(self, weights: Floats) -> float:
        differ = differing_probability(self.x, weights)
        log_likelihood = np.log(np.where(self.y == 1, differ, 1 - differ)).sum()
        return float(log_likelihood - RIDGE / 2 * weights[:-1] @ weights[:-1])


class Run(NamedTuple):
    """The result of one solver; the last entry of `weights` is the intercept."""

    name: str
    seconds: float
    iterations: int
    weights: Floats


def draw_problem(pairs: int, features: int) -> Problem:
    """Draw pairs whose targets resemble their baselines."""
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=features)
    weights *= LENGTH / np.linalg.norm(weights)
    baseline = rng.normal(size=(pairs, features))
    target = LIKENESS * baseline + np.sqrt(1 - LIKENESS**2) * rng.normal(size=(pairs, features))
    hidden = [rng.random(pairs) < expit(side @ weights + INTERCEPT) for side in (baseline, target)]
    different = (hidden[0] != hidden[1]).astype(np.int64)
    return Problem(np.hstack([baseline, target]), different, np.append(weights, INTERCEPT))


def differing_probability(x: Floats, weights: Floats) -> Floats:
    """Return the probability that a pair's sides are of different classes, by the paper's formula."""
    p, q = (expit(side @ weights[:-1] + weights[-1]) for side in np.hsplit(x, 2))
    return p * (1 - q) + q * (1 - p)


def em_steps(
    x: Floats, y: Ints, weights: Floats, costs: Floats, regression: Any
) -> Iterator[tuple[Floats, bool]]:
    """Alternate between Bayes' rule and a regression; yield weights, and if none moved by the tolerance.

    `costs` are the weights of the pairs, `weights` the starting point; `regression` starts from its last fit.
    """
    rows = np.vstack(np.hsplit(x, 2))
    twice, labels = np.vstack([rows, rows]), np.repeat([1, 0], 2 * len(y))
    while True:
        p, q = (expit(side @ weights[:-1] + weights[-1]) for side in np.hsplit(x, 2))
        same, different = p * q + (1 - p) * (1 - q), p * (1 - q) + (1 - p) * q
        sides = ((p * (1 - q), p * q), (q * (1 - p), p * q))
        share = np.concatenate([np.where(y == 1, one / different, both / same) for one, both in sides])
        worth = np.tile(costs, 4) * np.concatenate([share, 1 - share])
        regression.fit(twice, labels, sample_weight=worth)
        before, weights = weights, np.append(regression.coef_[0], regression.intercept_)
        yield weights, bool(np.abs(weights - before).max() < WEIGHT_TOLERANCE)


def fit_perfjudge(drawn: Problem, solver: str) -> Run:
    fit = partial(SimilarityLogistic(solver, ridge=RIDGE).fit, drawn.x, drawn.y)
    seconds, model = time_call(fit, time.process_time)
    return Run(f"perfjudge, {solver}", seconds, model.n_iter_, np.append(model.coef_[0], model.intercept_))


def plain_em(drawn: Problem, max_iterations: int, goal: float | None = None) -> Run:
    """Run EM until the likelihood reaches `goal` or, without a goal, until no weight moves.

    It starts half-way between the true weights and noise, a better start than could be known, and each
    regression starts from the last one. Computing the likelihood to compare with `goal` is not timed.
    """
    from sklearn.linear_model import LogisticRegression

    noise = np.random.default_rng(SEED + 1).normal(size=len(drawn.weights))
    weights = drawn.weights + noise * np.linalg.norm(drawn.weights) / np.linalg.norm(noise)
    regression = LogisticRegression(C=1 / RIDGE, warm_start=True, max_iter=200)
    climb = em_steps(drawn.x, drawn.y, weights, np.ones(len(drawn.y)), regression)
    seconds, iterations = 0.0, 0
    for iterations in range(1, max_iterations + 1):  # noqa: B007 - their number is reported
        taken, (weights, is_still) = time_call(lambda: next(climb), time.process_time)
        seconds += taken
        if is_still if goal is None else drawn.likelihood(weights) >= goal:
            break
    end = f"until no weight moves by {WEIGHT_TOLERANCE:g}" if goal is None else "towards the same likelihood"
    return Run(f"plain EM, {end}", seconds, iterations, weights)


def main(pairs: int = 10_000, features: int = 200, short_of: float = 0.01, max_iterations: int = 500) -> None:
    """Measure, print and write the table.

    Plain EM ends after so many iterations at most, or so much short of the log-likelihood.
    """
    from rich.progress import track
    from threadpoolctl import threadpool_limits

    drawn = draw_problem(pairs, features)
    with threadpool_limits(1):
        em = median_run(partial(fit_perfjudge, drawn, "em"))
        goal = drawn.likelihood(em.weights) - short_of
        plain = partial(plain_em, drawn, max_iterations)
        ways = (partial(fit_perfjudge, drawn, "direct"), partial(plain, goal), plain)
        runs = [em, *(median_run(way) for way in track(ways, "Similarity logistic", transient=True))]
    rows = []
    for name, seconds, iterations, weights in runs:
        difference = min(np.abs(sign * weights - em.weights).max() for sign in (1, -1))
        times = seconds / em.seconds
        rows.append((name, seconds, iterations, times, drawn.likelihood(weights), difference))
    notes = f"""
    - Synthetic pairs, {drawn.y.mean():.1%} dissimilar, seed {SEED}; ridge {RIDGE:g}.
    - Plain EM: Bayes' rule, then LogisticRegression on every row as 1 and as 0, warm start.
    - Towards the same likelihood: it ends {short_of:g} short of perfjudge, or after {max_iterations}
      iterations; the likelihood is computed outside the clock.
    - Plain EM starts nearer the true weights than could be known; perfjudge finds its own start.
    - Seconds of the processor, on one thread; the median of three runs of each.
    - perfjudge's iterations that find its start are within its seconds, and not counted here.
    - {load_note()}
    """
    title = f"Similarity logistic, {pairs:,} pairs x {features} features"
    Table(title, COLUMNS, rows, notes).publish("similarity")


if __name__ == "__main__":
    typer.run(main)
