"""Speed of models of impact: ``uv run python -m benchmarks.corun`` writes docs/results/corun-speed.md.

28 simulated tasks with as many events as in the paper, 406 pairs, 812 directed; the timings do not depend on
the meaning of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from benchmarks.impact import table_of
from benchmarks.table import Table, clocked, machine
from benchmarks.table import best as best_of
from data.corun.tables import CorunTables
from features.corun.rates import Placed, Solo, vectors
from training.corun.estimators.arrays import ImpactArrays
from training.corun.estimators.fitting import ImpactRecipe, ImpactTable, Learned
from training.corun.estimators.models import CATALOGUE
from training.corun.placement import Room, best, pairwise
from training.corun.stages import ESSENTIAL

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


def fits(table: ImpactTable, rows: pd.DataFrame) -> Iterator[tuple[str, Learned, float, float]]:
    """Yield name and fit of every catalogue model, seconds of the fit, and milliseconds of one prediction."""
    for name, model in CATALOGUE.items():
        recipe = ImpactRecipe(name, model.start, table.columns(name), 0.03, 1, table.rates)
        learned = recipe.fit(rows)
        answer = 1000 * best_of(partial(learned.predict, rows.head(1)), 20)
        yield name, learned, best_of(partial(recipe.fit, rows)), answer


def main() -> None:
    frame = table_of(simulated(TASKS)).frame
    rows = pd.concat([frame, frame[frame["task"] == frame["corunners"]]], ignore_index=True)
    found = list(fits(ImpactTable(rows, ""), rows))
    models = {name: learned for name, learned, *_ in found}
    contention = models["contention"]
    x = rows[list(contention.columns)].to_numpy(np.float64)[:1]
    single = best_of(partial(ImpactArrays.of(contention.model).logs, x), 50)
    Table(
        "Speed of models of impact",
        {"model": "", f"fit to {len(rows)} instances, s": ".2f", "one co-run, ms": ".2f"},
        [(name, *times) for name, _, *times in found],
        [
            f"contention as arrays, one co-run: {single * 1000:.2f} ms.",
            _million(models),
            _placing(),
            "The co-run paper's models trained in 2.1 to 4.6 s.",
            machine(),
        ],
    ).publish("corun-speed")


def _million(models: dict[str, Learned]) -> str:
    solo = Solo.of(simulated(TASKS))
    generator = np.random.default_rng(1)
    tasks, beside = generator.choice(list(solo.seconds.index), (2, MILLION)).tolist()
    made, asked = clocked(lambda: vectors(solo, Placed(tasks, [(name,) for name in beside], ["m"] * MILLION)))
    asked = asked.assign(task=tasks, corunners=beside, machine="m")
    told = [
        f"{name} {made + best_of(partial(models[name].predict, asked)):.1f} s"
        for name in ("random-forest", "xgboost", "contention")
    ]
    return f"A million co-runs, vectors ({made:.1f} s) and answers: {', '.join(told)}."


def _placing() -> str:
    cost = pairwise(np.random.default_rng(1).random((200, 200)))
    pairs = best_of(lambda: best(200, Room(100, 2), cost), 3)
    fours = best_of(lambda: best(200, Room(50, 4), cost))
    return f"200 tasks on 100 machines of two slots: {pairs:.2f} s (exact); on 50 of four: {fours:.1f} s."


if __name__ == "__main__":
    main()
