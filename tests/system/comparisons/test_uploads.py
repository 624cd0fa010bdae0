"""Files that a server compares: the answer of ``perfjudge compare``, and the page that shows it."""

import json
import re
from base64 import b64encode
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from perfjudge_client import Client
from serving.cli import run_command
from serving.comparisons.schemas import CompareAnswer
from serving.http.api import create_app
from serving.http.models import all_models
from tests.asking import ask
from tests.imports import ROOT
from tests.system.browsing import faults, looked_at, requested
from tests.system.comparisons.run_files import named_run, run_file

PATH = "/v1/comparisons/compare"
SAMPLES = ROOT / "docs/samples"
FORMATS = SAMPLES / "formats"
#: Pairs of files by format; a format of several files per run cannot be uploaded.
PAIRS = {
    **{
        base.parent.name: (base, base.with_name(base.name.replace("base", "new")))
        # the first one of a folder counts
        for base in sorted(FORMATS.glob("*/base*"), reverse=True)
        if base.parent.name != "criterion"
    },
    "result-xml": (SAMPLES / "before.xml", SAMPLES / "after.xml"),
}
SIDES = ("baseline", "target", "history")
CI_PAIR = SAMPLES / "ci/base.json", SAMPLES / "ci/new.json"
#: Text that a page must show as it is, or visibly escaped.
EVIL = '<img src=x onerror="document.title=1">\u202e<script>document.title=1</script>'


@pytest.fixture
def uploaded(model_directory):
    """Return what sends files to the endpoint of a server in this process."""
    app = create_app(all_models({"model": str(model_directory)}))

    def send(*sides, **fields):
        content = {side: [*map(file, paths)] for side, paths in zip(SIDES, sides, strict=False)} | fields
        headers = {"content-type": "application/json"}
        request = ("POST", PATH, {"content": json.dumps(content), "headers": headers})
        return ask(app, request, started=True)[0]

    return send


def file(path):
    """Return a file as requests hold it."""
    return {"name": path.name, "content": b64encode(path.read_bytes()).decode()}


@pytest.fixture
def commanded(tmp_path, model_directory, monkeypatch, capfd):
    """Return what compares copies of files by the command line, in a directory with one folder per side."""

    def call(*sides):
        (tmp_path / "copies").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "copies")
        arguments = ["compare", "--json", "--model", str(model_directory)]
        for side, option, paths in zip(SIDES, ("--base", "--target", "--history"), sides, strict=False):
            for number, path in enumerate(paths):
                copy = Path(side, str(number), path.name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
                arguments += [option, str(copy)]
        capfd.readouterr()
        code = run_command(arguments)
        told = capfd.readouterr()
        text = told.out if code == 0 else told.err.removeprefix("perfjudge: ").strip()
        # the endpoint leaves out the number, as names say enough
        text = re.sub(rf"({'|'.join(SIDES)})/\d/", r"\1/", text)
        return json.loads(text) if code == 0 else text

    return call


@pytest.mark.parametrize("name", PAIRS)
def test_files_of_every_format_get_the_answer_of_compare(uploaded, commanded, name):
    baseline, target = PAIRS[name]
    answer = uploaded([baseline], [target])
    assert answer.status_code == 200, answer.text
    assert answer.json() == commanded([baseline], [target])
    # the description has every field
    described = CompareAnswer.model_validate(answer.json()).model_dump(mode="json", exclude_unset=True)
    assert described == answer.json()
    assert described["verdicts"]


@given(
    counts=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 4)),
    factor=st.sampled_from([0.9, 1.0, 1.05, 1.3]),
    left_out=st.sets(st.sampled_from("abcdef"), max_size=2),
    seed=st.integers(0, 99),
)
@settings(max_examples=5, derandomize=True, suppress_health_check=list(HealthCheck))
def test_several_runs_get_the_answer_of_compare(
    uploaded, commanded, tmp_path_factory, counts, factor, left_out, seed
):
    directory, sides = tmp_path_factory.mktemp("runs"), []
    for place, (side, count) in enumerate(zip(SIDES, counts, strict=True)):
        changes = {"scale": {"a": factor}, "left_out": left_out} if side == "target" else {}
        seeds = range(100 * seed + 10 * place, 100 * seed + 10 * place + count)
        sides.append([run_file(directory / f"{side}-{own}.json", seed=own, **changes) for own in seeds])
    assert uploaded(*sides).json() == commanded(*sides)


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0", b"", b'{"results": [', b"hello world\n", None],
    ids=["binary", "empty", "broken JSON", "text", "no common operation"],
)
def test_refusals_have_the_message_of_compare(uploaded, commanded, tmp_path, content):
    baseline = named_run(tmp_path / "before.json", ["one", "two"])
    target = named_run(tmp_path / "after.json", ["another"])
    if content is not None:
        target.write_bytes(content)
    answer = uploaded([baseline], [target])
    assert answer.status_code == 422
    assert answer.json()["detail"] == commanded([baseline], [target])
    assert "/tmp" not in answer.text


@pytest.mark.parametrize("name", ["../x.json", "a/b", "..", "", "x\0.json", "x" * 256, "\ud800", 5])
def test_names_that_are_no_file_names_are_refused(uploaded, tmp_path, name):
    answer = uploaded(baseline=[file(named_run(tmp_path / "run.json", ["one"])) | {"name": name}])
    assert (answer.status_code, "name" in answer.json()["detail"]) in {(422, True), (400, False)}


def test_content_that_is_no_base64_is_refused(uploaded):
    answer = uploaded(baseline=[{"name": "a.json", "content": "{}"}])
    assert answer.status_code == 422
    assert answer.json()["detail"] == 'body: baseline[0].content="{}" is not base64'


