"""Fixtures that several modules of comparisons use."""

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from features.comparisons.vectors import SEED_FEATURES
from serving.models import ModelRef, Served
from training.comparisons.stored import Card, ReadyModel, TrainedModel


@pytest.fixture(scope="module")
def served():
    rng = np.random.default_rng(0)
    columns = rng.normal(0, 0.05, (200, len(SEED_FEATURES)))
    columns[:50, :3] -= 0.4
    steps = [("impute", SimpleImputer()), ("scale", StandardScaler()), ("classify", LogisticRegression())]
    pipeline = Pipeline(steps)
    pipeline.fit(columns, np.arange(200) < 50)
    card = Card("logistic", SEED_FEATURES, 0.5, {}, dict.fromkeys(SEED_FEATURES, 0.0), "0" * 64, 0)
    return Served(ReadyModel.from_trained(TrainedModel(pipeline, card)), ModelRef("m", "7", "models:/m/7"))
