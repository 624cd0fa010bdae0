"""The stages ingest and validate of the family ``comparisons``."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd

from data import stages
from data.comparisons import formats
from data.comparisons.labels.consensus import Rule, consensus_status
from data.comparisons.params import Comparisons, Measure
from data.comparisons.tables import CHUNK_ROWS, Builder, ComparisonTables
from data.comparisons.validity import CONTENT, REPEATED, comparison_error, find_errors, unusable_reasons
from data.errors import InputError
from data.tables.files import replacing
from data.tables.formats import Reading
from data.tables.problems import Problems
from data.tables.specs import Spec, Tables

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TABLES = ("results", "comparisons", "labels")


def import_tables(
    name: str,
    paths: list[Path],
    directory: Path,
    *,
    keep_going: bool = False,
    measure: Measure | None = None,
) -> Reading[dict[str, int]]:
    """Write the results, comparisons and labels in `paths` to `directory`, all or none; return their counts.

    `name` is a key of `data.comparisons.formats.FORMATS`; `paths` are files or directories; `measure` is the
    metric and its direction, where the format does not define them. Existing Parquet files of these names are
    replaced. In the result, ``tables`` maps ``results``, ``comparisons`` and ``labels`` to their numbers of
    rows. `keep_going`: leave out what cannot be read. Errors are those of `read_tables` of the formats;
    InputError also if a later source has further columns, or columns of another type, OSError if a table
    cannot be written.
    """
    problems, earlier = Problems(keep_going), _Earlier()
    # the baseline of a comparison of result files may be in another chunk
    chunk_rows = None if name == "result-xml" else CHUNK_ROWS
    chunks = formats.stream_tables(name, paths, problems, measure=measure, chunk_rows=chunk_rows)
    executor, writers = ThreadPoolExecutor(1), dict[str, _Writer]()
    # files replace existing ones only if all are written
    with ExitStack() as files, ExitStack() as open_files, executor:
        for table in TABLES:
            path = files.enter_context(replacing(directory / f"{table}.parquet"))
            writers[table] = _Writer(path, executor)
            open_files.callback(writers[table].close)
        # empty tables if every part is skipped
        first = next(chunks, Builder().take_tables())
        for tables in chain([first], chunks):
            for problem in [*find_errors(tables), *earlier.find_repeated(tables.comparisons)]:
                problems.add(problem)
            for table, writer in writers.items():
                writer.write_chunk(getattr(tables, table), paths[0])
        for writer in writers.values():
            writer.wait_for_write()
        counts = {table: writer.rows for table, writer in writers.items()}
        formats.require_content(name, paths, problems, counts["results"], counts["comparisons"])
    return Reading(counts, tuple(problems.skipped), tuple(problems.notes))


class _Earlier:
    """Hashes of the comparisons of earlier chunks, by identifier and by content."""

    def __init__(self) -> None:
        self._seen = [np.zeros(0, np.uint64)] * 2

    def find_repeated(self, comparisons: pd.DataFrame) -> list[InputError]:
        identifiers = pd.util.hash_array(comparisons["comparison_id"].to_numpy(object))
        content = pd.util.hash_pandas_object(comparisons[CONTENT], index=False).to_numpy(np.uint64)
        hashes = [identifiers, content]
        is_repeated = np.logical_or(*map(np.isin, hashes, self._seen))
        self._seen = list(map(np.append, self._seen, hashes))
        return [comparison_error(REPEATED, row) for row in comparisons[is_repeated].itertuples()]


class _Writer:
    """A Parquet file written in chunks by `executor`; the first chunk determines its columns."""

    def __init__(self, path: Path, executor: Executor) -> None:
        self.rows = 0
        self._path, self._executor = path, executor
        self._parquet: pq.ParquetWriter | None = None
        self._last: Future[None] | None = None

    def write_chunk(self, frame: pd.DataFrame, source: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._path, _arrow_schema(frame), compression="zstd")
        schema = self._parquet.schema
        new = sorted(set(frame.columns) - set(schema.names))
        if new:
            raise InputError(f"has the column {new[0]!r}, which earlier sources do not have", file=source)
        try:
            table = _arrow_table(frame.reindex(columns=schema.names)).cast(schema)
        except pa.ArrowException as exc:
            problem = f"has a column of another type than earlier sources ({exc})"
            raise InputError(problem, file=source) from exc
        self.wait_for_write()
        self._last = self._executor.submit(self._parquet.write_table, table)
        self.rows += len(frame)

    def wait_for_write(self) -> None:
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        if self._parquet is not None:
            self._parquet.close()


def _arrow_table(frame: pd.DataFrame) -> pa.Table:
    import pyarrow as pa
    from pandas.errors import Pandas4Warning

    with catch_warnings():
        # pyarrow accesses times in a way that pandas 4 will change; pandas' writer silences the warning, too
        simplefilter("ignore", Pandas4Warning)
        return pa.Table.from_pandas(frame, preserve_index=False)


def _arrow_schema(frame: pd.DataFrame) -> pa.Schema:
    """Return the schema of a table; columns without values are taken to be text."""
    import pyarrow as pa

    schema = _arrow_table(frame).schema
    for index, field in enumerate(schema):
        if pa.types.is_null(field.type) or pa.types.is_string(field.type):
            schema = schema.set(index, field.with_type(pa.large_string()))
    return schema


@dataclass(frozen=True)
class Valid(Tables):
    """Table of validity: a row per comparison, with its training label.

    The columns are ``comparison_id``, ``valid``, ``reason`` (empty if valid) and ``status`` ("pass" or
    "fail"; missing if unlabelled or in a tie of votes).
    """

    SPECS: ClassVar = {
        "comparisons": Spec(
            {"comparison_id": "str", "valid": "bool", "reason": "str", "status": "str"}, file="valid"
        )
    }
    COMPRESSION = "snappy"

    comparisons: pd.DataFrame

    def describe_counts(self) -> str:
        """Return a text such as "95 of 100 are valid, 40 labelled"."""
        valid, labelled = self.comparisons["valid"], self.comparisons["status"].notna()
        return f"{valid.sum()} of {len(valid)} are valid, {labelled.sum()} labelled"


def ingest_comparisons(section: Comparisons) -> Reading[ComparisonTables]:
    """Return the tables of ``section.ingest``, with errors of skipped parts (``skipped``) and ``notes``.

    InputError at the first part that cannot be read or judged, unless ``ingest.keep_going``; always for the
    other errors of `data.comparisons.formats.read_tables`, such as a missing source.
    """
    source = section.ingest
    return formats.read_tables(
        source.format, [source.path], source.label_rules, source.measure, keep_going=source.keep_going
    )


def validate_comparisons(tables: ComparisonTables, rule: Rule = "majority") -> Valid:
    """Return whether the measurements of each comparison are usable, and its training label, in order.

    ``valid`` is False for comparisons that cannot be judged or repeat an earlier one, whatever the labels.
    `rule` ("majority" or "dawid-skene") is how several annotators' labels are aggregated.
    """
    reasons = pd.Series(unusable_reasons(tables), dtype="str")
    names = tables.comparisons["comparison_id"]
    valid = pd.DataFrame({"comparison_id": names, "valid": reasons == "", "reason": reasons})
    return Valid(valid.join(consensus_status(tables.labels, rule), on="comparison_id"))


ingest_stage = partial(stages.ingest, Comparisons, ingest_comparisons)
validate_stage = partial(
    stages.run_validate,
    Comparisons,
    ComparisonTables,
    lambda tables, section: validate_comparisons(tables, section.checks.consensus),
)
