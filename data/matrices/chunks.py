"""Which runs of chunks can be learned from: the rules of `data.matrices.validity`, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, SUMMARY, MatrixTables, metrics_of
from data.matrices.validity import SIGNED_SHARE, decided, telling, unusable_metrics
from data.parallel import Compute, side_by_side, watched
from data.stages import column_counts
from data.tables.files import replacing
from data.tables.problems import Problems
from data.tables.specs import Spec

#: A chunk has so many runs, or those of one test case if they are more.
RUNS = 50_000
#: Rows that are read at once, and bytes that may wait to be written.
_BATCH, _WAITING = 16_384, 2**28
#: The columns by which runs are parted.
_HOME = ("pair_id", "side", "workload", "group")
_CHUNK, _FILES = "chunk of the table", "runs-{i}.parquet"


@dataclass(frozen=True)
class Chunks:
    """Files of whole pairs of whole test cases of one group, in the order of the source.

    ``workloads`` has ``workload, group, chunk``: a row per test case, in the order of the source. A pair
    belongs to the test case and the group of its target.
    """

    files: tuple[Path, ...]
    workloads: pd.DataFrame
    rows: int


def part(source: Path, directory: Path, runs: int = RUNS) -> Chunks:
    """Part the runs of `source` into chunks of about `runs`; a chunk or two are in memory at once.

    `source` is a Parquet file of runs as in `data.matrices.tables.MatrixTables`, or a directory of such
    files, below which directories may name their group (``group=oltp``). `directory` gets a directory per
    chunk.
    """
    found = dataset(source)
    pair, homes = _homes(found, source)
    chunk = _packed(homes, np.bincount(pair, minlength=len(homes)), runs)
    scanner = found.scanner(batch_size=_BATCH, batch_readahead=2, fragment_readahead=1, use_threads=False)
    reading = watched(scanner.to_batches(), -(-len(pair) // _BATCH), "part matrices")
    row_bytes = 8 * len(found.schema)
    count = int(chunk.max(initial=-1)) + 1
    ds.write_dataset(
        _labelled(reading, chunk[pair]),
        directory,
        schema=found.schema.append(pa.field(_CHUNK, pa.int32())),
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
    workloads = homes.assign(chunk=chunk).drop_duplicates("workload").reset_index(drop=True)
    return Chunks(files, workloads, len(pair))


def dataset(source: Path) -> ds.Dataset:
    """Open the runs of `source` without reading them.

    InputError if it has no Parquet files, or lacks a column.
    """
    inside = source / "matrices.parquet" if source.is_dir() else source
    place = inside if inside.exists() else source
    try:
        # a group of rows may be all of them
        reading = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        form = ds.ParquetFileFormat(default_fragment_scan_options=reading)
        found = ds.dataset(place, format=form, partitioning="hive")
    except (OSError, pa.ArrowException) as exc:
        raise InputError(f"holds no Parquet files of runs ({exc})", file=place) from exc
    lacking = [name for name in MatrixTables.SPECS["runs"].dtypes if name not in found.schema.names]
    needed = [name for name in lacking if name not in MatrixTables.SPECS["runs"].optional]
    if needed:
        raise InputError(f"lacks the column {needed[0]!r}", file=place)
    return found


def runs_of(file: Path) -> pd.DataFrame:
    """Read a chunk as a table of runs, without the column that says which chunk it is."""
    spec = MatrixTables.SPECS["runs"]
    return Spec(spec.dtypes, spec.optional, (_CHUNK,), spec.further).read(file)


def described(source: Path, metrics: list[str]) -> pd.DataFrame:
    """Return the table of metrics that lies beside the runs, with a row for each of `metrics`."""
    spec, directory = MatrixTables.SPECS["metrics"], source if source.is_dir() else source.parent
    nobody = pd.DataFrame(columns=[*MatrixTables.SPECS["runs"].dtypes, *metrics])
    frames = {"runs": nobody, "causes": nobody[:0], "metrics": spec.read(directory / "metrics.parquet")}
    return MatrixTables.of(frames).metrics


def _homes(found: ds.Dataset, source: Path) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Return the number of each run's pair, and the ``workload, group`` of each pair: its target's."""
    coded = [name for name in _HOME if found.schema.field(name).type != pa.null()]
    table = found.scanner(columns=list(coded), use_threads=False).to_table()
    frame = pd.DataFrame(
        {name: table.column(name).cast(pa.large_string()).dictionary_encode().to_pandas() for name in coded}
    )
    if frame.isna().any(axis=None):
        name = frame.columns[frame.isna().any()][0]
        row = int(frame[name].isna().to_numpy().argmax())
        raise InputError(f"{name} is missing", file=source, place=f"row {row}")
    pair, names = pd.factorize(frame["pair_id"])
    first = np.full(len(names), -1)
    for rows in (np.arange(len(pair)), np.flatnonzero((frame["side"] == SIDES[1]).to_numpy())):
        # the last one that is written is the first of the table
        first[pair[rows[::-1]]] = rows[::-1]
    homes = frame.loc[first, ["workload", "group"]].astype("str").reset_index(drop=True)
    return pair, homes


