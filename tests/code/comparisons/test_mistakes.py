"""The worst mistakes on comparisons: their choice, order, marks and common causes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.comparisons.tables import ComparisonTables
from data.paths import FamilyPaths
from serving.comparisons.mistakes import (
    causes_of_mistakes,
    describe_measurements,
    is_undecidable,
    mistake_chart,
    worst_mistakes,
)
from tests.comparison_rows import compared, result

SPACE, DASH = "\N{NO-BREAK SPACE}", "\N{EN DASH}"


def held_out(probabilities, statuses):
    names = [f"c{number:02}" for number in range(len(statuses))]
    frame = pd.DataFrame({"comparison_id": names, "probability": probabilities, "status": statuses})
    return frame.assign(threshold=0.5, verdict=np.where(frame["probability"] >= 0.5, "fail", "pass"))


def tables(number, target=1.0, stats=(None, None, None), **of_each):
    """Make comparisons of one baseline run with one target run, with further columns per operation."""
    names = [f"c{number:02}" for number in range(number)]
    results = [
        result(name, order, base * factor, stat=stat, **{key: of_each[key][row] for key in of_each})
        for row, name in enumerate(names)
        for order, factor in enumerate((1.0, target))
        for base, stat in zip((0.99, 1.0, 1.01), stats, strict=True)
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
    ("label", "change", "usual", "is_marked"),
    [
        ("fail", [0.03, -0.004], 0.01, True),
        ("fail", [0.03, -0.005], 0.01, False),  # the minimum effect size is reached
        ("pass", [0.03, -0.021], 0.01, True),
        ("pass", [-0.019, -0.02], 0.01, False),  # within twice the usual difference
        ("fail", [0.03, np.nan], 0.01, False),
        ("fail", [], 0.01, False),
        # the smaller limit counts for misses, the larger for false alarms
        ("fail", [-0.003], 0.001, False),
        ("fail", [-0.003], 0.002, True),
        ("pass", [-0.003], 0.001, False),
    ],
)
def test_medians_that_contradict_the_label_are_marked(label, change, usual, is_marked):
    assert is_undecidable(label, np.array(change), np.full(len(change), usual), 0.005) == is_marked


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


@pytest.mark.parametrize(("better", "word"), [("lower", "worse"), ("higher", "better")])
def test_a_longer_time_is_worse_and_a_higher_throughput_better(better, word):
    (mistake,) = worst_mistakes(
        held_out([0.4], ["fail"]), tables(1, 1.1, better=[better], threads=[2]), 0.005
    )
    title = f"Missed: c00, median 10.0{SPACE}% {word} at 2 threads, fail probability 0.400"
    assert mistake_chart(mistake).title == title
    assert mistake.pairs[0].baseline_median == 1.0
    assert mistake.pairs[0].samples[0].tolist() == [0.99, 1.0, 1.01]


def test_mistakes_name_their_annotators_and_can_be_limited():
    verdicts = held_out([0.4, 0.95, 0.9], ["fail", "pass", "fail"])
    people = [{"comparison_id": "c00", "status": "fail", "labelled_by": who} for who in ("ann", "bob", "ann")]
    measured = replace(tables(3), labels=ComparisonTables.from_rows([], [], people).labels)
    mistakes = worst_mistakes(verdicts, measured, 0.005)
    assert [(one.comparison_id, one.labelled_by) for one in mistakes] == [("c01", DASH), ("c00", "ann, bob")]
    assert len(worst_mistakes(verdicts, measured, 0.005, max_mistakes=1)) == 1
    assert worst_mistakes(verdicts.iloc[2:], measured, 0.005) == []


def test_summaries_are_drawn_as_boxes_without_inventing_samples():
    measured = tables(1, 1.1, ("q1", "median", "q3"))
    (mistake,) = worst_mistakes(held_out([0.4], ["fail"]), measured, 0.005)
    assert mistake.pairs[0].samples[0].tolist() == []
    assert mistake.pairs[0].boxes[0][1:4].tolist() == [0.99, 1.0, 1.01]
    assert "10.0" in mistake_chart(mistake).title


def test_invalid_comparisons_are_described_by_what_makes_them_invalid(tmp_path):
    measured = tables(3, 1.1, better=["lower"] * 3)
    results = measured.results[measured.results["operation"] != "c02"].copy()
    results.loc[results["operation"] == "c01", "value"] -= 0.99
    replace(measured, results=results).write(FamilyPaths("comparisons", tmp_path).interim)
    described = describe_measurements(tmp_path, ["c00", "c01", "c02", "unknown"])
    assert described.pop("c00")[0] == "median 10.0 % slower"
    assert described == {
        "c01": ("cannot be judged: threads 1: the baseline holds a value that is not above 0: 0",),
        "c02": ("cannot be judged: has no measurement",),
    }
