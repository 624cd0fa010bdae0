"""Names from files are text in every output: neither control characters, nor Markdown, nor commands."""

import csv
import io
import re
from collections import Counter
from contextlib import suppress
from html.parser import HTMLParser
from unicodedata import category

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt
from rich.table import Table

from data.errors import InputError, escape_invisible, escape_invisible_xml, one_line
from data.tables.cells import parse_numbers, read_cells, without_quotes, written_csv
from serving.comparisons.compare.rows import _annotation_line
from serving.reports.rendering import template_environment
from serving.reports.text_tables import markdown_cell, markdown_line, table_text, text_table
from serving.reports.verdict_lines import VerdictLine, VerdictTable, as_junit, as_markdown, as_plain

WORDS = """
    @everyone @org/team #1 owner/repo#2 GH-3 a@b.example https://a.example/x www.a.example 0123abc
    ![x](https://a.example/p.png) [x](javascript:alert) <img/src=x> </details> &#64;all owner/repo@4f2c9d1
    | \\| ` `` ``` *a* _b_ ~~c~~ $d$ :tada: !5 %6 ~label --- -> sort mg_C_x ::error::x ##[add-mask]x
    4f2c9d1a4f2c9d1a4f2c9d1a4f2c9d1a4f2c9d1a =1+1 +cmd -2+3 @SUM(1) '=1
"""
#: What is live somewhere: in Markdown, in the log of a CI system, on a terminal, in a spreadsheet.
LIVE = (
    *WORDS.split(),
    *("[x]: https://a.example", "<!-- x -->", "<img src=x onerror=y>", "- x", "1. x", "# x", "> x", "0.5 %"),
    *("\x1b[31m", "\x1b]8;;https://a\x07"),
    *"\n\t\r\u202e\u2066\u200b\u200d\u00ad\ufeff\x00\x85\u2028\U000e0041\ufffe ",
)
parts = st.lists(st.sampled_from(LIVE) | st.text(max_size=6), min_size=1, max_size=6)
texts = parts.map("".join) | parts.map(" ".join)
#: What GitHub and GitLab link in text that is no code.
REFERENCES = re.compile(
    r"@\w|#\d|!\d|~\w|\bGH-\d|\b[A-Z]+-\d+\b|\b[0-9a-f]{7,40}\b|\w@\w|:\w+:|\$|://|\bwww\.|[^\W\d_]\.[^\W\d_]{2}",
    re.IGNORECASE,
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
LIVE_TOKENS = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open", "s_open", "fence"}
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def for_any_name(test):
    return settings(max_examples=50)(given(texts)(test))


def is_neutral(text):
    return all(char == "\n" or category(char) not in INVISIBLE for char in text)


def rendered(markdown):
    tokens = MARKDOWN.parse(markdown)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def kinds_of_plain_text(tokens):
    """Return the numbers of tokens by type, none of which is live."""
    kinds = Counter(token.type for token in tokens)
    assert not kinds.keys() & LIVE_TOKENS
    assert not any(REFERENCES.search(token.content) for token in tokens if token.type == "text")
    return kinds


@for_any_name
@example("a@b.example")
@example("`` \\| `")
@example("1. x")
def test_any_name_in_a_table_cell_is_plain_text(name):
    row = f"| a | b |\n| --- | --- |\n| {markdown_cell(name)} | end |\n"
    tokens = rendered(row)
    assert kinds_of_plain_text(tokens)["td_open"] == 2
    assert is_neutral(row)
    # nothing is lost: the cells show the name, with escapes
    shown = "".join(token.content for token in tokens if not token.children)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", f"ab{escape_invisible(' '.join(name.split()))}end")


@for_any_name
@example("- x")
@example("1. x")
@example("---")
def test_a_name_in_a_list_is_one_item_of_text(name):
    kinds = kinds_of_plain_text(rendered(f"- {markdown_line(name)}\n- end\n"))
    assert not kinds.keys() & {"heading_open", "hr", "blockquote_open", "table_open", "ordered_list_open"}
    assert kinds["list_item_open"] == 2


@for_any_name
def test_verdicts_show_a_name_in_every_form_as_text(name):
    row = VerdictLine("fail", 0.9, name, name, name, (name,), which=name)
    lines = VerdictTable([row, row], ("benchmark", name, "reasons"), name, (name,), (name,))
    forms = [write(lines) for write in (as_plain, as_markdown, as_junit)]
    assert all(map(is_neutral, [*forms, text_table([name], [[name]], caption=name)]))
    assert etree.fromstring(as_junit(lines).encode()).tag == "testsuites"
    assert not {token.type for token in rendered(as_markdown(lines))} & (LIVE_TOKENS - {"strong_open"})


@for_any_name
def test_annotations_with_any_names_stay_one_command(name):
    line = _annotation_line("error", name, name)
    assert (line.count("\n"), line.count("\r")) == (1, 0)
    title, message = re.fullmatch(r"::error title=([^:,]*)::(.*)\n", line).groups()
    assert "##[" not in message
    assert set(re.findall("%(..?)?", f"{title}{message}")) <= {"25", "0D", "0A", "3A", "2C"}
    assert is_neutral(line)


@for_any_name
def test_an_error_message_is_one_line_of_text(name):
    for line in (str(InputError(name, file=name, place=name)), one_line(name)):
        assert is_neutral(line)
        assert "\n" not in line
        assert not line.startswith("::")
        assert not re.search(r"##\w*\[", line)


@given(st.lists(texts, min_size=1, max_size=3))
@settings(max_examples=50)
def test_csv_contains_no_formula_and_preserves_its_cells(cells):
    table = pd.DataFrame({"a": pd.Series(cells, dtype="object"), "n": -1.5})
    rows = list(csv.reader(io.StringIO(written_csv(table), newline="")))[1:]
    first, second = zip(*rows, strict=True)
    live = [cell for cell in first if re.match(r"[=+\-@\t\r\n]", cell)]
    assert all(re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", cell) for cell in live)
    assert set(second) == {"-1.5"}
    assert without_quotes(pd.Series(first, dtype="object")).tolist() == cells


@pytest.mark.parametrize("number", ["-1.5", "+3", "-2e-7", "-.5", "1"])
def test_plain_numbers_stay_numbers_in_csv(number):
    assert written_csv(pd.DataFrame({"a": [number]})).splitlines()[1] == number


@for_any_name
def test_a_page_holds_a_name_as_text_only(name):
    template = template_environment().from_string('<p title="{{ name }}">{{ name }}</p>')
    page = escape_invisible(template.render(name=name))
    parser, tags = HTMLParser(), []
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, [key for key, _ in attributes]))
    parser.feed(page)
    assert tags == [("p", ["title"])]
    assert is_neutral(page)


NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@given(texts.filter(lambda text: not NO_XML.search(text)))
@settings(max_examples=50)
def test_escaped_xml_preserves_names_without_invisible_characters(name):
    root = etree.Element("a", name=name)
    document = escape_invisible_xml(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))
    assert is_neutral(document.decode().replace("\t", "").replace("\r", ""))
    assert etree.fromstring(document).get("name") == name


@given(
    columns=st.integers(1, 4),
    rows=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    longer=st.integers(0, 4),
    extra=st.sampled_from(["1", "", "x"]),
)
def test_a_row_longer_than_the_header_is_an_error(tmp_path_factory, columns, rows, longer, extra):
    path = tmp_path_factory.mktemp("cells") / "table.csv"
    cells = [["7"] * min(number, columns) for number in rows]
    cells[longer % len(cells)] = ["7"] * columns + [extra]
    header = [f"c{number}" for number in range(columns)]
    path.write_text("\n".join(",".join(row) for row in [header, *cells]) + "\n")
    with pytest.raises(InputError) if extra else suppress(InputError):
        assert set(read_cells(path, header)[header[0]]) == {"7"}


@given(data=st.data(), delimiter=st.sampled_from(",;\t"), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_errors_name_the_line_of_the_wrong_row_in_the_file(tmp_path_factory, data, delimiter, end):
    path = tmp_path_factory.mktemp("cells") / "table.csv"
    names = st.text('ab\n\r", ', max_size=5)
    blank = st.sampled_from(["", "", " ", "  " if delimiter == "\t" else "\t "])
    text = f"name{delimiter}value{end}"
    for value in ["1"] * data.draw(st.integers(0, 4)) + ["x"]:
        text += "".join(f"{line}{end}" for line in data.draw(st.lists(blank, max_size=3)))
        line = len(text.encode().splitlines()) + 1
        text += '"{}"{}{}{}'.format(data.draw(names).replace('"', '""'), delimiter, value, end)
    path.write_text(text, newline="")
    with pytest.raises(InputError, match=rf'table\.csv:{line}: value="x" is not a number'):
        parse_numbers(read_cells(path, ["value"], sep=delimiter)["value"], path)


@pytest.mark.parametrize("header", ["value,value ", " value,value", "a, a,b"])
def test_columns_of_one_name_are_refused(header, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n{re.sub('[^,]+', '1', header)}\n")
    with pytest.raises(InputError, match=r't\.csv:1: has the column "\w+" twice'):
        read_cells(path)


def test_piped_tables_have_no_colours_in_ci(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table()
    table.add_column("name", style="red")
    table.add_row("sort")
    assert "\x1b" not in table_text(table)


@pytest.mark.parametrize(("separator", "name"), [(";", "semicolons"), ("\t", "tabs")])
@pytest.mark.parametrize("rows", ["m0;1\n", "m0;1,5\n", "m0;1,5\nm1;1,5,5\n"])
def test_another_separator_than_the_comma_is_named(tmp_path, separator, name, rows):
    path = tmp_path / "a.csv"
    path.write_text(f"machine;cpu\n{rows}".replace(";", separator))
    with pytest.raises(InputError, match=f"a.csv(:\\d)?: has {name} between columns; expected commas"):
        read_cells(path, ["machine"])
    assert len(read_cells(path, sep=separator)) == rows.count("m")
