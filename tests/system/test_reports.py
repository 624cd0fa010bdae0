"""The reports of all families: what they say, what they leave out, and how a browser shows them.

They are those of the short pipeline. What its pages say is compared with a record in `golden`.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from benchmarks.matrices import main as matrices_page
from data.families import FAMILIES
from data.fingerprints import validity as ingested
from data.paths import FamilyPaths
from features.fingerprints import matrix as featurized
from serving.plugins import family_plugin
from serving.report import main
from tests.system.browsing import charts, faults, on_paper, points, widen
from tests.system.fingerprints.inputs import fingerprints
from training.fingerprints import stages as trained

#: How many charts a page has at least.
CHARTS = {"comparisons": 8, "matrices": 9, "corun": 10, "fingerprints": 6}


@pytest.fixture(scope="session")
def project(short_project, made_once):
    """A copy of what reports are drawn from, with the pages."""

    def fill(directory):
        for name in ("reports", "models", "data"):
            left_out = shutil.ignore_patterns("*.py", "__pycache__")
            shutil.copytree(short_project / name, directory / name, symlinks=True, ignore=left_out)
        shutil.copy(short_project / "params.yaml", directory)
        shutil.copytree(
            short_project / "docs/results", directory / "docs/results", ignore=shutil.ignore_patterns("*.md")
        )

    return made_once("reports", fill)


@pytest.fixture
def redrawn(project, tmp_path, monkeypatch, capsys):
    """Return a function that changes files of a copy and draws a page: exit code, page and error."""

    def draw(family, change):
        copy = tmp_path / "copy"
        shutil.copytree(project / "reports", copy / "reports")
        for name in ("data", "models", "params.yaml"):
            (copy / name).symlink_to(project / name)
        monkeypatch.chdir(copy)
        places = FamilyPaths(family)
        places.page.unlink()
        change(places)
        code = main([family])
        return code, places.page.read_text() if places.page.exists() else "", capsys.readouterr().err

    return draw


def assigned(path, **columns):
    pd.read_parquet(path).assign(**columns).to_parquet(path)


def emptied(places, *names):
    for path in (places.evaluated / f"{name}.parquet" for name in names):
        pd.read_parquet(path).iloc[:0].astype(object).to_parquet(path)


def table(text, name):
    return re.search(rf'<table id="{name}"[^>]*>.*?</table>', text, re.DOTALL).group()


def faults_of_text(text):
    """Return what refers to something outside the page, or is in it twice."""
    ids = re.findall(r'\bid="([^"]+)"', text)
    twice = {name for name in ids if ids.count(name) > 1}
    targets = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    outside = re.findall(r"https?://[^\s\"')]+|<script[^>]|@import|<link(?! rel=\"icon\" href=\"data:)", text)
    return [*twice, *(targets - set(ids)), *outside]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_page_is_self_contained_small_and_always_the_same(family, project):
    text = FamilyPaths(family, project).page.read_text()
    assert faults_of_text(text) == []
    assert text.count('id="other-data"') == 1
    assert len(text.encode()) < 3_000_000
    assert 3 <= len(points(text)) <= 5
    # the page was drawn by another process
    assert family_plugin(family).page(project) == text


@pytest.mark.browser
@pytest.mark.parametrize("family", FAMILIES)
def test_a_browser_shows_a_page_without_faults(family, project, browser):
    assert [*faults(browser, FamilyPaths(family, project).page)] == []
    assert len(charts(browser)) >= CHARTS[family]


@pytest.mark.parametrize("family", ["comparisons", "matrices", "corun"])
def test_a_missing_or_broken_file_is_named_in_one_line(family, redrawn):
    code, _, error = redrawn(family, lambda places: places.metrics.unlink())
    assert (code, error) == (2, f"reports/{family}/metrics.json: No such file or directory\n")
    Path(f"reports/{family}/metrics.json").write_text('{"data": {}}')
    assert main([family]) == 2
    assert not Path(f"reports/{family}/index.html").exists()


def test_an_unknown_family_is_a_usage_error(capsys):
    assert main(["matrixes"]) == 2
    assert capsys.readouterr().err.startswith("usage: python -m serving.report {comparisons,")


def test_every_table_of_methods_marks_the_champion_alone(project):
    places = FamilyPaths("comparisons", project)
    text = places.page.read_text()
    for split, content in json.loads(places.metrics.read_text())["splits"].items():
        rows = re.findall('<tr class="([^"]*)">', table(text, f"reference-methods-{split}"))
        assert (len(rows), rows.count("model champion")) == (len(content["entries"]), 1)


def test_every_remedy_and_method_is_in_the_benchmark(project, monkeypatch):
    places = FamilyPaths("matrices", project)
    monkeypatch.chdir(project)
    matrices_page()
    (written,) = (path.read_text() for path in project.glob("docs/results/matrices-*.md"))
    for row in pd.read_parquet(places.evaluated / "ablation.parquet").to_dict("records"):
        pairs = f"{row['pair_balanced_accuracy']:.3f} ± {row['pair_spread']:.3f}"
        assert re.search(rf"^\| {row['model']} \| {row['remedy']} \| .*{pairs} ", written, re.MULTILINE)
    for entry, scores in json.loads(places.metrics.read_text())["splits"]["test-cases"]["entries"].items():
        assert f"| {entry} | {scores['kind']} | {scores['balanced_accuracy']['pooled']:.3f} |" in written


def applications(machines):
    """Return applications that figures of the paper show; those of memory follow stream, the others cache."""
    noise = np.random.default_rng(4)
    names = {
        "cache": ["hpccg", "ssca", "mariadb-innodb-load", "stream-nadds-add-30"],
        "stream": ["redis-set", "mariadb-memory-load", *(f"stream-nadds-add-{size}" for size in (1, 2, 10))],
    }
    values = {
        name: 5000 / machines[stressor] * np.exp(noise.normal(0, 0.02, len(machines)))
        for stressor, followers in names.items()
        for name in followers
    }
    few = values["hpccg"].where(machines.index < 8)
    return pd.DataFrame(values | {"few <&>": few})


@pytest.fixture(scope="session")
def trusted(made_once):
    """A directory with the page of fingerprints that are diverse enough."""

    def fill(_):
        machines = fingerprints(40).drop(columns=["cached", "copying"])
        pd.concat([machines, applications(machines)], axis="columns").to_csv("in.csv", index=False)
        section = {
            "ingest": {"path": "in.csv"},
            "profile": {"boosting": "xgboost", "n_thesis_bootstrap": 2},
            "evaluate": {"entries": ["forest", "median"]},
        }
        Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "n_jobs": 1, "fingerprints": section}))
        for stage in (ingested.ingest_stage, ingested.validate_stage, featurized.featurize_stage):
            stage()
        trained.profile_stage()
        trained.evaluate_stage()
        assert main(["fingerprints"]) == 0

    return made_once("profiled", fill)


@pytest.mark.browser
def test_the_page_of_fingerprints_marks_trusted_profiles(trusted, browser):
    places = FamilyPaths("fingerprints", trusted)
    text, trust = places.page.read_text(), pd.read_parquet(places.profiled / "trust.parquet")
    told = f"The rankings of {trust['enough'].sum()} of {len(trust)} profiles can be trusted"
    assert f'<p class="lead">{told}' in text
    refused = table(text, "overview-refused")
    assert "few &lt;&amp;&gt;" in refused
    assert "8 machines, fewer than 15" in refused
    claims = pd.read_parquet(places.profiled / "claims.parquet")
    assert re.findall(r"<strong>[✓✗?] (.*?)</strong>", text) == list(claims["verdict"])
    drawn = re.findall(r'<span class="number">Figure (\d+) of the quiho paper</span>', text)
    assert {*drawn} == {"5", "6", "7", "8", "9", "10", "11", "12", "13", "15", "16"}
    assert "The quiho paper" in re.search(r"<h3>[^/]*Figure 5 .*?</figure>", text, re.DOTALL).group()
    assert faults(browser, places.page) == []


def perfect(places):
    assigned(places.evaluated / "oof.parquet", verdict=lambda verdicts: verdicts["status"])
    (places.evaluated / "curves.parquet").unlink()


def without_details_of_matrices(places):
    (places.reports / "evaluated/times.parquet").unlink(missing_ok=True)
    (places.reports / "times.parquet").unlink(missing_ok=True)
    emptied(places, "curves", "validity", "ablation")
    assigned(places.evaluated / "oof.parquet", cause="")
    assigned(places.evaluated / "groups.parquet", group="all")


def without_details_of_coruns(places):
    emptied(places, "table1", "online_residuals")
    content = json.loads(places.metrics.read_text())
    again = dict.fromkeys(content["repeatability"]) | {"repeated": 0}
    places.metrics.write_text(json.dumps(content | {"online": None, "repeatability": again}))


LEFT_OUT = {
    "comparisons": (
        perfect,
        ["on the grouped folds agrees with its label", "Figure 6.6 of the scheduler thesis is not drawn."],
    ),
    "matrices": (
        without_details_of_matrices,
        ["Figure 4 of the analysis engine paper is not drawn", "No ablation was run",
         "no run of this data is flagged as invalid",
         "Figure 7 of the analysis engine paper is not drawn", "this data has no causes",
         "their number is one or too large"],
    ),
    "corun": (
        without_details_of_coruns,
        ["so table 1 is not shown", "Figure 4 of the co-run paper is not drawn", "hence no online model",
         "measured twice"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", LEFT_OUT)
def test_a_page_names_charts_impossible_with_its_data(family, redrawn):
    change, words = LEFT_OUT[family]
    code, text, error = redrawn(family, change)
    assert (code, error) == (0, "")
    assert [one for one in words if one not in text] == []
    assert faults_of_text(text) == []


@pytest.mark.browser
def test_tables_are_sorted_by_mouse_keyboard_and_on_a_telephone(project, browser):
    def find(place):
        return browser.find_element("css selector", f"#reference-methods-grouped {place}")

    def column(place):
        cells = browser.find_elements("css selector", f"#reference-methods-grouped tbody {place}")
        return [cell.text for cell in cells]

    def accuracies():
        return [float(text.split()[0]) for text in column("td:nth-child(3)")]

    widen(browser, 1400)
    browser.get(FamilyPaths("comparisons", project).page.as_uri())
    before = column("th")
    accuracy = find("th:nth-child(3)")
    accuracy.find_element("tag name", "button").click()
    best_first = accuracies()
    assert best_first == sorted(best_first, reverse=True)
    assert accuracy.get_attribute("aria-sort") == "descending"
    accuracy.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert accuracies() == best_first[::-1]
    find("th:first-child button").send_keys(Keys.SPACE)
    assert column("th") == sorted(before)
    # rows without an average precision come last, whichever way
    for _ in range(2):
        find("th:last-child button").click()
        assert column("td:last-child")[-1] == "\N{EN DASH}"
    widen(browser, 390)
    assert not accuracy.is_displayed()
    choice = Select(browser.find_element("css selector", ".sort-by select"))
    choice.select_by_visible_text("method, ascending")
    assert column("th") == sorted(before)
    choice.select_by_visible_text("as it stands")
    assert {*column("th")} == {*before}


@pytest.mark.browser
def test_pointing_at_a_mark_shows_its_value(project, browser):
    widen(browser, 1400)
    browser.get(FamilyPaths("comparisons", project).page.as_uri())
    box = browser.find_element("css selector", "#figure-6-9 .on-wide .spots rect")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    ActionChains(browser).move_to_element(box).move_by_offset(1, 0).perform()
    tip = browser.find_element("css selector", ".tip")
    assert re.search(r"median .* %, quartiles .* %", tip.text)
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()


@pytest.mark.browser
def test_charts_for_wide_screens_are_printed_whatever_the_width(project, browser):
    def displayed(kind):
        return {one.is_displayed() for one in browser.find_elements("css selector", f".on-{kind} svg")}

    widen(browser, 390)
    browser.get(FamilyPaths("comparisons", project).page.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert (displayed("wide"), displayed("narrow")) == ({False}, {True})
    with on_paper(browser):
        assert (displayed("wide"), displayed("narrow")) == ({True}, {False})
