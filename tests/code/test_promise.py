"""Risk guarantees hold on groups that they were not learned from; impossible ones are not given."""

import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.special import expit

from data.errors import InputError
from data.stage import missing_package
from training.evaluation.thresholds import (
    DecisionPolicy,
    DecisionThresholds,
    GuaranteedRate,
    OrdinaryCases,
    RiskGuarantee,
    ScoredCases,
    VerdictCosts,
    guarantee_rates,
    limit_reviews,
    needed_cases,
    thresholds_for,
)

SPLITS = 100


def cases(generator, groups, each, alike):
    """Return calibrated cases of whole groups, whose odds resemble each other."""
    group = np.repeat(np.arange(groups), each)
    odds = np.sqrt(1 - alike) * generator.normal(size=len(group))
    odds += np.sqrt(alike) * generator.normal(size=groups)[group]
    told = expit(4 * odds - 4)
    return ScoredCases(told, generator.random(len(told)) < told, group.astype(str))


def missed(known, cut):
    """Return the share of the precious cases that lies below."""
    return (known.probability[known.is_protected] < cut).mean()


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "each", "alike"), [(1500, 1, 0.0), (150, 8, 0.8)])
def test_risk_guarantees_hold_in_nine_of_ten_splits(groups, each, alike):
    generator, shares = np.random.default_rng(groups + each), [0.02, 0.05, 0.1]
    held = []
    for split in range(SPLITS):
        known, others = cases(generator, groups, each, alike), cases(generator, groups // 3, each, alike)
        guarantees = guarantee_rates(known, shares, 0.9, split)
        held.append([missed(others, one.cut or 0.0) for one in guarantees])
    assert (np.mean(np.array(held) <= shares, axis=0) >= 0.9).all()


def guaranteed(known, share):
    (one,) = guarantee_rates(known, [share], 0.9, 0)
    return one


def test_a_risk_guarantee_is_no_stricter_than_necessary():
    known = cases(np.random.default_rng(0), 3000, 4, 0.2)
    one = guaranteed(known, 0.1)
    assert 0.05 < missed(known, one.cut) < 0.1
    assert one.measured < 0.1
    assert one.empirical_coverage >= 0.975


@pytest.mark.parametrize("n_passed", [0, 1])
def test_a_threshold_that_fails_risk_control_is_not_guaranteed(n_passed, monkeypatch):
    known, candidates = cases(np.random.default_rng(0), 3000, 4, 0.2), []

    def risk_control(list_predict_params, **_):
        candidates[:] = list_predict_params
        return Mock(valid_predict_params=list_predict_params[:n_passed])

    monkeypatch.setattr("mapie.risk_control.BinaryClassificationController", risk_control)
    assert guaranteed(known, 0.1).cut == (candidates[0] if n_passed else None)


def test_no_rate_is_guaranteed_without_the_package_mapie(monkeypatch):
    monkeypatch.setitem(sys.modules, "mapie", None)
    monkeypatch.delitem(sys.modules, "mapie.risk_control", raising=False)
    with pytest.raises(ModuleNotFoundError) as error:
        guaranteed(cases(np.random.default_rng(0), 3000, 4, 0.2), 0.1)
    remedy = "the package mapie is not installed; install it with: pip install 'perfjudge[train]'"
    assert missing_package(error.value) == remedy


def test_few_fails_give_a_threshold_below_all_of_them():
    known = cases(np.random.default_rng(0), 300, 3, 0.2)
    assert needed_cases(0.02, 0.9) < known.is_protected.sum() < 200
    one = guaranteed(known, 0.02)
    assert missed(known, one.cut) == 0
    assert 0 < one.cut < known.probability[known.is_protected].min()
    assert (known.probability < one.cut).mean() > 0.3


def test_far_too_small_probabilities_give_no_guarantee():
    known = cases(np.random.default_rng(0), 400, 4, 0.2)
    told = known.probability
    wrong = replace(known, probability=np.where(told < 0.3, told**4, told))
    assert guaranteed(wrong, 0.05) == GuaranteedRate(0.05, None)
    assert guaranteed(known, 0.05).cut is not None


def test_correlated_cases_weaken_the_risk_guarantee():
    known = cases(np.random.default_rng(1), 1500, 1, 0.0)
    order = np.argsort(known.probability)
    few = replace(known, groups=(np.argsort(order) // 100).astype(str))
    loose, strict = guaranteed(known, 0.1), guaranteed(few, 0.1)
    assert strict.cut is None or strict.cut < loose.cut


@pytest.mark.parametrize(("share", "fails"), [(0.02, 114), (0.05, 45), (0.1, 22)])
def test_too_few_fails_give_no_risk_guarantee(share, fails):
    assert needed_cases(share, 0.9) == fails
    told = np.random.default_rng(0).random(10 * fails)
    known = ScoredCases(told, np.arange(len(told)) < fails - 1, np.arange(len(told)).astype(str))
    assert guaranteed(known, share) == GuaranteedRate(share, None)


OF_FAILS = GuaranteedRate(0.02, None), GuaranteedRate(0.05, 0.1), GuaranteedRate(0.2, 0.6)
PROMISE = RiskGuarantee(0.9, 60, 30, OF_FAILS, (GuaranteedRate(0.01, 0.8), GuaranteedRate(0.1, 0.2)))


@pytest.mark.parametrize(
    ("wish", "low", "high"),
    [
        ({}, 0.4, 0.4),
        ({"max_false_negative_rate": 0.05}, 0.1, 0.4),
        ({"max_false_negative_rate": 0.2}, 0.4, 0.4),
        ({"max_false_positive_rate": 0.01}, 0.4, 0.8),
        ({"max_false_positive_rate": 0.1}, 0.4, 0.4),
        ({"max_false_negative_rate": 0.05, "max_false_positive_rate": 0.01}, 0.1, 0.8),
        ({"max_false_negative_rate": 0.2, "max_false_positive_rate": 0.1}, 0.4, 0.4),
        ({"max_false_negative_rate": 0.02}, 0.0, 0.4),
        ({"costs": VerdictCosts(100, 10, 1)}, 0.01, 0.9),
        ({"costs": VerdictCosts(3, 1, 2)}, 0.25, 0.25),
    ],
)
def test_thresholds_satisfy_the_requested_decision_policy(wish, low, high):
    found = thresholds_for(PROMISE, 0.4, DecisionPolicy(**wish))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_unknown_guarantees_are_refused_with_the_available_rates():
    without = "max_false_negative_rate: the model was trained without risk guarantees"
    for known, told in ((PROMISE, "expected a rate that the model guarantees: 2, 5, 20 %"), (None, without)):
        with pytest.raises(InputError, match=told):
            thresholds_for(known, 0.4, DecisionPolicy(max_false_negative_rate=0.03))


def usual(generator, groups=200):
    told = generator.beta(0.5, 0.5, groups * 10) * generator.random(groups).repeat(10)
    return OrdinaryCases(told, np.repeat(np.arange(groups), 10).astype(str))


def sent(cuts, told):
    return (cuts.decide_verdicts(told) == "unsure").mean()


def test_review_rate_stays_within_its_requested_limit():
    generator = np.random.default_rng(0)
    known = usual(generator)
    limited = limit_reviews(0.4, known, 0.05, cheapest=0)
    assert sent(limited, known.probability) == pytest.approx(0.05, abs=1e-3)
    sure = limit_reviews(0.4, known, 0.05, confidence=0.9)
    again = [sent(sure, usual(generator).probability) <= 0.05 for _ in range(100)]
    assert np.mean(again) >= 0.8
    assert sent(sure, known.probability) > 0.04


def test_reviews_go_only_to_the_costliest_mistakes():
    known = usual(np.random.default_rng(1))
    few, many = limit_reviews(0.4, known, 0.02), limit_reviews(0.4, known, 0.9)
    assert few.low < 0.4 < few.high
    # a miss costs 1.5 false alarms there, a look a twentieth of one
    assert (many.low, many.high) == pytest.approx((0.05 / 1.5, 0.95))
    assert limit_reviews(0.4, known, 0.0) == DecisionThresholds(0.4, 0.4)


def test_reviews_lie_below_a_guaranteed_fail_threshold():
    known = usual(np.random.default_rng(2))
    policy = DecisionPolicy(max_false_positive_rate=0.01, max_review_rate=0.05)
    found = thresholds_for(PROMISE, 0.4, policy, known)
    assert found.high == 0.8
    assert 0.04 < sent(found, known.probability) <= 0.05


def test_thresholds_are_inclusive_and_nan_is_invalid():
    said = DecisionThresholds(0.2, 0.6).decide_verdicts(np.array([0.1, 0.2, 0.6, np.nan]))
    assert said.tolist() == ["pass", "unsure", "fail", "invalid"]
