"""Guard the project's own speed: measure it, and compare the run with earlier ones by ``perfjudge compare``.

    python -m benchmarks.guard                 measure, and exit with 1 if an operation became slower
    python -m benchmarks.guard --add           the same, and add the run to benchmarks/history
    python -m benchmarks.guard --measure FILE  only measure, and write the run to FILE
    python -m benchmarks.guard --page          write docs/results/guard.md from benchmarks/history

A sample is the processor time of an operation, child processes included, divided by that of a fixed
reference workload right before and after it, so that machines compare. It is given in milliseconds of a
machine on which the reference takes `REFERENCE_MS`. ``PERFJUDGE_OPERATIONS`` names the operations to measure,
one per line.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.guarded import OPERATIONS, Inputs, write_model
from benchmarks.table import Table, time_call
from data.comparisons.formats import results_of_run
from data.errors import InputError
from data.measure.machine import machine_name
from data.stage import BAD_INPUT, report_error
from data.tables.files import write_text
from features.comparisons.summaries import MAD
from serving.cli import run_command
from serving.comparisons.compare.acknowledging import head_commit
from serving.comparisons.compare.command import VARIABLE, CompareRequest, run_files
from serving.comparisons.model import load_judge

HISTORY = Path("benchmarks/history")
#: Samples of an operation in a run (of a command, which takes seconds, one in `RARELY`), and the milliseconds
#: that the reference is taken to last.
SAMPLES, RARELY, REFERENCE_MS = 9, 3, 20.0
#: Smaller changes, in percent, do not fail. Runs of this code and of the earlier commit, in alternation.
SMALLEST, PAIRS = 5, 3
#: An operation that is slower by this share than in the newest run is measured again, whatever the variation.
SUSPECTED = 0.1
#: Newest runs that the page shows, and earlier runs that each needs to be judged there.
SHOWN, LEAST = 40, 10
#: Separates time and commit in the names of runs; git reads such a name as the commit at its end.
COMMIT = "-g"
Samples = Mapping[tuple[str, str], list[float]]


def reference_work() -> object:
    """Do a fixed amount of work on objects, JSON and arrays, without code of the project."""
    rows = [{"name": f"operation {n}", "value": n / 7, "threads": [n, n + 1]} for n in range(5000)]
    values = np.random.default_rng(0).random((250, 250))
    return json.loads(json.dumps(rows)), np.sort(values @ values, axis=1).sum()


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of `work` in seconds, including that of ended child processes."""
    gc.collect()
    return time_call(work, _spent_seconds)[0]


def _spent_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure_operations() -> Samples:
    """Return `SAMPLES` samples of every requested operation, by benchmark and operation; see the module.

    InputError if ``PERFJUDGE_OPERATIONS`` names an unknown operation.
    """
    names = os.environ.get(VARIABLE, "").split()
    chosen = {key: prepare for key, prepare in OPERATIONS.items() if not names or key[1] in names}
    if unknown := {*names} - {operation for _, operation in chosen}:
        expected = ", ".join(operation for _, operation in OPERATIONS)
        raise InputError(f"{VARIABLE}: {' '.join(sorted(unknown))!r} is no operation; expected {expected}")
    samples: Samples = {key: [] for key in chosen}
    with TemporaryDirectory() as scratch, threadpool_limits(1):
        inputs = Inputs(Path(scratch))
        work = {key: prepare(inputs) for key, prepare in chosen.items()}
        for run in (reference_work, *work.values()):
            run()
        # until this process ends: the collector would run at other moments of other operations
        gc.collect()
        gc.freeze()
        gc.disable()
        for number in range(SAMPLES):
            before = processor_seconds(reference_work)
            for key, run in work.items():
                if key[0] == "commands" and number % RARELY:
                    continue
                seconds, after = processor_seconds(run), processor_seconds(reference_work)
                samples[key].append(round(REFERENCE_MS * 2 * seconds / (before + after), 3))
                before = after
    return samples


def write_run(path: Path, samples: Samples) -> None:
    shared = {"machine": machine_name(), "unit": "ms", "better": "lower"}
    lines = []
    for (benchmark, operation), values in samples.items():
        named = {"benchmark": benchmark, "operation": operation}
        lines.append(json.dumps({**named, **shared, "configurations": [{"samples": values}]}))
    write_text(path, '{"results": [\n' + ",\n".join(lines) + "\n]}\n")


