"""Data that is written from Perfherder's schema: Treeherder is not there."""

import json

from tests.data.comparisons.formats.reading import compared, run, written

SUBTESTS = [
    {"name": "join", "value": 2.0, "replicates": [1.0, 2.0, 3.0], "unit": "ms"},
    {"name": "score", "value": 7.0, "lowerIsBetter": False},
]
SUITE = {"name": "words", "extraOptions": ["e10s"], "subtests": SUBTESTS}
DATA = {"framework": {"name": "talos"}, "suites": [SUITE]}


def test_replicates_are_read_from_json_and_logs(tmp_path):
    expected = {
        ("words e10s", "join", "unknown", 1, "ms", "lower"): [1, 2, 3],
        ("words e10s", "score", "unknown", 1, "unknown", "higher"): [7],
    }
    assert run(written(tmp_path / "a.json", DATA), "perfherder") == expected
    text = json.dumps(DATA | {"suites": [SUITE | {"value": float("nan")}]})
    for lines in (1, 1000):
        log = "[task] 10:00 built\n" * lines + f'[task] 10:01 5" PERFHERDER_DATA: {text}\n[task] done\n'
        assert run(written(tmp_path / "a.log", log), "perfherder") == expected


def test_suites_and_subtests_without_values_are_skipped_with_notes(tmp_path):
    bare = {"name": "hover", "replicates": []}
    empty = [{"name": "load"}, {"name": "paint", "subtests": [*SUBTESTS, bare]}]
    path, notes = written(tmp_path / "a.json", DATA | {"suites": empty}), []
    assert [name for _, name, *_ in run(path, "perfherder", notes)] == ["join", "score"]
    assert notes[-2:] == [
        f"{path}: suites[0] (load) is left out: it has no values",
        f"{path}: suites[1].subtests[2] (hover) is left out: it has no values",
    ]


def test_a_series_of_treeherder_is_compared_push_by_push(tmp_path):
    points = [
        {"value": value, "push_timestamp": f"2026-11-2{day}T10:00:00", "revision": f"{day}abc"}
        for day, value in ((2, 5.0), (1, 4.0), (2, 5.5), (1, 4.5))
    ]
    about = {"suite": "words", "test": "join", "lower_is_better": True, "measurement_unit": "ms"}
    assert compared(written(tmp_path / "a.json", [about | {"data": points}])) == [["2abc/words/join", 0, 1]]
