"""The impact predicted from progress, for simulated programs with phases, and swapped runs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from data.corun.synonyms import IntervalCounts
from data.corun.tables import CorunTables
from features.corun.featurize import training_instances
from features.corun.rates import Solo
from serving.corun.online_answer import SWAPPED_LOG_ODDS, predict_online
from training.corun.online import SampledRuns, fit_online_models, pair_runs
from training.corun.progress import AlignedRuns, ImpactPosterior, count_phase_returns, impact_posterior
from training.corun.splits import at_random, by_task

RUNS = 120
CLOCK = 3e9
EVENTS = "instructions", "cycles", "task-clock"


@dataclass(frozen=True)
class Phased:
    """A program that goes through 3 to 8 phases, once or in rounds; each with its own IPC and sensitivity."""

    seconds: np.ndarray
    ipc: np.ndarray
    slower: np.ndarray

    @classmethod
    def of(cls, rng, seconds=60.0, rounds=None):
        phases, drawn = rng.integers(3, 9), rng.integers(1, 9)
        rounds = rounds or drawn
        # what is starved of memory retires little, and mostly suffers more
        starved = rng.uniform(0, 1, phases)
        ipc = rng.uniform(1.2, 3.0, phases) * (1 - 0.75 * starved)
        sensitive = np.clip(starved + rng.normal(0, 0.35, phases), 0, 1.2)
        slower = 1 + rng.uniform(0.02, 0.4) * sensitive
        order = np.tile(np.arange(phases), rounds)
        lasts = rng.uniform(0.3, 1.7, phases)[order] * rng.uniform(0.9, 1.1, len(order))
        return cls(lasts / lasts.sum() * seconds, ipc[order], slower[order])

    @property
    def impact(self):
        return float(self.seconds @ self.slower / self.seconds.sum())

    def sampled(self, rng, slower=None, until=np.inf, interval=0.2, noise=0.02):
        """Return what perf stat -I counts until some seconds; `slower` is 1 alone."""
        lasts = self.seconds * (1.0 if slower is None else slower)
        ends = np.concatenate([[0.0], lasts.cumsum()])
        stop = min(until, ends[-1])
        times = np.append(np.arange(interval, stop - 1e-9, interval), stop)
        work = np.concatenate([[0.0], (self.seconds * self.ipc * CLOCK).cumsum()])
        shaken = np.exp(rng.normal(0, noise, (2, len(times))))
        counts = np.diff(np.interp(times, ends, work), prepend=0.0) * shaken[0]
        busy = np.diff(times, prepend=0.0)
        events = {"instructions": counts, "cycles": busy * CLOCK * shaken[1], "task-clock": busy * 1000}
        return pd.DataFrame({"t_seconds": times, **events})


def predict(alone, together):
    """Return the answer from the samples of both runs, without a trained model."""
    return predict_online(*map(IntervalCounts.from_table, (alone, together)), None, None)


def judged(runs, seconds, *, whole, counted=EVENTS, rounds=None):
    """Return errors of impacts, whether their intervals hold, and the widths of these."""
    rows = []
    for number in range(runs):
        rng = np.random.default_rng([20261123, number])
        program = Phased.of(rng, rounds=rounds)
        columns = ["t_seconds", *counted]
        alone = program.sampled(rng, until=np.inf if whole else seconds)[columns]
        found = predict(alone, program.sampled(rng, program.slower, seconds)[columns])
        held = found.low <= program.impact <= found.high
        rows.append((abs(found.impact / program.impact - 1), held, np.log(found.high / found.low)))
    return np.array(rows).T


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("rounds", "low", "high"), [(None, 0.88, 0.93), (1, 0.9, 1.0)], ids=["rounds", "once"]
)
def test_early_impact_estimates_are_accurate_with_valid_intervals(whole, rounds, low, high):
    error, held, _ = judged(RUNS, 10.0, whole=whole, rounds=rounds)
    assert low <= held.mean() <= high
    assert rounds or (error <= 0.05).mean() >= 0.8


def posterior_width(differs, slower=1.2):
    """Return the width on the log scale if the rest's rates differ by the factor exp(`differs`)."""
    seen, rest = np.ones(8), np.ones(30)
    runs = AlignedRuns(seen, seen * slower, np.repeat([0.0, differs], [8, 30])[:, None], rest, True)
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
    assert count_phase_returns(natures) == times


def test_the_interval_narrows_with_observed_time_and_better_events():
    by_time = [judged(12, seconds, whole=True)[2].mean() for seconds in (50.0, 16.0, 4.0)]
    by_event = [judged(12, 10.0, whole=True, counted=[event])[2].mean() for event in EVENTS]
    assert (np.diff([by_time, by_event]) > 0).all()


