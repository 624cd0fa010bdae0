import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from tests import comparison_rows


def result(operation, threads, order, value, stat=None, better="higher"):
    series = {"series_id": f"{operation}/{threads}", "threads": threads}
    return comparison_rows.result(operation, order, value, **series, better=better, stat=stat)


def comparison(operation, baseline, target):
    return comparison_rows.compared(f"{operation}-{baseline}-{target}", operation, baseline, target)


def samples(side, row):
    return side.values[side.starts[row] : side.stops[row]].tolist()


@pytest.fixture
def tables():
    results = [result("x", 1, order, 10.0 * order + k) for order in range(5) for k in range(2)]
    results += [result("x", 2, 3, 7.0), result("x", 2, 4, 8.0)]
    results += [
        result("y", 4, order, 1 + order + place, name, "lower")
        for order in (0, 1)
        for place, name in enumerate(FIVE_NUMBERS)
    ]
    comparisons = [
        comparison("y", (0, 0), (1, 1)),
        comparison("x", (2, 3), (4, 4)),
        comparison("z", (0, 0), (1, 1)),
    ]
    return ComparisonTables.from_rows(results, comparisons, [])


def test_samples_and_history_are_selected_by_order(tables):
    sides = Sides.from_tables(tables)
    assert sides.comparison.tolist() == [0, 1, 1]
    assert sides.threads.tolist() == [4, 1, 2]
    assert samples(sides.baseline, 1) == [20, 21, 30, 31]
    assert samples(sides.target, 1) == [40, 41]
    assert samples(sides.history, 1) == [0, 1, 10, 11]
    assert samples(sides.baseline, 2) == [7]
    assert samples(sides.history, 2) == []
    assert sides.n_comparisons == 3


def test_summaries_fill_five_numbers_without_inventing_samples(tables):
    sides = Sides.from_tables(tables)
    assert sides.baseline_five[0].tolist() == [1, 2, 3, 4, 5]
    assert sides.target_five[0].tolist() == [2, 3, 4, 5, 6]
    assert sides.baseline.lengths[0] == 0
    assert sides.sign.tolist() == [-1, 1, 1]
    np.testing.assert_allclose(sides.target_five[1], [40, 40.25, 40.5, 40.75, 41])


def test_history_keeps_the_newest_forty_versions():
    results = [result("x", 1, order, float(order)) for order in range(60)]
    sides = Sides.from_tables(ComparisonTables.from_rows(results, [comparison("x", (50, 54), (55, 59))], []))
    assert samples(sides.history, 0) == list(range(10, 50))


def test_at_most_forty_known_versions_follow_the_target():
    results = [result("x", 1, order, float(order)) for order in range(60)] + [result("y", 1, 5, 1.0)]
    known = [None, 12, 14, 59]
    pairs = [comparison("x", (5, 9), (10, 12)) | {"later_to": later} for later in known]
    found = Sides.from_tables(ComparisonTables.from_rows(results, pairs, [])).later
    assert [samples(found, row) for row in range(4)] == [[], [], [13, 14], list(range(13, 53))]


def test_sides_of_no_comparisons_are_empty():
    sides = Sides.from_tables(ComparisonTables.from_rows([result("x", 1, 0, 1.0)], [], []))
    assert len(sides.comparison) == 0
