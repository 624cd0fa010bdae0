"""Further runs of what is in doubt: a command is run again, and what it writes is judged with the rest."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from data.comparisons.missing import CONFIGURATION, listed
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
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
    place, said = _place(command), output.with_name(f"{output.name}.said")
    code = _ended(filled, said, {VARIABLE: "\n".join(operations)}, place, seconds)
    if code:
        lines = said.read_text(errors="replace").strip().splitlines()
        raise InputError(f"exit code {code} ({lines[-1] if lines else 'it said nothing'})", place=place)
    if not output.exists():
        raise InputError(f"ended well, but wrote no {OUTPUT}", place=place)


def _ended(command: Sequence[str], said: Path, further: Mapping[str, str], place: str, seconds: float) -> int:
    """Run a command as whoever measured first did, in a group of its own, and return its exit code."""
    with said.open("wb") as file:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **further},
                process_group=0,
            )
        except OSError as exc:
            raise InputError(exc.strerror or "cannot be run", place=place) from exc
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired as exc:
        raise InputError(f"ran for longer than {seconds:g} seconds", place=place) from exc
    finally:
        # with all that it started; Ctrl-C is for us
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
