import numpy as np
import pytest

from tests.families import COLUMNS, feature_table
from training.comparisons.family import Examples
from training.estimators.catalogue import CATALOGUE, fail_probability, pipeline
from training.evaluation.thresholds import best_cut


@pytest.fixture(scope="module")
def examples():
    table = feature_table(rows=160)
    return Examples(
        table[list(COLUMNS)].to_numpy(),
        (table["status"] == "fail").to_numpy(np.int64),
        table["fold_group"].to_numpy(np.str_),
    )


@pytest.fixture(scope="module", params=list(CATALOGUE))
def judge(request, examples):
    model = CATALOGUE[request.param]
    fitted = pipeline(model, model.start, examples.y, 1).fit(examples.x, examples.y)
    return lambda rows: fail_probability(fitted, np.array(rows, np.float64))


def test_an_obvious_regression_fails_and_no_change_passes(judge):
    worse, same = judge([[-0.5, -0.5, 0, 0], [0, 0, 0, 0]])
    assert worse > 0.5 > same


def test_a_worse_median_never_makes_a_fail_less_likely(judge):
    changes = np.linspace(0.1, -0.6, 8)
    probability = judge([[change, change, 0, 0] for change in changes])
    assert (np.diff(probability) >= -0.15).all()
    assert probability[-1] > probability[0] + 0.5


def test_an_improvement_is_no_regression(judge):
    assert judge([[0.5, 0.5, 0, 0]])[0] < 0.5


def test_a_missing_feature_is_no_reason_to_change_an_obvious_verdict(judge):
    worse, same = judge([[-0.5, -0.5, 0, np.nan], [0, 0, 0, np.nan]])
    assert worse > 0.5 > same


def test_the_order_of_the_comparisons_does_not_matter(judge, examples):
    order = np.random.default_rng(0).permutation(len(examples.x))
    np.testing.assert_allclose(judge(examples.x)[order], judge(examples.x[order]), rtol=1e-6)


def test_the_threshold_does_not_depend_on_how_common_passes_are():
    generator = np.random.default_rng(3)
    fails, passes = generator.beta(6, 2, 200), generator.beta(2, 6, 200)
    few = best_cut(np.r_[np.ones(200, int), np.zeros(200, int)], np.r_[fails, passes])
    many = best_cut(np.r_[np.ones(200, int), np.zeros(2000, int)], np.r_[fails, np.tile(passes, 10)])
    assert many.threshold == pytest.approx(few.threshold)
