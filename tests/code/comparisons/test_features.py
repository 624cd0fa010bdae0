"""Vectors of comparisons: figure 6.5, history, siblings and outliers."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons import summaries
from features.comparisons import vectors as computed
from features.comparisons.featurize import split_blocks, training_tables
from features.comparisons.history import HISTORY, SIBLINGS, sibling_features, version_features, with_versions
from features.comparisons.outliers import without_outliers
from features.comparisons.vectors import FEATURES, SEED_FEATURES, PreparedComparisons
from tests.code.comparisons.sides_by_hand import samples, sides_of, sides_of_summaries
from tests.comparison_rows import compared, result

# Seed 000, figure 6.1: min, q1, median, q3, max of bt_C_x with 4 and 8 threads, baseline and target.
FIGURE_6_1 = [
    ((7406.4, 7409.2, 7456.5, 7479.3, 7507.0), (7404.8, 7503.0, 7522.2, 7537.8, 7597.5)),
    ((14325.9, 14330.8, 14469.1, 14517.2, 14740.1), (14233.7, 14494.5, 14521.6, 14536.5, 14619.3)),
]

five_numbers = st.lists(st.floats(1.0, 1e6), min_size=5, max_size=5).map(sorted)
configurations = st.lists(st.tuples(five_numbers, five_numbers), min_size=1, max_size=11)
side = st.lists(st.lists(st.floats(50.0, 150.0), min_size=2, max_size=4), min_size=1, max_size=3)


def vectors(sides):
    return pd.DataFrame(computed.feature_vectors(sides), columns=list(FEATURES))


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
    parts = (medians, mins, maxes, q1s, q3s)
    return [root(reduced(part)) for part in parts for reduced in (min, statistics.median, max)]


def test_vector_components_have_the_order_of_figure_6_5():
    assert SEED_FEATURES[:4] == ("medians_min", "medians_med", "medians_max", "mins_min")
    assert SEED_FEATURES[-3:] == ("q3s_min", "q3s_med", "q3s_max")
    assert computed.model_columns("thesis") == SEED_FEATURES
    assert set(computed.model_columns("extended")) < set(FEATURES)
    assert FEATURES == SEED_FEATURES + computed.EXTENDED_FEATURES


@given(st.lists(configurations, min_size=1, max_size=4))
def test_every_comparison_gives_figure_6_5_to_the_last_digit(comparisons):
    sides = sides_of_summaries(comparisons)
    expected = [figure_6_5(results) for results in comparisons]
    np.testing.assert_array_equal(vectors(sides)[list(SEED_FEATURES)], expected)


@pytest.mark.parametrize(("better", "worse"), [("higher", 90.0), ("lower", 110.0)])
def test_a_worse_target_makes_shift_superiority_and_ranks_negative(better, worse):
    baseline, target = [[99.0, 100.0, 101.0]], [[worse - 1.5, worse, worse + 1.5]]
    vector = vectors(sides_of([[(baseline, target)]], better)).iloc[0]
    assert vector["medians_med"] == pytest.approx(-math.sqrt(0.1))
    assert vector["superiority_min"] == 0
    for name in ("rank_z_med", "welch_t_med", "baseline_effect_min", "lows_min", "highs_min", "overlap_min"):
        assert vector[name] < 0, name


@given(st.lists(st.tuples(side, side, side), min_size=1, max_size=4), st.sampled_from([0.125, 4.0, 1024.0]))
def test_features_do_not_depend_on_unit_order_or_direction(results, factor):
    def with_versions(change):
        return [tuple([change(version) for version in part] for part in one) for one in results]

    expected = vectors(sides_of([results]))
    scaled = with_versions(lambda version: [factor * value for value in version])
    pd.testing.assert_frame_equal(vectors(sides_of([scaled])), expected, rtol=1e-9, atol=1e-12)
    turned = with_versions(lambda version: version[::-1])[::-1]
    pd.testing.assert_frame_equal(vectors(sides_of([turned])), expected, rtol=1e-9, atol=1e-6)
    mirrored = with_versions(lambda version: [-value for value in version])
    pd.testing.assert_frame_equal(vectors(sides_of([mirrored], "lower")), expected, rtol=1e-9, atol=1e-6)


@given(st.lists(st.lists(st.tuples(side, side, side), min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_finite_vector_of_comparisons_does_not_depend_on_others(comparisons):
    together = vectors(sides_of(comparisons))
    assert not np.isinf(together.to_numpy()).any()
    alone = pd.concat([vectors(sides_of([comparison])) for comparison in comparisons], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone, check_exact=True)


@pytest.mark.parametrize("far", [1e-311, 1e-160, 1e160, 1e308])
def test_features_of_absurdly_large_numbers_are_bounded(far):
    past = [[far, -far], [1.0], [-far]] * 4
    sides = sides_of([[([[0.0, far, 1.0]], [[1.0, -far, 2 * -far]], past)], [([[far]], [[1546.0]])]])
    values = vectors(sides).to_numpy()
    assert np.abs(values[~np.isnan(values)]).max() <= np.finfo(np.float32).max


def test_summaries_lack_only_features_of_versions_and_equal_samples():
    vector = vectors(sides_of_summaries([FIGURE_6_1])).iloc[0]
    unknown = {name for name in vector.index if np.isnan(vector[name])}
    assert {"version_t_min", "history_step_min"} <= unknown
    assert unknown <= {f"{name}_min" for name in HISTORY} | {f"{name}_max" for name in SIBLINGS}
    samples = ([96.0, 98.0, 100.0, 102.0, 104.0], [86.0, 88.0, 90.0, 92.0, 94.0])
    from_samples = vectors(sides_of([[tuple([side] for side in samples)]])).iloc[0]
    from_summaries = vectors(sides_of_summaries([[samples]])).iloc[0]
    for name in ("rank_z_min", "superiority_min", "welch_t_min", "repetitions_min"):
        assert from_summaries[name] == pytest.approx(from_samples[name], abs=0.25)


def test_without_history_only_history_features_are_missing():
    several = vectors(sides_of([[([[10.0], [11.0]], [[9.0], [8.0]])]])).iloc[0]
    assert several[["history_step_min", "history_seen_min"]].isna().all()
    assert several["version_t_min"] < 0
    single = vectors(sides_of([[([[10.0, 11.0]], [[9.0, 8.0]])]])).iloc[0]
    assert single[[f"{name}_min" for name in HISTORY]].isna().all()
    assert single["rank_z_min"] == pytest.approx(-4 / 2 / math.sqrt(4 * 5 / 12))


def test_constant_sides_have_no_difference_and_zero_no_shift():
    vector = vectors(sides_of([[([[5.0, 5.0, 5.0]], [[5.0, 5.0, 5.0]])]])).iloc[0]
    assert vector["rank_z_min"] == vector["welch_t_min"] == vector["baseline_effect_min"] == 0
    assert (vector["superiority_min"], vector["overlap_min"]) == (0.5, 1)
    vector = vectors(sides_of([[([[0.0, 0.0, 0.0]], [[1.0, 2.0, 3.0]])]])).iloc[0]
    assert np.isnan(vector["medians_med"])
    assert not np.isinf(vector.to_numpy()).any()
    assert vectors(sides_of([])).shape == (0, len(FEATURES))


def test_the_training_table_holds_valid_labelled_comparisons_in_their_order():
    results = [result(name, order, 1.0 + order + k) for name in "xyz" for order in (0, 1) for k in (0, 1)]
    comparisons = [compared(operation, operation) for operation in "zxy"]
    valid = pd.DataFrame(
        {"comparison_id": ["x", "y", "z"], "valid": [True, False, True], "status": ["pass", "fail", "fail"]}
    )
    table = training_tables(ComparisonTables.from_rows(results, comparisons, []), valid)["features"]
    assert table[["comparison_id", "status", "fold_group"]].to_numpy().tolist() == [
        ["z", "fail", "b/z"], ["x", "pass", "b/x"],
    ]  # fmt: skip
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


@given(five, five)
@settings(max_examples=50)
def test_superiority_is_an_area_and_that_of_both_sides_one(baseline, target):
    there = summaries.estimate_superiority(np.array([baseline]), np.array([target]))[0]
    back = summaries.estimate_superiority(np.array([target]), np.array([baseline]))[0]
    assert there + back == pytest.approx(1, abs=1e-6)
    assert -1e-9 <= there <= 1 + 1e-9
    # P(Y > X) for X over [0, 4], Y over [2, 6]: all but the triangle of legs 2 in a square of side 4.
    uniform = np.arange(5.0)[None]
    np.testing.assert_allclose(summaries.estimate_superiority(uniform, uniform + 2), 1 - 2 / 16)


def test_overlap_is_the_targets_reach_and_spread_has_a_minimum():
    targets = np.array([4.0, 0.0, -8.0, 2.0])[:, None] + np.arange(5)
    found = summaries.range_overlap(np.tile(np.arange(4.0, 9.0), (4, 1)), targets)
    assert found.tolist() == pytest.approx([1.0, 0.0, -0.5, 1 / 3])
    # never below a thousandth of the median
    five = np.array([[5, 5, 5, 5, 5], [0, 1, 2, 3.698, 5]])
    np.testing.assert_allclose(summaries.robust_spread(five), [0.005, 2.0])


def test_configurations_are_reduced_per_comparison_and_gaps_left_out():
    values = np.array([[5.0, 1.0, 3.0, 7.0, np.nan], [1.0, 2.0, np.nan, np.nan, np.nan]])
    extent = summaries.over_configurations(values, np.array([0, 0, 0, 2, 3]), 4)
    np.testing.assert_array_equal(extent.lowest, [[1, np.nan, 7, np.nan], [1, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.middle, [[3, np.nan, 7, np.nan], [1.5, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(extent.highest, [[5, np.nan, 7, np.nan], [2, np.nan, np.nan, np.nan]])
    # too many for the network that sorts a few
    ten = np.array([[9.0, 3, 7, 1, 8, 2, 6, 4, 5, 10]])
    many = summaries.over_configurations(ten, np.zeros(10, np.int64), 1)
    assert [many.lowest[0, 0], many.middle[0, 0], many.highest[0, 0]] == [1, 5.5, 10]


TEN = [99.0, 99.5, 100.0, 100.5, 101.0, 99.2, 99.8, 100.3, 100.7, 100.1]


@pytest.mark.parametrize("wild", [1000.0, 10.0, 120.0])
@pytest.mark.parametrize("side", ["baseline", "target"])
def test_single_outlier_of_a_side_is_excluded(side, wild):
    samples = [*TEN[:4], wild, *TEN[4:9]]
    pair = ([samples], [TEN]) if side == "baseline" else ([TEN], [samples])
    kept, found = without_outliers(sides_of([[([TEN], [TEN])], [pair]]))
    assert [getattr(kept, side).samples_of_row(row).tolist() for row in (0, 1)] == [TEN, TEN[:9]]
    assert getattr(kept, f"{side}_five")[1].tolist() == pytest.approx([99.0, 99.5, 100.0, 100.5, 101.0])
    told = (found.comparison, found.threads, found.side, found.samples, found.value, found.median)
    assert [one.tolist() for one in told] == [[1], [1], [side], [10], [wild], [100.0]]


@pytest.mark.parametrize(
    "target",
    [
        [*TEN[:7], 130.0, 131.0, 132.0],  # two modes
        [*TEN[:8], 1000.0, 1010.0],
        [*TEN[:9], 104.0],  # a long tail
        [99.0, 100.0, 101.0, 1000.0],  # too few to be the others
        [99.0, 100.0, 101.0, 99.5, 110.0],  # of five, normal noise does that
        [100.0] * 9 + [102.0],
    ],
)
def test_moderate_or_repeated_outliers_are_kept(target):
    sides = sides_of([[([TEN], [target])]])
    assert without_outliers(sides)[0] is sides


def test_outliers_in_most_configurations_are_kept():
    wild, usual = ([TEN], [[*TEN[:9], 1000.0]]), ([TEN], [TEN])
    for comparison, left_out in (([wild, usual], 1), ([wild, wild], 0), ([wild, wild, usual, usual], 2)):
        assert len(without_outliers(sides_of([comparison]))[1].value) == left_out


def test_outlier_removal_leaves_history_and_summaries_unchanged():
    sides = sides_of([[([TEN[:5], [*TEN[5:], 1000.0]], [TEN], [TEN, TEN])]])
    kept, _ = without_outliers(sides)
    start, stop = kept.baseline.starts[0], kept.baseline.stops[0]
    assert kept.baseline.orders[start:stop].tolist() == [0] * 5 + [1] * 5
    assert kept.history is sides.history
    given = sides_of_summaries([[([1.0, 2.0, 3.0, 4.0, 900.0], [1.0, 2.0, 3.0, 4.0, 5.0])]])
    assert without_outliers(given)[0] is given


@pytest.mark.parametrize(("better", "worst", "change"), [("higher", 1, -0.05), ("lower", 0, -0.03)])
def test_worst_and_best_median_changes_are_reported(better, worst, change):
    both = [([[100.0] * 3], [[103.0] * 3]), ([[200.0] * 3], [[190.0] * 3])]
    asked = PreparedComparisons.from_sides(sides_of([both], better))
    assert (asked.worst.tolist(), asked.best.tolist()) == ([worst], [1 - worst])
    assert asked.worst_change.tolist() == pytest.approx([change])
    assert PreparedComparisons.from_sides(sides_of([])).worst_change.tolist() == []
    # a configuration that repeats another one counts once
    again = PreparedComparisons.from_sides(sides_of([[*both, both[0]]], better))
    np.testing.assert_array_equal(again.sides.target_five, asked.sides.target_five)


CALM = [[100.0], [101.0], [99.0], [100.0], [102.0], [98.0], [100.0], [101.0], [99.0], [100.0]]
LOW = [[90.0], [91.0], [89.0], [90.0], [90.0]]


def history_of(baseline, target, history=()):
    sides = sides_of([[(baseline, target, list(history))]])
    return dict(zip(HISTORY, version_features(sides, with_versions(sides))[:, 0], strict=True))


def test_medians_of_versions_become_matrices_and_quantiles_of_them():
    found = samples([[[1.0, 9.0, 2.0], [4.0]], [], [[5.0, 6.0]]]).version_medians
    assert [found.samples_of_row(row).tolist() for row in range(3)] == [[2, 4], [], [5.5]]
    assert found.orders.tolist() == [0, 1, 0]
    ragged = samples([[[1.0, 2.0, 3.0]], [[4.0]]])
    np.testing.assert_array_equal(summaries.first_values(ragged, 2), [[1, 2], [4, np.nan]])
    np.testing.assert_array_equal(summaries.last_values(ragged, 2), [[2, 3], [np.nan, 4]])
    rows = np.array([[3.0, np.nan, 1.0, 2.0], [np.nan, np.nan, 5.0, 9.0]])
    for share in (0.0, 0.05, 0.5, 0.95, 1.0):
        np.testing.assert_allclose(summaries.row_quantile(rows, share), np.nanquantile(rows, share, axis=1))


def test_a_step_at_the_boundary_explains_the_windows_best():
    step, late = history_of(CALM, LOW), history_of(CALM[:6] + LOW[:4], LOW)
    assert step["boundary_sharpness"] == -1
    assert step["boundary_gain"] < -0.9
    assert late["boundary_sharpness"] > -0.8
    # one bad version leaves a good best version
    single = history_of(CALM, [[60.0], [100.0], [101.0], [99.0], [100.0]])
    assert single["version_step"] == 0
    assert step["best_version"] < -3 < 0 < single["best_version"]


def test_a_drift_before_the_boundary_is_a_trend():
    drift = [[100.0 - k] for k in range(30)]
    assert history_of(drift[20:], LOW, drift[:20])["history_trend"] < -5
    step = history_of(CALM, LOW, CALM)
    assert abs(step["history_trend"]) < 1
    assert step["version_t"] < 0 > step["history_step"]


def test_a_level_seen_in_history_differs_from_a_new_one():
    seen = history_of(CALM, LOW, CALM + LOW + CALM)
    new = history_of(CALM, LOW, CALM + CALM)
    assert new["history_quantile"] == new["history_seen"] == 0
    assert new["history_rank"] == -1
    assert seen["history_quantile"] > 0
    assert seen["history_seen"] == pytest.approx(5 / 35)
    assert seen["history_rank"] > -1
    assert seen["history_superiority"] > new["history_superiority"] == 0
    assert seen["history_excess"] > new["history_excess"]


VERSIONS = [f"v{number}" for number in range(20)]
AT = 10


def sibling_tables(falls, target=(AT, AT + 4), names=VERSIONS, skipped=(), better="higher"):
    """Make operations by where each falls 10 %; the first is compared, and lacks the `skipped` versions."""

    def level(order, fall):
        return (1 if better == "higher" else -1) * (
            (90 if fall is not None and order >= fall else 100) + order % 3
        )

    results = [
        result(f"o{number}", order, level(order, fall), version=name, better=better)
        for number, fall in enumerate(falls)
        for order, name in enumerate(names)
        if number or order not in skipped
    ]
    return ComparisonTables.from_rows(results, [compared("c", "o0", (0, target[0] - 1), target)], [])


def siblings_of(falls, **how):
    return of_tables(sibling_tables(falls, **how))


def of_tables(tables):
    return sibling_features(Sides.from_tables(tables))[0, 0]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_sibling_feature_grows_with_the_share_of_worse_siblings(better):
    assert siblings_of([None] * 9, better=better) == 0
    assert siblings_of([None, *[AT] * 2, *[None] * 6], better=better) == pytest.approx(np.sqrt(2 / 8))
    assert siblings_of([None, *[AT] * 8], better=better) == 1
    # an operation is not its own sibling, and steps at other versions count little
    assert siblings_of([AT, *[None] * 8], better=better) == 0
    assert siblings_of([None, *[AT + 3] * 8], better=better) < 1 / 2


def test_sibling_versions_after_the_target_are_ignored():
    falls, target = [None, *[AT + 2] * 8], (AT, AT + 1)
    assert siblings_of(falls, target=target) == siblings_of([None] * 9, target=target) == 0
    wide = (AT, AT + 4)
    assert siblings_of(falls, target=wide) > 0
    assert siblings_of(falls, target=wide, skipped=(AT + 2, AT + 3, AT + 4)) == 0


def test_few_siblings_or_unnamed_versions_give_no_features():
    assert np.isnan(siblings_of([None, *[AT] * 4]))
    unnamed, same = [None] * len(VERSIONS), ["same"] * AT + [None] * AT
    for lacking in ({"target": (AT, AT)}, {"names": unnamed}, {"names": same}):
        assert np.isnan(siblings_of([None, *[AT] * 8], **lacking))


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("factor", [3.0, 10.0, 100.0, 0.1])
@pytest.mark.parametrize("before", [1, 3, 5])
def test_an_earlier_outlier_hides_no_step_of_siblings(before, factor, better):
    whole = sibling_tables([None, *[AT] * 6, *[None] * 6], better=better)
    results = whole.results.copy()
    results.loc[(results["order"] == AT - before) & (results["operation"] != "o0"), "value"] *= factor
    assert of_tables(replace(whole, results=results)) == pytest.approx(of_tables(whole), abs=0.05)
