"""The page of a timeline in a real browser."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from serving.comparisons.timelines.assembled import Change
from serving.comparisons.timelines.page import describe_now, index_page, list_report, timeline_page
from tests.system.browsing import faults, on_paper, requested, widen
from tests.timeline_reports import heat, named, renamed, simulated, versions

pytestmark = pytest.mark.browser
WIDTHS = (390, 1400)
EVIL = "</script><script>document.title='taken'</script>\"'<img src=x onerror=\"document.title='taken'\">"
#: What is cut off; tables of medians scroll in a box of their own.
CUT_OFF = """
return [...document.querySelectorAll("main *:not(select, input, option)")]
  .filter(one => !one.closest("svg, .visually-hidden, .scrolled"))
  .filter(one => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1)
  .filter(one => getComputedStyle(one).display !== "inline")
  .map(one => `${one.tagName}.${one.className}: ${one.scrollWidth} in ${one.clientWidth}`)
"""
TIP_INSIDE = """
const tip = document.getElementById("tip").getBoundingClientRect();
return tip.left >= 0 && tip.top >= 0 && tip.right <= innerWidth && tip.bottom <= innerHeight
"""
#: The medians that are drawn, in the unit of the axis, and how much of it a pixel is.
MEDIANS = """
const svg = arguments[0].querySelector("svg.timeline");
const ticks = [...svg.querySelectorAll("text.tick.y")]
  .map(one => [Number(one.dataset.value), Number(one.getAttribute("y")) - 4]);
const [[low, from], [high, to]] = [ticks[0], ticks[ticks.length - 1]];
const pixel = (high - low) / (to - from);
const drawn = [...svg.querySelectorAll("path.median")]
  .flatMap(one => [...one.getAttribute("d").matchAll(/M([\\d.]+) ([\\d.]+)/g)])
  .map(one => [Number(one[1]), low + (Number(one[2]) - from) * pixel]);
