"""Runs of public data that are left out of training are judged through the command line."""

import json

import pandas as pd
import pytest

from data.matrices.tables import MatrixTables
from data.matrices.validity import decide
from serving.cli import run
from tests.commands import perfjudge
from training.matrices.engine.engine import FULL
from training.matrices.engine.stored import EngineRecipe
from training.matrices.fitting import MatrixExamples
from training.matrices.schemes import Cell

CAUSES = ("CPU Saturation", "I/O Saturation", "Network Congestion")
#: A word in the names of metrics that tell what was injected; with a saturated disk, much else moves, too.
WORDS = {"CPU Saturation": "cpu", "Network Congestion": "network"}
LAST = "* 10"


def trained(directory, model):
    tables = MatrixTables.read(directory)
    examples = MatrixExamples.of(tables, decide(tables, 0.5), "ab" * 32)
    recipe = EngineRecipe(Cell("logistic", FULL), 2, 1, examples.flagged, 0.5, examples.digest)
    recipe.train(examples.tables).write(model)
    return model


def imported(kind, source, output, *chosen):
    assert run(["import", kind, str(source), "-o", str(output), *chosen]) == 0
    return output


def verdicts(source, model):
    done = perfjudge("judge", source, "--model", model, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return {one["pair_id"]: one for one in json.loads(done.stdout)["verdicts"]}


def status(tables):
    targets = tables.runs[tables.runs["side"] == "target"]
    return targets.groupby("pair_id")["abnormal"].any()


@pytest.fixture(scope="module")
def dbsherlock(shared_data, tmp_path_factory):
    """A part of DBSherlock's runs, what of it is left out, and a model that has learned from the rest."""
    whole = shared_data / "dbsherlock/tpcc_16w.parquet"
    if not whole.is_file():
        pytest.skip(f"DBSherlock's runs are not there ({whole})")
    directory = tmp_path_factory.mktemp("dbsherlock")
    part = directory / "part/tpcc_16w.parquet"
    part.parent.mkdir()
    seconds = pd.read_parquet(whole)
    seconds[seconds["cause"].isin(CAUSES)].to_parquet(part)
    learned = imported("dbsherlock", part, directory / "learned", "--without", LAST)
    unseen = imported("dbsherlock", part, directory / "unseen", "--only", LAST)
    return part, unseen, trained(learned, directory / "model")


def test_what_is_left_out_is_all_that_is_left(dbsherlock):
    _, unseen, _ = dbsherlock
    left = (unseen, unseen.parent / "learned")
    both = [MatrixTables.read(directory).runs["workload"] for directory in left]
    assert [names.nunique() for names in both] == [len(CAUSES), 10 * len(CAUSES)]
    assert not set(both[0]) & set(both[1])
    assert both[0].str.endswith(" 10").all()


def test_faulty_stretches_of_runs_left_out_fail_with_their_cause_and_normal_ones_pass(
    dbsherlock,
):
    _, unseen, model = dbsherlock
    found, abnormal = verdicts(unseen, model), status(MatrixTables.read(unseen))
    # the first seconds after a fault are called normal, and one stretch of them is doubted by every model
    alarms = [pair for pair, one in found.items() if one["verdict"] == "fail" and not abnormal[pair]]
    assert len(alarms) <= 1, alarms
    for cause in CAUSES:
        own = {pair: one for pair, one in found.items() if cause in pair}
        failed = [one for pair, one in own.items() if abnormal[pair]]
        passed = [one for pair, one in own.items() if not abnormal[pair]]
        assert (len(failed) >= 5, len(passed) >= 2) == (True, True)
        assert {one["verdict"] for one in failed} == {"fail"}, cause
        word = WORDS.get(cause, "")
        named = [any(word in driver["metric"].lower() for driver in one["drivers"]) for one in failed]
        # with a congested network, latencies and interrupts come before what was sent
        assert sum(named) >= len(named) / 2, cause


def test_one_run_is_judged_as_it_comes(dbsherlock, tmp_path):
    part, _, model = dbsherlock
    path = tmp_path / part.name
    seconds = pd.read_parquet(part)
    seconds[(seconds["cause"] == "CPU Saturation") & (seconds["run"] == 10)].to_parquet(path)
    found = verdicts(path, model)
    assert {one["workload"] for one in found.values()} == {"tpcc_16w CPU Saturation 10"}
    assert {one["verdict"] for one in found.values()} == {"fail", "pass"}
    assert verdicts(tmp_path, model) == found


def test_issues_of_petshop_that_are_left_out_fail_and_rows_without_an_issue_pass(shared_data, tmp_path):
    source = shared_data / "petshop"
    if not source.is_dir():
        pytest.skip(f"PetShop's metrics are not there ({source})")
    patterns = ("* issue_1?", "* noissue 1?")
    without = [word for pattern in patterns for word in ("--without", pattern)]
    only = [word for pattern in patterns for word in ("--only", pattern)]
    model = trained(imported("petshop", source, tmp_path / "learned", *without), tmp_path / "model")
    unseen = imported("petshop", source, tmp_path / "unseen", *only)
    found, abnormal = verdicts(unseen, model), status(MatrixTables.read(unseen))
    for truth, wanted in ((True, "fail"), (False, "pass")):
        told = [one["verdict"] for pair, one in found.items() if abnormal[pair] == truth]
        assert len(told) > 10
        assert told.count(wanted) >= 0.9 * len(told)


def test_choosing_workloads_of_another_family_is_refused(tmp_path, capsys):
    path = tmp_path / "machines.csv"
    path.write_text("machine,cpu\nm1,1\nm2,2\n")
    assert run(["import", "tables", str(path), "-o", str(tmp_path / "out"), "--only", "x"]) == 2
    assert capsys.readouterr().err == (f"perfjudge: {path}: holds fingerprints, which --only is not for\n")
