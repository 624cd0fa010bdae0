"""Where a climb of the likelihood of similarity logistic starts, and two ways up: EM, and L-BFGS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from training.estimators.similarity.likelihood import Floats, Pairs

#: Earlier steps that an accelerated one is made of.
_MEMORY = 10
#: Newton steps within one maximisation at most; it ends where one gains this share of the first.
_INNER, PRECISE, _HALVINGS = 50, 1e-3, 40
#: A gain that is a smaller share of the likelihood cannot be told from rounding.
_ROUNDING = 1e-13
#: A gradient per unit of weight that is as good as none.
_NEARLY = 1e-6
#: Where the search may start: as many of the leading directions, each at the best of these sizes.
DIRECTIONS, _SIZES = 4, (0.5, 1.0, 2.0, 4.0)
#: Pairs on which the start is sought.
SOUGHT = 4000
#: How many starts are kept after so many iterations more of each.
_ROUNDS = ((2, 2), (1, 8))


@dataclass
class Climb:
    """How far a search has come."""

    weights: Floats
    history: list[float] = field(default_factory=list)
    iterations: int = 0
    converged: bool = False


class Curvature:
    """A factorised Hessian that is kept until its steps no longer pay."""

    def __init__(self, pairs: Pairs, scores: Floats) -> None:
        self.pairs = pairs
        self.refresh(scores)

    def refresh(self, scores: Floats) -> None:
        """Factorise the Hessian at `scores`."""
        from scipy.linalg import cho_factor

        matrix = self.pairs.curvature(scores)
        # without a penalty, a constant feature has no curvature
        matrix[np.diag_indices_from(matrix)] += 1e-10 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
        self.factor = cho_factor(matrix)

    def step(self, gradient: Floats) -> Floats:
        """Return Newton's step."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self.factor, gradient))


def maximise(pairs: Pairs, weights: Floats, scores: Floats, curvature: Curvature) -> tuple[Floats, Floats]:
    """Take one E step, and the M step from `weights` on; return the new weights and their scores."""
    hidden = pairs.hidden(scores)
    value = pairs.expected(weights, scores, hidden)
    last, enough = np.inf, 0.0
    for turn in range(_INNER):
        gradient = pairs.gradient(weights, scores, hidden)
        step = curvature.step(gradient)
        gain = float(gradient @ step)
        if turn == 0:
            enough = max(gain * PRECISE, abs(value) * _ROUNDING)
        if gain <= enough:
            break
        if gain > last / 4:
            curvature.refresh(scores)
            step = curvature.step(gradient)
        last = gain
        for _ in range(_HALVINGS):
            ahead = weights + step
            ahead_scores = pairs.rows @ ahead
            ahead_value = pairs.expected(ahead, ahead_scores, hidden)
            if ahead_value >= value:
                break
            step /= 2
        else:
            break
        weights, scores, value = ahead, ahead_scores, ahead_value
    return weights, scores


def expectation_maximisation(pairs: Pairs, start: Floats, tol: float, max_iter: int) -> Climb:
    """Climb by accelerated EM."""
    found = Climb(start)
    scores = pairs.rows @ start
    value = pairs.likelihood(start, scores)
    found.history.append(value)
    curvature = Curvature(pairs, scores)
    past: list[tuple[Floats, Floats]] = []
    bound = tol * float(pairs.cost.sum()) / 2
    for found.iterations in range(1, max_iter + 1):
        reached, reached_scores = maximise(pairs, found.weights, scores, curvature)
        reached_value = pairs.likelihood(reached, reached_scores)
        past = [*past[-_MEMORY:], (found.weights, reached - found.weights)]
        ahead = _extrapolated(past)
        ahead_scores = pairs.rows @ ahead
        ahead_value = pairs.likelihood(ahead, ahead_scores)
        if ahead_value > reached_value:
            reached, reached_scores, reached_value = ahead, ahead_scores, ahead_value
        if reached_value <= value:
            # an M step raises the likelihood as long as double precision can tell
            found.converged = True
            break
        found.weights, scores, value = reached, reached_scores, reached_value
        found.history.append(value)
        if np.abs(pairs.gradient(reached, scores, pairs.hidden(scores))).max() <= bound:
            found.converged = True
            break
    return found


