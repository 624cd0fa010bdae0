"""Validation of matrices that are larger than memory, a chunk of whole test cases at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import CAUSE_DTYPES, SIDES, SUMMARY, MatrixTables, metrics_of, one_row_each
from data.matrices.validity import SIGNED_SHARE, decide_runs_and_pairs, informative_metrics, unusable_metrics
from data.parallel import Compute, side_by_side, with_progress_bar
from data.stages import column_counts
from data.tables.files import replacing
from data.tables.problems import Problems
from data.tables.specs import with_dtypes

#: Number of runs of a chunk; more if one test case has more.
RUNS = 50_000
#: Rows that are read at once, and bytes that may wait to be written.
_BATCH, _WAITING = 16_384, 2**28
#: Columns that determine the chunk of a run.
_HOME = ("pair_id", "side", "workload", "group")
_CHUNK, _FILES = "chunk of the table", "runs-{i}.parquet"
METRICS_FILE = "metrics.parquet"


def split_into_chunks(
    source: Path, directory: Path, runs: int = RUNS
) -> tuple[tuple[Path, ...], pd.DataFrame]:
    """Write the runs of `source` to `directory` in chunks of up to `runs` rows.

    Returns the files, sorted by group and test case, and a table with a row per test case, ``workload,
    group``, in the order of the source. `source` is as for `open_runs`. A chunk has whole pairs of whole test
    cases of one group (a pair belongs to those of its target), and more than `runs` rows only if it is a
    single test case; its rows keep the order of the source. Each chunk is a file in its own subdirectory of
    `directory` (``0``, ``1``, ...), which replaces earlier files there. At most about 256 MB of rows, and
    four columns of all runs, are in memory. InputError as of `open_runs`, or if a file is damaged, there are
    no runs, or a run does not have a pair, a side, a workload or a group.
    """
    opened = open_runs(source)
    try:
        pair, homes = _pair_homes(opened, source)
    except (OSError, pa.ArrowException) as exc:
        raise InputError(f"holds a file that is not Parquet or is damaged ({exc})", file=source) from exc
    chunk = _chunk_numbers(homes, np.bincount(pair, minlength=len(homes)), runs)
    scanner = opened.scanner(batch_size=_BATCH, batch_readahead=2, fragment_readahead=1, use_threads=False)
    batches = with_progress_bar(scanner.to_batches(), -(-len(pair) // _BATCH), "part matrices")
    row_bytes = 8 * len(opened.schema)
    count = int(chunk.max(initial=-1)) + 1
    ds.write_dataset(
        _with_chunk(batches, chunk[pair]),
        directory,
        schema=opened.schema.append(pa.field(_CHUNK, pa.int32())),
        format="parquet",
        partitioning=[_CHUNK],
        basename_template=_FILES,
        min_rows_per_group=max(1, min(runs, _WAITING // (row_bytes * count))),
        max_rows_per_group=max(runs, 1),
        max_open_files=count + 1,
        use_threads=False,
        preserve_order=True,
        existing_data_behavior="delete_matching",
    )
    files = tuple(directory / str(number) / _FILES.format(i=0) for number in range(count))
    return files, homes.drop_duplicates("workload").reset_index(drop=True)


def open_runs(source: Path) -> ds.Dataset:
    """Return the runs of `source`, a Parquet file or a directory, as a dataset, without reading them.

    Of a directory, that is its ``matrices.parquet`` if it has one, else all files in it and its
    subdirectories, which must be Parquet files of runs. Files and subdirectories are ignored if their names
    begin with ".", "_", ``metrics.parquet`` or ``causes.parquet``; the name of a subdirectory may be a column
    (``group=oltp``). InputError if there is no file, the first file is not Parquet, or it lacks a required
    column; further files are not checked.
    """
    place = _place_of_runs(source)
    try:
        # one row group may contain all rows
        reading = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        form = ds.ParquetFileFormat(default_fragment_scan_options=reading)
        others = [".", "_", METRICS_FILE, "causes.parquet"]
        opened = ds.dataset(place, format=form, partitioning="hive", ignore_prefixes=others)
    except (OSError, pa.ArrowException) as exc:
        raise InputError(f"holds no Parquet files of runs ({exc})", file=place) from exc
    spec = MatrixTables.SPECS["runs"]
    for name in spec.dtypes:
        if name not in opened.schema.names and name not in spec.optional:
            raise InputError(f"has no column {name!r}", file=place)
    return opened


def _place_of_runs(source: Path) -> Path:
    inside = source / "matrices.parquet"
    return inside if inside.exists() else source


def runs_of(file: Path) -> pd.DataFrame:
    """Return the runs in a chunk's file, without chunk numbers: columns of `RUN_DTYPES`, then metrics.

    InputError if the file or a column is missing, or a value cannot be converted.
    """
    return replace(MatrixTables.SPECS["runs"], unwanted=(_CHUNK,)).read(file)


def _pair_homes(opened: ds.Dataset, source: Path) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Return the pair of each run as a number, and ``workload, group`` of the target of each pair."""
    table = opened.scanner(columns=list(_HOME), use_threads=False).to_table()
    if not len(table):
        raise InputError("holds no run", file=source)
    texts = {name: table.column(name).cast(pa.large_string()) for name in _HOME}
    frame = pd.DataFrame({name: text.dictionary_encode().to_pandas() for name, text in texts.items()})
    if frame.isna().any(axis=None):
        name = frame.columns[frame.isna().any()][0]
        row = int(frame[name].isna().to_numpy().argmax())
        raise InputError(f"{name} is missing", file=source, place=f"row {row}")
    pair, _ = pd.factorize(frame["pair_id"])
    # the first run of the target, or of the pair if it has no target
    order = np.argsort((frame["side"] != SIDES[1]).to_numpy(), kind="stable")
    first = order[np.unique(pair[order], return_index=True)[1]]
    return pair, frame.loc[first, ["workload", "group"]].astype("str").reset_index(drop=True)


