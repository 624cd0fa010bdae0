import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from data.comparisons.validity import find_errors, invalid_reasons, unusable_reasons
from tests import comparison_rows


def result(threads, order, value, stat=None):
    return comparison_rows.result("x", order, value, threads=threads, stat=stat)


def comparison(name="c", source=None, target=1):
    return comparison_rows.compared(name, "x", target=(target, target), source=source)


def tables(results, comparisons=None):
    return ComparisonTables.from_rows(results, comparisons or [comparison()], [])


def samples(threads, *sides):
    return [result(threads, order, value) for order, side in enumerate(sides) for value in side]


GOOD = samples(1, [1.0, 2.0], [3.0, 4.0])


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        (GOOD, ""),
        ([], "has no measurement"),
        (samples(1, [], [], [1.0]), "has no measurement"),
        (samples(1, [], [3.0, 4.0]), "the baseline has no measurement"),
        (samples(1, [1.0, 2.0]) + samples(4, [3.0]), "the target has no measurement"),
        (GOOD + samples(2, [1.0]), "threads 2: the target has no measurement"),
        (
            samples(2, [1.0]) + samples(4, [], [1.0]) + samples(8, [1.0]),
            "threads 4: the baseline has no measurement; threads 2, 8: the target has no measurement",
        ),
        (samples(1, [1.0, np.inf], [3.0, 4.0]), "threads 1: the baseline holds a value that is not finite"),
        (samples(1, [1.0, 2.0], [np.nan, 4.0]), "threads 1: the target holds a value that is not finite"),
        (samples(1, [np.nan], [np.nan]), "threads 1: the baseline holds a value that is not finite"),
        (GOOD + samples(4, [1.0], [3.0, 4.0]), "threads 4: the baseline has one repetition only"),
        (samples(4, [1.0, 2.0], [3.0]), "threads 4: the target has one repetition only"),
        (samples(4, [0.0, 0.0], [3.0, 4.0]), "threads 4: the baseline holds a value that is not above 0: 0"),
        (
            GOOD + samples(4, [1.0, 1.0], [5.0, -1.5, 5.0, -0.5]),
            "threads 4: the target holds a value that is not above 0: -1.5",
        ),
        (
            samples(4, [-3.0, -3.1], [-3.0, -3.1]),
            "threads 4: the baseline holds a value that is not above 0: -3.1",
        ),
    ],
)
def test_a_comparison_that_cannot_be_judged_has_a_reason(results, reason):
    assert invalid_reasons(Sides.from_tables(tables(results))).tolist() == [reason]


def test_a_summary_must_have_all_five_numbers():
    names = ("min", "q1", "median", "q3", "max")
    whole = [result(1, order, 1.0, name) for order in (0, 1) for name in names]
    assert invalid_reasons(Sides.from_tables(tables(whole))).tolist() == [""]
    assert invalid_reasons(Sides.from_tables(tables(whole[1:]))).tolist() == [
        "threads 1: the baseline holds a value that is not finite"
    ]


def test_the_five_numbers_of_a_summary_must_ascend():
    numbers = {"min": 1.0, "q1": 2.0, "median": 3.0, "q3": 2.5, "max": 4.0}
    rows = [result(1, 0, 1.0, name) for name in numbers]
    rows += [result(1, 1, value, name) for name, value in numbers.items()]
    assert invalid_reasons(Sides.from_tables(tables(rows))).tolist() == [
        "threads 1: the target has five numbers that don't ascend from min to max"
    ]


def test_the_five_numbers_of_a_summary_must_be_above_0():
    rows = [
        result(1, 0, value, name) for name, value in zip(FIVE_NUMBERS, (1.0, 2.0, 3.0, 4.0, 5.0), strict=True)
    ]
    rows += [
        result(1, 1, value, name)
        for name, value in zip(FIVE_NUMBERS, (-2.0, 2.0, 3.0, 4.0, 5.0), strict=True)
    ]
    assert invalid_reasons(Sides.from_tables(tables(rows))).tolist() == [
        "threads 1: the target holds a value that is not above 0: -2"
    ]


def test_history_values_must_be_positive_unlike_later_ones():
    results = samples(1, [1.0, 0.0], [1.0, 2.0], [3.0, 4.0], [-5.0])
    pairs = [comparison("a", target=2) | {"baseline_from": 1, "baseline_to": 1, "later_to": 3}]
    assert invalid_reasons(Sides.from_tables(tables(results, pairs))).tolist() == [
        "threads 1: the history holds a value that is not above 0: 0"
    ]
    assert invalid_reasons(Sides.from_tables(tables(results[2:], pairs))).tolist() == [""]


def test_each_invalid_comparison_gets_a_separate_reason():
    results = GOOD + samples(1, [], [], [5.0], [0.0, 0.0])
    pairs = [comparison("a"), comparison("b", target=2), comparison("c", target=9), comparison("d", target=3)]
    assert invalid_reasons(Sides.from_tables(tables(results, pairs))).tolist() == [
        "",
        "threads 1: the target has one repetition only",
        "the target has no measurement",
        "threads 1: the target holds a value that is not above 0: 0",
    ]


@pytest.mark.parametrize(
    "pair", [[comparison("a"), comparison("a", target=2)], [comparison("a"), comparison("b")]]
)
def test_repeated_comparisons_of_a_source_are_unusable(pair):
    results = GOOD + samples(1, [], [], [5.0, 6.0])
    assert unusable_reasons(tables(results, pair)).tolist() == ["", "repeats an earlier comparison"]


def test_errors_name_the_source_of_the_comparison():
    pairs = [comparison("a", 'r.xml:7 operation "x"', 9), comparison("b", None, 8)]
    assert [str(error) for error in find_errors(tables(GOOD, pairs))] == [
        'r.xml:7 operation "x": the target has no measurement',
        'comparison "b": the target has no measurement',
    ]


def test_comparisons_without_any_label_are_valid_and_have_no_status():
    valid = validate_comparisons(tables(GOOD)).comparisons
    assert valid["valid"].tolist() == [True]
    assert valid["status"].isna().tolist() == [True]
    assert valid["status"].dtype == "str"
