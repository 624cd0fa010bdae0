"""Stage featurize of the model family ``corun``: training rows and their vectors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from data.corun.tables import AND, CorunTables
from data.corun.validity import CorunDecisions
from data.errors import InputError
from data.paths import FamilyPaths
from data.tables.files import write_tables
from features.corun.rates import KEYS, Placed, Solo, corun_vectors

PATHS = FamilyPaths("corun")


def training_instances(tables: CorunTables, solo: Solo) -> pd.DataFrame:
    """Return the training rows: one per task, co-runners and machine, sorted by machine, task and co-runners.

    The columns are ``task, corunners, machine, device, families, solo_seconds, repetitions, impact``.
    ``impact`` is the median over co-runs, whose number is ``repetitions``, of the task's time / its median
    solo time ``solo_seconds`` (both NaN without a solo run on that machine). ``corunners`` are joined by "+",
    as are ``families``, those of task and co-runners in alphabetical order: equal for both directions of a
    pair. KeyError for a task or co-runner without a solo run on any machine.
    """
    placed = Placed.from_pairs(tables.pairs)
    alone = np.exp(solo.log_seconds(placed.machines, placed.tasks))
    impact = tables.pairs["corun_seconds"].to_numpy(np.float64) / alone
    rows = placed.as_columns.assign(solo_seconds=alone, impact=impact)
    repeated = rows.groupby(["machine", "task", "corunners"], sort=True)
    table = repeated["impact"].agg(repetitions="size", impact="median")
    table = table.assign(solo_seconds=repeated["solo_seconds"].first()).reset_index()
    family = solo.families.to_dict()
    joined = table["task"] + AND + table["corunners"]
    return table.assign(
        device=solo.hosts["device"].reindex(table["machine"]).to_numpy(),
        families=[AND.join(sorted(family[name] for name in names.split(AND))) for names in joined],
    )[list(KEYS)].astype(KEYS)


def placed_from_instances(table: pd.DataFrame) -> Placed:
    """Return ``tasks``, ``corunners`` (tuples of names) and ``machines`` of rows of `training_instances`."""
    corunners = [tuple(names.split(AND)) for names in table["corunners"]]
    return Placed(table["task"].tolist(), corunners, table["machine"].tolist())


def featurize_stage() -> None:
    """Run stage featurize: write the training rows with their vectors as features.parquet.

    The file is in ``data/processed/corun``. Prints the numbers of rows and features. InputError if no co-run
    has a solo time, or if a table of an earlier stage is missing or invalid.
    """
    tables = CorunDecisions.read(PATHS.valid).select_kept(CorunTables.read(PATHS.interim))
    solo = Solo.from_tables(tables)
    table = training_instances(tables, solo)
    if table["impact"].isna().all():
        raise InputError("no co-run has a solo time", file=PATHS.interim / "pairs.parquet")
    written = pd.concat([table, corun_vectors(solo, placed_from_instances(table))], axis="columns")
    write_tables(PATHS.processed, {"features": written})
    print(f"{len(table)} instances, {written.shape[1] - len(KEYS)} features")  # noqa: T201
