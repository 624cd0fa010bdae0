"""Which runs of pieces can be learned from: the rules of `data.matrices.validity`, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, SUMMARY, MatrixTables, metrics_of
from data.matrices.validity import SIGNED_SHARE, decided, telling
from data.parallel import Compute, side_by_side, watched
from data.tables.files import replacing
from data.tables.problems import Problems
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


Floats = NDArray[np.float64]
#: The column beside the metrics that says to which part of the test cases a run belongs.
PART = "part of the test cases"
CLEAN = "valid.parquet"
#: Rows of a clean piece that are read at once.
_GROUP = 10_000


@dataclass(frozen=True)
class MetricCounts:
    """What the rules want to know of metrics, which can be added.

    Attributes
    ----------
    least, most : ndarray of shape (n_metrics,)
        NaN where a metric was never measured.
    """

    rows: int
    measured: NDArray[np.int64]
    negative: NDArray[np.int64]
    least: Floats
    most: Floats

    @classmethod
    def of(cls, values: Floats) -> MetricCounts:
        """Count in runs x metrics, at least one run."""
        least, most = np.fmin.reduce(values), np.fmax.reduce(values)
        return cls(len(values), (~np.isnan(values)).sum(axis=0), (values < 0).sum(axis=0), least, most)

    def __add__(self, other: MetricCounts) -> MetricCounts:
        return MetricCounts(
            self.rows + other.rows,
            self.measured + other.measured,
            self.negative + other.negative,
            np.fmin(self.least, other.least),
            np.fmax(self.most, other.most),
        )

    def reasons(self, metrics: Sequence[str], missing: float) -> pd.Series:
        """Say by metric why nothing can be learned from it; see `data.stages.reasons`."""
        seldom = 1 - self.measured / self.rows > missing
        same = self.least == self.most
        told = [
            f"was measured in {self.measured[place]} of {self.rows} runs"
            if seldom[place]
            else f"has the same value {self.least[place]:g} in all runs"
            if same[place]
            else ""
            for place in range(len(metrics))
        ]
        return pd.Series(told, list(metrics), dtype="str")


@dataclass(frozen=True)
class Cleaning:
    """A piece to be cleaned.

    Attributes
    ----------
    metrics : DataFrame
        As `MatrixTables.metrics`; it is known which of them may be negative.
    reasons : Series of str
        By metric, why nothing can be learned from it.
    missing : float
        The share of the raw metrics that a run may lack.
    part : Series of int
        By test case, to which part it belongs.
    share : float
        Of the pairs that are returned with all their runs.
    """

    number: int
    file: Path
    metrics: pd.DataFrame
    reasons: pd.Series
    missing: float
    part: pd.Series
    share: float
    seed: int


@dataclass(frozen=True)
class Cleaned:
    """What came of a piece.

    Attributes
    ----------
    file : Path
        Its valid runs, with the metrics that say something and the column `PART`.
    runs, valid, pairs : int
        Runs in all; valid ones, and their pairs.
    some : MatrixTables
        Some pairs with all their runs, flagged.
    by_analysts : bool
        Whether an analyst has flagged a run of the piece invalid.
    """

    file: Path
    runs: int
    valid: int
    pairs: int
    some: MatrixTables
    by_analysts: bool


def cleaned(
    source: Path,
    pieces: Pieces,
    part: pd.Series,
    compute: Compute,
    *,
    missing: float,
    some: int,
    seed: int,
) -> list[Cleaned]:
    """Clean all pieces, which are then gone.

    Parameters
    ----------
    source : Path
        Where the runs come from; the table of metrics lies beside them.
    part : Series of int
        By test case.
    missing : float
        The share of the raw metrics that a run may lack.
    some : int
        About as many runs are returned, all of a pair.
    seed : int
        Of their choice.

    Raises
    ------
    InputError
        If no metric says anything, or a run is wrong.
    """
    counts = reduce(add, side_by_side(counted, pieces.files, compute, "count metrics"))
    names = metrics_of(runs_of(pieces.files[0]))
    table = described(source, names)
    reasons = counts.reasons(names, missing)
    often = pd.Series(counts.negative / counts.rows > SIGNED_SHARE, names)
    signed = table["signed"].fillna(often.reindex(table["metric"]).reset_index(drop=True).astype("boolean"))
    table, share = table.assign(signed=signed), min(1.0, some / counts.rows)
    raw = [name for name in table["metric"] if not name.startswith(SUMMARY)]
    if not raw:
        raise InputError("has no raw metric", file=source)
    telling(reasons, raw)
    tasks = [
        Cleaning(number, file, table, reasons, missing, part, share, seed)
        for number, file in enumerate(pieces.files)
    ]
    return side_by_side(clean, tasks, compute, "clean matrices")


def counted(file: Path) -> MetricCounts:
    """Count the metrics of a piece."""
    runs = runs_of(file)
    return MetricCounts.of(runs[metrics_of(runs)].to_numpy(np.float64))


def clean(task: Cleaning) -> Cleaned:
    """Write the valid runs of a piece, and remove it."""
    runs = runs_of(task.file)
    nothing = pd.DataFrame(columns=["run_id", "cause", "cause_size", "invalid_kind"])
    tables = MatrixTables.of({"runs": runs, "causes": nothing, "metrics": task.metrics})
    try:
        tables = tables.without_flaws(Problems())
    except InputError as exc:
        raise exc.within("matrices") from exc
    flagged = decided(tables, task.reasons, task.missing).flagged(tables)
    valid = flagged.runs["valid"].to_numpy(bool)
    pairs = flagged.runs["pair_id"].unique()
    chosen = pairs[np.random.default_rng([task.seed, task.number]).random(len(pairs)) < task.share]
    some = flagged.of_runs(flagged.runs["pair_id"].isin(chosen).to_numpy(bool))
    kept = flagged.of_runs(valid).runs
    target = flagged.runs[flagged.runs["side"] == SIDES[1]].drop_duplicates("pair_id")
    home = target.set_index("pair_id")["workload"].reindex(kept["pair_id"])
    part = task.part.reindex(home).to_numpy(np.float64)
    with replacing(task.file.with_name(CLEAN)) as path:
        kept.assign(**{PART: part}).to_parquet(path, index=False, row_group_size=_GROUP)
    task.file.unlink()
    path = task.file.with_name(CLEAN)
    by_analysts = bool((~tables.runs["valid"].fillna(value=True)).any())
    return Cleaned(path, len(runs), int(valid.sum()), kept["pair_id"].nunique(), some, by_analysts)
