"""Counterfactuals: the smallest change of the median that flips a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides, flatten_samples, numbered_groups
from features.comparisons.outliers import select_configurations
from features.comparisons.vectors import PreparedComparisons

#: Returns the verdicts on comparisons.
Decide = Callable[[Sides], NDArray[np.str_]]
#: Candidate changes as shares, 24 per power of ten, so that no step is larger than a tenth.
_SIZES = np.unique([float(f"{10 ** (place / 24 - 3):.1e}") for place in range(73)])
TRIED = np.concatenate((-_SIZES[::-1], [0.0], _SIZES))
#: Largest improvement that is tried for a failed comparison.
_BEST = 0.01
#: Numbers of comparisons up to which the search evaluates one, two and three more halvings at once.
_AHEAD = (64, 16, 4)
#: The verdict that each verdict may flip to.
_OTHER = {"fail": "pass", "pass": "fail", "unsure": "fail"}


def counterfactuals(
    prepared: PreparedComparisons, rows: Ints, answers: NDArray[np.str_], decide: Decide
) -> Floats:
    """Return the smallest change that gives comparisons the other verdict, by scaling the target's samples.

    `rows`: shape (n,), comparisons that can be judged. `answers`: shape (n,), their verdicts: ``fail`` is to
    become ``pass``, ``pass`` and ``unsure`` are to become ``fail``. `decide`: takes modified comparisons as
    `Sides`, and returns their verdicts.
    Returns shape (n,), changes of the median of the configuration with the worst change, as shares of the
    baseline's median (negative is worse). Candidates are those of `TRIED` between the measured change and 1 %
    better than the baseline, to become `pass`, or 100 % worse (95 % if higher is better), to become `fail`.
    The result is the candidate nearest to the measured change that flips the verdict, NaN if none does.
    Bisection finds it if every candidate farther away flips the verdict, too.
    """
    changes = np.full(len(rows), np.nan)
    # factors may overflow where the target's median is close to 0 or to the largest number
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for answer in sorted({*answers.tolist()} & {*_OTHER}):
            same_answer = np.flatnonzero(answers == answer)
            changes[same_answer] = _smallest_changes(prepared, rows[same_answer], decide, _OTHER[answer])
    return changes


def _smallest_changes(prepared: PreparedComparisons, rows: Ints, decide: Decide, goal: str) -> Floats:
    """Search among the changes that are worse (for ``fail``) or better than the measured one."""
    worst = prepared.worst[rows]
    measured, sign = prepared.change[worst], prepared.sides.sign[worst]
    if goal == "fail":
        way, nearest = -1, np.searchsorted(TRIED, measured, "left") - 1
        # a throughput cannot fall by 100 %
        farthest = np.searchsorted(TRIED, np.where(sign > 0, -0.95, -1.0))
    else:
        way, nearest = 1, np.searchsorted(TRIED, measured, "right")
        last = np.searchsorted(TRIED, np.maximum(measured, _BEST), "right") - 1
        farthest = np.where(measured < _BEST, last, nearest - 1)
    n_steps = np.maximum((farthest - nearest) * way + 1, 0)

    def reaches_goal(searches: Ints, steps: Ints) -> NDArray[np.bool_]:
        wanted = TRIED[nearest[searches, None] + way * steps]
        factors = (1 + sign[searches, None] * wanted) / (1 + sign[searches] * measured[searches])[:, None]
        answers = decide(scale_targets(prepared.sides.overflow_safe, rows[searches], factors))
        return np.asarray(answers.reshape(steps.shape) == goal)

    first = _first_step(n_steps, reaches_goal)
    changes = TRIED[np.clip(nearest + way * first, 0, len(TRIED) - 1)]
    return np.where(first < n_steps, changes, np.nan)


def _first_step(n_steps: Ints, reaches_goal: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Ints:
    """Return the first step of each search that reaches the goal, by bisection; else its number of steps.

    `n_steps`: shape (n,). `reaches_goal`: takes places, shape (k,), and their steps, shape (k, m); returns
    which of them reach it. Few rows evaluate several halvings at once, which takes fewer calls and gives the
    same result.
    """
    low, high = np.zeros_like(n_steps), n_steps.copy()
    while len(rows := np.flatnonzero(low < high)):
        ahead = 1 + sum(len(rows) <= few for few in _AHEAD)
        lows, highs, steps = _halve_intervals(low[rows], high[rows], ahead)
        reached, node = reaches_goal(rows, steps.T), np.zeros(len(rows), np.int64)
        each_place = np.arange(len(rows))
        for _ in range(ahead):
            node = 2 * node + np.where(reached[each_place, node], 1, 2)
        low[rows], high[rows] = lows[node, each_place], highs[node, each_place]
    return low


def _halve_intervals(low: Ints, high: Ints, ahead: int) -> tuple[Ints, Ints, Ints]:
    """Return the intervals after up to `ahead` halvings, and the steps to evaluate, as a binary heap.

    Of shape (2^(ahead + 1) - 1, n), (2^(ahead + 1) - 1, n) and (2^ahead - 1, n). The children ``2 i + 1`` and
    ``2 i + 2`` of node ``i`` are its halves if its middle reaches the goal, and if not.
    """
    lows, highs, steps = [low], [high], list[Ints]()
    for node in range(2**ahead - 1):
        start, stop = lows[node], highs[node]
        # an empty interval evaluates a valid step, which is ignored
        steps.append(np.minimum((start + stop) // 2, high - 1))
        lows += [start, np.minimum(steps[node] + 1, stop)]
        highs += [np.maximum(steps[node], start), stop]
    return np.array(lows), np.array(highs), np.array(steps)


def scale_targets(sides: Sides, rows: Ints, factors: Floats) -> Sides:
    """Return copies of comparisons with the target's samples and five numbers multiplied by factors.

    `rows`: indices of comparisons, shape (n,). `factors`: shape (n, m). Returns n x m comparisons: the first
    one with each of its factors, then the next.
    """
    owner, factor = np.repeat(rows, factors.shape[1]), factors.ravel()
    comparison, within = numbered_groups(sides.per_comparison[owner])
    at = (sides.per_comparison.cumsum() - sides.per_comparison)[owner[comparison]] + within
    chosen, by = select_configurations(sides, at), factor[comparison]
    target = pack_samples(chosen.target)
    return replace(
        chosen,
        comparison=comparison,
        n_comparisons=len(owner),
        baseline=pack_samples(chosen.baseline),
        target=replace(target, values=target.values * np.repeat(by, target.lengths)),
        history=pack_samples(chosen.history),
        later=pack_samples(chosen.later),
        target_five=chosen.target_five * by[:, None],
        siblings=None if sides.siblings is None else sides.siblings.select_rows(owner),
        siblings_worse=None if sides.siblings_worse is None else sides.siblings_worse[owner],
    )


def pack_samples(samples: Samples) -> Samples:
    """Return the same lists of samples, stored one after the other without gaps in `values`."""
    stops = samples.lengths.cumsum()
    _, place = flatten_samples(samples)
    orders = samples.orders[place] if len(samples.orders) else samples.orders
    return Samples(samples.values[place], orders, stops - samples.lengths, stops)
