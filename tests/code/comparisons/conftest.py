"""Fixtures that several modules of comparisons use."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from features.comparisons.vectors import SEED_FEATURES
from tests.code.comparisons.posted import served_model, standardised


@pytest.fixture(scope="module")
def served():
    rng = np.random.default_rng(0)
    columns = rng.normal(0, 0.05, (200, len(SEED_FEATURES)))
    columns[:50, :3] -= 0.4
    fitted = standardised(LogisticRegression()).fit(columns, np.arange(200) < 50)
    return served_model(fitted, SEED_FEATURES)
