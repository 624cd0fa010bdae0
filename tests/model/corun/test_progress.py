"""The impact of programs with phases by progress, where the truth is known."""

import numpy as np
import pytest
from scipy.stats import norm

from data.corun.synonyms import IntervalCounts
from serving.corun.online_answer import predict_online
from tests.model.corun.phases import Phased
from training.corun.progress import AlignedRuns, ImpactPosterior, PhaseReturns, impact_posterior

RUNS = 200


def predict(alone, together):
    """Return the answer from the samples of both runs, without a trained model."""
    return predict_online(*map(IntervalCounts.from_table, (alone, together)), None, None)


def judged(runs, seconds, *, whole, counted=("instructions", "cycles", "task-clock"), rounds=None):
    """Return how far answers were off, whether their intervals held, and how wide these are."""
    rows = []
    for number in range(runs):
        rng = np.random.default_rng([20261123, number])
        program = Phased.of(rng, rounds=rounds)
        columns = ["t_seconds", *counted]
        alone = program.sampled(rng, until=np.inf if whole else seconds)[columns]
        together = program.sampled(rng, program.slower, seconds)[columns]
        found = predict(alone, together)
        truth = program.impact
        held = found.low <= truth <= found.high
        rows.append((abs(found.impact / truth - 1), held, np.log(found.high / found.low)))
    return np.array(rows).T


def mean_width(seconds=10.0, **counted):
    return judged(12, seconds, whole=True, **counted)[2].mean()


@pytest.mark.parametrize("whole", [True, False])
def test_early_impact_estimates_are_accurate_with_valid_intervals(whole):
    error, held, _ = judged(RUNS, 10.0, whole=whole)
    assert (error <= 0.05).mean() >= 0.8
    assert 0.88 <= held.mean() <= 0.93


@pytest.mark.parametrize("whole", [True, False])
def test_early_intervals_hold_where_phases_come_once(whole):
    assert judged(RUNS, 10.0, whole=whole, rounds=1)[1].mean() >= 0.9


def posterior_width(differs, slower=1.2):
    """Return the width on the log scale if the rest's rates differ by the factor exp(`differs`)."""
    seen, rest = np.full(8, 1.0), np.full(30, 1.0)
    natures = np.repeat([0.0, differs], [len(seen), len(rest)])[:, None]
    runs = AlignedRuns(seen, seen * slower, natures, rest, True)
    return np.ptp(impact_posterior(runs).quantiles([0.05, 0.95]))


def test_intervals_never_narrow_as_the_rest_differs_more():
    widths = [posterior_width(differs) for differs in (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)]
    assert (np.diff(widths) > -1e-6).all()
    assert widths[-1] > 10 * widths[0]


@pytest.mark.parametrize("slower", [1.02, 1.2, 1.6])
def test_intervals_of_steady_programs_widen_with_their_slow_down(slower):
    unseen = 30 / 38
    least = 2 * norm.ppf(0.95) * 0.05 * unseen * np.log(slower)
    assert least < posterior_width(0.0, slower) < least + 0.05


@pytest.mark.parametrize(("phases", "times"), [("aabbcc", 0), ("aabbccaabb", 2), ("aaaaaa", 0)])
def test_recurring_phases_of_a_program_are_counted(phases, times):
    natures = np.array([[float(ord(phase))] for phase in phases])
    natures += np.random.default_rng(3).normal(0, 0.01, natures.shape)
    assert PhaseReturns.from_natures(natures).times == times


def test_the_interval_narrows_with_observed_time_and_better_events():
    widths = [mean_width(seconds) for seconds in (4.0, 16.0, 50.0)]
    assert widths[0] > widths[1] > widths[2]
    widths = [mean_width(counted=[event]) for event in ("instructions", "cycles", "task-clock")]
    assert widths[0] < widths[1] < widths[2]


def test_complete_runs_give_the_exact_impact_despite_spinning_threads():
    rng = np.random.default_rng(5)
    program = Phased.of(rng)
    alone, together = program.sampled(rng), program.sampled(rng, program.slower)
    found = predict(alone, together)
    assert found.impact == pytest.approx(program.impact, rel=0.002)
    assert found.high / found.low < 1.03
    together["instructions"] *= 1.03
    assert predict(alone, together).impact == pytest.approx(program.impact, rel=0.002)


def test_swapped_solo_and_co_runs_are_suspected():
    rng = np.random.default_rng(6)
    program = Phased.of(rng)
    alone, together = program.sampled(rng, until=10.0), program.sampled(rng, program.slower * 1.1, 10.0)
    assert predict(alone, together).notes == []
    assert predict(together, alone).notes == ["faster together than alone: are solo and corun swapped?"]


def test_attributions_divide_the_impact_into_factors():
    rng = np.random.default_rng(7)
    program = Phased.of(rng)
    alone, together = program.sampled(rng), program.sampled(rng, program.slower, 20.0)
    together["task-clock"] *= 0.8
    found = predict(alone, together)
    (told,) = found.opinions
    factors = [1 + one.contribution for one in found.attributions]
    assert [one.feature for one in found.attributions] == ["task-clock", "cpu-cycles", "instructions"]
    assert factors[0] == pytest.approx(1.25, rel=0.01)
    assert np.prod(factors) == pytest.approx(told.so_far, rel=0.01)


def test_a_wrong_static_model_does_not_influence_progress():
    believed = ImpactPosterior(np.ones(1), np.array([0.5]), np.array([0.02]))
    assert believed.with_prediction(0.0, 0.05).quantiles([0.5])[0] == pytest.approx(0.5, abs=0.01)
    assert 0.4 < believed.with_prediction(0.45, 0.02).quantiles([0.5])[0] < 0.49


@pytest.mark.parametrize(
    ("means", "deviations"),
    [([0.0], [0.004]), ([0.0, 0.01, 0.3], [0.004, 0.1, 0.5]), ([-3.0, 0.0, 3.0], [0.004, 0.004, 0.004])],
)
def test_quantiles_of_a_mixture_are_not_exceeded_that_often(means, deviations):
    shares = [0.001, 0.05, 0.5, 0.8, 0.999]
    weights = np.full(len(means), 1 / len(means))
    posterior = ImpactPosterior(weights, np.array(means), np.array(deviations))
    parts = norm.cdf(posterior.quantiles(shares)[:, None], means, deviations)
    assert parts.mean(axis=1) == pytest.approx(shares, abs=1e-6)
