"""The tables that every source of performance matrices is read into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.tables import read_counts, read_table, typed
from data.errors import InputError
from data.tables.files import replacing

RUN_DTYPES = {
    "run_id": "str",
    "workload": "str",
    "group": "str",
    "version": "str",
    "machine": "str",
    "side": "str",
    "pair_id": "str",
    "valid": "boolean",
    "abnormal": "boolean",
}
CAUSE_DTYPES = {"run_id": "str", "cause": "str", "cause_size": "float64", "invalid_kind": "str"}
METRIC_DTYPES = {"metric": "str", "unit": "str", "signed": "boolean", "note": "str"}
#: Columns that a source may leave out: nobody has judged the runs yet.
OPTIONAL = frozenset({"valid", "abnormal"})
#: And of the table of metrics.
UNTOLD = frozenset({"signed", "note"})
SIDES = ("baseline", "target")
#: What the two sides of a pair are compared by: one of these differs, the others don't (seed 001, 2.1).
METADATA = ("workload", "group", "version", "machine")
SUMMARY = "summary_"
#: More metrics than this are no measurement: the seed's systems have 165 to 278 (seed 001, table 1).
MOST_METRICS = 10_000


@dataclass(frozen=True)
class MatrixTables:
    """Measurement runs in pairs of matrices (seed 001, section 2.1).

    Attributes
    ----------
    runs : DataFrame
        One row per run, with the columns of `RUN_DTYPES`, then one per raw metric, then the summary metrics
        with the prefix ``summary_``; a missing value was not measured. The rows of one ``pair_id`` are two
        matrices: those of its ``side`` "baseline" and those of its side "target". ``workload`` is the test
        case, which folds keep whole; ``valid`` and ``abnormal`` are an analyst's flags, missing where nobody
        has judged.
    causes : DataFrame
        ``run_id, cause, cause_size, invalid_kind``: what is known of how a run came to be what it is. A table
        of its own, so that it never becomes a feature. May be empty.
    metrics : DataFrame
        ``metric, unit, signed, note``: one row per metric, in the order of the columns. An unknown unit is
        empty; a metric that is not ``signed`` is never negative; missing: the values must tell.
    """

    runs: pd.DataFrame
    causes: pd.DataFrame
    metrics: pd.DataFrame

    @property
    def raw(self) -> list[str]:
        """The raw metrics."""
        return [name for name in self.all_metrics if not name.startswith(SUMMARY)]

    @property
    def summary(self) -> list[str]:
        """The summary metrics, with their prefix."""
        return [name for name in self.all_metrics if name.startswith(SUMMARY)]

    @property
    def all_metrics(self) -> list[str]:
        """Raw and summary metrics."""
        return metrics_of(self.runs)

    @classmethod
    def of_rows(
        cls,
        runs: list[dict[str, Any]] | pd.DataFrame,
        causes: list[dict[str, Any]] | pd.DataFrame | None = None,
        metrics: list[dict[str, Any]] | pd.DataFrame | None = None,
    ) -> MatrixTables:
        """Make the tables from plain rows; what `metrics` lacks gets a row without a unit."""
        frames = [pd.DataFrame(rows if rows is not None else []) for rows in (runs, causes, metrics)]
        dtypes = (RUN_DTYPES, CAUSE_DTYPES, METRIC_DTYPES)
        return _filled(*(typed(frame, types) for frame, types in zip(frames, dtypes, strict=True)))

    @classmethod
    def read(cls, path: Path, *, flags: bool = True) -> MatrixTables:
        """Read the directory that `write` wrote, or one Parquet file of runs.

        Causes and metrics may be absent; beside one file, a ``metrics.parquet`` is read, too.

        Parameters
        ----------
        path : Path
        flags : bool
            Whether the flags of analysts are wanted. If not, it doesn't matter what stands there.

        Raises
        ------
        InputError
            If a file is missing, is no whole Parquet file, lacks a column, has too many, or a metric is no
            number.
        """
        runs = path / "matrices.parquet" if path.is_dir() else path
        _require_fewer(runs)
        frames = [read_counts(runs, RUN_DTYPES, OPTIONAL, () if flags else OPTIONAL)]
        for name, dtypes in (("causes", CAUSE_DTYPES), ("metrics", METRIC_DTYPES)):
            beside = runs.with_name(f"{name}.parquet")
            there = beside.exists() and beside != runs and (path.is_dir() or name == "metrics")
            frames.append(read_table(beside, dtypes, UNTOLD) if there else typed(pd.DataFrame(), dtypes))
        return _filled(*frames)

    def write(self, directory: Path) -> None:
        """Write ``matrices.parquet``, ``causes.parquet`` and ``metrics.parquet``, each in one piece."""
        for name, frame in (("matrices", self.runs), ("causes", self.causes), ("metrics", self.metrics)):
            with replacing(directory / f"{name}.parquet") as path:
                frame.to_parquet(path, index=False, compression="zstd")

    def of_runs(self, chosen: NDArray[np.bool_]) -> MatrixTables:
        """Return the tables with the runs that are `chosen` (bool, row by row)."""
        runs, causes = self.runs[chosen].reset_index(drop=True), self.causes
        # to look for runs among no causes takes as long as among many
        if len(causes):
            causes = causes[causes["run_id"].isin(runs["run_id"])].reset_index(drop=True)
        return MatrixTables(runs, causes, self.metrics)

    def without_flags(self) -> MatrixTables:
        """Return the tables as one who asks has them: nobody has said what is valid or abnormal."""
        nobody = pd.array([pd.NA] * len(self.runs), dtype="boolean")
        return MatrixTables(self.runs.assign(valid=nobody, abnormal=nobody), self.causes, self.metrics)

    @classmethod
    def joined(cls, parts: list[MatrixTables]) -> MatrixTables:
        """Join the tables of several sources; a metric that a source lacks is missing there.

        Raises
        ------
        InputError
            If two sources have a metric in different units.
        """
        if len(parts) == 1:
            return parts[0]
        known = pd.concat([part.metrics for part in parts], ignore_index=True)
        _require_one_unit(known)
        rows = [part.runs for part in parts if len(part.runs)] or [parts[0].runs]
        found = [part.causes for part in parts if len(part.causes)] or [parts[0].causes]
        return cls.of_rows(
            pd.concat(rows, ignore_index=True),
            pd.concat(found, ignore_index=True),
            known.drop_duplicates("metric"),
        )


class Sides:
    """Matrices on their way into the table of runs, side by side.

    Parameters
    ----------
    metrics : sequence of str
        The columns of every matrix.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = list(metrics)
        self._about: list[dict[str, Any]] = []
        self._values: list[NDArray[np.float64]] = []

    def add(self, values: NDArray[np.float64], pair: str, side: str, **metadata: Any) -> list[str]:
        """Add one side of a pair, runs x metrics; return the names of its runs."""
        names = [f"{pair} {side} {number}" for number in range(len(values))]
        self._about += [{"run_id": name, "pair_id": pair, "side": side, **metadata} for name in names]
        self._values.append(values)
        return names

    def frame(self) -> pd.DataFrame:
        """Return the table of runs."""
        values = np.concatenate([*self._values, np.zeros((0, len(self._metrics)))])
        about = pd.DataFrame(self._about)
        return pd.concat([about, pd.DataFrame(values, columns=self._metrics)], axis="columns")


