"""False alarms between runs of one build, and the share of real regressions that are found.

Run it with ``python -m benchmarks.drift`` after ``dvc repro``; it writes ``docs/results/drift.md``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.table import SEED, Table, publish
from data.comparisons.pair import paired_runs
from data.comparisons.sides import Floats, Sides
from data.comparisons.tables import Builder, Series
from features.comparisons.between_run_variation import ASSUMED
from serving.comparisons.compare.weighing import judge_runs
from serving.comparisons.model import Judge, load_judge
from training.comparisons.family import RULES

#: Bounds of the noise of operations' samples (standard deviation, as a share).
NOISE = (0.005, 0.03)


@dataclass(frozen=True)
class Circumstances:
    """Conditions of a simulated measurement; `spread`: standard deviation between runs, as a share."""

    offsets: Literal["whole run", "operations", "both"] = "both"
    spread: float = 0.03
    operations: int = 5
    runs: int = 1
    history: int = 0
    samples: int = 10
    skewed: bool = False


class Projects:
    """Simulated projects whose benchmarks run repeatedly, each on a separate machine."""

    def __init__(self, rng: np.random.Generator, circumstances: Circumstances, number: int = 1) -> None:
        self._rng, self._circumstances = rng, circumstances
        self._shape = number, circumstances.operations
        self._level = rng.uniform(1, 100, self._shape)
        self._noise = np.exp(rng.uniform(*np.log(NOISE), self._shape))

    def runs(self, number: int, slower: Floats | float = 0.0) -> Sequence[pd.DataFrame]:
        """Return results of `number` runs of all projects; operations are slower by the shares `slower`."""
        builder = Builder()
        for order in range(number):
            levels = self._level * np.exp(self._offsets()) * (1 + slower)
            for (machine, place), level in np.ndenumerate(levels):
                names = (f"operation {place}", f"machine {machine}")
                series = Series(str(names), "b", "b", *names, "ms", "lower", 1)
                samples = level * (1 + self._noise[machine, place] * self._scatter())
                builder.results.add_samples(series, order, str(order), samples.tolist())
        return [run for _, run in builder.take_tables().results.groupby("order")]

    def _offsets(self) -> Floats:
        circumstances, (machines, _) = self._circumstances, self._shape
        whole, per_operation = {"whole run": (1.0, 0.0), "operations": (0.0, 1.0), "both": (0.5, 0.5)}[
            circumstances.offsets
        ]
        common = self._rng.normal(0, circumstances.spread * np.sqrt(whole), (machines, 1))
        return common + self._rng.normal(0, circumstances.spread * np.sqrt(per_operation), self._shape)

    def _scatter(self) -> Floats:
        """Return samples with mean 0 and standard deviation 1."""
        if not self._circumstances.skewed:
            return self._rng.normal(size=self._circumstances.samples)
        return (self._rng.gamma(1.0, 1.0, self._circumstances.samples) - 1.0).astype(np.float64)


Flags = NDArray[np.bool_]
#: Comparisons per condition and change, and the least number of builds.
COMPARISONS, BUILDS = 300, 25
#: Additional runs per side for comparisons in doubt.
CONFIRMED = 5
CHANGES = (0.05, 0.10, 0.20)
REFERENCE_RULES = {
    "Mann-Whitney 5 %": "mann-whitney-05",
    "Welch 5 %": "welch-05",
    "median by 5 %": "median-5",
}
JUDGES = (*REFERENCE_RULES, "the champion alone", "compare", f"compare --confirm {CONFIRMED}")


def regression_flags(
    projects: Projects, circumstances: Circumstances, served: Judge, slower: NDArray[np.float64]
) -> list[Flags]:
    """Return for each of `JUDGES` the flags of comparisons called a regression, project by project."""
    before, after = (
        projects.runs(circumstances.history + circumstances.runs),
        projects.runs(circumstances.runs, slower),
    )
    earlier, baseline = before[: circumstances.history], before[circumstances.history :]
    tables = paired_runs(baseline, after, earlier).tables
    rules = [RULES[name](Sides.from_tables(tables)) for name in REFERENCE_RULES.values()]
    first = judge_runs(tables, served, ASSUMED)
    repeated_runs = [*baseline, *projects.runs(CONFIRMED)], [*after, *projects.runs(CONFIRMED, slower)]
    doubted = np.isin(first.judgement.answers, ("fail", "unsure"))
    confirmed = first.replace_rows(
        judge_runs(paired_runs(*repeated_runs, earlier).tables, served, ASSUMED), doubted
    )
    weighed = (weighing.judgement.answers == "fail" for weighing in (first, confirmed))
    return [*rules, first.judged == "fail", *weighed]


def alarm_rates(
    circumstances: Circumstances, served: Judge, seed: int, change: float
) -> tuple[list[float], list[float]]:
    """Return the shares of comparisons and of builds that each of `JUDGES` calls a regression.

    With a change, a fifth of the operations changes, at least one, and only these are counted.
    """
    rng = np.random.default_rng([seed, int(1000 * change)])
    changed = np.zeros(circumstances.operations, bool)
    changed[: max(1, circumstances.operations // 5)] = True
    counted = changed if change else ~np.zeros_like(changed)
    builds = max(BUILDS, COMPARISONS // circumstances.operations) // (2 if change else 1)
    flags = regression_flags(
        Projects(rng, circumstances, builds), circumstances, served, np.where(changed, change, 0.0)
    )
    flagged = np.array(flags, float).reshape(len(flags), builds, circumstances.operations)[:, :, counted]
    return flagged.mean(axis=(1, 2)).tolist(), flagged.any(axis=2).mean(axis=1).tolist()


def all_circumstances() -> Iterator[Circumstances]:
    """Yield every number of operations, runs and earlier runs at 3 %, then variations of one condition."""
    for operations in (1, 5, 40):
        for runs, history in ((1, 0), (3, 0), (1, 10), (3, 10)):
            yield Circumstances(operations=operations, runs=runs, history=history)
    for operations in (5, 40):
        other = partial(replace, Circumstances(operations=operations))
        yield from (other(offsets="whole run"), other(offsets="operations"), other(samples=30))
        yield from (other(skewed=True), other(spread=0.01), other(spread=0.05))


def _condition_cells(circumstances: Circumstances) -> list[object]:
    noise = "skewed" if circumstances.skewed else "normal"
    numbers = (
        f"{circumstances.spread:.0%}",
        circumstances.operations,
        circumstances.runs,
        circumstances.history,
        circumstances.samples,
    )
    return [circumstances.offsets, *numbers, noise]


_CONDITION_COLUMNS: Mapping[str, str] = {
    "offsets of": "",
    "by": "",
    "operations": "d",
    "runs a side": "d",
    "earlier runs": "d",
    "samples": "d",
    "noise": "",
}


def describe_simulation(served: Judge, seed: int) -> tuple[str, ...]:
    made = f"Made-up runs, seed {seed}: samples of an operation scatter by {NOISE[0]:.1%} to {NOISE[1]:.0%}."
    rows = f"A row has {COMPARISONS} comparisons, {BUILDS} builds at least; half of them where one changed."
    model = f"The champion is {served.ref.name} {served.ref.version}."
    assumed = f"`compare` assumes that runs differ by {ASSUMED:.0%} where nothing tells, whatever they do."
    confirmation = f"`--confirm`: {CONFIRMED} further runs a side of what is unsure or fails."
    return made, rows, model, assumed, confirmation


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--dry", action="store_true", help="print the tables only")
    options = parser.parse_args()
    served, rows = load_judge(None), {change: list[list[object]]() for change in (0.0, *CHANGES)}
    builds = list[list[object]]()
    for place, circumstances in enumerate(track(list(all_circumstances()), "drift")):
        for change, of_change in rows.items():
            comparison_rates, whole = alarm_rates(circumstances, served, options.seed + place, change)
            of_change.append([*_condition_cells(circumstances), *comparison_rates])
            if not change:
                builds.append([*_condition_cells(circumstances), *whole])
    columns = {**_CONDITION_COLUMNS, **dict.fromkeys(JUDGES, ".1%")}
    tabled = partial(Table, columns=columns)
    table_notes = describe_simulation(served, options.seed)
    tables = [
        tabled(
            "Comparisons of a build with itself that are called regressions",
            rows=rows[0.0],
            notes=table_notes,
        ),
        tabled("Builds that fail beside themselves", rows=builds),
    ]
    tables += [
        tabled(f"Operations that got {slowdown:.0%} slower and are found", rows=rows[slowdown])
        for slowdown in CHANGES
    ]
    if options.dry:
        print("\n".join(table.markdown() for table in tables))
    else:
        publish("drift", tables)


if __name__ == "__main__":
    main()
