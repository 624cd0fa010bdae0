"""Comparisons are labelled in a real browser, and what was said arrives in the store."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from data.comparisons.labels.database import LABELS
from data.comparisons.labels.label_store import LabelStore
from data.comparisons.tables import ComparisonTables
from serving.comparisons.labelling.pool import key_of
from serving.comparisons.labels.review import LabelCandidates
from serving.comparisons.model import load_judge
from tests.comparison_rows import compared, result
from tests.system.browsing import faults
from tests.system.conftest import Listening

pytestmark = pytest.mark.browser
PASS, FAIL = (f".choice[data-status={status}]" for status in ("pass", "fail"))
VERSIONS = [f"4.18.0-{number}.el8" for number in (80, 107, 120, 147, 151)]
EVIL, LONG = "<script>document.title='taken'</script>", "long_" * 60
NAS = ("bt", "cg", "ep", "ft", "is", "lu", "mg")
BT = f"bt_A_x/{VERSIONS[1]}"
OPERATIONS = [*(f"{name}_{size}_x" for name in NAS for size in "AC"), EVIL, LONG]


def tables():
    """Every operation in five versions at three numbers of threads, each version beside the one before."""
    random, results, comparisons = np.random.default_rng(3), [], []
    about = {"benchmark": "NASParallel", "machine": "gauss <1>"}
    for operation in OPERATIONS:
        level = 1000.0
        for order, version in enumerate(VERSIONS):
            level *= 0.85 if random.random() < 0.2 else 1.0
            for threads in (1, 8, 48):
                series = {"series_id": f"{operation}/{threads}", "threads": threads, "version": version}
                further = about | series | {"unit": "Mop/s", "better": "higher"}
                values = level * threads * random.normal(1, 0.015, 6)
                results += [result(operation, order, value, **further) for value in values]
            if order:
                sides = [(one, one) for one in (order - 1, order)]
                comparisons.append(compared(f"{operation}/{version}", operation, *sides, **about))
    return ComparisonTables.from_rows(results, comparisons, None)


NAMES = {key_of(name): name for name in tables().comparisons["comparison_id"]}


class Labelled:
    """A server that offers comparisons, and what its store says of them."""

    def __init__(self, directory, model):
        self.source, self.model, self.file = directory / "comparisons", model, directory / "labels.db"
        tables().write(self.source)
        self.address = f"sqlite:///{self.file}"
        offered = ("--comparisons", str(self.source), "--label-rate", "5000")
        self.server = Listening("--model", str(model), "--labels", self.address, *offered)
        self.url = self.server.url

    def history(self, operation, version=VERSIONS[1]):
        labels = httpx.get(f"{self.url}/v1/labels/{operation}/{version}").json()["history"]
        return [(one["labelled_by"], one["status"], one["saw_verdict"]) for one in labels]

    def current(self):
        labels = httpx.get(f"{self.url}/v1/labels").json()["labels"]
        return {one["comparison_id"]: one["status"] for one in labels}

    def report(self, version):
        """The address of the report whose target is that version."""
        page = httpx.get(f"{self.url}/comparisons", params={"find": version, "show": "all"}).text
        link = next(line for line in page.splitlines() if f"→ {version}<" in line)
        return self.url + link.split('href="')[1].split('"')[0]

    def expected(self):
        """What is to be labelled first by the labels that there are."""
        with closing(LabelStore(self.address)) as store:
            given, read = store.current_labels(), ComparisonTables.read(self.source)
        known = LabelCandidates.from_tables(read, load_judge(str(self.model)))
        return known.ordered_identifiers(pd.concat([read.labels, given]), "majority")

    def queue(self, person, **params):
        cookies = {"perfjudge.name": person}
        return httpx.get(f"{self.url}/comparisons/queue", params=params, cookies=cookies).json()

    def order(self, person, labels):
        """What is to be labelled first, once it is computed from so many labels."""
        found = self.queue(person, anew="")
        return found.get("learnt") == labels and [NAMES[one["comparison"]] for one in found["comparisons"]]

    def emptied(self):
        """Forget all labels, which takes some force."""
        if self.file.exists():
            with closing(sqlite3.connect(self.file)) as connection, connection:
                guards = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                for (name,) in connection.execute(guards).fetchall():
                    connection.execute(f"DROP TRIGGER {name}")
                connection.execute(f"DELETE FROM {LABELS.name}")


@pytest.fixture(scope="module")
def served(model_directory, tmp_path_factory):
    labelled = Labelled(tmp_path_factory.mktemp("labelling"), model_directory)
    # a server knows what it offers only once somebody has asked
    assert labelled.history("bt_A_x") == []
    yield labelled
    labelled.server.stop()


def introduce(served, browser):
    """Open the pages as anna, whom nobody has been before; no label is there, and nobody asks for a name."""
    served.emptied()
    browser.get(f"{served.url}/comparisons")
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.delete_all_cookies()
    browser.execute_script("document.cookie = 'perfjudge.name=anna; path=/comparisons'")


@pytest.fixture
def opened(served, browser):
    """A report, opened by anna."""
    introduce(served, browser)
    browser.get(served.report(VERSIONS[1]))
    return browser


@pytest.fixture
def one_by_one(served, browser):
    """The page that shows anna one comparison after the other."""
    introduce(served, browser)
    browser.get(f"{served.url}/comparisons/next")
    return browser


def press(browser, key):
    ActionChains(browser, duration=0).send_keys(key).perform()


def everything_shown(browser):
    """Open the page again with versions, verdicts and all labels."""
    clicked(browser, browser.find_element(By.ID, "hide"))
    shown = "return document.getElementById('labelling')?.dataset.seesAll"
    wait(browser).until(lambda driver: driver.execute_script(shown) is not None)


def row(browser, operation):
    rows = browser.find_elements(By.CSS_SELECTOR, "tr.one")
    return next(one for one in rows if one.get_attribute("data-name") == operation)


def status(browser, operation):
    return row(browser, operation).find_element(By.CSS_SELECTOR, ".status").text


def verdict(browser, operation):
    return row(browser, operation).find_element(By.CSS_SELECTOR, ".of-model").text


def wait(browser):
    return WebDriverWait(browser, 20, poll_frequency=0.02)


def all_kept(browser):
    # on a busy machine, a click may still be on its way to the page
    browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
    wait(browser).until(lambda driver: driver.execute_script("return labelling.settled()"))


def click(browser, operation, what):
    clicked(browser, row(browser, operation).find_element(By.CSS_SELECTOR, what))


def clicked(browser, element):
    """Click where a person would have scrolled to; pages scroll smoothly."""
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def test_labels_given_by_mouse_are_kept_and_shown(served, opened):
    click(opened, "bt_A_x", FAIL)
    click(opened, "cg_A_x", PASS)
    all_kept(opened)
    assert served.current() == {BT: "fail", f"cg_A_x/{VERSIONS[1]}": "pass"}
    opened.refresh()
    assert (status(opened, "bt_A_x"), status(opened, "cg_A_x")) == ("fail anna", "pass anna")
    click(opened, "cg_A_x", ".withdraw")
    all_kept(opened)
    assert served.current() == {BT: "fail"}
    assert [said for _, said, _ in served.history("cg_A_x")] == ["pass", None]


def test_keys_label_the_current_row_only_outside_of_fields(served, opened):
    for key in "pjfj?f":
        press(opened, key)
    opened.find_element(By.CSS_SELECTOR, "#help button").click()
    opened.find_element(By.ID, "filter").send_keys("f")
    all_kept(opened)
    assert served.current() == {f"{EVIL}/{VERSIONS[1]}": "fail"}
    opened.find_element(By.TAG_NAME, "body").click()
    message = opened.find_element(By.ID, "message")
    wait(opened).until(lambda _: "the model says" in message.text)
    assert message.text.startswith(f"labelled fail: {EVIL} (undo: u)")


def test_undo_reverts_labels_on_every_page_of_a_session(served, opened):
    click(opened, "bt_A_x", FAIL)
    click(opened, "bt_A_x", PASS)
    all_kept(opened)
    opened.get(served.report(VERSIONS[2]))
    press(opened, "uu")
    all_kept(opened)
    assert [said for _, said, _ in served.history("bt_A_x")] == ["fail", "pass", "fail", None]
    press(opened, "u")
    assert opened.find_element(By.ID, "message").text == "there is nothing to undo"


def test_verdict_and_versions_appear_only_after_the_choice(served, one_by_one):
    first, verdict = shown(one_by_one), (By.CSS_SELECTOR, "#stage .verdict")
    assert one_by_one.find_elements(*verdict) == []
    press(one_by_one, "f")
    word = wait(one_by_one).until(lambda driver: driver.find_element(*verdict)).text
    all_kept(one_by_one)
    assert shown(one_by_one) == first
    assert first.rsplit("/", 1)[1] in one_by_one.find_element(By.CSS_SELECTOR, "#stage .where").text
    assert f"(undo: u); the model says {word}" in one_by_one.find_element(By.ID, "message").text
    press(one_by_one, Keys.ENTER)
    shown(one_by_one, first)
    assert one_by_one.find_elements(*verdict) == []
    # who sees everything beforehand goes on at once
    everything_shown(one_by_one)
    second = shown(one_by_one)
    press(one_by_one, "p")
    shown(one_by_one, second)
    all_kept(one_by_one)
    assert served.current() == {first: "fail", second: "pass"}


def test_cannot_tell_hides_from_one_annotator_until_undone(served, opened):
    click(opened, "bt_A_x", "[data-status=cannot_tell]")
    all_kept(opened)
    contents = httpx.get(f"{served.url}/comparisons").text
    assert "0 labels on this server, and “cannot tell” 1 time" in contents
    assert "0 <small>and 1 cannot tell</small>" in contents
    assert [BT in served.order(person, 0) for person in ("anna", "bob")] == [False, True]
    press(opened, "u")
    all_kept(opened)
    assert BT in served.order("anna", 0)


KEYS = st.lists(st.sampled_from("pfcujk"), min_size=4, max_size=12).map("".join)
PAGES = {"/comparisons/next": "#stage article", "report": "tr.one.current"}
#: What a page shows of every comparison that is on it.
STATE = """
return [...document.querySelectorAll("[data-comparison]")].map(one => ({
  comparison: one.dataset.comparison, own: one.dataset.own, known: one.dataset.verdict !== undefined,
  pressed: [...one.querySelectorAll("[aria-pressed=true]")].map(button => button.dataset.status).join(),
  votes: [...one.querySelectorAll(".vote")].map(vote => vote.textContent).join(),
  withdrawn: one.querySelector(".withdraw").hidden }));
