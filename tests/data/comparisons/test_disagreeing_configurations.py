"""What the labels say where some configurations of a comparison got worse and others better."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.comparisons import formats
from data.comparisons.params import LabelRules
from data.comparisons.tables import ComparisonTables

SHIPPED = Path(__file__).parents[3] / "data/raw/measured"


@pytest.fixture(scope="module")
def reference():
    """The most and the least slowed configuration of every comparison measured again, and its label."""
    slowdown = pd.read_parquet(SHIPPED / "reference.parquet").groupby("comparison_id")["slowdown"]
    table = pd.DataFrame({"worst": slowdown.max(), "best": slowdown.min()})
    labels = pd.read_parquet(SHIPPED / "labels.parquet").set_index("comparison_id")["status"]
    return table.assign(status=labels.reindex(table.index))


def test_the_worst_configuration_decides_however_much_others_got_better(reference):
    opposed = reference[(reference["worst"] >= 0.05) & (reference["best"] <= -0.05)].dropna()
    assert len(opposed) == 3
    assert (opposed["status"] == "fail").all()
    labelled = reference.dropna()
    assert ((labelled["status"] == "fail") == (labelled["worst"] >= 0.05)).all()


def test_the_truth_of_a_shipped_comparison_is_its_worst_configuration(reference):
    asked = pd.read_parquet(SHIPPED / "comparisons.parquet").set_index("comparison_id")
    assert np.allclose(asked["truth_slowdown"].reindex(reference.index), reference["worst"])


@pytest.mark.slow
def test_public_change_points_have_one_configuration_and_say_nothing_about_it(shared_data):
    source = shared_data / "sap-hana"
    if not source.is_dir():
        pytest.skip(f"SAP HANA's measurements are not there ({source})")
    rules = LabelRules()
    tables: ComparisonTables = formats.read("sap-hana", [source], label_rules=rules, keep_going=True).tables
    assert tables.results.groupby(["benchmark", "operation", "machine"])["threads"].nunique().max() == 1
