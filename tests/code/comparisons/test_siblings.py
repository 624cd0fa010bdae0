from dataclasses import replace

import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.history import sibling_features
from tests.comparison_rows import compared, result

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
    return ComparisonTables.of_rows(results, [asked], [])


def told(falls, **how):
    return sibling_features(Sides.of(tables(falls, **how)))[0, 0]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_siblings_that_get_worse_at_the_same_version_count_by_their_share(better):
    assert told([None, *[None] * 8], better=better) == 0
    assert told([None, *[AT] * 2, *[None] * 6], better=better) == pytest.approx(np.sqrt(2 / 8))
    assert told([None, *[AT] * 8], better=better) == 1


def test_what_the_operation_itself_does_is_no_sibling_s_step():
    assert told([AT, *[None] * 8]) == 0


def test_a_step_elsewhere_counts_for_little():
    assert told([None, *[AT + 3] * 8]) < told([None, *[AT] * 8]) / 2


def test_nothing_is_looked_at_that_came_later_than_the_target():
    falls, target = [None, *[AT + 2] * 8], (AT, AT + 1)
    assert told(falls, target=target) == told([None] * 9, target=target) == 0
    wide = (AT, AT + 4)
    assert told(falls, target=wide) > 0
    assert told(falls, target=wide, skipped=(AT + 2, AT + 3, AT + 4)) == 0


def test_few_siblings_and_versions_without_a_name_say_nothing():
    assert np.isnan(told([None, *[AT] * 4]))
    assert np.isnan(told([None, *[AT] * 8], target=(AT, AT)))
    assert np.isnan(told([None, *[AT] * 8], names=[None] * len(VERSIONS)))
    assert np.isnan(told([None, *[AT] * 8], names=["same"] * AT + [None] * AT))


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("factor", [3.0, 10.0, 100.0, 0.1])
@pytest.mark.parametrize("before", [1, 3, 5])
def test_an_odd_version_before_hides_no_step_of_siblings(before, factor, better):
    whole = tables([None, *[AT] * 6, *[None] * 6], better=better)
    odd = whole.results["value"].mask(
        (whole.results["order"] == AT - before) & (whole.results["operation"] != "o0"),
        whole.results["value"] * factor,
    )
    found = sibling_features(Sides.of(replace(whole, results=whole.results.assign(value=odd))))[0, 0]
    assert found == pytest.approx(sibling_features(Sides.of(whole))[0, 0], abs=0.05)
