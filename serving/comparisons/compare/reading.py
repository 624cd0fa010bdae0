"""Which runs are compared: files and directories of them, read a run each."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.formats.tools import TOOLS
from data.comparisons.pair import (
    CONFIGURATION,
    SIDES,
    MatchedOperations,
    NamedOperation,
    TwoRuns,
    counted,
    listed,
    paired_runs,
)
from data.comparisons.params import Measure
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.measure.child import end_in_good_order, execute
from data.tables.problems import Problems

#: What runs are called that name no version.
_UNNAMED = "0"


@dataclass(frozen=True)
class ComparedRun:
    """One run."""

    path: Path
    version: str  # what the file calls it, or else the name of the file
    results: pd.DataFrame  # with the columns of ``RESULT_DTYPES``


@dataclass(frozen=True)
class ComparedRuns:
    """Those of both sides, and earlier ones, the oldest first; results of the target under matched names."""

    baseline: tuple[ComparedRun, ...]
    target: tuple[ComparedRun, ...]
    earlier: tuple[ComparedRun, ...] = ()
    matched: MatchedOperations = field(default_factory=MatchedOperations)

    @property
    def names(self) -> tuple[str, str]:
        """What messages call the two sides."""
        baseline, target = (
            str(side[0].path) if len(side) == 1 else f"{side[0].path} and {len(side) - 1} more"
            for side in (self.baseline, self.target)
        )
        return baseline, target

    def paired(self) -> TwoRuns:
        """Return the comparisons of both sides, with earlier runs as their history."""
        baseline, target, earlier = (
            [run.results for run in side] for side in (self.baseline, self.target, self.earlier)
        )
        return paired_runs(baseline, target, earlier, self.names)

    def matching(
        self, renamed: Mapping[NamedOperation, NamedOperation], note: Callable[[str], object]
    ) -> ComparedRuns:
        """Compare operations of other names with each other; note which they are.

        `renamed`: as of `data.comparisons.pair.MatchedOperations`.
        """
        same = {run.path.resolve() for run in self.baseline} == {run.path.resolve() for run in self.target}
        matched = MatchedOperations(renamed, only=same)
        for (_, own), (_, given) in renamed.items():
            note(f'"{own}" of {self.names[1]} is compared with "{given}" of {self.names[0]}')
        sides = ((self.baseline, matched.of_baseline), (self.target, matched.of_target))
        baseline, target = (
            tuple(replace(run, results=chosen(run.results)) for run in side) for side, chosen in sides
        )
        return replace(self, baseline=baseline, target=target, matched=matched)


@dataclass(frozen=True)
class RunReader:
    """How runs are read."""

    problems: Problems
    measure: Measure
    kind: str | None = None  # their format; None: what the content says

    def runs(self, paths: Sequence[Path]) -> tuple[ComparedRun, ...]:
        """Read runs: of a directory that is none every file, in the order of their names.

        Raises InputError if one cannot be read, or a directory holds none.
        """
        return tuple(
            _run(path, results_of_run(path, self.problems, self.measure, self.kind))
            for path in run_files(paths)
        )

    def history(self, paths: Sequence[Path]) -> tuple[ComparedRun, ...]:
        """Read earlier runs likewise; what holds several versions is a run each. Raises as `runs`."""
        return tuple(run for path in run_files(paths) for run in self._versions(path))

    def two_commands(self, run: ComparedRun) -> dict[NamedOperation, NamedOperation]:
        """Return the second command of a hyperfine file by the first, which is the baseline.

        Raises InputError if the run is of another format, or has not exactly two commands.
        """
        kind = self.kind or formats.sniff(run.path)
        operations = list(run.results[["benchmark", "operation"]].drop_duplicates().itertuples(False, None))
        if kind == "hyperfine" and len(operations) == len(SIDES):
            return {operations[1]: operations[0]}
        names = [name for _, name in operations]
        told = f"is one run, of {counted(len(names), 'operation')} ({listed(names)})"
        problem = f"{told}; expected TARGET, or --target FILE"
        if len(names) > 1:
            problem += f", or two operations of this file: --match {shlex.quote('='.join(names[:2]))}"
        raise InputError(problem, file=run.path)

    def _versions(self, path: Path) -> Iterator[ComparedRun]:
        kind = self.kind or formats.sniff(path)
        if kind not in TOOLS or not TOOLS[kind].versions:
            yield from self.runs([path])
            return
        pieces = formats.stream(kind, [path], self.problems, measure=self.measure, piece=None)
        results = ComparisonTables.joined(list(pieces)).results
        yield from (_run(path, rows) for _, rows in results.groupby("order"))


def run_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files and directories that are a run each; InputError if a directory holds none."""
    for path in paths:
        if not path.is_dir() or _one_source(path):
            yield path
            continue
        inside = sorted((one for one in path.iterdir() if not one.name.startswith(".")), key=_natural)
        if not inside:
            raise InputError("holds no run", file=path)
        yield from inside


