"""What must hold in the three tables, whatever they were read from."""

from __future__ import annotations

from data.comparisons.tables import STATS, ComparisonTables
from data.tables.checks import one_of, sound
from data.tables.problems import Problems


def check(tables: ComparisonTables) -> None:
    """Check all three tables: among others, that the baseline lies before the target.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    import pandera.pandas as pa

    results = {
        "better": one_of("lower", "higher"),
        "threads": pa.Column("int64", pa.Check.ge(1, error="1 or more")),
        "order": pa.Column("int64"),
        "value": pa.Column("float64"),
        "stat": one_of(*STATS, nullable=True),
    }
    ordered = pa.Check(
        lambda table: (
            (table["baseline_from"] <= table["baseline_to"])
            & (table["baseline_to"] < table["target_from"])
            & (table["target_from"] <= table["target_to"])
        ),
        name="baseline_from <= baseline_to < target_from <= target_to",
    )
    comparison = pa.Column("str")
    labels = {"comparison_id": comparison, "status": one_of("pass", "fail")}
    for schema in (
        pa.DataFrameSchema(results, name="results"),
        pa.DataFrameSchema({"comparison_id": comparison}, checks=ordered, name="comparisons"),
        pa.DataFrameSchema(labels, name="labels"),
    ):
        sound(getattr(tables, schema.name), ComparisonTables.SPECS[schema.name], schema, Problems())
