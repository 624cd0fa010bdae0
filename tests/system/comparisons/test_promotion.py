import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from serving.comparisons.model import LOADER, load
from serving.doors.lazy import Lazy
from tests.families import feature_table, small_family
from training.comparisons.contest import Outs, track
from training.comparisons.evaluate import evaluate
from training.comparisons.promote import promote
from training.comparisons.train import train
from training.comparisons.tune import tune
from training.estimators import frozen
from training.registry import tracking
from training.registry.champions import CHALLENGER, CHAMPION, DIGEST, registered, version_of
from training.registry.tracking import mlflow

NAME = "regression-comparison"
#: The best of the small family.
MODEL = "knn-uniform"
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
    for name in ("metrics.json", "evaluated/oof.parquet", "evaluated/curves.parquet"):
        assert (again.places.reports / name).read_bytes() == (trained.places.reports / name).read_bytes()


def test_the_rule_and_the_models_stand_in_both_splits(trained):
    metrics = json.loads((trained.places.metrics).read_text())
    for split in ("grouped", "stratified"):
        entries = metrics["splits"][split]["entries"]
        assert {name: entry["kind"] for name, entry in entries.items()} == {
            "knn-uniform": "model", "logistic": "model", "median-5": "rule"
        }  # fmt: skip
        assert entries["median-5"]["average_precision"]["pooled"] is None
        assert entries["logistic"]["balanced_accuracy"]["pooled"] > 0.9
    curves = pd.read_parquet(trained.places.evaluated / "curves.parquet")
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
        load()
    promote(trained)
    assert "v1" in capsys.readouterr().out
    champion = load()
    assert (champion.ref.name, champion.ref.version, champion.ref.uri) == (NAME, "1", f"models:/{NAME}/1")
    table = pd.read_parquet(trained.features)
    verdicts = champion.model.probability(table) >= champion.model.card.threshold
    assert (verdicts == (table["status"] == "fail")).mean() > 0.9
    assert load(f"models:/{NAME}@champion").ref == load(f"models:/{NAME}/1").ref == champion.ref
    for absent in (f"models:/{NAME}/2", f"models:/{NAME}@{CHALLENGER}", "models:/nobody@champion"):
        with pytest.raises(InputError, match=f"no model {absent}"):
            load(absent)

    promote(trained)
    assert f"{NAME} v1 ({champion.model.card.model}) stands: it is the first one" in capsys.readouterr().out

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store.parent / 'fresh' / 'mlflow.db'}")
    promote(trained)
    assert "is champion: it is the first one" in capsys.readouterr().out
    assert load().ref.version == "1"


@pytest.mark.slow
def test_a_model_in_the_store_has_its_arrays_beside_it(trained, store, tmp_path):
    metrics = json.loads((trained.places.metrics).read_text()) | {"champion": "logistic"}
    tracked = track(Outs.read(trained, metrics), {"evidence": "evidence"})
    address = {"artifact_uri": tracked.model_uri, "dst_path": str(tmp_path)}
    directory = Path(mlflow().artifacts.download_artifacts(**address))
    arrays = frozen.read(directory / "extra_files" / frozen.FILE, directory / "model.skops")
    assert isinstance(arrays, frozen.Linear)


