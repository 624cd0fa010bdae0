"""What DVC shows is read on a terminal of 120 columns, and its plots without the web."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import vl_convert
from dvc.cli import main
from dvc.repo import Repo
from selenium.webdriver.support.wait import WebDriverWait

from data.families import FAMILIES
from data.paths import FamilyPaths
from data.stage import DURATIONS
from serving.cli import run_command
from serving.reports import vega
from tests.imports import ROOT
from tests.system.browsing import requested
from tests.system.conftest import Repository

WIDE = 120
#: Every command of the page that shows or compares figures and knobs.
COMMANDS = re.findall(
    r"^    uv run dvc ((?:metrics|params|exp) (?:show|diff).*)$",
    (ROOT / "docs/dvc.md").read_text(),
    re.MULTILINE,
)
#: What is drawn for each row of a table with that column: a mark of that kind, or of many rows one line.
MARKS = {
    "precision": "line mark",
    "false_negative_rate": "line mark",
    "share_of_fails": "circle",
    "verdict": "text mark",
    "predicted": "point",
    "covered": "circle",
}
# of a library that DVC finds its outputs with, until that follows its own advice
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value will soon raise:DeprecationWarning")


def dvc(root, *command):
    """Run DVC as on a terminal of that width, in this process; return what it printed."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as shown:
        patch.chdir(root)
        patch.setenv("COLUMNS", str(WIDE))
        assert main(list(command)) == 0
    return shown.getvalue()


