"""Rows of co-runs that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.corun.tables import CorunTables, corunner_columns
from data.tables.checks import Rule
from data.tables.problems import Problems


def without_flaws(tables: CorunTables, problems: Problems) -> CorunTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are rows without a name, durations that are missing, zero, negative or infinite, counts that are
    negative or infinite, rows that stand twice (the first stays), samples of an unknown phase, and names that
    cannot be told apart in the samples. A missing count is not wrong.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    specs = dict(CorunTables.SPECS)
    specs["pairs"] = replace(specs["pairs"], unique=("machine", "task", *tables.corunners, "repetition"))
    for name in ("tasks", "pairs", "samples"):
        spec, table = specs[name], getattr(tables, name)
        counts = table.columns.drop([*spec.dtypes, *corunner_columns(table)], errors="ignore")
        specs[name] = replace(spec, rules=(*spec.rules, *map(_count, counts)))
    found = {name: spec.sound(getattr(tables, name), name, problems) for name, spec in specs.items()}
    return CorunTables(**found)


def _count(event: str) -> Rule:
    return Rule(event, "0 or more and finite", lambda found: (found >= 0) & np.isfinite(found), gaps=True)
