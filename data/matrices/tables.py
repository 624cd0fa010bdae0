"""The tables that every source of performance matrices is read into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.limits import MOST_METRICS, RUN_FLAGS, RUN_TEXTS
from data.tables.parquet import opened
from data.tables.problems import Problems
from data.tables.specs import Spec, Tables, as_number, named, one_of, text, typed

RUN_DTYPES = {**text(*RUN_TEXTS), **dict.fromkeys(RUN_FLAGS, "boolean")}
CAUSE_DTYPES = {"run_id": "str", "cause": "str", "cause_size": "float64", "invalid_kind": "str"}
METRIC_DTYPES = {"metric": "str", "unit": "str", "signed": "boolean", "note": "str"}
SIDES = ("baseline", "target")
#: What the two sides of a pair are compared by: one of these differs, the others don't (seed 001, 2.1).
METADATA = ("workload", "group", "version", "machine")
SUMMARY = "summary_"


@dataclass(frozen=True)
class MatrixTables(Tables):
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

    SPECS: ClassVar = {
        # where flags are absent, nobody has judged the runs yet
        "runs": Spec(
            RUN_DTYPES,
            ("valid", "abnormal"),
            further=as_number,
            unique=("run_id",),
            words={"run_id": "run"},
            file="matrices",
            rules=(*named("run_id", "workload", "group", "pair_id"), one_of("side", *SIDES)),
        ),
        "causes": Spec(CAUSE_DTYPES, may_lack=True),
        "metrics": Spec(METRIC_DTYPES, ("signed", "note"), may_lack=True),
    }

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
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(metrics_of(self.runs))

    @cached_property
    def standing(self) -> RunPlaces:
        """Where the runs stand."""
        return RunPlaces.of(self.runs)

    def numbers(self, metrics: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of some metrics, shape (n_runs, n_metrics), which are not to be changed."""
        values = self._numbers
        if self._names == tuple(metrics):
            return values
        places = {name: place for place, name in enumerate(self._names)}
        return values[:, [places[name] for name in metrics]]

    @cached_property
    def _numbers(self) -> NDArray[np.float64]:
        """All metrics in one array: to pick columns from a frame takes longer than what is done with them."""
        columns = self.runs.columns.tolist()
        places = [place for place, name in enumerate(columns) if name not in RUN_DTYPES]
        return self.runs.iloc[:, places].to_numpy(np.float64)

    def counted(self) -> str:
        """Say how much is in the tables."""
        many = {name: self.runs[name].nunique() for name in ("workload", "group", "pair_id")}
        return (
            f"{len(self.runs)} runs of {many['workload']} workloads in {many['group']} groups, "
            f"{many['pair_id']} pairs, {len(self.raw)} raw and {len(self.summary)} summary metrics"
        )

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Bring the metrics into one order, raw ones first, and give each a row in the table of metrics."""
        runs = frames["runs"]
        names = sorted(metrics_of(runs), key=lambda name: name.startswith(SUMMARY))
        known = frames["metrics"].drop_duplicates("metric")
        every = known.set_index("metric").reindex(pd.Index(names, dtype="str", name="metric")).reset_index()
        described = typed(every, METRIC_DTYPES).fillna({"unit": "", "note": ""})
        # a source may have rows under any index, even twice under one
        whole = pd.concat([runs[list(RUN_DTYPES)], runs[names].astype("float64")], axis="columns")
        # a copy has one block of numbers, from which rows are taken sooner than from a block per metric
        return cls(whole.reset_index(drop=True).copy(), frames["causes"], described)

    @classmethod
    def read(cls, directory: Path, *, flags: bool = True) -> Self:
        """Read the directory that `write` wrote, or one Parquet file of runs.

        Causes and metrics may be absent; beside one file, a ``metrics.parquet`` is read, too. Without
        `flags`, those of analysts are not read, whatever they hold.

        Raises
        ------
        InputError
            If a file is missing, is no whole Parquet file, lacks a column, has too many, or a metric is
            no number.
        """
        runs = directory / "matrices.parquet" if directory.is_dir() else directory
        _require_fewer(runs)
        spec = cls.SPECS["runs"]
        frames = {"runs": (spec if flags else replace(spec, unwanted=spec.optional)).read(runs)}
        for name in ("causes", "metrics"):
            beside = runs.with_name(f"{name}.parquet")
            there = beside != runs and (directory.is_dir() or name == "metrics")
            frames[name] = cls.SPECS[name].read(beside) if there else typed(None, cls.SPECS[name].dtypes)
        return cls.of(frames)

    def of_runs(self, chosen: NDArray[np.bool_]) -> MatrixTables:
        """Return the tables with the runs that are `chosen` (bool, row by row)."""
        return self.with_runs(self.runs[chosen].reset_index(drop=True))

    def known_as(self, metrics: pd.DataFrame) -> MatrixTables:
        """Return the same runs, of whose metrics something else is told."""
        found = MatrixTables(self.runs, self.causes, metrics)
        # what was found out of the runs holds
        vars(found).update({name: value for name, value in vars(self).items() if name not in vars(found)})
        return found

    def with_runs(self, runs: pd.DataFrame) -> MatrixTables:
        """Return the tables with these of its runs, and what is known of them."""
        causes = self.causes
        # to look for runs among no causes takes as long as among many
        if len(causes):
            causes = causes[causes["run_id"].isin(runs["run_id"])].reset_index(drop=True)
        return MatrixTables(runs, causes, self.metrics)

    def without_flaws(self, problems: Problems) -> MatrixTables:
        """Return the tables without unusable runs and pairs, and report these to `problems`.

        See `without_flawed_runs` and `incomparable`; of an incomparable pair nothing stays.
        """
        named = self.without_flawed_runs(problems)
        wrong = incomparable(named.runs)
        for pair, told in wrong.items():
            problems.add(InputError(told, place=f'pair "{pair}"'))
        return named.of_runs(~named.runs["pair_id"].isin(wrong).to_numpy(bool))

    def without_flawed_runs(self, problems: Problems) -> MatrixTables:
        """Return the tables without runs that have no place in them, and report these to `problems`.

        Those are runs without a name, a workload, a group or a pair, runs of no side, and repeated runs
        (the first stays).
        """
        return self if _in_place(self.runs) else self.with_runs(self.sound("runs", problems))

    def without_flags(self) -> MatrixTables:
        """Return the tables as one who asks has them: nobody has said what is valid or abnormal."""
        nobody = pd.array([pd.NA] * len(self.runs), dtype="boolean")
        return MatrixTables(self.runs.assign(valid=nobody, abnormal=nobody), self.causes, self.metrics)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the tables of several sources; a metric that a source lacks is missing there.

        InputError if two sources have a metric in different units.
        """
        if len(parts) > 1:
            _require_one_unit(pd.concat([part.metrics for part in parts], ignore_index=True))
        return super().joined(parts)


