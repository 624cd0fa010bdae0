"""Estimators with monotone constraints, beside the ones of scikit-learn that they replace."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from training.estimators import compiled_pipeline
from training.estimators.answering import MonotoneConstraints
from training.estimators.boosted_trees import compile_boosted
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability, without_sampler
from training.estimators.monotone import OneSidedNeighbours, SignedLogistic
from training.estimators.preparation import GapFiller

#: The first column is the evidence; the last one is about something else.
GUIDE = MonotoneConstraints((-1, -1, 1, -1, 0), evidence=0)


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(2)
    x = draw.normal(size=(240, 5)) * [1.0, 3.0, 0.2, 1.0, 1.0]
    y = (x[:, 0] + x[:, 1] / 3 - 2 * x[:, 2] + draw.normal(size=240) < -1).astype(np.int64)
    x[draw.random(x.shape) < 0.1] = np.nan
    return x, y


@pytest.mark.parametrize("sampler", ["none", "smote", "over", "under"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_worse_value_never_makes_a_fail_less_probable(rows, name, sampler):
    x, y = rows
    model = CATALOGUE[name]
    params = {**model.start, "sampler": sampler, "rate": 0.9}
    fitted = build_pipeline(model, params, y, 0, GUIDE).fit(x, y)
    steps, columns = np.linspace(0, 4, 9), len(GUIDE.directions) - 1
    worse = np.tile(np.nan_to_num(x[:40]), (columns, len(steps), 1, 1))
    for column, direction in enumerate(GUIDE.directions[:-1]):
        worse[column, ..., column] += direction * steps[:, None]
    chains = fail_probability(fitted, worse.reshape(-1, x.shape[1])).reshape(worse.shape[:-1])
    assert np.diff(chains, axis=1).min() >= -1e-9


@pytest.mark.parametrize("name", CATALOGUE)
def test_compiled_arrays_match_the_pipeline_and_reasons_add_up(rows, name):
    x, y = rows
    fitted = without_sampler(build_pipeline(CATALOGUE[name], CATALOGUE[name].start, y, 0, GUIDE).fit(x, y))
    ready = compiled_pipeline.compile_pipeline(fitted) or compile_boosted(fitted)
    reference = np.nanmedian(x[y == 0], axis=0)
    probability, contributions = ready.predict_and_explain(x, reference)
    np.testing.assert_allclose(probability, fail_probability(fitted, x), atol=1e-6)
    assert contributions.shape == x.shape
    if name.startswith("knn"):
        ordinary = ready.predict_and_explain(reference[None], reference)[0]
        np.testing.assert_allclose(contributions.sum(axis=1), probability - ordinary, atol=1e-3)


def test_without_sign_constraints_it_equals_scikit_learn(rows):
    x, y = np.nan_to_num(rows[0]), rows[1]
    ours = SignedLogistic(0.3, directions=(0,) * 5, class_weight={0: 1.0, 1: 2.5}).fit(x, y)
    theirs = LogisticRegression(C=0.3, class_weight={0: 1.0, 1: 2.5}, tol=1e-8).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-3)


def test_near_neighbours_of_both_classes_are_weighted():
    x, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([1, 1, 0, 0])
    near = OneSidedNeighbours(2, 2, directions=(-1,)).fit(x, y)
    # passes are far for what is worse than they are, fails for what is better; 0.05 is added to each distance
    share = near.predict_proba([[-9.0], [0.0], [2.0], [9.0]])[:, 1]
    passes, fails = np.array([11.0, 2.0, 0.5, 0.0]) + 0.05, np.array([0.0, 1.5, 3.5, 10.5]) + 0.05
    np.testing.assert_allclose(share, passes / (passes + fails), rtol=1e-5)
    first = OneSidedNeighbours(1, 2, directions=(-1,), weights="distance").fit(x, y).predict_proba([[0.0]])
    assert first[0, 1] == pytest.approx(1.05 / (1.05 + 1.05))


def test_gaps_are_filled_from_correlated_features_of_equal_direction():
    first = np.random.default_rng(0).normal(size=100)
    x = np.column_stack([first, 2 * first + 1])
    for directions, expected in (((-1, -1), 7.0), ((-1, 1), np.median(x[:, 1]))):
        gaps = GapFiller(directions, 0).fit(x)
        assert gaps.transform([[3.0, np.nan]])[0].tolist() == pytest.approx([3.0, expected])
