"""Speed of models of impact: ``uv run python -m benchmarks.corun`` writes docs/results/corun-speed.md.

28 simulated tasks with the events of the seed, 406 pairs, 812 directed; what is timed does not depend on what
the numbers mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.table import Table, machine
from data.corun.tables import CorunTables
from features.corun.rates import Placed, Solo, instances, placed_of, vectors
from training.corun.estimators.arrays import ImpactArrays
from training.corun.estimators.explaining import ESSENTIAL
from training.corun.estimators.fitting import ImpactTable, Learned, Recipe
from training.corun.estimators.models import CATALOGUE
from training.corun.placement import Room, best, pairwise

EVENTS = (*ESSENTIAL, *(f"event-{number}" for number in range(22)))
TASKS, MILLION = 28, 1_000_000


def simulated(tasks: int) -> CorunTables:
    """Return tables of `tasks` tasks on one machine, all pairs in both directions."""
    generator = np.random.default_rng(1)
    pressure, seconds = generator.random(tasks), generator.uniform(3, 5, tasks)
    counts = generator.lognormal(18, 1, (tasks, len(EVENTS))) * (0.2 + pressure[:, None])
    names = [f"t{number:03d}" for number in range(tasks)]
    alone = [
        {"task": name, "family": name, "machine": "m", "solo_seconds": second, "repetition": 1}
        | dict(zip(EVENTS, count, strict=True))
        for name, second, count in zip(names, seconds, counts, strict=True)
    ]
    beside = [
        {"task": names[i], "corunner_1": names[j], "machine": "m", "repetition": repetition}
        | {"corun_seconds": seconds[i] * (1 + 0.8 * pressure[i] * pressure[j])}
        for one, other in combinations_with_replacement(range(tasks), 2)
        for i, j, repetition in ((one, other, 1), (other, one, 1 + (one == other)))
    ]
    return CorunTables.of_rows(alone, beside)


def timed(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the best of `repeats` times in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def fits(table: ImpactTable, rows: pd.DataFrame) -> tuple[list[tuple[str, ...]], dict[str, Learned]]:
    """Time the fit of every model of the catalogue, and its answer to one co-run."""
    found, models = [], {}
    for name, model in CATALOGUE.items():
        recipe = Recipe(name, model.start, table.columns(name), 0.03, 1, table.rates)
        models[name] = recipe.fit(rows)
        seconds = timed(partial(recipe.fit, rows))
        answer = timed(partial(models[name].predict, rows.head(1)), 20)
        found.append((name, f"{seconds:.2f}", f"{answer * 1000:.2f}"))
    return found, models


def main() -> None:
    """Measure and write the table."""
    tables = simulated(TASKS)
    solo = Solo.of(tables)
    learned = instances(tables, solo)
    frame = pd.concat([learned, vectors(solo, placed_of(learned))], axis="columns")
    rows = pd.concat([frame, frame[frame["task"] == frame["corunners"]]], ignore_index=True)
    found, models = fits(ImpactTable(rows, ""), rows)
    Table(
        "Speed of models of impact",
        "uv run python -m benchmarks.corun",
        ("model", f"fit to {len(rows)} instances, s", "one co-run, ms"),
        found,
        [
            _single(models["contention"], rows),
            _million(models),
            _placing(),
            "The seed's models trained in 2.1 to 4.6 s.",
            machine(),
        ],
    ).publish("corun-speed")


def _single(contention: Learned, rows: pd.DataFrame) -> str:
    arrays = ImpactArrays.of(contention.model)
    x = rows[list(contention.columns)].to_numpy(np.float64)[:1]
    return f"contention as arrays, one co-run: {timed(partial(arrays.logs, x), 50) * 1000:.2f} ms."


def _million(models: dict[str, Learned]) -> str:
    solo = Solo.of(simulated(TASKS))
    generator = np.random.default_rng(1)
    tasks, beside = generator.choice(list(solo.seconds.index), (2, MILLION)).tolist()
    start = time.perf_counter()
    asked = vectors(solo, Placed(tasks, [(name,) for name in beside], ["m"] * MILLION))
    asked = asked.assign(task=tasks, corunners=beside, machine="m")
    made = time.perf_counter() - start
    told = [
        f"{name} {made + timed(partial(models[name].predict, asked)):.1f} s"
        for name in ("random-forest", "xgboost", "contention")
    ]
    return f"A million co-runs, vectors ({made:.1f} s) and answers: {', '.join(told)}."


def _placing() -> str:
    cost = pairwise(np.random.default_rng(1).random((200, 200)))
    pairs = timed(lambda: best(200, Room(100, 2), cost), 3)
    fours = timed(lambda: best(200, Room(50, 4), cost))
    return f"200 tasks on 100 machines of two slots: {pairs:.2f} s (exact); on 50 of four: {fours:.1f} s."


if __name__ == "__main__":
    main()
