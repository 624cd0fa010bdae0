from dataclasses import replace

import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.history import HISTORY, sibling_features, version_features, with_versions
from tests.code.comparisons.sides_by_hand import samples, sides_of
from tests.comparison_rows import compared, result

CALM = [[100.0], [101.0], [99.0], [100.0], [102.0], [98.0], [100.0], [101.0], [99.0], [100.0]]
LOW = [[90.0], [91.0], [89.0], [90.0], [90.0]]


def features(baseline, target, history=(), better="higher"):
    sides = sides_of([[(baseline, target, list(history))]], better)
    return dict(zip(HISTORY, version_features(sides, with_versions(sides))[:, 0], strict=True))


def test_level_of_a_version_is_its_sample_median():
    sides = samples([[[1.0, 9.0, 2.0], [4.0]], [], [[5.0, 6.0]]]).version_medians
    assert sides.values.tolist() == [2, 4, 5.5]
    assert (sides.stops - sides.starts).tolist() == [2, 0, 1]
    assert sides.orders.tolist() == [0, 1, 0]


def test_a_step_at_the_boundary_explains_the_windows_best():
    step, late = features(CALM, LOW), features(CALM[:6] + LOW[:4], LOW)
    assert step["boundary_sharpness"] == -1
    assert step["boundary_gain"] < -0.9
    assert late["boundary_sharpness"] > -0.8
    # one bad version leaves a good best version
    single = features(CALM, [[60.0], [100.0], [101.0], [99.0], [100.0]])
    assert single["version_step"] == 0
    assert step["best_version"] < -3 < 0 < single["best_version"]


def test_a_drift_before_the_boundary_is_a_trend():
    drift = [[100.0 - k] for k in range(30)]
    assert features(drift[20:], LOW, drift[:20])["history_trend"] < -5
    assert abs(features(CALM, LOW, CALM)["history_trend"]) < 1


def test_a_level_seen_in_history_differs_from_a_new_one():
    seen = features(CALM, LOW, CALM + LOW + CALM)
    new = features(CALM, LOW, CALM + CALM)
    assert new["history_quantile"] == new["history_seen"] == 0
    assert new["history_rank"] == -1
    assert seen["history_quantile"] > 0
    assert seen["history_seen"] == pytest.approx(5 / 35)
    assert seen["history_rank"] > -1
    assert seen["history_superiority"] > new["history_superiority"] == 0
    assert seen["history_excess"] > new["history_excess"]


def test_history_features_are_symmetric_in_the_better_direction():
    mirrored = [[[-value for value in version] for version in versions] for versions in (CALM, LOW, CALM)]
    fall, rise = features(CALM, LOW, CALM), features(*mirrored, better="lower")
    assert rise == pytest.approx(fall, nan_ok=True)
    assert fall["version_t"] < 0 > fall["history_step"]


def test_one_version_per_side_without_history_gives_no_features():
    assert np.isnan(list(features([[1.0, 2.0]], [[1.0, 3.0]]).values())).all()


VERSIONS = [f"v{number}" for number in range(20)]
AT = 10


def level(version, falls_at=None):
    """Return what calm operations give, and those that get 10 % worse at a version."""
    return (100.0 if falls_at is None or version < falls_at else 90.0) + version % 3


def tables(falls, target=(AT, AT + 4), names=VERSIONS, skipped=(), better="higher"):
    """Make operations by where each falls; the first one is compared, and lacks the `skipped` versions."""
    sign = 1 if better == "higher" else -1
    results = [
        result(f"o{number}", order, level(order, fall) * sign, version=name, better=better)
        for number, fall in enumerate(falls)
        for order, name in enumerate(names)
        if number or order not in skipped
    ]
    asked = compared("c", "o0", (0, target[0] - 1), target)
    return ComparisonTables.from_rows(results, [asked], [])


def told(falls, **how):
    return sibling_features(Sides.from_tables(tables(falls, **how)))[0, 0]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_sibling_feature_grows_with_the_share_of_worse_siblings(better):
    assert told([None] * 9, better=better) == 0
    assert told([None, *[AT] * 2, *[None] * 6], better=better) == pytest.approx(np.sqrt(2 / 8))
    assert told([None, *[AT] * 8], better=better) == 1
    # an operation is not its own sibling, and steps at other versions count little
    assert told([AT, *[None] * 8], better=better) == 0
    assert told([None, *[AT + 3] * 8], better=better) < 1 / 2


def test_sibling_versions_after_the_target_are_ignored():
    falls, target = [None, *[AT + 2] * 8], (AT, AT + 1)
    assert told(falls, target=target) == told([None] * 9, target=target) == 0
    wide = (AT, AT + 4)
    assert told(falls, target=wide) > 0
    assert told(falls, target=wide, skipped=(AT + 2, AT + 3, AT + 4)) == 0


def test_few_siblings_or_unnamed_versions_give_no_features():
    assert np.isnan(told([None, *[AT] * 4]))
    for lacking in (
        {"target": (AT, AT)},
        {"names": [None] * len(VERSIONS)},
        {"names": ["same"] * AT + [None] * AT},
    ):
        assert np.isnan(told([None, *[AT] * 8], **lacking))


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("factor", [3.0, 10.0, 100.0, 0.1])
@pytest.mark.parametrize("before", [1, 3, 5])
def test_an_earlier_outlier_hides_no_step_of_siblings(before, factor, better):
    whole = tables([None, *[AT] * 6, *[None] * 6], better=better)
    results = whole.results.copy()
    results.loc[(results["order"] == AT - before) & (results["operation"] != "o0"), "value"] *= factor
    odd = replace(whole, results=results)
    expected, found = (sibling_features(Sides.from_tables(one))[0, 0] for one in (whole, odd))
    assert found == pytest.approx(expected, abs=0.05)
