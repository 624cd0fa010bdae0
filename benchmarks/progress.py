"""The impact by the progress curve: on simulated programs with phases, and on the shipped samples.

Run it with ``uv run python -m benchmarks.progress``; it writes ``docs/results/progress.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import typer
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.table import SEED, Table
from data.corun.synonyms import IntervalCounts
from data.corun.tables import CorunTables
from data.measure.perf_stat import TIME
from features.corun.featurize import training_instances
from features.corun.rates import Solo
from serving.corun.online_answer import predict_online
from serving.corun.schemas import OnlineAnswer
from training.corun.online import SampledRuns, pair_runs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """A task with phases: seconds alone, instruction rate, cache misses and slowdown of each."""

    seconds: Floats
    rate: Floats
    misses: Floats
    slower: Floats

    @property
    def impact(self) -> float:
        """Co-run time over solo time."""
        return float(self.seconds @ self.slower / self.seconds.sum())


#: Returns the slowdowns of phases in a co-run, given their cache misses (0 to 1).
Slowing = Callable[[Generator, Floats], Floats]


def uniform_slowdowns(rng: Generator, missing: Floats) -> Floats:
    """Return slowdowns of up to 40 %, independent of cache misses."""
    return 1 + rng.uniform(0, 0.4, len(missing))


def small_slowdowns(rng: Generator, missing: Floats) -> Floats:
    """Return slowdowns of up to 6 %, independent of cache misses."""
    return 1 + rng.uniform(0, 0.06, len(missing))


def demand_slowdowns(rng: Generator, missing: Floats) -> Floats:
    """Return slowdowns that are the co-runners' demand times a sensitivity drawn for each phase."""
    return 1 + rng.lognormal(-1.8, 0.8) * rng.beta(1.2, 1.2, len(missing))


def cache_miss_slowdowns(rng: Generator, missing: Floats) -> Floats:
    """Return slowdowns that are the co-runners' demand times the cache misses of the phase."""
    return 1 + rng.lognormal(-1.2, 0.7) * missing * np.exp(rng.normal(0, 0.3, len(missing)))


def heavy_slowdowns(rng: Generator, missing: Floats) -> Floats:
    """Return slowdowns that are mostly small and seldom large."""
    return 1 + rng.exponential(rng.choice([0.03, 0.1, 0.25]), len(missing))


SLOWING: dict[str, Slowing] = {
    slowdowns.__name__: slowdowns
    for slowdowns in (
        uniform_slowdowns,
        small_slowdowns,
        demand_slowdowns,
        cache_miss_slowdowns,
        heavy_slowdowns,
    )
}


def draw_task(rng: Generator, slowing: Slowing, *, recurring: bool, seconds: float = 60.0) -> Simulated:
    """Draw a task of 3 to 8 phases; each comes once, or repeatedly if `recurring`."""
    phases = int(rng.integers(3, 9))
    missing = rng.beta(0.8, 0.8, phases)
    rate = 3e9 * rng.uniform(0.25, 1.2, phases) * (1 - 0.6 * missing)
    slower = slowing(rng, missing)
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


@dataclass(frozen=True)
class Case:
    """The true impact and the answer by the progress curve."""

    truth: float
    online_answer: OnlineAnswer

    @property
    def so_far(self) -> float:
        return self.online_answer.opinions[0].so_far or np.nan


def simulated_cases(seconds: float, runs: int, *, recurring: bool, whole: bool) -> Iterator[Case]:
    """Yield cases of simulated programs of 60 s; only `seconds` of the co-run are seen."""
    for place, slowing in enumerate(SLOWING.values()):
        for number in range(runs):
            rng = np.random.default_rng([SEED, place, number, recurring])
            program = draw_task(rng, slowing, recurring=recurring)
            alone = sampled_run(rng, program, together=False, until=np.inf if whole else seconds)
            together = sampled_run(rng, program, together=True, until=seconds)
            of_both = map(IntervalCounts.from_table, (alone, together))
            yield Case(program.impact, predict_online(*of_both, None, None, whole=whole))


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
        of_both = map(IntervalCounts.from_table, (alone, first))
        yield Case(float(pair.impact), predict_online(*of_both, None, None, whole=whole))


def score_rows(about: tuple[object, ...], cases: list[Case]) -> Iterator[tuple[object, ...]]:
    """Yield a row for the answer by the progress curve, and one for the ratio so far."""
    truth = np.array([case.truth for case in cases])
    estimates = np.array(
        [[case.online_answer.impact, case.online_answer.low, case.online_answer.high] for case in cases],
        np.float64,
    )
    holds = float(((estimates[:, 1] <= truth) & (truth <= estimates[:, 2])).mean())
    width = float((estimates[:, 2] / estimates[:, 1] - 1).mean())
    yield (*about, "progress", *_error_scores(truth, estimates[:, 0]), holds, width)
    yield (
        *about,
        "the ratio so far",
        *_error_scores(truth, np.array([case.so_far for case in cases])),
        None,
        None,
    )


def _error_scores(truth: Floats, predicted: Floats) -> tuple[int, float, float, float]:
    error = np.abs(predicted / truth - 1)
    r2 = 1 - ((truth - predicted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    return len(truth), float((error <= TOLERANCE).mean()), float(error.mean()), float(r2)


def main(runs: int = 8) -> None:
    """Ask about simulated programs, `runs` of each kind, and about shipped co-runs."""
    table_rows: list[tuple[object, ...]] = []
    for recurring, whole, seconds in (
        (recurring, whole, seconds)
        for recurring in (True, False)
        for whole in (True, False)
        for seconds in (2.0, 10.0, 30.0)
    ):
        about = f"simulated, phases come {'again and again' if recurring else 'once'}"
        alone = "whole" if whole else "its beginning"
        cases = list(simulated_cases(seconds, runs, recurring=recurring, whole=whole))
        table_rows += score_rows((about, alone, seconds), cases)
    for seconds in (2.0, 10.0):
        table_rows += score_rows(("shipped", "whole", seconds), list(shipped_cases(seconds, whole=True)))
    title = "The impact by progress, without training"
    Table(title, COLUMNS, table_rows, _notes(runs)).publish("progress")


def _notes(runs: int) -> list[str]:
    programs = f"{runs} programs of 60 s for each of {len(SLOWING)} ways in which phases are slowed down"
    uncounted = "perf counts no event of the processor on that machine"
    return [
        f"Simulated: {programs}, 3 to 8 phases, counts with 2 % of noise.",
        "What is believed beforehand was chosen on other seeds, of programs like these and of others.",
        "The ratio so far: seconds together over seconds alone to the same instruction.",
        f"Shipped: every {EVERY}th of the co-runs in data/raw/corun, by task-clock alone: {uncounted}.",
        "Of the tasks every other one: what task-clock hides was found on those that are left out, from 2 s.",
        "Most of their impacts are hardly above 1. R2 below 0: their mean would have been nearer.",
    ]


if __name__ == "__main__":
    typer.run(main)
