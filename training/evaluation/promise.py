"""What may be missed, and from which probability on that is kept: conformal risk control with whole groups.

A cut is chosen among the scores of cases that must not be missed. Learn-then-test (Angelopoulos and others
2021, as MAPIE has it) bounds the share that lies below it as if cases were independent. Cases of one group
are not, and what is measured on the next cases scatters by itself: so a cut must also have held in
rehearsals, where whole groups choose it and others measure it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

Floats = NDArray[np.float64]

#: What may be asked for, beside what the params ask for.
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
#: How often it is rehearsed, and which share of the groups chooses the cut.
REHEARSALS = 200
CHOOSING = 0.75
#: At most so many cuts are tried for a share.
TRIED = 33
_SAME = 1e-12


@dataclass(frozen=True)
class Promised:
    """A share that may be wrong, and the cut that keeps it.

    Attributes
    ----------
    share : float
    cut : float or None
        A probability; None if there are too few cases to promise that.
    measured : float or None
        The mean share that was wrong in rehearsals, on groups that had no say in the cut.
    held : float or None
        The share of the rehearsals in which at most `share` was wrong.
    """

    share: FiniteFloat
    cut: FiniteFloat | None
    measured: FiniteFloat | None = None
    held: FiniteFloat | None = None


@dataclass(frozen=True)
class Promise:
    """What can be promised of a model: cuts by the share that may be wrong.

    Attributes
    ----------
    confidence : float
        With which a promise holds.
    fails, groups : int
        The fails that it rests on, and from how many groups they are.
    missed : tuple of Promised
        ``pass`` below the cut: at most that share of the fails is missed.
    false_alarms : tuple of Promised
        ``fail`` from the cut on: at most that share of the passes raises an alarm.
    """

    confidence: FiniteFloat
    fails: int
    groups: int
    missed: tuple[Promised, ...]
    false_alarms: tuple[Promised, ...]

    def needed(self, share: float) -> int:
        """Return how many fails it takes at least to promise a share, were they all of different groups."""
        return needed(share, self.confidence)


def needed(share: float, confidence: float) -> int:
    """Return how many independent cases it takes to promise that at most `share` is wrong."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


def kept(
    scores: Floats, groups: NDArray[np.str_], shares: Sequence[float], confidence: float, seed: int
) -> list[Promised]:
    """Return, for each share, the highest cut such that at most that share of the next cases lies below it.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Of the cases that must not lie below; from models that had not seen them.
    groups : ndarray of shape (n,)
        Cases of one group resemble each other.
    shares : sequence of float
    confidence : float
        With which each holds.
    seed : int
        Of the rehearsals.
    """
    order = np.argsort(scores, kind="stable")
    rising = scores[order]
    plays = _Rehearsals.of(rising, np.unique(groups[order], return_inverse=True)[1], seed)
    return [_kept(rising, plays, share, confidence) for share in shares]


def _kept(rising: Floats, plays: _Rehearsals, share: float, confidence: float) -> Promised:
    """Choose among the cases that could be the first not to lie below."""
    if len(rising) < needed(share, confidence):
        return Promised(share, None)
    places = np.unique(np.linspace(0, share * len(rising), TRIED).astype(np.int64))
    places = places[: _controlled(rising, places, share, confidence)]
    wrong = plays.wrong(places)
    held = (wrong <= share + _SAME).mean(axis=0)
    # half of the doubt is left for what rehearsals on the same groups cannot show
    falls = np.flatnonzero(held < (1 + confidence) / 2)
    last = (falls[0] if len(falls) else len(places)) - 1
    if last < 0:
        return Promised(share, None)
    return Promised(share, float(rising[places[last]]), float(wrong[:, last].mean()), float(held[last]))


def _controlled(rising: Floats, places: NDArray[np.int64], share: float, confidence: float) -> int:
    """Return how many of the cuts at `places` learn-then-test lets pass, the lowest first."""
    from mapie.risk_control import BinaryClassificationController

    cuts = np.unique(rising[places])
    control = BinaryClassificationController(
        predict_function=lambda one: np.column_stack([-one, one]),
        risk="recall",
        target_level=1 - share,
        confidence_level=confidence,
        list_predict_params=cuts,
        fwer_method="fixed_sequence",
    )
    with warnings.catch_warnings():
        # that all or none of the cuts pass is no news
        warnings.simplefilter("ignore", UserWarning)
        control.calibrate(rising, np.ones(len(rising), np.int64))
    passed = control.valid_predict_params
    return int((rising[places] <= passed.max()).sum()) if len(passed) else 0


@dataclass(frozen=True)
class _Rehearsals:
    """Rehearsals on cases in the order of their scores.

    Attributes
    ----------
    first : ndarray of shape (n,)
        How many cases lie below each.
    chosen : ndarray of shape (n_rehearsals, n + 1)
        How many of the cases before each place are of groups that choose the cut.
    """

    first: NDArray[np.int64]
    chosen: NDArray[np.int64]

    @classmethod
    def of(cls, rising: Floats, group: NDArray[np.int64], seed: int) -> _Rehearsals:
        draws = np.random.default_rng(seed).random((REHEARSALS, group.max(initial=-1) + 1)) < CHOOSING
        chosen = np.zeros((REHEARSALS, len(rising) + 1), np.int64)
        np.cumsum(draws[:, group], axis=1, out=chosen[:, 1:])
        whole = (chosen[:, -1] > 0) & (chosen[:, -1] < len(rising))
        return cls(np.searchsorted(rising, rising), chosen[whole])

    def wrong(self, places: NDArray[np.int64]) -> Floats:
        """Return which share of the other groups' cases lies below the cut, shape (n_rehearsals, n_places).

        The choosing groups place the cut where `places` would place it among all cases.
        """
        total = len(self.first)
        found = np.empty((len(self.chosen), len(places)))
        for row, chosen in enumerate(self.chosen):
            rank = (places * chosen[-1]) // total
            below = self.first[np.searchsorted(chosen[1:], rank + 1)]
            found[row] = (below - chosen[below]) / (total - chosen[-1])
        return found
