import subprocess
import sys

import pytest

from data.comparisons import formats
from data.comparisons.stages import TABLES, import_tables
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from tests.data.comparisons.document import document, operation, write_large

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
    path.write_text(document(*(operation(f"op{number}") for number in range(5))))
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("data.comparisons.stages.CHUNK_ROWS", 10)


def test_many_chunks_make_the_same_tables_as_one(source, small_pieces, tmp_path):
    imported = import_tables("comparison-xml", [source], tmp_path / "out")
    assert imported.tables == {"results": 50, "comparisons": 5, "labels": 5}
    whole = formats.read_tables("comparison-xml", [source]).tables
    whole.write(tmp_path / "whole")
    for name in TABLES:
        read = [getattr(ComparisonTables.read(tmp_path / directory), name) for directory in ("out", "whole")]
        assert read[0].astype(object).equals(read[1].astype(object)), name


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (operation("bad", "maybe") + "</comparison_results>", 'result_status="maybe" is unknown'),
        ("", "not well-formed"),
    ],
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

    small, large = peak(4), peak(20)
    assert large < 400
    # the tree of such a file alone needs 350 MB
    assert large - small < 32
