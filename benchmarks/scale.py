"""The family of matrices from 0.2 to 2 million synthetic vectors of 200 metrics, out of core."""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import typer
from rich.progress import track

from benchmarks.synthetic_matrices import GROUPS, RAW, generate
from benchmarks.table import SEED, Table, load_note, processor_seconds, publish, time_call
from data.parallel import Compute, side_by_side
from features.matrices.chunks import CleanChunks, statistics_without_parts
from features.matrices.forms import MetricStatistics
from training.matrices.chunks import SEARCHED, LargeRecipe, ShapedChunk, shape_chunk
from training.matrices.schemes import LARGE, Cell

MODEL, TRIALS, MISSING = "logistic", 6, 0.5
SIZES = (200_000, 2_000_000)
#: Vectors per file of the source; test cases differ between files.
FILE = 20_000
#: Seconds between two measurements of the memory of all processes.
SAMPLING_INTERVAL = 0.05
STEPS = {"clean": "parting and cleaning", "features": "feature stage", "fit": "search and fit of all groups"}
#: Vectors and workers of the extrapolated plan.
PLANNED, WORKERS = 1_000_000_000, 64
GIB, HOUR = 2**30, 3600


def shape_chunks(recipe: LargeRecipe, chunks: CleanChunks) -> tuple[MetricStatistics, list[ShapedChunk]]:
    """Learn the statistics of all chunks, and contrast their pairs, as `LargeRecipe.train` does."""
    learnt, share = statistics_without_parts(chunks, recipe.compute), min(1.0, SEARCHED / chunks.pairs)
    task = partial(shape_chunk, chunks=chunks, scales=learnt, share=share, seed=recipe.seed)
    return learnt[0], side_by_side(task, list(enumerate(chunks.files)), recipe.compute, "contrast pairs")


def train(source: Path, work: Path) -> dict[str, Any]:
    """Train on the table in `source`; return seconds and sizes."""
    recipe = LargeRecipe(Cell(MODEL, LARGE), TRIALS, SEED, MISSING, Compute(1))
    clean, (chunks, _) = time_call(lambda: recipe.clean_chunks(source, work))
    features, (scales, shaped) = time_call(lambda: shape_chunks(recipe, chunks))
    fit, engine = time_call(lambda: recipe.fit_engine(scales, shaped))
    figures = {"clean": clean, "features": features, "fit": fit, "all": clean + features + fit}
    figures["processor"] = processor_seconds(os.getpid())
    sizes = {"pairs": chunks.pairs, "pieces": len(chunks.files), "valid": chunks.rows}
    return figures | sizes | {"own": len(engine.judges.of_groups)}


class Measured(NamedTuple):
    """One run: vectors, times of the steps, peak resident memory and disk usage in bytes."""

    vectors: int
    figures: dict[str, Any]
    peak: int
    disk: int


def write_vectors(directory: Path, vectors: int) -> None:
    directory.mkdir(parents=True)
    for number in track(range(vectors // FILE), f"make {vectors:,} vectors", transient=True):
        tables = generate(FILE, seed=number)
        names = {name: f"{number} " + tables.runs[name] for name in ("run_id", "pair_id", "workload")}
        runs = tables.runs.assign(**names)
        runs.to_parquet(directory / f"{number:05d}.parquet", index=False, compression="snappy")
        if not number:
            tables.metrics.to_parquet(directory.parent / "metrics.parquet", index=False)


def measure_run(vectors: int, root: Path) -> Measured:
    source, work = root / f"{vectors}" / "matrices", root / f"{vectors}" / "work"
    write_vectors(source, vectors)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        figures, peak = executor.submit(train, source, work), 0
        while not figures.done():
            resident = 0
            for member in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    resident += member.memory_info().rss
            peak = max(peak, resident)
            time.sleep(SAMPLING_INTERVAL)
    disk = sum(path.stat().st_size for path in work.rglob("*.parquet"))
    return Measured(vectors, figures.result(), peak, disk)


def size_table(runs: list[Measured]) -> Table:
    small, large, shown, figures = runs[0], runs[-1], (*STEPS, "all", "processor"), runs[-1].figures
    rows = []
    for run in runs:
        seconds = (run.figures[step] for step in shown)
        rows.append((f"{run.vectors:,}", *seconds, run.peak / GIB, run.disk / GIB))
    times = [figures[step] / small.figures[step] for step in shown]
    rows.append(("last / first", *times, large.peak / small.peak, None))
    columns = {"vectors": "", **{f"{words}, s": ".1f" for words in STEPS.values()}, "all, s": ".1f"}
    columns |= {"of the processor, s": ".1f", "peak, GiB": ".2f", "left on disk, GiB": ".1f"}
    notes = f"""
    - Synthetic, seed {SEED}: for speed and memory only. {figures["valid"]:,} of the {large.vectors:,} vectors
      are valid, in {figures["pairs"]:,} pairs and {figures["pieces"]} pieces; {figures["own"]} groups got
      their own classifier.
    - On 1 process; where the machine has other work, the processor's seconds tell more than the clock's.
    - Peak: the resident sizes of all processes together, every {SAMPLING_INTERVAL:g} s; what they share
      counts twice.
    - Parting and cleaning read the table twice and write it twice. The feature stage learns medians, units
      and noise of all runs, and for each fifth of the test cases those of the others, and contrasts all
      pairs.
    - {large.vectors / small.vectors:.0f} times as many vectors.
    - {load_note()}
    """
    title = f"Matrices larger than memory: {RAW} raw metrics, {GROUPS} groups"
    return Table(title, columns, rows, notes)


def plan_table(small: Measured, large: Measured) -> Table:
    """Return the extrapolated cost of `PLANNED` vectors, by the marginal cost of a vector."""
    more = large.vectors - small.vectors
    rows: list[tuple[object, ...]] = []
    for step, words in {**STEPS, "all": "all", "processor": "all, of the processor"}.items():
        per_vector = (large.figures[step] - small.figures[step]) / more
        hours = per_vector * PLANNED / HOUR
        rows.append((words, per_vector * 1e6, hours, hours / WORKERS))
    disk = (large.disk - small.disk) / more
    rows.append(("left on disk", f"{disk:,.0f} bytes", f"{disk * PLANNED / 1e12:.1f} TB", None))
    columns = {"step": "", "of a vector more, µs": ".1f", "one worker, h": ".1f"}
    notes = [
        f"By what {large.vectors:,} vectors cost more than {small.vectors:,}, not what any run costs.",
        "docs/scale.md says what does not divide among workers.",
    ]
    columns |= {f"on {WORKERS} workers, h": ".2f"}
    return Table(f"A plan for {PLANNED:,} vectors", columns, rows, notes)


def main(work: Path | None = None) -> None:
    """Write the page; 12 GB lie in `work` for some minutes."""
    runs = []
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=work, prefix="scale-") as root:
            runs.append(measure_run(size, Path(root)))
    publish("scale", [size_table(runs), plan_table(runs[0], runs[-1])])


if __name__ == "__main__":
    typer.run(main)
