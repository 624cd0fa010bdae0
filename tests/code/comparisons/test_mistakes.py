"""The worst mistakes on comparisons: their choice, order, marks and common causes."""

import numpy as np
import pandas as pd
import pytest

from data.comparisons.tables import ComparisonTables
from serving.comparisons.mistakes import causes_of_mistakes, is_undecidable, worst_mistakes
from tests.comparison_rows import compared, result

SPACE = "\N{NO-BREAK SPACE}"


def held_out(probabilities, statuses):
    names = [f"c{number:02}" for number in range(len(statuses))]
    frame = pd.DataFrame({"comparison_id": names, "probability": probabilities, "status": statuses})
    return frame.assign(threshold=0.5, verdict=np.where(frame["probability"] >= 0.5, "fail", "pass"))


def tables(number, target=1.0, **of_each):
    """Make comparisons of one baseline run with one target run, with further columns per operation."""
    names = [f"c{number:02}" for number in range(number)]
    results = [
        result(name, order, base * (target if order else 1.0), **{key: of_each[key][row] for key in of_each})
        for row, name in enumerate(names)
        for order in (0, 1)
        for base in (0.99, 1.0, 1.01)
    ]
    return ComparisonTables.from_rows(results, [compared(name, name) for name in names], labels(names))


def labels(names):
    return [{"comparison_id": name, "status": "pass", "labelled_by": "ann"} for name in names]


@pytest.mark.parametrize(
    ("misses", "alarms", "shown"), [(15, 15, (10, 10)), (4, 25, (4, 16)), (3, 2, (3, 2))]
)
def test_twenty_mistakes_are_shown_ten_of_each_kind_if_possible(misses, alarms, shown):
    probabilities = [*np.linspace(0.4, 0.1, misses), *np.linspace(0.6, 0.99, alarms), 0.9, 0.1]
    statuses = ["fail"] * misses + ["pass"] * alarms + ["fail", "pass"]
    verdicts = held_out(probabilities, statuses)
    mistakes = worst_mistakes(verdicts, tables(len(verdicts)), 0.005)
    found = [mistake.label for mistake in mistakes]
    assert (found.count("fail"), found.count("pass")) == shown
    confidence = [abs(mistake.probability - 0.5) for mistake in mistakes]
    assert confidence == sorted(confidence, reverse=True)
    assert max(confidence) == pytest.approx(np.abs(np.array(probabilities[:-2]) - 0.5).max())


@pytest.mark.parametrize(
    ("label", "change", "is_marked"),
    [
        ("fail", [0.03, -0.004], True),
        ("fail", [0.03, -0.005], False),  # the minimum effect size is reached
        ("pass", [0.03, -0.021], True),
        ("pass", [-0.019, -0.02], False),  # within twice the usual difference
        ("fail", [0.03, np.nan], False),
        ("pass", [-0.03, np.nan], False),
        ("fail", [], False),
    ],
)
def test_medians_that_contradict_the_label_are_marked(label, change, is_marked):
    assert is_undecidable(label, np.array(change), np.full(len(change), 0.01), 0.005) == is_marked


def test_the_smaller_limit_counts_for_misses_and_the_larger_for_false_alarms():
    change, quiet = np.array([-0.003]), np.array([0.001])
    assert not is_undecidable("fail", change, quiet, 0.005)
    assert is_undecidable("fail", change, quiet * 2, 0.005)
    assert not is_undecidable("pass", change, quiet, 0.005)


@pytest.mark.parametrize(
    ("target", "status", "is_marked"),
    [(0.9, "fail", True), (1.1, "fail", False), (1.1, "pass", True), (1.001, "pass", False)],
)
def test_marks_follow_the_measured_medians(target, status, is_marked):
    verdicts = held_out([0.1 if status == "fail" else 0.9], [status])
    (mistake,) = worst_mistakes(verdicts, tables(1, target), 0.005)
    assert mistake.is_undecidable == is_marked


def test_common_causes_of_mistakes_need_a_significant_excess():
    verdicts = held_out([0.9] * 6 + [0.1] * 44, ["pass"] * 50)
    rare = tables(50, unit=["ms"] * 6 + ["s"] * 44)
    mistakes = worst_mistakes(verdicts, rare, 0.005)
    assert causes_of_mistakes(mistakes, verdicts, rare) == (
        "Significantly more frequent among these 6 comparisons than among all 50 (one-sided hypergeometric "
        f'test at 5{SPACE}%, corrected for 2 tests): unit "ms" (6 of 6; 12.0{SPACE}% of all).'
    )
    even = tables(50, unit=["ms", "s"] * 25)
    assert causes_of_mistakes(mistakes, verdicts, even).startswith("No unit is significantly more")


def test_earlier_builds_are_counted_before_the_baseline():
    verdicts = held_out([0.9] * 5 + [0.1] * 25, ["pass"] * 30)
    names = verdicts["comparison_id"].tolist()
    results = [result(name, order, 1.0) for name in names for order in range(6)]
    ends = [(0, 1) if row < 5 else (4, 5) for row in range(30)]
    rows = [
        compared(name, name, (before,) * 2, (after,) * 2)
        for name, (before, after) in zip(names, ends, strict=True)
    ]
    found = ComparisonTables.from_rows(results, rows, labels(names))
    causes = causes_of_mistakes(worst_mistakes(verdicts, found, 0.005), verdicts, found)
    assert 'number of earlier builds "0" (5 of 5; ' in causes
