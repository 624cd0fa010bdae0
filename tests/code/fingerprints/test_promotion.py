from pathlib import Path

import pandas as pd
import pytest

from data.fingerprints.params import Fingerprints
from data.params import validate_params
from training.fingerprints.prediction import summarise_entries
from training.fingerprints.stages import run_of

KNOBS = validate_params(Fingerprints, {"seed": 1, "fingerprints": {}}, Path("params.yaml"))


@pytest.fixture
def rows():
    """Predictions of four machines in two folds; those of the second are 10 % and 30 % too high."""
    return pd.DataFrame({
        "application": "a", "entry": "forest", "fold": [0, 0, 1, 1],
        "value": [1.0, 2.0, 1.0, 2.0], "predicted": [1.0, 2.0, 1.1, 2.6], "low": 0.5, "high": 3.0,
    })  # fmt: skip


def test_forecast_methods_are_logged_with_folds_and_a_chart(rows):
    metrics = {"tolerance": 0.2, "splits": {"grouped": {"entries": summarise_entries(rows, 0.2)}}}
    run = run_of("forest", metrics, rows, KNOBS)
    assert (run.metrics["mape"], run.metrics["within_tolerance"]) == (0.1, 0.75)
    assert run.metrics["grouped/mape_pooled"] == 0.1
    assert {one.name: one.metrics["mape"] for one in run.nested} == {
        "forest grouped f00": 0.0, "forest grouped f01": 0.2
    }  # fmt: skip
    assert list(run.figures()) == ["predicted-measured.png"]
