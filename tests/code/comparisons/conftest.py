"""Fixtures that several modules of comparisons use."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from features.comparisons.vectors import SEED_FEATURES
from serving.models import ModelRef, Served
from tests.code.comparisons.posted import served_model, standardised, trained_with_scores
from training.comparisons.stored import ReadyModel


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory):
    """Return the directory of a model that has examples and training scores; it is only read."""
    return trained_with_scores(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def explaining(model_directory):
    """Return that model."""
    return Served(ReadyModel.read(model_directory), ModelRef("m", "7", "models:/m/7"))


@pytest.fixture(scope="module")
def served():
    rng = np.random.default_rng(0)
    columns = rng.normal(0, 0.05, (200, len(SEED_FEATURES)))
    columns[:50, :3] -= 0.4
    fitted = standardised(LogisticRegression()).fit(columns, np.arange(200) < 50)
    return served_model(fitted, SEED_FEATURES)
