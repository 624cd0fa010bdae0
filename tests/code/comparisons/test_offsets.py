"""Shifts between builds, their errors, and which of them exceed between-run variation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.drift import Circumstances, Project
from data.comparisons.pair import paired_runs
from data.comparisons.sides import Sides
from features.comparisons.between_run_variation import build_shifts, robust_scale
from features.comparisons.earlier_runs import (
    EarlierRuns,
    moderate_variances,
    tail_freedom,
    without_outlying_runs,
)
from features.comparisons.run_levels import RunLevels
from features.comparisons.run_shifts import DOUBTED, RunShifts

USUAL = Circumstances(operations=20)


def compared(circumstances, seed, slower=0.0):
    """Return the shifts of a simulated build against the previous one, from its runs' levels."""
    rng, n = np.random.default_rng(seed), circumstances.operations
    project = Project(rng, circumstances)
    levels = []
    for number, change in (
        (circumstances.history, 0.0),
        (circumstances.runs, 0.0),
        (circumstances.runs, slower),
    ):
        runs = [project.next_levels() * (1 + change) for _ in range(number)]
        scatter = circumstances.scatter * project.scatter((number * n, circumstances.samples))
        samples = np.reshape(runs, (-1, 1)) * (1 + scatter)
        levels.append(-np.log(samples.mean(axis=1)).reshape(number, n))
    noise = np.full(n, 2 * circumstances.scatter**2 / circumstances.samples / circumstances.runs)
    return shifts_of(RunLevels(*levels, np.arange(n), noise))


def shifts_of(levels):
    """Return the shifts of runs on one machine, where less is better and nothing is assumed."""
    build, n = build_shifts(levels), levels.target.shape[1]
    together, assumed, sign = np.full(n, build.removed), np.zeros(n, bool), np.full(n, -1.0)
    names, machines = np.full(n, "m"), {"m": build}
    return RunShifts(build.own, together, build.run_spread, assumed, names, machines, sign, np.arange(n), n)


def run_levels(history, baseline, target):
    """Return levels of operations without noise of their own."""
    n = target.shape[1]
    return RunLevels(history, baseline, target, np.arange(n), np.zeros(n))


def single(history):
    """Return the shifts of one operation with a run per side."""
    project = Project(np.random.default_rng(1), Circumstances(operations=1, history=history))
    earlier, before = project.runs(history), project.runs(1)
    sides = Sides.from_tables(paired_runs(before, project.runs(1), earlier).tables)
    return RunShifts.from_sides(sides, ["machine"], 0.02)


def first_slower(by):
    """Return slow-downs of 20 operations, of which only the first is not 0."""
    return np.where(np.arange(20) == 0, by, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "circumstances",
    [
        USUAL,
        replace(USUAL, runs=3),
        replace(USUAL, history=10),
        replace(USUAL, history=10, drift=0.003),
        replace(USUAL, history=10, outlier=0.3),
        replace(USUAL, whole=0.03),
        replace(USUAL, noise="bimodal", scatter=0.02),
        replace(USUAL, operations=5, history=10),
    ],
    ids=str,
)
def test_at_most_one_unchanged_build_in_twenty_fails(circumstances):
    failed = [compared(circumstances, seed).is_beyond(-1.0).any() for seed in range(60)]
    # of 60 builds at 5 %, more than 7 fail with a probability of 1 %
    assert sum(failed) <= 7


@pytest.mark.parametrize(("runs", "history", "slower"), [(1, 0, 0.1), (1, 10, 0.07), (3, 0, 0.06)])
def test_a_slow_operation_is_found_without_blaming_others(runs, history, slower):
    circumstances, change = replace(USUAL, runs=runs, history=history), first_slower(slower)
    found = np.array([compared(circumstances, seed, change).is_beyond(-1.0) for seed in range(30)])
    assert found[:, 0].mean() >= 0.9
    assert found[:, 1:].mean() <= 0.01


def test_more_runs_and_history_lower_the_detectable_change():
    detectable = [
        np.median([np.median(compared(replace(USUAL, runs=r, history=h), s).detectable) for s in range(9)])
        for r, h in ((1, 0), (1, 3), (1, 10), (3, 10))
    ]
    assert detectable == sorted(detectable, reverse=True)


@settings(max_examples=30)
@given(st.integers(0, 7), st.sampled_from([0.1, 0.5, 0.9, 1.1, 1.5, 3.0, 10.0]), st.integers(0, 1000))
def test_one_outlying_earlier_run_hides_no_slow_operation(at, factor, seed):
    rng = np.random.default_rng(seed)
    history, *sides = (rng.normal(0, 0.004, (runs, 20)) for runs in (8, 1, 1))
    usual = np.median(build_shifts(run_levels(history, *sides)).own.error)
    history[at] += np.log(factor)
    odd = np.median(build_shifts(run_levels(history, *sides)).own.error)
    # a shift is found from three standard errors on: at most two percentage points later
    assert 3 * (odd - usual) <= 0.02


