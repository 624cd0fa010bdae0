"""The thresholds of ``unsure`` and ``fail``: by risk guarantees, review rates or costs."""

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

Floats = NDArray[np.float64]
#: Error rates that can be guaranteed, in addition to those of the parameters.
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
#: Number of random splits of the groups, and share of the groups that choose the threshold; the others act as
#: future cases.
REHEARSALS = 200
CHOOSING = 0.75
#: Candidate thresholds, the strictest first: the expected rate below each, as a share of the guaranteed rate.
TRIED = 1.25 ** -np.arange(35.0, -1.0, -1.0)
#: The meaning of the guarantee, for the readers of a card.
GUARANTEE = (
    "with this confidence, no more are wrong among the next cases, a third as many as these and of other "
    "groups: by learn-then-test, by rehearsals on whole groups, and by the scatter of what is expected"
)
#: Share of the error probability that is reserved for effects that splits of the same groups cannot show.
SPARED = 0.75
_SAME = 1e-12


@dataclass(frozen=True)
class Promised:
    """A guaranteed error rate, and the threshold that keeps it."""

    share: FiniteFloat
    cut: FiniteFloat | None  # a probability; None if there are too few cases for a guarantee
    #: The mean error rate on the held-out groups of the random splits.
    measured: FiniteFloat | None = None
    held: FiniteFloat | None = None  # the share of the random splits with an error rate of at most `share`

    def turned(self) -> Promised:
        """Return the guarantee for the opposite probability: cases below the threshold are at or above it."""
        # the threshold itself was not below
        return replace(self, cut=None if self.cut is None else float(np.nextafter(1 - self.cut, 2)))


@dataclass(frozen=True)
class RiskGuarantee:
    """The risk guarantees of a model: thresholds by guaranteed error rate."""

    confidence: FiniteFloat  # confidence level of the guarantees
    #: fails, groups: number of fails that the guarantees are based on, and of their groups.
    fails: int
    groups: int
    missed: tuple[Promised, ...]  # ``pass`` below the threshold: at most that share of the fails is missed
    #: ``fail`` from the threshold on: at most that share of the passes raises an alarm.
    false_alarms: tuple[Promised, ...]
    #: The meaning of the confidence, in words.
    guarantee: str = "learn-then-test with rehearsals on whole groups"

    def needed(self, share: float) -> int:
        """Return the least number of fails, all of different groups, to guarantee the rate `share`."""
        return needed(share, self.confidence)


