import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from data.comparisons.labels.consensus import consensus
from data.comparisons.stages import validate
from data.comparisons.tables import LABEL_DTYPES, ComparisonTables
from data.errors import InputError
from data.tables.problems import told
from data.tables.specs import typed
from tests.code.stages import run

FIGURES = Path(__file__).parents[2] / "data/comparisons/figures"
ASSUMED = (
    "note: r.xml does not say which values are better; higher is assumed "
    "(the attribute better, or --better, says otherwise)\n"
)


def process(directory, module, *arguments):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.fixture
def project(tmp_path):
    """Make a directory with a params.yaml that names a copy of figure 6.1."""

    def make(content=None, keep_going=False):
        text = content or (FIGURES / "figure_6_1.xml").read_text()
        (tmp_path / "r.xml").write_text(text)
        section = {
            "ingest": {"format": "comparison-xml", "path": "r.xml", "keep_going": keep_going},
            "tune": {"models": []},
        }
        (tmp_path / "params.yaml").write_text(yaml.safe_dump({"seed": 1, "comparisons": section}))
        return tmp_path

    return make


def test_ingest_and_validate_write_their_tables(project):
    directory = project()
    ingested = process(directory, "data.ingest", "comparisons")
    assert (ingested.stdout, ingested.stderr, ingested.returncode) == (
        "1 comparisons, 1 labels\n",
        ASSUMED,
        0,
    )
    validated = process(directory, "data.validate", "comparisons")
    assert (validated.stdout, validated.returncode) == ("1 of 1 are valid, 1 labelled\n", 0)
    valid = pd.read_parquet(directory / "data/valid/comparisons/valid.parquet")
    assert valid.to_dict("records") == [
        {"comparison_id": "r/NASParallel/bt_C_x", "valid": True, "reason": "", "status": "pass"}
    ]


def test_bad_input_is_one_line_and_exit_2_and_nothing_is_written(project):
    figure = (FIGURES / "figure_6_1.xml").read_text()
    directory = project(figure.replace('"7456.5"', '"many"'))
    done = run(directory, "data.ingest", "comparisons")
    assert done.returncode == 2
    assert done.stderr == 'r.xml:5 operation "bt_C_x" base_result: median="many" is not a number\n'
    assert not (directory / "data").exists()


def test_keep_going_says_what_it_skipped_and_validate_says_why(project):
    figure = (FIGURES / "figure_6_1.xml").read_text()
    directory = project(figure.replace('"7456.5"', '"0"'), keep_going=True)
    done = run(directory, "data.ingest", "comparisons")
    assert done.returncode == 0
    assert done.stderr == (
        '1 skipped\n  r.xml:2 operation "bt_C_x": '
        f"threads 4: the baseline holds a value that is not above 0: 0\n{ASSUMED}"
    )
    assert run(directory, "data.validate", "comparisons").stdout == "0 of 1 are valid, 1 labelled\n"
    valid = pd.read_parquet(directory / "data/valid/comparisons/valid.parquet")
    assert valid["reason"].tolist() == ["threads 4: the baseline holds a value that is not above 0: 0"]


def test_an_unknown_family_is_refused(project):
    done = run(project(), "data.ingest", "weather")
    assert done.returncode == 2
    assert "invalid choice: 'weather'" in done.stderr


def test_only_the_first_of_many_skipped_are_told():
    skipped = tuple(InputError(f"problem {number}") for number in range(7))
    assert told(skipped).splitlines() == [
        "7 skipped",
        *(f"  problem {number}" for number in range(5)),
        "  ... and 2 more",
    ]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [(["pass"], "pass"), (["fail", "pass", "fail"], "fail"), (["pass", "fail"], None)],
)
def test_the_label_of_several_people_is_that_of_most(statuses, expected):
    labels = typed(
        pd.DataFrame([{"comparison_id": "a", "status": status} for status in statuses]), LABEL_DTYPES
    )
    status = consensus(labels, "majority")["a"]
    assert status == expected if expected else pd.isna(status)


def test_no_labels_at_all_leave_the_status_missing():
    results = [
        {"series_id": "x", "group": "g", "benchmark": "b", "operation": "x", "machine": "m", "unit": "s",
         "better": "lower", "threads": 1, "order": order, "value": value}
        for order in (0, 1) for value in (1.0, 2.0)
    ]  # fmt: skip
    comparison = {
        "comparison_id": "a", "benchmark": "b", "operation": "x", "machine": "m", "baseline_from": 0,
        "baseline_to": 0, "target_from": 1, "target_to": 1,
    }  # fmt: skip
    valid = validate(ComparisonTables.of_rows(results, [comparison], [])).comparisons
    assert valid["valid"].tolist() == [True]
    assert valid["status"].isna().tolist() == [True]
    assert valid["status"].dtype == "str"
