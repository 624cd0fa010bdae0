"""Further runs of what is in doubt: a command is run again, and what it writes is judged with the rest."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import CONFIGURATION, listed
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.measure.child import end_in_good_order, execute
from serving.comparisons.compare.reading import ComparedRun, ComparedRuns, RunReader

#: What stands for the file that a command is to write, and for the operations in doubt.
OUTPUT, OPERATIONS = "{output}", "{operations}"
#: The variable that has the operations in doubt, a line each.
VARIABLE = "PERFJUDGE_OPERATIONS"


@dataclass(frozen=True)
class Confirming:
    """How often what is run again, and how long it may take.

    Attributes
    ----------
    times : int
    target : tuple of str
        The command that measures the target, which writes `OUTPUT`.
    baseline : tuple of str
        The one of the baseline, run in turn with it; empty: there is none.
    seconds : float
        That one run may take.
    """

    times: int
    target: tuple[str, ...]
    baseline: tuple[str, ...]
    seconds: float

    def __post_init__(self) -> None:
        for command in filter(None, (self.target, self.baseline)):
            if not any(OUTPUT in part for part in command):
                problem = f"names no {OUTPUT}, where it is to write its results"
                raise InputError(problem, place=_place(command))

    def again(
        self, runs: ComparedRuns, tables: ComparisonTables, doubted: NDArray[np.bool_], reader: RunReader
    ) -> ComparedRuns:
        """Measure again, baseline and target in turn, and return all runs.

        Parameters
        ----------
        runs : ComparedRuns
        tables : ComparisonTables
            What was compared: whatever else a command measures does not count.
        doubted : ndarray of bool, shape (n_comparisons,)
            A command may leave out the others.
        reader : RunReader

        Raises
        ------
        InputError
            If a command fails, takes too long, or measures nothing that is in doubt.
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
                _run(command, output, operations, self.seconds)
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


def _run(command: Sequence[str], output: Path, operations: Sequence[str], seconds: float) -> None:
    filled = [part.replace(OUTPUT, str(output)).replace(OPERATIONS, " ".join(operations)) for part in command]
    place, environment = _place(command), {VARIABLE: "\n".join(operations)}
    execute(filled, place, limit=seconds, environment=environment).require(place)
    if not output.exists():
        raise InputError(f"ended well, but wrote no {OUTPUT}", place=place)
