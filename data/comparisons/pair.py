"""Build comparisons from the results of two runs, the baseline and the target."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import groupby, product
from typing import Literal

from data.comparisons.tables import OPERATION, ComparisonTables
from data.comparisons.units import UNKNOWN, conversion_factor, is_known_unit
from data.deferred import pd
from data.errors import InputError
from data.tables.problems import shorten_names, unknown_message

Side = Literal["baseline", "target"]
SIDES: tuple[Side, Side] = ("baseline", "target")
CONFIGURATION = [*OPERATION, "threads"]
#: The column of a run's results with the mode in which an operation was measured; some tools have modes.
MODE = "mode"
#: Maximum number of names in one line.
MAX_NAMES = 10


@dataclass(frozen=True)
class Missing:
    """A machine, an operation or a configuration that only one side has; narrower fields are None."""

    only_in: Side
    machine: str
    benchmark: str | None = None
    operation: str | None = None
    threads: int | None = None

    @property
    def part_kind(self) -> Literal["machine", "operation", "configuration"]:
        """The kind of the part that only one side has, by its narrowest field."""
        if self.operation is None:
            return "machine"
        return "operation" if self.threads is None else "configuration"

    def __str__(self) -> str:
        names = (self.benchmark, self.operation, self.machine)
        text = "/".join(name for name in names if name is not None)
        return text if self.threads is None else f"{text} with {number_with_noun(self.threads, 'thread')}"


def missing_parts(results: pd.DataFrame) -> tuple[Missing, ...]:
    """Return the machines, then operations, then configurations that only one run has.

    `results` are the rows of both runs, with columns `CONFIGURATION` (benchmark, operation, machine, threads)
    and ``order``: 0 for the baseline, 1 for the target. Of each kind, the baseline's parts come first, in the
    order of their rows. ``only_in`` of a part is "baseline" or "target"; its fields that are narrower than
    the part are None. Parts of a missing machine or operation are not listed again.
    """
    parts: list[Missing] = []
    for keys in (["machine"], OPERATION, CONFIGURATION):
        measured = results[[*keys, "order"]].drop_duplicates()
        alone = ~measured.duplicated(keys, keep=False)
        rows = measured[alone].sort_values("order", kind="stable").to_dict("records")
        parts += [Missing(SIDES[row.pop("order")], **row) for row in rows]
        results = results[_in_both(results, keys)]
    return tuple(parts)


def describe_missing(parts: Sequence[Missing], names: tuple[str, str]) -> Iterator[str]:
    """Yield a line per kind of part and side, such as "1 operation only in v1: suite/sort/host".

    `parts` are in the order of `missing_parts`, `names` are those of baseline and target. At most 10 names
    are listed in a line, then "and N more"; nothing is yielded without parts.
    """
    name_of_side = dict(zip(SIDES, names, strict=True))
    for (kind, side), group in groupby(parts, key=lambda part: (part.part_kind, part.only_in)):
        texts = list(map(str, group))
        yield f"{number_with_noun(len(texts), kind)} only in {name_of_side[side]}: {list_names(texts)}"


def number_with_noun(number: int, noun: str) -> str:
    """Return a number and its noun, such as "1 operation" or "0 operations"; the plural has an added s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def list_names(names: Sequence[str]) -> str:
    """Return the first 10 (`MAX_NAMES`) names, joined by commas, then "and N more" if there are more."""
    return shorten_names(names, MAX_NAMES)


def _in_both(results: pd.DataFrame, keys: list[str]) -> pd.Series[bool]:
    return results.groupby(keys)["order"].transform("nunique") == len(SIDES)


#: Benchmark and operation.
NamedOperation = tuple[str, str]
_NAMED = ["benchmark", "operation"]
_BETTER = ("lower", "higher")
#: Temporary column with the index of a row's run.
_RUN = "run"


