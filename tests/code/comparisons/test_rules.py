import pytest
from scipy.stats import mannwhitneyu, ttest_ind

from tests.code.comparisons.sides_by_hand import sides_of, sides_of_summaries
from training.comparisons.family import RULES, asv, conbench, mann_whitney, median_worse, perfherder, welch

#: The rules that need samples.
SAMPLED = {name: rule for name, rule in RULES.items() if rule is not median_worse}
STEADY = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.15, 99.85, 100.0]


def moved(factor):
    return [[factor * value for value in STEADY]]


def verdict(rule, *configurations, better="higher"):
    return bool(rule(sides_of([list(configurations)], better))[0])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_fails_a_fifth_less_and_passes_a_fifth_more(rule):
    assert verdict(rule, ([STEADY], moved(0.8)))
    assert not verdict(rule, ([STEADY], moved(1.2)))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_turns_round_where_lower_is_better(rule):
    assert verdict(rule, ([STEADY], moved(1.2)), better="lower")
    assert not verdict(rule, ([STEADY], moved(0.8)), better="lower")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_one_failing_configuration_fails_the_comparison(rule):
    assert verdict(rule, ([STEADY], [STEADY]), ([STEADY], moved(0.8)))
    assert not verdict(rule, ([STEADY], [STEADY]), ([STEADY], [STEADY]))


@pytest.mark.parametrize("rule", SAMPLED.values(), ids=SAMPLED)
def test_without_samples_every_rule_but_the_median_s_passes(rule):
    far = ((10.0, 10.1, 10.2, 10.3, 10.4), (5.0, 5.1, 5.2, 5.3, 5.4))
    assert not rule(sides_of_summaries([[far]]))[0]
    assert median_worse(sides_of_summaries([[far]]))[0]


@pytest.mark.parametrize("rule", SAMPLED.values(), ids=SAMPLED)
def test_one_sample_a_side_is_too_little_for_a_test(rule):
    assert not verdict(rule, ([[100.0]], [[50.0]]))


@pytest.mark.parametrize(("factor", "fails"), [(0.951, False), (0.949, True)])
def test_the_median_s_rule_has_its_edge_at_five_per_cent(factor, fails):
    assert verdict(median_worse, ([STEADY], moved(factor))) is fails


def test_the_tests_by_p_agree_with_scipy():
    baseline, target = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [8.0, 9.0, 10.0, 11.5, 12.5, 9.5]
    by_rank = mannwhitneyu(target, baseline, method="asymptotic").pvalue
    by_t = ttest_ind(target, baseline, equal_var=False).pvalue
    configuration = ([baseline], [target])
    assert verdict(lambda sides: mann_whitney(sides, by_rank * 1.0001), configuration)
    assert not verdict(lambda sides: mann_whitney(sides, by_rank * 0.9999), configuration)
    assert verdict(lambda sides: welch(sides, by_t * 1.0001), configuration)
    assert not verdict(lambda sides: welch(sides, by_t * 0.9999), configuration)


def test_constant_sides_that_differ_are_a_sure_difference():
    constant = ([[100.0] * 10], [[80.0] * 10])
    assert all(verdict(rule, constant) for rule in RULES.values())


def test_asv_and_perfherder_want_a_large_shift_beside_a_sure_one():
    assert verdict(lambda sides: mann_whitney(sides, 0.001), ([STEADY], moved(0.985)))
    assert not verdict(asv, ([STEADY], moved(0.91)))
    assert not verdict(perfherder, ([STEADY], moved(0.985)))
    assert verdict(perfherder, ([STEADY], moved(0.975)))


def test_conbench_measures_against_the_versions_where_there_are_several():
    versions = [[90.0, 90.1], [110.0, 110.1], [100.0, 100.1]]
    assert not verdict(conbench, (versions, [[80.0, 80.0]]))
    assert verdict(conbench, ([STEADY], [[95.0, 95.0]]))


def test_no_comparisons_get_no_verdicts():
    assert [rule(sides_of([])).tolist() for rule in RULES.values()] == [[]] * len(RULES)
