"""Whatever is handed in: one line that says where and what, or, told to keep going, the rest."""

import os

import pytest

from data.comparisons import formats
from data.comparisons.tables import ComparisonTables
from data.tables.xml_stream import MAX_ATTRIBUTES, MAX_NAMES
from tests.data.comparisons.documents import document, operation, result
from tests.data.refusals import refusal

ENTITIES = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
BOMB = f'<!DOCTYPE comparison_results [<!ENTITY l0 "lol">{ENTITIES}]>'
DECLARED = "in.xml:1: declares a document type; entities are not read"
PLACE = 'in.xml:2 operation "bt"'
#: The document is of no use: with keep_going, nothing is left.
WHOLE = {
    "empty": ("", "in.xml: is empty; expected XML"),
    "blank": (" \n ", "in.xml: is empty; expected XML"),
    "binary": (b"\x7fELF\0\0\1\2" * 64, "in.xml: is a binary file; expected XML"),
    "malformed": (
        document().replace("</comparison_results>", "</x>"),
        "in.xml:2: is not well-formed XML (mismatched tag: <comparison_results> of line 1 is open)",
    ),
    "bomb": (f"{BOMB}<comparison_results>&l9;</comparison_results>", DECLARED),
    "bomb in an attribute of the root": (f'{BOMB}<comparison_results report_uuid="&l9;"/>', DECLARED),
    "external entity": (
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><comparison_results>&x;</comparison_results>',
        DECLARED,
    ),
    "document type alone": ("<!DOCTYPE r><comparison_results/>", DECLARED),
    "deep": ("<a>" * 200 + "</a>" * 200, "in.xml:1: is nested more than 100 elements deep"),
    "nothing in it": ("<report/>", "in.xml: <report> holds no <comparison_result>"),
    "other namespace": (
        "<r:comparison_results xmlns:r='urn:r'><r:comparison_result/></r:comparison_results>",
        "in.xml: <{urn:r}comparison_results> holds no <comparison_result>",
    ),
}
WRONG = {
    "<base_result> has no attribute median": result().replace(' median="3"', "", 1),
    'min="one" is not a number': result(low="one"),
    'min="nan" is not a finite number': result(low="nan"),
    'min="1e999" is not a finite number': result(low="1e999"),
}
#: One operation is of no use: with keep_going, the other one is left.
ONE = {
    **{f"{PLACE} base_result: {message}": operation(inner=inner) for message, inner in WRONG.items()},
    f'{PLACE}: threads_no="four" is not a whole number': operation(inner=result(threads="four")),
    f'{PLACE}: <history> holds text: "null"': operation(
        inner=result().replace("</result>", "<history>null</history></result>")
    ),
    f'{PLACE}: result_status="maybe" is unknown; expected "pass" or "fail" or "unsure" or "invalid"': (
        operation(status="maybe")
    ),
}
#: One operation can be read but not judged: with keep_going, it stays, and is counted.
UNUSABLE = {
    f"{PLACE}: threads 4: the baseline holds a value that is not above 0: 0": operation(
        inner=result(median=0)
    ),
    'in.xml:3 operation "bt": <comparison_result> appears twice in the report "r"': operation() * 2,
}


@pytest.fixture
def written(tmp_path):
    def write(content, name="in.xml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def told(error, path):
    return str(error).replace(f"{path.parent}{os.sep}", "")


def refused(path, kind="comparison-xml"):
    return told(refusal(formats.read_tables, kind, [path]), path)


@pytest.mark.parametrize(("content", "message"), WHOLE.values(), ids=WHOLE)
def test_a_document_without_usable_content_is_refused(written, content, message):
    path = written(content)
    assert refused(path) == message
    reading = formats.read_tables("comparison-xml", [path], keep_going=True)
    assert told(reading.skipped[0], path) == message
    assert reading.tables.results.empty


@pytest.mark.parametrize(
    ("message", "bad", "left"),
    [*((*one, ["ft"]) for one in ONE.items()), *((*one, ["bt", "ft"]) for one in UNUSABLE.items())],
)
def test_an_unusable_operation_is_refused_or_skipped(written, message, bad, left):
    path = written(document(bad, operation("ft")))
    assert refused(path) == message
    reading = formats.read_tables("comparison-xml", [path], keep_going=True)
    assert [told(error, path) for error in reading.skipped] == [message]
    assert reading.tables.comparisons["operation"].tolist() == left
    assert set(reading.tables.results["operation"]) <= set(left)


def test_keep_going_keeps_content_before_a_syntax_error(written):
    path = written(document(operation()).replace("</comparison_results>", "</x>"))
    reading = formats.read_tables("comparison-xml", [path], keep_going=True)
    assert reading.tables.comparisons["operation"].tolist() == ["bt"]
    assert "in.xml:3: is not well-formed XML" in str(reading.skipped[0])


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("in.xml", "comparison-xml", "in.xml: no such file or directory"),
        ("", "comparison-xml", "in: holds no .xml file"),
        ("", "yaml", 'format "yaml" is unknown; there are tables, result-xml, comparison-xml, comparison-js'),
    ],
)
def test_missing_input_and_unknown_formats_are_named(tmp_path, name, kind, message):
    (tmp_path / "in").mkdir()
    assert refused(tmp_path / (name or "in"), kind).startswith(message)


