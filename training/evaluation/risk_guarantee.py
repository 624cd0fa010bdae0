"""What may be missed, and from which probability on that is kept: conformal risk control with whole groups.

Calibrated probabilities tell how many fails are to be expected below a cut, and tell it for cuts below which
none was seen, too. So cuts are tried by the share of the fails that is expected below them. Three judges must
agree on one, and none of them trusts the calibration alone:

1. Learn-then-test (Angelopoulos and others 2021, as MAPIE has it): were as many fails below as may be, so few
   would be seen there only by chance. It takes cases for independent and says nothing of the next few cases.
2. Rehearsals, where whole groups place the cut and the others measure it: cases of one group resemble each
   other.
3. What is expected below, or was seen there if that is more, must leave room for the scatter of the next
   cases (Poisson): one miss among few fails is a large share.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

Floats = NDArray[np.float64]

#: What may be asked for, beside what the params ask for.
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
#: How often it is rehearsed, and which share of the groups chooses the cut. The others are the next cases.
REHEARSALS = 200
CHOOSING = 0.75
#: The cuts that are tried, the strictest first: below them this part of the share is expected.
TRIED = 1.25 ** -np.arange(35.0, -1.0, -1.0)
#: In the words of who reads a card.
GUARANTEE = (
    "with this confidence, no more are wrong among the next cases, a third as many as these and of other "
    "groups: by learn-then-test, by rehearsals on whole groups, and by the scatter of what is expected"
)
#: Of the doubt, this share is left for what rehearsals on the same groups cannot show.
SPARED = 0.75
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

    def turned(self) -> Promised:
        """Return the same of the other probability: what lay below the cut now lies from the cut on."""
        # the cut itself was not below
        return replace(self, cut=None if self.cut is None else float(np.nextafter(1 - self.cut, 2)))


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
    guarantee : str
        What the confidence is about; older cards know no such words.
    """

    confidence: FiniteFloat
    fails: int
    groups: int
    missed: tuple[Promised, ...]
    false_alarms: tuple[Promised, ...]
    guarantee: str = "learn-then-test with rehearsals on whole groups"

    def needed(self, share: float) -> int:
        """Return how many fails it takes at least to promise a share, were they all of different groups."""
        return needed(share, self.confidence)


def needed(share: float, confidence: float) -> int:
    """Return how many independent cases it takes to promise that at most `share` is wrong."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


@dataclass(frozen=True)
class Scored:
    """Cases, and what models that had not seen them said.

    Attributes
    ----------
    told : ndarray of shape (n,)
        The calibrated probability that a case is one of those that must not lie below the cut.
    precious : ndarray of bool, shape (n,)
        Whether it is one.
    groups : ndarray of shape (n,)
        Cases of one group resemble each other.
    """

    told: Floats
    precious: NDArray[np.bool_]
    groups: NDArray[np.str_]

    def rising(self) -> Scored:
        """Return the same in the order of the probabilities."""
        order = np.argsort(self.told, kind="stable")
        return Scored(self.told[order], self.precious[order], self.groups[order])


def kept(known: Scored, shares: Sequence[float], confidence: float, seed: int) -> list[Promised]:
    """Return, for each share, a cut such that at most that share of the next precious cases lies below it.

    It is the highest one of those tried that all judges agree on, and with it on all lower ones.

    Parameters
    ----------
    known : Scored
    shares : sequence of float
    confidence : float
        With which each holds.
    seed : int
        Of the rehearsals.
    """
    cases = known.rising()
    scores = cases.told[cases.precious]
    expected = np.outer(shares, TRIED)
    cuts = cuts_at(cases.told, cases.told.cumsum(), expected)
    wrong = _rehearsed(cases, expected, seed)
    return [
        _kept(scores, tried, seen, share, confidence)
        for share, tried, seen in zip(shares, cuts, np.moveaxis(wrong, 1, 0), strict=True)
    ]


def cuts_at(rising: Floats, mass: Floats, expected: Floats) -> Floats:
    """Return the highest cuts below which at most that share of the precious cases is expected.

    Parameters
    ----------
    rising : ndarray of shape (n,)
        Probabilities in ascending order.
    mass : ndarray of shape (n,)
        How many precious cases are expected among the first ones.
    expected : ndarray of any shape
    """
    place = np.searchsorted(mass, expected * mass[-1], "right")
    return np.asarray(rising[np.minimum(place, len(rising) - 1)])


def _rehearsed(cases: Scored, expected: Floats, seed: int) -> Floats:
    """Return which share of the other groups' precious cases lies below cuts of the groups that choose.

    Returns
    -------
    ndarray of shape (n_rehearsals, n_shares, n_tried)
    """
    group = np.unique(cases.groups, return_inverse=True)[1]
    draws = np.random.default_rng(seed).random((REHEARSALS, group.max(initial=-1) + 1)) < CHOOSING
    found = []
    for chosen in draws[:, group]:
        others = cases.told[cases.precious & ~chosen]
        if len(others) and (cases.precious & chosen).any():
            cuts = cuts_at(cases.told, np.where(chosen, cases.told, 0.0).cumsum(), expected)
            found.append(np.searchsorted(others, cuts) / len(others))
    return np.array(found).reshape(-1, *expected.shape)


def _kept(scores: Floats, cuts: Floats, wrong: Floats, share: float, confidence: float) -> Promised:
    """Choose among cuts in ascending order, which were `wrong` in rehearsals."""
    if len(scores) < needed(share, confidence) or not len(wrong):
        return Promised(share, None)
    sure = confidence + SPARED * (1 - confidence)
    held = (wrong <= share + _SAME).mean(axis=0)
    agreed = _controlled(scores, cuts, share, confidence) & (held >= sure)
    below = np.maximum(share * TRIED, np.searchsorted(scores, cuts) / len(scores))
    agreed &= _room(share, below, len(scores) * (1 - CHOOSING) / CHOOSING) >= sure
    last = (len(cuts) if agreed.all() else int(agreed.argmin())) - 1
    if last < 0:
        return Promised(share, None)
    return Promised(share, float(cuts[last]), float(wrong[:, last].mean()), float(held[last]))


def _room(share: float, below: Floats, cases: float) -> Floats:
    """Return the probability that no more than a share of so many cases lies below, where `below` do."""
    from scipy.stats import poisson

    return np.asarray(poisson.cdf(math.floor(share * cases + _SAME), below * cases))


def _controlled(scores: Floats, cuts: Floats, share: float, confidence: float) -> NDArray[np.bool_]:
    """Return which of the cuts learn-then-test lets pass."""
    from mapie.risk_control import BinaryClassificationController

    control = BinaryClassificationController(
        predict_function=lambda one: np.column_stack([-one, one]),
        risk="recall",
        target_level=1 - share,
        confidence_level=confidence,
        list_predict_params=np.unique(cuts),
        fwer_method="fixed_sequence",
    )
    with warnings.catch_warnings():
        # that all or none of the cuts pass is no news
        warnings.simplefilter("ignore", UserWarning)
        control.calibrate(scores, np.ones(len(scores), np.int64))
    passed = control.valid_predict_params
    return np.asarray(cuts <= passed.max()) if len(passed) else np.zeros(len(cuts), bool)
