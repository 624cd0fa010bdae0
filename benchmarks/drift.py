"""False alarms between runs of one build, and the share of slower operations that `compare` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
import typer
from scipy.stats import norm

from benchmarks.table import Table
from data.comparisons.pair import paired_runs
from data.comparisons.sides import Floats
from data.comparisons.tables import Builder, Series
from data.parallel import Compute, side_by_side
from features.comparisons.between_run_variation import ASSUMED
from serving.comparisons.compare.weighing import judge_runs
from serving.comparisons.model import Judge, load_judge

Noise = Literal["normal", "skewed", "bimodal"]


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Conditions of a simulated measurement; spreads and drift are shares of the level."""

    spread: float = 0.01  # standard deviation between runs of one build, of each operation
    whole: float = 0.0  # standard deviation between runs that all operations share
    operations: int = 20
    runs: int = 1
    history: int = 0
    samples: int = 10
    noise: Noise = "normal"
    scatter: float = 0.01  # standard deviation of the samples of a run
    drift: float = 0.0  # per run, of each operation, upwards or downwards
    outlier: float = 0.0  # shift of one earlier run, different for each operation


class Project:
    """A simulated project whose benchmarks run repeatedly on one machine."""

    def __init__(self, rng: np.random.Generator, circumstances: Circumstances) -> None:
        self._rng, self._circumstances = rng, circumstances
        self._level = rng.uniform(1, 100, circumstances.operations)
        self._drift = circumstances.drift * rng.choice([-1.0, 1.0], circumstances.operations)
        self._outlying = int(rng.integers(circumstances.history)) if circumstances.history else -1
        self._number = 0

    def runs(self, number: int, slower: Floats | float = 0.0) -> Sequence[pd.DataFrame]:
        """Return results of the next `number` runs; operations are slower by the shares `slower`."""
        builder, how = Builder(), self._circumstances
        for order in range(number):
            for place, level in enumerate(self.next_levels() * (1 + slower)):
                name = f"operation {place}"
                series = Series(name, "b", "b", name, "machine", "ms", "lower", 1)
                values = level * (1 + how.scatter * self.scatter(how.samples))
                builder.results.add_values(series, order, str(order), values.tolist())
        return [run for _, run in builder.take_tables().results.groupby("order")]

    def next_levels(self) -> Floats:
        how = self._circumstances
        shifts = self._rng.normal(0, how.whole) if how.whole else 0.0
        shifts += self._rng.normal(0, how.spread, len(self._level)) + self._drift * self._number
        if self._number == self._outlying and how.outlier:
            shifts += how.outlier * np.abs(self._rng.normal(size=len(self._level)))
        self._number += 1
        return np.asarray(self._level * np.exp(shifts))

    def scatter(self, shape: int | tuple[int, int]) -> Floats:
        """Return samples with mean 0 and standard deviation 1."""
        match self._circumstances.noise:
            case "skewed":
                return np.asarray(self._rng.gamma(1.0, 1.0, shape) - 1.0, np.float64)
            case "bimodal":
                modes = self._rng.choice([-_MODE, _MODE], shape)
                return modes + self._rng.normal(0, np.sqrt(1 - _MODE**2), shape)
        return self._rng.normal(size=shape)


#: Limits of `compare` were chosen with other seeds.
SEED = 20261126
#: Distance of the two modes from the mean, in standard deviations.
_MODE = 0.95
#: Changes of which the smallest is simulated that the best test finds with this probability.
SLOWDOWNS, WANTED_POWER = (0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3), 0.8
#: Simulated builds per row, unchanged and changed: as many as these comparisons need, within these limits.
COMPARISONS, FEWEST, MOST = 8000, 100, 400
#: Processes that simulate rows.
JOBS = 2
COLUMNS = {
    "spread": ".1%", "whole run": ".0%", "operations": "d", "runs a side": "d", "earlier runs": "d",
    "noise": "", "drift": ".1%", "outlier": ".0%", "builds failing": ".1%", "unchanged: fail": ".2%",
    "unchanged: unsure": ".1%", "slower by": ".0%", "found": ".1%", "slower: unsure": ".1%",
    "best test finds": ".1%", "found / best": ".2f",
}  # fmt: skip


def level_of_best_test(operations: int) -> float:
    """Return the probability with which the best test calls an unchanged operation of a build slower.

    It is at most 0.5 %, and so small that at most 5 % of the unchanged builds have a slower operation.
    """
    return min(0.005, 1 - 0.95 ** (1 / operations))


