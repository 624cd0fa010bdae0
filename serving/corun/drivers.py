"""What drives an answer before the run: a split of the impact that adds up (see `splitting`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.corun.rates import MOST, OTHERS, OWN, Placed
from serving.corun.model import Static
from serving.corun.schemas import ExplainedAnswer, ImpactShareAnswer
from training.corun.estimators.fitting import Learned, named_of
from training.corun.estimators.splitting import CorunEvidence, LogShares, Way, split
from training.estimators.answering import model_answering, require_finite

#: How many single drivers of a co-run are named; what is left of a side is one more.
NAMED = 4
#: The run times of a side, what its other co-runs showed, and all of it that is not named.
SECONDS, CORUNS, REST = "seconds", "coruns", "rest"


@dataclass(frozen=True)
class Things:
    """What may drive an answer: rates of an event on one side, times of a side, times of both together.

    Attributes
    ----------
    names : tuple of str
        ``own_<event>``, ``others_<event>``, ``own_seconds``, ``others_seconds``; the last, without a name, is
        what only both sides have (which of them takes longer).
    owners : ndarray of int, shape (n_columns,)
        Their numbers.
    """

    names: tuple[str, ...]
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, columns: Sequence[str], events: Sequence[str]) -> Things:
        """Tell which thing each column of a model belongs to."""
        owners = [_thing(column, frozenset(events)) for column in columns]
        names = (*dict.fromkeys([f"{OWN}{SECONDS}", f"{OTHERS}{SECONDS}", *filter(None, owners)]), "")
        return cls(names, np.array([names.index(owner) for owner in owners], np.intp))

    def named(self, shares: Sequence[float]) -> dict[str, float]:
        """Return shares by name; both sides' times have one half each of what both have together."""
        *single, both = shares
        found = dict(zip(self.names[:-1], single, strict=True))
        for side in (OWN, OTHERS):
            found[f"{side}{SECONDS}"] += both / 2
        return found


def explained(
    task: str, beside: tuple[str, ...], machine: str, static: Static
) -> tuple[ExplainedAnswer, list[ImpactShareAnswer]]:
    """Return what a co-run is compared with, and what drives it from there.

    Returns
    -------
    ExplainedAnswer
    list of ImpactShareAnswer
        The strongest first, then what is left of each side. Their contributions and the impact of the usual
        co-run add up to the impact.
    """
    columns = static.card.features
    row = static.known.rows(Placed([task], [beside], [machine]), columns)
    usual = static.known.usual(machine, len(beside), columns)
    things = Things.of(columns, static.known.events)
    values = row[list(columns)].to_numpy(np.float64)[0]
    model = Learned(static.quick().model, columns)
    with model_answering(static.card.model):
        found = split(model, Way(values, usual, things.owners, len(things.names), named_of(row)))
        numbers = found.impact, found.usual, found.points, found.shares, found.own.share, found.others.share
        require_finite(static.card.model, "contribution", *numbers)
    shares = things.named(found.shares.tolist())
    seen = dict(zip(columns, zip(values.tolist(), usual.tolist(), strict=True), strict=True))
    each = [_share(name, share * found.points, seen, beside) for name, share in shares.items()]
    each += [_shown(side, shown, found, beside) for side, shown in ((OWN, found.own), (OTHERS, found.others))]
    told = ExplainedAnswer(
        corunners=list(beside),
        machine=machine,
        impact=float(np.exp(found.impact)),
        model=f"{static.ref.name} {static.ref.version}",
        usual_impact=float(np.exp(found.usual)),
        own=_side(OWN, each),
        others=_side(OTHERS, each),
    )
    return told, _listed(each, beside)


def strength(share: ImpactShareAnswer) -> tuple[bool, float, str]:
    """Return by what drivers are sorted: the strongest first, what is not named last."""
    return share.feature.endswith(f"_{REST}"), -abs(share.contribution), share.feature


def _thing(column: str, events: frozenset[str]) -> str:
    for prefix, side in ((OWN, OWN), (OTHERS, OTHERS), (MOST, OTHERS)):
        if column.startswith(prefix):
            event = column.removeprefix(prefix)
            return f"{side}{event}" if event in events else f"{side}{SECONDS}"
    return ""


def _share(
    name: str, points: float, seen: dict[str, tuple[float, float]], beside: Sequence[str]
) -> ImpactShareAnswer:
    value, usual = seen.get(name, (np.nan, np.nan))
    if name.endswith(f"_{SECONDS}"):
        value, usual = np.exp(value), np.exp(usual)
    return ImpactShareAnswer.of(name, value, usual, points, beside)


def _shown(side: str, shown: CorunEvidence, found: LogShares, beside: Sequence[str]) -> ImpactShareAnswer:
    return ImpactShareAnswer.of(
        f"{side}{CORUNS}", shown.value, shown.usual, shown.share * found.points, beside
    )


def _side(side: str, shares: Sequence[ImpactShareAnswer]) -> float:
    return float(sum(one.contribution for one in shares if one.feature.startswith(side)))


def _listed(each: Sequence[ImpactShareAnswer], beside: Sequence[str]) -> list[ImpactShareAnswer]:
    """Return the strongest, the strongest first, and the sums of what is left of each side."""
    ranked = sorted(each, key=strength)
    rest = [
        ImpactShareAnswer.of(f"{side}{REST}", np.nan, np.nan, _side(side, ranked[NAMED:]), beside)
        for side in (OTHERS, OWN)
    ]
    return [one for one in (*ranked[:NAMED], *rest) if one.contribution]
