"""Reports that are written from LNT's documentation: LNT is not there."""

import pytest

from data.comparisons.formats import results_of_run
from tests.data.comparisons.formats.reading import SAMPLES, compared, run, written


def test_a_directory_of_reports_is_a_series_by_revision():
    assert compared(SAMPLES / "lnt") == [
        [f"{revision}/lnt/words/join {metric}/runner", before, before + 1]
        for metric in ("execution_time", "compile_time")
        for revision, before in ((402, 0), (403, 1))
    ]


def test_reports_of_one_revision_are_its_repetitions(tmp_path):
    for name, value in (("b", 2.0), ("a", 1.0)):
        run_ = {"llvm_project_revision": "7", "end_time": f"2026-11-2{int(value)}T00:00:00"}
        test = {"name": "t", "score": value}
        written(tmp_path / f"{name}.json", {"machine": {"name": "m"}, "run": run_, "tests": [test]})
    assert run(tmp_path, "lnt") == {("lnt", "t score", "m", 1, "unknown", "higher"): [1, 2]}


@pytest.mark.parametrize("revision", [7, "7", 2**63, "r7", 7.5])
def test_revisions_and_machines_are_named_as_they_are_written(tmp_path, revision):
    run_ = {"llvm_project_revision": revision, "end_time": 1_795_741_265}
    content = {"machine": {"name": revision}, "run": run_, "tests": [{"name": "t", "score": 2}]}
    results = results_of_run(written(tmp_path / "a.json", content))
    assert {*results["version"], *results["machine"]} == {str(revision)}


def test_format_1_appends_the_metric_to_the_name(tmp_path):
    data = {"nts.a/b.exec": [0.5, 0.75], "nts.a/b.exec.status": [1.0]}
    tests = [{"Name": name, "Data": values, "Info": {}} for name, values in data.items()]
    run_ = {"Start Time": "", "End Time": "2026-11-20 10:00:00", "Info": {"run_order": "400", "tag": "nts"}}
    path = written(tmp_path / "a.json", {"Machine": {"Name": "m", "Info": {}}, "Run": run_, "Tests": tests})
    assert run(path, "lnt") == {("lnt", "nts.a/b exec", "m", 1, "s", "lower"): [0.5, 0.75]}
