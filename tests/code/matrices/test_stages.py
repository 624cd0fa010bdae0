import pandas as pd
import pytest
import yaml

from data.matrices.tables import MatrixTables
from tests.code.stages import run
from tests.data.matrices.rows import pair, small
from tests.data.matrices.rows import run as one


@pytest.fixture
def project(tmp_path):
    """Make a directory with a params.yaml that names tables of matrices."""

    def make(tables, keep_going=False):
        tables.write(tmp_path / "in")
        params = {"seed": 1, "matrices": {"ingest": {"path": "in", "keep_going": keep_going}}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
        return tmp_path

    return make


def test_the_stages_write_tables_and_decisions_and_say_what_they_left_out(project):
    known = [{"metric": "faults", "unit": "1/s", "signed": False}]
    directory = project(small(one("sort 1", "target", 1, faults=-2.0), metrics=known))
    ingested = run(directory, "data.ingest", "matrices")
    assert (ingested.stderr, ingested.stdout) == (
        "", "12 runs of 2 workloads in 2 groups, 2 pairs, 2 raw and 2 summary metrics\n",
    )  # fmt: skip
    validated = run(directory, "data.validate", "matrices")
    assert validated.stdout == "3 of 4 metrics, 11 of 12 runs, 2 of 2 pairs are kept\n"
    assert validated.stderr == (
        'left out metric "summary_transactions": has the same value 30 in all runs\n'
        'left out run_id "sort 1 target 1": faults=-2 must be 0 or more\n'
    )
    valid = pd.read_parquet(directory / "data/valid/matrices/valid.parquet")
    assert valid["kept"].sum() == 11
    assert (directory / "data/interim/matrices/causes.parquet").exists()


def test_a_pair_that_differs_in_two_fields_ends_with_2_or_is_dropped_when_told_to_keep_going(project):
    other = [row | {"machine": "n"} for row in pair("sort 1") if row["side"] == "target"]
    told = 'pair "sort 1": baseline and target differ in version, machine; expected one field to compare by\n'
    refused = run(project(small(*other)), "data.ingest", "matrices")
    assert (refused.returncode, refused.stderr) == (2, told)
    directory = project(small(*other), keep_going=True)
    kept = run(directory, "data.ingest", "matrices")
    assert (kept.returncode, kept.stderr) == (0, f"1 skipped\n  {told}")
    assert MatrixTables.read(directory / "data/interim/matrices").runs["pair_id"].unique() == ["pipe 1"]


def test_a_file_that_is_no_table_is_refused_and_nothing_is_written(project):
    directory = project(small())
    (directory / "in/matrices.parquet").write_text("no Parquet")
    refused = run(directory, "data.ingest", "matrices")
    assert refused.returncode == 2
    assert refused.stderr.startswith("in/matrices.parquet: is not a readable Parquet file")
    assert refused.stderr.count("\n") == 1
    assert not (directory / "data/interim").exists()