def check_speed(history: Path, *, add: bool) -> int:
    """Measure this code and compare it with the runs in `history`; return 1 if an operation became slower.

    Only `recent_runs` of this kind of machine count, since many faster operations would be taken for
    variation. If operations are slower than in these runs, or by `SUSPECTED` than in the newest, all are
    measured again, in turn with the commit of the newest run; those fail that are slower than that commit.
    Without such runs, only the commit is compared; without the commit, one more run with `history`; without
    both, nothing. `add`: copy the first run to `history`.
    """
    commit = head_commit(Path())
    runs = [*run_files([history])] if history.is_dir() and any(history.iterdir()) else []
    earlier = recent_runs([run for run in runs if _machine_of(run) == machine_name()])
    before, newest = earlier[:-1], earlier[-1:]
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}" + (f"{COMMIT}{commit[:8]}" if commit else "")
    with TemporaryDirectory() as directory:
        scratch = Path(directory)
        first = scratch / f"{name}.json"
        _measure_here(first)
        if add:
            history.mkdir(parents=True, exist_ok=True)
            shutil.copy(first, history)
        suspects = _slower_operations(newest, [first], before, or_by=SUSPECTED) if earlier else None
        if suspects == set() or not runs:
            return 0
        version = (earlier or runs)[-1].stem
        base, target = _measure_in_turn(version, scratch)
        if not base and not earlier:
            sys.stderr.write(f"{history} has no run of {machine_name()} to compare with\n")
            return 0
        slower = _slower_operations(*((base, target) if base else (newest, target, before)))
        slower &= slower if suspects is None else suspects
    if slower:
        remedy = "mend it, or acknowledge it in .perfjudge.yaml, see CONTRIBUTING.md"
        sys.stderr.write(f"slower than {version}: {', '.join(sorted(slower))}; {remedy}\n")
    return 1 if slower else 0


def _slower_operations(
    base: Sequence[Path], target: Sequence[Path], history: Sequence[Path] = (), *, or_by: float = np.inf
) -> set[str]:
    """Print the comparison of runs; return the operations that are a regression. SystemExit if it fails.

    `or_by`: also those that are slower by this share or more, and not acknowledged.
    """
    with TemporaryDirectory() as directory:
        # with five operations or more, the variation between runs decides, and a small model serves
        model, answer = write_model("logistic", Path(directory)), Path(directory) / "answer.json"
        options = ["--model", model, "--min-effect-size", SMALLEST, "--json-file", answer]
        for option, paths in (("--base", base), ("--target", target), ("--history", history)):
            options += [part for path in paths for part in (option, path)]
        if code := run_command([*map(str, ["compare", *options])]):
            raise SystemExit(code)
        verdicts = json.loads(answer.read_text())["verdicts"]
    return {
        row["operation"]
        for row in verdicts
        if row["outcome"] == "regression"
        or (row["outcome"] != "acknowledged" and row["moved"] and -row["moved"]["change"] >= or_by)
    }


def recent_runs(runs: Sequence[Path]) -> list[Path]:
    """Return the runs since the newest commit that was measured `LEAST` times or more; without one, all.

    `runs` are in the order of time; the name of a run ends with its commit.
    """
    commits = [run.stem.rpartition(COMMIT)[2] for run in runs]
    often = [at for at, commit in enumerate(commits) if commits.count(commit) >= LEAST]
    return [*runs[commits.index(commits[often[-1]]) if often else 0 :]]


def _measure_code(directory: Path, run: Path) -> bool:
    command = [sys.executable, "-m", "benchmarks.guard", "--measure", str(run.absolute())]
    return subprocess.call(command, cwd=directory) == 0


def _measure_here(run: Path) -> Path:
    if not _measure_code(Path(), run):
        raise SystemExit(BAD_INPUT)
    return run


