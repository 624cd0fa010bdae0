import re

import pandas as pd
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from serving.report import main
from serving.reports.rendering import script
from tests.system.browsing import charts, faults, points, widen
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
        table = re.search(rf'<table id="opponents-{split}"[^>]*>.*?</table>', text, re.DOTALL).group()
        assert table.count("<tr class=") == 7
        assert len(re.findall(r'<tr class="model champion">', table)) == 1
        assert "data/raw/measured" in table
        assert "seed 20261121" in table
        assert "average precision: the mean over folds" in table
        # all other columns of rules have a figure
        assert table.count("\N{EN DASH}") == 2


def test_what_to_do_names_labels_to_look_at_and_where_the_model_errs(usual):
    at, text = usual
    told = points(text)
    assert 3 <= len(told) <= 5
    verdicts = pd.read_parquet(at / "reports/comparisons/evaluated/oof.parquet")
    champion = re.search(r"champion</dt><dd>([\w-]+)<", text).group(1)
    own = verdicts[(verdicts["split"] == "grouped") & (verdicts["entry"] == champion)]
    wrong = (own["verdict"] != own["status"]).sum()
    assert any(f"of the {wrong} wrong verdicts" in one for one in told)
    assert any("labels suspects" in one for one in told) == ("No label is in doubt" not in text)


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
    assert text.count("<script") == text.count(f"<script>{script()}</script>") == 1
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
    assert "Every verdict of" in text
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
        assert f"Figure {number} of the scheduler thesis is not drawn." in text
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


def firsts(browser):
    """Return what stands in the first and the third column of the table of models and rules."""
    rows = browser.find_elements("css selector", "#opponents-grouped tbody tr")
    return [
        (row.find_element("tag name", "th").text, row.find_element("css selector", "td + td").text)
        for row in rows
    ]


@pytest.mark.browser
def test_tables_are_sorted_by_mouse_by_keyboard_and_on_a_telephone(usual, browser):
    at, _ = usual
    widen(browser, 1400)
    browser.get((at / PAGE).as_uri())
    before = firsts(browser)
    accuracy = browser.find_element("css selector", "#opponents-grouped th:nth-child(3)")
    accuracy.find_element("tag name", "button").click()
    best_first = [float(told.split()[0]) for _, told in firsts(browser)]
    assert best_first == sorted(best_first, reverse=True)
    assert accuracy.get_attribute("aria-sort") == "descending"
    accuracy.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert [float(told.split()[0]) for _, told in firsts(browser)] == best_first[::-1]
    entry = browser.find_element("css selector", "#opponents-grouped th:first-child button")
    entry.send_keys(Keys.SPACE)
    names = [name for name, _ in firsts(browser)]
    assert names == sorted(names)
    assert accuracy.get_attribute("aria-sort") is None
    # what has no average precision comes last, whichever way
    last = browser.find_element("css selector", "#opponents-grouped th:last-child button")
    for _ in range(2):
        last.click()
        assert (
            browser.find_element("css selector", "#opponents-grouped tbody tr:last-child td:last-child").text
            == "\N{EN DASH}"
        )
    widen(browser, 390)
    assert not accuracy.is_displayed()
    choice = Select(browser.find_element("css selector", ".sort-by select"))
    choice.select_by_visible_text("entry, ascending")
    assert [name for name, _ in firsts(browser)] == names
    choice.select_by_visible_text("as it stands")
    assert {name for name, _ in firsts(browser)} == {name for name, _ in before}


@pytest.mark.browser
def test_whoever_points_at_a_mark_is_told_its_value(usual, browser):
    at, _ = usual
    widen(browser, 1400)
    browser.get((at / PAGE).as_uri())
    box = browser.find_element("css selector", "#figure-6-9 .on-wide .spots rect")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    ActionChains(browser).move_to_element(box).move_by_offset(1, 0).perform()
    tip = browser.find_element("css selector", ".tip")
    assert re.search(r"median .* %, quartiles .* %", tip.text)
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()
    # as files of the pipeline they need no script for it
    assert "<title>" in (at / PAGE).read_text().partition("<body>")[2]


@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(usual, browser):
    at, _ = usual
    assert faults(browser, at / PAGE) == []
    assert len(charts(browser)) >= 8