@dataclass(frozen=True)
class TwoRuns:
    """Comparisons of two runs, one per operation, machine and benchmark, in the order of the baseline.

    `notes` describe the `missing` parts and unit conversions.
    """

    tables: ComparisonTables
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class MatchedOperations:
    """Operations of the target that are compared with operations of the baseline that have other names.

    `renamed` maps benchmark and operation of the target to those of the baseline, whose names the comparison
    uses. With `only`, no other operations are compared, because one run provides both sides.
    """

    renamed: Mapping[NamedOperation, NamedOperation] = field(default_factory=dict)
    only: bool = False

    def of_baseline(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the baseline that are compared: all, or with `only` the matched operations."""
        return results[_rows_of(results, self.renamed.values())] if self.only else results

    def of_target(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the target that are compared, with the operation names of the baseline.

        With `only`, these are the matched operations, else all whose name no matched operation takes. Modes
        are dropped, so that different ones can be matched.
        """
        if not self.renamed:
            return results
        matched = _rows_of(results, self.renamed)
        # an operation of the target whose name a renamed one takes is not compared
        selected = matched if self.only else matched | ~_rows_of(results, self.renamed.values())
        results = results[selected].drop(columns=MODE, errors="ignore")
        keys = pd.MultiIndex.from_frame(results[_NAMED])
        names = [self.renamed.get(key, key) for key in keys]
        results[_NAMED] = pd.DataFrame(names, columns=_NAMED, index=results.index, dtype="str")
        return results

    def name_in_target(self, benchmark: str, operation: str) -> str:
        """Return the target's name of an operation of the baseline; "" if it is not renamed."""
        names = {baseline: target[1] for target, baseline in self.renamed.items()}
        return names.get((benchmark, operation), "")


def _rows_of(results: pd.DataFrame, operations: Collection[NamedOperation]) -> pd.Series[bool]:
    keys = pd.MultiIndex.from_frame(results[_NAMED].fillna(UNKNOWN))
    return pd.Series(keys.isin([*operations]) if operations else False, index=results.index, dtype=bool)


def matched_operations(
    wanted: Sequence[str], baseline: pd.DataFrame, target: pd.DataFrame, names: tuple[str, str]
) -> dict[NamedOperation, NamedOperation]:
    """Return the operations that have another name in the target.

    The result maps (benchmark, operation) of the target to that of the baseline, for every text in `wanted`.
    A text is ``BASE=NEW``, where both are the name of an operation or ``benchmark/operation``; names may
    contain ``=``, so every ``=`` is tried as the separator. `baseline` and `target` are the results of one
    run each; `names` are the sides' names in messages. InputError if a text has no ``=``, if a side has no
    operation of this name or several of them, if more than one ``=`` fits, or if two texts name the same
    operation.
    """
    sides = [_distinct_operations(results) for results in (baseline, target)]
    renamed: dict[NamedOperation, NamedOperation] = {}
    for text in wanted:
        before, after = _resolve_match(text, sides, names)
        if after in renamed or before in renamed.values():
            raise InputError("names an operation that another --match names", place=_match_option(text))
        renamed[after] = before
    return renamed


def _resolve_match(
    text: str, sides: Sequence[Sequence[NamedOperation]], names: tuple[str, str]
) -> list[NamedOperation]:
    option, parts = _match_option(text), text.split("=")
    splits = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(1, len(parts))]
    if not splits:
        raise InputError("has no =; expected BASE=NEW, an operation of each side", place=option)
    # for each split and side, the operations with that name
    candidates = [[_with_name(name, side) for name, side in zip(pair, sides, strict=True)] for pair in splits]
    complete = [pair for pair in candidates if all(pair)]
    if not complete:
        at = max(range(len(splits)), key=lambda at: sum(map(bool, candidates[at])))
        side = candidates[at].index([])
        name = splits[at][side]
        problem = f'operation "{name}" of {names[side]} {unknown_message(name, _unique_names(sides[side]))}'
        raise InputError(problem, place=option)
    ambiguous = [operation for operations in complete[0] if len(operations) > 1 for operation in operations]
    if len(complete) > 1 or ambiguous:
        hint = f"; it may be {', '.join(map('/'.join, ambiguous))}" if ambiguous else ""
        raise InputError(f"may be read in several ways{hint}; expected benchmark/operation", place=option)
    return [operations[0] for operations in complete[0]]


