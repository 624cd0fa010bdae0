"""Every figure that documents quote is that of its source; the site of them is whole, and loads nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pages import PAGES, ResultPage
from benchmarks.pages.documents import (
    CARDS,
    REASONS,
    document_paths,
    fill_figures,
    find_figures,
    render_cards,
    split_blocks,
    unsourced_blocks,
)
from data.errors import InputError
from tests.imports import ROOT
from tests.system.browsing import requested

DOCUMENTS = document_paths(ROOT)
TEXTS = {str(path): (ROOT / path).read_text() for path in DOCUMENTS}
PAGE = """# Speed of a server

    python -m benchmarks.serving

| what | answers a second | failed |
| --- | --- | --- |
| one comparison | 3,274 | 1.25% |
| one matrix | 3 | 0.50% |
| one | 7 | 0.00% |

- A batch takes 0.30 s, and twice 0.61 s.
"""
METRICS = '{"champion": "trees", "entries": {"trees": {"missed": 0.03409}}}'


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("project")
    for name, text in {"docs/results/serving.md": PAGE, "reports/comparisons/metrics.json": METRICS}.items():
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module", autouse=True)
def digests_read_once():
    """Compute once per page whether its code has changed, which does not depend on the documents."""
    current = {page.name: page.is_current(ROOT) for page in PAGES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResultPage, "is_current", lambda page, _: current[page.name])
        yield


@pytest.mark.parametrize("path", TEXTS)
def test_every_figure_of_a_document_is_that_of_its_source(path):
    written = fill_figures(TEXTS[path], ROOT, path)
    assert written == TEXTS[path], "python -m benchmarks.pages --documents writes them anew"
    assert [f"{path}:{line}" for line in unsourced_blocks(TEXTS[path])] == []


def quoted_digits():
    """Yield document and position of every digit that has a source."""
    for path, text in TEXTS.items():
        for block in split_blocks(text):
            if block.kind == "figures":
                for figure in find_figures(text[block.begin : block.end]):
                    begin = block.begin + figure.begin
                    yield from ((path, begin + place) for place in range(len(figure.text)))
        for table in re.finditer(r"<!-- table: .*?<!-- /table -->", text, re.DOTALL):
            yield from ((path, table.start() + digit.start()) for digit in re.finditer(r"\d", table[0]))


DIGITS = [(path, place) for path, place in quoted_digits() if TEXTS[path][place].isdigit()]


@given(st.sampled_from(DIGITS), st.sampled_from("0123456789"))
def test_any_changed_digit_of_a_sourced_figure_is_detected(where, digit):
    path, place = where
    text = TEXTS[path]
    altered = text[:place] + digit + text[place + 1 :]
    try:
        found = fill_figures(altered, ROOT, path)
    except InputError:
        return
    assert found == text


NUMBERS = st.from_regex(
    r"([1-9][0-9]{0,2},[0-9]{3}|[0-9]{1,3}) comparisons|[0-9]{1,2} ?%|[0-9]{1,3}\.[0-9]{2}"
    r"|[0-9]{1,3} (s|ms|minutes|MB|GiB|times)|[0-9] of [1-9][0-9]",
    fullmatch=True,
)


@given(
    NUMBERS,
    st.sampled_from(["It takes {} in all.", "- a list\n- with {}", "| a | {} |", "    it printed {}"]),
)
def test_a_figure_without_a_mark_is_reported(number, form):
    assert [*unsourced_blocks(f"# Title\n\n{form.format(number)}\n")] != []


@pytest.mark.parametrize(
    ("text", "unsourced"),
    [
        *((f"<!-- not measured: {reason} -->\n\nAt most 5 % of it.\n", 0) for reason in REASONS),
        ("<!-- not measured: I say so -->\n\nAt most 5 % of it.\n", 1),
        ("<!-- figures: results/serving: a / b -->\n\nNo figure.\n", 1),
        ("<!-- not measured: a limit -->\n\nAt most 5 %.\n\nAnd 6 %.\n", 1),
        # names and code
        ("figure 4.1, tables 2 and 4.5", 0),
        ("`0.5 %` and [all](1.5.md)", 0),
        ("Apache-2.0, seed 20261121, RFC 9457", 0),
        ("    uv run perfjudge judge --min-effect-size 0.5\n\n    {\"value\": 0.5}", 0),
        ("```yaml\nshare: 0.5\n```", 0),
    ],
)  # fmt: skip
def test_figures_need_a_source_or_a_known_reason(text, unsourced):
    assert len([*unsourced_blocks(text)]) == unsourced


@pytest.mark.parametrize(
    ("mark", "before", "after"),
    [
        ("results/serving: one comparison / answers a second", "9,999 comparisons", "3,274 comparisons"),
        ("results/serving: one / failed", "9 % fail", "0 % fail"),
        ("results/serving: A batch takes / #2", "9.9 s", "0.6 s"),
        ("comparisons: entries / {champion} / missed", "9.9 % and", "3.4 % and"),
        (
            "results/serving: one matrix / failed; one / failed; 7.5",
            "9.9 % to 9 % of 7.5",
            "0.5 % to 0 % of 7.5",
        ),
    ],
)
def test_a_figure_is_rounded_to_the_digits_of_its_text(root, mark, before, after):
    text = "<!-- figures: {} -->\n\nIt has {}.\n"
    assert fill_figures(text.format(mark, before), root) == text.format(mark, after)


@pytest.mark.parametrize(
    ("mark", "quoted", "why"),
    [
        ("results/serving: nothing / failed", "9 %", "0 places"),
        ("results/serving: one / #1", "9 ms", "3 places"),
        ("results/serving: A batch takes / #3", "9 ms", "only 2 numbers"),
        ("results/serving: one comparison / failed", "9 ms", "a percentage"),
        ("results/absent: one / failed", "9 %", "no such source"),
        ("comparisons: entries / forest", "9 %", "there is no 'forest'"),
        ("5; 6", "5 %", "1 figures (5), and 2 sources"),
    ],
)
def test_a_missing_source_of_a_figure_is_named(root, mark, quoted, why):
    with pytest.raises(InputError, match=re.escape(why)):
        fill_figures(f"<!-- figures: {mark} -->\n\nIt has {quoted}.\n", root, "docs/a.md")


def test_a_table_without_a_generator_is_named(root):
    with pytest.raises(InputError, match="'speed' is no table"):
        fill_figures("<!-- table: speed -->\n\n1\n\n<!-- /table -->\n", root)


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
