"""The documentation as a site: links lead somewhere, nothing is left out, nothing comes from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pages.documents import CARDS, render_cards
from tests.imports import ROOT
from tests.system.browsing import requested

RESULTS = ROOT / "docs/results"
#: An address that a browser loads by itself, not one to be clicked.
LOADED = re.compile(r'<(?:script|img|iframe|source|video|link)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = tmp_path_factory.mktemp("site")
    command = [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--site-dir", made]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def test_the_site_loads_nothing_from_elsewhere(site):
    pages, styles = ([*site.rglob(f"*.{suffix}")] for suffix in ("html", "css"))
    assert len(pages) > 40
    assert [(path.name, url) for path in pages for url in LOADED.findall(path.read_text())] == []
    far = re.compile(r"url\(['\"]?(https?:)?//")
    assert [path.name for path in styles if far.search(path.read_text())] == []


@pytest.mark.browser
def test_pages_fit_a_telephone_without_a_network(site, browser):
    browser.set_window_size(500, 900)
    browser.get_log("performance")
    for name in ("index", "cli", "results/index", "cards", "tutorials/first-verdict"):
        browser.get((site / f"{name}.html").as_uri())
        wider = "return document.documentElement.scrollWidth - window.innerWidth"
        assert browser.execute_script(wider) <= 0, name
    assert requested(browser) == []


def test_results_index_has_one_line_and_figure_per_page():
    index = (RESULTS / "index.md").read_text()
    listed = dict(re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \| (.*) \|$", index, re.MULTILINE))
    assert set(listed) == {path.stem for path in RESULTS.glob("*.md")} - {"index"}
    assert {name: row for name, row in listed.items() if "" in map(str.strip, row.split("|"))} == {}
    assert {name for name, row in listed.items() if not re.search(r"\d", row.split("|")[-1])} <= {
        "fingerprints-seed"
    }


def test_model_cards_agree_with_the_figures():
    assert render_cards(ROOT) == (ROOT / CARDS).read_text(), "python -m benchmarks.pages --documents"