@dataclass(frozen=True)
class RunPlaces:
    """For each run its pair, as a place in ``names``, and whether it is of the target.

    ``names`` are pairs in the order of their first runs.
    """

    pair: NDArray[np.intp]
    names: NDArray[Any]
    target: NDArray[np.bool_]

    @classmethod
    def of(cls, runs: pd.DataFrame) -> RunPlaces:
        """Find out where `runs` stand."""
        pair, names = pd.factorize(runs["pair_id"].to_numpy(object))
        return cls(pair, names, runs["side"].to_numpy(object) == SIDES[1])

    @property
    def matrix(self) -> NDArray[np.intp]:
        """The matrix of each run: that of the baseline of a pair, then that of its target."""
        return 2 * self.pair + self.target


class StackedSides:
    """Matrices of the same metrics that are stacked into the table of runs."""

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
    return [column for column in runs.columns.tolist() if column not in RUN_DTYPES]


def incomparable(runs: pd.DataFrame) -> dict[str, str]:
    """Return by ``pair_id`` why a pair of matrices cannot be compared.

    One side is missing, a side mixes versions, or the sides differ in more than one field (seed 001,
    section 2.1). Every run has a pair and a side.
    """
    places = RunPlaces.of(runs)
    pair, names, side = places.pair, places.names, places.target.astype(np.intp)
    first = np.full((len(SIDES), len(names)), -1)
    rows = np.arange(len(runs) - 1, -1, -1)
    first[side[rows], pair[rows]] = rows
    there, own = first >= 0, first[side, pair]
    mixed, differ = dict[tuple[str, str], str](), np.zeros((len(METADATA), len(names)), bool)
    for number, field in reversed([*enumerate(METADATA)]):
        values = runs[field].to_numpy(object, na_value="")
        code, _ = pd.factorize(values)
        differ[number] = there.all(axis=0) & (code[first[0]] != code[first[1]])
        for row in np.flatnonzero(code != code[own])[::-1].tolist():
            found = f'"{values[own[row]]}" and "{values[row]}"'
            place = str(names[pair[row]]), SIDES[side[row]]
            mixed[place] = f"the {place[1]} mixes {field} {found}; expected one"
    wrong = {name: told for (name, _), told in sorted(mixed.items())}
    order = np.argsort(names)
    for name, known in zip(SIDES, there, strict=True):
        wrong |= {str(names[place]): f"has no run of the {name}" for place in order[~known[order]]}
    for place in order[(differ.sum(axis=0) > 1)[order]]:
        told = ", ".join(field for field, here in zip(METADATA, differ[:, place], strict=True) if here)
        wrong[str(names[place])] = f"baseline and target differ in {told}; expected one field to compare by"
    return wrong


