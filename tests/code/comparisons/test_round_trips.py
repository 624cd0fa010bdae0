"""What is both written and read keeps verdict and probability: comparison XML, and tables."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from data.comparisons import formats
from data.comparisons.formats.comparison_json import tables_of as of_json
from data.comparisons.formats.comparison_status import with_status
from data.comparisons.formats.comparison_xml import tables_of
from data.comparisons.importing import import_tables
from data.comparisons.tables import OPERATION, ComparisonTables
from data.tables.problems import Problems
from features.comparisons.vectors import columns
from serving.comparisons.judge import judge
from serving.comparisons.xml.report import as_xml
from serving.models import ModelRef, Served
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card, TrainedModel

FEATURES = columns("retrospective")


@pytest.fixture(scope="module")
def served():
    """A model that looks at every feature."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(0, 1, (400, len(FEATURES)))
    steps = [
        ("impute", SimpleImputer()),
        ("scale", StandardScaler()),
        ("classify", LogisticRegression(C=0.01)),
    ]
    pipeline = Pipeline(steps).fit(vectors, vectors.sum(axis=1) < -3)
    card = Card("logistic", FEATURES, 0.5, {}, dict.fromkeys(FEATURES, 0.0), "0" * 64, 0)
    return Served(ReadyModel.of(TrainedModel(pipeline, card)), ModelRef("m", "7", "models:/m/7"))


VALUES = st.one_of(st.floats(0.5, 2.0), st.floats(0, 1e12), st.sampled_from([0.0, 5e-324, 1e300]))
SAMPLES = st.lists(VALUES, max_size=6)
SUMMARIES = st.lists(VALUES, min_size=5, max_size=5).map(
    lambda five: dict(zip(("min", "q1", "median", "q3", "max"), sorted(five), strict=True))
)
SIDES = st.one_of(SAMPLES, SAMPLES, SUMMARIES)
NAMES = st.one_of(st.sampled_from(["x", "y"]), st.text(min_size=1).filter(lambda text: bool(text.strip())))
CONFIGURATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "threads": st.integers(1, 9),
            "baseline": SIDES,
            "target": SIDES,
            "history": st.lists(SIDES, max_size=9),
            "later": st.lists(SIDES, max_size=4),
        }
    ),
    max_size=3,
    unique_by=lambda configuration: configuration["threads"],
)
COMPARISONS = st.lists(
    st.fixed_dictionaries(
        {
            "comparison_id": NAMES, "benchmark": NAMES, "operation": NAMES, "machine": NAMES, "unit": NAMES,
            "better": st.sampled_from(["lower", "higher"]), "configurations": CONFIGURATIONS,
        }
    ),
    min_size=1, max_size=3, unique_by=lambda comparison: comparison["comparison_id"],
)  # fmt: skip


def widened(tables, baseline, target):
    """Let both sides take in neighbouring versions, as sources with several versions a side have them."""
    comparisons = tables.comparisons.copy()
    comparisons["baseline_from"] = (comparisons["baseline_to"] - baseline).clip(lower=0)
    results = tables.results.copy()
    ends = results[OPERATION].merge(comparisons, on=OPERATION)["target_to"]
    results.loc[results["order"] > ends, "order"] += target
    own = tables.results["order"] == ends
    results.loc[own, "order"] += np.arange(own.sum()) % (target + 1)
    comparisons[["target_to", "later_to"]] += target
    return ComparisonTables(results, comparisons, tables.labels)


def answers(tables, served):
    """The verdict and the probability of every comparison, in an order that no format changes."""
    verdicts = judge(tables, served).verdicts
    return sorted(
        (one.verdict, -1 if one.probability is None else round(one.probability, 12)) for one in verdicts
    )


def through_tables(tables, directory):
    tables.write(directory)
    return ComparisonTables.read(directory)


def through_import(content, directory):
    (directory / "r.json").write_text(json.dumps(content))
    # what cannot be judged is counted, and imported all the same
    import_tables("comparison-json", [directory / "r.json"], directory, keep_going=True)
    import_tables("tables", [directory], directory / "again", keep_going=True)
    return formats.read("tables", [directory / "again"], keep_going=True).tables


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COMPARISONS, st.integers(0, 2), st.integers(0, 2))
def test_any_comparison_keeps_verdict_and_probability_through_every_format(
    served, comparisons, baseline, target
):
    content = {"comparisons": comparisons}
    tables = of_json(content)
    with tempfile.TemporaryDirectory() as name:
        assert answers(through_import(content, Path(name)), served) == answers(tables, served)
        tables = widened(tables, baseline, target)
        expected = answers(tables, served)
        assert answers(through_tables(tables, Path(name)), served) == expected
    problems = Problems()
    written = as_xml(judge(tables, served), tables)
    read = tables_of(written, problems=problems)
    assert answers(read, served) == expected
    again = with_status(written, judge(read, served).statuses)
    assert again == written
    assert answers(tables_of(as_xml(judge(read, served), read)), served) == expected
    assert problems.notes == []
