"""Our classifiers: tree-augmented naive Bayes (TAN) and the similarity logistic model."""

import re
import tracemalloc
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from training.estimators import similarity_logistic
from training.estimators.preparation import Labelled
from training.estimators.similarity_logistic import Curvature, Pairs, SimilarityLogistic, em_iteration
from training.estimators.tan import TAN, class_cuts, encode_levels, frequency_cuts


@parametrize_with_checks([TAN(), TAN("classes"), SimilarityLogistic(), SimilarityLogistic("direct")])
def test_classifiers_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


GOOD = [[0.0], [1.0]], [0, 1]
NAMED = pd.DataFrame({"io": [1.0, np.nan]})
ONE_CLASS = "TAN needs at least 2 classes, but the rows hold 1 class: 1"
PAIRS = np.eye(2), [0, 1]


@pytest.mark.parametrize(
    ("x", "y", "model", "line"),
    [
        ([[0.0], [np.nan]], [0, 1], TAN(), "TAN: row 1, feature 0 is NaN; expected a finite number"),
        ([[0.0], [-np.inf]], [0, 1], TAN(), "TAN: row 1, feature 0 is -inf; expected a finite number"),
        (NAMED, [0, 1], TAN(), 'TAN: row 1, feature "io" is NaN; expected a finite number'),
        ([[0.0], [1.0]], [1, 1], TAN(), ONE_CLASS),
        ([[0.0]], [1], TAN(), ONE_CLASS),
        (*GOOD, TAN(1), 'TAN: levels=1 is not "classes" or a whole number from 2 to 256'),
        (*GOOD, TAN("some"), "TAN: levels='some' is not \"classes\" or a whole number from 2 to 256"),
        (*GOOD, TAN(smoothing=0.0), "TAN: smoothing=0.0 is not above 0"),
        (*PAIRS, SimilarityLogistic("newton"),
         'SimilarityLogistic: solver=\'newton\' is neither "em" nor "direct"'),
        (*PAIRS, SimilarityLogistic(ridge=-1.0), "SimilarityLogistic: ridge=-1.0 is below 0"),
        (np.eye(2, 3), [0, 1], SimilarityLogistic(shared=0),
         "SimilarityLogistic: n_features = 3 less shared=0 cannot be divided into baseline and target"),
    ],
)  # fmt: skip
def test_unusable_data_and_parameters_are_refused_in_one_line(x, y, model, line):
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        model.fit(x, np.array(y))


