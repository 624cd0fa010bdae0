"""Similarity logistic: two logistic sub-models with shared weights predict whether a pair is alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from training.estimators.answering import Floats
from training.estimators.preparation import check_rows, check_training_rows


@dataclass(frozen=True)
class Pairs:
    """The penalised likelihood of labelled pairs, in standardised features.

    The target of a dissimilar pair is stored with the opposite sign, which turns Y' into its opposite. Then
    the hidden classes agree in every pair: P(label) = s(u) s(v) + s(-u) s(-v) with the scores u and v of its
    rows.
    """

    #: Shape (2 * n_pairs, n_weights): Baselines, then targets; the last column is 1 or -1, for the intercept.
    rows: Floats
    dissimilar: NDArray[np.bool_]  # shape (n_pairs,)
    cost: Floats  # shape (2 * n_pairs,): The weight of each pair, twice
    ridge: Floats  # shape (n_weights,): The penalty of each weight
    #: mean, scale: shape (n_features,): Of the features.
    mean: Floats
    scale: Floats

    @classmethod
    def from_sides(
        cls, baseline: Floats, target: Floats, dissimilar: NDArray[np.bool_], cost: Floats, penalty: float
    ) -> Self:
        """Return pairs with standardised features of `baseline` and `target`, shape (n_pairs, n_features).

        `dissimilar` and `cost` (the weight of a pair) have shape (n_pairs,); `penalty` is that of squared
        weights.
        """
        n, width = baseline.shape
        rows = np.empty((2 * n, width + 1))
        rows[:n, :width], rows[n:, :width] = baseline, target
        twice = np.concatenate([cost, cost])
        features = rows[:, :width]
        share = twice / twice.sum()
        mean = share @ features
        features -= mean
        spread = np.sqrt(np.einsum("i,ij,ij->j", share, features, features))
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
        features /= scale
        rows[:, width:] = 1.0
        rows[n:][dissimilar] *= -1
        ridge = np.zeros(rows.shape[1])
        ridge[:width] = penalty / scale**2
        return cls(rows, dissimilar, twice, ridge, mean, scale)

    def evenly_spaced(self, limit: int) -> Pairs:
        """Return at most `limit` evenly spaced pairs; their share of the weight reduces the penalty."""
        n = len(self.dissimilar)
        if n <= limit:
            return self
        chosen = np.linspace(0, n - 1, limit).astype(np.intp)
        twice = np.concatenate([chosen, n + chosen])
        ridge = self.ridge * (self.cost[twice].sum() / self.cost.sum())
        rows, dissimilar, cost = self.rows[twice], self.dissimilar[chosen], self.cost[twice]
        return replace(self, rows=rows, dissimilar=dissimilar, cost=cost, ridge=ridge)

    def unscale_weights(self, weights: Floats) -> tuple[Floats, float]:
        """Return coefficients and intercept in the features' original units, with the sign of `coef_`."""
        n, width = len(self.dissimilar), len(self.mean)
        scores = (self.rows @ weights) * self.cost
        rise = -(scores[n:] + scores[:n])[self.dissimilar].sum()
        turned = -weights if rise < 0 else weights
        coefficients = turned[:width] / self.scale
        intercept = turned[width:].sum() - coefficients @ self.mean
        return coefficients, float(intercept)

    def log_likelihood(self, weights: Floats, scores: Floats) -> float:
        """Return the penalised log-likelihood of the labels; scores are ``rows @ weights``."""
        u, v = np.split(scores, 2)
        log_probability = np.logaddexp(0.0, u + v) - np.logaddexp(0.0, u) - np.logaddexp(0.0, v)
        return float(self.cost[: len(u)] @ log_probability - self.ridge @ weights**2 / 2)

    def hidden_probability(self, scores: Floats) -> Floats:
        """Return the probability of the hidden classes given the labels (E step), shape (2 * n_pairs,)."""
        u, v = np.split(scores, 2)
        return np.tile(expit(u + v), 2)

    def gradient(self, weights: Floats, scores: Floats, hidden: Floats) -> Floats:
        """Return the gradient of the expected likelihood (or likelihood, with current `hidden`)."""
        rest = self.cost * (hidden - expit(scores))
        return np.asarray(rest @ self.rows - self.ridge * weights)

    def expected_likelihood(self, weights: Floats, scores: Floats, hidden: Floats) -> float:
        """Return the penalised expected log-likelihood, which the M step maximises."""
        terms = hidden * scores - np.logaddexp(0.0, scores)
        return float(self.cost @ terms - self.ridge @ weights**2 / 2)

    def negative_hessian(self, scores: Floats) -> Floats:
        """Return the negative Hessian of the expected likelihood."""
        share = expit(scores)
        # a product of a matrix with its transpose takes half the time of a general product
        rooted = self.rows * np.sqrt(self.cost * share * (1.0 - share))[:, None]
        return np.asarray(rooted.T @ rooted) + np.diag(self.ridge)


