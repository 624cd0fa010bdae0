from pathlib import Path

import pytest

from data.comparisons import formats
from data.comparisons.tables import ComparisonTables
from data.errors import InputError

ROOTS = (
    "<comparison_results> (comparison-xml), <beaker_run_result> (result-xml), <PhoronixTestSuite> (phoronix)"
)
FIGURES = Path(__file__).parents[2] / "data/comparisons/figures"


@pytest.mark.parametrize(
    ("name", "kind"), [("4_1", "result-xml"), ("4_2", "result-xml"), ("6_1", "comparison-xml")]
)
def test_figures_are_known_by_their_roots(name, kind):
    assert formats.sniff(FIGURES / f"figure_{name}.xml") == kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("r.txt", b'\xef\xbb\xbf {"comparisons": []}', "comparison-json"),
        ("r", b"<all><comparison_results/></all>", "comparison-xml"),
        ("r", "<beaker_run_result/>".encode("utf-16"), "result-xml"),
        ("annotations.json", b"{}", "sap-hana"),
        ("results.parquet", b"", "tables"),
    ],
)
def test_a_format_is_known_by_what_is_inside(tmp_path, name, content, kind):
    (tmp_path / name).write_bytes(content)
    assert formats.sniff(tmp_path if kind in {"sap-hana", "tables"} else tmp_path / name) == kind


def test_a_directory_of_files_is_known_by_its_first_file(tmp_path):
    (tmp_path / "b.xml").write_text("<beaker_run_result/>")
    assert formats.sniff(tmp_path) == "result-xml"
    (tmp_path / "a.xml").write_text("<comparison_results/>")
    assert formats.sniff(tmp_path) == "comparison-xml"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected measurements"),
        (b"\x7fELF", "is neither XML nor JSON, and text in no known format; --from FORMAT names one"),
        (b"<testsuite/>", f"is XML in no known format: <testsuite> is none of {ROOTS}"),
        (b"<!DOCTYPE a><a/>", "declares a document type; entities are not read"),
    ],
)
def test_what_is_in_no_known_format_is_told(tmp_path, content, message):
    path = tmp_path / "r"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        formats.sniff(path)
    assert caught.value.problem == message


def test_nothing_and_an_empty_directory_are_told(tmp_path):
    with pytest.raises(InputError) as caught:
        formats.sniff(tmp_path / "x.xml")
    assert str(caught.value) == f"{tmp_path / 'x.xml'}: no such file or directory"
    with pytest.raises(InputError, match="holds no data in a known format"):
        formats.sniff(tmp_path)


def test_an_unknown_format_names_those_that_there_are(tmp_path):
    with pytest.raises(InputError) as caught:
        formats.read("gatling", [tmp_path])
    told = 'format "gatling" is unknown; there are tables, result-xml, comparison-xml, '
    assert str(caught.value).startswith(told)


def test_a_missing_file_is_told(tmp_path):
    path = tmp_path / "x.xml"
    with pytest.raises(InputError) as caught:
        formats.read("comparison-xml", [path])
    assert str(caught.value) == f"{path}: no such file or directory"


def test_tables_that_were_written_are_read_again(tmp_path):
    tables = formats.read("comparison-xml", [FIGURES / "figure_6_1.xml"]).tables
    tables.write(tmp_path)
    again = formats.read("tables", [tmp_path]).tables
    assert formats.sniff(tmp_path) == "tables"
    for name in ("results", "comparisons", "labels"):
        assert getattr(again, name).equals(getattr(tables, name)), name


def test_tables_without_any_row_are_refused(tmp_path):
    ComparisonTables.of_rows([], [], []).write(tmp_path)
    with pytest.raises(InputError) as caught:
        formats.read("tables", [tmp_path])
    assert str(caught.value) == f"{tmp_path}: holds no comparison"


def test_keep_going_skips_tables_that_cannot_be_read(tmp_path):
    (tmp_path / "results.parquet").write_bytes(b"no parquet")
    reading = formats.read("tables", [tmp_path], keep_going=True)
    assert reading.tables.comparisons.empty
    assert len(reading.skipped) == 1
