"""Log impact as a smooth function of the features of a task, its co-runners and the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.corun.rates import MOST, OTHERS, OWN, Floats
from training.corun.estimators.pressure import PAIR_SEPARATOR, Named, Words, locate_words

Whole = NDArray[np.intp]
#: The side of a column: task, co-runners, machine, or none of them.
TASK, BESIDES, MACHINE, NOBODY = range(4)
_PREFIXES = {OWN: TASK, OTHERS: BESIDES, MOST: BESIDES, "machine_": MACHINE, "engine_": MACHINE}
#: A column with larger values is a rate, and its logarithm is used.
_RATE = 50.0
#: Columns with a mean distance (1 - correlation) below this form one direction.
_ALIKE = 0.3
#: Length scales of the kernels, each twice the one before, in standard deviations of the most predictive
#: direction.
_LENGTHS = np.array([1.0, 2.0, 4.0])
#: Share of the variation of a task, its co-runners and a machine that no column explains.
_OF_ITS_OWN = (0.05, 0.05, 0.1)
#: Variance of a measurement's error, and of the constant, as shares of that of log impact.
_NOISE, _COMMON = 0.03, 0.5
#: Number of training rows, drawn at random, that a row is compared with.
_COMPARED = 800
_BLOCK = 4096
_ROUNDS = 2
#: Errors beyond this number of standard deviations get less weight.
_FAR = 1.5
#: The median absolute error of a normal distribution, in standard deviations.
_HALF = 0.6745
_TINY = 1e-9
#: Points and weights of the integral from the average co-run (0) to the one explained (1).
_POINTS, _POINT_WEIGHTS = (np.polynomial.legendre.leggauss(32) + np.array([[1.0], [0.0]])) / 2
#: The rows of the two ends of the path, which have no weight in the integral.
_ENDS = slice(len(_POINTS), len(_POINTS) + 2)
_POINTS, _POINT_WEIGHTS = np.append(_POINTS, [0.0, 1.0]), np.append(_POINT_WEIGHTS, [0.0, 0.0])


@dataclass(frozen=True)
class SideCoordinates:
    """Coordinates of rows per side (task, co-runners, machine), shape (n_rows, n_directions).

    `ids` has the number of each row's task, co-runners and machine, shape (n_rows,); negative where training
    has not seen them.
    """

    coordinates: tuple[Floats, ...]
    ids: tuple[Whole, ...]

    def __getitem__(self, rows: Whole | slice) -> SideCoordinates:
        coordinates = tuple(values[rows] for values in self.coordinates)
        return SideCoordinates(coordinates, tuple(values[rows] for values in self.ids))


def sides_of(columns: Sequence[str]) -> Whole:
    """Return the side of each column by the prefix of its name, shape (n_columns,).

    0 (`TASK`): ``own_``; 1 (`BESIDES`, co-runners): ``others_`` or ``most_``; 2 (`MACHINE`): ``machine_`` or
    ``engine_``; 3 (`NOBODY`): any other name.
    """
    prefixes = [next((p for p in _PREFIXES if name.startswith(p)), "") for name in columns]
    return np.array([_PREFIXES.get(prefix, NOBODY) for prefix in prefixes], np.intp)


class SmoothRegressor:
    """Gaussian process on log impact: co-runs are similar if their tasks and co-runners are similar.

    Correlated columns of a side form one direction, scaled by its correlation with log impact. The similarity
    of two co-runs is that of their tasks, plus that of their co-runners, plus the product of both, times that
    of their machines. A task seen in training is a little more similar to itself than to one with equal
    columns. Rows with large errors get less weight. Where rows are many, a sample represents all (the
    projected process).

    Notes
    -----
    Rasmussen and Williams, "Gaussian processes for machine learning", MIT Press 2006, chapters 2 and 8.3.4.
    Kernels of pairs as products and sums of kernels of their members: Bonilla, Chai and Williams, "Multi-task
    Gaussian process prediction", NIPS 2007.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, x: Floats, logs: Floats, named: Named, sides: Whole) -> SmoothRegressor:
        """Fit to log impacts, return self; features `x` may have NaN; `sides` come from `sides_of`."""
        empty = np.isnan(x).all(axis=0)
        self.middle_ = np.nanmedian(np.where(empty, 0.0, x), axis=0)
        self.rates_ = self._fill_gaps(x).max(axis=0) > _RATE
        turned = self._transform_inputs(x)
        self.centre_ = turned.mean(axis=0)
        self.mean_, self.spread_ = float(logs.mean()), float(logs.std()) or 1.0
        aims = (logs - self.mean_) / self.spread_
        centred = turned - self.centre_
        turns = [_find_directions(centred, aims, sides == side) for side in (TASK, BESIDES, MACHINE)]
        self.task_turn_, self.beside_turn_, self.machine_turn_ = turns
        self.tasks_, self.besides_, self.machines_ = (np.unique(words) for words in _names_by_side(named))
        positions = self._locate_rows(x, named)
        compared = np.sort(np.random.default_rng(self.seed).permutation(len(x))[:_COMPARED])
        stored_rows = positions[compared]
        self.task_at_, self.beside_at_, self.machine_at_ = stored_rows.coordinates
        self.task_who_, self.beside_who_, self.machine_who_ = stored_rows.ids
        self.weights_ = self._fit_weights(positions, aims)
        return self

    def predict(self, x: Floats, named: Named) -> Floats:
        """Return log impacts, shape (n_rows,); `x`, (n_rows, n_features), may have NaN."""
        positions = self._locate_rows(x, named)
        blocks = [slice(start, start + _BLOCK) for start in range(0, max(len(x), 1), _BLOCK)]
        logs = np.concatenate([self._row_similarities(positions[block]) @ self.weights_ for block in blocks])
        return self.mean_ + self.spread_ * logs

    def split_log_impact(self, row: Floats, usual: Floats, named: Named) -> tuple[float, Floats, Floats]:
        """Split the log impact of one co-run, `row`, along the straight line from the average one, `usual`.

        Returns the log impact of the average co-run, the shares of the features, shape (n_features,), and
        those of knowing the task and its co-runners, shape (2,); the sum is the prediction. Aumann and
        Shapley, "Values of non-atomic games", 1974; the integral is computed by Gauss-Legendre quadrature,
        its error is divided among the shares.
        """
        row_inputs, begin = self._transform_inputs(np.stack([row, usual])) - self.centre_
        way = row_inputs - begin
        rows, numbers = self._stored_rows, self._locate_names(named)
        sides = zip(self._side_directions, rows.coordinates, rows.ids, numbers, _OF_ITS_OWN, strict=True)
        task, corunner, machine = (
            _PathSimilarity(begin @ turn, way @ turn, stored, ids == number, identity_share)
            for turn, stored, ids, (number,), identity_share in sides
        )
        weights = machine.known * self.weights_
        with_task, with_corunner = 1 + task.partly_known, 1 + corunner.partly_known
        ends = weights[_ENDS] * (with_task[_ENDS] * with_corunner[_ENDS] - 1 + _COMMON)
        base, predicted = (self.mean_ + self.spread_ * ends.sum(axis=1)).tolist()
        by_task, by_corunner = weights * with_corunner, weights * with_task
        shares = np.zeros(len(row) + 2)
        shares[:-2] = way * (
            self.task_turn_ @ task.integrate_slopes(by_task)
            + self.beside_turn_ @ corunner.integrate_slopes(by_corunner)
        )
        shares[-2:] = task.integrate_identity(by_task), corunner.integrate_identity(by_corunner)
        shares *= self.spread_
        left = predicted - base - shares.sum()
        size = np.abs(shares)
        shares += left * (size / size.sum() if size.any() else np.full(len(shares), 1 / len(shares)))
        return base, shares[:-2], shares[-2:]

    @property
    def _side_directions(self) -> tuple[Floats, Floats, Floats]:
        return self.task_turn_, self.beside_turn_, self.machine_turn_

    @property
    def _stored_rows(self) -> SideCoordinates:
        return SideCoordinates(
            (self.task_at_, self.beside_at_, self.machine_at_),
            (self.task_who_, self.beside_who_, self.machine_who_),
        )

    def _fill_gaps(self, x: Floats) -> Floats:
        return np.where(np.isnan(x), self.middle_, x)

    def _transform_inputs(self, x: Floats) -> Floats:
        filled = self._fill_gaps(x)
        return np.where(self.rates_, np.log1p(np.maximum(filled, 0)), filled)

    def _locate_rows(self, x: Floats, named: Named) -> SideCoordinates:
        turned = self._transform_inputs(x) - self.centre_
        coordinates = tuple(turned @ turn for turn in self._side_directions)
        return SideCoordinates(coordinates, self._locate_names(named))

    def _locate_names(self, named: Named) -> tuple[Whole, ...]:
        """Return the number of each row's task, co-runners and machine, as in `SideCoordinates`."""
        known_names = (self.tasks_, self.besides_, self.machines_)
        numbers = [
            locate_words(names, words)
            for names, words in zip(known_names, _names_by_side(named), strict=True)
        ]
        return tuple(np.where(seen, number, -1) for number, seen in numbers)

    def _row_similarities(self, rows: SideCoordinates) -> Floats:
        """Return the similarity of rows to the stored training rows, shape (n_rows, n_kept)."""
        stored = self._stored_rows
        task, corunner, machine = (_side_similarity(rows, stored, side) for side in (TASK, BESIDES, MACHINE))
        return np.asarray(machine * (task * corunner + task + corunner + _COMMON))

    def _fit_weights(self, positions: SideCoordinates, aims: Floats) -> Floats:
        similarities = self._row_similarities(self._stored_rows)
        root = np.linalg.cholesky(similarities + 1e-6 * np.eye(len(similarities)))
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(aims), _BLOCK)]
        parts = [np.linalg.solve(root, self._row_similarities(positions[b]).T).T for b in blocks]
        looked = np.concatenate(parts)
        trusted = np.ones(len(aims))
        for _ in range(_ROUNDS):
            inner = np.linalg.inv((looked.T * trusted) @ looked / _NOISE + np.eye(looked.shape[1]))
            solution = inner @ (looked.T @ (trusted * aims)) / _NOISE
            leverage = np.einsum("ij,ij->i", looked @ inner, looked) * trusted / _NOISE
            # leave-one-out errors
            errors = np.abs(aims - looked @ solution) / np.maximum(1 - leverage, 0.05)
            spread = float(np.median(errors)) / _HALF
            trusted = np.clip(_FAR * spread / np.maximum(errors, _TINY), 0.02, 1.0)
        return np.asarray(np.linalg.solve(root.T, solution))


