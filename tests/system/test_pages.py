"""What a server shows in a real browser, and what the documentation says to paste."""

import re

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from perfjudge_client import Client
from tests.imports import ROOT
from tests.system.browsing import faults, requested
from tests.system.conftest import comparison


@pytest.mark.browser
def test_the_overview_fits_every_width_and_escapes_names(listening, browser):
    evil = "<script>document.title='taken'</script>" * 3
    Client(listening.url).judge_comparisons([comparison(evil, 80.0, benchmark=evil), comparison("plain")])
    assert faults(browser, listening.url + "/") == []
    shown = browser.find_element(By.CSS_SELECTOR, "#recent ~ .box").text
    assert evil in shown
    assert "plain" in shown
    assert browser.title == "Overview · perfjudge"


@pytest.mark.browser
def test_unknown_pages_link_back_at_every_width(listening, browser):
    found = faults(browser, listening.url + "/nowhere")
    # the browser itself tells of the 404
    assert [fault for fault in found if "404" not in fault] == []
    assert browser.find_element(By.CSS_SELECTOR, "main a[href='/']").is_displayed()


@pytest.mark.browser
def test_the_page_check_detects_a_faulty_page(browser, tmp_path):
    page = tmp_path / "page.html"
    tick = '<g id="c-{}tick_{}"><text x="{}" y="40" style="font: 9px sans-serif">{}</text></g>'
    ticks = "".join(tick.format("x", place, 10 + 25 * place, "10,000") for place in range(2))
    page.write_text(
        '<div style="width: 90px; overflow: hidden"><p style="width: 300px">'
        "as the seed says, 1.9e+02 of them all</p></div>"
        f'<figure id="f"><svg class="chart" width="300" viewBox="0 0 300 50"><g id="c-axes_1">{ticks}</g>'
        '<text x="280" y="20" style="font: 9px sans-serif">cut off</text>'
        '<text x="50" y="20" style="font: 5px sans-serif">tiny</text></svg></figure>'
        "<p>seed 17 is a random number</p>"
    )
    assert sorted(faults(browser, page, widths=(1400,))) == [
        "10,000 lies on its neighbour in FIGURE f at 1400",
        "DIV cuts off 210 pixels at 1400",
        "cut off is cut off in FIGURE f at 1400",
        "shows 'as the seed says, 1.9'",
        "shows 'as the seed says, 1.9e+02 of them '",
        "tiny has 5.0 pixels in FIGURE f at 1400",
    ]


@pytest.mark.browser
def test_the_interface_page_requests_only_its_own_server(listening, browser):
    assert faults(browser, listening.url + "/docs", unreadable=()) == []
    wait = WebDriverWait(browser, 30)

    def find(selector):
        return wait.until(lambda driver: driver.find_element(By.CSS_SELECTOR, selector))

    find(".opblock-post .opblock-summary-control").click()
    for button in (".try-out__btn", "button.execute"):
        browser.execute_script("arguments[0].click()", find(button))
    assert find(".live-responses-table tbody .response-col_status").text.split()[0] == "200"
    assert '"verdicts"' in find(".live-responses-table tbody .highlight-code").text
    assert requested(browser, listening.url) == []


def test_the_five_lines_of_the_documentation_print_verdicts(listening, capsys):
    text = (ROOT / "docs/client.md").read_text()
    block = re.search(r"    from perfjudge_client.*?\n\n(?=\S)", text, re.DOTALL)[0]
    lines = block.replace("\n    ", "\n").strip()
    lines = lines.replace("http://127.0.0.1:8000", listening.url)
    assert len([line for line in lines.splitlines() if line]) <= 5
    exec(lines, {"comparisons": [comparison("same"), comparison("slow", 80.0)]})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["pass", "same"], ["fail", "slow"],
    ]  # fmt: skip
