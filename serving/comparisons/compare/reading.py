"""Which runs are compared: files and directories of them, read a run each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.formats.tools import TOOLS
from data.comparisons.pair import SIDES, MatchedOperations, NamedOperation, counted, listed
from data.comparisons.params import Measure
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.problems import Problems

#: What runs are called that name no version.
_UNNAMED = "0"


@dataclass(frozen=True)
class ComparedRun:
    """One run.

    Attributes
    ----------
    path : Path
    version : str
        What the file calls it, or else the name of the file.
    results : DataFrame
        With the columns of ``RESULT_DTYPES``.
    """

    path: Path
    version: str
    results: pd.DataFrame


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

    def matching(
        self, renamed: Mapping[NamedOperation, NamedOperation], note: Callable[[str], object]
    ) -> ComparedRuns:
        """Compare operations of other names with each other; note which they are.

        Parameters
        ----------
        renamed : mapping
            As of `data.comparisons.pair.MatchedOperations`.
        note : callable
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
    """How runs are read.

    Attributes
    ----------
    problems : Problems
    measure : Measure
    kind : str or None
        Their format; None: what the content says.
    """

    problems: Problems
    measure: Measure
    kind: str | None = None

    def runs(self, paths: Sequence[Path]) -> tuple[ComparedRun, ...]:
        """Read runs: of a directory that is none every file, in the order of their names.

        Raises
        ------
        InputError
            If one cannot be read, or a directory holds none.
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

        Raises
        ------
        InputError
            If the run is of another format, or has not exactly two commands.
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
