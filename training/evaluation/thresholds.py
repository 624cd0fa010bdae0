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
from training.estimators.answering import Floats

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
class GuaranteedRate:
    """A guaranteed error rate, and the threshold that keeps it."""

    share: FiniteFloat
    cut: FiniteFloat | None  # a probability; None if there are too few cases for a guarantee
    #: The mean error rate on the held-out groups of the random splits.
    measured: FiniteFloat | None = None
    #: The share of the random splits with an error rate of at most `share`.
    empirical_coverage: FiniteFloat | None = None

    def for_opposite_class(self) -> GuaranteedRate:
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
    #: ``pass`` below the threshold: at most that share of the fails is missed.
    max_false_negative_rate: tuple[GuaranteedRate, ...]
    #: ``fail`` from the threshold on: at most that share of the passes raises an alarm.
    max_false_positive_rate: tuple[GuaranteedRate, ...]
    #: The meaning of the confidence, in words.
    guarantee: str = "learn-then-test with rehearsals on whole groups"

    def needed_fails(self, share: float) -> int:
        """Return the least number of fails, all of different groups, to guarantee the rate `share`."""
        return needed_cases(share, self.confidence)


def needed_cases(share: float, confidence: float) -> int:
    """Return the least number of independent cases, none wrong, that guarantee at most a share of wrong ones.

    `share` and the `confidence` of the guarantee are above 0 and below 1; this is not checked.
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


@dataclass(frozen=True)
class ScoredCases:
    """Cases of a protected class and others, with out-of-fold probabilities."""

    #: Shape (n,): The calibrated probability that a case is of the protected class, which must not be below
    #: the threshold.
    probability: Floats
    is_protected: NDArray[np.bool_]  # shape (n,): Whether it is of the protected class
    groups: NDArray[np.str_]  # shape (n,): Cases of one group resemble each other


def guarantee_rates(
    scored: ScoredCases, shares: Sequence[float], confidence: float, seed: int
) -> list[GuaranteedRate]:
    """Return, for each share, a threshold with at most that share of future protected cases below it.

    The threshold is the highest candidate such that it and all lower ones pass three tests: learn-then-test,
    the random splits of whole groups, and the scatter of the number of future cases below. It is None if
    there are too few protected cases, or no candidate passes. `confidence` is the level of each guarantee,
    `seed` the seed of the random splits, in which thresholds are taken from the other cases. IndexError
    without cases.
    """
    order = np.argsort(scored.probability, kind="stable")
    cases = ScoredCases(scored.probability[order], scored.is_protected[order], scored.groups[order])
    scores = cases.probability[cases.is_protected]
    expected = np.outer(shares, TRIED)
    cuts = thresholds_at(cases.probability, cases.probability.cumsum(), expected)
    wrong = _rates_in_splits(cases, expected, seed)
    return [
        _choose_threshold(scores, cuts[number], wrong[:, number], share, confidence)
        for number, share in enumerate(shares)
    ]


def thresholds_at(rising: Floats, mass: Floats, expected: Floats) -> Floats:
    """Return the highest thresholds with at most the `expected` shares of protected cases below them.

    `rising`, shape (n,), n above 0, are the probabilities of cases to be protected, in ascending order;
    `mass`, shape (n,), is the predicted number of protected cases up to and including each, a running sum of
    probabilities. Shares are of its last value. The result has the shape of `expected` and values of
    `rising`, at most the largest; a case at the threshold is not below it.
    """
    place = np.searchsorted(mass, expected * mass[-1], "right")
    return np.asarray(rising[np.minimum(place, len(rising) - 1)])


def _rates_in_splits(cases: ScoredCases, expected: Floats, seed: int) -> Floats:
    """Return shares of held-out protected cases below thresholds, (n_rehearsals, n_shares, n_tried)."""
    group = np.unique(cases.groups, return_inverse=True)[1]
    draws = np.random.default_rng(seed).random((REHEARSALS, group.max(initial=-1) + 1)) < CHOOSING
    rates = []
    for chosen in draws[:, group]:
        others = cases.probability[cases.is_protected & ~chosen]
        if len(others) and (cases.is_protected & chosen).any():
            mass = np.where(chosen, cases.probability, 0.0).cumsum()
            cuts = thresholds_at(cases.probability, mass, expected)
            rates.append(np.searchsorted(others, cuts) / len(others))
    return np.array(rates).reshape(-1, *expected.shape)


def _choose_threshold(
    scores: Floats, cuts: Floats, wrong: Floats, share: float, confidence: float
) -> GuaranteedRate:
    """Choose among thresholds in ascending order, with error rates `wrong` in random splits."""
    from scipy.stats import poisson

    if len(scores) < needed_cases(share, confidence) or not len(wrong):
        return GuaranteedRate(share, None)
    sure = confidence + SPARED * (1 - confidence)
    share_held = (wrong <= share + _SAME).mean(axis=0)
    agreed = _passes_risk_control(scores, cuts, share, confidence) & (share_held >= sure)
    below = np.maximum(share * TRIED, np.searchsorted(scores, cuts) / len(scores))
    future = len(scores) * (1 - CHOOSING) / CHOOSING
    # the number of future cases below scatters, too
    agreed &= poisson.cdf(math.floor(share * future + _SAME), below * future) >= sure
    last = (len(cuts) if agreed.all() else int(agreed.argmin())) - 1
    if last < 0:
        return GuaranteedRate(share, None)
    return GuaranteedRate(share, float(cuts[last]), float(wrong[:, last].mean()), float(share_held[last]))


def _passes_risk_control(scores: Floats, cuts: Floats, share: float, confidence: float) -> NDArray[np.bool_]:
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


Kind = Literal["max_false_negative_rate", "max_false_positive_rate"]
#: A review costs at least this share of a false alarm, which takes a review, too, and a search.
CHEAPEST = 0.05


@dataclass(frozen=True)
class DecisionThresholds:
    """``pass`` below `low`, ``fail`` from `high` on, ``unsure`` between."""

    low: FiniteFloat
    high: FiniteFloat

    def decide_verdicts(self, probability: Floats) -> NDArray[np.str_]:
        """Return the verdicts, in the shape of `probability`; NaN becomes ``invalid``."""
        without_fail = np.where(probability >= self.low, "unsure", "pass")
        verdict = np.where(probability >= self.high, "fail", without_fail)
        return np.where(np.isnan(probability), "invalid", verdict)


@dataclass(frozen=True)
class VerdictCosts:
    """Costs of a missed regression, of a false alarm and of a review, in any unit."""

    false_negative: FiniteFloat
    false_positive: FiniteFloat
    review: FiniteFloat

    def cheapest_thresholds(self) -> DecisionThresholds:
        """Return the calibrated probabilities between which a review costs least (Chow 1970).

        Both are equal, so that nothing is ``unsure``, if a review never costs least.
        """
        low, high = self.review / self.false_negative, 1 - self.review / self.false_positive
        if low < high:
            return DecisionThresholds(low, high)
        equal = self.false_positive / (self.false_negative + self.false_positive)
        return DecisionThresholds(equal, equal)


@dataclass(frozen=True)
class OrdinaryCases:
    """Out-of-fold predictions of ordinary cases."""

    probability: Floats  # shape (n_cases,): Calibrated probabilities; 0 where no review is wanted
    groups: NDArray[np.str_]  # shape (n_cases,): Cases of one group resemble each other

    def review_price(self, saved: Floats, share: float, confidence: float) -> float:
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
class DecisionPolicy:
    """The requested limits that determine the thresholds of ``unsure`` and ``fail``."""

    #: max_false_negative_rate, max_false_positive_rate: the share of the fails that may be missed, and of the
    #: passes that may raise an alarm; None: the threshold decides.
    max_false_negative_rate: FiniteFloat | None = None
    max_false_positive_rate: FiniteFloat | None = None
    #: Largest share of the cases that may be ``unsure``, in place of
    #: `max_false_negative_rate`.
    max_review_rate: FiniteFloat | None = None
    costs: VerdictCosts | None = None  # in place of all three

    @property
    def allows_unsure_below(self) -> bool:
        """Whether changes below the minimum effect size may be ``unsure``: if misses are limited."""
        return self.max_false_negative_rate is not None


def thresholds_for(
    guarantee: RiskGuarantee | None,
    threshold: float,
    policy: DecisionPolicy,
    usual: OrdinaryCases | None = None,
) -> DecisionThresholds:
    """Return the thresholds for `policy`: ``pass`` below ``low``, ``fail`` from ``high`` on, else ``unsure``.

    From the probability `threshold` on, ``fail`` is the better guess. A limit on false negatives determines
    ``low``, one on false positives ``high``; without its limit, each is `threshold`. Costs, if set, decide
    alone: limits are ignored. A limit on reviews (`max_review_rate`) replaces the limit on false negatives,
    needs `usual`, and determines ``low`` and, without a limit on false positives, ``high``. If a rate of
    false negatives cannot be guaranteed, ``pass`` is never given (``low`` is 0); if one of false positives
    cannot, ``fail`` is never given (``high`` is above 1). Where ``low`` would exceed ``high``, both are the
    probability between them that is nearest to `threshold`, and nothing is ``unsure``. InputError if the
    guarantee is None or does not have the rate of a limit that is used; for a limit on reviews, if the
    guarantee or `usual` is None.
    """
    if policy.costs is not None:
        return policy.costs.cheapest_thresholds()
    high, never = threshold, float(np.nextafter(1, 2))
    if policy.max_false_positive_rate is not None:
        cut = _guaranteed_rate(guarantee, "max_false_positive_rate", policy.max_false_positive_rate).cut
        high = never if cut is None else cut
    low = threshold
    if policy.max_review_rate is not None:
        if usual is None or guarantee is None:
            problem = "a limit on reviews can only be set where the model is trained"
            raise InputError(problem, place="max_review_rate")
        fixed = None if policy.max_false_positive_rate is None else high
        return limit_reviews(threshold, usual, policy.max_review_rate, guarantee.confidence, high=fixed)
    if policy.max_false_negative_rate is not None:
        level = _guaranteed_rate(guarantee, "max_false_negative_rate", policy.max_false_negative_rate)
        low = level.cut or 0.0
    if low <= high:
        return DecisionThresholds(low, high)
    single = min(max(threshold, high), low)
    return DecisionThresholds(single, single)


def limit_reviews(
    threshold: float,
    usual: OrdinaryCases,
    share: float,
    confidence: float = 0.5,
    *,
    cheapest: float = CHEAPEST,
    high: float | None = None,
) -> DecisionThresholds:
    """Return the thresholds that send at most `share` of the cases to a person, those most worth a review.

    At `threshold`, a probability between 0 and 1 exclusive, both verdicts cost the same: a missed regression
    costs (1 - threshold) / threshold false alarms. A review saves the expected cost of the verdict that the
    case would get without it. The price of a review, at least `cheapest` false alarms, is as high as it must
    be for at most `share` of cases like `usual` to save as much (Chow 1970), with the probability
    `confidence` (0.5: in the mean); the result has ``unsure`` for cases that save the price. `high`, unless
    None, is the threshold of ``fail``; cases from it on are not reviewed. If it is above 1, all cases from
    `threshold` on are ``unsure``, even if these are more than `share`.
    """
    odds, fail_from = threshold / (1 - threshold), threshold if high is None else high
    saved_by_fail = 1 - usual.probability if high is None else 0.0
    saved = np.where(usual.probability < fail_from, usual.probability / odds, saved_by_fail)
    price = max(cheapest, usual.review_price(saved, share, confidence))
    low = min(price * odds, fail_from if fail_from <= 1 else threshold)
    return DecisionThresholds(low, max(threshold, 1 - price) if high is None else high)


def _guaranteed_rate(guarantee: RiskGuarantee | None, name: Kind, share: float) -> GuaranteedRate:
    if guarantee is None:
        raise InputError("the model was trained without risk guarantees; train it again", place=name)
    levels: tuple[GuaranteedRate, ...] = getattr(guarantee, name)
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
    """Return the threshold with the highest balanced accuracy, in the middle of its plateau.

    All neighbouring thresholds whose balanced accuracy is at most 0.005 lower form a plateau, and the result
    is the plateau's middle on the scale of log-odds. The result has ``threshold``, from which the verdict is
    fail, and the ``balanced_accuracy`` at the best threshold. `y` are labels, 1 is fail, and both must occur;
    `probability` is out-of-fold; shape (n_rows,). If all probabilities are equal, threshold and balanced
    accuracy are 0.5.
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


