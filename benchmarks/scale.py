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
from benchmarks.table import SEED, Table, busy, clocked, load, publish
from data.parallel import Compute
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.engine import LARGE
from training.matrices.schemes import Cell

MODEL, TRIALS, MISSING = "logistic", 6, 0.5


def _processor() -> float:
    """Return the processor seconds of this process and its children."""
    me = psutil.Process()
    times = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def learn(source: Path, work: Path, jobs: int) -> None:
    recipe = LargeRecipe(Cell(MODEL, LARGE), TRIALS, SEED, MISSING, Compute(jobs))
    clean, (pieces, _) = clocked(lambda: recipe.cleaned(source, work))
    features, shaped = clocked(lambda: recipe.shaped(pieces))
    fit, engine = clocked(lambda: recipe.learned(shaped))
    told = {"clean": clean, "features": features, "fit": fit, "processor": _processor()}
    told["own"] = len(engine.judges.own)
    sizes = {"pairs": pieces.pairs, "pieces": len(pieces.files), "valid": pieces.rows}
    print(json.dumps(told | sizes))


SIZES = (200_000, 2_000_000)
#: Vectors per file of the source; test cases differ between files.
FILE = 20_000
#: Seconds between two measurements of the memory of all processes.
LOOK = 0.05
STEPS = {"clean": "parting and cleaning", "features": "feature stage", "fit": "search and fit of all groups"}
#: Vectors and workers of the extrapolated plan.
PLANNED, WORKERS = 1_000_000_000, 64
GIB, HOUR = 2**30, 3600


@dataclass(frozen=True)
class Measured:
    """One run: vectors, times of the steps, peak resident memory and disk usage in bytes."""

    vectors: int
    told: dict[str, Any]
    peak: int
    disk: int

    @property
    def seconds(self) -> float:
        return float(sum(self.told[step] for step in STEPS))


def write(directory: Path, vectors: int) -> None:
    """Write a table of `vectors` vectors, a file at a time."""
    directory.mkdir(parents=True)
    for number in track(range(vectors // FILE), f"make {vectors:,} vectors", transient=True):
        tables = generate(FILE, seed=number)
        names = {name: f"{number} " + tables.runs[name] for name in ("run_id", "pair_id", "workload")}
        runs = tables.runs.assign(**names)
        runs.to_parquet(directory / f"{number:05d}.parquet", index=False, compression="snappy")
        if not number:
            tables.metrics.to_parquet(directory.parent / "metrics.parquet", index=False)


def measured(vectors: int, root: Path, jobs: int) -> Measured:
    """Generate vectors, train on them in a separate process, and sample its memory."""
    source, work = root / f"{vectors}" / "matrices", root / f"{vectors}" / "work"
    if not source.exists():
        write(source, vectors)
    command = [sys.executable, "-m", "benchmarks.scale", "--learn", source, work, "--jobs", str(jobs)]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as process:
        peak = max(_memory(psutil.Process(process.pid), process))
        told = process.stdout.read() if process.stdout else ""
    disk = sum(path.stat().st_size for path in work.rglob("*.parquet"))
    return Measured(vectors, json.loads(told), peak, disk)


def _memory(parent: psutil.Process, process: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the resident memory of a process and its children until it ends."""
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            yield sum(_resident(one) for one in [parent, *parent.children(recursive=True)])
        time.sleep(LOOK)


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def table(found: list[Measured], jobs: int, before: float) -> Table:
    small, large = found[0], found[-1]
    rows = [
        (
            f"{one.vectors:,}",
            *(one.told[step] for step in STEPS),
            one.seconds,
            one.told["processor"],
            one.peak / GIB,
            one.disk / GIB,
        )
        for one in found
    ]
    times = [large.told[step] / small.told[step] for step in STEPS]
    times += [large.seconds / small.seconds, large.told["processor"] / small.told["processor"]]
    rows.append(("last / first", *times, large.peak / small.peak, None))
    columns = {"vectors": "", **{f"{words}, s": ".1f" for words in STEPS.values()}}
    return Table(
        f"Matrices larger than memory: {RAW} raw metrics, {GROUPS} groups",
        columns
        | {"all, s": ".1f", "of the processor, s": ".1f", "peak, GiB": ".2f", "left on disk, GiB": ".1f"},
        rows,
        [*_notes(small, large, jobs), busy(before)],
    )


def _notes(small: Measured, large: Measured, jobs: int) -> list[str]:
    told, processes = large.told, "1 process" if jobs == 1 else f"{jobs} processes"
    return f"""\
Synthetic, seed {SEED}: for speed and memory only. {told["valid"]:,} of the {large.vectors:,} vectors are \
valid, in {told["pairs"]:,} pairs and {told["pieces"]} pieces; {told["own"]} groups got their own classifier.
On {processes}; where the machine has other work, the processor's seconds tell more than the clock's.
Peak: the resident sizes of all processes together, every {LOOK:g} s; what they share counts twice.
Parting and cleaning read the table twice and write it twice. The feature stage learns medians, units and \
noise of all runs, and for each fifth of the test cases those of the others, and contrasts all pairs.
{large.vectors / small.vectors:.0f} times as many vectors.
""".splitlines()


def plan(small: Measured, large: Measured) -> Table:
    """Return the extrapolated cost of `PLANNED` vectors, by the marginal cost of a vector."""
    more = large.vectors - small.vectors
    seconds = {words: large.told[step] - small.told[step] for step, words in STEPS.items()}
    seconds |= {"all": large.seconds - small.seconds}
    seconds |= {"all, of the processor": large.told["processor"] - small.told["processor"]}
    rows: list[tuple[object, ...]] = []
    for words, found in seconds.items():
        each = found / more
        hours = each * PLANNED / HOUR
        rows.append((words, each * 1e6, hours, hours / WORKERS))
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
        learn(*options.learn, options.jobs)
        return
    before, found = load(), []
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.work, prefix="scale-") as root:
            found.append(measured(size, Path(root), options.jobs))
    publish("scale", [table(found, options.jobs, before), plan(found[0], found[-1])])


if __name__ == "__main__":
    main()
