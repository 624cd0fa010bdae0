"""The whole loop: labels given in a browser are learned from; a model judges in the shadow, then leads."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
import yaml
from dvc.repo import Repo
from selenium.webdriver.common.by import By

from data.comparisons.tables import ComparisonTables
from data.families import FAMILIES
from tests.imports import ROOT, copied
from tests.system.comparisons.labelling_by_hand import label_by_keyboard
from tests.system.conftest import Listening, comparison

NAME = "regression-comparison"
JSON = {"content-type": "application/json"}
#: Searches and folds that are short.
KNOBS = {
    "ingest": {"path": "data/raw/mine"},
    "tune": {"trials": 2, "folds": 2, "models": ["logistic"]},
    "evaluate": {"folds": 2, "repeats": 1, "grouped_folds": 2},
    "promote": {"resamples": 200},
}
#: All but the stage that looks after MLflow's store, for which the other families are really needed.
STAGES = [f"{verb}@{family}" for family in FAMILIES for verb in ("promote", "report")]
# of a library that DVC finds its outputs with, until that follows its own advice
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value will soon raise:DeprecationWarning")


def made(operations=24, versions=8, seed=3):
    """A small suite: some versions of some operations are slower for good; what they are is known."""
    random = np.random.default_rng(seed)
    results, comparisons = [], []
    for operation in range(operations):
        level, name = 100.0, f"o{operation:02}"
        for order in range(versions):
            failed = order > 0 and random.random() < 0.3
            level *= random.uniform(1.06, 1.25) if failed else 1 + random.normal(0, 0.002)
            own = {
                "series_id": name, "group": "g", "benchmark": "small", "operation": name, "machine": "m",
                "unit": "ms", "better": "lower", "threads": 1, "version": f"v{order}", "order": order,
            }  # fmt: skip
            values = level * (1 + random.normal(0, 0.004, 6))
            results += [own | {"value": value} for value in values]
            if order:
                told = {name: own[name] for name in ("benchmark", "operation", "machine")}
                sides = {
                    "baseline_from": order - 1, "baseline_to": order - 1, "target_from": order,
                    "target_to": order, "truth": "fail" if failed else "pass",
                }  # fmt: skip
                comparisons.append({"comparison_id": f"{name}/v{order}"} | told | sides)
    return pd.DataFrame(results), pd.DataFrame(comparisons)


class Project:
    """A copy of the project whose comparisons are a small suite; what other families keep is made up."""

    def __init__(self, root):
        self.root = root
        copied(root)
        (root / ".dvc").mkdir()
        for name in (".dvc/config", "dvc.yaml", ".dvcignore"):
            shutil.copy(ROOT / name, root / name)
        shutil.copytree(ROOT / ".dvc/plots", root / ".dvc/plots")
        knobs = yaml.safe_load((ROOT / "params.yaml").read_text())
        for section, own in KNOBS.items():
            knobs["comparisons"][section] |= own
        (root / "params.yaml").write_text(yaml.safe_dump(knobs))
        self.source, self.truth = self._suite()
        subprocess.run(["git", "init", "--quiet"], check=True, cwd=root)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            _make_up()

    def _suite(self):
        results, comparisons = made()
        truth = comparisons.set_index("comparison_id").pop("truth")
        first = comparisons[comparisons["operation"] < "o08"]
        labels = first[["comparison_id"]].assign(status=first["truth"], labelled_by="anna")
        # what training could start from, and does not
        (self.root / "data/raw/measured").mkdir(parents=True)
        source = self.root / "data/raw/mine"
        ComparisonTables.of_rows(results, comparisons.drop(columns="truth"), labels).write(source)
        return source, truth

    def run(self, *command):
        """Run a command with the copy's code; return what it printed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PYTHONPATH": str(self.root), "PATH": path}
        done = subprocess.run(
            command, check=False, cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def repro(self):
        """Bring everything up to date; return the stages that ran, and what was printed."""
        said = self.run("dvc", "repro", *STAGES)
        return re.findall(r"^Running stage '([^']+)'", said, re.MULTILINE), said


def _make_up():
    """Let what the other families read and write be there, and be up to date."""
    with Repo() as repo:
        others = [stage for stage in repo.index.stages if not stage.addressing.endswith("comparisons")]
        paths = {Path(one.fs_path) for stage in others for one in (*stage.deps, *stage.outs)}
        for path in sorted(paths, reverse=True):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("made up")
        for stage in others:
            repo.commit(stage.addressing, force=True)


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = Project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made.repro()
    return made


def in_the_shadow_then_champion(project, server, fate):
    """Let the second version judge beside the first one, then take its place; and trace what it says."""
    if fate == "champion":
        project.run("perfjudge", "rollback", NAME, "--because", "not yet", "--by", "anna")
        # what a person decided stands while there is nothing new
        stands = project.run(sys.executable, "-m", "training.promote", "comparisons")
        assert "v1 (logistic) stands: anna preferred v1: not yet" in " ".join(stands.split())
    request = project.root / "request.json"
    request.write_text(json.dumps({"comparisons": [comparison("same"), comparison("slow", 80.0)]}))

    def answered(version):
        told = httpx.post(f"{server.url}/v1/comparisons/judge", content=request.read_bytes(), headers=JSON)
        return told if told.json()["model"]["version"] == version else None

    until(lambda: answered("1") and httpx.get(f"{server.url}/v1/shadow").json()["figures"])
    project.run("perfjudge", "shadow", "data/raw/mine")
    project.run("perfjudge", "promote", NAME, "2", "--because", "more labels", "--by", "anna")
    answer = project.root / "answer.json"
    answer.write_bytes(until(lambda: answered("2")).content)

    traced = json.loads(project.run("perfjudge", "trace", str(answer), "--input", str(request), "--json"))
    assert (traced["version"], traced["standing"], traced["same_files"]) == ("2", "champion", True)
    assert traced["again"]["differences"] == []
    data = json.loads((project.root / "reports/comparisons/metrics.json").read_text())["data"]
    assert (traced["data"]["path"], traced["data"]["digest"]) == ("data/raw/mine", data["digest"])
    assert traced["reign"]["because"].startswith("more labels (both say the same of ")
    assert "cases of data/raw/mine" in traced["reign"]["because"]


def until(found):
    deadline = time.monotonic() + 60
    while not (now := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return now


@pytest.mark.browser
@pytest.mark.slow
def test_labels_given_in_a_browser_make_a_challenger_whose_fate_the_overview_tells(project, browser):
    server = Listening("--shadow", "--watch", "0.2")
    try:
        said = label_by_keyboard(browser, server.url, "bert", project.truth.to_dict(), 60)
        project.run("perfjudge", "labels", "export", "-o", "data/raw/mine/labels.csv")
        listed = pd.read_csv(project.source / "labels.csv")
        assert listed.set_index("comparison_id")["status"].to_dict() == said
        assert (len(listed), set(listed["annotator"])) == (60, {"bert"})

        ran, printed = project.repro()
        stages = ("ingest", "validate", "featurize", "tune", "train", "evaluate", "promote", "report")
        assert sorted(ran) == sorted(f"{stage}@comparisons" for stage in stages)
        assert "168 comparisons, 116 labels" in printed
        fate = re.search(r"v2 \(logistic\) is (champion|challenger): (.*?\))\n", printed, re.DOTALL)
        browser.get(server.url)
        told = browser.find_element(By.CSS_SELECTOR, "#promotions ~ .box").text
        column = {"champion": "champion version 2", "challenger": "refused version 2"}[fate[1]]
        assert "version 2 (logistic)" in told, column
        assert " ".join(fate[2].split()) in " ".join(told.split())
        in_the_shadow_then_champion(project, server, fate[1])
        browser.get(server.url)
        told = browser.find_element(By.CSS_SELECTOR, "#promotions ~ .box").text
        assert "promoted by anna" in told
        assert "more labels" in told
    finally:
        server.stop()