def _extrapolated(past: list[tuple[Floats, Floats]]) -> Floats:
    """Return where the steps would vanish if they changed linearly (Anderson's acceleration)."""
    points = np.array([point for point, _ in past])
    steps = np.array([step for _, step in past])
    changes = np.diff(steps, axis=0)
    shares, *_ = np.linalg.lstsq(changes.T, steps[-1], rcond=1e-10)
    return np.asarray(points[-1] + steps[-1] - shares @ (np.diff(points, axis=0) + changes))


def direct(pairs: Pairs, start: Floats, tol: float, max_iter: int) -> Climb:
    """Climb the likelihood of the labels by L-BFGS, in coordinates in which it is about equally curved."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import minimize

    total = float(pairs.cost.sum()) / 2
    scores = pairs.rows @ start
    found = Climb(start, [pairs.likelihood(start, scores)])
    matrix = pairs.curvature(scores) / total
    matrix[np.diag_indices_from(matrix)] += 1e-10
    root = cholesky(matrix)

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        weights = solve_triangular(root, point)
        scores = pairs.rows @ weights
        gradient = pairs.gradient(weights, scores, pairs.hidden(scores))
        turned = solve_triangular(root, gradient, trans="T")
        return -pairs.likelihood(weights, scores) / total, -turned / total

    def note(intermediate_result: Any) -> None:
        found.history.append(-float(intermediate_result.fun) * total)

    result = minimize(
        value_and_gradient,
        root @ start,
        jac=True,
        method="L-BFGS-B",
        callback=note,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20},
    )
    found.weights = solve_triangular(root, result.x)
    found.iterations = int(result.nit)
    # near the top, rounding may end a line search before the gradient is as small as asked
    found.converged = bool(result.success or np.abs(result.jac).max() <= _NEARLY)
    return found


def start_of(pairs: Pairs, most: int) -> Floats:
    """Return where a few EM iterations from a few directions and sizes lead; see `SimilarityLogistic`.

    Parameters
    ----------
    pairs : Pairs
        About `SOUGHT` of them are looked at.
    most : int
        How many starts are compared; 1: that of the highest likelihood is taken as it is.

    Returns
    -------
    ndarray of shape (n_weights,)
    """
    pairs = pairs.some(SOUGHT)
    starts = [
        sized for direction in _directions(pairs) if (sized := _best_size(pairs, direction)) is not None
    ]
    if not starts:
        return np.zeros(pairs.rows.shape[1])
    if most < len(starts):
        starts.sort(key=lambda start: -pairs.likelihood(start, pairs.rows @ start))
        starts = starts[:most]
    if most == 1:
        return starts[0]
    for kept, iterations in _ROUNDS:
        climbs = [expectation_maximisation(pairs, start, 0.0, iterations) for start in starts]
        climbs.sort(key=lambda found: -found.history[-1])
        starts = [found.weights for found in climbs[:kept]]
    return starts[0]


def _best_size(pairs: Pairs, direction: Floats) -> Floats | None:
    scores = pairs.rows @ direction
    size = float(np.sqrt(pairs.cost @ scores**2 / pairs.cost.sum()))
    if not size > 0:
        return None
    factor = max(
        _SIZES, key=lambda wanted: pairs.likelihood(direction * wanted / size, scores * wanted / size)
    )
    return direction * (factor / size)


def _directions(pairs: Pairs) -> Iterator[Floats]:
    from scipy.linalg import eigh

    n, width = len(pairs.dissimilar), pairs.rows.shape[1]
    weighed = pairs.rows * np.sqrt(pairs.cost)[:, None]
    spread = weighed.T @ weighed / pairs.cost.sum() + 1e-8 * np.eye(width)
    cost = pairs.cost[:n] / pairs.cost[:n].sum()
    sign = np.where(pairs.dissimilar, -1.0, 1.0)
    label = 1.0 - float(cost @ sign) * sign
    product = pairs.rows[:n].T @ (pairs.rows[n:] * (cost * label)[:, None])
    _, vectors = eigh(product + product.T, spread, subset_by_index=[max(0, width - DIRECTIONS), width - 1])
    yield from vectors.T[::-1]
    # baselines are 0, targets are their label; the opposite sign of the dissimilar ones makes all the same
    yield np.linalg.solve(spread, pairs.cost @ pairs.rows)
