"""Two states of the project beside each other: commits, experiments, the working tree, registered models."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import yaml
from dvc.repo import Repo

from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from serving.experiments import diff
from tests.comparison_rows import compared, result
from tests.families import small_family
from tests.system.browsing import faults
from tests.system.conftest import MLFLOW_WARNINGS, Repository
from training.comparisons.evaluate import evaluate
from training.comparisons.promote import promote
from training.comparisons.train import train
from training.comparisons.tune import tune
from training.registry.experiments import params_of

OUTS = ("reports/comparisons/evaluated", "data/processed/comparisons", "data/interim/comparisons")
#: Of these the verdict is turned round; of the last the label, too.
TURNED = ("c4", "c5", "c6")
#: The last is of a library that DVC finds its outputs with.
pytestmark = [
    *MLFLOW_WARNINGS,
    pytest.mark.filterwarnings("ignore:_NoneStep.value will soon raise:DeprecationWarning"),
]


def measured(root):
    """Write the samples of the comparisons, so that there are words for them."""
    steady, cases = np.linspace(-0.5, 0.5, 6), [f"c{number}" for number in range(80)]
    results = [
        result(case, order, 100 + 10 * order + step) for case in cases for order in (0, 1) for step in steady
    ]
    comparisons = [compared(case, case) for case in cases]
    labels = [{"comparison_id": case, "status": "pass", "labelled_by": "anna"} for case in cases]
    tables = ComparisonTables.from_rows(*map(pd.DataFrame, (results, comparisons, labels)))
    tables.write(root / "data/interim/comparisons")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository with two commits, an experiment, and a version in MLflow."""
    root = tmp_path_factory.mktemp("project")
    family = small_family(root, models=("logistic",), trials=1)
    for stage in (tune, train, evaluate):
        stage(family)
    measured(root)
    stage = {"cmd": "true", "outs": list(OUTS), "deps": ["params.yaml"]}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"evaluate": stage}}))
    write_params(root, 3)
    repository, files = Repository(root), (".", ":!mlflow.db*", ":!mlruns")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root / 'mlflow.db'}")
        promote(family)
        with Repo.init() as repo:
            repo.commit(force=True)
            repository.commit("first", *files)
            turned(root)
            write_params(root, 5)
            repo.commit(force=True)
            repository.commit("second", *files)
            write_params(root, 7)
            repo.experiments.save(name="seven")
        yield root


def write_params(root, trials):
    knobs = {family: {"tune": {"n_trials": trials}} for family in ("comparisons", "corun")}
    (root / "params.yaml").write_text(yaml.safe_dump({"seed": 7} | knobs))


def turned(root):
    """Turn verdicts of the champion round."""
    path = root / "reports/comparisons/evaluated/oof.parquet"
    oof = pd.read_parquet(path)
    champion = json.loads((root / "reports/comparisons/metrics.json").read_text())["champion"]
    own = oof["comparison_id"].isin(TURNED) & (oof["entry"] == champion) & (oof["split"] == "grouped")
    other = {"pass": "fail", "fail": "pass"}
    oof.loc[own, "verdict"] = oof.loc[own, "verdict"].map(other)
    labelled = oof["comparison_id"] == TURNED[-1]
    oof.loc[labelled, "status"] = oof.loc[labelled, "status"].map(other)
    path.unlink()
    oof.to_parquet(path, index=False)


@pytest.fixture
def told(project, monkeypatch, tmp_path):
    monkeypatch.setattr(diff, "project_root", lambda: project)

    def told(before, after, shown="json"):
        output = tmp_path / "told"
        assert diff.write_difference(before, after, shown, output) == 0
        return json.loads(output.read_text()) if shown == "json" else output.read_text()

    return told


def test_two_commits_differ_in_parameters_scores_and_verdicts(told):
    content = told("HEAD~1", "HEAD")
    assert content["params"] == [{"name": "comparisons.tune.n_trials", "before": 3, "after": 5}]
    (family,) = content["families"]
    (best,) = family["champions"]
    found = (family["family"], family["data"], best["common"], best["other_folds"])
    assert found == ("comparisons", [], 80, 0)
    assert best["relabelled"] == [TURNED[-1]]
    assert sorted(flip["case"] for flip in best["flipped"]) == list(TURNED)
    assert [flip["righted"] for flip in best["flipped"]] == [False, False, True]
    assert {score["score"] for score in best["scores"]} == {"balanced accuracy", "missed", "false alarms"}
    for score in best["scores"]:
        low, observed, high = (score["difference"][name] for name in ("low", "observed", "high"))
        assert low <= observed <= high
        assert observed == pytest.approx(score["after"] - score["before"])
    first = best["flipped"][0]
    assert 0 <= first["before"]["value"] <= 1
    assert "10.0\N{NO-BREAK SPACE}% slower" in " ".join(first["words"]).replace(" %", "\N{NO-BREAK SPACE}%")
    assert any("labelled otherwise" in note for note in content["notes"])


