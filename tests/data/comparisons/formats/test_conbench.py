"""Results that are written from Conbench's documentation: Conbench is not there."""

from tests.data.comparisons.formats.reading import SAMPLES, compared, run, written


def result(unit, data, **tags):
    about = {"run_id": "r", "timestamp": "2026-11-20T10:00:00Z", "tags": {"name": "join", **tags}}
    return about | {"stats": {"data": data, "unit": unit}}


def test_commits_are_versions_and_tags_are_parameters():
    assert compared(SAMPLES / "conbench/results.json") == [
        [f"{commit}/words/join[words=20000]/runner", before, before + 1]
        for before, commit in enumerate(("b2c3d4e5f6", "c3d4e5f607"))
    ]


def test_a_page_of_the_api_with_rates_is_read(tmp_path):
    page = {"data": [result("i/s", [1.0, None, "3.0"], cpu=2)], "metadata": {"next_page_cursor": None}}
    assert run(written(tmp_path / "page.json", page), "conbench") == {
        ("conbench", "join[cpu=2]", "unknown", 1, "items/s", "higher"): [1, 3]
    }


def test_a_failed_result_is_skipped_with_a_note(tmp_path):
    failed = result("s", []) | {"stats": None, "error": {"trace": "..."}}
    path, notes = written(tmp_path / "a.json", [result("s", [2.0]), failed]), []
    assert run(path, "conbench", notes) == {("conbench", "join", "unknown", 1, "s", "lower"): [2]}
    assert notes == [f"{path}: results[1] (join) is left out: it has no values"]
    assert run(written(tmp_path / "one.json", result("s", [2.0])), "conbench") == run(path)
