"""The statistics of profiles, on simulated machines whose truth is known."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from data.fingerprints.params import Profiling
from features.fingerprints.matrix import Measured
from tests.fingerprint_machines import application, machines
from training.fingerprints.differences import adjusted_p_values, exchange_performances, profile_difference
from training.fingerprints.prediction import predict_performance
from training.fingerprints.profiles import infer_profile

LEVEL = 0.05
PAIRS = 80
#: More alarms than these are a wrong test and no accident, once in a thousand.
ALARMS = binom.ppf(0.999, PAIRS, LEVEL)
EXCHANGES = 99
KNOBS = Profiling(n_bootstrap=EXCHANGES)
FEW, MANY = 12, 30


def alarm(one, other, seed):
    scores = exchange_performances(one, other, EXCHANGES, seed)
    return adjusted_p_values(scores.b - scores.a).min() <= LEVEL


def pair(seed, leans, half=FEW, cpus=None, paired=False, noise=0.4):
    """Two applications on disjoint halves of the machines, or on the same machines."""
    rates = machines(half if paired else 2 * half, seed, cpus)
    first = np.arange(2 * half) % 2 == 0
    halves = (None, None) if paired else (first, ~first)
    return [
        application(rates, leaning, seed + 1000 * number, noise, rows=rows)
        for number, (leaning, rows) in enumerate(zip(leans, halves, strict=True))
    ]


@pytest.mark.parametrize(("paired", "cpus"), [(False, None), (False, 8), (True, None)])
def test_equal_profiles_of_few_machines_rarely_differ(paired, cpus):
    equal = [pair(seed, [{"cache": 1, "vm": 1}] * 2, FEW, cpus, paired) for seed in range(PAIRS)]
    assert sum(alarm(*sides, seed) for seed, sides in enumerate(equal)) <= ALARMS


@pytest.mark.parametrize("how", ["machines", "models", "both"])
def test_near_duplicate_machines_do_not_inflate_significance(how):
    alarms = 0
    for seed in range(PAIRS):
        rates = machines(36, seed, cpus=9, copies=True)
        drawn = np.random.default_rng(seed).permutation(36 if how == "machines" else 9)
        first = np.isin(np.arange(36) if how == "machines" else np.arange(36) % 9, drawn[: len(drawn) // 2])
        every = application(rates, {"cache": 1}, seed, noise=0.3)
        again = application(rates, {"cache": 1}, seed + 1000, noise=0.3)
        sides = (every, again) if how == "both" else (every.select_rows(first), every.select_rows(~first))
        alarms += alarm(*sides, seed)
    assert alarms <= ALARMS


def test_impossible_significance_of_a_difference_is_stated():
    every = application(machines(32, cpus=8, copies=True), {"cache": 1})
    first = np.arange(32) % 8 < 4
    one, other = (infer_profile(every.select_rows(side), KNOBS, 0) for side in (first, ~first))
    reason = "8 machines or CPU models to exchange give no p-value below 0.029; expected 0.025 or less"
    assert reason in profile_difference(one, other, KNOBS, 0).reasons


@pytest.mark.parametrize("paired", [False, True])
def test_real_profile_differences_are_mostly_found(paired):
    apart = [pair(seed, [{"cache": 1}, {"vm": 1}], MANY, None, paired, noise=0.1) for seed in range(30)]
    assert sum(alarm(*sides, seed) for seed, sides in enumerate(apart)) >= 27
    found = profile_difference(*(infer_profile(side, KNOBS, 0) for side in apart[0]), KNOBS, 0)
    assert set(found.features["stressor"].head(2)) == {"cache", "vm"}
    assert found.significant


def test_profile_differences_are_tested_on_their_training_data():
    one, other = pair(3, [{"cache": 1}, {"vm": 1}])
    found = profile_difference(infer_profile(one, KNOBS, 0), infer_profile(other, KNOBS, 0), KNOBS, 5)
    scores = exchange_performances(one.by_machine(), other.by_machine(), EXCHANGES, 5)
    by_column = found.features.set_index("stressor")["p_value"][list(one.columns)]
    assert by_column.to_numpy() == pytest.approx(adjusted_p_values(scores.b - scores.a))


def test_prediction_intervals_hold_on_unknown_cpu_models():
    rates = machines(200, cpus=200)
    every = application(rates, {"cache": 1, "vm": 0.5}, noise=0.1)
    known, unknown = every.select_rows(np.arange(200) < 60), every.select_rows(np.arange(200) >= 60)
    found = predict_performance(known, unknown.machines, unknown.x, 0.8, 0)
    held = [one.low <= true <= one.high for one, true in zip(found, unknown.y, strict=True)]
    assert binom.ppf(0.0005, len(held), 0.7) <= sum(held) <= binom.ppf(0.9995, len(held), 0.9)


STRESSORS = ("cache", "cpu", "malloc", "memcpy", "mmap", "msync", "nop", "qsort", "stream", "vm", "zero")
MADE = 8


def some(seed):
    """24 machines of 12 CPU models, those of a model nearly alike."""
    return machines(24, seed, 12, STRESSORS, alike=0.3, copies=True)


def following(cause, noise, seed):
    rates, names, models = some(seed)
    misses = np.random.default_rng([seed, 2]).normal(0, noise, len(rates))
    seconds = rates[:, STRESSORS.index(cause)] ** -0.9 * np.exp(misses)
    return Measured("app", "seconds", "lower", STRESSORS, rates, seconds, names, models)


def trusted(made):
    return [infer_profile(one, KNOBS, seed).trust for seed, one in enumerate(made)]


@pytest.mark.parametrize(("cause", "noise"), [("stream", 0.02), ("msync", 0.02), ("cpu", 0.05)])
def test_a_clear_cause_is_trusted_despite_untrusted_predictions(cause, noise):
    found = trusted(following(cause, noise, seed) for seed in range(MADE))
    assert sum(one.leaders == (cause,) for one in found) >= 0.8 * MADE
    assert all(cause in one.leaders for one in found if one.enough)
    unpredicted = [one for one in found if one.unpredicted]
    assert unpredicted or cause != "stream"
    assert sum(one.enough for one in unpredicted) >= 0.8 * len(unpredicted)
    assert all("held-out CPU models" in one.unpredicted[0] for one in unpredicted)


def everything(seed):
    return application(some(seed), dict.fromkeys(STRESSORS, 0.1), seed, 0.01, stressors=STRESSORS)


def nothing(seed):
    return application(some(seed), {}, seed, 0.3, stressors=STRESSORS)


def dealt(seed):
    one = following("stream", 0.02, seed)
    return replace(one, y=np.random.default_rng(seed).permutation(one.y))


@pytest.mark.parametrize("made", [everything, nothing, dealt])
def test_applications_without_leading_stressor_are_rarely_trusted(made):
    found = trusted(made(seed) for seed in range(2 * MADE))
    assert sum(one.enough for one in found) <= binom.ppf(0.999, 2 * MADE, KNOBS.significance)
    assert all(one.reasons and not one.leaders for one in found if not one.enough)


def test_indistinguishable_leading_stressors_are_not_trusted(shared_data):
    from benchmarks.profiles import read_table

    measured = read_table("quiho", shared_data).measurements_of("hpccg")
    found = infer_profile(measured, Profiling(), 20261121).trust
    assert not found.enough
    assert any(re.search("has the highest .*(are needed|will not help)", reason) for reason in found.reasons)
