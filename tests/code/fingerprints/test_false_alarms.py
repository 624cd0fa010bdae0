import numpy as np
import pandas as pd

from data.fingerprints.params import Profiling
from features.fingerprints.matrix import FingerprintTable
from training.fingerprints.differences import APPLICATIONS, HALVINGS, count_false_positives

QUICK = Profiling(n_bootstrap=50)


def table(machines, applications):
    """Machines of three stressors, and applications that all follow the first one."""
    rng = np.random.default_rng(3)
    names = [f"m{number}" for number in range(machines)]
    rates = rng.lognormal(3, 0.4, (machines, 3))
    runs = pd.DataFrame(rates, columns=["cache", "cpu", "zero"]).assign(
        machine=names, repetition=1, cpu_model=names, cores=4
    )
    targets = pd.concat([
        pd.DataFrame({
            "application": name, "metric": "seconds", "better": "lower", "machine": names, "repetition": 1,
            "value": 100 / rates[:, 0] * rng.lognormal(0, 0.05, machines),
        })
        for name in applications
    ])  # fmt: skip
    return FingerprintTable(runs, targets)


def test_halves_of_the_same_machines_rarely_differ_significantly():
    names = [f"app-{number}" for number in range(12)]
    found = count_false_positives(table(24, names), names, QUICK, seed=1)
    assert (found.applications, found.pairs) == (12, 12 * HALVINGS)
    assert found.share == found.alarms / found.pairs <= 0.1


def test_only_a_sample_of_many_applications_is_halved():
    names = [f"app-{number:02}" for number in range(APPLICATIONS + 7)]
    assert count_false_positives(table(16, names), names, QUICK, seed=1).applications == APPLICATIONS


def test_too_few_machines_to_halve_give_no_count():
    assert count_false_positives(table(15, ["app"]), ["app"], QUICK, seed=1) is None
