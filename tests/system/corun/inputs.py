"""Co-runs with a known answer: a task slows down with its own sensitivity and its co-runner's demand."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from data.corun.tables import CorunTables

EVENTS = (
    "instructions", "bus-cycles", "LLC-loads", "L1-dcache-loads", "dTLB-loads", "branch-instructions",
    "branch-loads", "context-switches", "page-faults", "task-clock",
)  # fmt: skip
INTERVAL = 0.2
MACHINE = "test x2"


def names(tasks):
    return [f"task-{number}" for number in range(tasks)]


def nature(tasks):
    """Return demand and sensitivity of each task, between 0 and 1; the last wants most, and suffers most."""
    rng = np.random.default_rng(1)
    demand, sensitivity = rng.permutation(np.linspace(0, 1, tasks)), rng.permutation(np.linspace(0, 1, tasks))
    demand[-1] = sensitivity[-1] = 1.0
    return demand, sensitivity


def true_impact(task, *corunners, tasks=8):
    demand, sensitivity = nature(tasks)
    number = names(tasks).index
    return 1 + sum(0.6 * sensitivity[number(task)] * demand[number(other)] for other in corunners)


def rates(task, tasks=8):
    """Return the events per second of a task alone."""
    place = names(tasks).index(task)
    wants, suffers = (float(of_task[place]) for of_task in nature(tasks))
    return dict(zip(EVENTS, (
        2e9 - 1e9 * wants, 1e8 + 1e6 * place, 1e6 + 5e7 * wants, 4e8 + 3e8 * suffers, 1e8 + 2e8 * suffers,
        3e8 + 1e7 * place, 3e8 + 2e6 * place, 20 + 5 * place, 100 + 900 * wants, 990.0 + place,
    ), strict=True))  # fmt: skip


def slowed(task, impact, tasks=8):
    """Return the events per second of a task that runs so much slower than alone."""
    by = {"task-clock": 1.0}
    return {event: rate / by.get(event, impact) for event, rate in rates(task, tasks).items()}


def tables(tasks=8):
    """Return the tables of all directed pairs; every fourth measured twice."""
    rng, noise = np.random.default_rng(1), 0.004
    everyone = names(tasks)
    solo_seconds = {name: 3 + 0.1 * place for place, name in enumerate(everyone)}
    alone, together, samples = [], [], []

    def run(about, seconds, impact, **sampled):
        """Add the samples of a run and return its row."""
        per_second = slowed(about["task"], impact, tasks)
        ends = np.arange(INTERVAL, seconds, INTERVAL)
        shake = np.exp(rng.normal(0, noise, (len(ends), len(EVENTS))))
        counts = pd.DataFrame(shake * INTERVAL * list(per_second.values()), columns=list(per_second))
        counts.insert(0, "t_seconds", ends.round(3))
        samples.extend(about | sampled | row for row in counts.to_dict("records"))
        return about | {event: rate * seconds for event, rate in per_second.items()}

    for task in everyone:
        for repetition in (1, 2, 3):
            about = {"task": task, "machine": MACHINE, "repetition": repetition}
            seconds = solo_seconds[task] * float(np.exp(rng.normal(0, noise)))
            row = run(about, seconds, 1.0, corunners="", phase="solo")
            alone.append(row | {"solo_seconds": seconds})
    for number, (task, other) in enumerate((a, b) for a in everyone for b in everyone):
        for repetition in (1, 2) if number % 4 == 0 else (1,):
            about = {"task": task, "machine": MACHINE, "repetition": repetition}
            impact = true_impact(task, other, tasks=tasks) * float(np.exp(rng.normal(0, noise)))
            seconds = solo_seconds[task] * impact
            row = run(about, seconds, impact, corunners=other, phase="corun")
            together.append(row | {"corunner_1": other, "corun_seconds": seconds})
    return CorunTables.from_rows(alone, together, samples, [{"machine": MACHINE, "processors": 2.0}])


def perf_csv(task, impact=1.0, seconds=2.0, uncounted=(), skip=()):
    """Return what perf stat -I 200 -x, prints of a task that runs so much slower than alone."""
    lines = ["# started on Sat Nov 21 12:00:00 2026", ""]
    for end in np.arange(INTERVAL, seconds + 1e-9, INTERVAL):
        for event, rate in slowed(task, impact).items():
            if round(float(end), 3) not in skip:
                told = "<not counted>" if event in uncounted else f"{rate * INTERVAL:.0f}"
                lines.append(f"{end:13.9f},{told},,{event},200000000,100.00,,")
    return "\n".join(lines) + "\n"


def request(task="task-7", impact=1.4, seconds=2.0):
    """Return the samples of `perf_csv` as the JSON of a request."""
    ends = [round(INTERVAL * number, 3) for number in range(1, round(seconds / INTERVAL) + 1)]
    solo, corun = (
        {event: [rate * INTERVAL] * len(ends) for event, rate in slowed(task, slower).items()}
        for slower in (1.0, impact)
    )
    return {"solo": {"t_seconds": ends, "events": solo}, "corun": {"t_seconds": ends, "events": corun}}


def project(root: Path, given):
    """Write params.yaml and the tables under `root`."""
    given.write(root / "in")
    corun = {
        "ingest": {"path": "in"},
        "tune": {"n_trials": 1, "n_folds": 2, "models": ["linear", "random-forest", "random-forest-ranges"]},
        "evaluate": {"n_folds": 2, "designs": ["random", "pairs", "tasks"]},
        "online": {"seconds": [0.4, 2.0]},
    }
    (root / "params.yaml").write_text(yaml.safe_dump({"seed": 1, "n_jobs": 1, "corun": corun}))


def staged():
    """Run the stages up to train in the working directory."""
    from data.corun.validity import ingest_stage, validate_stage
    from features.corun.featurize import featurize_stage
    from training.corun.stages import evaluate_stage, train_stage, tune_stage

    for stage in (ingest_stage, validate_stage, featurize_stage, tune_stage, evaluate_stage, train_stage):
        stage()