@pytest.fixture
def runs():
    """A program alone, beside one that slows it down, and its true impact."""
    rng = np.random.default_rng(5)
    program = Phased.of(rng)
    return program.sampled(rng), program.sampled(rng, program.slower), program.impact


def test_complete_runs_give_the_exact_impact_despite_spinning_threads(runs):
    alone, together, impact = runs
    found = predict(alone, together)
    assert found.impact == pytest.approx(impact, rel=0.002)
    assert found.high / found.low < 1.03
    together["instructions"] *= 1.03
    assert predict(alone, together).impact == pytest.approx(impact, rel=0.002)


def test_swapped_solo_and_co_runs_are_suspected():
    rng = np.random.default_rng(6)
    program = Phased.of(rng)
    alone, together = program.sampled(rng, until=10.0), program.sampled(rng, program.slower * 1.1, 10.0)
    assert predict(alone, together).notes == []
    assert predict(together, alone).notes == ["faster together than alone: are solo and corun swapped?"]


def test_attributions_divide_the_impact_into_factors(runs):
    alone, together, _ = runs
    together = together[together["t_seconds"] <= 20]
    together = together.assign(**{"task-clock": 0.8 * together["task-clock"]})
    found = predict(alone, together)
    factors = [1 + one.contribution for one in found.attributions]
    assert [one.feature for one in found.attributions] == ["task-clock", "cpu-cycles", "instructions"]
    assert factors[0] == pytest.approx(1.25, rel=0.01)
    assert np.prod(factors) == pytest.approx(found.opinions[0].so_far, rel=0.01)


def test_a_wrong_static_model_does_not_influence_progress():
    believed = ImpactPosterior(np.ones(1), np.array([0.5]), np.array([0.02]))
    assert believed.with_prediction(0.0, 0.05).quantiles([0.5])[0] == pytest.approx(0.5, abs=0.01)
    assert 0.4 < believed.with_prediction(0.45, 0.02).quantiles([0.5])[0] < 0.49


@pytest.mark.parametrize(
    ("means", "deviations"),
    [([0.0, 0.01, 0.3], [0.004, 0.1, 0.5]), ([-3.0, 0.0, 3.0], [0.004, 0.004, 0.004])],
)
def test_quantiles_of_a_mixture_are_not_exceeded_that_often(means, deviations):
    shares = [0.001, 0.05, 0.5, 0.8, 0.999]
    weights = np.full(len(means), 1 / len(means))
    posterior = ImpactPosterior(weights, np.array(means), np.array(deviations))
    parts = norm.cdf(posterior.quantiles(shares)[:, None], means, deviations)
    assert parts.mean(axis=1) == pytest.approx(shares, abs=1e-6)


SHIPPED = Path(__file__).parents[3] / "data/raw/corun"
#: What perf stat counts on any machine without a hardware counter.
PERF = ("context-switches", "cpu-migrations", "major-faults", "minor-faults", "page-faults", "task-clock")


@pytest.fixture(scope="module")
def shipped():
    """The first 2 s of all runs, and which belong together."""
    tables = CorunTables.read(SHIPPED)
    sampled = SampledRuns.from_samples(tables.samples, 2.0)
    return sampled, pair_runs(sampled.runs, training_instances(tables, Solo.from_tables(tables)))


def asked(shipped, divide, events):
    """Return the shares of held-out pairs that are suspected: as they are, and swapped."""
    sampled, pairs = shipped
    known, found = np.isin(sampled.events, events), []
    for train, test in divide(pairs, 5, 1):
        (model,) = fit_online_models(sampled, pairs.iloc[train], [LinearRegression()])
        done, unseen = model.completion_rates(sampled.start), pairs.iloc[test]
        found += [
            [model.changes.swap_log_odds(sign * ratios, known) > SWAPPED_LOG_ODDS for sign in (1, -1)]
            for ratios in done[unseen["corun"]] - done[unseen["solo"]]
        ]
    return np.array(found).mean(axis=0)


@pytest.mark.parametrize("divide", [at_random, by_task])
@pytest.mark.parametrize(("events", "least"), [(PERF, 0.85), (PERF[:1], 0.8)], ids=["perf", "one event"])
def test_most_swapped_pairs_are_suspected_and_few_correct_ones(shipped, divide, events, least):
    falsely, noticed = asked(shipped, divide, events)
    assert falsely <= 0.01
    assert noticed >= least


def test_an_event_that_changes_either_way_raises_no_suspicion(shipped):
    assert asked(shipped, at_random, ["page-faults"]).max() <= 0.02
