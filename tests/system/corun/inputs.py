"""Co-runs with a known answer: a task slows down with its own sensitivity and its co-runner's demand."""

from pathlib import Path

import numpy as np
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


def nature(tasks, seed=1):
    """Return demand and sensitivity of each task, between 0 and 1; the last wants most, and suffers most."""
    rng = np.random.default_rng(seed)
    demand, sensitivity = rng.permutation(np.linspace(0, 1, tasks)), rng.permutation(np.linspace(0, 1, tasks))
    demand[-1] = sensitivity[-1] = 1.0
    return demand, sensitivity


def true_impact(task, *corunners, tasks=8):
    demand, sensitivity = nature(tasks)
    number = names(tasks).index
    return 1 + sum(0.6 * sensitivity[number(task)] * demand[number(other)] for other in corunners)


def rates(task, tasks=8):
    """Return the events per second of a task alone."""
    demand, sensitivity = nature(tasks)
    place = names(tasks).index(task)
    wants, suffers = demand[place], sensitivity[place]
    return dict(
        zip(
            EVENTS,
            (2e9 - 1e9 * wants, 1e8 + 1e6 * place, 1e6 + 5e7 * wants, 4e8 + 3e8 * suffers,
             1e8 + 2e8 * suffers, 3e8 + 1e7 * place, 3e8 + 2e6 * place, 20 + 5 * place,
             100 + 900 * wants, 990.0 + place),
            strict=True,
        )
    )  # fmt: skip


def tables(tasks=8, seed=1, noise=0.004, machine=MACHINE):
    """Return the tables of all directed pairs; every fourth measured twice."""
    rng = np.random.default_rng(seed)
    everyone = names(tasks)
    solo_seconds = {name: 3 + 0.1 * place for place, name in enumerate(everyone)}

    def run(task, seconds, slower):
        sampled = np.arange(INTERVAL, seconds, INTERVAL)
        per_second = {
            event: rate / (slower if event != "task-clock" else 1)
            for event, rate in rates(task, tasks).items()
        }
        shake = np.exp(rng.normal(0, noise, (len(sampled), len(EVENTS))))
        counts = {event: rate * seconds for event, rate in per_second.items()}
        rows = [
            {"t_seconds": round(float(end), 3)}
            | {event: rate * INTERVAL * by for (event, rate), by in zip(per_second.items(), row, strict=True)}
            for end, row in zip(sampled, shake, strict=True)
        ]
        return counts, rows

    alone, together, samples = [], [], []
    for task in everyone:
        for repetition in (1, 2, 3):
            seconds = solo_seconds[task] * float(np.exp(rng.normal(0, noise)))
            counts, rows = run(task, seconds, 1.0)
            about = {"task": task, "machine": machine, "repetition": repetition}
            alone.append({**about, "solo_seconds": seconds, **counts})
            samples += [{**about, "corunners": "", "phase": "solo", **row} for row in rows]
    for number, (task, other) in enumerate((a, b) for a in everyone for b in everyone):
        for repetition in (1, 2) if number % 4 == 0 else (1,):
            impact = true_impact(task, other, tasks=tasks) * float(np.exp(rng.normal(0, noise)))
            counts, rows = run(task, solo_seconds[task] * impact, impact)
            about = {"task": task, "machine": machine, "repetition": repetition}
            together.append(
                {**about, "corunner_1": other, "corun_seconds": solo_seconds[task] * impact, **counts}
            )
            samples += [{**about, "corunners": other, "phase": "corun", **row} for row in rows]
    return CorunTables.from_rows(alone, together, samples, [{"machine": machine, "processors": 2.0}])


def perf_csv(task, impact=1.0, seconds=2.0, tasks=8, without=(), uncounted=(), skip=()):
    """Return what perf stat -I 200 -x, prints of a task that runs so much slower than alone."""
    lines = ["# started on Sat Nov 21 12:00:00 2026", ""]
    for end in np.arange(INTERVAL, seconds + 1e-9, INTERVAL):
        if round(float(end), 3) in skip:
            continue
        for event, rate in rates(task, tasks).items():
            if event in without:
                continue
            count = rate * INTERVAL / (impact if event != "task-clock" else 1)
            told = "<not counted>" if event in uncounted else f"{count:.0f}"
            lines.append(f"{end:13.9f},{told},,{event},200000000,100.00,,")
    return "\n".join(lines) + "\n"


def request(task="task-7", impact=1.4, seconds=2.0, **further):
    """Return the samples of `perf_csv` as the JSON of a request."""
    ends = [round(INTERVAL * number, 3) for number in range(1, round(seconds / INTERVAL) + 1)]

    def run(slower):
        by_event = {
            event: [rate * INTERVAL / (slower if event != "task-clock" else 1)] * len(ends)
            for event, rate in rates(task).items()
        }
        return {"t_seconds": ends, "events": by_event}

    return {"solo": run(1.0), "corun": run(impact)} | further


def project(root: Path, given, **section):
    """Write params.yaml and the tables under `root`."""
    given.write(root / "in")
    corun = {
        "ingest": {"path": "in"},
        "tune": {"n_trials": 1, "n_folds": 2, "models": ["linear", "random-forest", "random-forest-ranges"]},
        "evaluate": {"n_folds": 2, "designs": ["random", "pairs", "tasks"]},
        "online": {"seconds": [0.4, 2.0]},
    }
    content = {"seed": 1, "n_jobs": 1, "corun": corun | section}
    (root / "params.yaml").write_text(yaml.safe_dump(content))
    return root


def staged(last="train"):
    """Run the stages in the working directory, up to and with `last`."""
    from data.corun import validity as ingested
    from features.corun.featurize import featurize_stage
    from training.corun import stages as trained

    stages = {
        "ingest": ingested.ingest_stage,
        "validate": ingested.validate_stage,
        "featurize": featurize_stage,
        "tune": trained.tune_stage,
        "evaluate": trained.evaluate_stage,
        "train": trained.train_stage,
    }
    for name, stage in stages.items():
        stage()
        if name == last:
            return
