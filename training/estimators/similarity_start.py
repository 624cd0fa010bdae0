"""Where a climb of the likelihood of similarity logistic starts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from training.estimators.similarity_climb import expectation_maximisation
from training.estimators.similarity_likelihood import Floats, Pairs

#: Where the search may start: as many of the leading directions, each at the best of these sizes.
DIRECTIONS, _SIZES = 4, (0.5, 1.0, 2.0, 4.0)
#: Pairs on which the start is sought.
SOUGHT = 4000
#: How many starts are kept after so many iterations more of each.
_ROUNDS = ((2, 2), (1, 8))


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