def _match_option(text: str) -> str:
    return f"--match {shlex.quote(text)}"


def _distinct_operations(results: pd.DataFrame) -> list[NamedOperation]:
    return list(results[_NAMED].fillna(UNKNOWN).drop_duplicates().itertuples(index=False, name=None))


def _with_name(name: str, operations: Sequence[NamedOperation]) -> list[NamedOperation]:
    return [operation for operation in operations if name in {operation[1], "/".join(operation)}]


def _unique_names(operations: Sequence[NamedOperation]) -> Iterator[str]:
    """Yield an unambiguous name of each operation: its name alone, or with its benchmark."""
    for operation in operations:
        name = operation[1]
        yield name if len(_with_name(name, operations)) == 1 else "/".join(operation)


#: Number of operations per side that are searched for the most similar names.
_ALIKE = 60


def _match_hint(baseline: pd.DataFrame, target: pd.DataFrame) -> str:
    """Return advice to match the operations with the most similar names; "" if machines differ."""
    machines = [set(results["machine"]) for results in (baseline, target)]
    if not machines[0] & machines[1]:
        return ""
    operations = [_distinct_operations(results)[:_ALIKE] for results in (baseline, target)]
    sides = [list(_unique_names(side)) for side in operations]
    if not {*sides[0]}.isdisjoint(sides[1]):
        # the benchmarks differ
        sides = [["/".join(operation) for operation in side] for side in operations]
    pairs = product(sides[0], sides[1])
    before, after = max(pairs, key=lambda pair: SequenceMatcher(None, pair[0], pair[1]).ratio())
    return f"compare two of them with {_match_option(f'{before}={after}')}"