def chained(rows, features, classes=2, seed=0):
    """Four levels; a feature repeats an earlier one, how often depends on the class."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, rows)
    x = random.integers(0, 4, (rows, features))
    for feature in range(1, features):
        repeats = random.random(rows) < 0.2 + 0.4 * (y == feature % classes)
        x[repeats, feature] = x[repeats, random.integers(feature)]
    return x.astype(float), y


def heaviest_tree(x, y):
    """Return the edges of the tree whose features tell most of each other, given the class."""
    told = np.zeros((x.shape[1], x.shape[1]))
    for a, b in combinations(range(len(told)), 2):
        told[a, b] = sum((y == c).mean() * mutual_info_score(x[y == c, a], x[y == c, b]) for c in set(y))
    return {frozenset(edge) for edge in zip(*minimum_spanning_tree(-told).nonzero(), strict=True)}


def probabilities_by_hand(model, x, y, asked, smoothing):
    result = np.empty((len(asked), len(np.unique(y))))
    for row, c in np.ndindex(result.shape):
        mine, values = x[y == c], asked[row]
        result[row, c] = len(mine) / len(x)
        for child, parent in enumerate(model.parents_):
            alike = mine if parent < 0 else mine[mine[:, parent] == values[parent]]
            count = (alike[:, child] == values[child]).sum()
            result[row, c] *= (count + smoothing) / (len(alike) + smoothing * 4)
    return result / result.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_tree_and_probabilities_match_the_definition_of_tan(classes):
    x, y = chained(600, 7, classes)
    model = TAN(4, smoothing=0.5).fit(x, y)
    parents = enumerate(model.parents_.tolist())
    assert {frozenset(edge) for edge in parents if edge[1] >= 0} == heaviest_tree(x, y)
    asked = chained(40, 7, classes, seed=1)[0]
    expected = probabilities_by_hand(model, x, y, asked, 0.5)
    np.testing.assert_allclose(model.predict_proba(asked), expected, rtol=1e-10)


@pytest.mark.slow
def test_the_tree_equals_those_of_pyagrum_and_pgmpy():
    pytest.importorskip("pyagrum", reason="pyagrum is in the dependency group benchmarks")
    pytest.importorskip("pgmpy", reason="pgmpy is in the dependency group benchmarks")
    from benchmarks.tan import draw_problem, run_perfjudge, run_pgmpy, run_pyagrum

    given = draw_problem(400, 12)
    assert run_perfjudge(given).edges == run_pyagrum(given).edges == run_pgmpy(given, 5).edges


def test_costs_shift_only_the_prior_log_odds():
    x, y = chained(300, 5)
    plain, dear = TAN(4).fit(x, y), TAN(4, class_weight={0: 1.0, 1: 10.0}).fit(x, y)
    odds = [np.diff(model.predict_log_proba(x), axis=1) for model in (plain, dear)]
    np.testing.assert_allclose(odds[1] - odds[0], np.log(10.0), rtol=1e-10)


def test_hundreds_of_features_do_not_underflow():
    x, y = np.random.default_rng(4).normal(size=(60, 400)), np.arange(60) % 2
    x[y == 1] += 3
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        found = TAN(3).fit(x, y).predict_proba(x)
    assert np.isfinite(found).all()
    assert (found.argmax(axis=1) == y).all()


def rows_of(column, y):
    return Labelled(np.asarray(column, float)[:, None], np.unique(y), np.asarray(y))


def test_only_features_with_many_values_share_levels():
    few = rows_of([0] * 6 + [1, 7], [0, 1] * 4)
    assert frequency_cuts(few, 3).tolist() == [[0.5, 4.0]]
    many = rows_of(range(8), [0, 1] * 4)
    assert frequency_cuts(many, 4).tolist() == [[1.5, 3.5, 5.5]]
    assert encode_levels(many.x, frequency_cuts(many, 4))[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_class_cuts_are_found_even_for_a_rare_class():
    column = np.linspace(0, 1, 5000)
    rare = ((column > 0.970) & (column < 0.985)).astype(int)
    cuts = class_cuts(rows_of(column, rare))
    assert np.allclose(cuts[0], [0.970, 0.985], atol=0.001)
    noise = np.random.default_rng(5).integers(0, 2, 5000)
    assert class_cuts(rows_of(column, noise)).shape == (1, 0)


def test_adjacent_floating_point_numbers_are_distinguished():
    low = 1e308
    high = np.nextafter(low, np.inf)
    rows = rows_of([low] * 20 + [high] * 20, [0] * 20 + [1] * 20)
    for cuts in (frequency_cuts(rows, 2), class_cuts(rows)):
        assert encode_levels(rows.x, cuts)[:, 0].tolist() == [0] * 20 + [1] * 20


def test_training_needs_less_memory_than_the_data():
    x, y = chained(20_000, 60)
    tracemalloc.start()
    TAN(4).fit(x, y).predict(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes


def test_a_constant_feature_does_not_change_probabilities():
    x, y = chained(300, 4)
    with_constant = np.column_stack([x, np.full(300, 7.0)])
    for levels in (3, "classes", 4):
        expected = TAN(levels).fit(x, y).predict_proba(x)
        found = TAN(levels).fit(with_constant, y).predict_proba(with_constant)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


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
    "more pairs than choose the start": drawn(5000, WEIGHTS, intercept=-1.0),
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


def test_one_em_iteration_equals_that_of_the_thesis(monkeypatch):
    monkeypatch.setattr(similarity_logistic, "PRECISE", 1e-12)
    x, y = drawn(400, np.array([1.5, -1.0, 0.5]))
    rows = np.vstack(np.hsplit(x, 2))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    weights = np.array([0.8, 0.1, -0.2, 0.3])
    p, q = np.split(1 / (1 + np.exp(-(rows @ weights[:3] + weights[3]))), 2)
    both, neither, first, second = p * q, (1 - p) * (1 - q), p * (1 - q), (1 - p) * q
    baseline = np.where(y == 1, first / (first + second), both / (both + neither))
    target = np.where(y == 1, second / (first + second), both / (both + neither))
    hidden, labels = np.concatenate([baseline, target]), np.repeat([1, 0], len(rows))
    expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(
        np.vstack([rows, rows]), labels, sample_weight=np.concatenate([hidden, 1 - hidden])
    )
    pairs = Pairs.from_sides(*np.split(rows, 2), y == 1, np.ones(len(y)), 1.0)
    scores = pairs.rows @ weights
    found, _ = em_iteration(pairs, weights, scores, Curvature(pairs, scores))
    np.testing.assert_allclose(found, [*expected.coef_[0], *expected.intercept_], atol=1e-3)
