import math
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.tables import ComparisonTables
from features.comparisons import vectors as computed
from features.comparisons.featurize import split_blocks, training_tables
from features.comparisons.history import HISTORY, SIBLINGS
from features.comparisons.summaries import (
    estimate_superiority,
    over_configurations,
    range_overlap,
    robust_spread,
)
from features.comparisons.vectors import EXTENDED_FEATURES, FEATURES, SEED_FEATURES, model_columns
from tests.code.comparisons.sides_by_hand import sides_of, sides_of_summaries
from tests.comparison_rows import compared, result

# Seed 000, figure 6.1: min, q1, median, q3, max of bt_C_x with 4 and 8 threads, baseline and target.
FIGURE_6_1 = [
    ((7406.4, 7409.2, 7456.5, 7479.3, 7507.0), (7404.8, 7503.0, 7522.2, 7537.8, 7597.5)),
    ((14325.9, 14330.8, 14469.1, 14517.2, 14740.1), (14233.7, 14494.5, 14521.6, 14536.5, 14619.3)),
]

# A loaded machine is slow, which is no finding.
settings.register_profile("brief", deadline=None, max_examples=25)
settings.load_profile("brief")

five_numbers = st.lists(st.floats(1.0, 1e6), min_size=5, max_size=5).map(sorted)
configurations = st.lists(st.tuples(five_numbers, five_numbers), min_size=1, max_size=11)
side = st.lists(st.lists(st.floats(50.0, 150.0), min_size=2, max_size=4), min_size=1, max_size=3)


def vectors(sides):
    return pd.DataFrame(computed.feature_vectors(sides), columns=list(FEATURES))


def seed_vectors(sides):
    return pd.DataFrame(computed.seed_vectors(sides), columns=list(SEED_FEATURES))


def root(value):
    return math.sqrt(value) if value > 0 else -math.sqrt(abs(value))


def figure_6_5(results):
    """Transcribe figure 6.5 for one comparison node, with the five numbers in place of the attributes."""
    medians, mins, maxes, q1s, q3s = [], [], [], [], []
    for base, (t_min, t_q1, t_median, t_q3, t_max) in results:
        medians.append((t_median - base[2]) / base[2])
        mins.append((t_median - t_min) / t_median)
        maxes.append((t_median - t_max) / t_median)
        q1s.append((t_median - t_q1) / t_median)
        q3s.append((t_median - t_q3) / t_median)
    vector = []
    for a in [medians, mins, maxes, q1s, q3s]:
        vector.append(min(a))
        vector.append(statistics.median(a))
        vector.append(max(a))
    return [root(value) for value in vector]


def mirrored(results):
    return [tuple(tuple(-value for value in reversed(five)) for five in pair) for pair in results]


def test_vector_components_have_the_order_of_figure_6_5():
    assert SEED_FEATURES[:4] == ("medians_min", "medians_med", "medians_max", "mins_min")
    assert SEED_FEATURES[-3:] == ("q3s_min", "q3s_med", "q3s_max")
    assert model_columns("seed") == SEED_FEATURES
    assert set(model_columns("extended")) < set(FEATURES)
    assert FEATURES == SEED_FEATURES + EXTENDED_FEATURES


@given(st.lists(configurations, min_size=1, max_size=4))
def test_every_comparison_gives_figure_6_5_to_the_last_digit(comparisons):
    expected = [figure_6_5(results) for results in comparisons]
    np.testing.assert_array_equal(seed_vectors(sides_of_summaries(comparisons)).to_numpy(), expected)


def test_the_full_vector_begins_with_the_thesis_components():
    sides = sides_of_summaries([FIGURE_6_1, FIGURE_6_1[:1]])
    pd.testing.assert_frame_equal(vectors(sides)[list(SEED_FEATURES)], seed_vectors(sides))


@given(configurations)
def test_lower_is_better_features_equal_those_of_mirrored_values(results):
    lower = vectors(sides_of_summaries([results], better="lower"))
    higher = vectors(sides_of_summaries([mirrored(results)], better="higher"))
    pd.testing.assert_frame_equal(lower, higher)


@pytest.mark.parametrize(("better", "worse"), [("higher", 90.0), ("lower", 110.0)])
def test_a_worse_target_makes_shift_superiority_and_ranks_negative(better, worse):
    baseline, target = [[99.0, 100.0, 101.0]], [[worse - 1.5, worse, worse + 1.5]]
    vector = vectors(sides_of([[(baseline, target)]], better)).iloc[0]
    assert vector["medians_med"] == pytest.approx(-math.sqrt(0.1))
    assert vector["superiority_min"] == 0
    for name in ("rank_z_med", "welch_t_med", "baseline_effect_min", "lows_min", "highs_min", "overlap_min"):
        assert vector[name] < 0, name


@given(st.lists(st.tuples(side, side, side), min_size=1, max_size=4), st.sampled_from([0.125, 4.0, 1024.0]))
def test_features_do_not_depend_on_the_unit(results, factor):
    def scaled(versions):
        return [[factor * value for value in version] for version in versions]

    other = [tuple(scaled(part) for part in configuration) for configuration in results]
    pd.testing.assert_frame_equal(
        vectors(sides_of([results])), vectors(sides_of([other])), rtol=1e-9, atol=1e-12
    )


