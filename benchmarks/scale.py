"""The family of matrices from 0.2 to 2 million vectors of 200 metrics, out of core.

Run it with ``uv run python -m benchmarks.scale``; it writes ``docs/results/scale.md``. It takes some minutes,
and 12 GB in a directory for temporary files (``--work``). Everything is synthetic: speed and memory only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.progress import track

from benchmarks.synthetic_matrices import GROUPS, RAW, generate
from benchmarks.table import SEED, Table, load_average, load_note, publish, time_call
from data.parallel import Compute
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.engine import LARGE
from training.matrices.schemes import Cell

MODEL, TRIALS, MISSING = "logistic", 6, 0.5


def _processor_seconds() -> float:
    """Return the processor seconds of this process and its children."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(process.user + process.system for process in times))


def train_and_print(source: Path, work: Path, jobs: int) -> None:
    recipe = LargeRecipe(Cell(MODEL, LARGE), TRIALS, SEED, MISSING, Compute(jobs))
    clean, (chunks, _) = time_call(lambda: recipe.clean_chunks(source, work))
    features, shaped = time_call(lambda: recipe.shaped(chunks))
    fit, engine = time_call(lambda: recipe.fit_engine(shaped))
    figures = {"clean": clean, "features": features, "fit": fit, "processor": _processor_seconds()}
    figures["own"] = len(engine.judges.own)
    sizes = {"pairs": chunks.pairs, "pieces": len(chunks.files), "valid": chunks.rows}
    print(json.dumps(figures | sizes))


SIZES = (200_000, 2_000_000)
#: Vectors per file of the source; test cases differ between files.
FILE = 20_000
#: Seconds between two measurements of the memory of all processes.
SAMPLING_INTERVAL = 0.05
STEPS = {"clean": "parting and cleaning", "features": "feature stage", "fit": "search and fit of all groups"}
#: Vectors and workers of the extrapolated plan.
PLANNED, WORKERS = 1_000_000_000, 64
GIB, HOUR = 2**30, 3600


@dataclass(frozen=True)
class Measured:
    """One run: vectors, times of the steps, peak resident memory and disk usage in bytes."""

    vectors: int
    figures: dict[str, Any]
    peak: int
    disk: int

    @property
    def seconds(self) -> float:
        return float(sum(self.figures[step] for step in STEPS))


def write_vectors(directory: Path, vectors: int) -> None:
    """Write a table of `vectors` vectors, a file at a time."""
    directory.mkdir(parents=True)
    for number in track(range(vectors // FILE), f"make {vectors:,} vectors", transient=True):
        tables = generate(FILE, seed=number)
        names = {name: f"{number} " + tables.runs[name] for name in ("run_id", "pair_id", "workload")}
        runs = tables.runs.assign(**names)
        runs.to_parquet(directory / f"{number:05d}.parquet", index=False, compression="snappy")
        if not number:
            tables.metrics.to_parquet(directory.parent / "metrics.parquet", index=False)


def measure_run(vectors: int, root: Path, jobs: int) -> Measured:
    """Generate vectors, train on them in a separate process, and sample its memory."""
    source, work = root / f"{vectors}" / "matrices", root / f"{vectors}" / "work"
    if not source.exists():
        write_vectors(source, vectors)
    command = [sys.executable, "-m", "benchmarks.scale", "--learn", source, work, "--jobs", str(jobs)]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as process:
        peak = max(_sample_memory(psutil.Process(process.pid), process))
        output = process.stdout.read() if process.stdout else ""
    disk = sum(path.stat().st_size for path in work.rglob("*.parquet"))
    return Measured(vectors, json.loads(output), peak, disk)


def _sample_memory(parent: psutil.Process, process: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the resident memory of a process and its children until it ends."""
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            yield sum(_resident(member) for member in [parent, *parent.children(recursive=True)])
        time.sleep(SAMPLING_INTERVAL)


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def size_table(runs: list[Measured], jobs: int, before: float) -> Table:
    small, large = runs[0], runs[-1]
    rows = [
        (
            f"{run.vectors:,}",
            *(run.figures[step] for step in STEPS),
            run.seconds,
            run.figures["processor"],
            run.peak / GIB,
            run.disk / GIB,
        )
        for run in runs
    ]
    times = [large.figures[step] / small.figures[step] for step in STEPS]
    times += [large.seconds / small.seconds, large.figures["processor"] / small.figures["processor"]]
    rows.append(("last / first", *times, large.peak / small.peak, None))
    columns = {"vectors": "", **{f"{words}, s": ".1f" for words in STEPS.values()}}
    return Table(
        f"Matrices larger than memory: {RAW} raw metrics, {GROUPS} groups",
        columns
        | {"all, s": ".1f", "of the processor, s": ".1f", "peak, GiB": ".2f", "left on disk, GiB": ".1f"},
        rows,
        [*_notes(small, large, jobs), load_note(before)],
    )


def _notes(small: Measured, large: Measured, jobs: int) -> list[str]:
    figures, processes = large.figures, "1 process" if jobs == 1 else f"{jobs} processes"
    return f"""\
Synthetic, seed {SEED}: for speed and memory only. {figures["valid"]:,} of the {large.vectors:,} vectors are \
valid, in {figures["pairs"]:,} pairs and {figures["pieces"]} pieces; {figures["own"]} groups got their own \
classifier.
On {processes}; where the machine has other work, the processor's seconds tell more than the \
clock's.
Peak: the resident sizes of all processes together, every {SAMPLING_INTERVAL:g} s; what they share counts \
twice.
Parting and cleaning read the table twice and write it twice. The feature stage learns medians, units and \
noise of all runs, and for each fifth of the test cases those of the others, and contrasts all pairs.
{large.vectors / small.vectors:.0f} times as many vectors.
""".splitlines()


def plan_table(small: Measured, large: Measured) -> Table:
    """Return the extrapolated cost of `PLANNED` vectors, by the marginal cost of a vector."""
    more = large.vectors - small.vectors
    seconds = {words: large.figures[step] - small.figures[step] for step, words in STEPS.items()}
    seconds |= {"all": large.seconds - small.seconds}
    seconds |= {"all, of the processor": large.figures["processor"] - small.figures["processor"]}
    rows: list[tuple[object, ...]] = []
    for words, extra_seconds in seconds.items():
        per_vector = extra_seconds / more
        hours = per_vector * PLANNED / HOUR
        rows.append((words, per_vector * 1e6, hours, hours / WORKERS))
    disk = (large.disk - small.disk) / more
    rows.append(("left on disk", f"{disk:,.0f} bytes", f"{disk * PLANNED / 1e12:.1f} TB", None))
    return Table(
        f"A plan for {PLANNED:,} vectors",
        {
            "step": "",
            "of a vector more, µs": ".1f",
            "one worker, h": ".1f",
            f"on {WORKERS} workers, h": ".2f",
        },
        rows,
        [
            f"By what {large.vectors:,} vectors cost more than {small.vectors:,}, not what any run costs.",
            "docs/scale.md says what does not divide among workers.",
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=Path, help="where 12 GB lie for some minutes")
    parser.add_argument(
        "--learn", nargs=2, type=Path, metavar=("SOURCE", "WORK"), help="print the seconds as JSON"
    )
    options = parser.parse_args()
    if options.learn:
        train_and_print(*options.learn, options.jobs)
        return
    before, runs = load_average(), []
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.work, prefix="scale-") as root:
            runs.append(measure_run(size, Path(root), options.jobs))
    publish("scale", [size_table(runs, options.jobs, before), plan_table(runs[0], runs[-1])])


if __name__ == "__main__":
    main()
