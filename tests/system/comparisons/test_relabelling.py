"""The loop: judge, correct the labels in the XML that was written, and train on it."""

import json
from pathlib import Path

import pandas as pd
import yaml

from data.comparisons.stages import ingest_stage, validate_stage
from features.comparisons.featurize import featurize_stage
from features.comparisons.vectors import columns
from serving.cli import run
from tests.families import params
from tests.system.conftest import comparison
from training.comparisons.family import Family
from training.comparisons.train import train
from training.comparisons.tune import tune

TARGETS = {"slower": 80.0, "same": 100.0, "faster": 125.0}


def asked():
    """Six operations on two machines, each of them slower, the same and faster."""
    return [
        comparison(f"{operation} {machine} {name}", target, operation=operation, machine=machine)
        for name, target in TARGETS.items()
        for machine in ("m1", "m2")
        for operation in "abcdef"
    ]


def test_corrected_labels_in_the_xml_that_judge_wrote_are_what_the_next_model_learns(
    tmp_path, monkeypatch, model_directory, capsys
):
    monkeypatch.chdir(tmp_path)
    zero = comparison("none", configurations=[{"threads": 1, "baseline": [0.0, 0.0], "target": [1.0, 1.0]}])
    Path("asked.json").write_text(json.dumps({"comparisons": [*asked(), zero]}))
    judging = ("judge", "asked.json", "--format", "xml", "-o", "judged.xml", "--model", str(model_directory))
    assert run([*judging]) == 0
    text = Path("judged.xml").read_text()
    assert [text.count(f'result_status="{status}"') for status in ("pass", "fail", "invalid")] == [24, 12, 1]

    lines = [
        line.replace('"pass"', '"fail"') if " faster" in line else line.replace('"fail"', '"pass"')
        for line in text.splitlines()
    ]
    Path("corrected.xml").write_text("\n".join(lines))
    section = {
        "ingest": {"format": "comparison-xml", "path": "corrected.xml", "keep_going": True},
        "tune": {"models": []},
    }
    Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "comparisons": section}))
    ingest_stage()
    validate_stage()
    featurize_stage()
    assert "37 comparisons, 36 labels\n36 of 37 are valid, 36 labelled" in capsys.readouterr().out

    # the floor would keep improvements from ever being asked about, and from being learned from
    bound = params(models=("logistic",), trials=3, decide={"floor": None})
    family = Family(bound, lambda: columns("seed"), pd.DataFrame, tmp_path)
    tune(family)
    train(family)
    asking = ("--json", "--floor", "none", "--model", "models/comparisons/logistic")
    assert run(["judge", "corrected.xml", *asking]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    told = {one["comparison_id"]: one["verdict"] for one in verdicts}
    assert told == {
        one["comparison_id"]: "fail" if "faster" in one["comparison_id"] else "pass" for one in asked()
    } | {"none": "invalid"}
