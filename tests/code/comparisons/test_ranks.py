"""Ranks, rules that use them, and levels of runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import mannwhitneyu, norm, ttest_ind

from features.comparisons import summaries
from features.comparisons.run_levels import RunLevels
from features.comparisons.summaries import interquartile_mean, limited_mean, rank_test, relative_deviation
from tests.code.comparisons.sides_by_hand import samples, sides_of, sides_of_summaries
from training.comparisons import family

tied = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=9)
pairs = st.lists(st.tuples(tied, tied), min_size=1, max_size=6)


def both(lists):
    return samples([[b] for b, _ in lists]), samples([[t] for _, t in lists])


def t_of(baseline, target, sign=1.0):
    return summaries.welch_t(*map(summaries.sample_moments, (baseline, target)), np.full(2, sign))


@given(pairs)
def test_rank_test_agrees_with_scipy_including_ties(lists):
    ranks = rank_test(*both(lists), np.ones(len(lists)))
    for row, (b, t) in enumerate(lists):
        oracle = mannwhitneyu(t, b, method="asymptotic", use_continuity=False)
        assert ranks.superiority[row] == pytest.approx(oracle.statistic / (len(b) * len(t)))
        if len(set(b + t)) == 1:
            assert ranks.z[row] == 0
        else:
            assert 2 * norm.sf(abs(ranks.z[row])) == pytest.approx(oracle.pvalue, rel=1e-9, abs=1e-12)


def test_welch_t_agrees_with_scipy_and_handles_constants_and_gaps():
    lists = [([1.0, 2.0, 4.0], [2.0, 2.5]), ([5.0, 5.5, 7.0, 1.0], [1.0, 2.0, 3.0])]
    expected = np.array([ttest_ind(t, b, equal_var=False).statistic for b, t in lists])
    for sign in (1, -1):
        np.testing.assert_allclose(t_of(*both(lists), sign), sign * expected)
    constant = both([([5.0, 5.0], [4.0, 4.0]), ([5.0, 5.0], [5.0, 5.0])])
    assert t_of(*constant).tolist() == [-np.inf, 0]
    empty = samples([[[1.0, 2.0]], []]), samples([[], [[1.0]]])
    ranks = rank_test(*empty, np.ones(2))
    assert np.isnan([ranks.z, ranks.superiority, t_of(*empty)]).all()


#: The rules that need samples.
SAMPLED = {name: rule for name, rule in family.RULES.items() if rule is not family.median_worse}
STEADY = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.15, 99.85, 100.0]


def moved(factor):
    return [[factor * value for value in STEADY]]


def verdict(rule, *configurations, better="higher"):
    return bool(rule(sides_of([list(configurations)], better))[0])


@pytest.mark.parametrize("rule", family.RULES.values(), ids=family.RULES)
@pytest.mark.parametrize(("better", "worse"), [("higher", 0.8), ("lower", 1.2)])
def test_every_rule_detects_a_change_in_one_of_two_configurations(rule, better, worse):
    same = ([STEADY], [STEADY])
    assert verdict(rule, ([STEADY], moved(worse)), better=better)
    assert verdict(rule, same, ([STEADY], moved(worse)), better=better)
    assert not verdict(rule, ([STEADY], moved(2 - worse)), better=better)
    assert not verdict(rule, same, same, better=better)


@pytest.mark.parametrize("rule", SAMPLED.values(), ids=SAMPLED)
def test_with_too_few_samples_only_the_median_rule_can_fail(rule):
    far = ((10.0, 10.1, 10.2, 10.3, 10.4), (5.0, 5.1, 5.2, 5.3, 5.4))
    assert not rule(sides_of_summaries([[far]]))[0]
    assert family.median_worse(sides_of_summaries([[far]]))[0]
    assert not verdict(rule, ([[100.0]], [[50.0]]))


def test_p_values_agree_with_scipy_and_constants_are_judged():
    baseline, target = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [8.0, 9.0, 10.0, 11.5, 12.5, 9.5]
    sides = sides_of([[([baseline], [target])]])
    by_rank = mannwhitneyu(target, baseline, method="asymptotic").pvalue
    by_t = ttest_ind(target, baseline, equal_var=False).pvalue
    for rule, p_value in ((family.mann_whitney, by_rank), (family.welch_rule, by_t)):
        assert rule(sides, p_value * 1.0001)[0]
        assert not rule(sides, p_value * 0.9999)[0]
    assert all(verdict(rule, ([[100.0] * 10], [[80.0] * 10])) for rule in family.RULES.values())
    assert [rule(sides_of([])).tolist() for rule in family.RULES.values()] == [[]] * len(family.RULES)


VERSIONS = [[90.0, 90.1], [110.0, 110.1], [100.0, 100.1]]


@pytest.mark.parametrize(
    ("rule", "baseline", "target", "fails"),
    [
        *((family.median_worse, [STEADY], moved(factor), factor < 0.95) for factor in (0.951, 0.949)),
        (lambda sides: family.mann_whitney(sides, 0.001), [STEADY], moved(0.985), True),
        (family.asv_rule, [STEADY], moved(0.91), False),
        *((family.perfherder_rule, [STEADY], moved(factor), factor < 0.98) for factor in (0.985, 0.975)),
        # the spread of several versions counts
        (family.conbench_rule, VERSIONS, [[52.5, 52.5]], False),
        (family.conbench_rule, [STEADY], [[95.0, 95.0]], True),
    ],
)
def test_rules_fail_from_their_own_sizes_of_a_shift_on(rule, baseline, target, fails):
    assert verdict(rule, (baseline, target)) is fails


LEVELS = pytest.mark.parametrize("level", [interquartile_mean, limited_mean, summaries.hodges_lehmann])


def measured(rng, noise, shape=(20, 10)):
    """Return ten samples of each operation of a run, with a standard deviation of 1 % or more."""
    match noise:
        case "normal":
            return 1 + 0.01 * rng.normal(size=shape)
        case "bimodal":
            return 1 + 0.01 * rng.choice([-1.0, 1.0], shape) + 0.001 * rng.normal(size=shape)
    return 1 + 0.01 * rng.normal(size=shape) + 0.2 * (rng.random(shape) < 0.1)


def levels_of(baseline, target):
    """Return the log levels of one run a side, shape (2, n_operations); samples of one row per operation."""
    pairs = zip(baseline, target, strict=True)
    levels = RunLevels.from_sides(sides_of([[([old], [new])] for old, new in pairs]))
    return np.vstack([levels.baseline, levels.target])


@LEVELS
@given(
    samples=arrays(float, st.tuples(st.just(3), st.integers(1, 25)), elements=st.floats(-1e6, 1e6)),
    factor=st.floats(0.5, 2.0),
)
def test_levels_are_within_the_samples_and_follow_their_unit_and_order(level, samples, factor):
    ordered = np.sort(samples, axis=1)
    found, slack = level(ordered), 1e-9 * (1 + np.abs(samples).max())
    assert (ordered[:, 0] - slack <= found).all()
    assert (found <= ordered[:, -1] + slack).all()
    assert level(factor * ordered) == pytest.approx(factor * found, abs=slack)
    assert level(-ordered[:, ::-1]) == pytest.approx(-found, abs=slack)


@pytest.mark.parametrize("statistic", [limited_mean, relative_deviation])
@given(
    arrays(float, st.tuples(st.integers(1, 4), st.integers(5, 12)), elements=st.floats(0.5, 1.0)),
    st.lists(st.integers(-900, 1023) | st.sampled_from([-900, 0, 1020, 1023]), min_size=4, max_size=4),
)
def test_a_power_of_two_changes_no_digit_of_a_statistic(statistic, samples, powers):
    factors = 2.0 ** np.array(powers[: len(samples)])
    ordered = np.sort(samples, axis=1)
    expected = statistic(ordered) * (factors if statistic is limited_mean else 1.0)
    np.testing.assert_array_equal(statistic(factors[:, None] * ordered), expected)


@LEVELS
def test_far_samples_barely_move_levels_and_missing_ones_hide_them(level):
    usual, far, missing = (np.append(np.arange(9.0), last)[None] for last in (9.0, 1e9, np.nan))
    assert abs(level(far) - level(usual)) < 1.5
    assert np.isnan(level(missing)).all()


@pytest.mark.parametrize(("noise", "better"), [("normal", 0.99), ("bimodal", 0.8), ("outliers", 1.02)])
def test_levels_scatter_no_more_than_means_or_interquartile_means(noise, better):
    """The level of one of the two kinds suits the samples of the whole run better, and is taken."""
    rng, errors = np.random.default_rng(20261127), []
    for _ in range(200):
        sides = [measured(rng, noise) for _ in range(2)]
        ordered = [np.sort(side, axis=1) for side in sides]
        each = [np.log([side.mean(axis=1) for side in sides]), np.log([*map(interquartile_mean, ordered)])]
        errors.append([np.diff(levels, axis=0) for levels in (levels_of(*sides), *each)])
    found, of_means, of_middle = np.sqrt((np.array(errors) ** 2).mean(axis=(0, 2, 3)))
    assert found < 1.05 * min(of_means, of_middle)
    assert found < better * of_middle
