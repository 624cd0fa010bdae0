import re
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from data.fingerprints import validity as ingested
from features.fingerprints import matrix as featurized
from serving.report import main
from tests.system.browsing import charts, faults, points
from tests.system.fingerprints.inputs import fingerprints
from training.fingerprints import stages as trained

PAGE = "reports/fingerprints/index.html"
FEW = 8


def applications(table):
    """Return applications of the seed's figures: those of memory follow stream, the others cache."""
    rng = np.random.default_rng(4)
    cached, copying = (
        ("hpccg", "ssca", "mariadb-innodb-load", "stream-nadds-add-30"),
        (
            "redis-set",
            "mariadb-memory-load",
            "stream-nadds-add-1",
            "stream-nadds-add-2",
            "stream-nadds-add-10",
        ),
    )
    found = {
        name: 5000 / table[stressor] * np.exp(rng.normal(0, 0.02, len(table)))
        for names, stressor in ((cached, "cache"), (copying, "stream"))
        for name in names
    }
    found["few <&>"] = found["hpccg"].where(table.index < FEW)
    return pd.DataFrame(found)


def staged(table):
    """Run all stages in the working directory."""
    table.to_csv("in.csv", index=False)
    quick = {"boosting": "xgboost", "seed_resamples": 2}
    section = {
        "ingest": {"path": "in.csv"}, "profile": quick, "evaluate": {"entries": ["forest", "median"]},
    }  # fmt: skip
    params = {"seed": 1, "jobs": 1, "fingerprints": section}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    for stage in (
        ingested.ingest_stage, ingested.validate_stage, featurized.featurize_stage, trained.profile_stage,
        trained.evaluate_stage,
    ):  # fmt: skip
        stage()


@pytest.fixture(scope="module")
def root(made_once):
    def fill(_):
        table = fingerprints(40)[["machine", "cpu_model", *fingerprints(1).columns[2:8]]]
        staged(pd.concat([table, applications(table)], axis="columns"))
        assert main(["fingerprints"]) == 0

    return made_once("profiled", fill)


@pytest.fixture(scope="module")
def page(root):
    return (root / PAGE).read_text()


def test_all_figures_of_the_seed_that_the_data_allows_are_drawn(page):
    drawn = set(re.findall(r'<span class="number">Figure (\d+) of the quiho paper</span>', page))
    assert drawn == {"5", "6", "7", "8", "9", "10", "11", "12", "13", "15", "16"}
    assert "figures 5, 10 and 13: redis-get, scikit-learn." in page


def test_what_can_be_trusted_is_said_first_and_agrees_with_the_table(root, page):
    trust = pd.read_parquet(root / "reports/fingerprints/profiled/trust.parquet")
    lead = re.search(r'<p class="lead">(.*?)</p>', page).group(1)
    assert lead.startswith(f"{trust['enough'].sum()} of {len(trust)} profiles can be trusted")
    refused = re.search(r'<table id="overview-refused"[^>]*>.*?</table>', page, re.DOTALL).group()
    for row in trust[~trust["enough"]].to_dict("records"):
        assert row["application"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in refused
    assert f"{FEW} machines, fewer than 15" in refused


def test_the_seeds_ranking_stands_beside_ours(page):
    hpccg = re.search(r"<h3>[^/]*Figure 5 .*?</figure>", page, re.DOTALL).group()
    assert hpccg.count('<table class="bars">') == 3
    assert "The quiho paper" in hpccg


def test_the_verdict_on_each_claim_is_the_one_that_training_found(root, page):
    claims = pd.read_parquet(root / "reports/fingerprints/profiled/claims.parquet")
    told = re.findall(r"<strong>[✓✗?] (.*?)</strong>", page)
    assert told == list(claims["verdict"])
    assert {"supported", "not supported"} <= set(told)


def test_without_one_trusted_profile_the_lead_says_why(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = fingerprints(FEW)
    staged(table.drop(columns="copying"))
    assert main(["fingerprints"]) == 0
    page = (tmp_path / PAGE).read_text()
    lead = re.search(r'<p class="lead">(.*?)</p>', page).group(1)
    assert lead.startswith(f"Not enough diversity: {FEW} machines")
    assert page.index(f"{FEW} machines, fewer than 15") < page.index("<table")
    assert "supports or refutes no claim" in page
    assert faults_of_text(page) == []


def faults_of_text(page):
    """Return what refers to something outside the page or stands in it twice."""
    ids = re.findall(r'\bid="([^"]+)"', page)
    twice = {name for name in ids if ids.count(name) > 1}
    targets = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    outside = re.findall(r"https?://[^\s\"')]+|<script[^>]|@import|<link(?! rel=\"icon\" href=\"data:)", page)
    return [*twice, *(targets - set(ids)), *outside]


def test_what_to_do_says_which_rankings_decide_nothing(root, page):
    told = points(page)
    assert 3 <= len(told) <= 5
    trust = pd.read_parquet(root / "reports/fingerprints/profiled/trust.parquet")
    refused = list(trust["application"][~trust["enough"]])
    assert any("Do not use" in one and escape(refused[0]) in one for one in told)


def test_the_page_refers_to_nothing_outside_itself_and_is_small(page):
    assert faults_of_text(page) == []
    assert len(page.encode()) < 2_000_000


def test_a_second_drawing_gives_the_same_bytes(root, page, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["fingerprints"]) == 0
    assert (root / PAGE).read_text() == page


@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(root, browser):
    assert faults(browser, root / PAGE) == []
    assert len(charts(browser)) >= 6
    assert "Not enough diversity" in browser.find_element("tag name", "body").text
