import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from serving.model import load
from tests.families import feature_table, small_family
from tests.system.serving import free_port, wait_for
from training import frozen
from training.comparisons_contest import Outs, track
from training.evaluate import evaluate
from training.promote import promote
from training.ready import ReadyModel
from training.registry import CHALLENGER, CHAMPION, located, refresh, version_of
from training.tracking import client, mlflow
from training.train import train
from training.tune import tune

NAME = "regression-comparison"
pytestmark = [
    # all three are inside MLflow 3.17 and may go with it: how it loads its tables, compares columns with a
    # range, and looks at its own functions' type hints
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]


def run_pipeline(family):
    for stage in (tune, train, evaluate):
        stage(family)
    return family


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run_pipeline(small_family(tmp_path_factory.mktemp("project")))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return tmp_path / "mlflow.db"


@pytest.fixture
def worse(tmp_path):
    """The same comparisons, but labels of the candidate's training say nothing about the vectors."""
    table = feature_table()
    blind = table.assign(medians_min=np.nan, medians_med=np.nan)
    family = run_pipeline(small_family(tmp_path / "worse", table=blind))
    table.to_parquet(family.features, index=False)
    return family


def test_two_runs_write_the_same_metrics_whatever_the_number_of_processes(trained, tmp_path):
    again = run_pipeline(small_family(tmp_path, jobs=2))
    for name in ("metrics.json", "oof.parquet", "curves.parquet"):
        assert (again.reports / name).read_bytes() == (trained.reports / name).read_bytes()


def test_the_rule_and_the_models_stand_in_both_splits(trained):
    metrics = json.loads((trained.reports / "metrics.json").read_text())
    for split in ("grouped", "stratified"):
        entries = metrics["splits"][split]["entries"]
        assert {name: entry["kind"] for name, entry in entries.items()} == {
            "knn-uniform": "model", "logistic": "model", "median-5": "rule"
        }  # fmt: skip
        assert entries["median-5"]["average_precision"]["pooled"] is None
        assert entries["logistic"]["balanced_accuracy"]["pooled"] > 0.9
    curves = pd.read_parquet(trained.reports / "curves.parquet")
    assert curves.groupby("curve")["parameter"].max().to_dict() == {
        "knn-uniform": 30, "knn-distance": 30, "random-forest": 100, "extra-trees": 100
    }  # fmt: skip


@pytest.mark.slow
def test_the_first_model_is_champion_then_stands_and_a_lost_store_is_filled_again(
    trained, store, capsys, monkeypatch
):
    with pytest.raises(
        InputError, match=r'no champion of "regression-comparison" in .*; make one with: dvc repro'
    ):
        load_champion(NAME)
    promote(trained)
    assert "v1" in capsys.readouterr().out
    champion = load_champion(NAME)
    assert (champion.version, champion.uri) == ("1", f"models:/{NAME}/1")
    table = pd.read_parquet(trained.features)
    verdicts = champion.model.probability(table) >= champion.model.card.threshold
    assert (verdicts == (table["status"] == "fail")).mean() > 0.9
    assert load_model(f"models:/{NAME}@champion").version == load_model(f"models:/{NAME}/1").version == "1"

    promote(trained)
    assert f"{NAME} v1 ({champion.model.card.model}) stands: it is the first one" in capsys.readouterr().out

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store.parent / 'fresh' / 'mlflow.db'}")
    (store.parent / "fresh").mkdir()
    promote(trained)
    assert "is champion: it is the first one" in capsys.readouterr().out
    assert load_champion(NAME).version == "1"


@pytest.mark.slow
def test_a_model_in_the_store_has_its_arrays_beside_it(trained, store, tmp_path):
    tracked = track(trained, "evidence")["logistic"]
    address = {"artifact_uri": tracked.model_uri, "dst_path": str(tmp_path)}
    directory = Path(mlflow().artifacts.download_artifacts(**address))
    arrays = frozen.read(directory / "extra_files" / frozen.FILE, directory / "model.skops")
    assert isinstance(arrays, frozen.Linear)


@pytest.mark.slow
def test_a_worse_candidate_becomes_challenger_and_is_judged_once(trained, worse, store, capsys):
    promote(trained)
    promote(worse)
    out = capsys.readouterr().out
    assert "stays champion" in out
    assert "worse than v1 on the same folds" in " ".join(out.split())
    assert version_of(NAME, CHAMPION).version == "1"
    assert version_of(NAME, CHALLENGER).version == "2"
    promote(worse)
    assert version_of(NAME, CHALLENGER).version == "2"
    promote(trained)
    assert version_of(NAME, CHAMPION).version == "1"


def test_an_unreachable_server_is_named(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"MLflow at http://127.0.0.1:9 does not answer as expected"):
        load_champion(NAME)


def test_a_file_that_is_no_store_is_named(store):
    store.write_text("not a database, but long enough to be read as the header of one" * 20)
    with pytest.raises(InputError, match="is not a store of MLflow"):
        load_champion(NAME)