def _names_by_side(named: Named) -> tuple[Words, Words, Words]:
    parts = [str(pair).partition(PAIR_SEPARATOR)[::2] for pair in named.pairs]
    parted = np.array(parts, np.str_).reshape(-1, 2)
    return parted[:, 0], parted[:, 1], named.machines


def _find_directions(centred: Floats, aims: Floats, on_side: NDArray[np.bool_]) -> Floats:
    """Return how the columns of one side combine into directions, shape (n_features, n_directions)."""
    from scipy.cluster.hierarchy import fcluster, linkage

    spread = centred.std(axis=0)
    columns = np.flatnonzero(on_side & (spread > _TINY))
    if not len(columns):
        return np.zeros((len(on_side), 1))
    standard = centred[:, columns] / spread[columns]
    alike = np.atleast_2d(np.corrcoef(standard.T))
    label = np.ones(1, np.intp)
    if len(columns) > 1:
        distances = 1 - np.abs(alike[np.triu_indices(len(columns), 1)])
        label = fcluster(linkage(np.maximum(distances, 0), "average"), _ALIKE, "distance")
    turn = np.zeros((len(on_side), int(label.max())))
    for number in range(turn.shape[1]):
        members = np.flatnonzero(label == number + 1)
        turn[columns[members], number] = np.sign(alike[members[0], members]) / spread[columns[members]]
    coordinates = centred @ turn
    turn /= coordinates.std(axis=0)
    tells = np.abs((coordinates / coordinates.std(axis=0) * aims[:, None]).mean(axis=0)) + _TINY
    return np.asarray(turn * (tells / tells.max()) ** 2)