TEXTS = ("<a>{}</a>", "<a><![CDATA[{}]]></a>", "<a>&#33;<!-- -->{}</a>")
TAGS = ('<a x="{}"/>', "<a {}=''/>", "<{}/>", "<a><!--{}--></a>", "<?{}?><a/>", "<!DOCTYPE {}><a/>")


@pytest.mark.parametrize("large", [*TEXTS, *TAGS])
def test_too_large_xml_texts_and_tags_are_refused(written, large):
    what = "text of more than 10000000 characters"
    if large in TAGS:
        what = "tag, comment or instruction of more than 1048576 bytes"
    assert refused(written(large.format("y" * 11_000_000))) == f"in.xml:1: has a {what}"


def test_elements_with_over_100_attributes_and_over_10000_names_are_refused(written):
    def figure(many, name="a"):
        further = " ".join(f'{name}{number}="urn:{number}"' for number in range(many))
        return written(f"<comparison_results {further}>{operation()}</comparison_results>")

    reading = formats.read_tables("comparison-xml", [figure(MAX_ATTRIBUTES)])
    assert len(reading.tables.comparisons) == 1
    for many, name in ((MAX_ATTRIBUTES + 1, "a"), (50_000, "a"), (MAX_ATTRIBUTES + 1, "xmlns:n")):
        told = f"in.xml:1: <comparison_results> has more than {MAX_ATTRIBUTES} attributes"
        assert refused(figure(many, name)) == told
    names = "".join(f"<n{number}/>" for number in range(MAX_NAMES + 20_000))
    message = refused(written(f"<a>{names}</a>"))
    assert message.endswith(f"has more than {MAX_NAMES} different names of elements and attributes")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_other_encodings_comments_and_instructions_are_read(written, encoding):
    declared = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    before = f'<?xml version="1.0" encoding="{declared}"?>\r\n<?style x?><!-- <x> -->\r\n'
    content = before + document(operation("bé"))
    reading = formats.read_tables("comparison-xml", [written(content.encode(encoding))])
    assert reading.tables.comparisons["operation"].tolist() == ["bé"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "in.json: is empty; expected JSON"),
        ('{"comparisons":', "in.json:1: is not JSON (Expecting value, column 16)"),
        ('{"comparisons": NaN}', "in.json:1: is not JSON (NaN is not a finite number)"),
        ("[" * 100_000, "in.json: is nested too deeply"),
        (b"\x7fELF\xff", "in.json: is not JSON (byte 4 is not utf-8)"),
    ],
)
def test_malformed_json_is_refused_with_its_place(written, content, message):
    assert refused(written(content, "in.json"), "comparison-json") == message


def test_too_large_json_is_refused_before_reading(tmp_path):
    path = tmp_path / "in.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert refused(path, "comparison-json") == "in.json: has 1024 MB; up to 256 MB are read at once"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("in.xml", document(operation()), "comparison-xml"),
        ("in.xml", "\ufeff<!-- --><beaker_run_result/>", "result-xml"),
        ("in.xml", document(operation()).encode("utf-16"), "comparison-xml"),
        ("in.txt", ' \n{"comparisons": []}', "comparison-json"),
        ("annotations.json", "{}", "sap-hana"),
        ("results.parquet", "", "tables"),
    ],
)
def test_the_format_is_recognised_by_the_content(written, name, content, kind):
    path = written(content, name)
    assert formats.recognise_format(path if name == "in.txt" else path.parent) == kind


ROOTS = (
    "<comparison_results> (comparison-xml), <beaker_run_result> (result-xml), <PhoronixTestSuite> (phoronix)"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n", "in: is neither XML nor JSON, and text in no known format; --from FORMAT names one"),
        (b" ", "in: is empty; expected measurements"),
        (b"<testsuite/>", f"in: is XML in no known format: <testsuite> is not one of {ROOTS}"),
        (BOMB.encode() + b"<a/>", "in:1: declares a document type; entities are not read"),
    ],
)
def test_content_in_no_known_format_is_refused(written, content, message):
    path = written(content, "in")
    assert told(refusal(formats.recognise_format, path), path) == message


def test_a_directory_is_recognised_by_its_first_file(tmp_path):
    assert "holds no data in a known format" in refusal(formats.recognise_format, tmp_path)
    (tmp_path / "b.xml").write_text("<beaker_run_result/>")
    assert formats.recognise_format(tmp_path) == "result-xml"
    (tmp_path / "a.xml").write_text("<all><comparison_results/></all>")
    assert formats.recognise_format(tmp_path) == "comparison-xml"


def test_empty_or_unreadable_tables_are_refused_or_skipped(tmp_path):
    ComparisonTables.from_rows([], [], []).write(tmp_path)
    assert refused(tmp_path, "tables").endswith(f"{tmp_path.name}: holds no comparison")
    (tmp_path / "results.parquet").write_bytes(b"no parquet")
    reading = formats.read_tables("tables", [tmp_path], keep_going=True)
    assert (len(reading.tables.comparisons), len(reading.skipped)) == (0, 1)
