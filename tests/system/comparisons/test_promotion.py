import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from serving.comparisons.model import load_judge
from tests.families import feature_table, small_family
from tests.system.conftest import MLFLOW_WARNINGS
from training.comparisons.evaluate import evaluate
from training.comparisons.promote import promote
from training.comparisons.train import train
from training.comparisons.tune import tune
from training.estimators import compiled_pipeline
from training.registry import challenger_test, champions
from training.registry.champions import CHALLENGER, CHAMPION, DIGEST, import_mlflow, version_of
from training.registry.origins import NoVersionError, trace_version
from training.registry.promotion_history import lock_aliases, sync_if_moved

NAME = "regression-comparison"
#: The best of the small family.
MODEL = "logistic"
#: The id of the user "nobody".
NOBODY = 65534
pytestmark = [pytest.mark.slow, *MLFLOW_WARNINGS]


def run_pipeline(family):
    for stage in (tune, train, evaluate):
        stage(family)
    return family


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trained family; it is told that the second trial of its best model was pruned, after two steps."""
    family = run_pipeline(small_family(tmp_path_factory.mktemp("project")))
    path = family.paths.tuned / "trials.parquet"
    trials = pd.read_parquet(path)
    second = (trials["part"] == "all") & (trials["model"] == MODEL) & (trials["trial"] == 1)
    trials.loc[second, ["state", "value", "reported"]] = ["pruned", np.nan, "[0.5, 0.25]"]
    trials.to_parquet(path)
    return family


@pytest.fixture(scope="module")
def worse(tmp_path_factory):
    """The same comparisons; the candidate was trained on vectors without the features that decide."""
    table = feature_table()
    blind = table.assign(medians_min=np.nan, medians_med=np.nan)
    family = run_pipeline(small_family(tmp_path_factory.mktemp("worse"), table=blind))
    table.to_parquet(family.features_file, index=False)
    return family


def told(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_the_metrics_do_not_depend_on_the_number_of_processes(trained, tmp_path):
    again = run_pipeline(small_family(tmp_path, jobs=2))
    tables = ("oof.parquet", "curves.parquet", "precision_recall.csv", "reliability.csv", "confusion.csv")
    for name in ("metrics.json", "summary.json", *(f"evaluated/{table}" for table in tables)):
        assert (again.paths.reports / name).read_bytes() == (trained.paths.reports / name).read_bytes()


def test_the_first_model_is_champion_and_refills_a_lost_store(trained, mlflow_store, capsys, monkeypatch):
    with pytest.raises(InputError, match=rf'no champion of "{NAME}" in .*; make one with: dvc repro'):
        load_judge()
    promote(trained)
    champion = load_judge()
    assert (champion.ref.name, champion.ref.version, champion.ref.uri) == (NAME, "1", f"models:/{NAME}/1")
    assert load_judge(f"models:/{NAME}@champion").ref == load_judge(f"models:/{NAME}/1").ref == champion.ref
    table, card = pd.read_parquet(trained.features_file), champion.model.card
    probability = champion.model.predict_probability(table[[*card.features]].to_numpy())
    assert ((probability >= card.threshold) == (table["status"] == "fail")).mean() > 0.9
    for absent in (f"models:/{NAME}/2", f"models:/{NAME}@{CHALLENGER}", "models:/nobody@champion"):
        with pytest.raises(InputError, match=f"no model {absent}"):
            load_judge(absent)
    promote(trained)
    assert f"{NAME} v1 ({card.model}) stays champion: no champion was registered before" in told(capsys)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{mlflow_store.parent / 'fresh' / 'mlflow.db'}")
    promote(trained)
    assert "is champion: no champion was registered before" in told(capsys)
    assert load_judge().ref.version == "1"


#: Of a model of the small family: a grouped and a stratified split of two folds each, and three trials.
CHILDREN = [
    *(f"{MODEL} {split} r0 f0{fold}" for split in ("grouped", "stratified") for fold in (0, 1)),
    *(f"{MODEL} trial 00{number}" for number in range(3)),
]  # fmt: skip


def runs_of(experiment):
    """The runs as MLflow's pages list them: what began last comes first."""
    client = champions.client()
    found = client.get_experiment_by_name(experiment)
    assert found.tags["mlflow.experimentKind"] == "custom_model_development"
    return list(client.search_runs([found.experiment_id], max_results=1000))


def children_of(run):
    nested = runs_of("folds and trials")
    return [one for one in nested if one.data.tags["mlflow.parentRunId"] == run.info.run_id]