#: Number of earlier steps used for acceleration.
_MEMORY = 10
#: Largest number of Newton steps in an M step, the gain at which it ends as a share of the first, and the
#: largest number of step halvings.
_INNER, PRECISE, _HALVINGS = 50, 1e-3, 40
#: A gain below this share of the likelihood is a rounding error.
_ROUNDING = 1e-13
#: A gradient per unit of weight that counts as zero.
_NEARLY = 1e-6
#: Number of leading directions to start from, and the sizes that are tried for each.
DIRECTIONS, _SIZES = 4, (0.5, 1.0, 2.0, 4.0)
#: Largest number of pairs used to choose the start.
SOUGHT = 4000
#: Rounds of the choice: number of starts kept, and number of EM iterations before.
_ROUNDS = ((2, 2), (1, 8))


@dataclass
class Climb:
    """The result of an optimisation: weights, and the log-likelihood before and after its iterations."""

    weights: Floats
    history: list[float] = field(default_factory=list)
    iterations: int = 0
    converged: bool = False


class Curvature:
    """A factorised Hessian that is reused until its steps gain too little."""

    def __init__(self, pairs: Pairs, scores: Floats) -> None:
        self.pairs = pairs
        self.factorise_at(scores)

    def factorise_at(self, scores: Floats) -> None:
        """Factorise the Hessian at `scores`."""
        matrix = self.pairs.negative_hessian(scores)
        # without a penalty, a constant feature has no curvature
        matrix[np.diag_indices_from(matrix)] += 1e-10 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
        self.factor = cho_factor(matrix)

    def newton_step(self, gradient: Floats) -> Floats:
        """Return the Newton step for `gradient`; both have shape (n_weights,)."""
        return np.asarray(cho_solve(self.factor, gradient))


def em_iteration(
    pairs: Pairs, weights: Floats, scores: Floats, curvature: Curvature
) -> tuple[Floats, Floats]:
    """Return the weights after one E step and the M step that starts at `weights`, and their scores.

    `weights` has shape (n_weights,); `scores`, shape (2 n_pairs,), are ``pairs.rows @ weights``. The expected
    likelihood never falls. `curvature` is changed: it is factorised anew where its Newton steps gain too
    little.
    """
    hidden = pairs.hidden_probability(scores)
    value = pairs.expected_likelihood(weights, scores, hidden)
    last, enough = np.inf, 0.0
    for turn in range(_INNER):
        gradient = pairs.gradient(weights, scores, hidden)
        step = curvature.newton_step(gradient)
        gain = float(gradient @ step)
        if turn == 0:
            enough = max(gain * PRECISE, abs(value) * _ROUNDING)
        if gain <= enough:
            break
        if gain > last / 4:
            curvature.factorise_at(scores)
            step = curvature.newton_step(gradient)
        last = gain
        for _ in range(_HALVINGS):
            ahead = weights + step
            ahead_scores = pairs.rows @ ahead
            ahead_value = pairs.expected_likelihood(ahead, ahead_scores, hidden)
            if ahead_value >= value:
                break
            step /= 2
        else:
            break
        weights, scores, value = ahead, ahead_scores, ahead_value
    return weights, scores