@pytest.mark.parametrize("operations", [20, 100])
def test_an_earlier_run_that_scatters_more_than_others_is_left_out(operations):
    scattered, alike = [], []
    for seed in range(100):
        past = np.random.default_rng(seed).normal(0, 0.01, (11, operations))
        alike.append(11 - len(without_outlying_runs(past, 10)[0]))
        past[seed % 10] *= 3
        left, n_history = without_outlying_runs(past, 10)
        scattered.append(n_history == 9 and not (left == past[seed % 10]).all(axis=1).any())
        # the baseline is never left out
        assert (left[-1] == past[-1]).all()
    assert np.mean(scattered) >= 0.85
    assert np.mean(np.array(alike) > 0) <= 0.15


def test_the_shift_of_a_whole_run_is_taken_out():
    quiet = replace(USUAL, spread=0.002)
    same, slower = (compared(quiet, 3, change) for change in (0.0, 0.06))
    (build,) = slower.by_machine.values()
    assert build.whole.value[0] == pytest.approx(-np.log(1.06), abs=0.003)
    np.testing.assert_allclose(slower.own.value, same.own.value, atol=0.002)
    assert not slower.is_beyond(-1.0).any()
    assert compared(quiet, 3, 0.3).is_beyond(-1.0).all()


def test_few_operations_and_runs_leave_the_assumed_variation():
    alone = single(history=0)
    assert not alone.by_machine
    assert alone.is_assumed.all()
    assert alone.own.error[0] >= 0.02 * np.sqrt(2)
    decides, doubts = alone.deciding_rows()
    assert (decides.any(), doubts.all()) == (False, True)
    assert not single(history=10).is_assumed.any()


def test_probabilities_agree_with_doubts_and_certain_shifts():
    shifts = compared(USUAL, 5, first_slower(0.2) + np.where(np.arange(20) == 1, 0.035, 0.0))
    probability = shifts.regression_probability(0.3, 0.7)
    beyond, doubted = shifts.is_beyond(-1.0), shifts.is_doubted()
    assert beyond[0]
    assert (probability[beyond] >= 0.7).all()
    between = probability[doubted & ~beyond]
    assert ((between >= 0.3) & (between < 0.7)).all()
    assert (probability[~doubted & ~beyond] < 0.3).all()
    assert (doubted == (shifts.own.value / shifts.own.usual_error < -DOUBTED)).all()


def test_a_scale_ignores_a_tenth_of_changed_values():
    values = np.random.default_rng(1).normal(0, 0.03, (200, 40))
    values[:, :4] = 0.5
    assert np.mean([robust_scale(row) for row in values]) == pytest.approx(0.03, rel=0.1)


def test_equal_variances_are_pooled_and_different_ones_kept():
    rng = np.random.default_rng(2)
    freedom = np.full(200, 9.0)
    equal, pooled = moderate_variances(rng.chisquare(9, 200) / 9, freedom)
    assert equal.std() < 0.15
    assert pooled[0] > 50
    spread = np.exp(rng.normal(0, 1.5, 200))
    different, own = moderate_variances(spread * rng.chisquare(9, 200) / 9, freedom)
    assert own[0] < 15
    assert np.corrcoef(np.log(different), np.log(spread))[0, 1] > 0.9


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_far_values_show_the_tail_of_their_distribution(seed):
    rng = np.random.default_rng(seed)
    assert tail_freedom(rng.standard_t(2, 400)) <= 4
    assert tail_freedom(rng.normal(size=400)) >= 10
    assert tail_freedom(np.full(3, np.nan)) == np.inf
    assert tail_freedom(rng.standard_t(2, 400), is_scale_known=False) <= 4
    assert tail_freedom(3 * rng.normal(size=400), is_scale_known=False) >= 10
    assert tail_freedom(np.zeros(3), is_scale_known=False) == np.inf


def test_four_normal_runs_seldom_show_a_heavier_tail():
    rng = np.random.default_rng(1)
    runs = rng.normal(0, 0.01, (200, 5, 20))
    tails = [EarlierRuns.estimate(build[:4], build[4:], 3).tail for build in runs]
    assert np.isfinite(tails).mean() < 0.03


def test_far_improvements_raise_the_limit_of_slower_operations():
    rng = np.random.default_rng(5)
    before = rng.normal(0, 0.01, (1, 20))
    target = before + rng.normal(0, 0.01, 20)
    target[0, 0] -= 0.08
    faster = target.copy()
    faster[0, 1:3] += 0.15
    levels = (run_levels(np.empty((0, 20)), before, one) for one in (target, faster))
    assert [build_shifts(one).own.freedom[0] > 10 for one in levels] == [True, False]


def test_a_shift_of_an_earlier_run_is_doubted_but_no_fail():
    rng = np.random.default_rng(3)
    history, before, target = (rng.normal(0, 0.005, (runs, 20)) for runs in (10, 1, 1))
    seen = history.copy()
    seen[4, 0] -= 0.065
    for earlier, fails in ((history, True), (seen, False)):
        shifts = shifts_of(run_levels(earlier, before, target - first_slower(0.06)))
        assert (shifts.is_beyond(-1)[0], shifts.is_doubted()[0]) == (fails, True)


def test_a_trend_of_earlier_runs_is_followed():
    circumstances = Circumstances(history=10, runs=3, drift=0.005, spread=0.005)
    failing = [compared(circumstances, seed).is_beyond(-1.0).any() for seed in range(40)]
    assert sum(failing) <= 5
    found = [compared(circumstances, seed, first_slower(0.05)).is_beyond(-1.0)[0] for seed in range(100, 120)]
    assert sum(found) >= 18
