"""The family ``comparisons`` in the data package: its stages ingest and validate."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from data.comparisons import formats, schema
from data.comparisons.params import Comparisons
from data.comparisons.reading import Reading
from data.comparisons.tables import ComparisonTables
from data.comparisons.validity import unusable
from data.params import load
from data.places import Places
from data.tables.files import replacing
from data.tables.problems import told

PLACES = Places("comparisons")
#: The columns of valid.parquet, which `validate` makes.
VALID_DTYPES = {"comparison_id": "str", "valid": "bool", "reason": "str", "status": "str"}


def ingest(section: Comparisons) -> Reading:
    """Read the comparisons that params.yaml names."""
    return formats.read(
        section.ingest.format,
        [section.ingest.path],
        label_rules=section.ingest.label_rules,
        measure=section.ingest.measure,
        keep_going=section.ingest.keep_going,
    )


def validate(tables: ComparisonTables) -> pd.DataFrame:
    """Say which comparisons can be learned from.

    Returns
    -------
    DataFrame
        One row per comparison: ``comparison_id, valid, reason``, and ``status``, the verdict of most of the
        people who labelled it (missing where nobody did or they are tied).

    Raises
    ------
    InputError
        If a table breaks its schema.
    """
    schema.check(tables)
    why = unusable(tables)
    valid = pd.DataFrame(
        {
            "comparison_id": tables.comparisons["comparison_id"],
            "valid": why == "",
            "reason": pd.Series(why, dtype="str"),
        }
    )
    return valid.join(majority(tables.labels), on="comparison_id")


def majority(labels: pd.DataFrame) -> pd.Series:
    """Return the status that most labels of a comparison have, by comparison_id; missing where tied."""
    fails = (
        (labels["status"] == "fail").astype("int64").groupby(labels["comparison_id"]).agg(["sum", "count"])
    )
    lead = 2 * fails["sum"] - fails["count"]
    status = np.select([lead > 0, lead < 0], ["fail", "pass"], "")
    return pd.Series(status, fails.index, name="status", dtype="str").where(lead != 0)


def ingest_stage() -> None:
    """Stage ingest: the source becomes the three tables."""
    reading = ingest(load(Comparisons).section)
    reading.tables.write(PLACES.interim)
    sys.stderr.write(told(reading.skipped))
    sys.stderr.writelines(f"note: {note}\n" for note in reading.notes)
    print(f"{len(reading.tables.comparisons)} comparisons, {len(reading.tables.labels)} labels")  # noqa: T201


def validate_stage() -> None:
    """Stage validate: which comparisons can be learned from."""
    valid = validate(ComparisonTables.read(PLACES.interim))
    with replacing(PLACES.valid / "valid.parquet") as path:
        valid.to_parquet(path, index=False)
    print(f"{valid['valid'].sum()} of {len(valid)} are valid, {valid['status'].notna().sum()} labelled")  # noqa: T201
