"""What would have to change for the other verdict: how far the median would have to move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.asked import Asked
from features.comparisons.ranks import flat

#: Answers to scaled comparisons.
Decide = Callable[[Sides], NDArray[np.str_]]
#: Changes that are tried, as shares: 24 in every power of ten, so that no step is larger than a tenth.
_SIZES = np.unique([float(f"{10 ** (place / 24 - 3):.1e}") for place in range(73)])
TRIED = np.concatenate((-_SIZES[::-1], [0.0], _SIZES))
#: What failed and would not pass unless it were better by more than this is said not to flip.
_BETTER = 0.01
#: So many are tried first, evenly spread; then those between two of them.
_FIRST = 8
#: What a verdict may flip to.
_OTHER = {"fail": "pass", "pass": "fail", "unsure": "fail"}


def flips(asked: Asked, rows: Ints, answers: NDArray[np.str_], decide: Decide) -> Floats:
    """Find the smallest change that gives comparisons the other verdict: the target's samples are scaled.

    Parameters
    ----------
    asked : Asked
    rows : ndarray of int, shape (n,)
        Which comparisons; all can be judged.
    answers : ndarray of str, shape (n,)
        Their verdicts. `unsure` flips to `fail`.
    decide : callable

    Returns
    -------
    ndarray of shape (n,)
        The change of the median of the configuration that moved most, against the baseline's, as a share
        (negative is worse), of `TRIED`: the nearest to what was measured from which on the verdict is the
        other one. NaN where there is none within 100 %.
    """
    found = np.full(len(rows), np.nan)
    # where the target is near nothing, or near all that numbers can tell, there may be no factor
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for answer in sorted({*answers.tolist()} & {*_OTHER}):
            own = np.flatnonzero(answers == answer)
            found[own] = _found(asked, rows[own], decide, _OTHER[answer])
    return found


def _found(asked: Asked, rows: Ints, decide: Decide, goal: str) -> Floats:
    """Look among the changes that are worse than what was measured (for ``fail``) or better."""
    now, way = asked.change[asked.worst[rows]], -1 if goal == "fail" else 1
    nearest = np.searchsorted(TRIED, now, "left") - 1 if way < 0 else np.searchsorted(TRIED, now, "right")
    # a throughput cannot fall by all that there is
    least = np.searchsorted(TRIED, np.where(asked.sides.sign[asked.worst[rows]] > 0, -0.95, -1.0))
    most = np.searchsorted(TRIED, np.maximum(now, _BETTER), "right") - 1
    farthest = least if way < 0 else np.where(now < _BETTER, most, nearest - 1)
    room = (farthest - nearest) * way
    steps = np.ceil(np.outer(room, np.arange(1, _FIRST + 1) / _FIRST)).astype(np.int64)
    coarse = _first(asked, rows, nearest[:, None] + way * steps, decide, goal)
    reached = (room >= 0) & (coarse < _FIRST)
    before = np.where(
        coarse > 0, np.take_along_axis(steps, np.maximum(coarse - 1, 0)[:, None], 1)[:, 0] + 1, 0
    )
    there = np.take_along_axis(steps, np.minimum(coarse, _FIRST - 1)[:, None], 1)[:, 0]
    width = int((there - before)[reached].max(initial=0))
    between = np.minimum(before[:, None] + np.arange(width + 1), there[:, None])
    place = np.full(len(rows), np.nan)
    inner = np.flatnonzero(reached)
    if len(inner):
        fine = _first(asked, rows[inner], nearest[inner, None] + way * between[inner], decide, goal)
        at = nearest[inner] + way * between[inner, np.minimum(fine, width)]
        place[inner] = np.where(fine <= width, TRIED[at], np.nan)
    return place


def _first(asked: Asked, rows: Ints, tried: Ints, decide: Decide, goal: str) -> Ints:
    """Return which of the changes tried (places in `TRIED`) is the first that gets the verdict `goal`.

    Returns
    -------
    ndarray of int, shape (n,)
        As many as there are where none does.
    """
    wanted = TRIED[np.clip(tried, 0, len(TRIED) - 1)]
    sign, now = (values[asked.worst[rows]][:, None] for values in (asked.sides.sign, asked.change))
    factors = (1 + sign * wanted) / (1 + sign * now)
    answers = decide(scaled(asked.sides, rows, factors)).reshape(wanted.shape)
    reached = answers == goal
    return np.asarray(np.where(reached.any(axis=1), reached.argmax(axis=1), wanted.shape[1]))


def scaled(sides: Sides, rows: Ints, factors: Floats) -> Sides:
    """Return comparisons several times over, the samples of the target times a factor.

    Parameters
    ----------
    sides : Sides
    rows : ndarray of int, shape (n,)
    factors : ndarray of shape (n, m)

    Returns
    -------
    Sides
        Of n x m comparisons: the first one with each of its factors, then the next.
    """
    many = sides.per_comparison
    owner, factor = np.repeat(rows, factors.shape[1]), factors.ravel()
    counts = many[owner]
    comparison = np.repeat(np.arange(len(owner)), counts)
    within = np.arange(len(comparison)) - np.repeat(counts.cumsum() - counts, counts)
    at = (many.cumsum() - many)[owner[comparison]] + within
    given = {field.name: getattr(sides, field.name) for field in fields(sides)}
    own: dict[str, Any] = {
        name: _taken(values, at)
        for name, values in given.items()
        if name not in ("n_comparisons", "siblings")
    }
    target, by = own["target"], factor[comparison]
    values = target.values * np.repeat(by, target.lengths)
    own |= {
        "comparison": comparison,
        "target": Samples(values, target.orders, target.starts, target.stops),
        "target_five": own["target_five"] * by[:, None],
    }
    siblings = None if sides.siblings is None else sides.siblings.of(owner)
    return Sides(**own, n_comparisons=len(owner), siblings=siblings)


def _taken(values: Any, at: Ints) -> Any:
    """Return what lists of samples, or an array with a row a configuration, have at these places."""
    return packed(values.of(at)) if isinstance(values, Samples) else values[at]


def packed(samples: Samples) -> Samples:
    """Return the same lists one after the other, without what lies between them."""
    stops = samples.lengths.cumsum()
    _, place = flat(samples)
    orders = samples.orders[place] if len(samples.orders) else samples.orders
    return Samples(samples.values[place], orders, stops - samples.lengths, stops)
