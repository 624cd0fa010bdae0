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
from benchmarks.table import Table, machine_line, time_call
from benchmarks.table import shortest_time as best_of
from data.corun.tables import CorunTables
from features.corun.rates import Placed, Solo, corun_vectors
from training.corun.estimators.arrays import ImpactArrays
from training.corun.estimators.fitting import FittedImpact, ImpactRecipe, ImpactTable
from training.corun.estimators.models import CATALOGUE
from training.corun.placement import Room, best_placement, pairwise_cost
from training.corun.stages import ESSENTIAL

EVENTS = (*ESSENTIAL, *(f"event-{number}" for number in range(22)))
TASKS, MILLION = 28, 1_000_000


def simulate_coruns(tasks: int) -> CorunTables:
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
    corun_rows = [
        {"task": names[i], "corunner_1": names[j], "machine": "m", "repetition": repetition}
        | {"corun_seconds": seconds[i] * (1 + 0.8 * pressure[i] * pressure[j])}
        for first, other in combinations_with_replacement(range(tasks), 2)
        for i, j, repetition in ((first, other, 1), (other, first, 1 + (first == other)))
    ]
    return CorunTables.from_rows(alone, corun_rows)


def time_fits(table: ImpactTable, rows: pd.DataFrame) -> Iterator[tuple[str, FittedImpact, float, float]]:
    """Yield name and fit of every catalogue model, seconds of the fit, and milliseconds of one prediction."""
    for name, model in CATALOGUE.items():
        recipe = ImpactRecipe(name, model.start, table.model_features(name), 0.03, 1, table.rate_features)
        learned = recipe.fit(rows)
        answer = 1000 * best_of(partial(learned.predict, rows.head(1)), 20)
        yield name, learned, best_of(partial(recipe.fit, rows)), answer


def main() -> None:
    frame = table_of(simulate_coruns(TASKS)).frame
    rows = pd.concat([frame, frame[frame["task"] == frame["corunners"]]], ignore_index=True)
    timed_fits = list(time_fits(ImpactTable(rows, ""), rows))
    models = {name: learned for name, learned, *_ in timed_fits}
    contention = models["contention"]
    x = rows[list(contention.columns)].to_numpy(np.float64)[:1]
    single = best_of(partial(ImpactArrays.from_model(contention.model).tree_log_impacts, x), 50)
    Table(
        "Speed of models of impact",
        {"model": "", f"fit to {len(rows)} instances, s": ".2f", "one co-run, ms": ".2f"},
        [(name, *times) for name, _, *times in timed_fits],
        [
            f"contention as arrays, one co-run: {single * 1000:.2f} ms.",
            _million_note(models),
            _placement_note(),
            "The co-run paper's models trained in 2.1 to 4.6 s.",
            machine_line(),
        ],
    ).publish("corun-speed")


def _million_note(models: dict[str, FittedImpact]) -> str:
    solo = Solo.from_tables(simulate_coruns(TASKS))
    generator = np.random.default_rng(1)
    tasks, corunners = generator.choice(list(solo.seconds.index), (2, MILLION)).tolist()
    made, features = time_call(
        lambda: corun_vectors(solo, Placed(tasks, [(name,) for name in corunners], ["m"] * MILLION))
    )
    features = features.assign(task=tasks, corunners=corunners, machine="m")
    timings = [
        f"{name} {made + best_of(partial(models[name].predict, features)):.1f} s"
        for name in ("random-forest", "xgboost", "contention")
    ]
    return f"A million co-runs, vectors ({made:.1f} s) and answers: {', '.join(timings)}."


def _placement_note() -> str:
    cost = pairwise_cost(np.random.default_rng(1).random((200, 200)))
    pairs = best_of(lambda: best_placement(200, Room(100, 2), cost), 3)
    fours = best_of(lambda: best_placement(200, Room(50, 4), cost))
    return f"200 tasks on 100 machines of two slots: {pairs:.2f} s (exact); on 50 of four: {fours:.1f} s."


if __name__ == "__main__":
    main()
