"""How long the whole pipeline and each stage take from scratch, and whether two runs give the same bytes."""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from benchmarks.table import Table, machine_line, publish, read_figures, repro_command, require_program

#: Part of the last line of the table that the stage evaluate of comparisons prints.
CAPTION = "Scores pool the verdicts"
_STAGE = re.compile(r"Running stage '(?P<name>[^']+)'")


class TimedRun(NamedTuple):
    """Seconds of a run of ``dvc repro``: of all of it, and until the table of comparisons."""

    seconds: float
    table: float
    stages: list[tuple[str, float, float]]  # name, seconds and processor seconds of each


def timed_repro(root: Path) -> TimedRun:
    """Run ``dvc repro`` in `root`; a stage's processor time includes that of its worker processes."""
    command, environment = repro_command()
    begin, table = time.perf_counter(), math.nan
    # the beginning of each stage, and the processor time of all stages before it
    marks: list[tuple[str, float, float]] = []
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            stage, now = _STAGE.search(line), time.perf_counter() - begin
            if stage:
                marks.append((stage["name"], now, _ended_processes(run.pid)))
            elif CAPTION in line and math.isnan(table):
                table = now
            used = _ended_processes(run.pid)
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    seconds = time.perf_counter() - begin
    ends = pairwise([*marks, ("", seconds, used)]) if marks else ()
    stages = [(name, later - start, after - before) for (name, start, before), (_, later, after) in ends]
    return TimedRun(seconds, table, stages)


def _ended_processes(process: int) -> float:
    """Return the processor time, in seconds, of the ended children of `process` and of theirs."""
    times = psutil.Process(process).cpu_times()
    return float(times.children_user + times.children_system)


def main() -> None:
    require_program("git")
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        for clone in (first, second):
            subprocess.run(["git", "clone", "--quiet", ".", str(clone)], check=True)
        fresh = timed_repro(first)
        repeated = median(timed_repro(first).seconds for _ in range(5))
        other = timed_repro(second)
        same = "the same bytes" if read_figures(first) == read_figures(second) else "DIFFER"
    rows = [
        ("dvc repro from nothing", f"{fresh.seconds:.1f}", "under 300"),
        ("the main job's table is there after", f"{fresh.table:.1f}", "under 60"),
        ("dvc repro from nothing, another clone", f"{other.seconds:.1f}", "under 300"),
        ("dvc repro once more (median of 5)", f"{repeated:.2f}", "under 2.5"),
        ("all figures of the two clones", same, "the same bytes"),
    ]
    notes = [machine_line(), "The environment is there already; installing it is not counted."]
    whole = Table("The whole pipeline", dict.fromkeys(("what", "seconds", "wanted"), ""), rows, notes)
    stages = sorted(fresh.stages, key=lambda stage: -stage[2])
    notes = ["Of the first clone. Processor seconds include imports and worker processes."]
    columns = {"stage": "", "seconds": ".1f", "processor seconds": ".1f"}
    publish("pipeline", [whole, Table("Where the time goes", columns, stages, notes)])


if __name__ == "__main__":
    main()
