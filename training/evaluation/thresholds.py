"""From which probability on a case is unsure, and from which it fails: by promises, looks or costs."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.errors import InputError

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
    """A share that may be wrong, and the cut that keeps it."""

    share: FiniteFloat
    cut: FiniteFloat | None  # a probability; None if there are too few cases to promise that
    #: The mean share that was wrong in rehearsals, on groups that had no say in the cut.
    measured: FiniteFloat | None = None
    held: FiniteFloat | None = None  # the share of the rehearsals in which at most `share` was wrong

    def turned(self) -> Promised:
        """Return the same of the other probability: what lay below the cut now lies from the cut on."""
        # the cut itself was not below
        return replace(self, cut=None if self.cut is None else float(np.nextafter(1 - self.cut, 2)))


@dataclass(frozen=True)
class RiskGuarantee:
    """What can be promised of a model: cuts by the share that may be wrong."""

    confidence: FiniteFloat  # with which a promise holds
    #: fails, groups: the fails that it rests on, and from how many groups they are.
    fails: int
    groups: int
    missed: tuple[Promised, ...]  # ``pass`` below the cut: at most that share of the fails is missed
    #: ``fail`` from the cut on: at most that share of the passes raises an alarm.
    false_alarms: tuple[Promised, ...]
    #: What the confidence is about; older cards know no such words.
    guarantee: str = "learn-then-test with rehearsals on whole groups"

    def needed(self, share: float) -> int:
        """Return how many fails it takes at least to promise a share, were they all of different groups."""
        return needed(share, self.confidence)


def needed(share: float, confidence: float) -> int:
    """Return how many independent cases it takes to promise that at most `share` is wrong."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


@dataclass(frozen=True)
class Scored:
    """Cases, and what models that had not seen them said."""

    #: Shape (n,): The calibrated probability that a case is one of those that must not lie below the cut.
    told: Floats
    precious: NDArray[np.bool_]  # shape (n,): Whether it is one
    groups: NDArray[np.str_]  # shape (n,): Cases of one group resemble each other

    def rising(self) -> Scored:
        """Return the same in the order of the probabilities."""
        order = np.argsort(self.told, kind="stable")
        return Scored(self.told[order], self.precious[order], self.groups[order])


def kept(known: Scored, shares: Sequence[float], confidence: float, seed: int) -> list[Promised]:
    """Return, for each share, a cut such that at most that share of the next precious cases lies below it.

    It is the highest one of those tried that all judges agree on, and with it on all lower ones.

    Parameters
    ----------
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


Kind = Literal["missed", "false_alarms"]
#: A look costs at least this share of a false alarm, which makes somebody look, too, and search.
CHEAPEST = 0.05


@dataclass(frozen=True)
class DecisionThresholds:
    """``pass`` below `low`, ``fail`` from `high` on, ``unsure`` between."""

    low: FiniteFloat
    high: FiniteFloat

    def answers(self, probability: Floats) -> NDArray[np.str_]:
        """Return the verdicts; NaN is ``invalid``."""
        said = np.where(probability >= self.high, "fail", np.where(probability >= self.low, "unsure", "pass"))
        return np.where(np.isnan(probability), "invalid", said)


@dataclass(frozen=True)
class VerdictCosts:
    """What mistakes cost, in any unit; and a person's look."""

    miss: FiniteFloat
    false_alarm: FiniteFloat
    look: FiniteFloat

    def cuts(self) -> DecisionThresholds:
        """Return between which calibrated probabilities a look costs least (Chow 1970)."""
        low, high = self.look / self.miss, 1 - self.look / self.false_alarm
        if low < high:
            return DecisionThresholds(low, high)
        equal = self.false_alarm / (self.miss + self.false_alarm)
        return DecisionThresholds(equal, equal)


