"""Tables of performance matrices: measurement runs, the causes of their state, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from data.deferred import pd
from data.errors import InputError
from data.matrices.limits import MOST_METRICS, RUN_FLAGS, RUN_TEXTS
from data.tables.problems import Problems, shorten_names
from data.tables.specs import Spec, Tables, as_number, name_rules, one_of, text_dtypes, with_dtypes

RUN_DTYPES = {**text_dtypes(*RUN_TEXTS), **dict.fromkeys(RUN_FLAGS, "boolean")}
CAUSE_DTYPES = {"run_id": "str", "cause": "str", "cause_size": "float64", "invalid_kind": "str"}
METRIC_DTYPES = {"metric": "str", "unit": "str", "signed": "boolean", "note": "str"}
SIDES = ("baseline", "target")
#: Fields that describe a run. The sides of a pair differ in exactly one of them (matrix paper, section 2.1).
METADATA = ("workload", "group", "version", "machine")
#: Prefix of summary metrics.
SUMMARY = "summary_"
#: Arrays of values, of indices, of masks, and of labels (1: abnormal).
Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
Flags = NDArray[np.bool_]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class MatrixTables(Tables):
    """Measurement runs in pairs of matrices, runs x metrics (matrix paper, section 2.1).

    Attributes
    ----------
    runs : DataFrame
        One row per run: the columns of `RUN_DTYPES`, one column per raw metric, then the summary metrics with
        the prefix ``summary_``; NaN was not measured. The rows of one ``pair_id`` form two matrices, by
        ``side``. ``workload`` is the test case, which folds keep whole; ``valid`` and ``abnormal`` are an
        analyst's flags, missing without an analyst's decision.
    causes : DataFrame
        ``run_id, cause, cause_size, invalid_kind``: the known cause of a run's state. A separate table, so
        that it never becomes a feature. May be empty.
    metrics : DataFrame
        ``metric, unit, signed, note``: one row per metric, in the order of the columns. An unknown unit is
        empty text. A metric that is not ``signed`` is never negative; where ``signed`` is missing, it is
        derived from the values.
    """

    SPECS: ClassVar = {
        # flags are absent before an analyst has judged the runs
        "runs": Spec(
            RUN_DTYPES,
            ("valid", "abnormal"),
            other_dtype=as_number,
            unique=("run_id",),
            words={"run_id": "run"},
            file="matrices",
            rules=(*name_rules("run_id", "workload", "group", "pair_id"), one_of("side", *SIDES)),
        ),
        "causes": Spec(CAUSE_DTYPES, may_lack=True),
        "metrics": Spec(METRIC_DTYPES, ("signed", "note"), may_lack=True),
    }

    runs: pd.DataFrame
    causes: pd.DataFrame
    metrics: pd.DataFrame

    @property
    def raw_metrics(self) -> list[str]:
        """The names of the raw metrics (without prefix ``summary_``), in the order of the columns."""
        return [name for name in self.all_metrics if not name.startswith(SUMMARY)]

    @property
    def summary_metrics(self) -> list[str]:
        """The names of the summary metrics, with their prefix ``summary_``, in the order of the columns."""
        return [name for name in self.all_metrics if name.startswith(SUMMARY)]

    @cached_property
    def all_metrics(self) -> list[str]:
        """The names of raw and summary metrics, in the order of the columns."""
        return metrics_of(self.runs)

    @cached_property
    def pair_sides(self) -> PairSides:
        """The pair and the side of each run, as integers."""
        return PairSides.from_runs(self.runs)

    def metric_values(self, metrics: Sequence[str]) -> Floats:
        """Return the values of `metrics`, shape (n_runs, n_metrics), NaN where not measured.

        The result must not be changed. KeyError if the tables do not have a metric.
        """
        values = self._all_values
        if self.all_metrics == list(metrics):
            return values
        columns = {name: column for column, name in enumerate(self.all_metrics)}
        return values[:, [columns[name] for name in metrics]]

    @cached_property
    def _all_values(self) -> Floats:
        # one array of all metrics: selecting columns of a frame takes longer than computing with them
        columns = [column not in RUN_DTYPES for column in self.runs.columns]
        return self.runs.iloc[:, np.flatnonzero(columns)].to_numpy(np.float64)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of ``groups, workloads, pairs, runs, raw_metrics, summary_metrics``."""
        counts = {f"{name}s": self.runs[name].nunique() for name in ("group", "workload")}
        counts |= {"pairs": self.runs["pair_id"].nunique(), "runs": len(self.runs)}
        return counts | {"raw_metrics": len(self.raw_metrics), "summary_metrics": len(self.summary_metrics)}

    def describe_counts(self) -> str:
        """Return a text such as "6 runs of 1 workloads in 1 groups, 1 pairs, 9 raw and 2 summary metrics"."""
        text = (
            "{runs} runs of {workloads} workloads in {groups} groups, {pairs} pairs, {raw_metrics} raw and "
            "{summary_metrics} summary metrics"
        )
        return text.format(**self.counts)

    @classmethod
    def from_frames(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Return the tables with raw metrics before summary metrics, and a row of `metrics` for each.

        A metric that `metrics` does not describe has an empty unit and note; descriptions of metrics that the
        runs do not have are dropped. InputError as `one_row_each`.
        """
        runs = frames["runs"]
        names = sorted(metrics_of(runs), key=lambda name: name.startswith(SUMMARY))
        described = one_row_each(frames["metrics"]).set_index("metric")
        every = described.reindex(pd.Index(names, dtype="str", name="metric")).reset_index()
        metrics = with_dtypes(every, METRIC_DTYPES).fillna({"unit": "", "note": ""})
        # the index of a source may have duplicates
        whole = pd.concat([runs[list(RUN_DTYPES)], runs[names].astype("float64")], axis="columns")
        # a copy has one block of numbers: selecting rows is faster than with one block per metric
        return cls(whole.reset_index(drop=True).copy(), frames["causes"], metrics)

    @classmethod
    def read(cls, directory: Path, *, flags: bool = True) -> Self:
        """Return the tables in a directory that `write` wrote, or the runs in one Parquet file.

        Causes and metrics may be absent; ``metrics.parquet`` is also read from the folder of a single file.
        Without `flags`, the columns of analysts' flags are ignored. InputError if a file is missing or not
        complete Parquet, does not have a column, has too many columns, a metric is not a number, or rows
        contradict each other (`one_row_each`).
        """
        path = directory / "matrices.parquet" if directory.is_dir() else directory
        if path.is_file():
            from data.tables.parquet import open_parquet

            with open_parquet(path) as file:
                count = file.metadata.num_columns - len(RUN_DTYPES.keys() & set(file.schema.names))
            if count > MOST_METRICS:
                raise InputError(f"has {count} metrics; expected {MOST_METRICS} at most", file=path)
        spec = cls.SPECS["runs"]
        frames = {"runs": (spec if flags else replace(spec, unwanted=spec.optional)).read(path)}
        for name in ("causes", "metrics"):
            spec, other = cls.SPECS[name], path.with_name(f"{name}.parquet")
            is_read = other != path and (directory.is_dir() or name == "metrics")
            frames[name] = spec.read(other) if is_read else with_dtypes(None, spec.dtypes)
        frames["metrics"] = one_row_each(frames["metrics"], path.with_name("metrics.parquet"))
        return cls.from_frames(frames)

    def select_runs(self, chosen: Flags) -> MatrixTables:
        """Return the tables with the runs of the mask `chosen`, shape (n_runs,), and only their causes."""
        return self.with_runs(self.runs[chosen].reset_index(drop=True))

    def with_metrics(self, metrics: pd.DataFrame) -> MatrixTables:
        """Return a copy with the table `metrics` replaced; values cached from the runs are reused."""
        copy = MatrixTables(self.runs, self.causes, metrics)
        vars(copy).update({**vars(self), "metrics": metrics})
        return copy

    def with_runs(self, runs: pd.DataFrame) -> MatrixTables:
        """Return a copy with `runs`, a part of its runs, and only their causes."""
        causes = self.causes
        # looking up runs among no causes takes as long as among many
        if len(causes):
            # of an Arrow column, isin would convert every run's name to an Arrow scalar
            mine = causes["run_id"].astype(object).isin(runs["run_id"].astype(object))
            causes = causes[mine].reset_index(drop=True)
        return MatrixTables(runs, causes, self.metrics)

    def without_flaws(self, problems: Problems) -> MatrixTables:
        """Return the tables without unusable runs and pairs, which are added to `problems`.

        Removed are the runs that `without_flawed_runs` removes, and all runs of pairs that cannot be compared
        (`incomparable_pairs`). InputError at the first of them, unless ``problems.keep_going``.
        """
        valid_tables = self.without_flawed_runs(problems)
        reasons = incomparable_pairs(valid_tables.runs)
        for pair, reason in reasons.items():
            problems.add(InputError(reason, place=f'pair "{pair}"'))
        return valid_tables.select_runs(~valid_tables.runs["pair_id"].isin(reasons).to_numpy(bool))

    def without_flawed_runs(self, problems: Problems) -> MatrixTables:
        """Return the tables without unusable runs, which are added to `problems`.

        Unusable are runs without a name, a workload, a group or a pair, runs with an unknown side, and
        repetitions of a name (the first run is kept). InputError at the first, unless
        ``problems.keep_going``.
        """
        if _all_runs_valid(self.runs):
            return self
        return self.with_runs(self.drop_invalid_rows("runs", problems))

    def without_flags(self) -> MatrixTables:
        """Return a copy with all flags ``valid`` and ``abnormal`` missing."""
        missing = pd.array([pd.NA] * len(self.runs), dtype="boolean")
        return replace(self, runs=self.runs.assign(valid=missing, abnormal=missing))


def one_row_each(metrics: pd.DataFrame, file: Path | None = None) -> pd.DataFrame:
    """Return the table `metrics` with one row per metric: its known unit, flag ``signed`` and note.

    InputError, with `file`, if rows of a metric have different units or flags. Of several notes, the first
    is kept.
    """
    if metrics["metric"].is_unique:
        return metrics
    known = metrics.assign(unit=metrics["unit"].where(metrics["unit"] != ""))
    for column in ("unit", "signed"):
        values = known[["metric", column]].dropna().drop_duplicates()
        for name, rows in values[values.duplicated("metric", keep=False)].groupby("metric", sort=False):
            different = " and ".join(f'"{value}"' for value in rows[column])
            problem = f"mixes {column} {different}; expected one"
            raise InputError(problem, file=file, place=f'metric "{name}"')
    return known.groupby("metric", sort=False).first().reset_index()


@dataclass(frozen=True)
class PairSides:
    """The pair of each run, as an index into ``names``, and whether it belongs to the target.

    ``names`` are the pairs in the order of their first runs.
    """

    pair: Whole
    names: NDArray[Any]
    target: Flags

    @classmethod
    def from_runs(cls, runs: pd.DataFrame) -> PairSides:
        """Return the pair and the side of each row, from the columns ``pair_id`` and ``side`` of `runs`."""
        pair, names = pd.factorize(runs["pair_id"].to_numpy(object))
        return cls(pair, names, runs["side"].to_numpy(object) == SIDES[1])

    @property
    def matrix_index(self) -> Whole:
        """The matrix of each run, shape (n_runs,): 2 * pair for the baseline, 2 * pair + 1 for the target."""
        return 2 * self.pair + self.target

    @property
    def first_rows(self) -> Whole:
        """The row of each pair's first run of the target, else of the baseline, shape (n_pairs,)."""
        order = np.lexsort((~self.target, self.pair))
        return order[np.searchsorted(self.pair[order], np.arange(len(self.names)))]

    def count_runs(self, chosen: Flags | slice = slice(None)) -> Whole:
        """Return the numbers of runs of baseline and target, shape (n_pairs, 2), of all runs or of a mask."""
        counts = np.bincount(self.matrix_index[chosen], minlength=len(SIDES) * len(self.names))
        return counts.reshape(-1, len(SIDES))


class StackedSides:
    """Builds the table of runs from matrices with the same metrics; ``causes`` has those of `add_pair`."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self.causes: list[dict[str, str]] = []
        self._metrics = list(metrics)
        self._about: list[dict[str, Any]] = []
        self._values = [np.zeros((0, len(self._metrics)))]

    def add_side(self, values: Floats, pair: str, side: str, **metadata: Any) -> list[str]:
        """Add one side of a pair, `values` of shape (n_runs, n_metrics); return the names given to its runs.

        `metadata` are further columns, such as ``workload``, with one value for all runs.
        """
        names = [f"{pair} {side} {number}" for number in range(len(values))]
        self._about += [{"run_id": name, "pair_id": pair, "side": side, **metadata} for name in names]
        self._values.append(values)
        return names

    def add_pair(
        self, pair: str, baseline: Floats, target: Floats, cause: str | None, **metadata: Any
    ) -> None:
        """Add a normal baseline, and a target that is abnormal by `cause` (None: normal)."""
        self.add_side(baseline, pair, "baseline", version="reference", abnormal=False, **metadata)
        about = {"version": "observed", "abnormal": cause is not None, **metadata}
        names = self.add_side(target, pair, "target", **about)
        self.causes += [{"run_id": name, "cause": cause} for name in names if cause is not None]

    def to_frame(self) -> pd.DataFrame:
        """Return the table of runs: one row per added run, its names and metadata, then the metrics."""
        values = pd.DataFrame(np.concatenate(self._values), columns=self._metrics)
        return pd.concat([pd.DataFrame(self._about), values], axis="columns")


def metrics_of(runs: pd.DataFrame) -> list[str]:
    """Return the columns of `runs` that are metrics, in their order: all that are not in `RUN_DTYPES`.

    `RUN_DTYPES` has ``run_id, workload, group, version, machine, side, pair_id, valid, abnormal``.
    """
    return [column for column in runs.columns.tolist() if column not in RUN_DTYPES]


def incomparable_pairs(runs: pd.DataFrame) -> dict[str, str]:
    """Return the reason by ``pair_id`` of each pair of matrices that cannot be compared; empty if all can.

    The reasons: the runs of a side differ in one of ``workload, group, version, machine``; a side has no run;
    the first runs of the sides differ in more than one of these (matrix paper, section 2.1). Of several
    reasons, the last in this order counts; of both sides, that of the target; of several fields, the first.
    Every run must have a pair and a side.
    """
    pair_sides = PairSides.from_runs(runs)
    pair, names, side = pair_sides.pair, pair_sides.names, pair_sides.target.astype(np.intp)
    first = np.full((len(SIDES), len(names)), -1)
    rows = np.arange(len(runs) - 1, -1, -1)
    first[side[rows], pair[rows]] = rows
    has_side, first_of_run = first >= 0, first[side, pair]
    mixed, differ = dict[tuple[str, str], str](), np.zeros((len(METADATA), len(names)), bool)
    for number, field in reversed([*enumerate(METADATA)]):
        values = runs[field].to_numpy(object, na_value="")
        code, _ = pd.factorize(values)
        differ[number] = has_side.all(axis=0) & (code[first[0]] != code[first[1]])
        for row in np.flatnonzero(code != code[first_of_run])[::-1].tolist():
            versions = f'"{values[first_of_run[row]]}" and "{values[row]}"'
            place = str(names[pair[row]]), SIDES[side[row]]
            mixed[place] = f"the {place[1]} mixes {field} {versions}; expected one"
    reasons = {name: reason for (name, _), reason in sorted(mixed.items())}
    order = np.argsort(names)
    for name, is_present in zip(SIDES, has_side, strict=True):
        reasons |= {str(names[at]): f"has no run of the {name}" for at in order[~is_present[order]]}
    for at in order[(differ.sum(axis=0) > 1)[order]]:
        fields = ", ".join(np.array(METADATA)[differ[:, at]])
        reasons[str(names[at])] = f"baseline and target differ in {fields}; expected one field to compare by"
    return reasons


def _all_runs_valid(runs: pd.DataFrame) -> bool:
    # the usual case, found out faster than by the rules themselves
    spec = MatrixTables.SPECS["runs"]
    if not (isinstance(runs.index, pd.RangeIndex) and runs.index.start == 0 and runs.index.step == 1):
        return False
    columns = {rule.column for rule in spec.rules}
    if any(name not in runs or not isinstance(runs[name].dtype, pd.StringDtype) for name in columns):
        return False
    unique = {name: pd.unique(runs[name].to_numpy(object)) for name in columns}
    has_names = all(isinstance(value, str) and value for values in unique.values() for value in values)
    return has_names and len(unique["run_id"]) == len(runs) and set(unique["side"]) <= set(SIDES)


def select_workloads(
    tables: MatrixTables, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> MatrixTables:
    """Return the tables of the pairs whose two sides both have a chosen workload.

    A workload is chosen if it matches a shell pattern of `include` (if any), such as ``* CPU Saturation *``,
    and no pattern of `exclude`. InputError if a pattern matches no workload, or no pair is left.
    """
    names = tables.runs["workload"].drop_duplicates().tolist()
    matches: dict[str, set[str]] = {}
    for pattern in (*include, *exclude):
        matches[pattern] = {name for name in names if fnmatchcase(name, pattern)}
        if not matches[pattern]:
            listed = shorten_names([f'"{name}"' for name in names], max_names=3)
            raise InputError(f'"{pattern}" matches no workload; there are {listed}')
    included = set[str]().union(*map(matches.__getitem__, include)) if include else set(names)
    wanted = tables.runs["workload"].isin(included.difference(*map(matches.__getitem__, exclude)))
    chosen = wanted.groupby(tables.runs["pair_id"]).transform("all").to_numpy(bool)
    if not chosen.any():
        raise InputError("no workload is left: each chosen workload is also left out")
    return tables.select_runs(chosen)
