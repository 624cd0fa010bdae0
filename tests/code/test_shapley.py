"""Shapley values that are looked up against XGBoost's own."""

import numpy as np
import pytest
from xgboost import DMatrix, XGBClassifier

from training.estimators.boosted_trees import Attributions


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    found = rng.normal(0, 1, (600, 6)).astype(np.float32)
    return np.where(rng.random(found.shape) < 0.1, np.float32(np.nan), found)


def booster(rows, depth):
    failed = np.nan_to_num(rows[:, 0]) * np.nan_to_num(rows[:, 1], nan=0.5) + np.nan_to_num(rows[:, 2]) > 0.3
    return XGBClassifier(n_estimators=12, max_depth=depth, nthread=1).fit(rows, failed).get_booster()


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_tree_attributions_equal_those_of_xgboost_with_gaps(rows, depth):
    trees = booster(rows, depth)
    own = trees.predict(DMatrix(rows), pred_contribs=True)[:, :-1]
    assert np.abs(own).max() > 1
    attributions = Attributions.from_booster(trees)
    found = attributions.compute_contributions(rows)
    np.testing.assert_allclose(found, own, atol=2e-6)
    each = np.vstack([attributions.compute_contributions(row[None]) for row in rows[::10]])
    np.testing.assert_array_equal(each, found[::10])


def test_trees_with_too_many_leaves_are_not_precomputed(rows):
    assert Attributions.from_booster(booster(rows, 7)) is None