def metrics_of(runs: pd.DataFrame) -> list[str]:
    """Return the columns of `runs` that are metrics."""
    return [column for column in runs.columns if column not in RUN_DTYPES]


def _filled(runs: pd.DataFrame, causes: pd.DataFrame, metrics: pd.DataFrame) -> MatrixTables:
    """Bring the metrics into one order, raw ones first, and give each a row in the table of metrics."""
    names = sorted(metrics_of(runs), key=lambda name: name.startswith(SUMMARY))
    described = typed(
        pd.DataFrame({"metric": names}).merge(
            metrics.drop_duplicates("metric"), on="metric", how="left", validate="one_to_one"
        ),
        METRIC_DTYPES,
    )
    described = described.assign(unit=described["unit"].fillna(""), note=described["note"].fillna(""))
    # a source may have rows under any index, even twice under one
    whole = pd.concat([runs[list(RUN_DTYPES)], runs[names].astype("float64")], axis="columns")
    return MatrixTables(whole.reset_index(drop=True), causes, described)


def _require_fewer(path: Path) -> None:
    """Raise an InputError if a Parquet file has more columns than any measurement, before it is read."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    if not path.is_file():
        return
    try:
        metadata = pq.read_metadata(path)
    except (OSError, ValueError, ArrowException) as exc:
        raise InputError(f"is not a readable Parquet file ({exc})", file=path) from exc
    found = metadata.num_columns - len(RUN_DTYPES.keys() & set(metadata.schema.names))
    if found > MOST_METRICS:
        raise InputError(f"has {found} metrics; expected {MOST_METRICS} at most", file=path)


def _require_one_unit(metrics: pd.DataFrame) -> None:
    units = metrics[metrics["unit"] != ""].drop_duplicates(["metric", "unit"])
    twice = units[units.duplicated("metric", keep=False)]
    if len(twice):
        name = twice["metric"].iloc[0]
        found = " and ".join(f'"{unit}"' for unit in twice.loc[twice["metric"] == name, "unit"])
        raise InputError(f"comes in the units {found}; expected one", place=f'metric "{name}"')
