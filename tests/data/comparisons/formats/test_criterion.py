"""Files that are written from the documentation of criterion.rs and cargo-criterion: neither is there."""

import json

from data.comparisons.formats import read_tables
from tests.data.comparisons.formats.reading import refusal, run, written

HEADER = "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\n"
KEY = ("unknown", 1, "ns", "lower")


def test_a_sample_is_the_time_of_one_iteration(tmp_path):
    text = f"{HEADER}words,join,8,,,100,ns,10\nwords,join,8,,,240,ns,20\nwords,,,,,9,ns,3\n"
    assert run(written(tmp_path / "raw.csv", text), "criterion") == {
        ("criterion", "words/join/8", *KEY): [10, 12],
        ("criterion", "words", *KEY): [3],
    }


def test_messages_of_cargo_criterion_are_found_in_other_output(tmp_path):
    measured = {"iteration_count": [2, 4], "measured_values": [8.0, 20.0], "unit": "ns"}
    message = json.dumps({"reason": "benchmark-complete", "id": "w/j", **measured})
    text = f'{message}\n   Compiling words\n{{"reason":"group-complete","group_name":"w"}}\n'
    assert run(written(tmp_path / "a.jsonl", text), "criterion") == {("criterion", "w/j", *KEY): [4, 5]}


def test_only_the_new_run_of_a_directory_is_read(tmp_path):
    for age, value in (("new", 5), ("base", 7)):
        written(tmp_path / f"words/join/{age}/raw.csv", f"{HEADER}words,join,,,,{value},ns,1\n")
        sample = {"sampling_mode": "Flat", "iters": [2.0], "times": [value]}
        written(tmp_path / f"words/split/{age}/sample.json", sample)
        written(tmp_path / f"words/split/{age}/benchmark.json", {"full_id": "words/split"})
    assert run(tmp_path, "criterion") == {
        ("criterion", "words/join", *KEY): [5],
        ("criterion", "words/split", *KEY): [2.5],
    }


def versions_of(*paths):
    results = read_tables("criterion", [*paths]).tables.results
    return results.groupby(["version", "operation"])["value"].apply(list).to_dict()


def test_each_directory_or_table_is_a_version_with_all_dots_of_its_name(tmp_path):
    table, directories = HEADER + 2 * "words,join,,,,5,ns,1\n", []
    for name in ("v1.2", "v1.3"):
        directories.append(written(tmp_path / "runs" / name / "words/join/new/raw.csv", table).parents[3])
        written(tmp_path / f"tables/{name}.csv", table)
    for paths in (directories, [tmp_path / "tables"]):
        assert versions_of(*paths) == {(name, "words/join"): [5, 5] for name in ("v1.2", "v1.3")}


def test_each_run_below_a_directory_is_a_version(tmp_path):
    for at, run_directory in enumerate(("1/target/criterion", "2")):
        new = tmp_path / run_directory / "words/join/new"
        written(new / "sample.json", {"iters": [2.0, 2.0], "times": [4 + at, 6]})
        written(new / "benchmark.json", {"full_id": "words/join"})
        written(tmp_path / run_directory / "words/new/raw.csv", HEADER + 2 * f"words,,,,,{at + 5},ns,1\n")
    assert versions_of(tmp_path) == {
        ("1/target/criterion", "words/join"): [2, 3],
        ("1/target/criterion", "words"): [5, 5],
        ("2", "words/join"): [2.5, 3],
        ("2", "words"): [6, 6],
    }


def test_samples_with_zero_iterations_are_refused(tmp_path):
    path = written(tmp_path / "raw.csv", f"{HEADER}words,join,,,,100,ns,0\n")
    assert refusal(path) == 'raw.csv:2: iteration_count="0" is not a number above 0'
