"""Small tables of fingerprints, built by hand."""

from data.fingerprints.tables import FingerprintTables


def rate(machine, stressor, value, threads=1, repetition=1):
    return {
        "machine": machine, "stressor": stressor, "threads": threads, "repetition": repetition,
        "bogo_ops_per_second": value,
    }  # fmt: skip


def measured(machine, value, application="zlog", metric="seconds", better="lower", repetition=1):
    return {
        "machine": machine, "application": application, "metric": metric, "better": better,
        "repetition": repetition, "value": value,
    }  # fmt: skip


def host(machine, cpu="Xeon", stress_ng="0.15.06"):
    return {"machine": machine, "cpu": cpu, "cores": 4, "stress_ng": stress_ng, "source": "test"}


MACHINES = ("a", "b", "c", "d")
STRESSORS = ("cache", "cpu", "nop")


def small(machines=(), applications=(), hosts=(), without=()):
    """Four machines with three stressors and zlog; further rows; `without` the cells (machine, stressor)."""
    rates = [
        rate(machine, stressor, 10.0 * number + len(stressor))
        for number, machine in enumerate(MACHINES, 1)
        for stressor in STRESSORS
        if (machine, stressor) not in without
    ]
    values = [measured(machine, float(number)) for number, machine in enumerate(MACHINES, 1)]
    return FingerprintTables.from_rows(
        [*rates, *machines], [*values, *applications], [*map(host, MACHINES), *hosts]
    )