def test_html_and_markdown_escape_names_of_files_and_operations(uploaded, tmp_path):
    before = named_run(tmp_path / "before<b>.json", [EVIL, "plain"])
    answer = uploaded([before], [before], forms=["html", "markdown"]).json()
    assert all("\u202e" not in answer[form] and "\\u202e" in answer[form] for form in ("html", "markdown"))
    assert not any(tag in answer["html"] for tag in ("<script", "<img", "<b>.json"))
    assert answer["markdown"] in unescape(answer["html"])


def test_the_client_compares_files_with_markdown(listening):
    answer = Client(listening.url).compare_results(*([path] for path in PAIRS["pytest-benchmark"]))
    assert sum(answer.counts.values()) == len(answer.verdicts) > 0
    assert answer.markdown.startswith("<!-- perfjudge compare")


#: Drops files of these names and contents on the element that a selector finds.
DROP = """
const [selector, files] = arguments, transfer = new DataTransfer();
for (const [name, text, lastModified] of files)
  transfer.items.add(new File([text], name, { lastModified }));
const element = document.querySelector(selector);
for (const type of ["dragenter", "dragover", "drop"])
  element.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: transfer }));
"""


def shown(browser, selector, text=""):
    """Return the first element that a selector finds, once it has the text."""

    def find(_):
        found = browser.find_elements(By.CSS_SELECTOR, selector)
        return next((one for one in found if one.is_displayed() and text in one.text), None)

    # the answer may be replaced meanwhile
    return WebDriverWait(browser, 30, ignored_exceptions=[StaleElementReferenceException]).until(find)


def every(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


@pytest.fixture
def page(listening, browser):
    # of earlier pages
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(listening.url + "/")
    return listening.url


@pytest.mark.browser
def test_two_chosen_files_are_shown_and_copied_as_by_compare(page, browser, commanded):
    for name, path in zip(SIDES, CI_PAIR, strict=False):
        browser.find_element(By.NAME, name).send_keys(str(path))
    shown(browser, "#compare-answer table")
    verdicts = commanded(*([path] for path in CI_PAIR))["verdicts"]
    rows = {
        row.find_element(By.TAG_NAME, "th").text: row.text
        for row in every(browser, "#compare-answer tbody tr")
    }
    plots = every(browser, "#compare-answer svg[role=img]")
    assert len(rows) == len(plots) == len(verdicts)
    for verdict in verdicts:
        row = next(text for name, text in rows.items() if f"/{verdict['operation']}" in name)
        assert verdict["outcome"].replace("_", " ") in row
        assert verdict["reason"] in row
    assert all(plot.get_attribute("aria-label") for plot in plots)
    permissions = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.execute_cdp_cmd("Browser.grantPermissions", permissions)
    shown(browser, "button.copy").send_keys(Keys.ENTER)
    shown(browser, ".copied", "copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied.startswith("<!-- perfjudge compare")
    assert copied == browser.find_element(By.ID, "markdown").get_attribute("value")


@pytest.mark.browser
def test_two_dropped_files_are_ordered_by_their_time(page, browser, tmp_path):
    before, after = run_file(tmp_path / "a.json"), run_file(tmp_path / "b.json", {"a": 1.5}, seed=1)
    files = [["b.json", after.read_text(), 2000], ["a.json", before.read_text(), 1000]]
    browser.execute_script(DROP, "#compare-files > p", files)
    shown(browser, "#compare-answer h3", "baseline/a.json → target/b.json")
    assert every(browser, "#compare-answer tr.regression")
    # by the keyboard: the other way round, what was slower is faster
    browser.find_element(By.NAME, "exchange").send_keys(Keys.ENTER)
    shown(browser, "#compare-answer h3", "baseline/b.json → target/a.json")
    assert every(browser, "#compare-answer tr.improvement")


@pytest.mark.browser
def test_a_refusal_is_shown_beside_the_files(page, browser, commanded, tmp_path):
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for number, path in enumerate(paths, 1):
        path.write_text("hello")
        browser.execute_script(DROP, f"label.drop:nth-of-type({number})", [[path.name, "hello", 1]])
    told = shown(browser, "#compare-problem", "a.json").text
    assert told == commanded(paths[:1], paths[1:])
    limit = browser.find_element(By.ID, "compare-files").get_attribute("data-limit")
    assert int(limit) == 64 * 2**20


@pytest.mark.browser
def test_untrusted_names_stay_text_at_every_width(page, browser, tmp_path):
    for side in ("baseline", "target"):
        run = named_run(tmp_path / f"{side}.json", [EVIL, "x" * 300, "plain"], seed=len(side))
        browser.execute_script(DROP, f"label:has([name={side}])", [["<b>.json", run.read_text(), 1]])
    shown(browser, "#compare-answer table")
    for width in (390, 1280):
        assert looked_at(browser, width) == []
    assert browser.title == "Overview · perfjudge"
    assert not every(browser, "#compare-answer :is(img, script)")
    assert all(PATH in entry["message"] for entry in browser.get_log("browser"))
    assert requested(browser, page) == []


@pytest.mark.browser
def test_a_written_page_shows_the_answer_without_a_server(browser, tmp_path, model_directory, capfd):
    page = tmp_path / "page.html"
    command = ["compare", *CI_PAIR, "--html", page, "--model", model_directory, "--json"]
    assert run_command([*map(str, command)]) == 0
    expected = json.loads(capfd.readouterr().out)
    assert faults(browser, page) == []
    assert len(every(browser, "tbody tr")) == len(expected["verdicts"])
    assert every(browser, "svg[role=img]")
    assert browser.find_element(By.ID, "markdown").get_attribute("value").startswith("<!-- perfjudge")