def expectation_maximisation(pairs: Pairs, start: Floats, tol: float, max_iter: int) -> Climb:
    """Return the ``weights`` that maximise the penalised likelihood of `pairs`, by accelerated EM.

    The search begins at `start`, shape (n_weights,), and has ``converged`` where no component of the gradient
    exceeds `tol` times the weight of all pairs, or an iteration no longer raises the likelihood; it ends
    after `max_iter` iterations in any case. The result also has the number of ``iterations``, and in
    ``history`` the penalised log-likelihood at the start and after each iteration that raised it.
    """
    state = Climb(start)
    scores = pairs.rows @ start
    value = pairs.log_likelihood(start, scores)
    state.history.append(value)
    curvature = Curvature(pairs, scores)
    past: list[tuple[Floats, Floats]] = []
    bound = tol * float(pairs.cost.sum()) / 2
    for state.iterations in range(1, max_iter + 1):
        reached, reached_scores = em_iteration(pairs, state.weights, scores, curvature)
        reached_value = pairs.log_likelihood(reached, reached_scores)
        past = [*past[-_MEMORY:], (state.weights, reached - state.weights)]
        ahead = _extrapolate_steps(past)
        ahead_scores = pairs.rows @ ahead
        ahead_value = pairs.log_likelihood(ahead, ahead_scores)
        if ahead_value > reached_value:
            reached, reached_scores, reached_value = ahead, ahead_scores, ahead_value
        if reached_value <= value:
            # an M step raises the likelihood, up to rounding
            state.converged = True
            break
        state.weights, scores, value = reached, reached_scores, reached_value
        state.history.append(value)
        if np.abs(pairs.gradient(reached, scores, pairs.hidden_probability(scores))).max() <= bound:
            state.converged = True
            break
    return state


def _extrapolate_steps(past: list[tuple[Floats, Floats]]) -> Floats:
    """Return the point at which the steps would vanish if they changed linearly (Anderson acceleration)."""
    points = np.array([point for point, _ in past])
    steps = np.array([step for _, step in past])
    changes = np.diff(steps, axis=0)
    shares, *_ = np.linalg.lstsq(changes.T, steps[-1], rcond=1e-10)
    return np.asarray(points[-1] + steps[-1] - shares @ (np.diff(points, axis=0) + changes))


def direct_maximisation(pairs: Pairs, start: Floats, tol: float, max_iter: int) -> Climb:
    """Return the ``weights`` that maximise the penalised likelihood of `pairs`, by L-BFGS.

    The search begins at `start`, shape (n_weights,), and ends after at most `max_iter` iterations. `tol`
    bounds the gradient, divided by the sum of the weights of pairs, in coordinates in which the curvature is
    about equal in all directions; the returned weights are in the coordinates of `start`. The result also has
    the number of ``iterations``, and in ``history`` the penalised log-likelihoods at `start` and after each
    iteration. ``converged`` is True, too, where the search ends with such a gradient of at most 1e-6; without
    convergence it is False, and no error is raised.
    """
    total = float(pairs.cost.sum()) / 2
    scores = pairs.rows @ start
    state = Climb(start, [pairs.log_likelihood(start, scores)])
    matrix = pairs.negative_hessian(scores) / total
    matrix[np.diag_indices_from(matrix)] += 1e-10
    root = cholesky(matrix)

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        weights = solve_triangular(root, point)
        scores = pairs.rows @ weights
        gradient = pairs.gradient(weights, scores, pairs.hidden_probability(scores))
        turned = solve_triangular(root, gradient, trans="T")
        return -pairs.log_likelihood(weights, scores) / total, -turned / total

    def record_likelihood(intermediate_result: Any) -> None:
        state.history.append(-float(intermediate_result.fun) * total)

    result = minimize(
        value_and_gradient,
        root @ start,
        jac=True,
        method="L-BFGS-B",
        callback=record_likelihood,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20},
    )
    state.weights = solve_triangular(root, result.x)
    state.iterations = int(result.nit)
    # near the maximum, rounding may end a line search before the gradient is as small as required
    state.converged = bool(result.success or np.abs(result.jac).max() <= _NEARLY)
    return state