def _in_place(runs: pd.DataFrame) -> bool:
    """Tell whether no run breaks a rule of the table, which is usual and sooner told."""
    spec = MatrixTables.SPECS["runs"]
    if not (isinstance(runs.index, pd.RangeIndex) and runs.index.start == 0 and runs.index.step == 1):
        return False
    columns = {rule.column for rule in spec.rules}
    if any(name not in runs or not isinstance(runs[name].dtype, pd.StringDtype) for name in columns):
        return False
    found = {name: pd.unique(runs[name].to_numpy(object)) for name in columns}
    named = all(isinstance(value, str) and value for values in found.values() for value in values)
    return named and len(found["run_id"]) == len(runs) and set(found["side"]) <= set(SIDES)


def _require_fewer(path: Path) -> None:
    """Raise an InputError if a Parquet file has more columns than any measurement, before it is read."""
    if not path.is_file():
        return
    with opened(path) as file:
        found = file.metadata.num_columns - len(RUN_DTYPES.keys() & set(file.schema.names))
    if found > MOST_METRICS:
        raise InputError(f"has {found} metrics; expected {MOST_METRICS} at most", file=path)


def _require_one_unit(metrics: pd.DataFrame) -> None:
    units = metrics[metrics["unit"] != ""].drop_duplicates(["metric", "unit"])
    twice = units[units.duplicated("metric", keep=False)]
    if len(twice):
        name = twice["metric"].iloc[0]
        found = " and ".join(f'"{unit}"' for unit in twice.loc[twice["metric"] == name, "unit"])
        raise InputError(f"comes in the units {found}; expected one", place=f'metric "{name}"')


#: How many workloads are named where none matches.
SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """A choice of workloads by patterns of the shell such as ``* CPU Saturation *``.

    A workload is chosen if it matches one of `only`, where there are any, and none of `without`.
    """

    only: Sequence[str] = ()
    without: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.only or self.without)

    def of(self, tables: MatrixTables) -> MatrixTables:
        """Return the tables of the chosen workloads.

        InputError if a pattern matches none, or none is left.
        """
        names = tables.runs["workload"].drop_duplicates().tolist()
        matches = {
            pattern: {name for name in names if fnmatchcase(name, pattern)}
            for pattern in (*self.only, *self.without)
        }
        for pattern, found in matches.items():
            if not found:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                there = ", ".join(f'"{name}"' for name in names[:SHOWN])
                raise InputError(f'"{pattern}" matches no workload; there are {there}{more}')
        only = set[str]().union(*map(matches.__getitem__, self.only)) if self.only else set(names)
        wanted = tables.runs["workload"].isin(only.difference(*map(matches.__getitem__, self.without)))
        # both sides of a pair, which may be of two workloads
        chosen = wanted.groupby(tables.runs["pair_id"]).transform("all").to_numpy(bool)
        if not chosen.any():
            raise InputError("no workload is left; what is left out is all that is chosen")
        return tables.of_runs(chosen)