def _measure_in_turn(version: str, scratch: Path) -> tuple[list[Path], list[Path]]:
    """Return `PAIRS` runs of an earlier commit by the present suite, and of this code.

    If git lacks that commit (`version` is any name of it) or measuring fails there, one run of this code.
    """
    base, target, directory, archive = list[Path](), list[Path](), scratch / "base", scratch / "base.tar"
    known = subprocess.call(["git", "archive", "-o", archive, version]) == 0
    if known:
        with tarfile.open(archive) as files:
            files.extractall(directory, filter="data")
        shutil.copytree("benchmarks", directory / "benchmarks", dirs_exist_ok=True)
    for number in range(PAIRS):
        run = scratch / f"{version}-{number}.json"
        base += [run] if known and _measure_code(directory, run) else []
        target.append(_measure_here(scratch / f"here-{number}.json"))
        if not base:
            break
    return base, target


def _machine_of(run: Path) -> str:
    return str(results_of_run(run)["machine"].iloc[0])


def write_page(history: Path) -> None:
    """Write docs/results/guard.md: levels and verdicts of the runs on the machine of the newest run."""
    *runs, newest = run_files([history])
    machine = _machine_of(newest)
    runs = [*(run for run in runs if _machine_of(run) == machine), newest]
    levels = [_levels_of(run) for run in runs]
    with TemporaryDirectory() as scratch:
        model = str(write_model("logistic", Path(scratch)))
        judge = load_judge(model, min_effect_size=SMALLEST / 100)
    judged = []
    for at in range(max(LEAST, len(runs) - SHOWN), len(runs)):
        *earlier, baseline = recent_runs(runs[:at])
        sides = {"baseline": [baseline], "target": [runs[at]], "history": earlier}
        judged.append(CompareRequest(**sides, served=judge).compare_sides())
    detectable = {row.full_name: row.detectable for row in judged[-1].rows} if judged else {}
    rows = []
    for name, level in levels[-1].items():
        values = np.array([known.get(name, np.nan) for known in levels])
        steps = np.diff(values[np.isfinite(values)])
        spread = float(np.median(np.abs(steps))) / MAD / np.sqrt(2) / level if len(steps) else None
        rows.append((name, level, spread, detectable.get(name), _draw_levels(values[-SHOWN:])))
    slower = [[row.full_name for row in sides.rows if row.outcome == "regression"] for sides in judged]
    names = ", ".join(dict.fromkeys(name for of_run in slower for name in of_run)) or "none"
    notes = [
        f"{len(runs)} runs on {machine}, from {runs[0].stem} to {newest.stem} (UTC and commit).",
        f"ms: where the reference takes {REFERENCE_MS:g} ms; {SAMPLES} samples of the newest run.",
        "runs differ by: standard deviation, from the median step from run to run.",
        "detectable: the slow-down that the newest run would show with a probability of 80 %.",
        f"timeline: the last {SHOWN} runs; the lowest and the highest bar are 20 % from the median.",
        f"Of the last {len(judged)} runs, {slower.count([])} have no regression beside the runs",
        f"before them. Called slower: {names}. CI measures these again beside the earlier commit.",
    ]
    columns = {"operation": "", "ms": ".1f", "runs differ by": ".1%", "detectable": ".1%", "timeline": ""}
    Table("Speed of perfjudge, run by run", columns, rows, notes).publish("guard")


def _levels_of(run: Path) -> dict[str, float]:
    rows = results_of_run(run).assign(name=lambda rows: rows["benchmark"] + "/" + rows["operation"])
    return rows.groupby("name", sort=False)["value"].median().to_dict()


def _draw_levels(values: NDArray[np.float64]) -> str:
    bars = "▁▂▃▄▅▆▇"
    heights = np.rint((values / np.nanmedian(values) - 0.8) / 0.4 * (len(bars) - 1)).clip(0, len(bars) - 1)
    return "".join(bars[int(height)] if np.isfinite(height) else " " for height in heights)


def main(arguments: Sequence[str] | None = None) -> int:
    summary = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=summary)
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="DIR", help="folder of earlier runs")
    parser.add_argument("--add", action="store_true", help="add the run to the folder of earlier runs")
    parser.add_argument(
        "--measure", type=Path, metavar="FILE", help="only measure, and write the run to FILE"
    )
    parser.add_argument("--page", action="store_true", help="only write docs/results/guard.md")
    options = parser.parse_args(arguments)
    try:
        if options.page:
            write_page(options.history)
        elif options.measure:
            write_run(options.measure, measure_operations())
        else:
            return check_speed(options.history, add=options.add)
    except InputError as error:
        return report_error(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