def needed(share: float, confidence: float) -> int:
    """Return the number of independent cases needed to guarantee that at most `share` is wrong."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


@dataclass(frozen=True)
class Scored:
    """Cases of a protected class and others, with out-of-fold probabilities."""

    #: Shape (n,): The calibrated probability that a case is of the protected class, which must not be below
    #: the threshold.
    told: Floats
    precious: NDArray[np.bool_]  # shape (n,): Whether it is of the protected class
    groups: NDArray[np.str_]  # shape (n,): Cases of one group resemble each other


def kept(scored: Scored, shares: Sequence[float], confidence: float, seed: int) -> list[Promised]:
    """Return, for each share, a threshold with at most that share of future protected cases below it.

    It is the highest candidate such that it and all lower ones pass all tests; `confidence` is the level of
    each guarantee, `seed` that of the random splits.
    """
    order = np.argsort(scored.told, kind="stable")
    cases = Scored(scored.told[order], scored.precious[order], scored.groups[order])
    scores = cases.told[cases.precious]
    expected = np.outer(shares, TRIED)
    cuts = cuts_at(cases.told, cases.told.cumsum(), expected)
    wrong = _rehearsed(cases, expected, seed)
    return [
        _kept(scores, cuts[number], wrong[:, number], share, confidence)
        for number, share in enumerate(shares)
    ]


def cuts_at(rising: Floats, mass: Floats, expected: Floats) -> Floats:
    """Return the highest thresholds with at most the `expected` shares of protected cases below them.

    `rising`, shape (n,), are probabilities in ascending order; `mass`, shape (n,), is the expected number of
    protected cases up to each of them.
    """
    place = np.searchsorted(mass, expected * mass[-1], "right")
    return np.asarray(rising[np.minimum(place, len(rising) - 1)])


def _rehearsed(cases: Scored, expected: Floats, seed: int) -> Floats:
    """Return shares of held-out protected cases below thresholds, (n_rehearsals, n_shares, n_tried)."""
    group = np.unique(cases.groups, return_inverse=True)[1]
    draws = np.random.default_rng(seed).random((REHEARSALS, group.max(initial=-1) + 1)) < CHOOSING
    rates = []
    for chosen in draws[:, group]:
        others = cases.told[cases.precious & ~chosen]
        if len(others) and (cases.precious & chosen).any():
            cuts = cuts_at(cases.told, np.where(chosen, cases.told, 0.0).cumsum(), expected)
            rates.append(np.searchsorted(others, cuts) / len(others))
    return np.array(rates).reshape(-1, *expected.shape)


def _kept(scores: Floats, cuts: Floats, wrong: Floats, share: float, confidence: float) -> Promised:
    """Choose among thresholds in ascending order, with error rates `wrong` in random splits."""
    from scipy.stats import poisson

    if len(scores) < needed(share, confidence) or not len(wrong):
        return Promised(share, None)
    sure = confidence + SPARED * (1 - confidence)
    share_held = (wrong <= share + _SAME).mean(axis=0)
    agreed = _controlled(scores, cuts, share, confidence) & (share_held >= sure)
    below = np.maximum(share * TRIED, np.searchsorted(scores, cuts) / len(scores))
    future = len(scores) * (1 - CHOOSING) / CHOOSING
    # the number of future cases below scatters, too
    agreed &= poisson.cdf(math.floor(share * future + _SAME), below * future) >= sure
    last = (len(cuts) if agreed.all() else int(agreed.argmin())) - 1
    if last < 0:
        return Promised(share, None)
    return Promised(share, float(cuts[last]), float(wrong[:, last].mean()), float(share_held[last]))


def _controlled(scores: Floats, cuts: Floats, share: float, confidence: float) -> NDArray[np.bool_]:
    """Return which thresholds pass learn-then-test."""
    from mapie.risk_control import BinaryClassificationController

    control = BinaryClassificationController(
        predict_function=lambda scores_in: np.column_stack([-scores_in, scores_in]),
        risk="recall",
        target_level=1 - share,
        confidence_level=confidence,
        list_predict_params=np.unique(cuts),
        fwer_method="fixed_sequence",
    )
    with warnings.catch_warnings():
        # it warns if all or none of the thresholds pass
        warnings.simplefilter("ignore", UserWarning)
        control.calibrate(scores, np.ones(len(scores), np.int64))
    passed = control.valid_predict_params
    return np.asarray(cuts <= passed.max()) if len(passed) else np.zeros(len(cuts), bool)


Kind = Literal["missed", "false_alarms"]
#: A review costs at least this share of a false alarm, which takes a review, too, and a search.
CHEAPEST = 0.05


@dataclass(frozen=True)
class DecisionThresholds:
    """``pass`` below `low`, ``fail`` from `high` on, ``unsure`` between."""

    low: FiniteFloat
    high: FiniteFloat

    def answers(self, probability: Floats) -> NDArray[np.str_]:
        """Return the verdicts; NaN becomes ``invalid``."""
        verdict = np.where(
            probability >= self.high, "fail", np.where(probability >= self.low, "unsure", "pass")
        )
        return np.where(np.isnan(probability), "invalid", verdict)


@dataclass(frozen=True)
class VerdictCosts:
    """Costs of a missed regression, of a false alarm and of a review, in any unit."""

    miss: FiniteFloat
    false_alarm: FiniteFloat
    look: FiniteFloat

    def cuts(self) -> DecisionThresholds:
        """Return the calibrated probabilities between which a review costs least (Chow 1970)."""
        low, high = self.look / self.miss, 1 - self.look / self.false_alarm
        if low < high:
            return DecisionThresholds(low, high)
        equal = self.false_alarm / (self.miss + self.false_alarm)
        return DecisionThresholds(equal, equal)


@dataclass(frozen=True)
class Usual:
    """Out-of-fold predictions of ordinary cases."""

    told: Floats  # shape (n_cases,): Calibrated probabilities; 0 where no review is wanted
    groups: NDArray[np.str_]  # shape (n_cases,): Cases of one group resemble each other

    def price(self, saved: Floats, share: float, confidence: float) -> float:
        """Return the lowest price of a review at which at most `share` of future cases is worth one.

        `saved`, shape (n_cases,), are the savings by a review of each case; `confidence` is the probability
        that the share is not exceeded, given the variation between groups.
        """
        from scipy.stats import norm

        group = np.unique(self.groups, return_inverse=True)[1]
        cases, doubt = np.bincount(group), float(norm.ppf(confidence))

        def review_rate(reviews: int) -> float:
            sent = np.bincount(group, weights=saved >= falling[reviews - 1])
            part = sent.sum() / len(saved)
            return float(part + doubt * np.sqrt(((sent - part * cases) ** 2).sum()) / len(saved))

        falling = np.sort(saved)[::-1]
        fits = bisect_right(range(1, int(share * len(saved)) + 1), share, key=review_rate)
        if fits == len(saved):
            return 0.0
        # just above the savings of the first case beyond the limit
        return float(np.nextafter(falling[fits], np.inf)) if fits else math.inf


@dataclass(frozen=True)
class Limits:
    """Limits on reviews that hold whatever a review is worth."""

    confidence: float = 0.5  # that the review rate is not exceeded; 0.5: it is kept in the mean
    cheapest: float = CHEAPEST  # the lowest price of a review, in false alarms
    high: float | None = None  # threshold of ``fail``; above 1: nothing fails; None: chosen by the costs


@dataclass(frozen=True)
class DecisionPolicy:
    """The requested limits that determine the thresholds of ``unsure`` and ``fail``."""

    #: missed, false_alarms: the share of the fails that may be missed, and of the passes that may raise an
    #: alarm; None: the threshold decides.
    missed: FiniteFloat | None = None
    false_alarms: FiniteFloat | None = None
    #: Largest share of the cases that may be ``unsure``, in place of `missed`; see `looking`.
    looks: FiniteFloat | None = None
    costs: VerdictCosts | None = None  # in place of all three

    @property
    def beneath(self) -> bool:
        """Whether changes below the minimum effect size may be ``unsure``: if misses are limited."""
        return self.missed is not None


def cuts_for(
    guarantee: RiskGuarantee | None, threshold: float, policy: DecisionPolicy, usual: Usual | None = None
) -> DecisionThresholds:
    """Return the thresholds for the policy `policy`; from `threshold` on, ``fail`` is the better guess.

    A rate that cannot be guaranteed is kept by never giving ``pass``, or never ``fail``. Where both
    guarantees allow a single threshold, nothing is ``unsure``. `usual` is needed for a limit on reviews
    (`looks`). Raises InputError if the guarantee does not have a requested rate.
    """
    if policy.costs is not None:
        return policy.costs.cuts()
    high, never = threshold, float(np.nextafter(1, 2))
    if policy.false_alarms is not None:
        cut = _level(guarantee, "false_alarms", policy.false_alarms).cut
        high = never if cut is None else cut
    low = threshold
    if policy.looks is not None:
        if usual is None or guarantee is None:
            raise InputError("a limit on reviews can only be set where the model is trained", place="looks")
        fixed = None if policy.false_alarms is None else high
        return looking(threshold, usual, policy.looks, Limits(guarantee.confidence, high=fixed))
    if policy.missed is not None:
        low = _level(guarantee, "missed", policy.missed).cut or 0.0
    if low <= high:
        return DecisionThresholds(low, high)
    single = min(max(threshold, high), low)
    return DecisionThresholds(single, single)


def looking(threshold: float, usual: Usual, share: float, limits: Limits) -> DecisionThresholds:
    """Return the thresholds that send at most `share` of the cases to a person, those most worth a review.

    At the threshold a missed regression and a false alarm cost the same, which gives the cost of a miss in
    false alarms. By these costs a review saves the expected cost of the better verdict without it. The price
    of a review is raised until no more cases are worth one (Chow 1970).
    """
    odds, fixed = threshold / (1 - threshold), limits.high is not None
    high = threshold if limits.high is None else limits.high
    saved = np.where(usual.told < high, usual.told / odds, 0.0 if fixed else 1 - usual.told)
    price = max(limits.cheapest, usual.price(saved, share, limits.confidence))
    low = min(price * odds, high if high <= 1 else threshold)
    return DecisionThresholds(low, high if fixed else max(threshold, 1 - price))


def _level(guarantee: RiskGuarantee | None, name: Kind, share: float) -> Promised:
    if guarantee is None:
        raise InputError("the model was trained without risk guarantees; train it again", place=name)
    levels: tuple[Promised, ...] = getattr(guarantee, name)
    for level in levels:
        if math.isclose(level.share, share):
            return level
    shares = ", ".join(f"{100 * level.share:g}" for level in levels)
    raise InputError(f"{name}={100 * share:g} %: expected a rate that the model guarantees: {shares} %")


#: Thresholds whose balanced accuracy is this close to the best one are as good as it.
PLATEAU = 0.005
#: Probabilities are clipped to this distance from 0 and 1 to find the middle of a plateau.
EXTREME = 1e-3


@dataclass(frozen=True)
class Cut:
    """A threshold, and the balanced accuracy at the best threshold of its plateau."""

    threshold: float
    balanced_accuracy: float


def best_cut(y: NDArray[np.int64], probability: Floats) -> Cut:
    """Choose the threshold with the highest balanced accuracy.

    The best threshold among few fails is often best by chance in a narrow range. So all neighbouring
    thresholds that are within `PLATEAU` of it form a plateau, and the result is the plateau's middle on the
    scale of log-odds, which has a distance from both edges for confident and for unconfident models alike.
    `y` are labels, 1 is fail, and both must occur; `probability` is out-of-fold; shape (n_rows,).
    """
    values, place = np.unique(probability, return_inverse=True)
    fails = np.bincount(place, weights=y)
    passes = np.bincount(place, weights=1 - y)
    # threshold i: fail from values[i] on; threshold 0 fails everything, which is never better than 0.5
    caught = (fails.sum() - np.cumsum(fails)) / fails.sum()
    spared = np.cumsum(passes) / passes.sum()
    balanced = (caught + spared)[:-1] / 2
    if not len(balanced):
        return Cut(0.5, 0.5)
    best = int(balanced.argmax())
    worse = np.flatnonzero(balanced < balanced[best] - PLATEAU)
    low = values[int(worse[worse < best].max(initial=-1)) + 1]
    high = values[int(worse[worse > best].min(initial=len(balanced)))]
    edges = np.clip([low, high], EXTREME, 1 - EXTREME)
    odds = float(np.log(edges / (1 - edges)).mean())
    middle = 1 / (1 + np.exp(-odds))
    # above `low` in any case
    middle = middle if low < middle <= high else (low + high) / 2
    return Cut(float(middle), float(balanced[best]))


#: Shares that differ by less than this are equal: 30.15 is 0.5 % above 30.
SAME = 1e-9


def below_floor(worst_change: Floats, floor: float) -> NDArray[np.bool_]:
    """Return where no median worsened by at least the minimum effect size `floor` (0: no minimum).

    `worst_change`, shape (n_comparisons,), and `floor` are shares of the baseline's median; a negative change
    is worse.
    """
    if floor == 0:
        return np.zeros(len(worst_change), bool)
    return np.asarray(worst_change > -floor + SAME)


def decided(probability: Floats, worst_change: Floats, floor: float) -> Floats:
    """Return the probabilities of ``fail``, set to 0 where `below_floor` is true."""
    return np.where(below_floor(worst_change, floor), 0.0, probability)


def discounted(probability: Floats, below: NDArray[np.bool_], beneath: float) -> Floats:
    """Return calibrated probabilities, multiplied by `beneath` where flagged `below`."""
    return np.where(below, beneath * probability, probability)


def verdicts(
    cuts: DecisionThresholds, probability: Floats, below: NDArray[np.bool_], *, beneath: bool
) -> NDArray[np.str_]:
    """Return the verdicts; nothing fails in rows `below` the minimum effect size.

    `probability` are calibrated probabilities, shape (n_comparisons,); `beneath`: whether rows `below` may be
    ``unsure`` (`DecisionPolicy.beneath`).
    """
    by_threshold = cuts.answers(probability)
    doubted = (by_threshold != "pass") & beneath
    return np.where(below, np.where(doubted, "unsure", "pass"), by_threshold)
