"""How long ``perfjudge timelines`` takes for 200 versions of 500 operations at 4 numbers of threads.

Run it with ``python -m benchmarks.timelines [ROUNDS]``; the champion judges.
It writes ``docs/results/timelines.md``.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import Table, busy, load
from benchmarks.timelines.results import RULES, DrawnResults
from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import MeasuredVersions, chosen, measured
from data.tables.problems import Problems

#: Charts that Matplotlib draws, and from which all are reckoned.
_DRAWN = 8


@dataclass(frozen=True)
class Made:
    """What making pages took, and how large they are."""

    seconds: float
    megabytes: float
    memory: float


def made(root: Path, results: Path, jobs: int) -> Made:
    """Run the command in a process of its own."""
    program, out = Path(sys.executable).parent / "perfjudge", root / f"out {jobs}"
    command = [program, "timelines", root / "rules.xml", results, "-o", out, "--jobs", str(jobs)]
    start = time.perf_counter()
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in out.glob("*.html"))
    return Made(seconds, size / 1e6, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20)


def quickest(rounds: int, run: Callable[[], Made]) -> Made:
    """Return the run that took least."""
    return min((run() for _ in range(rounds)), key=lambda one: one.seconds)


def drawn(results: Path, root: Path) -> float:
    """Return the seconds in which Matplotlib would draw the boxes of every operation and configuration."""
    from matplotlib.figure import Figure

    runs = read_folder(results, Measure(better="higher")).runs
    found: MeasuredVersions = measured(chosen(runs, rules.read(root / "rules.xml")[0])[0], Problems())
    start = time.perf_counter()
    for row in found.five[:_DRAWN]:
        figure = Figure(figsize=(12, 4))
        names = ("whislo", "q1", "med", "q3", "whishi")
        boxes = [dict(zip(names, five.tolist(), strict=True)) for five in row]
        figure.add_subplot().bxp(boxes, showfliers=False)
        figure.savefig(root / "boxes.svg")
    return (time.perf_counter() - start) / _DRAWN * len(found.five)


def main() -> None:
    """Write the results, and make pages of them."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    before, rows, whole = load(), [], DrawnResults()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "rules.xml").write_text(RULES)
        for what, summaries in (("samples (figure 4.1)", False), ("summaries (figure 4.2)", True)):
            paths = whole.write(root / what, summaries=summaries)
            read = sum(path.stat().st_size for path in paths) / 1e6
            for jobs in (2, 1):
                one = quickest(rounds, lambda: made(root, root / what, jobs))  # noqa: B023 - called at once
                rows.append((what, f"{jobs}", read, one.seconds, one.megabytes, one.memory))
        slow = drawn(root / "samples (figure 4.1)", root)
    rows.append(("only drawn by Matplotlib", "1", None, slow, None, None))
    Table(
        "Timelines of 200 versions, 500 operations and 4 numbers of threads",
        "python -m benchmarks.timelines",
        {
            "what": "",
            "processes": "",
            "read (MB)": ".0f",
            "seconds": ".1f",
            "page (MB)": ".1f",
            "memory at most (GB)": ".2f",
        },
        rows,
        [
            busy(before),
            f"`perfjudge timelines` in a process of its own, its start included; the best of {rounds}.",
            "5 samples a version, or their five numbers; 199,000 comparisons are judged.",
            "Matplotlib draws the boxes of 200 versions as SVG, and neither reads nor judges.",
            f"That is reckoned from {_DRAWN} charts.",
            "Memory is that of the largest process so far.",
            "Wanted: less than 20 s with 2 processes, and at most 20 MB.",
        ],
    ).publish("timelines")


if __name__ == "__main__":
    main()
