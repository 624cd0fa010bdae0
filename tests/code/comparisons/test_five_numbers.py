import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.comparisons.summaries import over_configurations, overlap, spread, superiority

five = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=5, max_size=5).map(sorted)


def rows(*values):
    return np.array(values, np.float64)


def test_superiority_of_two_uniform_sides_is_the_area_above_the_diagonal():
    uniform = [0.0, 1.0, 2.0, 3.0, 4.0]
    shifted = [2.0, 3.0, 4.0, 5.0, 6.0]
    # P(Y > X) for X over [0, 4], Y over [2, 6]: all but the triangle of legs 2 in a square of side 4.
    np.testing.assert_allclose(superiority(rows(uniform), rows(shifted)), 1 - 2 / 16)


@given(five, five)
@settings(deadline=None, max_examples=50)
def test_superiority_of_turned_sides_adds_up_to_one(baseline, target):
    there = superiority(rows(baseline), rows(target))[0]
    back = superiority(rows(target), rows(baseline))[0]
    assert there + back == pytest.approx(1, abs=1e-6)
    assert -1e-9 <= there <= 1 + 1e-9


@pytest.mark.parametrize(
    ("target", "expected"),
    [([4, 5, 6, 7, 8], 1.0), ([0, 1, 2, 3, 4], 0.0), ([-8, -7, -6, -5, -4], -0.5), ([2, 3, 4, 5, 6], 1 / 3)],
)
def test_overlap_is_how_far_the_target_reaches_up_into_the_baseline_s_range(target, expected):
    assert overlap(rows([4, 5, 6, 7, 8]), rows(target))[0] == pytest.approx(expected)


def test_spread_is_never_below_a_thousandth_of_the_median():
    np.testing.assert_allclose(spread(rows([5, 5, 5, 5, 5], [0, 1, 2, 3.698, 5])), [0.005, 2.0])


def test_configurations_are_reduced_per_comparison_and_gaps_left_out():
    values = np.array([[5.0, 1.0, 3.0, 7.0, np.nan], [1.0, 2.0, np.nan, np.nan, np.nan]])
    extent = over_configurations(values, np.array([0, 0, 0, 2, 3]), 4)
    np.testing.assert_array_equal(extent.lowest, [[1, np.nan, 7, np.nan], [1, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.middle, [[3, np.nan, 7, np.nan], [1.5, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.highest, [[5, np.nan, 7, np.nan], [2, np.nan, np.nan, np.nan]])


def test_more_configurations_than_the_network_takes_are_sorted():
    values = np.array([[9.0, 3.0, 7.0, 1.0, 8.0, 2.0, 6.0, 4.0, 5.0, 10.0]])
    extent = over_configurations(values, np.zeros(10, np.int64), 1)
    assert [extent.lowest[0, 0], extent.middle[0, 0], extent.highest[0, 0]] == [1, 5.5, 10]
