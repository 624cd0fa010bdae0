"""What would have to change for the other verdict: how far the median would have to move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.summaries import flat
from features.comparisons.vectors import PreparedComparisons

#: Answers to scaled comparisons.
Decide = Callable[[Sides], NDArray[np.str_]]
#: Changes that are tried, as shares: 24 in every power of ten, so that no step is larger than a tenth.
_SIZES = np.unique([float(f"{10 ** (place / 24 - 3):.1e}") for place in range(73)])
TRIED = np.concatenate((-_SIZES[::-1], [0.0], _SIZES))
#: What failed and would not pass unless it were better by more than this is said not to flip.
_BETTER = 0.01
#: Up to so many comparisons are asked of one more halving at once, and of another one, ...
_AHEAD = (64, 16, 4)
#: What a verdict may flip to.
_OTHER = {"fail": "pass", "pass": "fail", "unsure": "fail"}


def flips(asked: PreparedComparisons, rows: Ints, answers: NDArray[np.str_], decide: Decide) -> Floats:
    """Find the smallest change that gives comparisons the other verdict: the target's samples are scaled.

    `rows`: shape (n,), which comparisons; all can be judged.
    `answers`: shape (n,), their verdicts. `unsure` flips to `fail`.
    Returns: shape (n,), the change of the median of the configuration that moved most, against the
    baseline's, as a share (negative is worse), of `TRIED`: the nearest to what was measured from which on the
    verdict is the other one. NaN where there is none within 100 %.
    """
    found = np.full(len(rows), np.nan)
    # where the target is near nothing, or near all that numbers can tell, there may be no factor
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for answer in sorted({*answers.tolist()} & {*_OTHER}):
            own = np.flatnonzero(answers == answer)
            found[own] = _found(asked, rows[own], decide, _OTHER[answer])
    return found


def _found(asked: PreparedComparisons, rows: Ints, decide: Decide, goal: str) -> Floats:
    """Look among the changes that are worse than what was measured (for ``fail``) or better."""
    now, way = asked.change[asked.worst[rows]], -1 if goal == "fail" else 1
    nearest = np.searchsorted(TRIED, now, "left") - 1 if way < 0 else np.searchsorted(TRIED, now, "right")
    # a throughput cannot fall by all that there is
    least = np.searchsorted(TRIED, np.where(asked.sides.sign[asked.worst[rows]] > 0, -0.95, -1.0))
    most = np.searchsorted(TRIED, np.maximum(now, _BETTER), "right") - 1
    farthest = least if way < 0 else np.where(now < _BETTER, most, nearest - 1)
    none = np.maximum((farthest - nearest) * way + 1, 0)

    def reached(own: Ints, steps: Ints) -> NDArray[np.bool_]:
        wanted = TRIED[nearest[own, None] + way * steps]
        sign, change = asked.sides.sign[asked.worst[rows[own]]], now[own]
        factors = (1 + sign[:, None] * wanted) / (1 + sign * change)[:, None]
        return np.asarray(
            decide(scaled(asked.sides.normalized, rows[own], factors)).reshape(steps.shape) == goal
        )

    first = _first(none, reached)
    there = TRIED[np.clip(nearest + way * first, 0, len(TRIED) - 1)]
    return np.where(first < none, there, np.nan)


def _first(none: Ints, reached: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Ints:
    """Halve what is left until the first step that reaches the goal is found.

    `none`: shape (n,), how many steps there are: the answer where none of them reaches it.
    `reached`: takes places, shape (k,), and their steps, shape (k, m); tells which of them reach the goal.

    Few rows are asked of several halvings at once: the answer is the same, and what it takes to ask is saved.
    """
    low, high = np.zeros_like(none), none.copy()
    while len(own := np.flatnonzero(low < high)):
        ahead = 1 + sum(len(own) <= few for few in _AHEAD)
        lows, highs, steps = _halvings(low[own], high[own], ahead)
        found, place = reached(own, steps.T), np.zeros(len(own), np.int64)
        each = np.arange(len(own))
        for _ in range(ahead):
            place = 2 * place + np.where(found[each, place], 1, 2)
        low[own], high[own] = lows[place, each], highs[place, each]
    return low


def _halvings(low: Ints, high: Ints, ahead: int) -> tuple[Ints, Ints, Ints]:
    """Return what may be left after so many halvings, and the steps to be tried, as a binary heap.

    `lows, highs`: shape (2^(ahead + 1) - 1, n), what node ``i`` is left with; its children ``2 i + 1`` and
    ``2 i + 2`` have what is left if its middle reaches the goal, and if it doesn't.
    `steps`: shape (2^ahead - 1, n)
    """
    lows, highs, steps = [low], [high], list[Ints]()
    for node in range(2**ahead - 1):
        least, most = lows[node], highs[node]
        # where nothing is left to halve, the step is one that there is
        steps.append(np.minimum((least + most) // 2, high - 1))
        lows += [least, np.minimum(steps[node] + 1, most)]
        highs += [np.maximum(steps[node], least), most]
    return np.array(lows), np.array(highs), np.array(steps)


def scaled(sides: Sides, rows: Ints, factors: Floats) -> Sides:
    """Return comparisons several times over, the samples of the target times a factor.

    `rows`: shape (n,)
    `factors`: shape (n, m)
    Returns: of n x m comparisons: the first one with each of its factors, then the next.
    """
    many = sides.per_comparison
    owner, factor = np.repeat(rows, factors.shape[1]), factors.ravel()
    counts = many[owner]
    comparison = np.repeat(np.arange(len(owner)), counts)
    within = np.arange(len(comparison)) - np.repeat(counts.cumsum() - counts, counts)
    at = (many.cumsum() - many)[owner[comparison]] + within
    given = {field.name: getattr(sides, field.name) for field in fields(sides)}
    own: dict[str, Any] = {
        name: packed(values.of(at)) if isinstance(values, Samples) else values[at]
        for name, values in given.items()
        if name not in ("n_comparisons", "siblings", "siblings_worse")
    }
    target, by = own["target"], factor[comparison]
    values = target.values * np.repeat(by, target.lengths)
    own |= {
        "comparison": comparison,
        "target": Samples(values, target.orders, target.starts, target.stops),
        "target_five": own["target_five"] * by[:, None],
    }
    siblings = None if sides.siblings is None else sides.siblings.of(owner)
    worse = None if sides.siblings_worse is None else sides.siblings_worse[owner]
    return Sides(**own, n_comparisons=len(owner), siblings=siblings, siblings_worse=worse)


def packed(samples: Samples) -> Samples:
    """Return the same lists one after the other, without what lies between them."""
    stops = samples.lengths.cumsum()
    _, place = flat(samples)
    orders = samples.orders[place] if len(samples.orders) else samples.orders
    return Samples(samples.values[place], orders, stops - samples.lengths, stops)