def _side_similarity(rows: SideCoordinates, stored: SideCoordinates, side: int) -> Floats:
    x, y, identity_share = rows.coordinates[side], stored.coordinates[side], _OF_ITS_OWN[side]
    far = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
    alike = np.zeros_like(far)
    for _, kernel in _iterate_kernels(np.maximum(far, 0, out=far)):
        alike += kernel
    alike *= (1 - identity_share) / len(_LENGTHS)
    alike += identity_share * (rows.ids[side][:, None] == stored.ids[side])
    return alike


def _iterate_kernels(far: Floats) -> Iterator[tuple[float, Floats]]:
    """Yield each length scale and its kernel, longest first, of squared distances; all in place in `far`."""
    far /= -2 * _LENGTHS[-1] ** 2
    kernel = np.exp(far, out=far)
    yield _LENGTHS[-1], kernel
    for length in _LENGTHS[-2::-1]:
        # each length scale is half of the next, so that its kernel is the fourth power
        np.square(kernel, out=kernel)
        np.square(kernel, out=kernel)
        yield length, kernel


class _PathSimilarity:
    """The similarity to stored rows on one side, at `_POINTS` of a straight path.

    The path has a `begin` and the `way` to its end, both (n_directions,); `stored` has the shape (n_kept,
    n_directions); `same`, shape (n_kept,), flags the stored rows with the name of the path's end. `alike`,
    the similarity without names, and `slopes`, its decrease by half the squared distance, have the shape
    (n_points, n_kept).
    """

    def __init__(
        self, begin: Floats, way: Floats, stored: Floats, same: NDArray[np.bool_], identity_share: float
    ) -> None:
        self.points, self.stored = begin + _POINTS[:, None] * way, stored
        self.same, self.identity_share = same, identity_share
        # on a path without length, one point is computed for all
        at = _POINTS[:, None] if way.any() else _POINTS[:1, None]
        gaps = begin - stored
        # squared distances are a quadratic function of the share of the path
        far = at * (2 * gaps @ way)
        far += (gaps**2).sum(axis=1)
        far += at**2 * (way @ way)
        alike, slopes = np.zeros_like(far), np.zeros_like(far)
        for length, kernel in _iterate_kernels(far):
            alike += kernel
            slopes += kernel / length**2
        scale = (1 - identity_share) / len(_LENGTHS)
        alike *= scale
        slopes *= scale
        self.alike, self.slopes = np.broadcast_to(alike, (len(_POINTS), len(stored))), slopes

    @property
    def known(self) -> Floats:
        """The similarity with the name of the path's end all along."""
        return self.alike + self.identity_share * self.same

    @property
    def partly_known(self) -> Floats:
        """The similarity with a name that is known in the share of the path so far."""
        similarity = self.alike.copy()
        similarity[:, self.same] += self.identity_share * _POINTS[:, None]
        return similarity

    def integrate_slopes(self, weights: Floats) -> Floats:
        """Return the integral of the slope of ``(weights * alike).sum(axis=1)``, shape (n_directions,)."""
        weighted = weights * self.slopes
        by_stored, by_point = _POINT_WEIGHTS @ weighted, _POINT_WEIGHTS * weighted.sum(axis=1)
        return np.asarray(by_stored @ self.stored - by_point @ self.points)

    def integrate_identity(self, weights: Floats) -> float:
        """Return the integral of the slope in how far the name is known."""
        return float(_POINT_WEIGHTS @ weights[:, self.same].sum(axis=1) * self.identity_share)
