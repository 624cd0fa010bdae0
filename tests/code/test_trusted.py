import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from training.comparisons.stored import Card, TrainedModel
from training.estimators.similarity_logistic import SimilarityLogistic
from training.estimators.tan import TAN


@pytest.mark.parametrize(
    "estimator", [TAN(), TAN(4, class_weight={"a": 1.0, "b": 9.0}), SimilarityLogistic()]
)
def test_a_stored_estimator_of_ours_answers_as_before(estimator, tmp_path):
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.normal(size=(200, 6)), columns=list("abcdef"))
    y = np.where(x["a"] + random.normal(size=200) > 0, "a", "b")
    fitted = make_pipeline(StandardScaler(), estimator).fit(x, y)
    TrainedModel(fitted, Card("m", tuple(x.columns), 0.5, {}, dict.fromkeys(x.columns, 0.0), "d", 0)).write(
        tmp_path
    )
    read = TrainedModel.read(tmp_path).model
    np.testing.assert_array_equal(read.predict_proba(x), fitted.predict_proba(x))
    assert read[-1].get_params() == estimator.get_params()
