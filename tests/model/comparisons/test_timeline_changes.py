"""Changes of simulated series are found, with their sizes and intervals, and few others."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import choose_runs, gather_measurements
from data.tables.problems import Problems
from features.comparisons.lasting_changes import WANTED, Shift, detectable_change, find_lasting_changes
from features.comparisons.newest_change import newest_change

MANY = 100
DOCS = Path(__file__).parents[3] / "docs"


def drifting(draws, shape):
    noise = draws.standard_normal(shape)
    for at in range(1, shape[1]):
        noise[:, at] = 0.3 * noise[:, at - 1] + np.sqrt(1 - 0.3**2) * noise[:, at]
    return noise


#: Noise of one deviation: independent, drifting, with outliers, and medians of samples around a level.
NOISES = {
    "white": lambda draws, shape: draws.standard_normal(shape),
    "drifting": drifting,
    "heavy": lambda draws, shape: draws.standard_t(3, shape) / np.sqrt(3),
    "offset": lambda draws, shape: np.median(
        draws.standard_normal((*shape, 1)) + 0.7 * draws.standard_normal((*shape, 5)), axis=2
    ),
}


def series(versions, many=MANY, spread=0.01, noise="white"):
    return 100 * np.exp(spread * NOISES[noise](np.random.default_rng(versions), (many, versions)))


def told(medians, sign=1.0):
    return find_lasting_changes(medians, np.full(len(medians), sign))[0]


def newest(medians):
    return [newest_change(row, shifts, 1.0, 0) for row, shifts in zip(medians, told(medians), strict=True)]


def noise_of(medians, spread=0.01):
    return find_lasting_changes(medians, np.ones(len(medians)))[1] / spread


@pytest.mark.parametrize("noise", NOISES)
def test_few_series_and_pages_without_a_change_show_one(noise):
    found = [one for versions in (8, 12, 20, 50, 100, 400) for one in told(series(versions, noise=noise))]
    assert sum(map(bool, found)) <= 0.01 * len(found)
    draws = np.random.default_rng(20)
    pages = [100 * np.exp(0.01 * NOISES[noise](draws, (20, 40))) for _ in range(80)]
    assert sum(any(told(page)) for page in pages) <= 0.05 * len(pages)


#: What a series does besides its noise, by the number of its versions: logarithms.
COURSES = {
    "nothing": np.zeros,
    "a step": lambda n: -0.07 * (np.arange(n) >= n // 2),
    "a large step": lambda n: -2.0 * (np.arange(n) >= n // 2),
    "steps": lambda n: -0.2 * (np.arange(n) // (n // 4)),
    "a decline": lambda n: -0.01 * np.arange(n),
    "a steep decline": lambda n: -0.1 * np.arange(n),
}


@pytest.mark.parametrize("versions", [20, 100])
@pytest.mark.parametrize("course", COURSES)
def test_noise_estimates_do_not_depend_on_changes(course, versions):
    ratio = noise_of(series(versions) * np.exp(COURSES[course](versions)))
    assert 0.9 < np.median(ratio) < 1.4
    assert np.mean((ratio > 0.6) & (ratio < 2)) > 0.95


SEEDS = st.integers(0, 2**32 - 1)


@given(
    lengths=st.tuples(st.integers(5, 60), st.integers(5, 60)),
    scales=st.tuples(st.floats(1e-5, 0.05), st.floats(20, 1e4), st.floats(1e-3, 1e6)),
    worse=st.booleans(),
    sign=st.sampled_from([1.0, -1.0]),
    seed=SEEDS,
)
@settings(max_examples=100, derandomize=True)
def test_any_step_far_above_noise_is_found_exactly(lengths, scales, worse, sign, seed):
    (before, behind), (spread, times, level) = lengths, scales
    size = np.clip(times * spread, 0.0055, 5.0)
    spread = min(spread, size / 20)
    values = spread * np.random.default_rng(seed).standard_normal(before + behind)
    values[before:] += size if worse == (sign < 0) else -size
    (found,) = told(level * np.exp(values)[None], sign)
    assert [(one.kind, one.first) for one in found] == [("drop" if worse else "gain", before)]


@pytest.mark.parametrize(
    ("versions", "first", "share", "away"),
    [*((versions, versions - 5, 0.08, 0) for versions in (10, 12, 20, 60)), (100, 60, 0.03, 2)],
)
def test_most_steps_are_located_and_not_mistaken_for_creep(versions, first, share, away):
    found = told(series(versions, many=400) * np.where(np.arange(versions) >= first, 1 - share, 1.0))
    right = [[one.kind for one in own] == ["drop"] and abs(own[0].first - first) <= away for own in found]
    assert np.mean(right) > 0.95


@given(place=st.integers(3, 27), worse=st.booleans(), seed=SEEDS)
@settings(max_examples=100, derandomize=True)
def test_a_clean_step_of_5_percent_is_found_anywhere(place, worse, seed):
    noise = np.random.default_rng(seed).standard_normal(30)
    course = np.log(0.95 if worse else 1.05) * (np.arange(30) >= place)
    ((change,),), (estimate,) = find_lasting_changes(100 * np.exp(0.003 * noise + course)[None], np.ones(1))
    assert change.kind == ("drop" if worse else "gain")
    assert abs(change.first - place) <= 1
    assert change.share == pytest.approx(-0.05 if worse else 0.05, abs=0.01)
    # against the deviation of the values drawn, which differs from 0.003 by chance
    assert 1 / 1.5 < estimate / (0.003 * noise.std(ddof=2)) < 1.5
    # 1.96 deviations of the difference of two versions
    assert detectable_change(np.full((1, 30, 5), 100.0), np.ones((1, 30)), np.array([estimate]))[0] < WANTED


@pytest.mark.parametrize("place", [3, 15, 27])
def test_noise_beside_a_step_is_that_of_the_versions(place):
    ratio = noise_of(series(30, spread=0.003) * (1 - 0.05 * (np.arange(30) >= place)), 0.003)
    assert 0.9 < np.median(ratio) < 1.1
    assert np.mean((ratio > 1 / 1.5) & (ratio < 1.5)) > 0.97


@pytest.mark.parametrize(("versions", "spread"), [(12, 0.003), (20, 0.005), (30, 0.003), (40, 0.01)])
def test_a_drift_of_6_in_1000_per_version_is_worse_now(versions, spread):
    states = newest(series(versions, spread=spread) * np.exp(-0.006 * np.arange(versions)))
    whole = np.expm1(-0.006 * (versions - 1))
    assert np.mean([one.lost and one.creeping for one in states]) > 0.95
    assert np.median([one.change for one in states]) == pytest.approx(whole, rel=0.1)
    assert np.mean([one.low <= whole <= one.high for one in states]) > 0.8


@pytest.mark.parametrize("first", [None, 12, 25])
def test_19_of_20_intervals_contain_the_change(first):
    step = np.ones(30) if first is None else np.where(np.arange(30) >= first, 0.93, 1.0)
    states = newest(series(30, many=400) * step)
    assert np.mean([one.low <= step[-1] - 1 <= one.high for one in states]) > 0.92
    assert np.mean([one.lost for one in states]) == (first is not None)


def test_the_sample_shows_the_losses_that_its_page_claims():
    text = " ".join((DOCS / "samples.md").read_text().split())
    claims = re.findall(r"`(\w+)` (?:loses )?([\d.]+) % with (one version|each)", text)
    assert len(claims) == 2
    runs = read_folder(DOCS / "samples/results", Measure()).runs
    (rule,) = rules.read_rule_sets(DOCS / "samples/rules.xml")
    found = gather_measurements(choose_runs(runs, rule)[0], Problems())
    rows = [(one, row) for one in found.operations for row in range(*one.row_slice.indices(len(found.five)))]
    changes, noise = find_lasting_changes(found.five[..., 2], np.array([one.sign for one, _ in rows]))
    expected = {}
    for operation, percent, when in claims:
        share, versions = float(percent) / 100, found.five.shape[1] - 2
        whole, kind = (share, "drop") if when == "one version" else (1 - (1 - share) ** versions, "creep")
        expected[operation] = [(kind, pytest.approx(-whole, abs=0.011))]
    told = [(one.operation, [(change.kind, change.share) for change in changes[row]]) for one, row in rows]
    assert told == [(one.operation, expected.get(one.operation, [])) for one, _ in rows]
    assert (detectable_change(found.five, found.sample_counts.astype(float), noise) < WANTED).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_most_slow_drops_below_noise_are_found(sign):
    def is_right(shift):
        near = abs(shift.first - 50) <= 8 and abs(shift.last - 80) <= 8
        return shift.kind == "creep" and near and abs(shift.share + 0.09) < 0.02

    found = told(series(120) * np.exp(-sign * 0.003 * np.clip(np.arange(120) - 50, 0, 30)), sign)
    assert sum(any(map(is_right, shifts)) for shifts in found) >= 0.9 * MANY


def test_changes_from_half_a_percent_have_versions_and_shares():
    level = np.r_[np.full(20, 100.0), np.full(15, 80.0), np.full(10, 100.0)]
    with_gap = np.insert(level, 5, np.nan)
    lost, won = told(with_gap[None])[0]
    assert lost == Shift("drop", 21, 21, pytest.approx(-0.2))
    assert won == Shift("gain", 36, 36, pytest.approx(0.25))
    assert told(np.r_[np.full(50, 1000.0), np.full(50, 996.0)][None]) == [()]


def test_operations_hiding_5_percent_changes_are_unstable():
    spreads = np.array([0.01, 0.015, 0.022, 0.04])
    medians = 100 * (1 + spreads[:, None] * np.random.default_rng(3).standard_normal((4, 400)))
    five = np.repeat(medians[..., None], 5, axis=2)
    found = detectable_change(five, np.ones((4, 400)), noise_of(medians, 1.0))
    assert found == pytest.approx(1.96 * np.sqrt(2) * spreads, rel=0.2)
    assert (found > WANTED).tolist() == [False, False, True, True]


def test_few_versions_use_the_spread_of_repetitions():
    five = np.tile([90.0, 95.0, 100.0, 105.0, 110.0], (1, 2, 1))
    found = detectable_change(five, np.zeros((1, 2)), noise_of(five[..., 2], 1.0))
    assert found == pytest.approx(1.96 * np.sqrt(2) * 1.2533 * 0.1 / 1.349 / np.sqrt(5))
