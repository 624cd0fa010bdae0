"""Files of benchmark tools on the command line."""

import json

import pytest

from data.comparisons.tables import ComparisonTables
from serving.cli import run
from tests.data.comparisons.formats.reading import SAMPLES


@pytest.mark.parametrize("name", ["pytest-benchmark", "google-benchmark", "jmh", "hyperfine"])
def test_two_files_of_a_tool_become_tables_with_a_comparison_per_operation(tmp_path, capsys, name):
    paths = [str(SAMPLES / name / f"{side}.json") for side in ("base", "new")]
    assert run(["import", name, *paths, "-o", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    tables = ComparisonTables.read(tmp_path)
    assert told["comparisons"] == len(tables.comparisons) == tables.results["operation"].nunique()
    assert (tables.comparisons[["baseline_to", "target_from"]].to_numpy() == [0, 1]).all()


def test_one_run_alone_is_refused_and_the_way_on_is_told(tmp_path, capsys):
    path = SAMPLES / "jmh/base.json"
    assert run(["import", "jmh", str(path), "-o", str(tmp_path / "tables")]) == 2
    told = "is one version (jmh); two are needed, the older one first, or `perfjudge compare`, which also"
    told += " compares two operations of one file"
    assert capsys.readouterr().err == f"perfjudge: {path}: {told}\n"
    assert not (tmp_path / "tables/results.parquet").exists()


def test_a_series_is_imported_piece_by_piece_like_all_at_once(tmp_path, monkeypatch):
    from data.comparisons import stages

    source = [SAMPLES / "lnt"]
    stages.import_tables("lnt", source, tmp_path / "whole")
    monkeypatch.setattr(stages, "CHUNK_ROWS", 1)
    stages.import_tables("lnt", source, tmp_path / "pieces")
    whole, pieces = (ComparisonTables.read(tmp_path / name) for name in ("whole", "pieces"))
    assert pieces.results.equals(whole.results)
    assert pieces.comparisons.equals(whole.comparisons)