@dataclass(frozen=True)
class Usual:
    """What was said of usual cases."""

    told: Floats  # shape (n_cases,): Calibrated probabilities; 0 where nobody is to look
    groups: NDArray[np.str_]  # shape (n_cases,): Cases of one group resemble each other

    def price(self, saved: Floats, share: float, confidence: float) -> float:
        """Return the lowest price of a look at which at most that share of the next cases is worth it.

        Parameters
        ----------
        saved : ndarray of shape (n_cases,)
            What a look at each saves.
        confidence : float
            That it is no more, by the scatter of whole groups.
        """
        from scipy.stats import norm

        of = np.unique(self.groups, return_inverse=True)[1]
        cases, doubt = np.bincount(of), float(norm.ppf(confidence))

        def most(many: int) -> float:
            sent = np.bincount(of, weights=saved >= falling[many - 1])
            part = sent.sum() / len(saved)
            return float(part + doubt * np.sqrt(((sent - part * cases) ** 2).sum()) / len(saved))

        falling = np.sort(saved)[::-1]
        fits = bisect_right(range(1, int(share * len(saved)) + 1), share, key=most)
        if fits == len(saved):
            return 0.0
        # just above what the first case saves that is one too many
        return float(np.nextafter(falling[fits], np.inf)) if fits else math.inf


@dataclass(frozen=True)
class Limits:
    """What holds for looks, whatever they are worth."""

    confidence: float = 0.5  # that no more are sent than may be; 0.5: as many, in the mean
    cheapest: float = CHEAPEST  # the lowest price of a look, in false alarms
    high: float | None = None  # where ``fail`` begins; above 1: nothing fails. None: where looks do not pay.


@dataclass(frozen=True)
class DecisionPolicy:
    """Where ``unsure`` and ``fail`` are to begin."""

    #: missed, false_alarms: the share of the fails that may be missed, and of the passes that may raise an
    #: alarm; None: the threshold decides.
    missed: FiniteFloat | None = None
    false_alarms: FiniteFloat | None = None
    #: The share of the cases that may be ``unsure`` at most, in place of `missed`; see `looking`.
    looks: FiniteFloat | None = None
    costs: VerdictCosts | None = None  # in place of all three

    @property
    def beneath(self) -> bool:
        """Whether what is too small a change to fail may be ``unsure``: where misses are promised."""
        return self.missed is not None


def cuts_for(
    promise: RiskGuarantee | None, threshold: float, wish: DecisionPolicy, usual: Usual | None = None
) -> DecisionThresholds:
    """Return the cuts that `wish` asks for.

    What cannot be promised is kept by calling nothing ``pass``, or nothing ``fail``. Where both promises
    leave room for one threshold, nothing is ``unsure``.

    Parameters
    ----------
    threshold : float
        From which on ``fail`` is the better guess.
    usual : Usual, optional
        Needed where the wish has `looks`.

    Raises
    ------
    InputError
        If the promise says nothing of a share that is wished for.
    """
    if wish.costs is not None:
        return wish.costs.cuts()
    high, none = threshold, float(np.nextafter(1, 2))
    if wish.false_alarms is not None:
        cut = _level(promise, "false_alarms", wish.false_alarms).cut
        high = none if cut is None else cut
    low = threshold
    if wish.looks is not None:
        if usual is None or promise is None:
            raise InputError("looks can only be chosen where the model is trained")
        fixed = None if wish.false_alarms is None else high
        return looking(threshold, usual, wish.looks, Limits(promise.confidence, high=fixed))
    if wish.missed is not None:
        low = _level(promise, "missed", wish.missed).cut or 0.0
    if low <= high:
        return DecisionThresholds(low, high)
    single = min(max(threshold, high), low)
    return DecisionThresholds(single, single)


def looking(threshold: float, usual: Usual, share: float, limits: Limits) -> DecisionThresholds:
    """Return the cuts that send at most that share of the cases to a person, those most worth a look.

    At the threshold a miss and a false alarm are equally dear, so it says what a miss costs in false alarms.
    By these costs a look saves what the better verdict without it is expected to cost. The price of a look is
    raised until no more cases are worth one (Chow 1970).
    """
    odds, fixed = threshold / (1 - threshold), limits.high is not None
    high = threshold if limits.high is None else limits.high
    saved = np.where(usual.told < high, usual.told / odds, 0.0 if fixed else 1 - usual.told)
    price = max(limits.cheapest, usual.price(saved, share, limits.confidence))
    low = min(price * odds, high if high <= 1 else threshold)
    return DecisionThresholds(low, high if fixed else max(threshold, 1 - price))