@pytest.fixture(scope="module")
def filled(trained, tmp_path_factory, empty_store):
    """The file of a store after a promotion."""
    path = Path(shutil.copy(empty_store, tmp_path_factory.mktemp("filled") / "mlflow.db"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        promote(trained)
    return path


@pytest.fixture
def promoted(filled, tmp_path, monkeypatch):
    """A copy of that store, to be changed; the files of its version are shared."""
    path = tmp_path / "mlflow.db"
    # a part of it may be in another file
    with closing(sqlite3.connect(filled)) as source, closing(sqlite3.connect(path)) as copy:
        source.backup(copy)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")


@pytest.fixture
def models(filled, monkeypatch):
    """The runs of the experiment that one opens."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{filled}")
    return runs_of("comparisons")


def test_an_experiment_lists_models_with_their_folds_and_trials(models, trained):
    assert [(run.info.run_name, run.info.status) for run in models] == [
        (MODEL, "FINISHED"),
        ("knn-uniform", "FINISHED"),
    ]
    best, other = models
    assert [run.info.run_name for run in children_of(best)] == CHILDREN
    assert len(children_of(other)) == len(CHILDREN)
    files = {one.path for one in champions.client().list_artifacts(other.info.run_id)}
    assert files == {"confusion.png", "precision-recall.png", "reliability.png"}
    entry = json.loads(trained.paths.metrics.read_text())["splits"]["grouped"]["entries"][MODEL]
    assert best.data.metrics["recall"] == entry["recall"]["pooled"]
    assert best.data.metrics["grouped/recall_std"] == entry["recall"]["std"]
    assert set(children_of(best)[0].data.metrics) <= set(best.data.metrics)


def test_an_experiment_has_a_view_of_the_summary_figures(models, trained):
    tags = champions.client().get_experiment_by_name("comparisons").tags
    assert "viewStateShareKey=figures" in tags["mlflow.note.content"]
    view = json.loads(json.loads(tags["mlflow.sharedViewState.figures"])["state"])
    figures = json.loads(trained.paths.summary.read_text()).keys() - {"champion"}
    assert {f"metrics.`{name}`" for name in figures} <= {*view["selectedColumns"]}
    assert figures <= models[0].data.metrics.keys()


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_names_its_data_set_and_commit(models, trained):
    table = pd.read_parquet(trained.features_file)
    for run in models:
        tags = run.data.tags
        (dataset,) = (one.dataset for one in run.inputs.dataset_inputs)
        assert tags["mlflow.source.git.commit"] == output_of("git", "rev-parse", "HEAD")
        assert tags["mlflow.source.git.dirty"] in {"true", "false"}
        assert tags["data_digest"].startswith(dataset.digest)
        assert json.loads(dataset.profile)["comparisons"] == len(table)
        columns = {one["name"]: one["type"] for one in json.loads(dataset.schema)["mlflow_colspec"]}
        assert [*columns] == list(table.columns)
        assert columns["noise"] == "double"


def test_a_version_is_traceable_to_run_data_and_commit(models, trained):
    found, data = trace_version(NAME, "1"), json.loads(trained.paths.metrics.read_text())["data"]
    assert (found.run, found.digest) == (models[0].info.run_id, version_of(NAME, CHAMPION).tags[DIGEST])
    assert (found.data.digest, found.data.path) == (data["digest"], data["path"])
    assert (found.code.commit, found.params["seed"]) == (output_of("git", "rev-parse", "HEAD"), "7")
    assert found.promotion.reason == "no champion was registered before"
    for name, version in ((NAME, "2"), (NAME, "\u00b2"), (f"{NAME}@x", "1")):
        with pytest.raises(NoVersionError, match=f'of the model "{name}" does not exist'):
            trace_version(name, version)


def test_pruned_trials_keep_their_reported_values(models):
    whole, pruned, _ = children_of(models[0])[-3:]
    assert (pruned.info.status, pruned.data.tags["trial_state"]) == ("KILLED", "pruned")
    assert ("value" in pruned.data.metrics, pruned.data.params != {}) == (False, True)
    history = champions.client().get_metric_history(pruned.info.run_id, "reported")
    assert [(one.step, one.value) for one in history] == [(0, 0.5), (1, 0.25)]
    assert (whole.info.status, whole.data.tags["trial_state"]) == ("FINISHED", "complete")
    assert whole.data.metrics["value"] == whole.data.metrics["reported"]


def test_a_worse_candidate_becomes_challenger_and_is_judged_once(promoted, worse, capsys):
    for _ in range(2):
        promote(worse)
        assert (version_of(NAME, CHAMPION).version, version_of(NAME, CHALLENGER).version) == ("1", "2")
    assert "worse than v1 on the same folds" in told(capsys)
    client = champions.client()
    first, second = (described(client.get_model_version(NAME, one).run_id) for one in "12")
    assert f"**Champion**: [{NAME} v1](#/models/{NAME}/versions/1)" in first
    assert "**Challenger**" in second
    assert "worse than v1" in second
    standings = [run.data.tags["role"] for run in runs_of("comparisons")]
    assert sorted(standings) == ["candidate", "candidate", "challenger", "champion"]
    # moved by hand in MLflow
    client.set_registered_model_alias(NAME, CHAMPION, "2")
    assert version_of(NAME, CHAMPION).version == "2"


def described(run_id):
    return champions.client().get_run(run_id).data.tags["mlflow.note.content"]


def test_runs_logged_in_an_older_form_are_relogged(trained, mlflow_store, capsys, monkeypatch):
    monkeypatch.setattr(challenger_test, "RUNS", 1)
    promote(trained)
    monkeypatch.undo()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{mlflow_store}")
    promote(trained)
    # the same model is not better than itself
    reason = f"{NAME} v1 ({MODEL}) stays champion, v2 ({MODEL}) is challenger: not significantly"
    assert reason in told(capsys)
    promote(trained)
    assert f"{NAME} v1 ({MODEL}) stays champion: not significantly better than v1" in told(capsys)


def test_an_unreadable_champion_is_replaced_by_the_same_model(trained, mlflow_store, capsys):
    promote(trained)
    first = champions.client().get_model_version(NAME, "1").run_id
    path = version_of(NAME, CHAMPION).directory / "model.skops"
    # the model as code would have stored it that calls one of its types otherwise
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    content["schema.json"] = content["schema.json"].replace(b"sklearn.pipeline", b"training.moved_away")
    with zipfile.ZipFile(path, "w") as new:
        for name, data in content.items():
            new.writestr(name, data)
    promote(trained)
    assert f"v2 ({MODEL}) is champion: v1 cannot be read any more" in told(capsys)
    assert champions.client().get_run(first).data.tags["role"] == "former champion"
    assert f"No longer champion since [{NAME} v2]" in described(first)
    assert load_judge().ref.version == version_of(NAME, CHAMPION).version == "2"
    assert champions.client().get_model_version(NAME, "2").description.startswith(f"{MODEL}: ")


def test_a_retrained_model_is_read_only_once(trained, promoted, capsys, monkeypatch):
    before = version_of(NAME, CHAMPION).tags
    model = trained.paths.models / before["model"] / "model.skops"
    kept = model.read_bytes()
    # other bytes, the same model: a comment at the end of the archive
    with zipfile.ZipFile(model, "a") as archive:
        archive.comment = b"trained again"
    try:
        promote(trained)
        assert version_of(NAME, CHAMPION).tags["readable"] != before["readable"]
        # what was written a moment ago is not remembered
        time.sleep(0.1)
        sync_if_moved(NAME)
        monkeypatch.setattr(champions, "client", None)
        promote(trained)
    finally:
        model.write_bytes(kept)
    assert told(capsys).count(f"v1 ({MODEL}) stays champion") == 2


def test_a_new_process_knows_the_aliases_without_mlflow(models):
    asked = f"version_of('{NAME}', 'champion').version, version_of('{NAME}', 'challenger')"
    script = f"from training.registry.champions import version_of; print({asked}, 'mlflow' in sys.modules)"
    assert output_of(sys.executable, "-c", f"import sys; {script}") == "1 None False"


def test_a_version_in_the_store_has_its_compiled_arrays(models):
    directory = version_of(NAME, CHAMPION).directory
    (arrays,) = directory.rglob(compiled_pipeline.FILE)
    (model,) = directory.rglob("model.skops")
    assert isinstance(compiled_pipeline.read(arrays, model), compiled_pipeline.Linear)


def test_files_changed_after_promotion_are_not_loaded(trained, mlflow_store):
    promote(trained)
    card = next(version_of(NAME, CHAMPION).directory.rglob("card.json"))
    card.write_text(card.read_text().replace('"threshold": 0.', '"threshold": 0.9'))
    with pytest.raises(InputError, match=f"files of models:/{NAME}/1 have changed since it was registered"):
        load_judge()
    promote(trained)
    assert load_judge().ref.version == "2"


@pytest.mark.usefixtures("impatient_mlflow")
def test_an_unreachable_mlflow_server_is_named(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"MLflow at http://127.0.0.1:9 does not answer as expected"):
        load_judge()


def test_a_file_that_is_no_store_is_named(mlflow_store):
    mlflow_store.write_text("not a database, but long enough to be read as the header of one" * 20)
    with pytest.raises(InputError, match="is not a store of MLflow"):
        load_judge()


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["set_registered_model_alias", "set_terminated"])
def test_a_killed_promotion_is_finished_by_the_next_one(moment, trained, mlflow_store, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(import_mlflow().MlflowClient, moment, Mock(side_effect=KilledError))
        with pytest.raises(KilledError):
            promote(trained)
    assert version_of(NAME, CHAMPION) is None
    promote(trained)
    assert f"v1 ({MODEL}) is champion: no champion was registered before" in told(capsys)
    client = champions.client()
    (version,) = client.search_model_versions(f"name = '{NAME}'")
    assert client.get_run(version.run_id).data.tags["role"] == "champion"
    experiments = [one.experiment_id for one in client.search_experiments()]
    assert "RUNNING" not in {run.info.status for run in client.search_runs(experiments)}


def test_a_half_made_store_is_never_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")

    def killed(uri, *_):
        Path(uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("mlflow.store.tracking.sqlalchemy_store.SqlAlchemyStore", killed)
        with pytest.raises(KilledError):
            champions.client()
    assert [*tmp_path.iterdir()] == []
    assert [one.name for one in champions.client().search_experiments()] == ["Default"]


def test_the_lock_file_of_another_user_excludes_that_user(monkeypatch):
    user = os.geteuid()
    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        path = Path(shared) / "mlflow.db-moving"
        path.touch(0o444)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shared}/mlflow.db")
        # root could write to any file
        os.seteuid(user or NOBODY)
        try:
            with lock_aliases("m"), path.open() as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.seteuid(user)
