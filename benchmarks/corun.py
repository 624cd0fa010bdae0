"""Speed of models of impact, on 28 simulated tasks with as many events as in the paper: 812 directed pairs.

The timings do not depend on the meaning of the numbers.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from benchmarks.impact import table_of
from benchmarks.table import Table, machine_line, shortest_time, time_call
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


def main() -> None:
    frame, generator = table_of(simulate_coruns(TASKS)).frame, np.random.default_rng(1)
    rows = pd.concat([frame, frame[frame["task"] == frame["corunners"]]], ignore_index=True)
    table, models, timings = ImpactTable(rows, ""), dict[str, FittedImpact](), []
    for name, model in CATALOGUE.items():
        recipe = ImpactRecipe(name, model.start, table.model_features(name), 0.03, 1, table.rate_features)
        models[name] = recipe.fit(rows)
        answer = 1000 * shortest_time(partial(models[name].predict, rows.head(1)), 20)
        timings.append((name, shortest_time(partial(recipe.fit, rows)), answer))
    contention = models["contention"]
    x = rows[list(contention.columns)].to_numpy(np.float64)[:1]
    single = shortest_time(partial(ImpactArrays.from_model(contention.model).tree_log_impacts, x), 50)
    solo = Solo.from_tables(simulate_coruns(TASKS))
    tasks, corunners = generator.choice(list(solo.seconds.index), (2, MILLION)).tolist()
    placed = Placed(tasks, [(name,) for name in corunners], ["m"] * MILLION)
    made, features = time_call(partial(corun_vectors, solo, placed))
    features = features.assign(task=tasks, corunners=corunners, machine="m")
    million = ", ".join(
        f"{name} {made + shortest_time(partial(models[name].predict, features)):.1f} s"
        for name in ("random-forest", "xgboost", "contention")
    )
    cost = pairwise_cost(np.random.default_rng(1).random((200, 200)))
    pairs = shortest_time(lambda: best_placement(200, Room(100, 2), cost), 3)
    fours = shortest_time(lambda: best_placement(200, Room(50, 4), cost))
    notes = [
        f"contention as arrays, one co-run: {single * 1000:.2f} ms.",
        f"A million co-runs, vectors ({made:.1f} s) and answers: {million}.",
        f"200 tasks on 100 machines of two slots: {pairs:.2f} s (exact); on 50 of four: {fours:.1f} s.",
        "The co-run paper's models trained in 2.1 to 4.6 s.",
        machine_line(),
    ]
    columns = {"model": "", f"fit to {len(rows)} instances, s": ".2f", "one co-run, ms": ".2f"}
    Table("Speed of models of impact", columns, timings, notes).publish("corun-speed")


if __name__ == "__main__":
    main()
