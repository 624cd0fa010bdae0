import json
import re
import shutil

import pandas as pd
import pytest

from serving.report import main
from tests.system.browsing import charts, faults, points
from tests.system.corun.inputs import EVENTS
from tests.system.fingerprints.test_report import faults_of_text

PAGE = "reports/corun/index.html"


@pytest.fixture(scope="module")
def root(corun_project, made_once):
    def fill(directory):
        left_out = shutil.ignore_patterns("models")
        shutil.copytree(corun_project, directory, ignore=left_out, dirs_exist_ok=True)
        assert main(["corun"]) == 0

    return made_once("corun report", fill)


@pytest.fixture(scope="module")
def page(root):
    return (root / PAGE).read_text()


@pytest.fixture(scope="module")
def metrics(root):
    return json.loads((root / "reports/corun/metrics.json").read_text())


def percent(share, digits=1):
    return f"{share:.{digits}%}".replace("%", "\N{NO-BREAK SPACE}%")


def table(page, name):
    return re.search(rf'<table id="{name}"[^>]*>.*?</table>', page, re.DOTALL).group()


def test_all_figures_of_the_seed_are_drawn(page):
    drawn = set(re.findall(r'<span class="number">Figure (\d) of the co-run paper</span>', page))
    assert drawn == {"1", "2", "3", "4", "5"}
    assert {"impacts", "importance", "seconds", "placements-random"} <= set(
        re.findall(r'id="([\w-]+)"', page)
    )


def test_the_lead_says_how_accurate_the_champion_is_and_how_well_the_measurement_repeats(page, metrics):
    lead = re.search(r'<p class="lead">(.*?)</p>', page).group(1)
    own = metrics["splits"]["pairs"]["entries"][metrics["champion"]]
    assert lead.startswith(
        f"{metrics['champion']} predicts {percent(own['within_tolerance']['pooled'])} of held-out pairs"
    )
    assert (
        f"In a second measurement, {percent(metrics['repeatability']['within_tolerance'])} of the co-runs"
        in lead
    )


def test_repeatability_stands_in_every_section_with_an_accuracy(page, metrics):
    told = f"Repeatability of the measurement, on {metrics['repeatability']['repeated']} repeated co-runs"
    for section in ("measured", "accuracy", "table-1", "online", "features"):
        part = re.search(rf'<section aria-labelledby="{section}">.*?</section>', page, re.DOTALL).group()
        assert told in part, section


def test_every_design_stands_in_the_table_with_its_coverage(page, metrics):
    rows = table(page, "designs")
    for split in metrics["splits"].values():
        own = split["entries"][metrics["champion"]]
        assert percent(own["coverage"]["pooled"]) in rows
        assert percent(own["mape"]["pooled"], 2) in rows


def test_each_cell_of_table_1_stands_beside_the_seeds(root, page):
    cells = table(page, "cells")
    for row in pd.read_parquet(root / "reports/corun/evaluated/table1.parquet").to_dict("records"):
        ours, theirs = percent(row["accuracy"], 2), percent(row["seeds"], 2)
        assert re.search(rf"{ours} <small>± [\d.]+</small><span class=\"seeds\">{theirs}<", cells)


def test_features_that_were_not_counted_are_named_not_dropped_silently(page, root):
    removed = table(page, "removed")
    rows = pd.read_parquet(root / "reports/corun/evaluated/removed.parquet")
    assert removed.count("not among the features of this data") == int((~rows["measured"]).sum())
    assert all(event in removed for event in EVENTS[:8])


def test_placements_that_were_really_run_are_shown_with_what_was_predicted(root, tmp_path, monkeypatch):
    directory = tmp_path / "project"
    shutil.copytree(root, directory)
    place = directory / "data/raw/placements"
    place.mkdir(parents=True)
    totals = {"best": (30.0, 31.0), "random-1": (34.0, 33.5), "worst": (38.0, 39.0)}
    row = {"repetition": 1, "group": 1, "task": "t", "corunners": "", "machine": "m", "foreign": 0.01}
    pd.DataFrame(
        [row | {"placement": name, "corun_seconds": measured} for name, (_, measured) in totals.items()]
    ).to_parquet(place / "placements.parquet")
    placements = [
        {"name": name, "groups": [["t"]], "slowdown": 1.0, "seconds": said}
        for name, (said, _) in totals.items()
    ]
    plan = {
        "model": {"name": "m", "version": "1", "uri": "u"}, "machine": "m", "machines": 1, "slots": 1,
        "exact": True, "notes": [],
        "random": {"draws": 1, "mean": 1, "low": 1, "high": 1}, "placements": placements,
    }  # fmt: skip
    (place / "plan.json").write_text(json.dumps(plan))
    monkeypatch.chdir(directory)
    assert main(["corun"]) == 0
    page = (directory / PAGE).read_text()
    assert "The predicted best took 31.0 s of run time in all, 2.5 s (7.5%) less than 1 placements" in page
    rows = table(page, "run").split("<tr")[2:]
    assert [re.findall(r"<td[^>]*>([\d.]+)</td>", line)[:2] for line in rows] == [
        ["30.0", "31.0"], ["34.0", "33.5"], ["38.0", "39.0"],
    ]  # fmt: skip


def test_savings_from_measured_pairs_are_said_in_seconds_and_percent_of_run_time(page):
    saved = re.search(
        r"8 tasks save (-?[\d.]+) s \((-?[\d.]+)\N{NO-BREAK SPACE}%\) of run time against", page
    )
    seconds, share = map(float, saved.groups())
    # all tasks take 26.8 s alone, and a placement at random 10 % more
    assert share == pytest.approx(100 * seconds / 30, abs=0.8)
    assert share > 1


def test_what_the_data_does_not_allow_is_named_not_drawn(root, tmp_path, monkeypatch):
    directory = tmp_path / "project"
    shutil.copytree(root, directory)
    reports = directory / "reports/corun"
    for name in ("table1", "online_residuals"):
        path = reports / f"evaluated/{name}.parquet"
        pd.read_parquet(path).iloc[:0].astype(object).to_parquet(path)
    content = json.loads((reports / "metrics.json").read_text()) | {"online": None}
    again = dict.fromkeys(content["repeatability"]) | {"repeated": 0}
    (reports / "metrics.json").write_text(json.dumps(content | {"repeatability": again}))
    monkeypatch.chdir(directory)
    assert main(["corun"]) == 0
    page = (directory / PAGE).read_text()
    for told in (
        "table 1 is not shown",
        "Figure 4 of the co-run paper is not drawn",
        "hence no online model",
        "measured twice",
    ):
        assert told in page
    assert faults_of_text(page) == []


def test_what_to_do_tells_whom_to_keep_apart_and_whether_to_believe_intervals(page, metrics):
    told = points(page)
    assert 3 <= len(told) <= 5
    own = metrics["splits"]["pairs"]["entries"][metrics["champion"]]
    assert f"they cover {percent(own['coverage']['pooled'])}" in told[0]
    assert any(re.match(r"Keep \S+ away from \S+, which makes it \d+", one) for one in told)


def test_the_page_refers_to_nothing_outside_itself_and_is_small(page):
    assert faults_of_text(page) == []
    assert len(page.encode()) < 2_000_000


def test_a_second_drawing_gives_the_same_bytes(root, page, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["corun"]) == 0
    assert (root / PAGE).read_text() == page


@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(root, browser):
    assert faults(browser, root / PAGE) == []
    assert len(charts(browser)) == 9
