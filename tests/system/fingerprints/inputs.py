"""Fingerprints with a known answer: an application that follows ``cache``, on 40 machines."""

import numpy as np
import pandas as pd

STRESSORS = ("cache", "cpu", "msync", "stream", "vm", "zero")


def fingerprints(machines=40, per_cpu=1, seed=1):
    """Return a frame as people type it: machine, cpu, one column of rates per stressor, two applications."""
    rng = np.random.default_rng(seed)
    models = np.arange(machines) // per_cpu
    rates = np.exp(rng.normal(0, 0.5, (models.max() + 1, len(STRESSORS))))[models]
    rates *= np.exp(rng.normal(0, 0.02, rates.shape)) * 100
    table = pd.DataFrame(rates, columns=list(STRESSORS))
    noise = np.exp(rng.normal(0, 0.02, (machines, 2)))
    cached, copying = 5000 / table["cache"] * noise[:, 0], 5000 / table["stream"] * noise[:, 1]
    table.insert(0, "machine", [f"m{number}" for number in range(machines)])
    table.insert(1, "cpu_model", [f"model {model}" for model in models])
    return table.assign(cached=cached, copying=copying)


def written(path, table):
    table.to_csv(path, index=False)
    return path


def request(table, application, without=()):
    """Return the same as the JSON of a request; the machines `without` have no value."""
    machines = [
        {"machine": row["machine"], "cpu": row["cpu_model"], "rates": {name: row[name] for name in STRESSORS}}
        for row in table.to_dict("records")
    ]
    values = {
        name: value
        for name, value in zip(table["machine"], table[application], strict=True)
        if name not in without
    }
    return {"machines": machines, "application": {"name": application, "values": values}}