def test_an_experiment_and_a_registered_version_are_compared_by_name(told):
    assert [(change["before"], change["after"]) for change in told("HEAD", "seven")["params"]] == [(5, 7)]
    version = "models:/regression-comparison/1"
    before, after = (told(version, at)["families"][0]["champions"][0] for at in ("HEAD~1", "HEAD"))
    assert (before["flipped"], before["common"]) == ([], 80)
    assert sorted(flip["case"] for flip in after["flipped"]) == list(TURNED)
    assert after["flipped"][0]["before"]["value"] is not None


def test_text_and_page_show_the_same_differences(told, browser, tmp_path):
    text, page = told("HEAD~1", "HEAD", "text"), told("HEAD~1", "HEAD", "html")
    assert "comparisons.tune.n_trials" in text
    for shown in (text, page):
        assert "3 verdicts flipped: 1 became right, 2 wrong" in shown
    for case in TURNED:
        assert f"<code>{case}</code>" in page
        assert case in text
    path = tmp_path / "page.html"
    path.write_text(page)
    # requests of other files are faults, too
    assert faults(browser, path.as_uri()) == []


def lost_files(content):
    """Return the note on missing files; parameters and figures are compared without them."""
    (family,) = content["families"]
    assert (family["champions"], family["entries"], family["compared"]) == ([], [], False)
    note = next(one for one in content["notes"] if "neither in git nor in DVC's cache" in one)
    assert "reports/comparisons/evaluated/oof.parquet" in note
    assert "comparisons: predictions of one state are missing" in "\n".join(content["notes"])
    return note


@pytest.fixture
def clone(told, project, tmp_path, monkeypatch):
    """A clone of the project without what DVC tracks, which is asked from now on."""
    subprocess.run(["git", "clone", "--quiet", project, tmp_path / "clone"], check=True)
    monkeypatch.setattr(diff, "project_root", lambda: tmp_path / "clone")
    return tmp_path / "clone"


def test_local_predictions_do_not_hide_missing_ones(told, project, clone, monkeypatch):
    """On another kind of CPU the pipeline leaves predictions of other digests than the commit names."""
    for out in OUTS:
        shutil.copytree(project / out, clone / out)
    path = clone / "reports/comparisons/summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"missed": 0.25}))
    turned(clone)
    with monkeypatch.context() as patch:
        patch.chdir(clone)
        with Repo() as repo:
            repo.commit(force=True)
    content = told("HEAD", "workspace")
    note = lost_files(content)
    assert "git stash && uv run dvc exp run --temp" in note
    assert [one["name"] for one in content["families"][0]["figures"]] == ["missed"]
    assert all("0.25" in told("HEAD", "workspace", shown) for shown in ("text", "html"))


def test_a_state_beside_itself_has_each_note_once(told, clone):
    content = told("HEAD", "HEAD")
    assert lost_files(content)
    assert len(content["notes"]) == len({*content["notes"]})


def test_a_remote_is_named_as_the_place_of_missing_files(told, clone, tmp_path):
    with (clone / ".dvc/config").open("a") as file:
        file.write(f"[core]\n    remote = kept\n['remote \"kept\"']\n    url = {tmp_path / 'kept'}\n")
    assert "uv run dvc fetch --all-commits" in lost_files(told("HEAD~1", "HEAD"))


@pytest.mark.parametrize("name", ["HEAD", "@", "HEAD~1", "main", "HEAD^{commit}"])
def test_head_is_that_of_the_own_checkout(told, clone, tmp_path, name):
    """While an experiment runs, DVC marks its baseline with a reference that all worktrees share."""
    main, worktree = Repository(clone), tmp_path / "worktree"
    main.git("worktree", "add", "--quiet", "--detach", worktree, "HEAD~1")
    Repository(worktree).git("update-ref", "refs/exps/exec/EXEC_BASELINE", "HEAD")
    heading, *_ = told(name, "workspace", "text").splitlines()
    assert heading == f"{name} ({main.git('rev-parse', name)[:10]}) -> workspace"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nonsense", '"nonsense": unknown Git revision .* an experiment of DVC, workspace or'),
        ("models:/regression-comparison/9", "no such version is registered"),
        ("models:/x", "is not the address of a model"),
    ],
)
def test_an_unknown_state_is_refused_in_one_line(told, name, problem):
    with pytest.raises(InputError, match=problem) as refused:
        told(name, "workspace")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["[1, 2]", "text", "7"])
def test_parameters_without_names_are_refused(content, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match="holds no parameters by name; expected a mapping"):
        params_of(path)
