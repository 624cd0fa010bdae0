import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from data.comparisons.validity import find_errors, invalid_reasons, unusable_reasons
from tests import comparison_rows
from tests.comparison_rows import compared


def result(operation, threads, order, value, stat=None, better="higher"):
    series = {"series_id": f"{operation}/{threads}", "threads": threads}
    return comparison_rows.result(operation, order, value, **series, better=better, stat=stat)


def sides_of(results, *comparisons):
    return Sides.from_tables(ComparisonTables.from_rows(results, [*comparisons], []))


def test_sides_hold_samples_by_order_and_summaries_without_samples():
    results = [result("x", 1, order, 10.0 * order + k) for order in range(5) for k in range(2)]
    results += [result("x", 2, 3, 7.0), result("x", 2, 4, 8.0)]
    for at, name in enumerate(FIVE_NUMBERS):
        results += [result("y", 4, order, 1 + order + at, name, "lower") for order in (0, 1)]
    others = compared("c", "x", (2, 3), (4, 4)), compared("d", "z")
    sides = sides_of(results, compared("a", "y"), *others)
    assert (sides.comparison.tolist(), sides.n_comparisons) == ([0, 1, 1], 3)
    assert (sides.threads.tolist(), sides.sign.tolist()) == ([4, 1, 2], [-1, 1, 1])
    found = [
        [samples.samples_of_row(row).tolist() for samples in (sides.baseline, sides.target, sides.history)]
        for row in range(3)
    ]
    assert found == [[[], [], []], [[20, 21, 30, 31], [40, 41], [0, 1, 10, 11]], [[7], [8], []]]
    assert sides.baseline_five[0].tolist() == [1, 2, 3, 4, 5]
    assert sides.target_five[:2].tolist() == [[2, 3, 4, 5, 6], [40, 40.25, 40.5, 40.75, 41]]


def test_at_most_forty_known_versions_surround_both_sides():
    results = [result("x", 1, order, float(order)) for order in range(60)] + [result("y", 1, 5, 1.0)]
    late = compared("c", "x", (50, 54), (55, 59))
    pairs = [compared(f"{to}", "x", (5, 9), (10, 12), later_to=to) for to in (None, 12, 14, 59)]
    sides = sides_of(results, late, *pairs)
    assert sides.history.samples_of_row(0).tolist() == list(range(10, 50))
    known = [sides.later.samples_of_row(row).tolist() for row in range(1, 5)]
    assert known == [[], [], [13, 14], list(range(13, 53))]
    assert len(sides_of(results).comparison) == 0


def comparison(name="c", source=None, target=1):
    return compared(name, "x", target=(target, target), source=source)


def tables(results, comparisons=None):
    return ComparisonTables.from_rows(results, comparisons or [comparison()], [])


def reasons(results, comparisons=None):
    return invalid_reasons(Sides.from_tables(tables(results, comparisons))).tolist()


def samples(threads, *sides):
    return [result("x", threads, at, one, better="lower") for at, side in enumerate(sides) for one in side]


def summaries(*target):
    both = enumerate(((1.0, 2.0, 3.0, 4.0, 5.0), target))
    named = [(at, *one) for at, five in both for one in zip(five, FIVE_NUMBERS, strict=False)]
    return [result("x", 1, at, value, name, "lower") for at, value, name in named]


UNSORTED = "the target has five numbers that don't ascend from min to max"
GOOD = samples(1, [1.0, 2.0], [3.0, 4.0])


def above_0(threads, side, value):
    return f"threads {threads}: the {side} holds a value that is not above 0: {value}"


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
        (
            samples(4, [0.0, 0.0], [3.0, 4.0]),
            "threads 4: the baseline holds no value above 0, the target's median: 3.5",
        ),
        (GOOD + samples(4, [1.0, 1.0], [5.0, -1.5, 5.0, -0.5]), above_0(4, "target", -1.5)),
        (samples(4, [-3.0, -3.1], [-3.0, -3.1]), above_0(4, "baseline", -3.1)),
        (summaries(1.0, 2.0, 3.0, 4.0, 5.0), ""),
        (summaries(1.0, 2.0, 3.0, 4.0), "threads 1: the target is a summary without max"),
        (summaries(np.nan, 2.0, 3.0, 4.0), "threads 1: the target is a summary without min, max"),
        (summaries(1.0, 2.0, 3.0, 4.0, np.inf), "threads 1: the target holds a value that is not finite"),
        (summaries(1.0, 2.0, 3.0, 2.5, 4.0), f"threads 1: {UNSORTED}"),
        (summaries(-2.0, 2.0, 3.0, 4.0, 5.0), above_0(1, "target", -2)),
    ],
)
def test_a_comparison_that_cannot_be_judged_has_a_reason(results, reason):
    assert reasons(results) == [reason]


def test_history_values_must_be_positive_unlike_later_ones():
    results = samples(1, [1.0, 0.0], [1.0, 2.0], [3.0, 4.0], [-5.0])
    pairs = [comparison("a", target=2) | {"baseline_from": 1, "baseline_to": 1, "later_to": 3}]
    assert reasons(results, pairs) == [above_0(1, "history", 0)]
    assert reasons(results[2:], pairs) == [""]


def test_each_invalid_comparison_gets_a_separate_reason():
    results = GOOD + samples(1, [], [], [5.0], [0.0, 0.0])
    pairs = [comparison(f"{target}", target=target) for target in (1, 2, 9, 3)]
    assert reasons(results, pairs) == [
        "",
        "threads 1: the target has one repetition only",
        "the target has no measurement",
        "threads 1: the target holds no value above 0, the baseline's median: 1.5",
    ]


def test_comparisons_that_repeat_the_name_or_the_sides_are_unusable():
    results = GOOD + samples(1, [], [], [5.0, 6.0])
    for again in (comparison("a", target=2), comparison("b")):
        found = unusable_reasons(tables(results, [comparison("a"), again])).tolist()
        assert found == ["", "repeats an earlier comparison"]


def test_errors_name_the_source_of_the_comparison():
    pairs = [comparison("a", 'r.xml:7 operation "x"', 9), comparison("b", None, 8)]
    assert [str(error) for error in find_errors(tables(GOOD, pairs))] == [
        'r.xml:7 operation "x": the target has no measurement',
        'comparison "b": the target has no measurement',
    ]


def test_comparisons_without_any_label_are_valid_and_have_no_status():
    valid = validate_comparisons(tables(GOOD)).comparisons
    assert valid[["valid", "status"]].fillna("").to_numpy().tolist() == [[True, ""]]
    assert valid["status"].dtype == "str"