def told(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_worse_candidate_becomes_challenger_and_is_judged_once(trained, worse, store, capsys):
    promote(trained)
    promote(worse)
    out = told(capsys)
    assert "stays champion" in out
    assert "worse than v1 on the same folds" in out
    assert version_of(NAME, CHAMPION).version == "1"
    assert version_of(NAME, CHALLENGER).version == "2"
    promote(worse)
    assert version_of(NAME, CHALLENGER).version == "2"
    promote(trained)
    assert version_of(NAME, CHAMPION).version == "1"


def with_renamed_type(path):
    """Store the model again as code would have that calls one of its types otherwise."""
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    schema = content["schema.json"].replace(b"sklearn.pipeline", b"training.moved_away")
    assert schema != content["schema.json"]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in {**content, "schema.json": schema}.items():
            new.writestr(name, data)


@pytest.mark.slow
def test_a_champion_that_cannot_be_read_is_replaced_by_the_same_model_and_even_by_a_worse_one(
    trained, worse, store, capsys
):
    promote(trained)
    with_renamed_type(version_of(NAME, CHAMPION).directory / "model.skops")
    promote(trained)
    assert f"v2 ({MODEL}) is champion: v1 cannot be read any more" in told(capsys)
    assert load().model.card.model == MODEL

    with_renamed_type(version_of(NAME, CHAMPION).directory / "model.skops")
    promote(worse)
    assert "is champion: v2 cannot be read any more" in told(capsys)
    assert version_of(NAME, CHAMPION).version == "3"
    assert load().ref.version == "3"


@pytest.mark.slow
def test_a_model_trained_again_is_read_once_to_see_that_the_champion_still_can_be(
    trained, store, capsys, monkeypatch
):
    promote(trained)
    model = trained.places.models / version_of(NAME, CHAMPION).tags["model"] / "model.skops"
    before = version_of(NAME, CHAMPION).tags["readable"]
    kept = model.read_bytes()
    # other bytes, the same model: a comment at the end of the archive
    with zipfile.ZipFile(model, "a") as archive:
        archive.comment = b"trained again"
    try:
        promote(trained)
        assert f"v1 ({MODEL}) stands" in told(capsys)
        assert version_of(NAME, CHAMPION).tags["readable"] != before
        monkeypatch.setattr(tracking, "client", None)
        promote(trained)
    finally:
        model.write_bytes(kept)
    assert f"v1 ({MODEL}) stands" in told(capsys)


def in_a_new_process(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_the_store_is_read_as_mlflow_reads_it_but_without_mlflow(trained, worse, store):
    promote(trained)
    promote(worse)
    asked = f"[version_of('{NAME}', one).version for one in ('champion', 'challenger')]"
    told = in_a_new_process(
        "import sys; from training.registry.champions import version_of;"
        f"print({asked}, 'mlflow' in sys.modules)"
    )
    assert told == ["['1',", "'2']", "False"]
    theirs = tracking.client().get_model_version_by_alias(NAME, CHALLENGER)
    ours = version_of(NAME, CHALLENGER)
    location = tracking.client().get_model_version_download_uri(NAME, theirs.version)
    assert (ours.version, ours.tags, ours.location) == (str(theirs.version), theirs.tags, location)
    assert registered(f"models:/{NAME}/2") == ours
    assert registered(f"models:/{NAME}/3") is None


@pytest.mark.slow
def test_files_that_were_changed_after_promotion_are_not_loaded(trained, store):
    promote(trained)
    card = next(version_of(NAME, CHAMPION).directory.rglob("card.json"))
    card.write_text(card.read_text().replace('"threshold": 0.', '"threshold": 0.9'))
    with pytest.raises(InputError, match=f"files of models:/{NAME}/1 have changed since it was registered"):
        load()
    promote(trained)
    assert load().ref.version == "2"


@pytest.mark.slow
def test_a_champion_of_before_files_had_a_digest_answers_and_is_registered_anew(trained, store):
    promote(trained)
    tracking.client().delete_model_version_tag(NAME, "1", DIGEST)
    assert load().ref.version == "1"
    promote(trained)
    assert version_of(NAME, CHAMPION).version == "2"
    assert DIGEST in version_of(NAME, CHAMPION).tags


@pytest.mark.slow
def test_an_alias_that_is_moved_in_mlflow_is_noticed(trained, worse, store):
    promote(trained)
    promote(worse)
    assert version_of(NAME, CHAMPION).version == "1"
    tracking.client().set_registered_model_alias(NAME, CHAMPION, "2")
    assert version_of(NAME, CHAMPION).version == "2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A tracking server of MLflow on a port of its own, with its runs and files in a directory of its own."""
    root = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--workers", "1", "--backend-store-uri", f"sqlite:///{root / 'server.db'}"),
        *("--artifacts-destination", str(root / "files")),
    ]
    # without what it does beside tracking
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (root / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=root, stdout=log, stderr=log, start_new_session=True, env=quiet
        )
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, root / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def wait_until_healthy(url, process, log):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
            break
    raise AssertionError(log.read_text())


@pytest.mark.slow
def test_a_tracking_server_serves_as_well_as_a_file(trained, worse, server, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    with pytest.raises(InputError, match="no champion"):
        load()
    promote(trained)
    promote(trained)
    promote(worse)
    out = told(capsys)
    assert f"{NAME} v1 ({MODEL}) is champion: it is the first one" in out
    assert f"{NAME} v1 ({MODEL}) stands: it is the first one" in out
    assert "worse than v1 on the same folds" in out
    assert version_of(NAME, CHAMPION).directory is None
    assert load().ref.version == "1"
    assert version_of(NAME, CHALLENGER).version == "2"
    client = tracking.client()
    served = Lazy(LOADER)
    assert served.get().ref.version == "1"
    client.set_registered_model_alias(NAME, CHAMPION, "2")
    served.look()
    assert (served.get().ref.version, served.swaps, served.trouble) == ("2", 1, None)
    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        served.look()
    assert "MLflow at http://127.0.0.1:9 does not answer" in served.trouble
    assert served.get().ref.version == "2"
    runs = client.search_runs([client.get_experiment_by_name("comparisons").experiment_id], max_results=1000)
    (own,) = (run for run in runs if run.info.run_id == client.get_model_version(NAME, "1").run_id)
    nested = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == own.info.run_id]
    # three trials; a stratified and a grouped split of two folds each
    assert sorted(run.info.run_name for run in nested) == [
        "grouped r0f0", "grouped r0f1", "stratified r0f0", "stratified r0f1", "trial 0", "trial 1", "trial 2"
    ]  # fmt: skip
    assert {run.info.status for run in (own, *nested)} == {"FINISHED"}
    assert {one.path for one in client.list_artifacts(own.info.run_id)} >= {
        "confusion.png", "precision-recall.png"
    }  # fmt: skip


def test_an_unreachable_server_is_named(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"MLflow at http://127.0.0.1:9 does not answer as expected"):
        load()


def test_a_file_that_is_no_store_is_named(store):
    store.write_text("not a database, but long enough to be read as the header of one" * 20)
    with pytest.raises(InputError, match="is not a store of MLflow"):
        load()
