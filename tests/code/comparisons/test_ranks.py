import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm, ttest_ind

from features.comparisons.summaries import moments, rank_test, welch_t
from tests.code.comparisons.sides_by_hand import samples

tied = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=9)
pairs = st.lists(st.tuples(tied, tied), min_size=1, max_size=6)


def both(lists):
    return samples([[b] for b, _ in lists]), samples([[t] for _, t in lists])


@given(pairs)
def test_ranks_agree_with_scipy_s_test_ties_and_all(lists):
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
    assert np.isnan(welch_t(moments(baseline), moments(target), np.ones(2))).all()


def test_welch_t_agrees_with_scipy():
    lists = [([1.0, 2.0, 4.0], [2.0, 2.5]), ([5.0, 5.5, 7.0, 1.0], [1.0, 2.0, 3.0])]
    baseline, target = both(lists)
    expected = [ttest_ind(t, b, equal_var=False).statistic for b, t in lists]
    np.testing.assert_allclose(welch_t(moments(baseline), moments(target), np.ones(2)), expected)
    np.testing.assert_allclose(
        welch_t(moments(baseline), moments(target), -np.ones(2)), np.negative(expected)
    )


def test_constant_sides_that_differ_are_infinitely_far_apart():
    baseline, target = both([([5.0, 5.0], [4.0, 4.0]), ([5.0, 5.0], [5.0, 5.0])])
    assert welch_t(moments(baseline), moments(target), np.ones(2)).tolist() == [-np.inf, 0]