@given(st.lists(st.tuples(side, side, side), min_size=1, max_size=4))
def test_the_order_of_samples_and_configurations_does_not_matter(results):
    turned = [
        tuple([version[::-1] for version in part] for part in configuration) for configuration in results
    ]
    expected = vectors(sides_of([results]))
    pd.testing.assert_frame_equal(vectors(sides_of([turned[::-1]])), expected, rtol=1e-9, atol=1e-6)


@given(st.lists(st.lists(st.tuples(side, side, side), min_size=1, max_size=3), min_size=2, max_size=4))
def test_the_vector_of_a_comparison_does_not_depend_on_others(comparisons):
    together = vectors(sides_of(comparisons))
    alone = pd.concat([vectors(sides_of([comparison])) for comparison in comparisons], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone, check_exact=True)


@given(st.lists(st.lists(st.tuples(side, side, side), min_size=1, max_size=3), min_size=1, max_size=4))
def test_all_features_are_finite_or_missing(comparisons):
    assert not np.isinf(vectors(sides_of(comparisons)).to_numpy()).any()


@pytest.mark.parametrize("far", [1e-311, 1e-160, 1e160, 1e308])
def test_features_of_absurdly_large_numbers_are_bounded(far):
    past = [[far, -far], [1.0], [-far]] * 4
    sides = sides_of([[([[0.0, far, 1.0]], [[1.0, -far, 2 * -far]], past)], [([[far]], [[1546.0]])]])
    values = vectors(sides).to_numpy()
    assert np.abs(values[~np.isnan(values)]).max() <= np.finfo(np.float32).max


def test_only_version_features_are_missing_for_summaries():
    vector = vectors(sides_of_summaries([FIGURE_6_1])).iloc[0]
    unknown = {name for name in vector.index if np.isnan(vector[name])}
    assert {"version_t_min", "history_step_min"} <= unknown
    assert unknown <= {f"{name}_min" for name in HISTORY} | {f"{name}_max" for name in SIBLINGS}


def test_features_of_summaries_equal_those_of_five_samples():
    samples = ([96.0, 98.0, 100.0, 102.0, 104.0], [86.0, 88.0, 90.0, 92.0, 94.0])
    from_samples = vectors(sides_of([[tuple([side] for side in samples)]])).iloc[0]
    from_summaries = vectors(sides_of_summaries([[samples]])).iloc[0]
    for name in ("rank_z_min", "superiority_min", "welch_t_min", "repetitions_min"):
        assert from_summaries[name] == pytest.approx(from_samples[name], abs=0.25)


def test_without_history_only_history_features_are_missing():
    several = vectors(sides_of([[([[10.0], [11.0]], [[9.0], [8.0]])]])).iloc[0]
    assert {name for name in several.index if np.isnan(several[name])} >= {
        "history_step_min",
        "history_seen_min",
    }
    assert several["version_t_min"] < 0
    single = vectors(sides_of([[([[10.0, 11.0]], [[9.0, 8.0]])]])).iloc[0]
    assert np.isnan(single["version_t_min"])
    assert single["rank_z_min"] == pytest.approx(-4 / 2 / math.sqrt(4 * 5 / 12))


def test_equal_constant_sides_show_no_difference():
    vector = vectors(sides_of([[([[5.0, 5.0, 5.0]], [[5.0, 5.0, 5.0]])]])).iloc[0]
    assert vector["rank_z_min"] == vector["welch_t_min"] == vector["baseline_effect_min"] == 0
    assert vector["superiority_min"] == 0.5
    assert vector["overlap_min"] == 1


def test_no_comparisons_give_an_empty_table():
    assert vectors(sides_of([])).shape == (0, len(FEATURES))


def test_the_shift_from_a_zero_median_is_missing():
    vector = vectors(sides_of([[([[0.0, 0.0, 0.0]], [[1.0, 2.0, 3.0]])]])).iloc[0]
    assert np.isnan(vector["medians_med"])
    assert not np.isinf(vector.to_numpy()).any()


def test_the_training_table_holds_valid_labelled_comparisons_in_their_order():
    results = [
        result(operation, order, 1.0 + order + k) for operation in "xyz" for order in (0, 1) for k in (0, 1)
    ]
    comparisons = [compared(operation, operation) for operation in "zxy"]
    valid = pd.DataFrame(
        {"comparison_id": ["x", "y", "z"], "valid": [True, False, True], "status": ["pass", "fail", "fail"]}
    )
    table = training_tables(ComparisonTables.from_rows(results, comparisons, []), valid)["features"]
    assert table["comparison_id"].tolist() == ["z", "x"]
    assert table["status"].tolist() == ["fail", "pass"]
    assert table["fold_group"].tolist() == ["b/z", "b/x"]
    assert table.columns.tolist()[6:] == list(FEATURES)
    assert table["medians_med"].tolist() == pytest.approx([-math.sqrt(1 / 1.5)] * 2)


