"""Base rates are estimated from scores without labels, and calibrated probabilities are what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import average_precision_score

from data.errors import InputError
from training.comparisons.base_rate import FEWEST, TrainingScores, estimate_base_rate, odds, shift_odds
from training.estimators.answering import CalibrationMap
from training.evaluation.calibration import calibration_error, learn_calibration

#: Mean of the log of the ratio of the densities, of fails; of passes it is negative.
APART, TRAINING_RATE = 4.0, 0.4


def scores(generator, size, rate, shift=0.0):
    """Return exactly calibrated probabilities at `TRAINING_RATE`, and labels; a share `rate` fails."""
    failed = np.arange(size) < round(rate * size)
    ratio = generator.normal(np.where(failed, APART, -APART), np.sqrt(2 * APART)) + shift
    return expit(ratio + np.log(odds(TRAINING_RATE))), failed


def estimated(generator, size, rate, shift=0.0, known=1000):
    """Return the estimate for scores of a stream, from as many `known` training scores."""
    probability, failed = scores(generator, known, TRAINING_RATE)
    groups = np.arange(known).astype(str)
    training = TrainingScores.from_rows(probability, failed.astype(np.int64), groups, 0.005)
    return estimate_base_rate(training, scores(generator, size, rate, shift)[0], 0.5)


@given(st.just(0.0) | st.floats(0.005, 0.9), st.integers(0, 2**16))
@settings(max_examples=10)
def test_a_rate_is_recovered_from_any_mixture(rate, seed):
    found = estimated(np.random.default_rng(seed), 10_000, rate, known=5000)
    # within three standard errors: the interval has 1.96 on either side
    assert abs(found.rate - rate) <= 3 / (2 * 1.96) * (found.high - found.low)
    assert found.low <= found.rate <= found.high
    assert found.black_box == pytest.approx(rate, abs=0.05)


@pytest.mark.parametrize(("size", "rate"), [(200, 0.005), (1000, 0.4)])
def test_nine_of_ten_intervals_hold_the_true_rate_of_mixtures(size, rate):
    every = [estimated(np.random.default_rng([seed, size]), size, rate) for seed in range(30)]
    assert np.mean([found.low <= rate <= found.high for found in every]) >= 0.9
    assert np.mean([found.explains_scores for found in every]) >= 0.9


def test_scores_beyond_every_mixture_fail_the_assumption():
    found = estimated(np.random.default_rng(1), 1000, 0.05, shift=3.0)
    assert not found.explains_scores
    assert found.distance > found.max_distance > 0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.floats(1e-4, 1e4))
def test_shifted_odds_keep_order_ends_and_can_be_undone(values, factor):
    probability = np.sort(values)
    shifted = shift_odds(probability, factor)
    assert (np.diff(shifted) >= 0).all()
    assert ((shifted >= 0) & (shifted <= 1)).all()
    assert shift_odds(np.array([0.0, 1.0]), factor).tolist() == [0, 1]
    assert shift_odds(probability, 1.0) is probability
    inside = (probability > 1e-6) & (probability < 1 - 1e-6)
    np.testing.assert_allclose(shift_odds(shifted, 1 / factor)[inside], probability[inside], rtol=1e-4)


def test_estimates_from_few_scores_are_finite_or_refused():
    generator = np.random.default_rng(7)
    stream = scores(generator, 500, 0.1)[0]
    two = TrainingScores((0.1, 0.2, 0.9, 0.8), (False, False, True, True), (0, 0, 1, 1), 0.005)
    found = estimate_base_rate(two, stream, 0.5)
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert np.isfinite([found.black_box, found.distance, found.max_distance]).all()
    assert 0 < estimate_base_rate(two, stream, 0.95).rate < 1
    with pytest.raises(InputError, match="training scores of one label only"):
        estimate_base_rate(TrainingScores((0.1,), (False,), (0,), 0.005), stream, 0.5)
    with pytest.raises(InputError, match=f"at least {FEWEST} comparisons .* here are {FEWEST - 1};"):
        estimate_base_rate(two, stream[: FEWEST - 1], 0.5)


def rows(seed, warp, count=6000, groups=300):
    """Return labels, probabilities whose log-odds are `warp` of the true ones, and groups."""
    generator = np.random.default_rng(seed)
    log_odds = generator.normal(-1, 2.5, count)
    y = (generator.random(count) < expit(log_odds)).astype(np.int64)
    return y, expit(warp(log_odds)), generator.integers(0, groups, count).astype(str)


WARPS = {
    "sigmoid": lambda odds: 2 * odds + 1,
    "beta": lambda odds: np.where(odds > 0, 2.5, 0.8) * odds,
    "isotonic": lambda odds: odds + 0.48 * np.sin(2 * odds) + 1,
}


@pytest.mark.parametrize("warp", WARPS.values(), ids=WARPS)
def test_calibration_generalises_and_keeps_order_and_ends(warp):
    found = learn_calibration(*rows(0, warp))
    y, raw, _ = rows(1, warp)
    told = found.map_probability(raw)
    assert calibration_error(y, told) <= 0.02 < calibration_error(y, raw)
    assert average_precision_score(y, told) == pytest.approx(average_precision_score(y, raw), abs=1e-12)
    assert (np.diff(found.map_probability(np.sort(np.unique(raw)))) > 0).all()
    assert found.map_probability(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert found.map_probability(1 - 1e-7) > 0.999
    assert found.map_probability(1e-7) < 0.001


def test_calibrated_probabilities_and_few_rows_are_left_unchanged():
    assert learn_calibration(*rows(0, lambda odds: odds)).kind == "none"
    y = np.array([0, 1, 0, 1])
    assert learn_calibration(y, np.array([0.1, 0.6, 0.4, 0.9]), np.array(["a"] * 4)).kind == "none"


def test_calibration_error_ranges_from_zero_to_one():
    y = np.array([0, 0, 1, 1])
    assert [calibration_error(y, told) for told in (y.astype(float), 1.0 - y)] == [0, 1]


@pytest.mark.parametrize(
    ("raw", "told"),
    [((0.0, 1.0), (0.0, 0.5, 1.0)), ((0.1, 1.0), (0.0, 1.0)), ((0.0, 0.5, 1.0), (0.0, 0.0, 1.0))],
)
def test_an_invalid_calibration_map_is_refused(raw, told):
    with pytest.raises(ValueError, match="calibration: expected"):
        CalibrationMap("beta", raw, told)
