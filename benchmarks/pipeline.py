"""How long the whole pipeline takes from nothing, and whether it repeats itself to the byte.

Run it with ``python -m benchmarks.pipeline`` on a clean checkout; it writes ``docs/results/pipeline.md``.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.table import Table, machine, require_programs

METRICS = "reports/*/*.json"
#: How a line begins with which the stage promote of comparisons ends, after the table.
CHAMPION = "regression-comparison v"


def repro(root: Path) -> tuple[float, float]:
    """Run ``dvc repro`` in `root`, with its code and this interpreter's packages.

    Returns
    -------
    tuple of float
        The seconds that it took, and after which the main job's table was there.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "dvc", "repro"]
    begin, table = time.perf_counter(), float("nan")
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            if line.startswith(CHAMPION) and math.isnan(table):
                table = time.perf_counter() - begin
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    return time.perf_counter() - begin, table


def metrics_of(root: Path) -> dict[str, bytes]:
    """Return the content of each family's metrics.json and summary.json in `root`."""
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.glob(METRICS)}
    if not found:
        raise FileNotFoundError(root / METRICS)
    return found


def main() -> None:
    """Run the pipeline in two fresh clones, and again in the first."""
    require_programs("git")
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        for clone in (first, second):
            subprocess.run(["git", "clone", "--quiet", ".", str(clone)], check=True)
        fresh, table = repro(first)
        again = median(repro(first)[0] for _ in range(5))
        other, _ = repro(second)
        same = metrics_of(first) == metrics_of(second)
    Table(
        "The whole pipeline",
        "python -m benchmarks.pipeline",
        dict.fromkeys(("what", "seconds", "wanted"), ""),
        [
            ("dvc repro from nothing", f"{fresh:.1f}", "under 420"),
            ("the main job's table is there after", f"{table:.1f}", "under 120"),
            ("dvc repro from nothing, another clone", f"{other:.1f}", "under 420"),
            ("dvc repro once more (median of 5)", f"{again:.2f}", "under 3"),
            ("all figures of the two clones", "the same bytes" if same else "DIFFER", "the same bytes"),
        ],
        [machine(), "The environment is there already; installing it is not counted."],
    ).publish("pipeline")


if __name__ == "__main__":
    main()
