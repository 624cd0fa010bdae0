"""Timelines made up: operations over versions of a kernel, with steps, creeping drops and noise."""

import datetime as dt
from dataclasses import replace

import numpy as np

from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import Shift
from serving.comparisons.timelines.assembled import (
    Change,
    HeatMap,
    TimelineOperation,
    TimelineReport,
    TimelineVersion,
    group_changes,
    operation_state,
)
from serving.comparisons.timelines.judged import OperationMarks

#: Benchmarks and their operations.
OPERATIONS = {
    "NAS Parallel": "bt_C_x cg_C_x ep_C_x ft_C_x is_C_x lu_C_x mg_C_x sp_C_x ua_C_x",
    "SPECjvm2008": "compiler compress crypto.aes derby mpegaudio scimark.fft scimark.lu serial sunflow xml",
    "STREAM": "copy scale add triad",
}
NAMES = [(benchmark, name) for benchmark, names in OPERATIONS.items() for name in names.split()]
REASON = "its median at {} threads is {:.1f} % worse than the baseline's, and their quartiles lie apart"


def versions(many):
    first = dt.datetime(2018, 7, 2, 19, 7, tzinfo=dt.UTC)
    names = [f"kernel-4.{18 + at // 40}.0-{80 + at % 40 * 3}.el8" for at in range(many)]
    days = [(first + dt.timedelta(days=7 * at)).isoformat() for at in range(many)]
    return tuple(TimelineVersion(*one, f"{one[0]}/result #1.xml") for one in zip(names, days, strict=True))


def operation(benchmark, name, many, threads, draw, *, changes=(), spread=0.008, better="higher", missing=()):
    """Make an operation whose level follows `changes`, and whose marks follow from the changes."""
    level = np.ones(many)
    for change in changes:
        steps = np.arange(many)
        done = np.clip((steps - change.first + 1) / (change.last - change.first + 1), 0, 1)
        level *= 1 + change.share * done * (1 if better == "higher" else -1)
    scale = draw.uniform(60, 9000) * np.array(threads)[:, None] ** (0.8 if better == "higher" else -0.4)
    # five-number summaries of seven repetitions
    samples = (scale * level)[..., None] * (1 + spread * draw.standard_normal((len(threads), many, 7)))
    five = np.quantile(samples, [0, 0.25, 0.5, 0.75, 1], axis=-1).transpose(1, 2, 0).copy()
    five[:, list(missing)] = np.nan
    lost = (1 - level) if better == "higher" else level - 1
    beside = np.where(lost > 0.045, 3, np.where(lost > 0.03, 2, 1)).astype(np.uint8)
    before = np.ones(many, np.uint8)
    for change in changes:
        if change.kind == "drop" and change.share < -0.03:
            before[change.first] = 3
    before[0] = beside[0] = 0
    for marks in (before, beside):
        marks[list(missing)] = 0
    probability = np.where(beside > 0, np.clip(0.02 + lost * 12, 0.01, 0.997), np.nan)
    told = np.flatnonzero((beside >= 2) | (before >= 2))
    words = {int(at): (REASON.format(threads[-1], 100 * lost[at]),) for at in told}
    unit = "Mop/s" if better == "higher" else "seconds"
    measured = MeasuredOperation(benchmark, name, unit, better, tuple(threads), 0)
    marks = OperationMarks(beside, before, probability, words)
    return TimelineOperation(
        **vars(measured), **vars(marks),
        five=five, changes=tuple(changes), instability=spread * 2.5,
        state=state_of(measured, five, changes, marks),
    )  # fmt: skip


def state_of(measured, five, changes, marks):
    """Return the state of one operation whose configurations all have these changes."""
    versions = MeasuredVersions(
        (measured,), np.zeros(0), np.zeros((len(five), five.shape[1] + 1), np.int64), five
    )
    shifts = [[Shift(*change[:4]) for change in changes]] * len(five)
    return operation_state(measured, versions, shifts, np.full(len(five), 0.05), marks=marks, baseline=0)


def drawn_changes(number, many, most):
    """Return what happens to an operation: every fifth drops, every seventh creeps, every ninth gains."""
    at = (number * 37) % max(many - 12, 1) + 3
    drop = -0.05 - 0.03 * (number % 7)
    if many < 12 or number % 315 == 0:
        return ()
    if number % 5 == 0:
        return (Change("drop", at, at, drop, most), Change("gain", at + 6, at + 6, 1 / (1 + drop) - 1, most))
    if number % 7 == 0:
        return (Change("creep", many // 4, 3 * many // 4, -0.07, most),)
    return (Change("gain", many // 3, many // 3, 0.06, most),) if number % 9 == 0 else ()


def named(number):
    benchmark, name = NAMES[number % len(NAMES)]
    again = number // len(NAMES)
    return benchmark, f"{name} {again + 1}" if again else name


def heat(many=24, seconds=110):
    draw = np.random.default_rng(3)
    busy = (np.sin(np.arange(seconds) / 9 + np.arange(many)[:, None] * 0.8) > -0.2) * 82.0
    values = np.clip(busy + draw.normal(8, 5, (many, seconds)), 0, 100)
    values[5:6, 20:30] = np.nan
    rows = tuple(f"CPU {number}" for number in range(many))
    return HeatMap(
        "use", rows, np.arange(seconds) * 1.0, values, "%",
        title="Use of each CPU, cg_C_x at 16 threads", source="heat/mpstat.csv", version=0,
    )  # fmt: skip


def simulated(many=60, operations=23, configurations=4, heats=1):
    draw = np.random.default_rng(1)
    threads = (1, 8, 24, 48)[:configurations]
    made = []
    for number in range(operations):
        benchmark, name = named(number)
        better = "lower" if benchmark == "STREAM" else "higher"
        spread = 0.05 if number % 11 == 4 else draw.uniform(0.003, 0.012)
        missing = [many // 2] if number % 4 == 1 else []
        changes = drawn_changes(number, many, threads[-1])
        made.append(operation(
            benchmark, name, many, threads, draw,
            changes=changes, spread=spread, better=better, missing=missing,
        ))  # fmt: skip
    return TimelineReport(
        "Kernels of RHEL 8 on a machine with 4 NUMA nodes", "gold-4n.lab", RULES, versions(many), 0,
        tuple(made), group_changes([one.changes for one in made]), tuple(heat() for _ in range(heats)),
        ("of STREAM, lower is assumed to be better",),
        "regression-comparison 3 (extra-trees)",
    )  # fmt: skip


RULES = (
    ("baseline", "kernel", r"kernel-4\.18\.0-80\.el8"),
    ("target", "kernel", r"kernel-4\..*"),
    ("start", "kernel", r"kernel-4\.18\..*"),
)


def renamed(report, **fields):
    """Change fields of the first operation, and what follows from them."""
    first, *rest = report.operations
    return with_operations(report, (replace(first, **fields), *rest))


def with_operations(report, operations):
    """Replace the operations, and what follows from their medians, changes and marks."""
    settled = []
    for one in operations:
        marks = OperationMarks(one.against_baseline, one.against_before, one.probability, one.words)
        measured = MeasuredOperation(one.benchmark, one.operation, one.unit, one.better, one.threads, 0)
        settled.append(replace(one, state=state_of(measured, one.five, one.changes, marks)))
    changes = group_changes([one.changes for one in settled])
    return replace(report, operations=tuple(settled), changes=changes)
