"""Simulated machines with a fingerprint, and applications that lean on given stressors."""

import numpy as np

from features.fingerprints.matrix import Measured

STRESSORS = ("cache", "cpu", "mmap", "msync", "nop", "stackmmap", "vm", "zero")


def machines(count, seed=0, cpus=None, stressors=STRESSORS, alike=0.5, copies=False):
    """Rates of machines that are more or less quick in everything; cpus of them are different models.

    With copies, the machines of a model are nearly the same.
    """
    generator = np.random.default_rng(seed)
    quick = generator.normal(0, 1, (count, 1))
    logs = np.sqrt(alike) * quick + np.sqrt(1 - alike) * generator.normal(0, 1, (count, len(stressors)))
    names = np.array([f"m{number:03}" for number in range(count)])
    models = np.array([f"cpu{number % (cpus or count)}" for number in range(count)])
    if copies:
        logs = logs[np.arange(count) % cpus] + 0.05 * logs
    return np.exp(5 + 0.3 * logs), names, models


def application(
    rates, leans_on, seed=0, noise=0.05, name="app", better="higher", stressors=STRESSORS, rows=None
):
    """An application whose performance is a product of powers of the rates, with noise."""
    x, names, models = rates
    generator = np.random.default_rng([seed, 1])
    powers = np.array([leans_on.get(stressor, 0.0) for stressor in stressors])
    misses = generator.normal(0, noise, len(x))
    # what the stressors don't explain is a property of the model
    misses = misses[np.unique(models, return_inverse=True)[1]]
    speed = np.log(x) @ powers + misses
    y = np.exp(speed if better == "higher" else -speed)
    measured = Measured(name, "unit", better, tuple(stressors), x, y, names, models)
    return measured if rows is None else measured.select_rows(rows)