def below_min_effect(worst_change: Floats, min_effect_size: float) -> NDArray[np.bool_]:
    """Return True where no median worsened by at least the minimum effect size, shape (n_comparisons,).

    `worst_change`, shape (n_comparisons,), and `min_effect_size` are shares of the baseline's median; a
    negative change is worse. The result is False for NaN, and everywhere if `min_effect_size` is 0.
    """
    if min_effect_size == 0:
        return np.zeros(len(worst_change), bool)
    return np.asarray(worst_change > -min_effect_size + SAME)


def zero_below_min_effect(probability: Floats, worst_change: Floats, min_effect_size: float) -> Floats:
    """Return probabilities of ``fail``, 0 where no median worsened by at least `min_effect_size`.

    Arrays have shape (n_comparisons,). Changes are shares of the baseline median, negative is worse; NaN
    leaves a probability unchanged, and a minimum of 0 all of them.
    """
    return np.where(below_min_effect(worst_change, min_effect_size), 0.0, probability)


def discount_below(probability: Floats, below: NDArray[np.bool_], factor: float) -> Floats:
    """Return calibrated probabilities, multiplied by `factor` where flagged `below`, shape (n_rows,)."""
    return np.where(below, factor * probability, probability)


def verdicts_with_minimum(
    thresholds: DecisionThresholds, probability: Floats, below: NDArray[np.bool_], *, unsure_below: bool
) -> NDArray[np.str_]:
    """Return the verdict for each calibrated probability, shape (n_comparisons,); NaN gives ``invalid``.

    It is ``pass`` below ``thresholds.low``, ``fail`` from ``thresholds.high`` on, else ``unsure``. Where
    `below` is True, the change is below the minimum effect size: a verdict other than ``pass`` is then
    ``unsure`` if `unsure_below`, else ``pass``. `below` must be False where the probability is NaN; this is
    not checked.
    """
    by_threshold = thresholds.decide_verdicts(probability)
    doubted = (by_threshold != "pass") & unsure_below
    return np.where(below, np.where(doubted, "unsure", "pass"), by_threshold)
