"""Input formats of comparisons: recognise and read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data.comparisons.formats.file_format import format_of_file
from data.comparisons.formats.tools import TOOLS, assembly, recognition
from data.comparisons.formats.tools.benchmark_json import BENCHMARKS
from data.comparisons.formats.tools.recognition import ToolFormat
from data.comparisons.labels import label_csv
from data.comparisons.params import LabelRules, Measure
from data.comparisons.tables import CHUNK_ROWS, ComparisonTables
from data.comparisons.validity import find_errors
from data.deferred import pd
from data.errors import InputError
from data.parallel import garbage_collection_off
from data.tables.files import content_of, in_natural_order
from data.tables.formats import Format, Reading, choose_reader
from data.tables.problems import Problems


@dataclass(frozen=True)
class Request:
    """Arguments of a reader; ``chunk_rows`` is as for `data.comparisons.tables.Builder`."""

    paths: list[Path]
    problems: Problems
    label_rules: LabelRules
    measure: Measure
    chunk_rows: int | None


Reader = Callable[[Request], Iterator[ComparisonTables]]


def _imported_tables(request: Request) -> Iterator[ComparisonTables]:
    for path in request.paths:
        with request.problems.collecting(path):
            yield ComparisonTables.read(path).without_flaws(request.problems)


def _comparison_xml(request: Request) -> Iterator[ComparisonTables]:
    from data.comparisons.formats import comparison_xml
    from data.tables.xml_stream import Document

    documents = map(Document.from_path, _files_in(request.paths, ".xml"))
    better, chunk_rows = request.measure.better, request.chunk_rows
    return comparison_xml.read_documents(documents, request.problems, better=better, chunk_rows=chunk_rows)


def _result_xml(request: Request) -> Iterator[ComparisonTables]:
    from data.comparisons.formats import result_xml

    files = _files_in(request.paths, ".xml")
    return result_xml.read_results(files, request.problems, request.measure, chunk_rows=request.chunk_rows)


def _comparison_json(request: Request) -> Iterator[ComparisonTables]:
    from data.comparisons.formats import comparison_json

    used_names = comparison_json.UsedNames()
    for path in _files_in(request.paths, ".json"):
        with request.problems.collecting():
            yield comparison_json.tables_of(content_of(path), str(path), request.problems, used_names)


def _sap_hana(request: Request) -> Iterator[ComparisonTables]:
    from data.comparisons.formats import sap_hana

    for path in request.paths:
        yield from sap_hana.read_data_set(path, request.problems, request.label_rules, request.chunk_rows)


def _tool_output(tool: ToolFormat, request: Request) -> Iterator[ComparisonTables]:
    # until the source's many objects are released
    with garbage_collection_off():
        yield from assembly.read_tool_tables(
            tool, request.paths, request.problems, request.measure, request.chunk_rows
        )


FORMATS: dict[str, Format[Reader]] = {
    "tables": Format(_imported_tables, sign="results.parquet"),
    "result-xml": Format(_result_xml, sign="*.xml", suffix=".xml"),
    "comparison-xml": Format(_comparison_xml, sign="*.xml", suffix=".xml"),
    "comparison-json": Format(_comparison_json, sign="*.json", suffix=".json"),
    "sap-hana": Format(_sap_hana, sign="annotations.json"),
    **{name: Format(partial(_tool_output, tool), sign=tool.folder or "*") for name, tool in TOOLS.items()},
}
#: Formats whose files hold runs, not comparisons: a comparison needs two of them.
RUNS = ("tables", "result-xml", *TOOLS)


def stream_tables(
    name: str,
    paths: list[Path],
    problems: Problems,
    *,
    label_rules: LabelRules | None = None,
    measure: Measure | None = None,
    chunk_rows: int | None = CHUNK_ROWS,
) -> Iterator[ComparisonTables]:
    """Yield the tables of `paths` in chunks, then the labels of ``labels.csv`` in each directory of `paths`.

    A comparison comes in the same chunk as its results, except in result-xml, where the baseline may be in an
    earlier chunk. It is not checked that there are comparisons and that they can be judged. Parameters are
    those of `read_tables`; a chunk ends when it has `chunk_rows` results (None: no limit), in sap-hana ten
    times as many; a path of tables, or a file of comparison-json, is always one chunk. InputError at the call
    if the format is unknown or a path is missing; at the call or later if a directory has no file with the
    suffix of its XML or JSON format, result-xml has settings only, sap-hana has no annotations or no series,
    or ``labels.csv`` lacks a column; and at any other error, unless ``problems.keep_going``.
    """
    reader = choose_reader(FORMATS, name, paths)
    request = Request(paths, problems, label_rules or LabelRules(), measure or Measure(), chunk_rows)
    return _with_csv_labels(reader(request), paths, problems)


def _with_csv_labels(
    chunks: Iterator[ComparisonTables], paths: list[Path], problems: Problems
) -> Iterator[ComparisonTables]:
    """Yield `chunks`, then for each directory in `paths` with a ``labels.csv`` a chunk of its labels only.

    A label of a comparison that no chunk has is an error of its row.
    """
    files = [path / label_csv.FILE for path in paths if (path / label_csv.FILE).is_file()]
    seen: set[str] = set()
    for chunk in chunks:
        if files:
            seen.update(chunk.comparisons["comparison_id"])
        yield chunk
    for file in files:
        yield ComparisonTables.from_rows(None, None, label_csv.read_labels(file, problems, seen))


def read_tables(
    name: str,
    paths: list[Path],
    label_rules: LabelRules | None = None,
    measure: Measure | None = None,
    *,
    keep_going: bool = False,
) -> Reading[ComparisonTables]:
    """Return the tables of `paths`, with errors of skipped parts (``skipped``) and ``notes`` on assumptions.

    `name` is a key of `FORMATS`; `paths` are files, or directories, whose files are read in the order of
    their names, and whose ``labels.csv`` adds labels. Where each file is a version, the first is the oldest.
    `label_rules` are for marked change points (sap-hana); `measure` is the metric and its direction, where
    files do not define them. With `keep_going`, parts that cannot be read are skipped; comparisons that can
    be read but not judged are included, and also counted as skipped. InputError at the first part that cannot
    be read or judged, unless `keep_going`; always for the errors that `stream_tables` never collects; and if
    nothing was skipped, but there are no results or no two versions to compare.
    """
    problems = Problems(keep_going)
    chunks = stream_tables(name, paths, problems, label_rules=label_rules, measure=measure, chunk_rows=None)
    tables = ComparisonTables.join_tables(list(chunks))
    for error in find_errors(tables):
        problems.add(error)
    require_content(name, paths, problems, len(tables.results), len(tables.comparisons))
    return Reading(tables, tuple(problems.skipped), tuple(problems.notes))


def require_content(
    name: str, paths: list[Path], problems: Problems, n_results: int, n_comparisons: int
) -> None:
    """Raise an InputError if there is nothing to judge, unless `problems` has skipped parts.

    `name` is the format; `paths` are the sources, of which messages name the first. No results are always an
    error, no comparisons only if the format is result-xml or that of a benchmark tool.
    """
    if problems.skipped:
        return
    if name == "result-xml" and not n_comparisons:
        raise InputError("is one result file; two are needed, the older version's first", file=paths[0])
    if name in TOOLS and n_results and not n_comparisons:
        hint = "`perfjudge compare`, which also compares two operations of one file"
        problem = f"is one version ({name}); two are needed, the older one first, or {hint}"
        raise InputError(problem, file=paths[0])
    if not n_results:
        raise InputError("holds no comparison", file=paths[0] if paths else None)


def results_of_run(
    path: Path, problems: Problems | None = None, measure: Measure | None = None, kind: str | None = None
) -> pd.DataFrame:
    """Return the results of one run, with the columns of ``RESULT_DTYPES``, then any others of the source.

    `path` is a file or directory of a benchmark tool (`data.comparisons.formats.tools`), result XML, or a
    directory of tables; `kind` is its format, by default recognised from the content. `problems` receives
    notes on assumptions and, with ``keep_going``, the errors of skipped parts. `measure` is the metric and
    its direction, where the file does not define them. InputError if the file cannot be read or is invalid,
    its format is unknown or is for comparisons, or it has no results or those of several versions.
    """
    kind = kind or recognise_format(path)
    if kind == "comparison-json":
        # report invalid JSON as such
        content_of(path)
    if kind in {"comparison-json", "comparison-xml", "sap-hana"}:
        raise InputError(f"is {kind}; expected the results of one run: {', '.join(RUNS)}", file=path)
    chunks = stream_tables(kind, [path], problems or Problems(), measure=measure, chunk_rows=None)
    results = ComparisonTables.join_tables(list(chunks)).results
    if results.empty:
        raise InputError("holds no results", file=path)
    if results["order"].min() != results["order"].max():
        raise InputError("holds the results of several versions; expected those of one run", file=path)
    return results


def _files_in(paths: list[Path], suffix: str) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        inside = list(path.glob(f"*{suffix}")) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"holds no {suffix} file", file=path)
        files += in_natural_order(inside)
    return files


def recognise_format(path: Path) -> str:
    """Return the format of a file or directory, a key of `FORMATS`, recognised from its content.

    A directory is recognised by the names of its files. If these are no sign of a format, its files of
    measurements are sorted by name, and the content of the first decides. Text that begins like JSON but is
    invalid is ``comparison-json``. InputError if the format is unknown, XML is malformed before its root
    element, or `path` is missing, empty or cannot be read.
    """
    if not path.exists():
        raise InputError("no such file or directory", file=path)
    return _sniff_directory(path) if path.is_dir() else format_of_file(path)


def _sniff_directory(path: Path) -> str:
    for name in ("tables", "sap-hana"):
        if FORMATS[name].matches_path(path):
            return name
    files = assembly.measurement_files(path)
    if not files or (path / BENCHMARKS).is_file():
        # do not search subdirectories of a directory that has files
        asv = TOOLS["asv"]
        result = next(path.glob(asv.folder), None)
        if result is not None and recognition.recognise_tool(recognition.UnreadFile(result), [asv]):
            return "asv"
        if FORMATS["criterion"].matches_path(path):
            return "criterion"
    if not files:
        raise InputError(f"holds no data in a known format ({', '.join(FORMATS)})", file=path)
    return format_of_file(files[0])
