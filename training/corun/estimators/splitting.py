"""What each thing that is known of a co-run adds to its impact, by the way from the usual co-run (Shapley).

From a usual co-run to the one in question, things (the rate of an event of one side, its run times, what its
other co-runs showed) take their values one after the other. What each then changes depends on the order;
its share is the mean over all orders, and shares add up to the whole way.

Notes
-----
The shares are those of Shapley, "A value for n-person games", 1953, with one usual co-run as the reference.
In trees they are exact: only leaves count that some mixture of both co-runs comes to, and the weight of a
leaf depends only on how many things lead there from either side (Lundberg and others, "From local
explanations to global understanding with explainable AI for trees", Nature Machine Intelligence 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.corun.estimators.arrays import ImpactArrays, QuickContention
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.fitting import Learned
from training.corun.estimators.pressure import Named, PressureParts, placed
from training.estimators.compiled_pipeline import LEAF

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: Orders that are drawn where a model's shares cannot be had exactly; each is gone through from both ends.
ORDERS = 6


@dataclass(frozen=True)
class Way:
    """From the usual co-run to the one in question.

    Attributes
    ----------
    row, usual : ndarray of shape (n_features,)
        May hold NaN.
    owners : ndarray of int, shape (n_features,)
        The thing that each feature belongs to, counted from 0.
    things : int
    named : Named
        Who the one in question is, one row.
    """

    row: Floats
    usual: Floats
    owners: Whole
    things: int
    named: Named


@dataclass(frozen=True)
class CorunEvidence:
    """What other co-runs of one side showed: a sensitivity or a pressure, and its share of log impact."""

    value: float = float("nan")
    usual: float = float("nan")
    share: float = 0.0


@dataclass(frozen=True)
class LogShares:
    """A log impact that is split.

    Attributes
    ----------
    usual, impact : float
        Log impacts of the usual co-run, and of the one in question.
    shares : ndarray of shape (n_things,)
    own, others : CorunEvidence
        What other co-runs of the task and of its co-runners showed. With `shares` they add up to
        ``impact - usual``.
    """

    usual: float
    impact: float
    shares: Floats
    own: CorunEvidence = CorunEvidence()
    others: CorunEvidence = CorunEvidence()

    @property
    def points(self) -> float:
        """What a share of one is in points of impact, so that points add up as shares do."""
        way = self.impact - self.usual
        return float(np.expm1(way) / way * np.exp(self.usual)) if way else float(np.exp(self.usual))


def split(learned: Learned, way: Way) -> LogShares:
    """Split what a model says of a co-run: exactly where it is ours, else by orders that are drawn."""
    if isinstance(learned.model, ContentionRegressor):
        return _of_contention(learned.model, way)
    return _of_any(learned, way)


def of_trees(trees: ImpactArrays, way: Way) -> LogShares:
    """Split the log impact by the trees, exactly."""
    total, owners = np.zeros(way.things), np.tile(way.owners, 2)
    here, there = trees.looked_at(np.stack([way.row, way.usual]))
    children, nodes = trees.children.reshape(-1), trees.roots
    # 1: such a leaf is met with what is known here, -1: with what is usual
    led = np.zeros((len(nodes), way.things), np.int8)
    while len(nodes):
        ends = trees.feature.take(nodes) == LEAF
        total += _of_leaves(trees.value.take(nodes[ends]), led[ends])
        nodes, led = nodes[~ends], led[~ends]
        features = trees.feature.take(nodes)
        who, rows = owners.take(features), np.arange(len(nodes))
        now, then = (trees.below(values.take(features), nodes) for values in (here, there))
        side = led[rows, who]
        forks = ((now != then) & (side == 0)).nonzero()[0]
        onward = children.take(2 * nodes + np.where(side < 0, then, now))
        again, turned = children.take(2 * nodes[forks] + then[forks]), led[forks]
        led[forks, who[forks]], turned[np.arange(len(forks)), who[forks]] = 1, -1
        nodes, led = np.concatenate([onward, again]), np.concatenate([led, turned])
    impact, usual = trees.logs(np.stack([way.row, way.usual])).tolist()
    return LogShares(usual, impact, total)


def _of_leaves(values: Floats, led: NDArray[np.int8]) -> Floats:
    """Return the shares by leaves that the signed things lead to."""
    towards, away = led > 0, led < 0
    many, few = towards.sum(axis=1), away.sum(axis=1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, led.shape[1] + 1)))])
    both = logs[many + few]
    gained = values * np.exp(logs[np.maximum(many - 1, 0)] + logs[few] - both)
    lost = values * np.exp(logs[many] + logs[np.maximum(few - 1, 0)] - both)
    return np.asarray(gained @ towards - lost @ away)


def _of_contention(model: ContentionRegressor, way: Way) -> LogShares:
    """Split by the trees, by pressures and by what the pair did elsewhere, each with its share."""
    trees = of_trees(model.arrays_ if isinstance(model, QuickContention) else ImpactArrays.of(model), way)
    if not model.mixes:
        return trees
    pressed = model.pressures_.told(way.named)
    usual_pressed, own, others = 0.0, CorunEvidence(), CorunEvidence()
    place, known = placed(model.pairs_, way.named.pairs)
    stranger = np.isnan(pressed.sensitivity * pressed.pressure)
    by_trees, by_pressures, by_pair, by_smooth = model.shares_of(
        known=bool(known[0]), stranger=bool(stranger)
    )
    if stranger:
        by_trees, by_pressures = by_trees + by_pressures, 0.0
    else:
        usual_pressed, own, others = _of_pressures(pressed)
    # the pair is not known before both of it are
    half = by_pair * (model.known_[place[0]] - trees.usual) / 2 if by_pair else 0.0
    shares, who, usual_smooth = by_trees * trees.shares, np.zeros(2), 0.0
    if by_smooth:
        usual_smooth, features, who = model.smooth_.shares(way.row, way.usual, way.named)
        shares += by_smooth * np.bincount(way.owners, features, way.things)
    own, others = (
        CorunEvidence(one.value, one.usual, by_pressures * one.share + half + by_smooth * mine)
        for one, mine in zip((own, others), who.tolist(), strict=True)
    )
    base = (by_trees + by_pair) * trees.usual + by_pressures * usual_pressed + by_smooth * usual_smooth
    return LogShares(base, base + shares.sum() + own.share + others.share, shares, own, others)


def _of_pressures(found: PressureParts) -> tuple[float, CorunEvidence, CorunEvidence]:
    """Split sensitivity times pressure; returns log impact of the usual, and both sides' shares."""
    suffered = (found.sensitivity - found.usual_sensitivity) * (found.pressure + found.usual_pressure) / 2
    pressed = (found.pressure - found.usual_pressure) * (found.sensitivity + found.usual_sensitivity) / 2
    return (
        found.usual_sensitivity * found.usual_pressure,
        CorunEvidence(found.sensitivity, found.usual_sensitivity, suffered + found.shift),
        CorunEvidence(found.pressure, found.usual_pressure, pressed),
    )


def _of_any(learned: Learned, way: Way) -> LogShares:
    """Go through orders at random, each from both ends, and average what each thing changed."""
    import pandas as pd

    generator = np.random.default_rng(0)
    drawn = [generator.permutation(way.things) for _ in range(ORDERS)]
    orders = np.array([order for one in drawn for order in (one, one[::-1])])
    ranks = np.argsort(orders, axis=1)
    come = ranks[:, None, :] < np.arange(way.things + 1)[None, :, None]
    mixed = np.where(come[:, :, way.owners], way.row, way.usual).reshape(-1, len(way.row))
    rows = pd.DataFrame(mixed, columns=list(learned.columns))
    logs = np.log(learned.predict(rows)).reshape(len(orders), -1)
    shares = np.zeros((len(orders), way.things))
    np.put_along_axis(shares, orders, np.diff(logs, axis=1), axis=1)
    return LogShares(float(logs[0, 0]), float(logs[0, -1]), shares.mean(axis=0))
