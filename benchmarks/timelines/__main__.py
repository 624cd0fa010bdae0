"""How long ``perfjudge timelines`` takes for 200 versions of 500 operations at 4 numbers of threads."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.table import PERFJUDGE, Table, load_note, run_measured
from benchmarks.timelines import RULES, DrawnResults
from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import choose_runs, gather_measurements
from data.tables.problems import Problems

#: Number of charts that Matplotlib draws; the time for all charts is extrapolated from them.
_DRAWN = 8
ROUNDS = 2

COLUMNS = {
    "what": "", "processes": "", "read (MB)": ".0f", "seconds": ".1f", "page (MB)": ".1f",
    "memory at most (GB)": ".2f",
}  # fmt: skip


def matplotlib_seconds(results: Path, root: Path) -> float:
    """Return the estimated seconds for Matplotlib to draw the boxes of every operation and configuration."""
    from matplotlib.figure import Figure

    runs = read_folder(results, Measure(better="higher")).runs
    chosen = choose_runs(runs, rules.read_rule_sets(root / "rules.xml")[0])[0]
    five, names = gather_measurements(chosen, Problems()).five, ("whislo", "q1", "med", "q3", "whishi")
    start = time.perf_counter()
    for row in five[:_DRAWN]:
        figure = Figure(figsize=(12, 4))
        boxes = [dict(zip(names, numbers.tolist(), strict=True)) for numbers in row]
        figure.add_subplot().bxp(boxes, showfliers=False)
        figure.savefig(root / "boxes.svg")
    return (time.perf_counter() - start) / _DRAWN * len(five)


def main() -> None:
    rows, whole = [], DrawnResults()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "rules.xml").write_text(RULES)
        for what, summaries in (("samples (figure 4.1)", False), ("summaries (figure 4.2)", True)):
            paths = whole.write(root / what, summaries=summaries)
            read = sum(path.stat().st_size for path in paths) / 1e6
            for jobs in (2, 1):
                out = root / f"out {jobs}"
                command = (PERFJUDGE, "timelines", root / "rules.xml", root / what, "-o", out, "--jobs", jobs)
                quickest = min((run_measured(*command) for _ in range(ROUNDS)), key=lambda run: run.seconds)
                pages = sum(path.stat().st_size for path in out.glob("*.html")) / 1e6
                rows.append((what, f"{jobs}", read, quickest.seconds, pages, quickest.memory / 2**30))
        slow = matplotlib_seconds(root / "samples (figure 4.1)", root)
    rows.append(("only drawn by Matplotlib", "1", None, slow, None, None))
    notes = [
        load_note(),
        f"`perfjudge timelines` in a process of its own, its start included; the best of {ROUNDS}.",
        "5 samples a version, or their five numbers; 199,000 comparisons are judged.",
        "Matplotlib draws the boxes of 200 versions as SVG, and neither reads nor judges.",
        f"That is reckoned from {_DRAWN} charts.",
        "Memory is that of the largest process.",
        "Wanted: less than 20 s with 2 processes, and at most 20 MB.",
    ]
    title = "Timelines of 200 versions, 500 operations and 4 numbers of threads"
    Table(title, COLUMNS, rows, notes).publish("timelines")


if __name__ == "__main__":
    main()
