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
from serving.comparisons.compare.weighing import weigh
from serving.comparisons.model import Judge, load
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
        self._rng, self._given = rng, circumstances
        self._shape = number, circumstances.operations
        self._level = rng.uniform(1, 100, self._shape)
        self._noise = np.exp(rng.uniform(*np.log(NOISE), self._shape))

    def runs(self, number: int, slower: Floats | float = 0.0) -> Sequence[pd.DataFrame]:
        """Return results of `number` runs of all projects; operations are slower by the shares `slower`."""
        builder = Builder()
        for order in range(number):
            each = self._level * np.exp(self._offsets()) * (1 + slower)
            for (machine, place), level in np.ndenumerate(each):
                names = (f"operation {place}", f"machine {machine}")
                series = Series(str(names), "b", "b", *names, "ms", "lower", 1)
                samples = level * (1 + self._noise[machine, place] * self._scatter())
                builder.results.samples(series, order, str(order), samples.tolist())
        return [run for _, run in builder.take().results.groupby("order")]

    def _offsets(self) -> Floats:
        given, (machines, _) = self._given, self._shape
        whole, own = {"whole run": (1.0, 0.0), "operations": (0.0, 1.0), "both": (0.5, 0.5)}[given.offsets]
        common = self._rng.normal(0, given.spread * np.sqrt(whole), (machines, 1))
        return common + self._rng.normal(0, given.spread * np.sqrt(own), self._shape)

    def _scatter(self) -> Floats:
        """Return samples with mean 0 and standard deviation 1."""
        if not self._given.skewed:
            return self._rng.normal(size=self._given.samples)
        return (self._rng.gamma(1.0, 1.0, self._given.samples) - 1.0).astype(np.float64)


Flags = NDArray[np.bool_]
#: Comparisons per condition and change, and the least number of builds.
COMPARISONS, BUILDS = 300, 25
#: Additional runs per side for comparisons in doubt.
CONFIRMED = 5
CHANGES = (0.05, 0.10, 0.20)
RULES_BESIDE = {"Mann-Whitney 5 %": "mann-whitney-05", "Welch 5 %": "welch-05", "median by 5 %": "median-5"}
JUDGES = (*RULES_BESIDE, "the champion alone", "compare", f"compare --confirm {CONFIRMED}")


def judged(
    projects: Projects, given: Circumstances, served: Judge, slower: NDArray[np.float64]
) -> list[Flags]:
    """Return for each of `JUDGES` the flags of comparisons called a regression, project by project."""
    before, after = projects.runs(given.history + given.runs), projects.runs(given.runs, slower)
    earlier, baseline = before[: given.history], before[given.history :]
    tables = paired_runs(baseline, after, earlier).tables
    rules = [RULES[name](Sides.of(tables)) for name in RULES_BESIDE.values()]
    first = weigh(tables, served, ASSUMED)
    further = [*baseline, *projects.runs(CONFIRMED)], [*after, *projects.runs(CONFIRMED, slower)]
    doubted = np.isin(first.judgement.answers, ("fail", "unsure"))
    again = first.beside(weigh(paired_runs(*further, earlier).tables, served, ASSUMED), doubted)
    weighed = (one.judgement.answers == "fail" for one in (first, again))
    return [*rules, first.judged == "fail", *weighed]


def alarms(given: Circumstances, served: Judge, seed: int, change: float) -> tuple[list[float], list[float]]:
    """Return the shares of comparisons and of builds that each of `JUDGES` calls a regression.

    With a change, a fifth of the operations changes, at least one, and only these are counted.
    """
    rng = np.random.default_rng([seed, int(1000 * change)])
    changed = np.zeros(given.operations, bool)
    changed[: max(1, given.operations // 5)] = True
    counted = changed if change else ~np.zeros_like(changed)
    builds = max(BUILDS, COMPARISONS // given.operations) // (2 if change else 1)
    flags = judged(Projects(rng, given, builds), given, served, np.where(changed, change, 0.0))
    told = np.array(flags, float).reshape(len(flags), builds, given.operations)[:, :, counted]
    return told.mean(axis=(1, 2)).tolist(), told.any(axis=2).mean(axis=1).tolist()


def cases() -> Iterator[Circumstances]:
    """Yield every number of operations, runs and earlier runs at 3 %, then variations of one condition."""
    for operations in (1, 5, 40):
        for runs, history in ((1, 0), (3, 0), (1, 10), (3, 10)):
            yield Circumstances(operations=operations, runs=runs, history=history)
    for operations in (5, 40):
        other = partial(replace, Circumstances(operations=operations))
        yield from (other(offsets="whole run"), other(offsets="operations"), other(samples=30))
        yield from (other(skewed=True), other(spread=0.01), other(spread=0.05))


def _told(given: Circumstances) -> list[object]:
    noise = "skewed" if given.skewed else "normal"
    numbers = f"{given.spread:.0%}", given.operations, given.runs, given.history, given.samples
    return [given.offsets, *numbers, noise]


_GIVEN: Mapping[str, str] = {
    "offsets of": "",
    "by": "",
    "operations": "d",
    "runs a side": "d",
    "earlier runs": "d",
    "samples": "d",
    "noise": "",
}


def notes(served: Judge, seed: int) -> tuple[str, ...]:
    made = f"Made-up runs, seed {seed}: samples of an operation scatter by {NOISE[0]:.1%} to {NOISE[1]:.0%}."
    rows = f"A row has {COMPARISONS} comparisons, {BUILDS} builds at least; half of them where one changed."
    model = f"The champion is {served.ref.name} {served.ref.version}."
    assumed = f"`compare` assumes that runs differ by {ASSUMED:.0%} where nothing tells, whatever they do."
    further = f"`--confirm`: {CONFIRMED} further runs a side of what is unsure or fails."
    return made, rows, model, assumed, further


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--dry", action="store_true", help="print the tables only")
    options = parser.parse_args()
    served, rows = load(None), {change: list[list[object]]() for change in (0.0, *CHANGES)}
    builds = list[list[object]]()
    for place, given in enumerate(track(list(cases()), "drift")):
        for change, of_change in rows.items():
            each, whole = alarms(given, served, options.seed + place, change)
            of_change.append([*_told(given), *each])
            if not change:
                builds.append([*_told(given), *whole])
    columns = {**_GIVEN, **dict.fromkeys(JUDGES, ".1%")}
    tabled = partial(Table, columns=columns)
    told = notes(served, options.seed)
    tables = [
        tabled("Comparisons of a build with itself that are called regressions", rows=rows[0.0], notes=told),
        tabled("Builds that fail beside themselves", rows=builds),
    ]
    tables += [
        tabled(f"Operations that got {one:.0%} slower and are found", rows=rows[one]) for one in CHANGES
    ]
    if options.dry:
        print("\n".join(table.markdown() for table in tables))
    else:
        publish("drift", tables)


if __name__ == "__main__":
    main()
