"""What is both written and read keeps verdict and probability: comparison XML, and tables."""

import json
import tempfile
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from data.comparisons import formats
from data.comparisons.formats.comparison_json import tables_of as of_json
from data.comparisons.formats.comparison_xml import tables_of, with_status
from data.comparisons.sides import Sides
from data.comparisons.stages import import_tables
from data.comparisons.tables import FIVE_NUMBERS, OPERATION, ComparisonTables
from data.tables.problems import Problems
from features.comparisons.history import siblings_worse
from features.comparisons.vectors import model_columns
from serving.comparisons.endpoints import answer_json, answer_xml
from serving.comparisons.judge import judge_tables
from serving.comparisons.xml.report import as_xml, write_comparisons
from tests.code.comparisons.posted import random_model
from tests.comparison_rows import compared, result


@pytest.fixture(scope="module")
def served():
    return random_model(model_columns("retrospective"))


VALUES = st.one_of(st.floats(0.5, 2.0), st.floats(0, 1e12), st.sampled_from([0.0, 5e-324, 1e300]))
SAMPLES = st.lists(VALUES, max_size=6)
FIVE = st.lists(VALUES, min_size=5, max_size=5)
SUMMARIES = FIVE.map(lambda five: dict(zip(FIVE_NUMBERS, sorted(five), strict=True)))
VERSIONS = st.one_of(SAMPLES, SAMPLES, SUMMARIES)
SIDES = st.one_of(SAMPLES, SAMPLES, SUMMARIES, st.lists(SAMPLES, max_size=4))
NAMES = st.one_of(st.sampled_from(["x", "y"]), st.text(min_size=1).filter(lambda text: bool(text.strip())))
LISTS = {"history": st.lists(VERSIONS, max_size=9), "later": st.lists(VERSIONS, max_size=4)}
CONFIGURATION = {"threads": st.integers(1, 9), "baseline": SIDES, "target": SIDES, **LISTS}
CONFIGURATIONS = st.lists(st.fixed_dictionaries(CONFIGURATION), max_size=3, unique_by=itemgetter("threads"))
NAMED = dict.fromkeys(("comparison_id", "benchmark", "operation", "machine", "unit"), NAMES)
COMPARISON = {**NAMED, "better": st.sampled_from(["lower", "higher"]), "configurations": CONFIGURATIONS}
COMPARISONS = st.lists(
    st.fixed_dictionaries(COMPARISON), min_size=1, max_size=3, unique_by=itemgetter("comparison_id")
)


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
    found = judge_tables(tables, served).verdicts
    return sorted((one.verdict, -1 if (p := one.probability) is None else round(p, 12)) for one in found)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(COMPARISONS, st.integers(0, 2), st.integers(0, 2))
def test_any_comparison_keeps_its_verdict_through_every_format(served, comparisons, baseline, target):
    content = {"comparisons": comparisons}
    tables = of_json(content)
    with tempfile.TemporaryDirectory() as name:
        source, imported = Path(name, "r.json"), Path(name, "imported")
        source.write_text(json.dumps(content))
        # what cannot be judged is counted, and imported all the same
        import_tables("comparison-json", [source], imported, keep_going=True)
        assert answers(ComparisonTables.read(imported), served) == answers(tables, served)
        tables = widened(tables, baseline, target)
        expected = answers(tables, served)
        tables.write(imported)
        read = formats.read_tables("tables", [imported], keep_going=True).tables
        assert answers(read, served) == expected
    problems = Problems()
    written = as_xml(judge_tables(tables, served), tables)
    read = tables_of(written, problems=problems)
    judgement = judge_tables(read, served)
    assert answers(read, served) == expected
    assert with_status(written, judgement.verdict_by_id) == written
    assert answers(tables_of(as_xml(judgement, read)), served) == expected
    assert problems.notes == []


