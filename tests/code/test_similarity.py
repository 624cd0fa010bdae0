import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from training.estimators.similarity_logistic import SimilarityLogistic


@parametrize_with_checks([SimilarityLogistic(), SimilarityLogistic("direct")])
def test_similarity_logistic_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def drawn(pairs, weights, intercept=0.0, seed=0):
    """Draw pairs of standard normal vectors, the hidden classes of both, and whether these differ."""
    random = np.random.default_rng(seed)
    sides = random.normal(size=(2, pairs, len(weights)))
    hidden = random.random((2, pairs)) < 1 / (1 + np.exp(-(sides @ weights + intercept)))
    return np.hstack(list(sides)), (hidden[0] != hidden[1]).astype(int)


def shifted(pairs, features, seed=0):
    """Draw targets near their baselines, every tenth with the first metric far higher; label those."""
    random = np.random.default_rng(seed)
    baseline = random.normal(size=(pairs, features))
    target = baseline + random.normal(0, 0.2, (pairs, features))
    abnormal = np.arange(pairs) % 10 == 0
    target[abnormal, 0] += 3
    return np.hstack([baseline, target]), abnormal.astype(int)


def log_likelihood(model, x, y, ridge):
    """The seed's formula as it stands: P(B = 1) = P(Y = 1) P(Y' = 0) + P(Y = 0) P(Y' = 1)."""
    scores = [side @ model.coef_[0] + model.intercept_[0] for side in np.hsplit(x, 2)]
    p, q = (1 / (1 + np.exp(-score)) for score in scores)
    differ = p * (1 - q) + (1 - p) * q
    return np.log(np.where(y == 1, differ, 1 - differ)).sum() - ridge / 2 * (model.coef_**2).sum()


WEIGHTS = np.array([2.0, -1.5, 1.0, 0.0, 0.0, -0.5])
SETS = {
    "as the model says": drawn(1500, WEIGHTS),
    "mostly one hidden class": drawn(1500, WEIGHTS, intercept=-3.0),
    "targets near their baselines": shifted(1500, 12),
    "more features than pairs": drawn(40, np.linspace(-1, 1, 60)),
}


@pytest.mark.parametrize("name", SETS)
def test_em_increases_monotonically_to_the_maximum_likelihood(name):
    x, y = SETS[name]
    em, direct = (SimilarityLogistic(solver).fit(x, y) for solver in ("em", "direct"))
    assert np.diff(em.log_likelihoods_).min(initial=np.inf) >= 0
    assert em.log_likelihoods_[-1] == pytest.approx(log_likelihood(em, x, y, 1.0), abs=1e-6)
    np.testing.assert_allclose(em.coef_, direct.coef_, atol=1e-4)
    np.testing.assert_allclose(em.intercept_, direct.intercept_, atol=1e-4)


def test_similarity_does_not_depend_on_the_order_of_sides():
    x, y = shifted(400, 12)
    model = SimilarityLogistic().fit(x, y)
    swapped = np.hstack(np.hsplit(x, 2)[::-1])
    np.testing.assert_allclose(model.decision_function(swapped), model.decision_function(x), atol=1e-12)


def test_the_weights_rise_from_baseline_to_dissimilar_target():
    x, y = shifted(800, 5)
    x[:, [0, 5]] *= -1
    assert SimilarityLogistic().fit(x, y).coef_[0, 0] < 0 < SimilarityLogistic().fit(-x, y).coef_[0, 0]


def test_units_have_no_effect_without_a_penalty():
    x, y = drawn(1500, WEIGHTS)
    units = np.tile([1e-6, 1e9, 1.0, 5.0, 1e3, 1.0], 2)
    plain = SimilarityLogistic(ridge=0.0).fit(x, y)
    moved = SimilarityLogistic(ridge=0.0).fit(x * units + 7 * units, y)
    np.testing.assert_allclose(moved.predict_proba(x * units + 7 * units), plain.predict_proba(x), atol=1e-5)


def test_a_shared_column_counts_for_both_sides():
    x, y = drawn(1000, np.array([2.0, 1.0]))
    size = np.random.default_rng(2).normal(size=(1000, 1))
    written_out = np.hstack([x[:, :2], size, x[:, 2:], size])
    expected = SimilarityLogistic(shared=0).fit(written_out, y).decision_function(written_out)
    for shared in (1, "rest"):
        found = SimilarityLogistic(shared=shared).fit(np.hstack([x, size]), y)
        np.testing.assert_allclose(found.decision_function(np.hstack([x, size])), expected, atol=1e-9)


def test_class_weights_act_like_repeated_rows():
    x, y = shifted(200, 3)
    copies = np.repeat(np.arange(200), np.where(y == 1, 3, 1))
    weighed = SimilarityLogistic(class_weight={0: 1, 1: 3}).fit(x, y)
    copied = SimilarityLogistic().fit(x[copies], y[copies])
    np.testing.assert_allclose(weighed.coef_, copied.coef_, atol=1e-6)


@pytest.mark.parametrize("solver", ["em", "direct"])
def test_constant_and_duplicated_columns_do_no_harm(solver):
    x, y = drawn(500, WEIGHTS[:2])
    wide = np.hstack([np.column_stack([side, side[:, 0], np.full(500, 3.0)]) for side in np.hsplit(x, 2)])
    model = SimilarityLogistic(solver).fit(wide, y)
    assert model.coef_[0, 3] == pytest.approx(0.0, abs=1e-6)
    assert model.coef_[0, 2] == pytest.approx(model.coef_[0, 0], abs=1e-5)


def test_extremely_distant_pairs_have_a_finite_probability():
    model = SimilarityLogistic().fit(*SETS["as the model says"])
    far = np.array([[1e6] * 12, [1e6] * 6 + [-1e6] * 6])
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        found = model.predict_proba(far)
    np.testing.assert_allclose(found, [[1, 0], [0, 1]], atol=1e-12)


def test_too_few_iterations_give_a_convergence_warning():
    with pytest.warns(ConvergenceWarning, match=r"^SimilarityLogistic: not converged after max_iter=1 iter"):
        SimilarityLogistic(max_iter=1, tol=1e-12).fit(*SETS["more features than pairs"])


@pytest.mark.parametrize(
    ("features", "parameters", "line"),
    [
        (2, {"solver": "newton"}, 'solver=\'newton\' is neither "em" nor "direct"'),
        (2, {"ridge": -1.0}, "ridge=-1.0 is below 0"),
        (3, {"shared": 0}, "n_features = 3 less shared=0 cannot be divided into baseline and target"),
    ],
)
def test_unusable_data_and_parameters_are_refused_in_one_line(features, parameters, line):
    with pytest.raises(ValueError) as caught:
        SimilarityLogistic(**parameters).fit(np.eye(2, features), np.array([0, 1]))
    assert str(caught.value) == f"SimilarityLogistic: {line}"
