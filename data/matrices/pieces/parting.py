"""A table of runs of any size becomes files of whole test cases of one group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, MatrixTables
from data.parallel import watched
from data.tables.specs import Spec

#: A piece has so many runs, or those of one test case if they are more.
RUNS = 50_000
#: Rows that are read at once, and bytes that may wait to be written.
_BATCH, _WAITING = 16_384, 2**28
#: The columns by which runs are parted.
_HOME = ("pair_id", "side", "workload", "group")
_PIECE, _FILES = "piece of the table", "runs-{i}.parquet"


@dataclass(frozen=True)
class Pieces:
    """Where runs lie that were parted.

    Attributes
    ----------
    files : tuple of Path
        Each has whole pairs of whole test cases of one group, in the order of the source.
    workloads : DataFrame
        ``workload, group, piece``: a row per test case, in the order of the source. A pair belongs to the
        test case and the group of its target.
    rows : int
    """

    files: tuple[Path, ...]
    workloads: pd.DataFrame
    rows: int


def part(source: Path, directory: Path, runs: int = RUNS) -> Pieces:
    """Part the runs of `source`; no more of them than a piece or two are in memory at once.

    Parameters
    ----------
    source : Path
        A Parquet file of runs as in `data.matrices.tables.MatrixTables`, or a directory of such files, below
        which directories may name their group (``group=oltp``).
    directory : Path
        Gets a directory per piece.
    runs : int
        The size of a piece.

    Raises
    ------
    InputError
        If there are no Parquet files, or a column is missing.
    """
    found = dataset(source)
    pair, homes = _homes(found, source)
    piece = _packed(homes, np.bincount(pair, minlength=len(homes)), runs)
    scanner = found.scanner(batch_size=_BATCH, batch_readahead=2, fragment_readahead=1, use_threads=False)
    reading = watched(scanner.to_batches(), -(-len(pair) // _BATCH), "part matrices")
    row_bytes = 8 * len(found.schema)
    count = int(piece.max(initial=-1)) + 1
    ds.write_dataset(
        _labelled(reading, piece[pair]),
        directory,
        schema=found.schema.append(pa.field(_PIECE, pa.int32())),
        format="parquet",
        partitioning=[_PIECE],
        basename_template=_FILES,
        min_rows_per_group=max(1, min(runs, _WAITING // (row_bytes * count))),
        max_rows_per_group=max(runs, 1),
        max_open_files=count + 1,
        use_threads=False,
        preserve_order=True,
        existing_data_behavior="delete_matching",
    )
    files = tuple(directory / str(number) / _FILES.format(i=0) for number in range(count))
    workloads = homes.assign(piece=piece).drop_duplicates("workload").reset_index(drop=True)
    return Pieces(files, workloads, len(pair))


def dataset(source: Path) -> ds.Dataset:
    """Open the runs of `source`, without reading them.

    Raises
    ------
    InputError
        If there are no Parquet files, or the columns of a run are not there.
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
    """Read a piece as a table of runs, without the column that says which piece it is."""
    spec = MatrixTables.SPECS["runs"]
    return Spec(spec.dtypes, spec.optional, (_PIECE,), spec.further).read(file)


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
    """Return the piece of each pair: test cases of a group, as many as make up so many runs."""
    cases = homes.assign(runs=sizes).groupby(["group", "workload"], sort=True)["runs"].sum()
    piece, number, filled, before = {}, -1, 0, None
    for (group, workload), count in cases.items():
        if group != before or filled + count > runs:
            number, filled, before = number + 1, 0, group
        piece[group, workload], filled = number, filled + count
    return np.array([piece[one] for one in zip(homes["group"], homes["workload"], strict=True)], np.int32)


def _labelled(batches: Iterator[pa.RecordBatch], piece: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch.append_column(_PIECE, pa.array(piece[done : done + batch.num_rows]))
        done += batch.num_rows
