import numpy as np
import pytest

from features.comparisons.outliers import without_outliers
from features.comparisons.vectors import PreparedComparisons
from tests.code.comparisons.sides_by_hand import sides_of, sides_of_summaries

TEN = [99.0, 99.5, 100.0, 100.5, 101.0, 99.2, 99.8, 100.3, 100.7, 100.1]


def lists(samples):
    return [samples.values[a:b].tolist() for a, b in zip(samples.starts, samples.stops, strict=True)]


@pytest.mark.parametrize("wild", [1000.0, 10.0, 120.0])
@pytest.mark.parametrize("side", ["baseline", "target"])
def test_single_outlier_of_a_side_is_excluded(side, wild):
    samples = [*TEN[:4], wild, *TEN[4:9]]
    pair = ([samples], [TEN]) if side == "baseline" else ([TEN], [samples])
    kept, found = without_outliers(sides_of([[([TEN], [TEN])], [pair]]))
    assert lists(getattr(kept, side)) == [TEN, TEN[:9]]
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
    kept, found = without_outliers(sides)
    assert kept is sides
    assert len(found.value) == 0


def test_outliers_in_most_configurations_are_kept():
    wild, usual = ([TEN], [[*TEN[:9], 1000.0]]), ([TEN], [TEN])
    for comparison, left_out in (([wild, usual], 1), ([wild, wild], 0), ([wild, wild, usual, usual], 2)):
        assert len(without_outliers(sides_of([comparison]))[1].value) == left_out


def test_outlier_removal_leaves_history_and_summaries_unchanged():
    sides = sides_of([[([TEN[:5], [*TEN[5:], 1000.0]], [TEN], [TEN, TEN])]])
    kept, _ = without_outliers(sides)
    assert (
        kept.baseline.orders[kept.baseline.starts[0] : kept.baseline.stops[0]].tolist() == [0] * 5 + [1] * 5
    )
    assert kept.history is sides.history
    given = sides_of_summaries([[([1.0, 2.0, 3.0, 4.0, 900.0], [1.0, 2.0, 3.0, 4.0, 5.0])]])
    assert without_outliers(given)[0] is given


@pytest.mark.parametrize(("better", "worst"), [("higher", 1), ("lower", 0)])
def test_worst_and_best_median_changes_are_reported(better, worst):
    asked = PreparedComparisons.from_sides(
        sides_of([[([[100.0] * 3], [[103.0] * 3]), ([[200.0] * 3], [[190.0] * 3])]], better)
    )
    assert (asked.worst.tolist(), asked.best.tolist()) == ([worst], [1 - worst])
    assert asked.worst_change.tolist() == pytest.approx([-0.05 if better == "higher" else -0.03])


def test_worst_changes_of_no_comparisons_are_empty():
    assert np.asarray(PreparedComparisons.from_sides(sides_of([])).worst_change).tolist() == []
