import re

import pandas as pd
import pytest

from serving.report import main
from tests.system.browsing import faults
from tests.system.comparisons.inputs import write_inputs, write_tree

PAGE = "reports/comparisons/index.html"


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The page of the usual inputs, as path and text; the tests that use it only read."""
    root = tmp_path_factory.mktemp("usual")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        text = page(root)
    return root, text


def page(root, **inputs):
    write_inputs(root, **inputs)
    assert main(["comparisons"]) == 0
    return (root / PAGE).read_text()


def test_the_page_says_in_words_how_often_the_champion_errs(usual):
    at, text = usual
    verdicts = pd.read_parquet(at / "reports/comparisons/evaluated/oof.parquet")
    champion = re.search(r"champion</dt><dd>([\w-]+)<", text).group(1)
    own = verdicts[(verdicts["split"] == "grouped") & (verdicts["entry"] == champion)]
    fails, passes = (own[own["status"] == status] for status in ("fail", "pass"))
    missed, alarms = (fails["verdict"] == "pass").sum(), (passes["verdict"] == "fail").sum()
    assert f"{champion} misses {missed} of {len(fails)} regressions" in text
    assert f"{alarms} false alarms in {len(passes)} comparisons without one" in text


def test_both_tables_hold_every_entry_and_mark_the_champion_once(usual):
    _, text = usual
    for split in ("grouped", "stratified"):
        table = re.search(rf'<table id="opponents-{split}">.*?</table>', text, re.DOTALL).group()
        assert table.count("<tr class=") == 7
        assert len(re.findall(r'<tr class="model champion">', table)) == 1
        assert "data/raw/measured" in table
        assert "seed 20261121" in table
        assert "average precision: the mean over folds" in table
        # all other columns of rules have a figure
        assert table.count("\N{EN DASH}") == 2


def test_two_runs_give_identical_bytes(at):
    write_inputs(at, operations=5, each=4)
    write_tree(at, pd.read_parquet(at / "data/processed/comparisons/features.parquet"))
    pages = []
    for _ in range(2):
        assert main(["comparisons"]) == 0
        pages.append((at / PAGE).read_bytes())
    assert pages[0] == pages[1]


def test_the_page_refers_to_nothing_outside_itself(usual):
    _, text = usual
    assert re.findall(r"https?://[^\s\"')]+", text) == []
    assert "<script" not in text
    assert "@import" not in text
    assert {target[0] for target in re.findall(r'(?:href|src)="([^"]*)"', text) if target != "data:,"} == {
        "#"
    }


def test_every_anchor_and_every_id_in_the_page_is_there_exactly_once(usual):
    _, text = usual
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert targets <= set(ids)
    assert {"opponents", "mistake-1", "figure-6-9"} <= set(ids)


def test_names_from_the_data_are_escaped(usual):
    _, text = usual
    assert "own &lt;&amp;&gt; &#39;loads&#39;" in text
    assert "own <&>" not in text


def test_without_mistakes_the_page_says_so(at):
    text = page(at, perfect=True)
    assert "There are none: every verdict of" in text
    assert 'id="mistake-1"' not in text


@pytest.mark.parametrize(
    "inputs", [{"threads": (1,)}, {"summaries": True}], ids=["one-configuration", "summaries"]
)
def test_mistakes_are_drawn_from_one_configuration_and_from_summaries(at, inputs):
    text = page(at, **inputs)
    assert 'id="mistake-1"' in text
    assert "Box plots of baseline and target by threads" in text


def test_missing_curves_and_a_missing_tree_are_named_not_drawn(at):
    write_inputs(at)
    (at / "reports/comparisons/evaluated/curves.parquet").unlink()
    assert main(["comparisons"]) == 0
    text = (at / PAGE).read_text()
    for number in ("6.6", "6.7", "6.8"):
        assert f"Figure {number} of the seed is not drawn." in text
    assert 'id="figure-6-4"' in text


def test_missing_metrics_are_told_in_one_line_and_leave_no_page(at, capsys):
    write_inputs(at)
    (at / "reports/comparisons/metrics.json").unlink()
    assert main(["comparisons"]) == 2
    error = capsys.readouterr().err
    assert error == "reports/comparisons/metrics.json: No such file or directory\n"
    assert not (at / PAGE).exists()


def test_an_unknown_family_is_a_usage_error(at, capsys):
    assert main(["matrixes"]) == 2
    assert capsys.readouterr().err.startswith("usage: python -m serving.report {comparisons,")


@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(usual, browser):
    at, _ = usual
    assert faults(browser, at / PAGE) == []
    assert len(browser.find_elements("css selector", "svg[role=img]")) >= 8
