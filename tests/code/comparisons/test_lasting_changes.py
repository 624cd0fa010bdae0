"""Lasting changes of timelines: segments of a course, the newest change, and the states they give."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import (
    NEAR,
    SHORTEST,
    Courses,
    Shift,
    find_lasting_changes,
    step_near,
    without_spikes,
)
from features.comparisons.newest_change import newest_change
from serving.comparisons.timelines.assembled import Change, group_changes, operation_state
from serving.comparisons.timelines.judged import MARK, OperationMarks

ALTERNATING = np.where(np.arange(20) % 2 == 0, 1.001, 0.999)


def step(at, share, *, n=20):
    return 100 * ALTERNATING[:n] * np.where(np.arange(n) >= at, 1 + share, 1.0)


def test_a_step_gives_its_size_levels_and_version():
    found = newest_change(step(12, -0.1), [Shift("drop", 12, 12, -0.1)], 1.0, 0)
    assert found.change == pytest.approx(-0.1, abs=0.001)
    assert found.low < -0.1 < found.high < -0.095
    assert (found.baseline_level, found.newest_level) == pytest.approx((100, 90), rel=0.002)
    assert (found.since, found.creeping, found.lasting, found.lost) == (12, False, True, True)
    # where lower is better
    found = newest_change(step(12, -0.1), [Shift("gain", 12, 12, 0.1)], -1.0, 0)
    assert found.change == pytest.approx(0.1, abs=0.001)
    assert (found.gained, found.lost, found.since) == (True, False, 12)


def test_a_loss_that_was_made_up_for_is_no_loss():
    values = step(6, -0.1) * np.where(np.arange(20) >= 12, 1 / 0.9, 1.0)
    shifts = [Shift("drop", 6, 6, -0.1), Shift("gain", 12, 12, 1 / 9)]
    found = newest_change(values, shifts, 1.0, 0)
    assert not found.lost
    assert abs(found.change) < 0.002
    values[16:] *= 0.9
    worse_later = newest_change(values, [*shifts, Shift("drop", 16, 16, -0.1)], 1.0, 0)
    assert (worse_later.lost, worse_later.since) == (True, 16)


def test_changes_before_the_baseline_do_not_count():
    found = newest_change(step(6, -0.1), [Shift("drop", 6, 6, -0.1)], 1.0, 10)
    assert abs(found.change) < 0.002
    assert (found.since, found.lasting) == (None, False)


def test_too_few_versions_have_no_interval_or_no_change():
    found = newest_change(np.array([100.0, 90.0]), [], 1.0, 0)
    assert found.change == pytest.approx(-0.1)
    assert np.isnan([found.low, found.high]).all()
    for missing in (0, slice(1, None)):
        values = step(6, 0.0)
        values[missing] = np.nan
        assert newest_change(values, [], 1.0, 0) is None


def state(values, against_baseline, *, shifts=(), before=()):
    """Return the state of one operation at one thread, of which some versions fail or are unsure."""
    operation = MeasuredOperation("b", "o", "ops", "higher", (1,), 0)
    five = np.repeat(np.asarray(values)[None, :, None], 5, axis=2)
    measured = MeasuredVersions((operation,), np.zeros(0), np.zeros((1, len(values) + 1), np.int64), five)
    marks = OperationMarks.not_judged(len(values))
    marks.against_baseline[1:] = MARK["pass"]
    for at, verdict in against_baseline.items():
        marks.against_baseline[at] = MARK[verdict]
    marks.against_before[list(before)] = MARK["fail"]
    return operation_state(operation, measured, [shifts], np.full(1, 0.05), marks=marks, baseline=0)


def test_newest_versions_decide_the_state_before_a_change_is_lasting():
    found = state(step(18, -0.1), {18: "fail", 19: "fail"})
    assert (found.status, found.change.since, found.change.lasting) == ("worse", 18, False)
    assert found.change.change == pytest.approx(-0.1, abs=0.002)
    assert state(step(18, 0.0), {12: "fail", 19: "unsure"}).status == "unsure"
    assert state(step(18, 0.0), {12: "fail", 18: "unsure"}).status == "unchanged"
    assert state(step(18, 0.2), {}).status == "better"
    assert state(step(18, 0.03), {}).status == "unchanged"
    without_baseline = step(6, 0.0)
    without_baseline[0] = np.nan
    assert state(without_baseline, {}).status == "not compared"


def test_a_new_loss_after_a_lasting_one_counts_in_full():
    values = step(8, -0.1) * np.where(np.arange(20) >= 19, 0.8, 1.0)
    verdicts = dict.fromkeys(range(8, 20), "fail")
    found = state(values, verdicts, shifts=[Shift("drop", 8, 8, -0.1)], before=[8, 19])
    assert found.change.change == pytest.approx(0.9 * 0.8 - 1, abs=0.003)
    assert found.change.since == 8


def test_changes_of_40_operations_at_one_version_are_one_entry():
    draws = np.random.default_rng(5)
    course = np.where(np.arange(30) >= 15, 0.95, 1.0)
    medians = 100 * course * np.exp(0.003 * draws.standard_normal((40, 30)))
    changes = [[Change(*shift, 1) for shift in own] for own in find_lasting_changes(medians, np.ones(40))[0]]
    (group,) = group_changes(changes)
    assert (group.kind, group.first, sorted(group.shares)) == ("drop", 15, list(range(40)))
    assert group.largest == min(group.shares.values())


def test_changes_of_other_kinds_and_versions_stay_apart():
    drop = Change("drop", 5, 5, -0.1, 1)
    others = [Change("drop", 6, 6, -0.2, 1), Change("gain", 5, 5, 0.1, 1)]
    others += [Change("creep", *span, -0.1, 1) for span in ((2, 9), (3, 9), (9, 15))]
    groups = group_changes([[one] for one in (drop, drop, *others)])
    assert [(one.kind, one.first, sorted(one.shares)) for one in groups] == [
        ("creep", 9, [6]), ("drop", 5, [0, 1, 2]), ("gain", 5, [3]), ("creep", 2, [4, 5]),
    ]  # fmt: skip


PENALTY = 4.0


def by_trying(values, cuts):
    """What a course with these steps costs; infinite if a segment holds too few values."""
    parts = np.split(values, cuts)
    if min(map(len, parts)) < SHORTEST:
        return np.inf
    return sum(((part - part.mean()) ** 2).sum() for part in parts) + PENALTY * len(cuts)


def courses_of(values):
    return [cuts for count in range(4) for cuts in combinations(range(1, len(values)), count)]


@given(st.lists(st.floats(-9, 9), min_size=2 * SHORTEST, max_size=12), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=40)
def test_optimal_segmentation_matches_exhaustive_search_with_missing_values(values, left, right):
    known = np.array(values)
    rows = np.r_[[np.nan] * left, known, [np.nan] * right][None]
    costs = {cuts: by_trying(known, cuts) for cuts in courses_of(known)}
    assert Courses(rows).best_courses(PENALTY).before[0, -1] == pytest.approx(min(costs.values()), abs=1e-9)
    place = len(known) // 2
    with_step = [cost for cuts, cost in costs.items() if any(abs(cut - place) < NEAR for cut in cuts)]
    without = [cost for cuts, cost in costs.items() if all(abs(cut - place) >= NEAR for cut in cuts)]
    found = step_near(left + place, Courses(rows), PENALTY)
    if np.isfinite(min(with_step)) and found.size[0]:
        assert abs(found.evidence[0]) == pytest.approx(abs(min(without) - min(with_step)), abs=1e-6)


def test_a_step_reports_size_length_and_other_steps():
    rows = np.repeat([[0.0, 10.0, 2.0, 5.0]], [6, 4, 5, 7], axis=1)
    step = step_near(10, Courses(rows), PENALTY)
    assert [one[0] for one in (step.size, step.lasts, step.others, step.count)] == [-8, 4, 10, 2]
    assert step.evidence[0] < -10
    # too short for two segments
    assert np.isnan(step_near(3, Courses(np.array([[1.0, 2.0, 9.0, 9.0, np.nan]])), PENALTY).size[0])


def test_removing_spikes_keeps_steps_in_place():
    rows = np.array([[1.0, 1.0, 9.0, 1.0, 1.0, 5.0, 5.0, 5.0, np.nan]])
    assert without_spikes(rows)[0, :8].tolist() == [1, 1, 1, 1, 1, 5, 5, 5]
