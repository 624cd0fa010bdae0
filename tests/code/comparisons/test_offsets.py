"""What runs of one build differ by, and what is more than that."""

import numpy as np
import pytest

from benchmarks.drift import Circumstances, Projects
from data.comparisons.pair import paired_runs
from data.comparisons.sides import Sides
from features.comparisons.between_run_variation import LEVEL, between_operations, between_runs, divide_shifts


def pair(given, seed, slower=0.0):
    """Return two sides of a project, the second one slower."""
    project = Projects(np.random.default_rng(seed), given)
    before, after = project.runs(given.history + given.runs), project.runs(given.runs, slower)
    return Sides.from_tables(paired_runs(before[given.history :], after, before[: given.history]).tables)


def beyond(given, builds, slower=0.0):
    """Return which share of the operations is beyond what runs differ by."""
    found = [
        divide_shifts(pair(given, seed, slower)).per_configuration.sign_beyond_limit < 0
        for seed in range(builds)
    ]
    return np.mean(found)


@pytest.mark.parametrize(
    ("given", "builds"),
    [
        (Circumstances(operations=1), 80),
        (Circumstances(operations=1, runs=3, history=8), 40),
        (Circumstances(operations=5, offsets="operations"), 40),
        (Circumstances(operations=30, offsets="whole run"), 10),
        (Circumstances(operations=30), 10),
    ],
)
def test_runs_of_one_build_rarely_exceed_between_run_variation(given, builds):
    # of so many comparisons, three beyond are still chance
    assert beyond(given, builds) <= LEVEL + 3 / (builds * given.operations)


def test_earlier_and_repeated_runs_tighten_the_limit():
    quiet = Circumstances(operations=3, spread=0.005)
    limits = [
        divide_shifts(pair(given, 1)).per_configuration
        for given in (quiet, Circumstances(operations=3, spread=0.005, runs=4, history=8))
    ]
    assert [one.evidence for one in limits] == ["assumed", "runs"]
    assert limits[1].limit.max() < limits[0].limit.min() / 2


def test_a_five_percent_change_is_found_among_quiet_runs():
    assert beyond(Circumstances(operations=2, spread=0.005, runs=2, history=10), 10, slower=0.05) == 1


def test_a_common_shift_is_attributed_to_the_whole_run():
    given = Circumstances(operations=9, spread=0.002)
    same, slower = (divide_shifts(pair(given, 3, change)) for change in (0.0, 0.06))
    assert slower.whole.value[0] - same.whole.value[0] == pytest.approx(-np.log(1.06))
    np.testing.assert_allclose(slower.per_configuration.value, same.per_configuration.value, atol=1e-12)
    assert slower.whole.sign_beyond_limit == [0]
    assert divide_shifts(pair(given, 3, 0.3)).whole.sign_beyond_limit == [-1]


def test_few_operations_give_no_estimate_of_the_whole_run():
    assert divide_shifts(pair(Circumstances(operations=4), 1)).whole is None


def test_history_at_another_level_only_informs_between_run_variation():
    project = Projects(np.random.default_rng(2), Circumstances(operations=1, spread=0.005))
    fast, before, after = project.runs(9, -0.3), project.runs(1), project.runs(1)
    own = divide_shifts(Sides.from_tables(paired_runs(before, after, fast).tables)).per_configuration
    assert own.evidence == "runs"
    assert abs(own.value[0]) < own.limit[0] < 0.1


def test_variance_components_of_runs_and_operations_are_recovered():
    rng = np.random.default_rng(4)
    none = np.full((1, 400), np.nan)
    told = between_runs(none, rng.normal(0, 0.03, (4, 400)), rng.normal(5, 0.03, (4, 400)))
    assert np.sqrt(told.value.mean()) == pytest.approx(0.03, rel=0.05)
    assert (told.freedom == 6).all()
    steps = between_runs(rng.normal(0, 0.03, (20, 400)), rng.normal(0, 0.03, (1, 400)), none)
    assert np.sqrt(steps.value.mean()) == pytest.approx(0.03, rel=0.05)
    for number in (5, 9, 10, 40):
        spreads = [between_operations(rng.normal(2, 0.03, number)).value[0] for _ in range(400)]
        assert np.sqrt(np.mean(spreads)) == pytest.approx(0.03, rel=0.2)