def _chunk_numbers(homes: pd.DataFrame, sizes: NDArray[np.int64], runs: int) -> NDArray[np.int32]:
    """Return the chunk of each pair: consecutive test cases of a group, up to `runs` runs in total."""
    cases = homes.assign(runs=sizes).groupby(["group", "workload"], sort=True)["runs"].sum()
    chunk, number, filled, before = {}, -1, 0, None
    for (group, workload), count in cases.items():
        if group != before or filled + count > runs:
            number, filled, before = number + 1, 0, group
        chunk[group, workload], filled = number, filled + count
    return np.array([chunk[home] for home in zip(homes["group"], homes["workload"], strict=True)], np.int32)


def _with_chunk(batches: Iterator[pa.RecordBatch], chunk: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch.append_column(_CHUNK, pa.array(chunk[done : done + batch.num_rows]))
        done += batch.num_rows


#: Column of the part of the test cases that a run belongs to.
PART = "part of the test cases"
CLEAN = "valid.parquet"
#: Rows per row group of a clean chunk.
_GROUP = 10_000


@dataclass(frozen=True)
class Cleaned:
    """A cleaned chunk; `clean_chunk` describes the fields."""

    file: Path
    valid: int
    pairs: int
    some: MatrixTables
    by_analysts: bool


def clean_chunks(
    source: Path,
    files: Sequence[Path],
    part: pd.Series,
    compute: Compute,
    *,
    missing: float,
    some: int,
    seed: int,
) -> list[Cleaned]:
    """Clean the chunks in `files` by the rules of `decide_validity`; return the `clean_chunk` of each.

    Metrics are judged by all runs together; chunks are cleaned in parallel. The valid runs, also of pairs
    with too few, are written next to the chunk's file, which is removed; runs that an analyst flagged invalid
    are not valid. `source` are the runs, with an optional ``metrics.parquet`` in the directory, else next to
    the file or the directory of part files; `part` has by test case its fold, which is written as the column
    `PART`. `some` is the approximate number of runs to return in ``some`` of all results together: whole
    pairs, drawn with `seed`. InputError if no raw metric carries information, a run breaks a rule of
    `MatrixTables`, or a pair cannot be compared.
    """
    counted = pd.concat(side_by_side(metric_counts, files, compute, "count metrics"))
    kinds = {"rows": "sum", "measured": "sum", "negative": "sum", "least": "min", "most": "max"}
    counts = counted.groupby(level=0, sort=False).agg(kinds)
    inside, beside = source / METRICS_FILE, _place_of_runs(source).resolve().parent / METRICS_FILE
    metrics_file = inside if inside.exists() else beside
    listed = one_row_each(MatrixTables.SPECS["metrics"].read(metrics_file), metrics_file)
    no_runs = pd.DataFrame(columns=[*MatrixTables.SPECS["runs"].dtypes, *counts.index])
    table = MatrixTables.from_frames({"runs": no_runs, "causes": no_runs[:0], "metrics": listed}).metrics
    often = (counts["negative"] / counts["rows"] > SIGNED_SHARE).reindex(table["metric"])
    table = table.assign(signed=table["signed"].fillna(often.reset_index(drop=True).astype("boolean")))
    raw = [name for name in table["metric"] if not name.startswith(SUMMARY)]
    if not raw:
        raise InputError("has no raw metric", file=source)
    reasons = unusable_metrics(counts, missing)
    informative_metrics(reasons, raw)
    share = min(1.0, some / int(counts["rows"].iloc[0]))
    task = partial(
        clean_chunk, table=table, reasons=reasons, missing=missing, part=part, share=share, seed=seed
    )
    return side_by_side(task, list(enumerate(files)), compute, "clean matrices")


def metric_counts(file: Path) -> pd.DataFrame:
    """Return ``rows, measured, least, most, negative`` by metric of the runs in a chunk's file.

    Numbers of runs and of values, least and largest value, and number of negative values.
    """
    runs = runs_of(file)
    values = runs[metrics_of(runs)]
    return column_counts(values).assign(negative=(values < 0).sum())


def clean_chunk(
    chunk: tuple[int, Path],
    *,
    table: pd.DataFrame,
    reasons: pd.Series,
    missing: float,
    part: pd.Series,
    share: float,
    seed: int,
) -> Cleaned:
    """Write the valid runs of a numbered chunk to ``valid.parquet`` next to its file, and remove the file.

    A run is invalid by an analyst's flag, or by the rules of `data.matrices.validity.decide_validity`; valid
    runs of pairs with too few runs are written, too, with the kept metrics only. `chunk` is a number and a
    file, `table` describes the metrics, `reasons` has by metric why it is dropped (empty: kept), and
    `missing` is the largest share of the kept raw metrics that may be without a value in a valid run. `part`
    has by test case its fold, which becomes the column `PART` of the written runs.

    The result has the written ``file``, the numbers of ``valid`` runs and of the ``pairs`` with a valid run,
    and whether an analyst flagged a run invalid (``by_analysts``). ``some`` has all runs, also invalid ones,
    of pairs that are drawn with the probability `share`, by `seed` and the chunk's number.
    InputError if a run is wrong or a pair cannot be compared.
    """
    number, file = chunk
    no_causes = with_dtypes(None, CAUSE_DTYPES)
    tables = MatrixTables.from_frames({"runs": runs_of(file), "causes": no_causes, "metrics": table})
    try:
        tables = tables.without_flaws(Problems())
    except InputError as exc:
        raise exc.with_file("matrices") from exc
    flagged = decide_runs_and_pairs(tables, reasons, missing).flag_valid_runs(tables)
    valid = flagged.runs["valid"].to_numpy(bool)
    pairs = flagged.runs["pair_id"].unique()
    chosen = pairs[np.random.default_rng([seed, number]).random(len(pairs)) < share]
    some = flagged.select_runs(flagged.runs["pair_id"].isin(chosen).to_numpy(bool))
    valid_runs = flagged.select_runs(valid).runs
    target = flagged.runs[flagged.runs["side"] == SIDES[1]].drop_duplicates("pair_id")
    home = target.set_index("pair_id")["workload"].reindex(valid_runs["pair_id"])
    path = file.with_name(CLEAN)
    with replacing(path) as temporary:
        parts = part.reindex(home).to_numpy(np.float64)
        valid_runs.assign(**{PART: parts}).to_parquet(temporary, index=False, row_group_size=_GROUP)
    file.unlink()
    by_analysts = bool((~tables.runs["valid"].fillna(value=True)).any())
    return Cleaned(path, int(valid.sum()), valid_runs["pair_id"].nunique(), some, by_analysts)