def _level(promise: RiskGuarantee | None, name: Kind, share: float) -> Promised:
    if promise is None:
        raise InputError("the model was trained without a promise; train it again", place=name)
    levels: tuple[Promised, ...] = getattr(promise, name)
    found = [one for one in levels if math.isclose(one.share, share)]
    if not found:
        known = ", ".join(f"{100 * one.share:g}" for one in levels)
        raise InputError(f"{name}={100 * share:g} %: the model can promise one of {known} %")
    return found[0]


Floats = NDArray[np.float64]

#: Cuts whose balanced accuracy is this close to the best one are as good as it.
PLATEAU = 0.005
#: Probabilities nearer to 0 or 1 than this are not told apart when the middle of a plateau is sought.
EXTREME = 1e-3


@dataclass(frozen=True)
class Cut:
    """A threshold, and the balanced accuracy at the best cut of its plateau."""

    threshold: float
    balanced_accuracy: float


def best_cut(y: NDArray[np.int64], probability: Floats) -> Cut:
    """Choose the threshold with the highest balanced accuracy.

    The best cut among few fails is often a narrow accident. So all neighbouring cuts that are within
    `PLATEAU` of it count as one plateau, and the threshold is the plateau's middle on the scale of
    log-odds, which stays a distance from both edges for confident and for timid models alike.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels, 1 is fail; both must occur.
    probability : ndarray of shape (n_rows,)
        Of fail, by models that had not seen the row.
    """
    values, place = np.unique(probability, return_inverse=True)
    fails = np.bincount(place, weights=y)
    passes = np.bincount(place, weights=1 - y)
    # cut i: fail from values[i] on; the cut 0 fails everything, which is never better than 0.5
    caught = (fails.sum() - np.cumsum(fails)) / fails.sum()
    spared = np.cumsum(passes) / passes.sum()
    balanced = (caught + spared)[:-1] / 2
    if not len(balanced):
        return Cut(0.5, 0.5)
    best = int(balanced.argmax())
    worse = np.flatnonzero(balanced < balanced[best] - PLATEAU)
    first = int(worse[worse < best].max(initial=-1)) + 1
    last = int(worse[worse > best].min(initial=len(balanced))) - 1
    return Cut(_middle(values[first], values[last + 1]), float(balanced[best]))


def _middle(low: float, high: float) -> float:
    """Return the point between both whose log-odds are half way, and that is above `low` in any case."""
    edges = np.clip([low, high], EXTREME, 1 - EXTREME)
    odds = float(np.log(edges / (1 - edges)).mean())
    middle = 1 / (1 + np.exp(-odds))
    return float(middle) if low < middle <= high else float((low + high) / 2)


#: Shares that differ by less than this are the same: 30.15 is 0.5 % above 30.
SAME = 1e-9


def below_floor(worst_change: Floats, floor: float) -> NDArray[np.bool_]:
    """Return where no median got worse by as much as may be called a regression.

    Parameters
    ----------
    worst_change : ndarray of shape (n_comparisons,)
        As `features.comparisons.vectors.Asked` has it: negative is worse.
    floor : float
        As a share of the baseline's median; 0 = there is no floor.
    """
    if floor == 0:
        return np.zeros(len(worst_change), bool)
    return np.asarray(worst_change > -floor + SAME)


def decided(probability: Floats, worst_change: Floats, floor: float) -> Floats:
    """Return the probability of ``fail`` that counts: 0 below the floor, else the model's."""
    return np.where(below_floor(worst_change, floor), 0.0, probability)


def discounted(told: Floats, below: NDArray[np.bool_], beneath: float) -> Floats:
    """Return calibrated probabilities, and so much of those below the floor, from where no model learns."""
    return np.where(below, beneath * told, told)


def verdicts(
    cuts: DecisionThresholds, told: Floats, below: NDArray[np.bool_], *, beneath: bool
) -> NDArray[np.str_]:
    """Return the verdicts; nothing fails below the floor.

    Parameters
    ----------
    told : ndarray of shape (n_comparisons,)
        Calibrated probabilities.
    below : ndarray of bool, shape (n_comparisons,)
        Which lie below the floor.
    beneath : bool
        Whether these may be ``unsure``; see `training.evaluation.thresholds.Wish`.
    """
    said = cuts.answers(told)
    doubted = (said != "pass") & beneath
    return np.where(below, np.where(doubted, "unsure", "pass"), said)