def _packed(homes: pd.DataFrame, sizes: NDArray[np.int64], runs: int) -> NDArray[np.int32]:
    """Return the chunk of each pair: test cases of a group, as many as make up so many runs."""
    cases = homes.assign(runs=sizes).groupby(["group", "workload"], sort=True)["runs"].sum()
    chunk, number, filled, before = {}, -1, 0, None
    for (group, workload), count in cases.items():
        if group != before or filled + count > runs:
            number, filled, before = number + 1, 0, group
        chunk[group, workload], filled = number, filled + count
    return np.array([chunk[one] for one in zip(homes["group"], homes["workload"], strict=True)], np.int32)


def _labelled(batches: Iterator[pa.RecordBatch], chunk: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch.append_column(_CHUNK, pa.array(chunk[done : done + batch.num_rows]))
        done += batch.num_rows


#: The column beside the metrics that says to which part of the test cases a run belongs.
PART = "part of the test cases"
CLEAN = "valid.parquet"
#: Rows of a clean chunk that are read at once.
_GROUP = 10_000


@dataclass(frozen=True)
class Cleaned:
    """A cleaned chunk.

    ``file`` has its valid runs with the metrics that carry information and the column `PART`; ``valid`` and
    ``pairs`` count them. ``some`` are some pairs with all their runs, flagged; ``by_analysts``: whether an
    analyst has flagged a run invalid.
    """

    file: Path
    runs: int
    valid: int
    pairs: int
    some: MatrixTables
    by_analysts: bool


def cleaned(
    source: Path, chunks: Chunks, part: pd.Series, compute: Compute, *, missing: float, some: int, seed: int
) -> list[Cleaned]:
    """Clean all chunks by the rules of `data.matrices.validity`, and remove their files.

    Parameters
    ----------
    source : Path
        The runs, with the table of metrics beside them.
    part : Series of int
        By test case, the part that it belongs to.
    missing : float
        The share of the raw metrics that a run may lack.
    some : int
        Number of runs to return, about; whole pairs, drawn by `seed`.

    Raises
    ------
    InputError
        If no metric carries information, or a run is wrong.
    """
    counted = pd.concat(side_by_side(metric_counts, chunks.files, compute, "count metrics"))
    kinds = {"rows": "sum", "measured": "sum", "negative": "sum", "least": "min", "most": "max"}
    counts = counted.groupby(level=0, sort=False).agg(kinds)
    rows, names = int(counts["rows"].iloc[0]) if len(counts) else 0, list(counts.index)
    table = described(source, names)
    often = (counts["negative"] / counts["rows"] > SIGNED_SHARE).reindex(table["metric"])
    table = table.assign(signed=table["signed"].fillna(often.reset_index(drop=True).astype("boolean")))
    raw = [name for name in table["metric"] if not name.startswith(SUMMARY)]
    if not raw:
        raise InputError("has no raw metric", file=source)
    reasons = unusable_metrics(counts, missing)
    telling(reasons, raw)
    task = partial(
        clean,
        table=table,
        reasons=reasons,
        missing=missing,
        part=part,
        share=min(1.0, some / rows),
        seed=seed,
    )
    return side_by_side(task, list(enumerate(chunks.files)), compute, "clean matrices")


def metric_counts(file: Path) -> pd.DataFrame:
    """Return by metric of a chunk ``rows, measured, negative, least, most``; NaN where never measured."""
    runs = runs_of(file)
    values = runs[metrics_of(runs)]
    return column_counts(values).assign(negative=(values < 0).sum())


def clean(
    chunk: tuple[int, Path],
    *,
    table: pd.DataFrame,
    reasons: pd.Series,
    missing: float,
    part: pd.Series,
    share: float,
    seed: int,
) -> Cleaned:
    """Write the valid runs of a numbered chunk, and remove its file; see `cleaned`."""
    number, file = chunk
    nothing = pd.DataFrame(columns=["run_id", "cause", "cause_size", "invalid_kind"])
    tables = MatrixTables.of({"runs": runs_of(file), "causes": nothing, "metrics": table})
    count = len(tables.runs)
    try:
        tables = tables.without_flaws(Problems())
    except InputError as exc:
        raise exc.within("matrices") from exc
    flagged = decided(tables, reasons, missing).flagged(tables)
    valid = flagged.runs["valid"].to_numpy(bool)
    pairs = flagged.runs["pair_id"].unique()
    chosen = pairs[np.random.default_rng([seed, number]).random(len(pairs)) < share]
    some = flagged.of_runs(flagged.runs["pair_id"].isin(chosen).to_numpy(bool))
    kept = flagged.of_runs(valid).runs
    target = flagged.runs[flagged.runs["side"] == SIDES[1]].drop_duplicates("pair_id")
    home = target.set_index("pair_id")["workload"].reindex(kept["pair_id"])
    path = file.with_name(CLEAN)
    with replacing(path) as temporary:
        parts = part.reindex(home).to_numpy(np.float64)
        kept.assign(**{PART: parts}).to_parquet(temporary, index=False, row_group_size=_GROUP)
    file.unlink()
    by_analysts = bool((~tables.runs["valid"].fillna(value=True)).any())
    return Cleaned(path, count, int(valid.sum()), kept["pair_id"].nunique(), some, by_analysts)
