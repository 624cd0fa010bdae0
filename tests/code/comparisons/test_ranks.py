import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm, ttest_ind

from features.comparisons.summaries import rank_test, sample_moments, welch_t
from tests.code.comparisons.sides_by_hand import samples, sides_of, sides_of_summaries
from training.comparisons.family import (
    RULES,
    asv_rule,
    conbench_rule,
    mann_whitney,
    median_worse,
    perfherder_rule,
    welch_rule,
)

tied = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=9)
pairs = st.lists(st.tuples(tied, tied), min_size=1, max_size=6)


def both(lists):
    return samples([[b] for b, _ in lists]), samples([[t] for _, t in lists])


@given(pairs)
def test_rank_test_agrees_with_scipy_including_ties(lists):
    ranks = rank_test(*both(lists), np.ones(len(lists)))
    for row, (b, t) in enumerate(lists):
        assert ranks.superiority[row] == pytest.approx(
            mannwhitneyu(t, b, method="asymptotic").statistic / (len(b) * len(t))
        )
        if len(set(b + t)) == 1:
            assert ranks.z[row] == 0
            continue
        oracle = mannwhitneyu(t, b, method="asymptotic", use_continuity=False)
        assert 2 * norm.sf(abs(ranks.z[row])) == pytest.approx(oracle.pvalue, rel=1e-9, abs=1e-12)


def test_a_worse_target_has_negative_z_in_either_direction():
    ranks = rank_test(*both([([1.0, 2.0], [3.0, 4.0])] * 2), np.array([1.0, -1.0]))
    assert ranks.superiority.tolist() == [1, 0]
    assert ranks.z[0] == -ranks.z[1] > 0


def test_an_empty_side_leaves_ranks_and_t_unknown():
    baseline, target = samples([[[1.0, 2.0]], []]), samples([[], [[1.0]]])
    ranks = rank_test(baseline, target, np.ones(2))
    assert np.isnan(ranks.z).all()
    assert np.isnan(ranks.superiority).all()
    assert np.isnan(welch_t(sample_moments(baseline), sample_moments(target), np.ones(2))).all()


def test_welch_t_statistic_agrees_with_scipy():
    lists = [([1.0, 2.0, 4.0], [2.0, 2.5]), ([5.0, 5.5, 7.0, 1.0], [1.0, 2.0, 3.0])]
    baseline, target = both(lists)
    expected = [ttest_ind(t, b, equal_var=False).statistic for b, t in lists]
    np.testing.assert_allclose(
        welch_t(sample_moments(baseline), sample_moments(target), np.ones(2)), expected
    )
    np.testing.assert_allclose(
        welch_t(sample_moments(baseline), sample_moments(target), -np.ones(2)), np.negative(expected)
    )


def test_differing_constant_sides_have_an_infinite_t_statistic():
    baseline, target = both([([5.0, 5.0], [4.0, 4.0]), ([5.0, 5.0], [5.0, 5.0])])
    assert welch_t(sample_moments(baseline), sample_moments(target), np.ones(2)).tolist() == [-np.inf, 0]


#: The rules that need samples.
SAMPLED = {name: rule for name, rule in RULES.items() if rule is not median_worse}
STEADY = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.15, 99.85, 100.0]


def moved(factor):
    return [[factor * value for value in STEADY]]


def verdict(rule, *configurations, better="higher"):
    return bool(rule(sides_of([list(configurations)], better))[0])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("better", "worse"), [("higher", 0.8), ("lower", 1.2)])
def test_every_rule_detects_a_change_of_20_percent(rule, better, worse):
    assert verdict(rule, ([STEADY], moved(worse)), better=better)
    assert not verdict(rule, ([STEADY], moved(2 - worse)), better=better)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_one_failing_configuration_fails_the_comparison(rule):
    assert verdict(rule, ([STEADY], [STEADY]), ([STEADY], moved(0.8)))
    assert not verdict(rule, ([STEADY], [STEADY]), ([STEADY], [STEADY]))


@pytest.mark.parametrize("rule", SAMPLED.values(), ids=SAMPLED)
def test_without_samples_only_the_median_rule_can_fail(rule):
    far = ((10.0, 10.1, 10.2, 10.3, 10.4), (5.0, 5.1, 5.2, 5.3, 5.4))
    assert not rule(sides_of_summaries([[far]]))[0]
    assert median_worse(sides_of_summaries([[far]]))[0]


@pytest.mark.parametrize("rule", SAMPLED.values(), ids=SAMPLED)
def test_one_sample_per_side_is_too_few_to_test(rule):
    assert not verdict(rule, ([[100.0]], [[50.0]]))


@pytest.mark.parametrize(("factor", "fails"), [(0.951, False), (0.949, True)])
def test_the_median_rule_has_a_threshold_of_five_percent(factor, fails):
    assert verdict(median_worse, ([STEADY], moved(factor))) is fails


def test_p_values_of_the_tests_agree_with_scipy():
    baseline, target = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [8.0, 9.0, 10.0, 11.5, 12.5, 9.5]
    by_rank = mannwhitneyu(target, baseline, method="asymptotic").pvalue
    by_t = ttest_ind(target, baseline, equal_var=False).pvalue
    configuration = ([baseline], [target])
    assert verdict(lambda sides: mann_whitney(sides, by_rank * 1.0001), configuration)
    assert not verdict(lambda sides: mann_whitney(sides, by_rank * 0.9999), configuration)
    assert verdict(lambda sides: welch_rule(sides, by_t * 1.0001), configuration)
    assert not verdict(lambda sides: welch_rule(sides, by_t * 0.9999), configuration)


def test_differing_constant_sides_are_a_certain_difference():
    constant = ([[100.0] * 10], [[80.0] * 10])
    assert all(verdict(rule, constant) for rule in RULES.values())


def test_asv_and_perfherder_rules_need_a_large_shift():
    assert verdict(lambda sides: mann_whitney(sides, 0.001), ([STEADY], moved(0.985)))
    assert not verdict(asv_rule, ([STEADY], moved(0.91)))
    assert not verdict(perfherder_rule, ([STEADY], moved(0.985)))
    assert verdict(perfherder_rule, ([STEADY], moved(0.975)))


def test_conbench_rule_uses_the_spread_of_several_versions():
    versions = [[90.0, 90.1], [110.0, 110.1], [100.0, 100.1]]
    assert not verdict(conbench_rule, (versions, [[80.0, 80.0]]))
    assert verdict(conbench_rule, ([STEADY], [[95.0, 95.0]]))


def test_rules_return_no_verdicts_for_no_comparisons():
    assert [rule(sides_of([])).tolist() for rule in RULES.values()] == [[]] * len(RULES)
