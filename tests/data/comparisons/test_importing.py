"""Imports in chunks, and labels beside the data and of the shipped comparisons."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.comparisons import formats
from data.comparisons.labels.consensus import consensus_status
from data.comparisons.stages import TABLES, import_tables
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from tests.data.comparisons.documents import document, operation, write_large
from tests.data.comparisons.formats.reading import SAMPLES
from tests.data.refusals import refusal

#: Prints how much memory a process has needed at most, in MB.
# ru_maxrss would count what pytest itself held before the program started.
PEAK = "print(next(int(line.split()[1]) >> 10 for line in open('/proc/self/status') if 'VmHWM' in line))"
IMPORT = f"""
import sys
from pathlib import Path
from data.comparisons.stages import import_tables
import_tables("comparison-xml", [Path(sys.argv[1])], Path(sys.argv[2]))
{PEAK}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.xml"
    path.write_text(document(*(operation(f"op{number}", status="pass") for number in range(5))))
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("data.comparisons.stages.CHUNK_ROWS", 10)


@pytest.mark.parametrize(
    "path",
    ["run-json/base.json", "go-bench/base.txt", "../before.xml"],
    ids=lambda path: path.partition("/")[0],
)
def test_files_of_a_directory_are_versions_in_natural_order(tmp_path, path):
    for number in range(8, 12):
        shutil.copy(SAMPLES / path, tmp_path / f"run-{number}{Path(path).suffix}")
    kind = formats.recognise_format(tmp_path)
    comparisons = formats.read_tables(kind, [tmp_path]).tables.comparisons
    # the identifier begins with the version, which is the name of the file, or the source is the file
    names = (comparisons["comparison_id"] + comparisons["source"]).str.extract(r"(run-\d+)")[0]
    assert [*dict.fromkeys(names)] == ["run-9", "run-10", "run-11"]


def test_many_chunks_make_the_same_tables_as_one(source, small_pieces, tmp_path):
    imported = import_tables("comparison-xml", [source], tmp_path / "out")
    assert imported.tables == {"results": 50, "comparisons": 5, "labels": 5}
    whole = formats.read_tables("comparison-xml", [source]).tables
    whole.write(tmp_path / "whole")
    for name in TABLES:
        read = [getattr(ComparisonTables.read(tmp_path / directory), name) for directory in ("out", "whole")]
        assert read[0].astype(object).equals(read[1].astype(object)), name


WRONG, END = operation("bad", status="maybe"), "</comparison_results>"


