"""Calibrated probabilities are what they say, in the order in which the model had them."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import average_precision_score

from training.estimators.answering import CalibrationMap
from training.evaluation.calibration import calibration_error, learn_calibration


def rows(seed, warp, count=6000, groups=300):
    """Return labels, what a model says of them, which is `warp` of the log-odds, and groups."""
    generator = np.random.default_rng(seed)
    odds = generator.normal(-1, 2.5, count)
    y = (generator.random(count) < expit(odds)).astype(np.int64)
    return y, expit(warp(odds)), generator.integers(0, groups, count).astype(str)


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
    assert calibration_error(y, y.astype(float)) == 0
    assert calibration_error(y, 1.0 - y) == 1


@pytest.mark.parametrize(
    ("raw", "told"),
    [((0.0, 1.0), (0.0, 0.5, 1.0)), ((0.1, 1.0), (0.0, 1.0)), ((0.0, 0.5, 1.0), (0.0, 0.0, 1.0))],
)
def test_an_invalid_calibration_map_is_refused(raw, told):
    with pytest.raises(ValueError, match="calibration: expected"):
        CalibrationMap("beta", raw, told)