def paired_runs(
    baseline: Sequence[pd.DataFrame],
    target: Sequence[pd.DataFrame],
    earlier: Sequence[pd.DataFrame] = (),
    names: tuple[str, str] = SIDES,
    files: Sequence[str] = (),
) -> TwoRuns:
    """Return a comparison per operation of all baseline with all target runs; earlier runs are the history.

    Each run is a table with the columns of ``RESULT_DTYPES``; `earlier` must be sorted, oldest first. The
    column ``order`` is replaced by the index of the run, from 0, among the runs of `earlier`, then of
    `baseline`, then of `target`. `names` are the sides' names in messages, `files` those of the runs, in the
    order of their indices (default: that of the side). The comparisons, in ``tables`` of the result, are in
    the order of the baseline, and range from the first to the last run of a side that has the operation;
    their ids are ``benchmark/operation/machine``, where a missing name is "unknown". Values of an operation
    are converted to its unit in the first run of `baseline`, else of `earlier`, else of `target` that states
    one. Of `earlier`, only configurations of the baseline are used. Operations with only zeros on both sides,
    or in an earlier run, are left out there, with a note. Machines, operations and configurations that only
    one side has are in ``missing`` and, like conversions and operations that some runs of a side lack, in
    ``notes``; an operation without a common configuration keeps all its rows, so that its verdict is
    ``invalid``. A name has a mode (`MODE`) where the first run has it. InputError if no operation is common,
    or if ``better`` of one is not lower or higher or differs between runs, or units are incompatible;
    ValueError if `baseline` is empty.
    """
    n_earlier, first = len(earlier), len(earlier) + len(baseline)
    # the baseline comes first, because its order, names and units are used
    before = [*_with_run_numbers(baseline, n_earlier, 0), *_with_run_numbers(earlier, 0, 0)]
    results = pd.concat([*before, *_with_run_numbers(target, first, 1)], ignore_index=True)
    results[OPERATION] = results[OPERATION].fillna(UNKNOWN)
    is_earlier = results[_RUN] < n_earlier
    results = under_names_of(results[~is_earlier], results)
    configurations = pd.MultiIndex.from_frame(results[CONFIGURATION])
    is_used = ~is_earlier | configurations.isin(configurations[~is_earlier & (results["order"] == 0)])
    results, zeros = _without_zeros(results[is_used], is_earlier[is_used])
    parts = missing_parts(results)
    notes = (*zeros, *describe_missing(parts, names))
    paired = results[_in_both(results, OPERATION)]
    common = _in_both(paired, CONFIGURATION)
    paired = paired[common | ~common.groupby([paired[name] for name in OPERATION]).transform("any")]
    if paired.empty:
        hint = _match_hint(*(results[results["order"] == side] for side in (0, 1)))
        reasons = "; ".join(filter(None, [*notes, hint]))
        problem = f"have no operation of one benchmark and machine in common: {reasons}"
        raise InputError(problem, file=f"{names[0]} and {names[1]}")
    files = files or [names[int(number >= first)] for number in range(first + len(target))]
    _require_one_direction(paired, files)
    paired, converted = _in_one_unit(paired, files)
    operations = paired.loc[paired["order"] == 0, OPERATION].drop_duplicates(ignore_index=True)
    of_sides = paired[paired[_RUN] >= n_earlier]
    runs, keys = of_sides.groupby([*OPERATION, "order"])[_RUN], pd.MultiIndex.from_frame(operations)
    begin, end = (numbers.unstack().loc[keys] for numbers in (runs.min(), runs.max()))
    orders = {"baseline_from": begin[0].to_numpy(), "baseline_to": end[0].to_numpy()}
    orders |= {"target_from": begin[1].to_numpy(), "target_to": end[1].to_numpy()}
    comparisons = operations.assign(comparison_id=operations.agg("/".join, axis=1), **orders, source="")
    paired = paired.assign(order=paired[_RUN]).drop(columns=_RUN)
    notes = (*notes, *_describe_gaps(of_sides, files), *converted)
    return TwoRuns(ComparisonTables.from_rows(paired, comparisons), parts, notes)


