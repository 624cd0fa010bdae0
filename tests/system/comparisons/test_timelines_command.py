import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import html

from benchmarks.timelines import RULES, DrawnResults
from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import choose_runs
from data.tables.problems import Problems
from serving.cli import run_command
from serving.comparisons.model import load_judge
from serving.comparisons.timelines.assembled import TimelineJudge, assemble_report
from serving.comparisons.timelines.generate import choose_judge
from tests.code.comparisons.posted import trained_with_scores

#: Operation 0 loses a tenth at version 15, operation 1 creeps.
DRAWN = DrawnResults(versions=30, operations=4, threads=(2, 8))
FAIL = 3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("timelines")
    DRAWN.write(root / "results")
    (root / "rules.xml").write_text(RULES)
    return root


@pytest.fixture(scope="module")
def scored_directory(tmp_path_factory):
    return trained_with_scores(tmp_path_factory.mktemp("model"))


@pytest.fixture
def made(root, capsys):
    """Return what makes pages, by default of the drawn results: the exit code, and the answer or error."""

    def call(*options, rules=root / "rules.xml", results=root / "results"):
        status = run_command(["timelines", *map(str, (rules, results, *options)), "--json"])
        told = capsys.readouterr()
        return status, json.loads(told.out) if told.out else told.err

    return call


def report(root, judge, n_versions=None):
    """Return the report of results, at most of some versions, with the verdicts of a judge."""
    read = read_folder(root / "results", Measure(better="higher"))
    (one,) = choose_runs(read.runs, rules.read_rule_sets(root / "rules.xml")[0])
    chosen = replace(one, versions=one.versions[:n_versions])
    return assemble_report(chosen, root / "results", "results", judge, problems=Problems())


@pytest.fixture
def judge(model_directory):
    return choose_judge(str(model_directory), None)


def test_versions_fail_from_the_start_of_a_drop(root, judge):
    found = report(root, judge)
    lost, crept, *steady = found.operations
    assert np.flatnonzero(lost.against_baseline == FAIL).tolist() == list(range(15, 30))
    assert np.flatnonzero(lost.against_before == FAIL).tolist() == [15]
    assert "worse" in " ".join(lost.words[15]) or "less" in " ".join(lost.words[15])
    assert lost.changes[0].kind == "drop"
    assert abs(lost.changes[0].first - 15) <= 1
    assert crept.changes[0].kind == "creep"
    assert all(one.changes == () for one in steady)
    assert (found.baseline, lost.against_baseline[0], np.isnan(lost.probability[0])) == (0, 0, True)


def test_all_versions_pass_below_the_minimum_effect_size(root, model_directory, monkeypatch):
    loaded = load_judge(str(model_directory), min_effect_size=0.9)
    monkeypatch.setattr("serving.comparisons.model.load_judge", lambda _: loaded)
    choose_judge.cache_clear()
    found = report(root, choose_judge(str(model_directory), None))
    choose_judge.cache_clear()
    assert not any((one.against_baseline == FAIL).any() for one in found.operations)
    assert all((one.probability[1:] == 0).all() for one in found.operations)


def report_of_levels(root, judge, levels, noise=0.0):
    """Return the report of operations with these levels, a version each; lower is better."""
    (root / "results").mkdir()
    (root / "rules.xml").write_text(RULES)
    names, rng = (
        {"benchmark": "b", "machine": "m", "unit": "count", "better": "lower"},
        np.random.default_rng(1),
    )
    for at in range(len(next(iter(levels.values())))):
        samples = {name: values[at] * (1 + noise * rng.standard_normal(5)) for name, values in levels.items()}
        results = [
            {**names, "operation": name, "configurations": [{"samples": values.tolist()}]}
            for name, values in samples.items()
        ]
        (root / f"results/kernel-5.0.{at}.json").write_text(json.dumps({"results": results}))
    return report(root, judge)


def test_a_note_names_what_rises_from_zero(tmp_path):
    levels = {"time": [7, 7, 7], "none": [0, 0, 0], "leaks": [0, 0, 5], "fixed": [5, 0, 0]}
    found = report_of_levels(tmp_path, TimelineJudge(None, ""), levels)
    assert found.notes[-1] == "0 at the baseline, above 0 later, and not compared with it: leaks"


@pytest.mark.parametrize(("later", "at_baseline"), [(3, 1), (5, 1), (20, 1), (20, 2)])
def test_a_baseline_that_all_later_versions_differ_from_keeps_its_level(later, at_baseline, judge, tmp_path):
    states = {"worse 2": 2.0, "worse 1.18": 1.18, "unchanged": 1.0, "better": 0.8}
    levels = {name: [100.0] * at_baseline + [100.0 * by] * later for name, by in states.items()}
    for one in report_of_levels(tmp_path, judge, levels, noise=0.005).operations:
        assert one.state.status == one.operation.split()[0]
        assert one.state.change.change == pytest.approx(1 - states[one.operation], abs=0.02)
        assert one.state.change.since == (None if one.operation == "unchanged" else at_baseline)