@st.composite
def run_tables(draw):
    """Results of a benchmark with named versions; targets of several versions, so that siblings count."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    operations, n_versions = draw(st.integers(6, 8)), draw(st.integers(9, 14))
    falls = rng.integers(5, n_versions, operations) if draw(st.booleans()) else np.full(operations, 6)
    better = draw(st.sampled_from(["lower", "higher"]))
    rows = [
        result(f"o{operation}", order, float(value), series_id=f"o{operation}/{threads}", better=better,
               threads=threads, version=f"v{order}")
        for operation in range(operations)
        for threads in (1, 4)
        for order in range(n_versions)
        for value in rng.normal(1.1 if order >= falls[operation] else 1.0, 0.01, 3)
    ]  # fmt: skip
    asked = []
    for number in range(draw(st.integers(1, 12))):
        cut = int(rng.integers(1, n_versions))
        last, later = sorted(rng.integers(cut, n_versions, 2).tolist())
        operation, first = f"o{rng.integers(operations)}", max(cut - int(rng.integers(1, 4)), 0)
        asked.append(compared(f"c{number}", operation, (first, cut - 1), (cut, last), later_to=later))
    return ComparisonTables.from_rows(rows, asked, [])


def request_of(tables):
    sides, worse = Sides.from_tables(tables), siblings_worse(Sides.from_tables(tables)).tolist()
    known = tables.results.drop_duplicates(OPERATION).set_index(OPERATION)[["unit", "better"]]

    def side(samples, five, at):
        versions = [values.tolist() for _, values in samples.iterate_versions(at)]
        return versions or dict(zip(FIVE_NUMBERS, five[at].tolist(), strict=True))

    comparisons = []
    for row, one in enumerate(tables.comparisons[["comparison_id", *OPERATION]].to_dict("records")):
        configurations = [
            {
                "threads": int(sides.threads[at]),
                "baseline": side(sides.baseline, sides.baseline_five, at),
                "target": side(sides.target, sides.target_five, at),
                "history": [values.tolist() for _, values in sides.history.iterate_versions(at)],
                "later": [values.tolist() for _, values in sides.later.iterate_versions(at)],
            }
            for at in np.flatnonzero(sides.comparison == row)
        ]
        about = known.loc[tuple(one[name] for name in OPERATION)].to_dict()
        stated = {} if np.isnan(worse[row]) else {"siblings_worse": worse[row]}
        comparisons.append({**one, **about, **stated, "configurations": configurations})
    return {"comparisons": comparisons}


def told(judgement):
    return {one.comparison_id: (one.verdict, one.probability) for one in judgement.verdicts}


def told_in(document):
    found = {}
    for one in etree.fromstring(document).iter("comparison_result"):
        probability = one.find("verdict").get("probability")
        told = one.get("result_status"), None if probability is None else float(probability)
        found[one.get("comparison_id")] = told
    return found


def of_every_format(tables, served, directory):
    """Yield what is said of the comparisons of tables in each format that can hold them."""
    unlabelled = write_comparisons(tables, [""] * len(tables.comparisons))
    body = json.dumps(request_of(tables)).encode()
    (directory / "x.xml").write_bytes(as_xml(judge_tables(tables, served), tables))
    (directory / "unlabelled.xml").write_bytes(unlabelled)
    (directory / "j.json").write_bytes(body)
    tables.write(directory / "tables")
    for kind, name in (
        ("comparison-xml", "x.xml"),
        ("comparison-xml", "unlabelled.xml"),
        ("comparison-json", "j.json"),
        ("tables", "tables"),
    ):
        read = formats.read_tables(kind, [directory / name], keep_going=True).tables
        yield name, told(judge_tables(read, served))
        import_tables(kind, [directory / name], directory / f"of {name}", keep_going=True)
        yield f"tables of {name}", told(judge_tables(ComparisonTables.read(directory / f"of {name}"), served))
        written = as_xml(judge_tables(read, served), read)
        yield f"XML of {name}", told(judge_tables(tables_of(written), served))
        yield f"JSON of {name}", told(answer_json(json.dumps(request_of(read)).encode(), served).judged)
    yield "XML over HTTP", told_in(answer_xml(unlabelled, served).content)
    answered = json.loads(answer_json(body, served).content)["verdicts"]
    yield "JSON over HTTP", {one["comparison_id"]: (one["verdict"], one["probability"]) for one in answered}


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(run_tables())
def test_run_results_get_the_same_verdict_in_every_format(served, tables):
    expected = told(judge_tables(tables, served))
    with tempfile.TemporaryDirectory() as name:
        for way, found in of_every_format(tables, served, Path(name)):
            assert found == expected, way


def test_document_orders_are_not_used_as_version_names():
    """Versions that are counted anew in each comparison have nothing to do with those of others."""
    sides = {"baseline": [[1.0, 2.0]] * 6, "target": [[2.0, 3.0]] * 3}
    one = {"better": "lower", "configurations": [sides]}
    many = [one | {"comparison_id": f"c{at}", "operation": f"o{at}"} for at in range(9)]
    assert np.isnan(siblings_worse(Sides.from_tables(of_json({"comparisons": many})))).all()
