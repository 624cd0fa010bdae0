"""A directory of results that asv itself writes here."""

import json
import os
import shutil
import sys
from pathlib import Path

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from tests.data.comparisons.formats.reading import SAMPLES, compared, expect_summaries, ran, run, written

SUITE = """
class Words:
    params, param_names = [[10, 20]], ["n"]
    rounds, repeat, number, warmup_time = 1, 3, 5, 0.0
    def time_sum(self, n):
        sum(range(n))

def track_words():
    return 42
track_words.unit = "words"
"""
CONFIG = {
    "version": 1, "project": "p", "repo": ".", "branches": ["HEAD"], "environment_type": "existing",
    "pythons": ["same"], "benchmark_dir": "benchmarks",
}  # fmt: skip


def test_recorded_samples_of_a_real_run_are_kept_by_parameters(tmp_path):
    written(tmp_path / "benchmarks/__init__.py", "")
    written(tmp_path / "benchmarks/words.py", SUITE)
    written(tmp_path / "asv.conf.json", CONFIG)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    ran(*git, "init", "-q", ".", cwd=tmp_path)
    ran(*git, "add", "-A", cwd=tmp_path)
    ran(*git, "commit", "-qm", "all", cwd=tmp_path)
    commit = ran(*git, "rev-parse", "HEAD", cwd=tmp_path).strip()
    asv = str(Path(sys.executable).parent / "asv")
    home = {"cwd": tmp_path, "env": dict(os.environ, HOME=str(tmp_path))}
    ran(asv, "machine", "--yes", **home)
    ran(asv, "run", "--python=same", f"--set-commit-hash={commit}", "--record-samples", **home)
    results = results_of_run(tmp_path / "results", kind="asv")
    found = {key: len(one) for key, one in results.groupby(["operation", "unit", "better"])}
    assert found == {
        ("words.Words.time_sum[n=10]", "s", "lower"): 3,
        ("words.Words.time_sum[n=20]", "s", "lower"): 3,
        ("words.track_words", "words", "lower"): 1,
    }
    assert set(results["version"]) == {commit[:10]}
    assert formats.recognise_format(tmp_path / "results") == "asv"


def test_commits_of_results_are_ordered_by_date_in_any_directory(tmp_path):
    found = [key for key, *_ in compared(SAMPLES / "asv/results")]
    files = [*(SAMPLES / "asv/results/runner").glob("*-*.json")]
    newest = max(map(json.loads, map(Path.read_text, files)), key=lambda content: content["date"])
    assert (len(found), {key.partition("/")[0] for key in found}) == (4, {newest["commit_hash"][:10]})
    # without benchmarks.json, parameters have no names
    unnamed = [key.replace("[kind=", "[1=") for key in found]
    for others in ([], ["machine.json"]):
        for name in (*others, *(file.name for file in files)):
            shutil.copy(SAMPLES / "asv/results/runner" / name, tmp_path)
        assert [key for key, *_ in compared(tmp_path)] == unnamed


def test_without_recorded_samples_the_median_and_quartiles_are_a_summary(tmp_path):
    source = next((SAMPLES / "asv/results/runner").glob("*-*.json"))
    content = json.loads(source.read_text())
    at = content["result_columns"].index("samples")
    for row in content["results"].values():
        del row[at:]
    path = written(tmp_path / "r/m/c0ffee-env.json", content)
    assert {key[1] for key in expect_summaries(path, "asv", "median", "q1", "q3")} == {
        f"words.Words.time_{name}[1='{kind}']" for name in ("join", "split") for kind in ("plain", "sorted")
    }


def test_failed_and_skipped_benchmarks_are_ignored(tmp_path):
    content = {
        "commit_hash": "c0ffee", "result_columns": ["result", "params"], "params": {"machine": "m"},
        "results": {"time_a": [[None, float("nan"), 0.5], [["1", "2", "3"]]], "time_b": [None]}, "version": 2,
    }  # fmt: skip
    path = written(tmp_path / "a.json", content)
    assert run(path, "asv") == {("asv", "time_a[1=3]", "m", 1, "s", "lower"): [0.5]}