def start_of(pairs: Pairs, max_starts: int) -> Floats:
    """Return starting weights, shape (n_weights,), the best after a few EM iterations from several starts.

    Each start is a direction that predicts the labels, at the most likely of four sizes. The `max_starts`
    most likely ones are compared, on at most 4,000 evenly spaced pairs; 1: the most likely is returned
    without iterations. Zeros without any direction.
    """
    pairs = pairs.evenly_spaced(SOUGHT)
    sized = (_best_size(pairs, direction) for direction in _start_directions(pairs))
    starts = [start for start in sized if start is not None]
    if not starts:
        return np.zeros(pairs.rows.shape[1])
    if max_starts < len(starts):
        starts.sort(key=lambda start: -pairs.log_likelihood(start, pairs.rows @ start))
        starts = starts[:max_starts]
    if max_starts == 1:
        return starts[0]
    for n_starts, iterations in _ROUNDS:
        climbs = [expectation_maximisation(pairs, start, 0.0, iterations) for start in starts]
        climbs.sort(key=lambda climb: -climb.history[-1])
        starts = [climb.weights for climb in climbs[:n_starts]]
    return starts[0]


def _best_size(pairs: Pairs, direction: Floats) -> Floats | None:
    scores = pairs.rows @ direction
    size = float(np.sqrt(pairs.cost @ scores**2 / pairs.cost.sum()))
    if not size > 0:
        return None

    def log_likelihood(wanted: float) -> float:
        return pairs.log_likelihood(direction * wanted / size, scores * wanted / size)

    return direction * (max(_SIZES, key=log_likelihood) / size)


def _start_directions(pairs: Pairs) -> Iterator[Floats]:
    n, width = len(pairs.dissimilar), pairs.rows.shape[1]
    weighed = pairs.rows * np.sqrt(pairs.cost)[:, None]
    spread = weighed.T @ weighed / pairs.cost.sum() + 1e-8 * np.eye(width)
    cost = pairs.cost[:n] / pairs.cost[:n].sum()
    sign = np.where(pairs.dissimilar, -1.0, 1.0)
    label = 1.0 - float(cost @ sign) * sign
    product = pairs.rows[:n].T @ (pairs.rows[n:] * (cost * label)[:, None])
    _, vectors = eigh(product + product.T, spread, subset_by_index=[max(0, width - DIRECTIONS), width - 1])
    yield from vectors.T[::-1]
    # least squares with baselines as 0 and targets as their label; the flipped rows make all labels equal
    yield np.linalg.solve(spread, pairs.cost @ pairs.rows)


