"""One odd run before the target, or one odd sample of many, neither hides a regression nor invents one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.sides import HISTORY_VERSIONS
from features.comparisons.vectors import PreparedComparisons, feature_vectors
from tests.code.comparisons.sides_by_hand import sides_of


@st.composite
def operations(draw):
    """Return runs of one build, the last two being the sides, and a copy with an odd earlier run."""
    # readers keep so many earlier runs, the odd one included
    seed, earlier = draw(st.integers(0, 10_000)), draw(st.integers(5, HISTORY_VERSIONS - 1))
    noise, repetitions = draw(st.sampled_from([0.002, 0.004, 0.01, 0.02])), draw(st.integers(2, 7))
    generator = np.random.default_rng(seed)
    levels = 100 * (1 + noise * generator.standard_normal(earlier + 2))
    runs = [one * (1 + 0.004 * generator.standard_normal(repetitions)) for one in levels]
    factor = draw(st.sampled_from([3.0, 10.0, 100.0, 0.1]) | st.floats(3, 1000) | st.floats(0.01, 0.3))
    odd = 100 * factor * (1 + 0.004 * generator.standard_normal(repetitions))
    at = draw(st.integers(0, earlier))
    return runs, [*runs[:at], odd, *runs[at:]], draw(st.sampled_from(["lower", "higher"]))


def prepared(runs, better, share=0.0):
    *past, before, after = runs
    factor = 1 + share if better == "lower" else 1 / (1 + share)
    return PreparedComparisons.from_sides(sides_of([[([before], [after * factor], past)]], better))


def vectors(pairs, better="lower"):
    sides = sides_of([[pair] for pair in pairs], better)
    return feature_vectors(PreparedComparisons.from_sides(sides).sides)


@settings(max_examples=50)
@given(case=operations(), worse=st.floats(-0.5, 3))
def test_an_outlier_in_history_changes_no_feature(case, worse):
    runs, with_odd, better = case
    usual, odd = (prepared(one, better, worse) for one in (runs, with_odd))
    np.testing.assert_array_equal(feature_vectors(odd.sides), feature_vectors(usual.sides))
    assert odd.worst_change == usual.worst_change
    assert odd.outliers.side.tolist() == [*usual.outliers.side, "history"]


@pytest.mark.parametrize("factor", [3.0, 0.1])
def test_an_outlier_in_a_long_baseline_changes_no_feature(factor):
    generator = np.random.default_rng(3)
    runs = [100 * (1 + 0.004 * generator.standard_normal(4)) for _ in range(9)]
    target = [runs.pop() * 1.03]
    with_odd = [*runs[:3], runs[2] * factor, *runs[3:]]
    np.testing.assert_array_equal(vectors([(with_odd, target)]), vectors([(runs, target)]))


def test_repeated_deviations_are_kept_in_history():
    generator = np.random.default_rng(4)
    runs = [100 * (1 + 0.004 * generator.standard_normal(4)) for _ in range(21)]
    slow = [one * 3 if place in {4, 11} else one for place, one in enumerate(runs)]
    asked = prepared(slow, "lower")
    assert asked.sides.history.lengths.tolist() == [4 * 19]
    assert asked.outliers.value.tolist() == []


@pytest.mark.parametrize(("better", "level"), [("lower", 60), ("higher", 150)])
@pytest.mark.parametrize("many", [2, 3])
def test_a_new_level_of_the_baseline_is_no_outlier(better, level, many):
    generator = np.random.default_rng(5)
    levels = [100] * 12 + [level] * many
    runs = [one * (1 + 0.004 * generator.standard_normal(4)) for one in levels]
    assert prepared(runs, better).outliers.value.tolist() == []


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("factor", [10.0, 2.0, 0.1])
@pytest.mark.parametrize("slower", [1.0, 1.2])
def test_one_outlier_in_ten_samples_changes_no_feature(better, side, factor, slower):
    pairs = 100 * (1 + 0.01 * np.random.default_rng(7).standard_normal((20, 2, 1, 10)))
    pairs[:, 1] *= slower
    without = pairs.tolist()
    for pair in without:
        del pair[side][0][0]
    pairs[:, side, :, 0] *= factor
    np.testing.assert_array_equal(vectors(pairs.tolist(), better), vectors(without, better))
