"""New projects from the template, and the champions inside an installed wheel."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from data.errors import InputError
from data.stage import EXTRAS
from serving.installation import create_project, describe_version
from training.registry import champions
from training.registry.champions import resolve_address
from training.registry.origins import git_output

NAME = "regression-comparison"


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Let the code be an installed wheel with two champions, one of which needs a package that is missing."""
    index = {NAME: {"model": "logistic", "package": "numpy"}, "other": {"model": "x", "package": "no_such"}}
    (tmp_path / "champions.json").write_text(json.dumps(index))
    monkeypatch.setattr(champions, "SHIPPED", tmp_path)
    caches = champions.shipped_champions, champions._shipped_tags
    for function in caches:
        function.cache_clear()
    yield tmp_path
    for function in caches:
        function.cache_clear()


def test_champion_in_the_wheel_answers_where_the_registry_has_none(shipped, mlflow_store, monkeypatch):
    version = resolve_address(lambda: NAME, None)
    assert version.directory == shipped / "models" / NAME
    assert resolve_address(str, version.uri) == resolve_address(str, f"models:/{NAME}@champion") == version
    with pytest.raises(InputError, match="no model models:/other@champion in "):
        resolve_address(str, "models:/other@champion")
    monkeypatch.setitem(EXTRAS, "no_such", "train")
    with pytest.raises(InputError, match=r'"other" cannot be read: .* pip install .perfjudge\[train\]'):
        resolve_address(lambda: "other", None)


def test_project_has_only_stages_that_do_not_depend_on_code(tmp_path, capsys):
    create_project(tmp_path / "mine")
    stages = yaml.safe_load((tmp_path / "mine/dvc.yaml").read_text())["stages"]
    assert {*stages} == {
        "promote", "ingest", "validate", "featurize", "tune", "evaluate", "train", "report", "plots",
        "champions",
    }  # fmt: skip
    assert all([*stage.get("foreach", ["comparisons"])] == ["comparisons"] for stage in stages.values())
    places = {dep.split("/")[0] for stage in stages.values() for dep in stage.get("do", stage)["deps"]}
    assert places <= {"data", "models", "reports", "${item.path}", "${item.models}", "${item.inputs}",
                      "${item.upstream}", "${item.measured}"}  # fmt: skip
    assert stages["champions"]["cmd"] == "python -m training.promote comparisons"
    assert git_output(tmp_path / "mine", "status", "--porcelain") == ""
    assert "perfjudge import FORMAT SOURCE -o data/raw/mine" in capsys.readouterr().out


def test_project_is_created_in_an_empty_current_directory_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create_project(Path())
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {".git", "data", "dvc.yaml", "params.yaml"}
    with pytest.raises(InputError, match="is not an empty directory"):
        create_project(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == names


def test_version_of_a_checkout_names_its_commit():
    commit = git_output(Path(__file__).parents[2], "rev-parse", "--short=7", "HEAD")
    assert re.match(rf"perfjudge \S+ \(.*{commit}", describe_version())


def test_output_of_git_that_is_not_utf8_is_replaced(tmp_path):
    subprocess.run(["git", "init", "--quiet", "--initial-branch", b"caf\xe9", str(tmp_path)], check=True)
    assert git_output(tmp_path, "symbolic-ref", "--short", "HEAD") == "caf\N{REPLACEMENT CHARACTER}"
