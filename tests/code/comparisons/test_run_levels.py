"""Levels of runs: means of samples that suit the tails of their distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from features.comparisons.run_levels import RunLevels
from features.comparisons.summaries import interquartile_mean, limited_mean
from tests.code.comparisons.sides_by_hand import sides_of

LEVELS = pytest.mark.parametrize("level", [interquartile_mean, limited_mean])
N_OPERATIONS, N_SAMPLES = 20, 10


def measured(rng, noise):
    """Return the samples of a run of each operation, with a standard deviation of 1 % or more."""
    shape = N_OPERATIONS, N_SAMPLES
    match noise:
        case "normal":
            return 1 + 0.01 * rng.normal(size=shape)
        case "bimodal":
            return 1 + 0.01 * rng.choice([-1.0, 1.0], shape) + 0.001 * rng.normal(size=shape)
    return 1 + 0.01 * rng.normal(size=shape) + 0.2 * (rng.random(shape) < 0.1)


def levels_of(baseline, target):
    """Return the log levels of one run a side, shape (2, n_operations); samples of one row per operation."""
    pairs = zip(baseline, target, strict=True)
    levels = RunLevels.from_sides(sides_of([[([old], [new])] for old, new in pairs]))
    return np.vstack([levels.baseline, levels.target])


@LEVELS
@given(
    samples=arrays(float, st.tuples(st.just(3), st.integers(1, 12)), elements=st.floats(-1e6, 1e6)),
    factor=st.floats(0.5, 2.0),
)
def test_levels_are_within_the_samples_and_follow_their_unit_and_order(level, samples, factor):
    ordered = np.sort(samples, axis=1)
    found, slack = level(ordered), 1e-9 * (1 + np.abs(samples).max())
    assert (ordered[:, 0] - slack <= found).all()
    assert (found <= ordered[:, -1] + slack).all()
    assert level(factor * ordered) == pytest.approx(factor * found, abs=slack)
    assert level(-ordered[:, ::-1]) == pytest.approx(-found, abs=slack)


@LEVELS
def test_a_far_sample_of_ten_moves_a_level_like_a_sample_at_the_end(level):
    samples = np.arange(10.0)[None]
    far = np.append(samples[:, :-1], [[1e9]], axis=1)
    assert abs(level(far) - level(samples)) < 1.5


@LEVELS
def test_a_row_with_a_missing_value_has_no_level(level):
    assert np.isnan(level(np.array([[1.0, 2.0, np.nan]]))).all()


@pytest.mark.parametrize(("noise", "better"), [("normal", 0.99), ("bimodal", 0.8), ("outliers", 1.02)])
def test_levels_scatter_no_more_than_means_or_interquartile_means(noise, better):
    """The level of one of the two kinds suits the samples of the whole run better, and is taken."""
    rng, errors = np.random.default_rng(20261127), []
    for _ in range(200):
        sides = [measured(rng, noise) for _ in range(2)]
        ordered = [np.sort(side, axis=1) for side in sides]
        each = [np.log([side.mean(axis=1) for side in sides]), np.log([*map(interquartile_mean, ordered)])]
        errors.append([np.diff(levels, axis=0) for levels in (levels_of(*sides), *each)])
    found, of_means, of_middle = np.sqrt((np.array(errors) ** 2).mean(axis=(0, 2, 3)))
    assert found < 1.05 * min(of_means, of_middle)
    assert found < better * of_middle