def power_of_best_test(circumstances: Circumstances, slowdown: float) -> float:
    """Return the probability with which the best test finds a slow-down.

    The test knows the spread between runs, and the variance of the mean or median of samples, whichever is
    smaller. It compares the target's runs with all earlier ones; with drift, with the baseline's.
    """
    scatter = Project(np.random.default_rng(0), circumstances).scatter((20_000, circumstances.samples))
    of_samples = min(np.var(np.mean(scatter, axis=1)), np.var(np.median(scatter, axis=1)))
    variance = circumstances.spread**2 + float(of_samples) * circumstances.scatter**2
    before = circumstances.runs + (0 if circumstances.drift else circumstances.history)
    error = np.sqrt(variance * (1 / before + 1 / circumstances.runs))
    z = norm.isf(level_of_best_test(circumstances.operations))
    return float(norm.sf(z - np.log1p(slowdown) / error))


def compare_builds(circumstances: Circumstances, served: Judge, seed: int, slowdown: float) -> list[str]:
    """Return the verdicts on one build; of every 20 operations, the first is slower by `slowdown`."""
    project = Project(np.random.default_rng(seed), circumstances)
    slower = np.where(np.arange(circumstances.operations) % 20 == 0, slowdown, 0.0)
    earlier = project.runs(circumstances.history)
    baseline, target = project.runs(circumstances.runs), project.runs(circumstances.runs, slower)
    return [*judge_runs(paired_runs(baseline, target, earlier).tables, served, ASSUMED).judgement.answers]


def row_of(simulated: tuple[Circumstances, int]) -> list[object]:
    """Return a row: shares of unchanged builds and comparisons, and of slower operations, by verdict.

    `simulated` has the circumstances and the first seed. The slow-down is the smallest of `SLOWDOWNS` that
    the best test finds with `WANTED_POWER`; else the largest.
    """
    (circumstances, seed), served = simulated, load_judge(None)
    powers = {slowdown: power_of_best_test(circumstances, slowdown) for slowdown in SLOWDOWNS}
    slowdown = next((by for by, power in powers.items() if power >= WANTED_POWER), SLOWDOWNS[-1])
    changed = np.arange(circumstances.operations) % 20 == 0
    seeds = range(seed, seed + min(MOST, max(FEWEST, COMPARISONS // circumstances.operations)))
    same, slow = (
        np.array([compare_builds(circumstances, served, one, change) for one in seeds], dtype=str)
        for change in (0.0, slowdown)
    )
    found, c = float((slow[:, changed] == "fail").mean()), circumstances
    return [
        *(c.spread, c.whole, c.operations, c.runs, c.history, c.noise, c.drift, c.outlier),
        *((same == "fail").any(axis=1).mean(), (same == "fail").mean(), (same == "unsure").mean(), slowdown),
        *(found, (slow[:, changed] == "unsure").mean(), powers[slowdown], found / powers[slowdown]),
    ]


def all_circumstances() -> Iterator[Circumstances]:
    for spread in (0.005, 0.01, 0.02, 0.03):
        for runs, history in product((1, 3), (0, 3, 10)):
            yield Circumstances(spread=spread, runs=runs, history=history)
    usual = Circumstances()
    for runs, history in ((1, 0), (1, 10), (3, 10)):
        other = partial(replace, usual, runs=runs, history=history)
        yield from (other(noise="skewed"), other(noise="bimodal", scatter=0.02), other(whole=0.02))
        yield from (other(operations=5), other(operations=500))
        if history:
            yield from (other(drift=0.003), other(outlier=0.03), other(outlier=0.3))


def main(*, dry: bool = False) -> None:
    """Simulate all circumstances; `dry`: print the table only."""
    simulated = [(given, SEED + 10_000 * place) for place, given in enumerate(all_circumstances())]
    rows = side_by_side(row_of, simulated, Compute(JOBS), "drift")
    served = load_judge(None)
    notes = (
        f"Simulated runs, seed {SEED}; 10 samples per run and operation.",
        f"A row has {MOST} unchanged and as many changed builds; with 500 operations, {FEWEST}.",
        "One in 20 operations is slower, by the smallest change that the best test finds in 80 % of cases.",
        "The best test knows the spread; 5 % of the unchanged builds fail it, and 0.5 % of the operations.",
        f"The champion is {served.ref.name} {served.ref.version}.",
    )
    Table("False alarms and power", COLUMNS, rows, notes).publish("drift", dry=dry)


if __name__ == "__main__":
    typer.run(main)
