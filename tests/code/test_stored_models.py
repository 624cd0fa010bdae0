import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from training.registry.stored import StoredCard, loaded, store

CLASSIFIERS = {
    "logistic": LogisticRegression,
    "decision tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "xgboost": lambda: XGBClassifier(n_estimators=5),
}


@pytest.fixture
def rows():
    x = np.random.default_rng(0).normal(size=(200, 4))
    return x, (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)


@pytest.mark.parametrize("build", CLASSIFIERS.values(), ids=list(CLASSIFIERS))
def test_equal_models_are_stored_as_equal_bytes(build, rows, tmp_path):
    files = []
    for attempt in "ab":
        # arrays that are freed leave other bytes in the padding of nodes, and other addresses
        del [np.full(5_000, ord(attempt), np.uint8) for _ in range(500)][:]
        files.append(store(tmp_path / attempt, build().fit(*rows), StoredCard()))
    assert files[0].read_bytes() == files[1].read_bytes()
    expected = build().fit(*rows).predict_proba(rows[0])
    assert np.array_equal(loaded(tmp_path / "a").predict_proba(rows[0]), expected)