@pytest.mark.parametrize(
    ("end", "problem"),
    [(WRONG + END, 'result_status="maybe" is unknown'), ("", "not well-formed")],
    ids=["wrong last chunk", "no end"],
)
def test_a_failing_import_neither_writes_nor_changes_tables(source, small_pieces, tmp_path, end, problem):
    import_tables("comparison-xml", [source], tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    source.write_text(source.read_text().replace("</comparison_results>", end))
    for directory, content in (("new", {}), ("old", before)):
        with pytest.raises(InputError, match=problem):
            import_tables("comparison-xml", [source], tmp_path / directory)
        assert {path.name: path.read_bytes() for path in (tmp_path / directory).iterdir()} == content


@pytest.mark.parametrize(("kind", "content"), [("comparison-json", '{"comparisons": 3}'), ("tables", "")])
def test_an_import_without_readable_parts_writes_empty_tables(kind, content, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    imported = import_tables(kind, [tmp_path / "bad.json"], tmp_path / "out", keep_going=True)
    assert (imported.tables["comparisons"], imported.tables["results"], len(imported.skipped)) == (0, 0, 1)
    assert ComparisonTables.read(tmp_path / "out").comparisons.empty


def test_a_comparison_in_two_sources_is_refused(source, tmp_path):
    for name in ("a", "b"):
        import_tables("comparison-xml", [source], tmp_path / name)
    with pytest.raises(InputError, match=r'in.xml:2 operation "op0": repeats an earlier comparison'):
        import_tables("tables", [tmp_path / "a", tmp_path / "b"], tmp_path / "out")


def test_the_sides_of_result_xml_may_be_distant(small_pieces, tmp_path):
    results = "".join(f'<result mops="{value}"/>' for value in range(1, 40))
    inner = f'<nas_result benchmark_name="mg"><threads number="1">{results}</threads></nas_result>'
    for name in ("a.xml", "b.xml"):
        (tmp_path / name).write_text(f"<beaker_run_result>{inner}</beaker_run_result>")
    imported = import_tables("result-xml", [tmp_path], tmp_path / "out")
    assert (imported.tables["comparisons"], imported.tables["results"], imported.skipped) == (1, 78, ())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(megabytes):
        path = tmp_path / f"{megabytes}.xml"
        write_large(path, megabytes)
        command = [sys.executable, "-c", IMPORT, path, tmp_path / "out"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    small, large = peak(2), peak(12)
    assert large < 400
    # the tree of such a file alone needs 200 MB
    assert large - small < 32


SHIPPED = Path(__file__).parents[3] / "data/raw/measured"
HEAD = "comparison_id,status,annotator,labelled_at,remark\n"


@pytest.fixture
def labelled(tmp_path):
    """Two comparisons, of which the document labels the first as a pass; and what people say of them."""
    directory = tmp_path / "labelled"
    directory.mkdir()
    (directory / "in.xml").write_text(document(operation("a", status="pass"), operation("b")))

    def listed(*rows):
        (directory / "labels.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
        return directory

    return listed


def test_a_label_file_beside_the_data_is_read(labelled, tmp_path):
    first = "r/NAS/a,fail,anna,2026-11-22T09:30:00Z,looked twice"
    path = labelled(first, "r/NAS/b,fail,anna,,", "r/NAS/b,fail, ben ,,", "r/NAS/b,,cleo,,not yet")
    labels = formats.read_tables(formats.recognise_format(path), [path]).tables.labels
    assert labels["annotator"].fillna("").tolist() == ["", "anna", "anna", "ben"]
    assert consensus_status(labels, "majority").to_dict() == {"r/NAS/a": "fail", "r/NAS/b": "fail"}
    import_tables("comparison-xml", [path], tmp_path / "out")
    again = ComparisonTables.read(tmp_path / "out").labels
    assert again.astype(object).equals(labels.astype(object))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("r/NAS/a,maybe,anna,,", 'status="maybe" is not one of pass, fail, cannot_tell'),
        ("r/NAS/a,pass,,,", 'annotator="" is empty; expected a name'),
        ("r/NAS/aa,pass,anna,,", 'comparison_id="r/NAS/aa" is not in these data; did you mean "r/NAS/a"?'),
        ("r/NAS/a,pass,anna,noon,", 'labelled_at="noon" is not a past time like 2026-11-22T09:30:00Z'),
    ],
)
def test_a_wrong_label_row_is_refused_or_skipped(labelled, row, message):
    path = labelled("r/NAS/b,fail,anna,,", "", row)
    told = refusal(formats.read_tables, "comparison-xml", [path])
    assert told == f"{path / 'labels.csv'}:4: {message}"
    reading = formats.read_tables("comparison-xml", [path], keep_going=True)
    assert len(reading.tables.labels) == 2
    assert len(reading.skipped) == 1


def test_labels_beside_a_single_version_state_what_is_missing(tmp_path):
    (tmp_path / "run.json").write_bytes((SAMPLES / "pytest-benchmark/base.json").read_bytes())
    path = tmp_path / "labels.csv"
    path.write_text(f"{HEAD}a,fail,anna,,\n")
    missing = "which have no comparisons; expected the results of two versions"
    told = refusal(formats.read_tables, formats.recognise_format(tmp_path), [tmp_path])
    assert told == f'{path}:2: comparison_id="a" is not in these data, {missing}'


@pytest.fixture(scope="module")
def reference():
    """The worst configuration of every comparison with a reference, and its label."""
    measured = pd.read_parquet(SHIPPED / "reference.parquet").groupby("comparison_id")
    labels = pd.read_parquet(SHIPPED / "labels.parquet").set_index("comparison_id")["status"]
    worst = measured[["slowdown", "low", "high"]].max()
    return worst.assign(status=labels.reindex(worst.index), configurations=measured.size())


def test_the_worst_configuration_decides_despite_better_ones(reference):
    assert (reference["configurations"] > 1).sum() > 20
    low, high, status = (reference[name] for name in ("low", "high", "status"))
    assert (low[status == "fail"] >= 0.03).all()
    assert (high[status == "pass"] <= 0.02).all()
    assert ((low < 0.03) & (high > 0.02))[status.isna()].all()


def test_the_truth_of_a_shipped_comparison_is_its_worst_configuration(reference):
    asked = pd.read_parquet(SHIPPED / "comparisons.parquet").set_index("comparison_id")
    assert np.allclose(asked["truth_slowdown"].reindex(reference.index), reference["slowdown"])
