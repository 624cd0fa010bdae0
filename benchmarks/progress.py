"""The impact by the progress curve: on simulated programs with phases, and on the shipped samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import typer
from numpy.random import Generator

from benchmarks.table import SEED, Table
from data.comparisons.sides import Floats
from data.corun.synonyms import IntervalCounts
from data.corun.tables import CorunTables
from data.measure.perf_stat import TIME
from features.corun.featurize import training_instances
from features.corun.rates import Solo
from serving.corun.online_answer import predict_online
from serving.corun.schemas import OnlineAnswer
from training.corun.online import SampledRuns, pair_runs


class Simulated(NamedTuple):
    """A task with phases: seconds alone, instruction rate, cache misses and slowdown of each."""

    seconds: Floats
    rate: Floats
    misses: Floats
    slower: Floats

    @property
    def impact(self) -> float:
        return float(self.seconds @ self.slower / self.seconds.sum())


#: Functions that return the slowdowns of phases in a co-run, given their cache misses (0 to 1).
SLOWING: dict[str, Callable[[Generator, Floats], Floats]] = {
    "up to 40 %": lambda rng, missing: 1 + rng.uniform(0, 0.4, len(missing)),
    "up to 6 %": lambda rng, missing: 1 + rng.uniform(0, 0.06, len(missing)),
    # the co-runners' demand times a sensitivity drawn for each phase, or times its cache misses
    "sensitivity": lambda rng, missing: 1 + rng.lognormal(-1.8, 0.8) * rng.beta(1.2, 1.2, len(missing)),
    "cache misses": lambda rng, missing: (
        1 + rng.lognormal(-1.2, 0.7) * missing * np.exp(rng.normal(0, 0.3, len(missing)))
    ),
    "seldom large": lambda rng, missing: 1 + rng.exponential(rng.choice([0.03, 0.1, 0.25]), len(missing)),
}


def draw_task(rng: Generator, slowing: str, *, recurring: bool, seconds: float = 60.0) -> Simulated:
    """Draw a task of 3 to 8 phases; each comes once, or repeatedly if `recurring`."""
    phases = int(rng.integers(3, 9))
    missing = rng.beta(0.8, 0.8, phases)
    rate = 3e9 * rng.uniform(0.25, 1.2, phases) * (1 - 0.6 * missing)
    slower = SLOWING[slowing](rng, missing)
    rounds = int(rng.integers(3, 12)) if recurring else 1
    order = np.concatenate([rng.permutation(phases) for _ in range(rounds)])
    lasts = rng.dirichlet(np.full(phases, 3.0))[order] * np.exp(rng.normal(0, 0.1, len(order)))
    return Simulated(lasts / lasts.sum() * seconds, rate[order], 1e-4 + 0.02 * missing[order], slower[order])


def sampled_run(rng: Generator, of: Simulated, *, together: bool, until: float) -> pd.DataFrame:
    """Sample a run every 0.2 s until `until` seconds, with 2 % of noise."""
    lasts = of.seconds * (of.slower if together else 1.0)
    ends = np.concatenate([[0.0], lasts.cumsum()])
    stop = min(until, ends[-1])
    times = np.append(np.arange(0.2, stop - 1e-6, 0.2), stop)
    work = of.seconds * of.rate
    table = {"t_seconds": times}
    for event, done in {"instructions": work, "cache-misses": work * of.misses}.items():
        within = np.diff(np.interp(times, ends, [0.0, *done.cumsum()]), prepend=0.0)
        table[event] = within * np.exp(rng.normal(0, 0.02, len(times)))
    return pd.DataFrame(table)


SHIPPED = Path("data/raw/corun")
#: Every fourth shipped co-run is used, of every other task; the other tasks are for development.
EVERY = 4
TOLERANCE = 0.05
COLUMNS = {
    "runs": "", "alone": "", "together, s": "g", "judge": "", "cases": "d", "within 5 %": ".1%",
    "mean error": ".2%", "R2": ".2f", "interval of 90 % holds": ".1%", "its width": ".1%",
}  # fmt: skip


#: The true impact and the answer by the progress curve.
Case = tuple[float, OnlineAnswer]


def answered(truth: float, *runs: pd.DataFrame, whole: bool) -> Case:
    return truth, predict_online(*map(IntervalCounts.from_table, runs), None, None, whole=whole)


def simulated_cases(seconds: float, runs: int, *, recurring: bool, whole: bool) -> Iterator[Case]:
    """Yield cases of simulated programs of 60 s; only `seconds` of the co-run are seen."""
    for place, slowing in enumerate(SLOWING):
        for number in range(runs):
            rng = np.random.default_rng([SEED, place, number, recurring])
            program = draw_task(rng, slowing, recurring=recurring)
            alone = sampled_run(rng, program, together=False, until=np.inf if whole else seconds)
            together = sampled_run(rng, program, together=True, until=seconds)
            yield answered(program.impact, alone, together, whole=whole)


def shipped_cases(seconds: float, *, whole: bool) -> Iterator[Case]:
    """Yield cases of shipped co-runs; perf counted no hardware events there."""
    tables = CorunTables.read(SHIPPED)
    sampled_runs = SampledRuns.from_samples(tables.samples, seconds)
    pairs = pair_runs(sampled_runs.runs, training_instances(tables, Solo.from_tables(tables))).iloc[::EVERY]
    tasks = sampled_runs.runs["task"].iloc[pairs["solo"]].to_numpy()
    pairs = pairs[np.isin(tasks, np.unique(tables.samples["task"])[1::2])]
    keys = list(sampled_runs.runs.columns)
    by_run = dict(tuple(tables.samples.groupby(keys, sort=False)))

    def counts(row: int) -> pd.DataFrame:
        samples = by_run[tuple(sampled_runs.runs.iloc[row])].sort_values(TIME)
        return samples[[TIME, "task-clock", "context-switches", "page-faults"]].reset_index(drop=True)

    for pair in pairs.itertuples():
        alone, together = counts(int(pair.solo)), counts(int(pair.corun))
        first = together[together[TIME] <= seconds + 1e-9]
        alone = alone if whole else alone[alone[TIME] <= seconds + 1e-9]
        yield answered(float(pair.impact), alone, first, whole=whole)


def score_rows(about: tuple[object, ...], cases: list[Case]) -> Iterator[tuple[object, ...]]:
    truth = np.array([truth for truth, _ in cases])
    answers = [(one.impact, one.low, one.high, one.opinions[0].so_far or np.nan) for _, one in cases]
    impact, low, high, so_far = np.array(answers, np.float64).T
    interval = float(((low <= truth) & (truth <= high)).mean()), float((high / low - 1).mean())
    for judge, predicted, cells in (
        ("progress", impact, interval),
        ("the ratio so far", so_far, (None, None)),
    ):
        error = np.abs(predicted / truth - 1)
        r2 = 1 - ((truth - predicted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
        scores = float((error <= TOLERANCE).mean()), float(error.mean()), float(r2)
        yield (*about, judge, len(truth), *scores, *cells)


def main(runs: int = 8) -> None:
    """Ask about simulated programs, `runs` of each kind, and about shipped co-runs."""
    rows: list[tuple[object, ...]] = []
    for recurring, whole, seconds in product((True, False), (True, False), (2.0, 10.0, 30.0)):
        about = f"simulated, phases come {'again and again' if recurring else 'once'}"
        alone = "whole" if whole else "its beginning"
        cases = list(simulated_cases(seconds, runs, recurring=recurring, whole=whole))
        rows += score_rows((about, alone, seconds), cases)
    for seconds in (2.0, 10.0):
        rows += score_rows(("shipped", "whole", seconds), list(shipped_cases(seconds, whole=True)))
    notes = f"""
    - Simulated: {runs} programs of 60 s for each of {len(SLOWING)} ways in which phases are slowed down, 3 to
      8 phases, counts with 2 % of noise.
    - What is believed beforehand was chosen on other seeds, of programs like these and of others.
    - The ratio so far: seconds together over seconds alone to the same instruction.
    - Shipped: every {EVERY}th of the co-runs in data/raw/corun, by task-clock alone: perf counts no event of
      the processor on that machine.
    - Of the tasks every other one: what task-clock hides was found on those that are left out, from 2 s.
    - Most of their impacts are hardly above 1. R2 below 0: their mean would have been nearer.
    """
    Table("The impact by progress, without training", COLUMNS, rows, notes).publish("progress")


if __name__ == "__main__":
    typer.run(main)
