import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from serving.comparisons.explain.explanations import strongest_features
from tests.code.comparisons.posted import served_model, standardised

NAMES = ("worse", "noise", "idle")


def trained(classifier):
    """Fit on data where a small ``worse`` means fail and the other two features mean nothing."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(400, 3))
    columns[::50, 1] = np.nan
    fails = columns[:, 0] + 0.3 * rng.normal(size=400) < -0.5
    return served_model(standardised(classifier).fit(columns, fails.astype(int)), NAMES).model


@pytest.fixture
def features():
    columns = np.random.default_rng(1).normal(size=(50, 3))
    columns[3, NAMES.index("noise")] = np.nan
    return columns


def log_odds(model, features):
    probability = model.predict_probability(features)
    return np.log(probability / (1 - probability))


LINEAR, NEIGHBOURS = LogisticRegression(), KNeighborsClassifier(5)
BOOSTING = XGBClassifier(n_estimators=20, max_depth=3, nthread=1)
TREES = [
    DecisionTreeClassifier(min_samples_leaf=3, class_weight={0: 1, 1: 4}, random_state=0),
    RandomForestClassifier(30, class_weight={0: 1, 1: 4}, random_state=0),
    ExtraTreesClassifier(30, random_state=0),
]


@pytest.mark.parametrize("classifier", TREES)
def test_tree_contributions_sum_to_probability_minus_base_rate(classifier, features):
    model = trained(classifier)
    probability, found = model.predict_and_explain(features)
    assert model.unit == "probability"
    base_rate = model.answering.value[model.answering.roots].mean()
    np.testing.assert_allclose(found.sum(axis=1) + base_rate, probability, atol=1e-12)


def test_linear_contributions_sum_to_log_odds_minus_reference(features):
    model = trained(LINEAR)
    _, found = model.predict_and_explain(features)
    at_reference = log_odds(model, model.reference_features[None])
    assert model.unit == "log-odds"
    np.testing.assert_allclose(found.sum(axis=1), log_odds(model, features) - at_reference)


def test_boosting_contributions_sum_to_log_odds_plus_a_constant(features):
    model = trained(BOOSTING)
    _, found = model.predict_and_explain(features)
    rest = log_odds(model, features) - found.sum(axis=1)
    assert model.unit == "log-odds"
    np.testing.assert_allclose(rest, rest[0], atol=1e-4)


def test_other_models_attribute_by_replacing_features_with_the_reference(features):
    model = trained(NEIGHBOURS)
    probability, found = model.predict_and_explain(features)
    ordinary = features.copy()
    ordinary[:, 0] = model.reference_features[0]
    assert model.unit == "probability"
    np.testing.assert_allclose(found[:, 0], probability - model.predict_probability(ordinary))


@pytest.mark.parametrize(
    "classifier", [LINEAR, BOOSTING, *TREES, NEIGHBOURS], ids=lambda classifier: type(classifier).__name__
)
def test_the_causal_feature_has_the_largest_positive_contribution(classifier):
    _, found = trained(classifier).predict_and_explain(np.array([[-2.0, 0.1, 0.1], [2.0, 0.1, 0.1]]))
    assert strongest_features(found, 1)[0] == [0]
    assert found[0, 0] > 0 >= found[1, 0]


def test_reasons_are_sorted_by_absolute_contribution():
    values = np.array([[0.1, -0.5, 0.3], [0.0, 0.2, -0.1]])
    assert strongest_features(values, 2).tolist() == [[1, 2], [1, 2]]
    assert strongest_features(values, 9).tolist() == [[1, 2, 0], [1, 2, 0]]
    assert strongest_features(values[:0], 2).shape == (0, 2)
