"""Which rankings are trusted, on machines whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from data.fingerprints.params import Profiling
from features.fingerprints.matrix import Measured
from tests.fingerprint_machines import application, machines
from training.fingerprints.profiles import profile

KNOBS = Profiling(resamples=99)
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
    return [profile(one, KNOBS, seed).trust for seed, one in enumerate(made)]


@pytest.mark.parametrize(("cause", "noise"), [("stream", 0.02), ("msync", 0.02), ("cpu", 0.05)])
def test_one_clear_cause_is_trusted_and_named(cause, noise):
    found = trusted(following(cause, noise, seed) for seed in range(MADE))
    assert sum(one.leaders == (cause,) for one in found) >= 0.8 * MADE
    assert all(cause in one.leaders for one in found if one.enough)


def test_a_clear_cause_is_trusted_where_predictions_are_not():
    found = [
        one for one in trusted(following("stream", 0.02, seed) for seed in range(MADE)) if one.unpredicted
    ]
    assert found
    assert sum(one.enough for one in found) >= 0.8 * len(found)
    assert all("held-out CPU models" in one.unpredicted[0] for one in found)


def everything(seed):
    """Lean on all stressors alike."""
    return application(some(seed), dict.fromkeys(STRESSORS, 0.1), seed, 0.01, stressors=STRESSORS)


def nothing(seed):
    """Have a speed of its own on each CPU model."""
    return application(some(seed), {}, seed, 0.3, stressors=STRESSORS)


def dealt(seed):
    """Follow a stressor of other machines."""
    one = following("stream", 0.02, seed)
    return replace(one, y=np.random.default_rng(seed).permutation(one.y))


@pytest.mark.parametrize("made", [everything, nothing, dealt])
def test_what_leans_on_nothing_or_on_everything_is_trusted_as_rarely_as_said(made):
    found = trusted(made(seed) for seed in range(2 * MADE))
    assert sum(one.enough for one in found) <= binom.ppf(0.999, 2 * MADE, KNOBS.significance)
    assert all(one.reasons and not one.leaders for one in found if not one.enough)


def test_an_application_whose_first_stressors_cannot_be_told_apart_is_refused(shared_data):
    from benchmarks.profiles import table

    found = profile(table("quiho", shared_data).measured("hpccg"), Profiling(), 20261121).trust
    assert not found.enough
    assert any("comes first by" in reason and "would tell" in reason for reason in found.reasons)