def under_names_of(first: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return `results` with the operation names of `first`, where these differ by the mode only.

    The name of an operation has the mode only in runs that have several modes of it; the column `MODE` has it
    in all runs. A name without mode stands for the first mode in `first` that has it; all others are added.
    """
    if MODE not in first or MODE not in results:
        return results
    names: dict[tuple[str, str, str], str] = {}
    modes: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    for key, name in zip(_full_names(first), first["operation"], strict=True):
        if key not in names:
            names[key] = name if modes.setdefault((key[0], name, key[2]), key) == key else key[1]
    return results.assign(operation=[names.get(key, key[1]) for key in _full_names(results)])


def _full_names(results: pd.DataFrame) -> list[tuple[str, str, str]]:
    rows = results[[*OPERATION, MODE]].itertuples(index=False, name=None)
    return [
        (benchmark, name if pd.isna(mode) else f"{name.removesuffix(f' {mode}')} {mode}", machine)
        for benchmark, name, machine, mode in rows
    ]


def _without_zeros(results: pd.DataFrame, is_earlier: pd.Series[bool]) -> tuple[pd.DataFrame, list[str]]:
    """Return the results without operations that are only 0 on both sides or in an earlier run, and notes."""
    keys, nonzero = [results[name] for name in OPERATION], results["value"] != 0
    of_sides = (nonzero & ~is_earlier).groupby(keys).transform("any")
    of_run = nonzero.groupby([*keys, results[_RUN]]).transform("any") | ~is_earlier
    left_out = {
        "0 throughout, and left out": ~of_sides,
        "0 throughout an earlier run, and left out there": of_sides & ~of_run,
    }
    notes = [
        f"{note}: {list_names(results.loc[rows, 'operation'].unique().tolist())}"
        for note, rows in left_out.items()
        if rows.any()
    ]
    return results[of_sides & of_run], notes


def _with_run_numbers(runs: Sequence[pd.DataFrame], first: int, side: int) -> list[pd.DataFrame]:
    return [run.assign(**{_RUN: number}, order=side) for number, run in enumerate(runs, first)]


def _describe_gaps(results: pd.DataFrame, files: Sequence[str]) -> Iterator[str]:
    """Yield a line on operations of a side that some runs of this side and machine lack, if there are any."""
    measured = results[[*OPERATION, "order", _RUN]].drop_duplicates()
    runs = measured[["machine", "order", _RUN]].drop_duplicates()
    wanted = measured.drop(columns=_RUN).drop_duplicates().merge(runs, on=["machine", "order"])
    absent = wanted[wanted.merge(measured, how="left", indicator=True)["_merge"] == "left_only"]
    if len(absent):
        operations = absent[OPERATION].drop_duplicates().agg("/".join, axis=1).tolist()
        counted, lacking = number_with_noun(len(operations), "operation"), sorted(absent[_RUN].unique())
        lacking_files = shorten_names([files[run] for run in lacking])
        yield f"{counted} missing in some runs ({lacking_files}): {list_names(operations)}"


def _require_one_direction(results: pd.DataFrame, files: Sequence[str]) -> None:
    first = _first_of_operation(results, results["better"])
    wrong = results.assign(first=first, source=_first_of_operation(results, results[_RUN]))
    wrong = wrong[(results["better"] != first) | ~first.isin(_BETTER)]
    if len(wrong):
        row = wrong.iloc[0]
        expected = '"lower" or "higher"'
        if row["first"] in _BETTER:
            expected = f'"{row["first"]}" as in {files[row["source"]]}'
        raise _operation_error(f'better="{row["better"]}" is not {expected}', row, files)


def _in_one_unit(results: pd.DataFrame, files: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Convert every operation to the first known unit in its rows; return the results, and notes.

    Unknown units are missing, blank or "unknown"; values in one are taken to be in the first known unit.
    """
    units = results["unit"].where(results["unit"].map(is_known_unit))
    first = _first_of_operation(results, units)
    results = results.assign(unit=first.fillna(UNKNOWN))
    source = _first_of_operation(results, results[_RUN].where(units.notna()))
    others = results.assign(given=units, source=source)[first.notna() & (units != first)]
    # the files of each note
    notes: dict[str, list[str]] = {}
    for (run, unit, into), rows in others.groupby([_RUN, "given", "unit"], dropna=False):
        scale = Fraction(1) if pd.isna(unit) else conversion_factor(unit, into)
        if scale is None:
            row = rows.iloc[0]
            problem = f'unit "{unit}" cannot be converted to "{into}" of {files[int(row["source"])]}'
            raise _operation_error(problem, row, files)
        results.loc[rows.index, "value"] = rows["value"] * scale.numerator / scale.denominator
        how = "no unit, taken to be" if pd.isna(unit) else f"{unit}, multiplied by {float(scale):.10g} to"
        operations = rows[OPERATION].drop_duplicates().agg("/".join, axis=1).tolist()
        if scale != 1 or pd.isna(unit):
            counted = number_with_noun(len(operations), "operation")
            notes.setdefault(f"{counted} in {how} {into}: {list_names(operations)}", []).append(files[run])
    return results, [f"{shorten_names([*dict.fromkeys(names)])}: {note}" for note, names in notes.items()]


def _first_of_operation(results: pd.DataFrame, column: pd.Series) -> pd.Series:
    return column.groupby([results[name] for name in OPERATION]).transform("first")


def _operation_error(problem: str, row: pd.Series, files: Sequence[str]) -> InputError:
    return InputError(problem, file=files[row[_RUN]], place=f'operation "{row["operation"]}"')
