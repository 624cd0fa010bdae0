"""What the labels say where some configurations of a comparison got worse and others better."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SHIPPED = Path(__file__).parents[3] / "data/raw/measured"


@pytest.fixture(scope="module")
def reference():
    """The worst configuration of every comparison with a reference, and its label."""
    measured = pd.read_parquet(SHIPPED / "reference.parquet").groupby("comparison_id")
    labels = pd.read_parquet(SHIPPED / "labels.parquet").set_index("comparison_id")["status"]
    worst = measured[["slowdown", "low", "high"]].max()
    return worst.assign(status=labels.reindex(worst.index), configurations=measured.size())


def test_the_worst_configuration_decides_despite_better_ones(reference):
    assert (reference["configurations"] > 1).sum() > 20
    fails, passes = (reference[reference["status"] == status] for status in ("fail", "pass"))
    assert (fails["low"] >= 0.03).all()
    assert (passes["high"] <= 0.02).all()
    unlabelled = reference[reference["status"].isna()]
    assert ((unlabelled["low"] < 0.03) & (unlabelled["high"] > 0.02)).all()


def test_the_truth_of_a_shipped_comparison_is_its_worst_configuration(reference):
    asked = pd.read_parquet(SHIPPED / "comparisons.parquet").set_index("comparison_id")
    assert np.allclose(asked["truth_slowdown"].reindex(reference.index), reference["slowdown"])