@pytest.fixture(scope="module")
def project(tmp_path_factory, short_project):
    """A repository with the shipped figures, tables of a short pipeline and an experiment."""
    root = tmp_path_factory.mktemp("project")
    told = [path.relative_to(ROOT) for path in (ROOT / "reports").glob("*/*.json")]
    for name in (".dvc/config", "dvc.yaml", "params.yaml", "reports/dvc.yaml", *told):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / ".dvc/plots", root / ".dvc/plots")
    for family in FAMILIES:
        own, shown = (FamilyPaths(family, place).evaluated for place in (short_project, root))
        shutil.copytree(own, shown)
    repository = Repository(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        make_up()
    repository.commit("As it was")
    for path, before, after in CHANGES:
        (root / path).write_text((root / path).read_text().replace(before, after, 1))
    dvc(root, "exp", "save", "--name", "trials-5")
    return root


def make_up():
    with Repo() as repo:
        paths = {Path(one.fs_path) for stage in repo.index.stages for one in (*stage.deps, *stage.outs)}
        for path in sorted(paths, reverse=True):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("made up")
        repo.commit(force=True)


def summary_of(family):
    return json.loads(FamilyPaths(family, ROOT).summary.read_text())


def changes():
    """Yield the files of an experiment, and what it changed in them."""
    yield "params.yaml", "n_trials: 10", "n_trials: 5"
    for name, value in summary_of("comparisons").items():
        if name != "champion":
            told = f'"{name}": '
            yield "reports/comparisons/summary.json", f"{told}{value}", f"{told}{round(value + 0.0123, 4)}"


CHANGES = list(changes())
FIGURES = {text.rpartition(" ")[2] for _, before, after in CHANGES for text in (before, after)}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_summary_is_short_and_agrees_with_the_metrics(family):
    summary, metrics = summary_of(family), json.loads(FamilyPaths(family, ROOT).metrics.read_text())
    assert 3 <= len(summary) <= 12
    assert summary.pop("champion") == metrics["champion"]
    scores = (split["entries"].get(metrics["champion"], {}) for split in metrics["splits"].values())
    pooled = [{one["pooled"] for name, one in entry.items() if name != "kind"} for entry in scores]
    assert any(set(summary.values()) <= {round(one or 0, 4) for one in known} for known in pooled)


@pytest.fixture
def perfjudge(project, monkeypatch, capfd):
    """Return what runs the command line in the project and returns exit code and output."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", str(WIDE))

    def call(*command):
        return run_command(list(command)), *capfd.readouterr()

    return call


@pytest.mark.parametrize("command", [*COMMANDS, "perfjudge experiments show"])
def test_documented_commands_fit_a_terminal_uncut(project, perfjudge, command):
    program, *words = shlex.split(command)
    if program == "perfjudge":
        code, shown, _ = perfjudge(*words)
        assert (code, "trials-5" in shown) == (0, True)
    else:
        shown = dvc(project, program, *words)
    assert max(map(len, shown.splitlines())) <= WIDE
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    told = set(re.split(r"  +|\n", shown))
    shipped = {str(figure) for family in FAMILIES for figure in summary_of(family).values()}
    # the working directory is the experiment's, so one figure of comparisons is another one
    assert len(told & (shipped if command.startswith("metrics show") else FIGURES)) >= 2


def test_a_dry_run_names_stages_reasons_durations_and_files(project, perfjudge):
    recorded = project / DURATIONS / "tune@comparisons"
    recorded.parent.mkdir(parents=True, exist_ok=True)
    recorded.write_text("12.5")
    params = project / "params.yaml"
    before = params.read_text()
    params.write_text(before.replace("n_trials: 5", "n_trials: 7", 1))
    files = [project / name for name in (".git/index", "params.yaml", "dvc.lock")]
    state = [path.read_bytes() for path in files]
    code, told, _ = perfjudge("retrain", "--dry-run", "--json")
    plan = json.loads(told)
    stages = {stage["name"]: stage for stage in plan["stages"]}
    assert any("comparisons.tune" in change for change in stages["tune@comparisons"]["changes"])
    assert stages["tune@comparisons"]["seconds"] == plan["seconds"] == 12.5
    assert (stages["train@comparisons"]["changes"], stages["train@comparisons"]["seconds"]) == ([], None)
    assert {name.partition("@")[2] for name in stages} == {"comparisons", ""}
    assert {"dvc.lock", "models/tuned/comparisons", "reports/comparisons/summary.json"} <= {*plan["files"]}
    also, text, _ = perfjudge("retrain", "--dry-run", "tune@comparisons")
    assert text.startswith("1 stage would run: about 12 s by their last runs\n  tune@comparisons")
    assert "params.yaml" in text
    _, later, _ = perfjudge("retrain", "--dry-run", "train@comparisons")
    assert later.startswith("1 stage would run")
    assert later.index("tune@comparisons") < later.index("params.yaml") < later.index("train@comparisons")
    assert (code, also, [path.read_bytes() for path in files]) == (0, 0, state)
    params.write_text(before)


def test_a_dry_run_lists_the_same_files_before_the_first_run(project, perfjudge, tmp_path):
    lock, plans = project / "dvc.lock", []
    for is_new in (False, True):
        if is_new:
            shutil.move(lock, tmp_path)
        plan = json.loads(perfjudge("retrain", "--dry-run", "--json", "report@comparisons")[1])
        plans.append({stage["name"]: stage["files"] for stage in plan["stages"]})
    shutil.move(tmp_path / lock.name, lock)
    changed, new = plans
    assert changed.items() <= new.items()
    expected = {"reports/comparisons/metrics.json", "reports/comparisons/summary.json"}
    assert {*new["evaluate@comparisons"]} >= expected
    assert new["ingest@comparisons"] == ["data/interim/comparisons"]


@pytest.fixture(scope="module")
def page(project):
    return Path(dvc(project, "plots", "show").strip().removeprefix("file://"))


def test_plots_are_drawn_from_every_evaluated_row(page):
    specs = [json.loads(spec) for spec in re.findall("var spec = (.*);", page.read_text())]
    assert Counter(spec["title"].partition(":")[0] for spec in specs) == {
        "comparisons": 4, "matrices": 3, "corun": 2, "fingerprints": 2
    }  # fmt: skip
    for spec in specs:
        rows = spec["data"]["values"]
        picture = vl_convert.vegalite_to_svg(spec, vega.VERSION, allowed_base_urls=[])
        marks = Counter(re.findall(r'aria-roledescription="([a-z ]*)"', picture))
        kind = next(mark for column, mark in MARKS.items() if column in rows[0])
        assert marks[kind] == len({row["entry"] for row in rows} if kind == "line mark" else rows)


#: Of each plot, how many pixels of its canvas are not white, or how many shapes its SVG has.
DRAWN = """
return [...document.querySelectorAll('.chart-wrapper > :is(canvas, svg)')].map(chart => {
  if (chart.tagName === 'svg') return chart.querySelectorAll('path, line, text').length;
  const pixels = chart.getContext('2d').getImageData(0, 0, chart.width, chart.height).data;
  return pixels.filter((value, at) => at % 4 < 3 && value < 255 && pixels[at - at % 4 + 3]).length;
})"""


def test_all_plots_are_drawn_offline_after_a_repro(project, page, browser, monkeypatch):
    monkeypatch.chdir(project)
    # a stage is run as from a shell, in a process of its own
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    index = (project / ".git/index").read_bytes()
    subprocess.run([sys.executable, "-m", "dvc", "repro", "--force", "plots"], check=True)
    assert (project / ".git/index").read_bytes() == index
    browser.get_log("performance")
    # a page elsewhere in the project finds it, too
    for address in (page.as_uri(), dvc(project, "plots", "show", "-o", "further").strip()):
        browser.get(address)
        # of each plot, once all of them are there
        WebDriverWait(browser, 30).until(lambda _: len(browser.execute_script(DRAWN)) == 11)
        assert min(browser.execute_script(DRAWN)) > 20
        assert requested(browser) == []


def test_a_page_without_vega_names_the_command_for_it(page, browser, tmp_path):
    alone = shutil.copy(page, tmp_path / "index.html")
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http*"]})
    try:
        browser.get(Path(alone).as_uri())
        assert "uv run dvc repro plots" in browser.find_element("id", "missing").text
    finally:
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
