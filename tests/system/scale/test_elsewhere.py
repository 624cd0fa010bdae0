"""Models in MLflow's server, which keeps them in PostgreSQL and on S3; trials of searches in PostgreSQL."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import boto3
import pandas as pd
import pytest
import sqlalchemy
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from data.errors import InputError
from serving.comparisons.endpoints import LOADER
from serving.comparisons.model import load_judge
from serving.http.models import HotReloadingModel
from tests.families import interrupted, small_family
from tests.ports import free_port
from tests.system.conftest import MLFLOW_WARNINGS, answers, wait_until
from training.comparisons.evaluate import evaluate
from training.comparisons.promote import promote
from training.comparisons.train import train
from training.comparisons.tune import run_search, tasks_of, tune
from training.registry.champions import CHAMPION, download_files, version_of

#: What programs of Amazon's want to know, and moto doesn't.
KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1"}
pytestmark = MLFLOW_WARNINGS


@pytest.fixture(scope="module")
def bucket():
    """The address of an S3 with an empty bucket, and a client of it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        store = boto3.client("s3", endpoint_url=address)
        store.create_bucket(Bucket="models")
        yield address, store
    server.stop()


@pytest.fixture(scope="module")
def tracking(postgres, bucket, tmp_path_factory):
    """The addresses of a real server of MLflow, and of its database."""
    database = postgres.url("mlflow").replace("postgresql:", "postgresql+psycopg:")
    directory = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    options = ["--backend-store-uri", database, "--artifacts-destination", "s3://models"]
    # what begins it is named, so that its workers can be ended with it
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *options]
    environment = {**os.environ, "MLFLOW_S3_ENDPOINT_URL": bucket[0], "MLFLOW_DISABLE_TELEMETRY": "true"}
    # seven processes for jobs that nobody gives it
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(f"{address}/health") or process.poll() is not None, 90)
    assert process.poll() is None, (directory / "log").read_text()
    yield address, database
    os.killpg(process.pid, 9)
    process.wait()


@pytest.mark.usefixtures("impatient_mlflow")
def test_a_champion_keeps_judging_without_its_mlflow_server(tracking, bucket, tmp_path, monkeypatch):
    address, database = tracking
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    # every trial and every fold is a run of its own
    family = small_family(tmp_path, models=("logistic",), trials=1)
    for stage in (tune, train, evaluate, promote):
        stage(family)
    champion = load_judge()
    assert champion.ref.uri == "models:/regression-comparison/1"
    table = pd.read_parquet(family.features_file)
    told = champion.model.predict_probability(table[list(champion.model.card.features)].to_numpy())
    assert ((told >= champion.model.card.threshold) == (table["status"] == "fail")).mean() > 0.9
    kept = {one["Key"].rpartition("/")[2] for one in bucket[1].list_objects_v2(Bucket="models")["Contents"]}
    assert "model.skops" in kept
    with sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool).connect() as rows:
        found = rows.execute(sqlalchemy.text("SELECT alias, version FROM registered_model_aliases"))
        assert found.all() == [("champion", 1)]
    assert version_of("regression-comparison", CHAMPION).directory is None
    # the small family has a feature that the endpoint does not compute
    served = HotReloadingModel(replace(LOADER, trial=None))
    assert served.ensure_loaded().ref.version == "1"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    served.check_alias()
    assert "MLflow at http://127.0.0.1:9 does not answer" in served.load_failure
    assert served.ensure_loaded().ref.version == "1"


@pytest.mark.usefixtures("mlflow_store")
def test_files_that_cannot_be_downloaded_are_named():
    told = "models:/nobody/1: its files cannot be downloaded"
    with pytest.raises(InputError, match=told), download_files("models:/nobody/1"):
        pass


def searches(directory):
    family = small_family(directory, trials=9)
    return tasks_of(family, family.read_features())


def test_a_search_resumes_from_its_trials_in_postgresql(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("PERFJUDGE_OPTUNA", postgres.url("trials"))
    calls = interrupted(monkeypatch, 7)
    with pytest.raises(KeyboardInterrupt):
        run_search(searches(tmp_path / "one")[-1])
    before = len(calls)
    # on another machine, whose files are others
    found = run_search(searches(tmp_path / "two")[-1])
    monkeypatch.undo()
    whole = run_search(searches(tmp_path / "three")[-1])
    assert (found.tuned, found.trials) == (whole.tuned, whole.trials)
    assert 0 < len(calls) - before < len(calls)
    assert not [*tmp_path.rglob("two/.studies/**/*.log")]


def test_trials_that_two_processes_wrote_count_once(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("PERFJUDGE_OPTUNA", postgres.url("twice"))
    task, *_ = searches(tmp_path)
    whole = run_search(task)
    with task.log.open_study("maximize") as study:
        for trial in reversed(study.get_trials()):
            study.add_trial(trial)
    assert run_search(task) == whole


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://anna:geheim@127.0.0.1:9/x", "postgresql://anna:***@127.0.0.1:9/x: cannot store"),
        ("oracle://anna:geheim@127.0.0.1:9/x", "oracle://anna:***@127.0.0.1:9/x: cannot store trials"),
        ("nonsense geheim", "invalid address of the trials"),
    ],
)
def test_an_unreachable_database_is_named_without_its_password(tmp_path, monkeypatch, address, told):
    monkeypatch.setenv("PERFJUDGE_OPTUNA", address)
    with pytest.raises(InputError, match=re.escape(told)) as raised:
        tune(small_family(tmp_path))
    assert "geheim" not in str(raised.value)