"""


@pytest.mark.parametrize("page", PAGES)
@settings(max_examples=3, suppress_health_check=[*HealthCheck])
@given(keys=KEYS)
def test_page_counts_and_store_agree_after_any_sequence_of_keys(served, browser, page, keys):
    introduce(served, browser)
    browser.get(served.report(VERSIONS[1]) if page == "report" else f"{served.url}{page}")
    if page != "report":
        shown(browser)
    answers, undo = {}, []
    for key in keys:
        current = wait(browser).until(lambda driver: driver.execute_script(STAGED, PAGES[page]))
        if key in "pfc" and current != "none":
            status = {"p": "pass", "f": "fail", "c": "cannot_tell"}[key]
            name = NAMES[current]
            if answers.get(name) != status:
                undo.append((name, answers.get(name)))
            answers[name] = status
        elif key == "u" and undo:
            name, answers[name] = undo.pop()
        press(browser, key)
    all_kept(browser)
    answers = {name: status for name, status in answers.items() if status}
    assert served.current() == answers
    for one in browser.execute_script(STATE):
        status = answers.get(NAMES[one.pop("comparison")], "")
        votes = f"{status.replace('_', ' ')} anna" if status else ""
        expected = {"own": status, "known": status != "", "pressed": status, "votes": votes}
        assert one == {**expected, "withdrawn": not status}
    if page == "report":
        told = f"{len(answers)} answered by you" if answers else ""
        assert browser.find_element(By.ID, "shown").text == told
        assert len(answers) == browser.page_source.count('class="vote me"')
    else:
        told = f"{len(answers)} answered on this page, {served.queue('anna')['left']} left"
        assert browser.find_element(By.ID, "count").text.startswith(told)


#: Returns the key of the comparison to which the next key goes, once the page shows it.
STAGED = """
const busy = document.querySelector("#stage")?.ariaBusy === "true";
return busy ? null : document.querySelector(arguments[0])?.dataset.comparison ?? "none";
"""


def test_labels_record_who_saw_the_verdict_before(served, opened):
    def article(operation):
        # rows move when the answer to an earlier label comes: a click in that moment misses its row
        all_kept(opened)
        click(opened, operation, "a.open")
        found = (By.CSS_SELECTOR, f"article[data-name={operation}]")
        return wait(opened).until(lambda driver: driver.find_element(*found))

    assert verdict(opened, "bt_A_x") == ""
    assert not opened.find_element(By.CSS_SELECTOR, "option[value=fail]").is_enabled()
    click(opened, "bt_A_x", FAIL)
    wait(opened).until(lambda _: verdict(opened, "bt_A_x"))
    assert verdict(opened, "bt_C_x") == ""
    click(opened, "bt_A_x", PASS)
    # who looks before, knew
    clicked(opened, article("cg_A_x").find_element(By.CSS_SELECTOR, ".peek a"))
    wait(opened).until(lambda _: verdict(opened, "cg_A_x"))
    click(opened, "cg_A_x", FAIL)
    assert article("ft_A_x").find_elements(By.CSS_SELECTOR, ".verdict") == []
    click(opened, "ft_A_x", PASS)
    assert article("bt_A_x").find_elements(By.CSS_SELECTOR, ".verdict") != []
    all_kept(opened)
    everything_shown(opened)
    assert verdict(opened, "bt_C_x")
    click(opened, "bt_C_x", PASS)
    all_kept(opened)
    knew = {"bt_A_x": [False, True], "cg_A_x": [True], "ft_A_x": [False], "bt_C_x": [True]}
    assert {name: [saw for *_, saw in served.history(name)] for name in knew} == knew
    opened.refresh()
    assert verdict(opened, "bt_C_x")


def test_a_label_is_resent_until_stored_exactly_once(served, opened):
    opened.execute_script("""
        const real = window.fetch, answers = [
            async () => { throw new TypeError("the cable is out") },
            async () => new Response('{"detail": "the labels cannot be reached"}', {status: 503}),
            async () => new Response("", {status: 429, headers: {"retry-after": "0"}}),
            async (...asked) => { await real(...asked); throw new TypeError("gone before the answer came") },
        ];
        window.fetch = (...asked) => (asked[1]?.method === "PUT" ? answers.shift() ?? real : real)(...asked);
    """)
    click(opened, "is_A_x", FAIL)
    told = opened.find_element(By.ID, "unsent")
    wait(opened).until(lambda _: "1 label is not kept yet" in told.text)
    assert "unkept" in row(opened, "is_A_x").get_attribute("class")
    assert opened.execute_script(
        "const left = new Event('beforeunload', {cancelable: true}); return !dispatchEvent(left)"
    )
    click(opened, "is_C_x", PASS)
    # not for as long as pages wait that are not on the net again
    again = "dispatchEvent(new Event('online')); return labelling.settled()"
    wait(opened).until(lambda driver: driver.execute_script(again))
    assert not told.is_displayed()
    assert served.history("is_A_x") == [("anna", "fail", False)]
    assert served.history("is_C_x") == [("anna", "pass", False)]


def test_a_refused_label_is_shown_and_not_kept(served, opened):
    opened.execute_script("document.querySelector('[data-name=ep_A_x]').dataset.comparison = 'nothing'")
    click(opened, "ep_A_x", FAIL)
    unsent = opened.find_element(By.ID, "unsent")
    wait(opened).until(lambda _: "Not kept: fail of ep_A_x" in unsent.text)
    all_kept(opened)
    assert row(opened, "ep_A_x").find_elements(By.CSS_SELECTOR, "[aria-pressed=true]") == []
    # a page that is older than the server gets what it needs to label
    opened.execute_script("document.getElementById('labelling').dataset.csrf = 'old'")
    click(opened, "ep_C_x", PASS)
    all_kept(opened)
    assert served.current() == {f"ep_C_x/{VERSIONS[1]}": "pass"}


def test_comparisons_are_queued_once_in_the_learned_order(served, one_by_one):
    expected, said, name = served.expected(), {}, None
    for _ in range(8):
        name = shown(one_by_one, name)
        said[name] = "fail" if name.startswith(("mg", "lu")) else "pass"
        press(one_by_one, f"{said[name][0]}j")
    all_kept(one_by_one)
    assert [*said][:5] == expected[:5]
    assert served.current() == said
    ordered = wait(one_by_one).until(lambda _: served.order("anna", len(said)))
    assert ordered == served.expected()[: len(ordered)]
    assert not {*ordered} & {*said}
    # another person, who labels now too, gets others first
    assert served.order("bob", len(said))[0] != ordered[0]


def test_comparisons_can_be_skipped_and_revisited(served, one_by_one):
    first = shown(one_by_one)
    press(one_by_one, "s")
    second = shown(one_by_one, first)
    press(one_by_one, "pj")
    third = shown(one_by_one, second)
    press(one_by_one, "k")
    assert shown(one_by_one, third) == second
    press(one_by_one, "f")
    all_kept(one_by_one)
    press(one_by_one, Keys.ENTER)
    assert shown(one_by_one, second) == third
    assert [said for _, said, _ in served.history(*second.rsplit("/", 1))] == ["pass", "fail"]
    assert served.current() == {second: "fail"}


def shown(browser, other=None):
    """Return the comparison that is shown to be labelled, once it is another one."""
    script = "return document.querySelector('#stage article')?.dataset.comparison"

    def another(driver):
        found = NAMES.get(driver.execute_script(script))
        return None if found == other else found

    return wait(browser).until(another)


def test_an_annotator_is_asked_once_for_a_name(served, opened):
    opened.delete_all_cookies()
    opened.refresh()
    click(opened, "bt_A_x", PASS)
    opened.find_element(By.ID, "who-name").send_keys("pf carla")
    opened.find_element(By.CSS_SELECTOR, "#who button").click()
    click(opened, "bt_C_x", PASS)
    wait(opened).until(lambda _: len(served.current()) == 2)
    assert [served.history(one)[0][0] for one in ("bt_A_x", "bt_C_x")] == ["pf carla"] * 2


def test_pages_with_any_operation_names_fit_every_width(served, opened):
    report = served.report(VERSIONS[1])
    evil = row(opened, EVIL).find_element(By.CSS_SELECTOR, "a.open").get_attribute("href")
    boxes = "[...document.querySelectorAll('.box, article, .pair, td, th')]"
    cut = f"return {boxes}.filter(box => box.scrollWidth > box.clientWidth + 1).length"
    for page in (f"{served.url}/comparisons", report, evil, f"{served.url}/comparisons/next"):
        assert faults(opened, page, widths=(390, 1400)) == []
        for link in opened.find_elements(By.CSS_SELECTOR, "a.open[aria-expanded=false]")[:2]:
            opened.execute_script("arguments[0].click()", link)
        assert opened.execute_script(cut) == 0, page
        assert opened.title.endswith("perfjudge")


def test_pages_are_readable_without_scripts_and_missing_ones_explained(served, opened):
    report = served.report(VERSIONS[3])
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.get(report)
        assert "Labelling needs JavaScript" in opened.find_element(By.TAG_NAME, "body").text
        assert opened.find_elements(By.CSS_SELECTOR, ".verdict") == []
        opened.find_element(By.LINK_TEXT, "Show the whole page").click()
        assert opened.find_element(By.CSS_SELECTOR, "tr.one .of-model").is_displayed()
        opened.get(opened.find_element(By.LINK_TEXT, "mg_C_x").get_attribute("href"))
        assert "48 threads" in opened.find_element(By.TAG_NAME, "article").text
        assert opened.find_elements(By.CSS_SELECTOR, "article svg[role=img]")
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for path in ("x", "../../etc/passwd", f"{Path(report).name}/%2Fetc%2Fpasswd", "next/x"):
        assert httpx.get(f"{served.url}/comparisons/{path}").status_code == 404
