"""The stages ingest and validate of every family: what they write, print and refuse."""

import io
import json
import re
import runpy
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest
import yaml

from data import stage as stage_module
from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables.problems import skipped_summary
from serving.experiments.retraining import requested_stages
from tests.data.corun.rows import beside, solo
from tests.data.corun.rows import small as coruns
from tests.data.matrices.rows import pair
from tests.data.matrices.rows import run as matrix_run
from tests.data.matrices.rows import small as matrices
from training import evaluate

FIGURE = (Path(__file__).parents[1] / "data/comparisons/figures/figure_6_1.xml").read_text()
CSV = """machine,cpu_model,cpu,nop,null,vm,zlog
m1,Xeon,10,5,1,,20
m2,Opteron,11,6,1,,19
m3,Core,12,8,1,3,15
"""
FILES = {"comparisons": ("comparison-xml", "in.xml"), "fingerprints": ("tables", "in.csv")}


def run(directory, module, *arguments):
    """Run ``python -m module`` in this process: importing pandas anew takes longer than stages do."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(directory)
        patch.setattr(sys, "argv", [module, *arguments])
        for changes_this_process in ("keep_bytecode", "pin_arithmetic"):
            patch.setattr(stage_module, changes_this_process, lambda: None)
        # runpy warns of a module that something has imported already
        patch.delitem(sys.modules, module, raising=False)
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def project(directory, family, source, *, keep_going=False):
    """Write a source of a family, and a params.yaml that names it; return the directory."""
    kind, name = FILES.get(family, ("tables", "in"))
    if isinstance(source, str):
        (directory / name).write_text(source)
    else:
        source.write(directory / name)
    section = {"ingest": {"format": kind, "path": name, "keep_going": keep_going}}
    if family == "comparisons":
        section["tune"] = {"models": []}
    (directory / "params.yaml").write_text(yaml.safe_dump({"seed": 1, family: section}))
    return directory


#: Of each family: a source with something to leave out, and what both stages print.
KEPT = {
    "comparisons": (
        FIGURE,
        ("1 comparisons, 1 labels\n", ("note: in.xml does not say which values are better; higher is assumed"
                                       " (the attribute better, or --better, says otherwise)\n")),
        ("1 of 1 are valid, 1 labelled\n", ""), "valid",
    ),
    "corun": (
        coruns(pairs=[beside("copy", "lost"), beside("pipe", "sort", 2.0, 2)]),
        ("1 machines, 3 tasks, 2 events, 3 solo runs, 11 co-runs, 6 samples\n", ""),
        (
            "2 of 2 events, 3 of 3 solo runs, 10 of 11 co-runs, 2 of 2 sampled runs are kept\n",
            ("warning: in 1 of 10 measurements, a task was faster beside others than alone, by more than"
             " 3.0%; they are kept."
            ' The largest difference is that of "pipe" with "sort" on "m": 0.50 of its solo time\n'
            'excluded task "copy", corunners "lost", machine "m", repetition "1":'
            ' the co-runner "lost" has no solo run on this machine to learn from\n'),
        ),
        "kept",
    ),
    "fingerprints": (
        CSV,
        ("3 machines, 10 rates, 1 applications\n", ""),
        (
            ("3 of 3 machines, 3 of 3 runs, 2 of 4 stressors, 1 of 1 applications are kept,"
            " 0 gaps left to the model\n"),
            ('excluded stressor "null", threads "1": has the same rate on all machines\n'
            'excluded stressor "vm", threads "1": has a rate in 1 of 3 runs, on 1 of 3 machines\n'),
        ),
        "kept",
    ),
    "matrices": (
        matrices(
            matrix_run("sort 1", "target", 1, faults=-2.0),
            metrics=[{"metric": "faults", "unit": "1/s", "signed": False}],
        ),
        ("12 runs of 2 workloads in 2 groups, 2 pairs, 2 raw and 2 summary metrics\n", ""),
        (
            "3 of 4 metrics, 11 of 12 runs, 2 of 2 pairs are kept\n",
            ('excluded metric "summary_transactions": has the same value 30 in all runs\n'
            'excluded run_id "sort 1 target 1": faults=-2 must be 0 or more\n'),
        ),
        "kept",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("family", "split"), [("comparisons", "grouped"), ("matrices", "test-cases")])
def test_an_evaluation_ends_with_the_table_of_its_scores(tmp_path, monkeypatch, capsys, family, split):
    metrics = Path(f"reports/{family}/metrics.json").read_text()
    path = tmp_path / f"reports/{family}/metrics.json"
    path.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    evaluate._evaluate_and_print(lambda: path.write_text(metrics), family)
    printed = capsys.readouterr().out
    for name, entry in json.loads(metrics)["splits"][split]["entries"].items():
        (row,) = (line for line in printed.splitlines() if line.startswith(f"│ {name} "))
        assert f"{entry['balanced_accuracy']['pooled']:.3f}" in row


@pytest.mark.parametrize("family", KEPT)
def test_stages_write_decisions_and_print_exclusions(tmp_path, family):
    source, ingested, validated, column = KEPT[family]
    project(tmp_path, family, source)
    for stage, printed in (("data.ingest", ingested), ("data.validate", validated)):
        done = run(tmp_path, stage, family)
        assert (done.returncode, done.stdout, done.stderr) == (0, *printed)
    decisions = pd.concat(map(pd.read_parquet, (tmp_path / f"data/valid/{family}").glob("valid*.parquet")))
    assert decisions[column].astype(bool).sum() > 0


#: Of each family: a source with one flaw, and the beginning of the line that names it.
FLAWED = {
    "comparisons": (FIGURE.replace('"7456.5"', '"many"'),
                    'in.xml:5 operation "bt_C_x" base_result: median="many" is not a number'),
    "corun": (coruns([solo("copy", 0.0, 2)]),
              'machine "m" task "copy" repetition 2: solo_seconds=0 must be above 0 and finite'),
    "fingerprints": (CSV.replace("m3,Core,12", "m3,Core,0"),
                     'machine "m3" stressor "cpu" threads 1 repetition 1: bogo_ops_per_second=0 must be'),
    "matrices": (matrices(*(row | {"machine": "n"} for row in pair("sort 1") if row["side"] == "target")),
                 'pair "sort 1": baseline and target differ in version, machine; expected one field'),
}  # fmt: skip


@pytest.mark.parametrize("family", FLAWED)
def test_a_flaw_ends_ingest_or_is_skipped(tmp_path, family):
    source, line = FLAWED[family]
    refused = run(project(tmp_path, family, source), "data.ingest", family)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith(line)
    assert not (tmp_path / "data").exists()
    kept = run(project(tmp_path, family, source, keep_going=True), "data.ingest", family)
    assert kept.returncode == 0
    assert kept.stderr.startswith(f"1 skipped\n  {refused.stderr}")


def test_featurize_removes_extra_training_data_of_an_earlier_run(tmp_path):
    project(tmp_path, "comparisons", FIGURE)
    start = tmp_path / "data/processed/comparisons/start.parquet"
    start.parent.mkdir(parents=True)
    start.write_bytes(b"of an earlier run")
    for module in ("data.ingest", "data.validate", "features.featurize"):
        assert run(tmp_path, module, "comparisons").returncode == 0
    assert (start.exists(), start.with_name("features.parquet").exists()) == (False, True)


def test_sources_with_too_little_data_write_no_tables(tmp_path):
    project(tmp_path, "corun", CorunTables.from_rows([solo("copy")], []))
    refused = run(tmp_path, "data.ingest", "corun")
    assert (refused.returncode, refused.stderr) == (2, "in: holds no pair\n")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("module", "family"), [("data.ingest", "weather"), ("training.train", "fingerprints")]
)
def test_a_stage_refuses_a_family_without_that_stage(tmp_path, module, family):
    done = run(tmp_path, module, family)
    assert done.returncode == 2
    assert f"invalid choice: '{family}' (choose from 'comparisons', " in done.stderr


def test_only_the_first_of_many_skipped_are_named():
    told = skipped_summary(tuple(InputError(f"problem {number}") for number in range(7))).splitlines()
    assert told == ["7 skipped", *(f"  problem {number}" for number in range(5)), "  ... and 2 more"]


def test_a_stage_of_dvc_records_its_duration(tmp_path, monkeypatch):
    families = []
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_STAGE", "demo@corun")
    monkeypatch.setattr("sys.argv", ["demo", "corun"])
    for changes_this_process in ("prepare_process", "alone"):
        monkeypatch.setattr(stage_module, changes_this_process, nullcontext)
    stage_module.run_stage("demo", lambda family: lambda: families.append(family))
    assert families == ["corun"]
    assert 0 <= float((tmp_path / stage_module.DURATIONS / "demo@corun").read_text()) < 60


OUTPUTS = {
    "promote@corun": [],
    "tune@corun": ["models/tuned/corun"],
    "tune@comparisons": ["models/tuned/comparisons"],
    "plots": ["reports/plots"],
}


@pytest.mark.parametrize(
    ("target", "stages"),
    [
        ("tune@corun", ["tune@corun"]),
        ("corun", ["promote@corun", "tune@corun"]),
        ("tune", ["tune@corun", "tune@comparisons"]),
        ("plots", ["plots"]),
        ("models/tuned/corun", ["tune@corun"]),
    ],
)
def test_retraining_takes_stages_families_and_outputs(target, stages):
    assert [*requested_stages([target], OUTPUTS)] == stages
    assert [*requested_stages(["plots", target], OUTPUTS)] == ["plots", *stages]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("tune@corum", 'is unknown; did you mean "tune@corun"?'),
        ("comparison", 'is unknown; did you mean "comparisons"?'),
        ("zzz", "is unknown; there are promote@corun, tune@corun, tune@comparisons, plots, compari"),
    ],
)
def test_an_unknown_stage_to_retrain_names_the_known_ones(target, told):
    with pytest.raises(InputError, match=f'^stage "{target}" {re.escape(told)}'):
        [*requested_stages([target], OUTPUTS)]