def test_training_tables_also_hold_features_without_history():
    results = [result("x", order, 1.0 + order % 3 + k) for order in range(9) for k in (0, 1)]
    comparisons = [compared("c", "x", (7, 7), (8, 8))]
    valid = pd.DataFrame({"comparison_id": ["c"], "valid": [True], "status": ["fail"]})
    found = training_tables(ComparisonTables.from_rows(results, comparisons, []), valid)
    own, bare = found["features"].iloc[0], found["bare"].iloc[0]
    assert (own["past_known_max"], bare["past_known_max"]) == (1, 0)
    assert np.isfinite(own["history_step_min"])
    assert np.isnan(bare["history_step_min"])
    assert own["medians_min"] == bare["medians_min"]
    # earlier versions say that such changes are usual here
    assert (found["changes"]["worst_change"].item(), bare["worst_change"]) == (0, pytest.approx(-1 / 2.5))


def test_features_computed_in_blocks_equal_those_computed_at_once():
    draw = np.random.default_rng(5)
    results = [
        result(operation, order, value, series_id=f"{benchmark} {machine} {operation}", benchmark=benchmark,
               machine=machine)
        for benchmark in ("a", "b", "c") for machine in ("m", "n") for operation in "stuvwxyz"
        for order in range(12) for value in 10 + draw.normal(0, 1, 4) + draw.normal(0, 0.5)
    ]  # fmt: skip
    ends = {"baseline_from": 8, "baseline_to": 9, "target_from": 10, "target_to": 11}
    names = ["benchmark", "machine", "operation"]
    told = pd.DataFrame(results)[names].drop_duplicates().sample(frac=1, random_state=1)
    comparisons = told.assign(comparison_id=told.agg("/".join, axis="columns"), **ends)
    valid = pd.DataFrame({"comparison_id": comparisons["comparison_id"], "valid": True, "status": "pass"})
    tables = ComparisonTables.from_rows(results, comparisons.to_dict("records"), [])
    whole, some = training_tables(tables, valid), training_tables(tables, valid, block_size=7)
    assert len(split_blocks(tables.comparisons, 7)) > 2
    assert whole["features"]["siblings_worse_max"].notna().all()
    for name, frame in whole.items():
        pd.testing.assert_frame_equal(some[name], frame, check_exact=True)


five = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=5, max_size=5).map(sorted)


def rows(*values):
    return np.array(values, np.float64)


def test_superiority_of_two_uniform_sides_is_an_area():
    uniform = [0.0, 1.0, 2.0, 3.0, 4.0]
    shifted = [2.0, 3.0, 4.0, 5.0, 6.0]
    # P(Y > X) for X over [0, 4], Y over [2, 6]: all but the triangle of legs 2 in a square of side 4.
    np.testing.assert_allclose(estimate_superiority(rows(uniform), rows(shifted)), 1 - 2 / 16)


@given(five, five)
@settings(deadline=None, max_examples=50)
def test_superiority_of_swapped_sides_adds_up_to_one(baseline, target):
    there = estimate_superiority(rows(baseline), rows(target))[0]
    back = estimate_superiority(rows(target), rows(baseline))[0]
    assert there + back == pytest.approx(1, abs=1e-6)
    assert -1e-9 <= there <= 1 + 1e-9


@pytest.mark.parametrize(
    ("target", "expected"),
    [([4, 5, 6, 7, 8], 1.0), ([0, 1, 2, 3, 4], 0.0), ([-8, -7, -6, -5, -4], -0.5), ([2, 3, 4, 5, 6], 1 / 3)],
)
def test_overlap_measures_the_targets_reach_into_the_baseline_range(target, expected):
    assert range_overlap(rows([4, 5, 6, 7, 8]), rows(target))[0] == pytest.approx(expected)


def test_spread_is_never_below_a_thousandth_of_the_median():
    np.testing.assert_allclose(robust_spread(rows([5, 5, 5, 5, 5], [0, 1, 2, 3.698, 5])), [0.005, 2.0])


def test_configurations_are_reduced_per_comparison_and_gaps_left_out():
    values = np.array([[5.0, 1.0, 3.0, 7.0, np.nan], [1.0, 2.0, np.nan, np.nan, np.nan]])
    extent = over_configurations(values, np.array([0, 0, 0, 2, 3]), 4)
    np.testing.assert_array_equal(extent.lowest, [[1, np.nan, 7, np.nan], [1, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.middle, [[3, np.nan, 7, np.nan], [1.5, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.highest, [[5, np.nan, 7, np.nan], [2, np.nan, np.nan, np.nan]])


def test_many_configurations_are_sorted_without_the_network():
    values = np.array([[9.0, 3.0, 7.0, 1.0, 8.0, 2.0, 6.0, 4.0, 5.0, 10.0]])
    extent = over_configurations(values, np.zeros(10, np.int64), 1)
    assert [extent.lowest[0, 0], extent.middle[0, 0], extent.highest[0, 0]] == [1, 5.5, 10]