return [drawn.sort((one, other) => one[0] - other[0]).map(one => one[1]), Math.abs(pixel)];
"""
PIXEL = """
const context = document.querySelector("canvas").getContext("2d");
return [...context.getImageData(arguments[0], arguments[1], 1, 1).data];
"""


@pytest.fixture(scope="module")
def report():
    return simulated(200, 60, 4)


@pytest.fixture(scope="module")
def file(report, tmp_path_factory):
    return written(report, tmp_path_factory.mktemp("timelines"))


def written(report, directory):
    path = directory / "timeline.html"
    path.write_text(timeline_page(report), "utf-8")
    return path


def opened(browser, path, width=1400):
    widen(browser, width)
    browser.get("about:blank")
    browser.get(path.as_uri())


def found(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def every(part, selector):
    return part.find_elements(By.CSS_SELECTOR, selector)


def seen(browser, selector, content):
    """Bring a part of the page into sight, and return it once it has its content."""
    part = found(browser, selector)
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", part)
    WebDriverWait(browser, 10).until(lambda _: every(part, content))
    return part


def texts(browser, selector):
    """Return what all elements say, read at once."""
    script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
    return browser.execute_script(script, selector)


def drawn(browser, number):
    return seen(browser, f"#op-{number}", "svg.timeline")


def table_of(browser):
    return seen(browser, ".medians", "td")


def told(browser):
    return found(browser, "#announcement").get_attribute("textContent")


def test_200_versions_of_60_operations_fit_every_width(file, browser):
    assert faults(browser, file, widths=WIDTHS) == []
    for width in WIDTHS:
        opened(browser, file, width=width)
        drawn(browser, 5)
        table = table_of(browser)
        assert browser.execute_script(CUT_OFF) == []
    assert len(every(table, "td")) > 4000
    assert browser.execute_script("return document.querySelectorAll('*').length") < 30_000


def test_controls_choose_the_configuration_of_one_or_all_charts(file, report, browser):
    opened(browser, file)
    for number in (5, 20):
        expect_medians(browser, report, number, 3)
    Select(found(browser, "#op-5 select")).select_by_visible_text("8")
    expect_medians(browser, report, 5, 1)
    expect_medians(browser, report, 20, 3)
    Select(found(browser, "#threads")).select_by_visible_text("1")
    for number in (5, 20):
        expect_medians(browser, report, number, 0)
    Select(found(browser, "#since")).select_by_visible_text("the last 20")
    expect_medians(browser, report, 5, 0, since=180)


def expect_medians(browser, report, number, chosen, since=0):
    """The medians that are drawn are those of the report, as precise as pixels can be."""
    heights, pixel = browser.execute_script(MEDIANS, drawn(browser, number))
    medians = report.operations[number].five[chosen, since:, 2]
    np.testing.assert_allclose(heights, medians[np.isfinite(medians)], atol=0.02 * pixel, rtol=1e-6)


def test_the_keyboard_moves_over_the_versions_of_a_chart(file, report, browser):
    opened(browser, file)
    operation, figure = report.operations[5], drawn(browser, 5)
    assert len(every(figure, "[tabindex]")) == 1
    found(figure, "select").send_keys(Keys.TAB)
    keys = browser.switch_to.active_element
    assert keys.get_attribute("class") == "plot"
    assert report.versions[0].name in told(browser)
    keys.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert told(browser).startswith(report.versions[2].name + ".")
    low, q1, _, q3, high = operation.five[3, 2]
    assert f"Quartiles {q1:,.0f} and {q3:,.0f}. Minimum {low:,.0f}, maximum {high:,.0f}" in told(browser)
    keys.send_keys(Keys.END)
    assert told(browser).startswith(report.versions[-1].name)
    keys.send_keys(Keys.HOME, Keys.ARROW_UP)
    began = int(np.flatnonzero(operation.against_before == 3)[0])
    begun = (report.versions[began].name, "fail, began here", "a regression with 99.7")
    assert all(words in told(browser) for words in (*begun, *operation.words[began]))
    loss = 1 - operation.five[3, began, 2] / operation.five[3, 0, 2]
    assert f"{100 * loss:.1f}\u00a0% worse than the baseline" in told(browser)
    keys.send_keys(Keys.ARROW_UP)
    assert "began here" not in told(browser)
    assert "Beside the baseline: fail" in found(browser, "#tip").text
    keys.send_keys(Keys.ESCAPE)
    assert not found(browser, "#tip").is_displayed()


def test_judged_versions_are_marked_in_chart_and_table(file, report, browser):
    opened(browser, file)
    drawn(browser, 5)
    name = report.versions[int(np.flatnonzero(report.operations[5].against_before == 3)[0])].name
    titles = texts(browser, "#op-5 svg .fail title")
    assert f"{name}: fail beside the versions before, began here" in titles
    assert sum("fail beside the baseline" in title for title in titles) == 6
    assert "crept 7.0 % worse" in found(drawn(browser, 7), "svg text.share").text
    table_of(browser)
    (place,) = (at for at, row in enumerate(texts(browser, ".medians tbody th")) if name in row)
    row = every(browser, ".medians tbody tr")[place]
    assert every(row, "td")[5].get_attribute("textContent").endswith("\u25bc fail, began here")
    assert found(row, "a").get_attribute("href").endswith(f"/{name}/result%20%231.xml")
    assert found(browser, ".medians td").text.startswith(f"{report.operations[0].five[3, 0, 2]:,.0f}")


def test_a_missing_result_is_a_gap_with_a_text(browser, tmp_path):
    report = simulated(12, 1, 2, heats=0)
    five = report.operations[0].five.copy()
    five[1, 4] = np.nan
    five[0] = np.nan
    opened(browser, written(renamed(report, five=five), tmp_path))
    figure = drawn(browser, 0)
    assert len(browser.execute_script(MEDIANS, figure)[0]) == 11
    found(figure, ".plot").send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * 4)
    assert told(browser).startswith(f"{report.versions[4].name}. ")
    assert "No result (threads: 8)" in told(browser)
    Select(found(figure, "select")).select_by_index(0)
    assert "No result (threads: 1)" in figure.text


def test_the_filter_selects_by_name_marks_and_instability(file, report, browser):
    def left():
        return {int(one.get_attribute("id")[3:]) for one in every(browser, "figure.operation:not([hidden])")}

    def choose(value):
        browser.execute_script("arguments[0].click()", found(browser, f"input[name=which][value={value}]"))

    opened(browser, file)
    table_of(browser)
    browser.execute_script("scrollTo({top: 0, behavior: 'instant'})")
    found(browser, "#named").send_keys("FT_")
    assert left() == {number for number in range(60) if named(number)[1].startswith("ft_")}
    assert found(browser, "#shown").text.startswith(f"{len(left())} of 60 operations")
    assert len(every(table_of(browser), "thead th")) == 1 + len(left())
    found(browser, "#named").clear()
    choose("unstable")
    assert left() == {number for number, one in enumerate(report.operations) if one.unstable}
    choose("marked")
    judged = [one.changes or (one.against_baseline > 1).any() for one in report.operations]
    assert left() == {number for number, marked in enumerate(judged) if marked}
    hidden = min(set(range(60)) - left())
    browser.execute_script(f"location.hash = 'op-{hidden}'")
    WebDriverWait(browser, 10).until(lambda _: hidden in left())


def test_a_control_chooses_the_operation_on_a_telephone(file, report, browser):
    opened(browser, file, width=390)
    table = table_of(browser)
    assert len(every(table, "thead th")) == 2
    Select(found(table, "label select")).select_by_visible_text("lu_C_x")
    assert found(table, "td").text.startswith(f"{report.operations[5].five[3, 0, 2]:,.0f}")


def test_names_neither_run_nor_break_the_page(browser, tmp_path):
    first, second, third, *rest = versions(30)
    long, arabic = "kernel-" + "x" * 300, "\u0625\u0635\u062f\u0627\u0631 5.4 \u202e evil"
    named_versions = (
        replace(first, name=EVIL, source="javascript:alert(1)"), replace(second, name=long),
        replace(third, name=arabic, source=EVIL), *rest,
    )  # fmt: skip
    report = replace(simulated(30, 23, 2), versions=named_versions, machine="", title=EVIL, judged_by="",
                     rules=(("baseline", EVIL, EVIL * 4),), notes=(EVIL,))  # fmt: skip
    words = {0: (EVIL,), 9: (EVIL,)}
    report = renamed(report, benchmark=EVIL, operation=EVIL + "y" * 300, unit=EVIL, words=words)
    odd = replace(heat(3, 10), title=EVIL, rows=(EVIL, long, arabic), unit=EVIL, source="//elsewhere/x")
    path = written(replace(report, heats=(odd,)), tmp_path)
    assert faults(browser, path, widths=WIDTHS) == []
    for width in WIDTHS:
        opened(browser, path, width=width)
        figure = drawn(browser, 0)
        table_of(browser)
        seen(browser, ".heat", "svg")
        assert browser.execute_script(CUT_OFF) == []
        found(figure, ".plot").send_keys(Keys.HOME)
        WebDriverWait(browser, 10).until(lambda _: EVIL in found(browser, "#tip").text)
        assert browser.execute_script(TIP_INSIDE)
    assert browser.title.startswith("</script>")
    assert all(one.get_attribute("href").startswith("file:///") for one in every(browser, "a"))
    assert not every(browser, "main img")
    assert browser.get_log("browser") == requested(browser) == []


def test_the_worst_of_the_filtered_charts_are_printed(browser, tmp_path):
    def printed_pages():
        pdf = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.7})["data"]
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(pdf)))

    opened(browser, written(simulated(30, 70, 2, heats=0), tmp_path))
    assert "Printed are 60 of 70 operations, the worst first" in found(browser, "#printed").text
    worst = re.search(r"op-(\d+)", found(browser, ".states a").get_attribute("href"))[1]
    pages = printed_pages()
    assert 15 <= pages <= 45
    assert len(every(browser, "figure:not(.unprinted) svg.timeline")) == 60
    assert "unprinted" not in found(browser, f"#op-{worst}").get_attribute("class")
    found(browser, "#named").send_keys("ft_")
    assert printed_pages() < pages / 2


def test_only_charts_that_are_printed_are_seen_on_paper(browser, tmp_path):
    def seen_charts():
        return [one for one in every(browser, "figure.operation") if one.is_displayed()]

    opened(browser, written(simulated(30, 70, 2, heats=0), tmp_path))
    assert len(seen_charts()) == 70
    with on_paper(browser):
        assert len(seen_charts()) == 60
    # a chart beyond the first 60 is printed where the filter hides the others
    left_out = found(browser, "figure.unprinted")
    found(browser, "#named").send_keys(every(left_out, "h3")[0].text)
    assert left_out in (on_screen := seen_charts())
    with on_paper(browser):
        assert seen_charts() == on_screen
        assert every(left_out, "svg.timeline")


def test_a_heat_map_supports_text_and_keyboard(browser, tmp_path):
    report = replace(simulated(12, 2, 1, heats=0), heats=(heat(),))
    opened(browser, written(report, tmp_path))
    figure = seen(browser, ".heat", "canvas")
    values = report.heats[0].values
    dark, light = (np.unravel_index(at, values.shape) for at in (np.nanargmin(values), np.nanargmax(values)))
    assert browser.execute_script(PIXEL, int(dark[1]), int(dark[0]))[2] < 100
    assert browser.execute_script(PIXEL, int(light[1]), int(light[0]))[0] > 200
    assert browser.execute_script(PIXEL, 20, 5)[3] == 0
    found(figure, ".plot").send_keys(*[Keys.ARROW_DOWN] * 5, *[Keys.ARROW_RIGHT] * 20)
    assert told(browser) == "CPU 5. 20.00 seconds. Not known"
    assert "24 rows over 109.0 seconds" in figure.text


def test_without_scripts_states_and_changes_are_listed(browser, file, report):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, file, width=390)
        text = found(browser, "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "need JavaScript" in text
    assert "7 of 60 operations are worse now" in text
    worst = min(report.operations, key=lambda one: one.state.rank)
    assert describe_now(worst.state) in text.replace(" %", "\N{NO-BREAK SPACE}%")
    assert report.versions[report.changes[0].first].name in text
    assert "show\nall" not in text


def test_the_list_of_timelines_fits_and_links_to_them(browser, tmp_path):
    quiet, evil = simulated(20, 2, 1, heats=0), replace(simulated(20, 8, 1, heats=0), title=EVIL, machine="")
    path = tmp_path / "index.html"
    listed = [list_report(quiet, "a b/quiet?.html"), list_report(evil, "x.html")]
    path.write_text(index_page(listed), "utf-8")
    assert faults(browser, path, widths=WIDTHS) == []
    links = [one.get_attribute("href") for one in every(browser, "tbody a")]
    assert [link.rpartition(tmp_path.name)[2] for link in links] == ["/x.html", "/a%20b/quiet%3F.html"]


def test_a_change_at_other_threads_is_dashed(browser, tmp_path):
    report = simulated(30, 1, 2, heats=0)
    change = Change("drop", 10, 10, -0.1, report.operations[0].threads[0])
    opened(browser, written(renamed(report, changes=(change,)), tmp_path))
    figure = drawn(browser, 0)
    assert every(figure, ".bracket.worse.other")
    Select(found(figure, "select")).select_by_index(0)
    assert not every(figure, ".bracket.worse.other")