class SimilarityLogistic(ClassifierMixin, BaseEstimator):
    """Similarity logistic classifier of pairs (matrix paper, section 4.5 and figure 2).

    A pair's baseline m and target n each have a hidden class, P(Y = 1 | m) = s(w m + b) and P(Y' = 1 | n) =
    s(w n + b) with the logistic function s and the same weights. The pair is dissimilar (the second class)
    where Y differs from Y'. A row is the baseline's features, then the target's in the same order, then those
    that describe both. NaN and infinity are refused; features should be standardised, since the penalty
    depends on their units.

    Parameters
    ----------
    solver : "em" or "direct"
        Expectation-maximisation as in the matrix paper, or L-BFGS on the likelihood of the labels. Both
        maximise the same penalised likelihood from the same start.
    ridge : float
        The penalty is half of this times the squared weights (not the intercept), against the sum of the
        weighted log-likelihood; not below 0.
    shared : int or "rest"
        Number of columns at the end that describe both baseline and target, for example sizes. ``"rest"``:
        one where the number of columns is odd. With 0, an odd number of columns is an error.
    class_weight : dict, "balanced" or None
        Weight of a pair in the likelihood, by class.
    starts : int
        Number of starts that are compared; 1: the one with the highest likelihood is used directly.
    tol : float
        The search ends where no component of the gradient exceeds it, per unit of weight and with features
        standardised.
    max_iter : int
        Largest number of iterations.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Similar, dissimilar.
    coef_ : ndarray of shape (1, n_own + n_shared)
        For the features of one side. (w, b) and (-w, -b) predict the same; the sign is such that among
        dissimilar pairs the target has the higher mean of w n + b.
    intercept_ : ndarray of shape (1,)
    n_own_, n_shared_ : int
        Columns of one side, and of both.
    log_likelihoods_ : ndarray of shape (n_iter_ + 1,), or (n_iter_,)
        Penalised, before the first and after every iteration; under ``"em"`` only after those that raised it.

    Notes
    -----
    An EM iteration computes the probabilities of Y and Y' given the label under the present weights, and then
    the weights that maximise the expected likelihood, by Newton's method from the present ones. Anderson
    acceleration ("DAAREM", Henderson and Varadhan 2019) extrapolates from the last iterations; where the
    result is less likely than the plain EM step, the plain step is taken.

    Zero weights are a saddle point, where neither solver could move. Candidate starts are the directions in
    which the products of baseline and target predict the label best (leading eigenvectors of their whitened
    moment) and that of a least-squares fit of the flattened data (matrix paper, section 4.5), each at the
    best of four sizes. The start is the one with the highest likelihood after ten EM iterations on at most
    4,000 evenly spaced pairs, not counted in `n_iter_`. The likelihood can have several maxima, above all
    with few pairs and many features; the result is the one reached from that start.
    """

    def __init__(
        self,
        solver: str = "em",
        *,
        ridge: float = 1.0,
        shared: int | str = "rest",
        class_weight: dict[Any, float] | str | None = None,
        starts: int = DIRECTIONS + 1,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.solver = solver
        self.ridge = ridge
        self.shared = shared
        self.class_weight = class_weight
        self.starts = starts
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Fit the weights to rows of shape (n_pairs, 2 * n_own + n_shared).

        The greater of the two values of `y` is dissimilar. ValueError if a value is not finite, there are not
        two classes, the columns don't pair, or a parameter is out of its range; ConvergenceWarning if
        `max_iter` was reached.
        """
        if self.solver not in {"em", "direct"}:
            raise ValueError(f'SimilarityLogistic: solver={self.solver!r} is neither "em" nor "direct"')
        if not self.ridge >= 0:
            raise ValueError(f"SimilarityLogistic: ridge={self.ridge!r} is below 0")
        if self.starts < 1:
            raise ValueError(f"SimilarityLogistic: starts={self.starts!r} is below 1")
        rows = check_training_rows(self, X, y)
        if (kind := type_of_target(y)) != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_ = rows.classes
        columns = rows.x.shape[1]
        self.n_shared_ = columns % 2 if self.shared == "rest" else int(self.shared)
        if not 0 <= self.n_shared_ <= columns or (columns - self.n_shared_) % 2:
            own = f"n_features = {columns} less shared={self.shared!r}"
            raise ValueError(f"SimilarityLogistic: {own} cannot be divided into baseline and target")
        self.n_own_ = (columns - self.n_shared_) // 2
        costs = compute_class_weight(self.class_weight, classes=rows.classes, y=rows.classes[rows.y])
        pairs = Pairs.from_sides(*self._split_sides(rows.x), rows.y == 1, costs[rows.y], float(self.ridge))
        maximise_likelihood = expectation_maximisation if self.solver == "em" else direct_maximisation
        climb = maximise_likelihood(pairs, start_of(pairs, self.starts), self.tol, self.max_iter)
        if not climb.converged:
            problem = f"SimilarityLogistic: not converged after max_iter={self.max_iter} iterations"
            warnings.warn(problem, ConvergenceWarning, stacklevel=2)
        self.n_iter_ = max(1, climb.iterations)
        self.log_likelihoods_ = np.array(climb.history)
        weights, intercept = pairs.unscale_weights(climb.weights)
        self.coef_, self.intercept_ = weights[None], np.array([intercept])
        return self

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the log-odds of dissimilarity, shape (n_pairs,)."""
        check_is_fitted(self)
        x = check_rows(self, X)
        baseline, target = (side @ self.coef_[0] + self.intercept_[0] for side in self._split_sides(x))
        return np.asarray(np.logaddexp(baseline, target) - np.logaddexp(0.0, baseline + target))

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of similar and dissimilar, shape (n_pairs, 2)."""
        odds = self.decision_function(X)
        return np.column_stack([expit(-odds), expit(odds)])

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the more probable class of each pair, shape (n_pairs,)."""
        dissimilar = self.decision_function(X) > 0
        return np.asarray(self.classes_[dissimilar.astype(int)])

    def _split_sides(self, x: Floats) -> tuple[Floats, Floats]:
        baseline, target, shared = np.split(x, [self.n_own_, 2 * self.n_own_], axis=1)
        return np.hstack([baseline, shared]), np.hstack([target, shared])