def test_a_server_gives_the_verdicts_of_its_model(root, judge, listening):
    reports = (report(root, one).operations for one in (judge, choose_judge(None, listening.url)))
    for mine, its in zip(*reports, strict=True):
        assert mine.against_baseline.tolist() == its.against_baseline.tolist()
        assert mine.against_before.tolist() == its.against_before.tolist()
        assert mine.words.keys() == its.words.keys()


def test_every_machine_and_rule_set_has_a_listed_page(root, model_directory, tmp_path, made):
    shutil.copytree(root / "results", tmp_path / "results/one")
    for path in shutil.copytree(root / "results", tmp_path / "results/two").rglob("*.xml"):
        path.write_text(path.read_text().replace('"m1"', '"&lt;m> 2"'))
    both = RULES.replace("</timelines>", RULES.partition("<timelines>")[2])
    (tmp_path / "rules.xml").write_text(both)
    options = ("-o", tmp_path / "out", "--model", model_directory, "--jobs", 2)
    status, told = made(*options, rules=tmp_path / "rules.xml", results=tmp_path / "results")
    files = ["kernels-m-2.html", "kernels-m1.html", "kernels-m-2-2.html", "kernels-m1-2.html"]
    assert (status, [one["file"] for one in told["reports"]]) == (0, files)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*files, "index.html"])
    assert all(one["n_worse"] for one in told["reports"])
    listed = html.parse(tmp_path / "out/index.html")
    assert sorted(listed.xpath("//th/a/@href")) == sorted(f"./{name}" for name in files)


def test_without_a_champion_the_page_has_no_marks(tmp_path, made, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    choose_judge.cache_clear()
    status, told = made("-o", tmp_path / "out")
    choose_judge.cache_clear()
    assert status == 0
    assert any(note.startswith("versions are not judged: ") for note in told["notes"])
    (listed,) = told["reports"]
    assert (listed["n_failed"], listed["n_changed"], listed["n_versions"]) == (0, 2, 30)
    states = [one["state"]["status"] for one in listed["operations"]]
    assert states == ["worse", "worse", "unchanged", "unchanged"]


@pytest.mark.parametrize(
    ("options", "inputs", "told"),
    [
        ([], {"rules": "bad.xml"}, 'bad.xml:1 rules "bad": has no <baseline>'),
        ([], {"results": "none"}, "none: "),
        (["--server", "here"], {}, "'here' is not an address; expected http://HOST:PORT"),
        (["--server", "http://nowhere.invalid"], {}, "http://nowhere.invalid does not"),
        (["--server", "http://127.0.0.1:1"], {}, "expected the package perfjudge-client"),
    ],
)
def test_bad_input_and_servers_give_one_line_and_no_page(tmp_path, made, monkeypatch, options, inputs, told):
    monkeypatch.chdir(tmp_path)
    Path("bad.xml").write_text("<rules/>")
    if "package" in told:
        monkeypatch.setitem(sys.modules, "perfjudge_client", None)
    status, said = made("-o", "out", *options, **inputs)
    assert (status, said.count("\n"), told in said) == (2, 1, True), said
    assert not Path("out").exists()


def test_mpstat_samples_of_a_result_give_a_heat_map(root, tmp_path, judge):
    if shutil.which("mpstat") is None:
        pytest.skip("needs mpstat (the package sysstat)")
    copy = shutil.copytree(root, tmp_path / "copy")
    told = subprocess.run(["mpstat", "-P", "ALL", "-o", "JSON", "1", "1"], check=True, capture_output=True)
    (copy / "results/0003/result.mpstat.json").write_bytes(told.stdout)
    (heat,) = report(copy, judge).heats
    assert (heat.version, heat.unit, heat.source) == (3, "%", "results/0003/result.mpstat.json")
    values = np.array(heat.values)
    assert values.shape == (len(heat.rows), 1)
    assert (values >= 0).all()


def test_verdicts_are_corrected_for_the_estimated_base_rate(tmp_path, scored_directory, made):
    DrawnResults(versions=60, operations=10, threads=(2,)).write(tmp_path / "results")
    options = ("-o", tmp_path / "pages", "--model", scored_directory, "--better", "higher")
    status, told = made(*options, "--base-rate", "estimate", results=tmp_path / "results")
    assert status == 0
    found = re.findall("comparisons with (.*): an estimated (.*?) %", "\n".join(told["notes"]))
    rates = {side: float(rate) for side, rate in found}
    # a step between versions is rare; a regression that stays is seen by all later versions
    assert rates["the versions before"] < 3 < rates["the baseline"]
    assert made(*options, "--base-rate", "2", "--server", "http://127.0.0.1:1")[0] == 2


def test_short_timelines_are_not_corrected_and_say_so(root, scored_directory):
    found = report(root, choose_judge(str(scored_directory), None, "estimate"), n_versions=8)
    assert any("not corrected: base_rate: an estimate needs" in note for note in found.notes)
