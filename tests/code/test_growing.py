import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from training.estimators.growing import abnormal_share, grown


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(7)
    x = draw.normal(size=(60, 9))
    return x, (x[:, 0] + draw.normal(size=60) > 1).astype(np.int64)


@pytest.mark.parametrize("weights", [None, {0: 1.0, 1: 5.5}])
@pytest.mark.parametrize("samples", [None, 0.4])
def test_a_forest_has_the_trees_that_scikit_learn_grows(rows, weights, samples):
    x, y = rows
    given = {"n_estimators": 7, "class_weight": weights, "max_samples": samples, "random_state": 3}
    ours, theirs = grown(RandomForestClassifier(**given), x, y), RandomForestClassifier(**given).fit(x, y)
    assert [tree.random_state for tree in ours.estimators_] == [
        tree.random_state for tree in theirs.estimators_
    ]
    for mine, other in zip(ours.estimators_, theirs.estimators_, strict=True):
        np.testing.assert_array_equal(mine.tree_.threshold, other.tree_.threshold)
        np.testing.assert_array_equal(mine.tree_.value, other.tree_.value)
    np.testing.assert_array_equal(ours.predict_proba(x), theirs.predict_proba(x))
    np.testing.assert_array_equal(abnormal_share(ours, x), theirs.predict_proba(x)[:, 1])


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreesClassifier])
def test_others_are_what_their_own_fit_makes_of_them(rows, kind):
    x, y = rows
    ours, theirs = grown(kind(random_state=3), x, y), kind(random_state=3).fit(x, y)
    np.testing.assert_array_equal(ours.predict_proba(x), theirs.predict_proba(x))
