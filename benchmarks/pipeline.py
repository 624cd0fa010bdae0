"""How long the whole pipeline takes from scratch, and whether two runs give the same bytes.

Run it with ``python -m benchmarks.pipeline`` on a clean checkout; it writes ``docs/results/pipeline.md``.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.table import Table, machine_line, read_figures, repro_command, require_programs

#: Part of the last line of the table that the promote stage of comparisons prints.
CAPTION = "Average precision is"


def timed_repro(root: Path) -> tuple[float, float]:
    """Run ``dvc repro`` in `root`; return its seconds, and those until the table of comparisons."""
    command, environment = repro_command()
    begin, table = time.perf_counter(), float("nan")
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            if CAPTION in line and math.isnan(table):
                table = time.perf_counter() - begin
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    return time.perf_counter() - begin, table


def main() -> None:
    require_programs("git")
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        for clone in (first, second):
            subprocess.run(["git", "clone", "--quiet", ".", str(clone)], check=True)
        fresh, table = timed_repro(first)
        repeated = median(timed_repro(first)[0] for _ in range(5))
        other, _ = timed_repro(second)
        same = "the same bytes" if read_figures(first) == read_figures(second) else "DIFFER"
    Table(
        "The whole pipeline",
        dict.fromkeys(("what", "seconds", "wanted"), ""),
        [
            ("dvc repro from nothing", f"{fresh:.1f}", "under 300"),
            ("the main job's table is there after", f"{table:.1f}", "under 60"),
            ("dvc repro from nothing, another clone", f"{other:.1f}", "under 300"),
            ("dvc repro once more (median of 5)", f"{repeated:.2f}", "under 2.5"),
            ("all figures of the two clones", same, "the same bytes"),
        ],
        [machine_line(), "The environment is there already; installing it is not counted."],
    ).publish("pipeline")


if __name__ == "__main__":
    main()