def _one_source(directory: Path) -> bool:
    """Tell whether what lies in a directory belongs together, and is no run each."""
    if (directory / "results.parquet").exists():
        return True
    try:
        kind = formats.sniff(directory)
    except InputError:
        # its parts say what is wrong with them
        return False
    return kind == "asv" or (kind == "criterion" and all(one.is_dir() for one in directory.iterdir()))


def _run(path: Path, results: pd.DataFrame) -> ComparedRun:
    named = results["version"].dropna().unique()
    version = str(named[0]) if len(named) == 1 and named[0] != _UNNAMED else path.stem
    return ComparedRun(path, version, results.assign(version=version))


def _natural(path: Path) -> list[tuple[int, str]]:
    """Order numbers in names by their size: 9 before 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", path.name)]


#: What stands for the file that a command is to write, and for the operations in doubt.
OUTPUT, OPERATIONS = "{output}", "{operations}"
#: The variable that has the operations in doubt, a line each.
VARIABLE = "PERFJUDGE_OPERATIONS"


@dataclass(frozen=True)
class Confirming:
    """How often what is run again, and how long it may take."""

    times: int
    target: tuple[str, ...]  # the command that measures the target, which writes `OUTPUT`
    baseline: tuple[str, ...]  # the one of the baseline, run in turn with it; empty: there is none
    seconds: float  # that one run may take

    def __post_init__(self) -> None:
        for command in filter(None, (self.target, self.baseline)):
            if not any(OUTPUT in part for part in command):
                problem = f"names no {OUTPUT}, where it is to write its results"
                raise InputError(problem, place=_place(command))

    def again(
        self, runs: ComparedRuns, tables: ComparisonTables, doubted: NDArray[np.bool_], reader: RunReader
    ) -> ComparedRuns:
        """Measure again, baseline and target in turn, and return all runs.

        `tables`: what was compared: whatever else a command measures does not count.
        `doubted`: shape (n_comparisons,), a command may leave out the others.
        Raises InputError if a command fails, takes too long, or measures nothing that is in doubt.
        """
        end_in_good_order()
        in_doubt = tables.comparisons.loc[doubted, ["benchmark", "operation"]].itertuples(
            index=False, name=None
        )
        named = {names: runs.matched.name_in_target(*names) or names[1] for names in in_doubt}
        wanted = {"baseline": [name for _, name in named], "target": list(named.values())}
        compared = tables.results[CONFIGURATION].drop_duplicates()
        baseline, target = list(runs.baseline), list(runs.target)
        with TemporaryDirectory(prefix="perfjudge-") as directory:
            for number, side, output in self._planned(Path(directory), target[0].path.suffix):
                command, operations = getattr(self, side), list(dict.fromkeys(wanted[side]))
                sys.stderr.write(f"confirming: run {number} of {self.times} of the {side}\n")
                _confirming_run(command, output, operations, self.seconds)
                (found,) = reader.runs([output])
                chosen = runs.matched.of_baseline if side == "baseline" else runs.matched.of_target
                results = chosen(found.results).merge(compared, on=CONFIGURATION)
                if not results["operation"].isin(wanted["baseline"]).any():
                    told = f"measured none of the operations in doubt: {listed(operations)}"
                    raise InputError(told, place=_place(command))
                of_side = baseline if side == "baseline" else target
                version = f"{of_side[0].version}, again {number}"
                of_side.append(ComparedRun(output, version, results.assign(version=version)))
        return replace(runs, baseline=tuple(baseline), target=tuple(target))

    def _planned(self, directory: Path, suffix: str) -> Iterator[tuple[int, str, Path]]:
        for number in range(1, self.times + 1):
            for side in ("target", *(("baseline",) if self.baseline else ())):
                yield number, side, directory / f"{side}-{number}{suffix}"


def _place(command: Sequence[str]) -> str:
    return f"the command {shlex.join(command)!r}"


def _confirming_run(command: Sequence[str], output: Path, operations: Sequence[str], seconds: float) -> None:
    filled = [part.replace(OUTPUT, str(output)).replace(OPERATIONS, " ".join(operations)) for part in command]
    place, environment = _place(command), {VARIABLE: "\n".join(operations)}
    execute(filled, place, limit=seconds, environment=environment).require(place)
    if not output.exists():
        raise InputError(f"ended well, but wrote no {OUTPUT}", place=place)
