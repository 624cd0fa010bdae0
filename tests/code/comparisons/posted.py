"""Posted comparisons, and a model fitted to random ones that has examples."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from data.comparisons.posted import named_sides
from data.comparisons.request import read_request
from data.tables.files import write_json
from features.comparisons.vectors import feature_vectors, vector_columns
from serving.models import ModelRef, Served
from training.comparisons.base_rate import TrainingScores
from training.comparisons.family import FeatureTable
from training.comparisons.stored import Card, ReadyModel, TrainedModel
from training.comparisons.train import write_examples

FEATURES = vector_columns("extended")


def comparison(baseline, target, history=(), unit="ms", better="lower", name="c"):
    sides = {"baseline": [*map(float, baseline)], "target": [*map(float, target)]}
    one = {"threads": 1, **sides, "history": [[*map(float, build)] for build in history]}
    named = {"comparison_id": name, "operation": "o", "benchmark": "b", "unit": unit, "better": better}
    return named | {"configurations": [one]}


def posted(*comparisons):
    return named_sides(read_request(json.dumps({"comparisons": comparisons}).encode()).comparisons)


def drawn(rows, seed=0):
    """Draw comparisons with 20 earlier builds, noise of 0.2 to 2 % and, every third, 3 to 30 % slower."""
    rng = np.random.default_rng(seed)
    for row in range(rows):
        noise, factor = rng.uniform(0.2, 2), 1 + (row % 3 == 0) * rng.uniform(0.03, 0.3)
        values = rng.normal(100, noise, (22, 5))
        yield comparison(values[0], values[1] * factor, values[2:], name=f"c{row}")


def standardised(classifier):
    impute = SimpleImputer(keep_empty_features=True)
    return Pipeline([("impute", impute), ("scale", StandardScaler()), ("classify", classifier)])


def served_model(fitted, features, threshold=0.5):
    card = Card("m", features, threshold, {}, dict.fromkeys(features, 0.0), "0" * 64, 0)
    return Served(ReadyModel.from_trained(TrainedModel(fitted, card)), ModelRef("m", "7", "models:/m/7"))


def random_model(features):
    """Fit to random vectors of which every feature counts."""
    vectors = np.random.default_rng(3).normal(0, 1, (400, len(features)))
    fitted = standardised(LogisticRegression(C=0.01)).fit(vectors, vectors.sum(axis=1) < -3)
    return served_model(fitted, features)


def trained(directory, rows=150):
    """Fit on drawn comparisons, and leave examples beside the model."""
    x, failed = feature_vectors(posted(*drawn(rows)).sides), np.arange(rows) % 3 == 0
    ids, status = [f"c{row}" for row in range(rows)], np.where(failed, "fail", "pass")
    keys = {"comparison_id": ids, "operation": "o", "benchmark": "b", "status": status}
    groups = {"fold_group": [f"g{row % 10}" for row in range(rows)]}
    frame = pd.concat([pd.DataFrame(keys | groups), pd.DataFrame(x, columns=[*FEATURES])], axis=1)
    table = FeatureTable(frame, FEATURES, "0" * 64)
    card = Card("logistic", FEATURES, 0.5, {}, table.reference_medians(), "0" * 64, 0)
    model = TrainedModel(standardised(LogisticRegression()).fit(x, failed), card)
    when = pd.Timestamp("2026-11-20T09:00:00Z")
    people = pd.DataFrame({"comparison_id": ids, "status": status, "annotator": "anna", "labelled_at": when})
    people.to_parquet(directory / "labels.parquet")
    model.write(directory)
    write_examples(model, table, table.examples, directory / "labels.parquet", directory)
    return directory


def trained_with_scores(directory):
    """Fit as `trained`, and put scores of comparisons that the model was not fitted to into its card."""
    trained(directory)
    model, failed = ReadyModel.read(directory), np.arange(300) % 3 == 0
    probability = model.predict_uncleaned(posted(*drawn(300, seed=7)).sides)
    groups = (np.arange(300) // 3).astype(str)
    scores = TrainingScores.from_rows(probability, failed.astype(np.int64), groups, 0.005)
    write_json(directory / "card.json", asdict(replace(model.card, training_scores=scores)))
    return directory
