"""Series that are drawn: what does not change is left alone, what changes is found."""

import numpy as np
import pytest

from features.comparisons.timelines.changes import Shift, shifts
from features.comparisons.timelines.noise import WANTED, instability

MANY = 150


def white(draws, shape):
    return draws.standard_normal(shape)


def drifting(draws, shape):
    """Noise of which 0.3 is that of the version before."""
    noise = draws.standard_normal(shape)
    for at in range(1, shape[1]):
        noise[:, at] = 0.3 * noise[:, at - 1] + np.sqrt(1 - 0.3**2) * noise[:, at]
    return noise


def heavy(draws, shape):
    return draws.standard_t(3, shape) / np.sqrt(3)


def offset(draws, shape):
    """Medians of five repetitions of versions that differ."""
    return np.median(draws.standard_normal((*shape, 1)) + 0.7 * draws.standard_normal((*shape, 5)), axis=2)


def series(noise, versions, many=MANY, spread=0.01):
    return 100 * np.exp(spread * noise(np.random.default_rng(versions), (many, versions)))


def told(medians, sign=1.0):
    return shifts(medians, np.full(len(medians), sign))


@pytest.mark.parametrize("noise", [white, drifting, heavy, offset])
def test_at_most_1_of_100_series_without_change_shows_one(noise):
    found = [one for versions in (20, 50, 100, 200, 400) for one in told(series(noise, versions))]
    assert sum(map(bool, found)) <= 0.01 * len(found)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_9_of_10_creeping_drops_of_a_third_of_the_noise_a_version_are_found(sign):
    creep = np.exp(-sign * 0.003 * np.clip(np.arange(120) - 50, 0, 30))
    found = told(series(white, 120) * creep, sign)
    right = [one for one in found if any(_is_creep(shift) for shift in one)]
    assert len(right) >= 0.9 * MANY


def _is_creep(shift):
    near = abs(shift.first - 50) <= 8 and abs(shift.last - 80) <= 8
    return shift.kind == "creep" and near and abs(shift.share + 0.09) < 0.02


def test_a_step_is_found_where_it_is_and_is_no_creep():
    step = np.where(np.arange(100) >= 60, 0.97, 1.0)
    found = told(series(white, 100) * step)
    right = [len(one) == 1 and one[0].kind == "drop" and abs(one[0].first - 60) <= 2 for one in found]
    assert np.mean(right) > 0.95


def test_what_is_lost_and_won_back_is_told_with_its_versions_and_shares():
    level = np.r_[np.full(20, 100.0), np.full(15, 80.0), np.full(10, 100.0)]
    with_gap = np.insert(level, 5, np.nan)
    lost, won = told(with_gap[None])[0]
    assert lost == Shift("drop", 21, 21, pytest.approx(-0.2))
    assert won == Shift("gain", 36, 36, pytest.approx(0.25))


def test_what_is_smaller_than_half_a_percent_is_not_told():
    assert told(np.r_[np.full(50, 1000.0), np.full(50, 996.0)][None]) == [()]


def test_an_operation_is_unstable_when_5_percent_drown_in_its_noise():
    draws = np.random.default_rng(3)
    spreads = np.array([0.01, 0.015, 0.022, 0.04])
    medians = 100 * (1 + spreads[:, None] * draws.standard_normal((4, 400)))
    five = np.repeat(medians[..., None], 5, axis=2)
    found = instability(five, np.ones((4, 400)))
    assert found == pytest.approx(1.96 * np.sqrt(2) * spreads, rel=0.2)
    assert (found > WANTED).tolist() == [False, False, True, True]


def test_repetitions_alone_tell_of_few_versions():
    five = np.tile([90.0, 95.0, 100.0, 105.0, 110.0], (1, 2, 1))
    error = 1.2533 * 0.1 / 1.349 / np.sqrt(5)
    assert instability(five, np.zeros((1, 2))) == pytest.approx(1.96 * np.sqrt(2) * error)
