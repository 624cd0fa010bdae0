"""No verdict rests on one sample of many, whichever model gives it."""

import numpy as np
import pytest

from features.comparisons.vectors import PreparedComparisons, feature_vectors
from tests.code.comparisons.sides_by_hand import sides_of
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability

DRAWS = 20


def drawn(generator, number, worse=0.0, noise=0.01, better="lower"):
    """Return comparisons of ten samples a side, as lists; `worse` is the share of the change."""
    factor = 1 + worse if better == "lower" else 1 - worse
    pairs = 100 * (1 + noise * generator.standard_normal((number, 2, 10)))
    return [(before.tolist(), (after * factor).tolist()) for before, after in pairs]


def sides(pairs, better):
    return sides_of([[([before], [after])] for before, after in pairs], better)


def with_first(pairs, side, factor):
    """Multiply the first sample of one side; it is left out without a factor."""
    changed = []
    for pair in pairs:
        (first, *others), other = pair if side == "baseline" else pair[::-1]
        samples = others if factor is None else [first * factor, *others]
        changed.append((samples, other) if side == "baseline" else (other, samples))
    return changed


@pytest.fixture(scope="module", params=[*CATALOGUE, "champion"])
def failed(request):
    """Return which pairs a model fails: each of the catalogue, quickly fitted, and the champion."""

    def vectors(pairs, better):
        return feature_vectors(PreparedComparisons.from_sides(sides(pairs, better)).sides)

    if request.param == "champion":
        model = request.getfixturevalue("champion")
        return lambda *pairs: (
            model.predict_probability(model.select_features(vectors(*pairs))) >= model.card.threshold
        )
    generator = np.random.default_rng(1)
    worse = np.where(np.arange(160) % 4 == 0, generator.uniform(0.03, 0.3, 160), 0.0)
    known = [
        drawn(generator, 1, share, noise)[0] for share, noise in zip(worse, [0.005, 0.02] * 80, strict=True)
    ]
    x, y = feature_vectors(sides(known, "lower")), (worse > 0).astype(np.int64)
    entry = CATALOGUE[request.param]
    fitted = build_pipeline(entry, entry.start, y, 1).fit(x, y)
    return lambda *pairs: fail_probability(fitted, vectors(*pairs)) >= 0.5


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("side", ["baseline", "target"])
@pytest.mark.parametrize("factor", [10.0, 2.0, 0.1])
def test_one_outlier_in_ten_samples_changes_no_verdict(failed, better, side, factor):
    pairs = drawn(np.random.default_rng(7), DRAWS, better=better)
    wild = failed(with_first(pairs, side, factor), better)
    assert wild.tolist() == failed(with_first(pairs, side, None), better).tolist()
    assert wild.sum() <= failed(pairs, better).sum() + DRAWS // 10


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("side", ["baseline", "target"])
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_real_regression_with_an_outlier_still_fails(failed, better, side, factor):
    pairs = drawn(np.random.default_rng(8), DRAWS, worse=0.2, better=better)
    assert failed(with_first(pairs, side, factor), better).all()
