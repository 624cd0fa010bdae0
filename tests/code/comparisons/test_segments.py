from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.comparisons.lasting_changes import NEAR, SHORTEST, Courses, step_near, without_spikes

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
