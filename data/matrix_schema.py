"""What must hold in tables of matrices, and what no run can be (seed 001, section 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from data.matrix_tables import METRIC_DTYPES, SIDES, MatrixTables
from data.schema import require
from data.summaries import ELAPSED
from data.tables import typed

if TYPE_CHECKING:
    import pandera.pandas as pa

#: Where nobody says whether a metric may be negative, it may if this share of its values is.
SIGNED_SHARE = 0.05
#: Percent that a share may be above 100 because clocks are read one after the other.
OVER = 5.0
RULE_DTYPES = {"run_id": "str", "metric": "str", "rule": "str", "value": "float64"}


def runs() -> pa.DataFrameSchema:
    """Return the schema of runs: named, of one side, each once."""
    import pandera.pandas as pa

    named = pa.Check.ne("", error="a name")
    sides = pa.Check.isin(SIDES, error='"baseline" or "target"')
    return pa.DataFrameSchema(
        {
            "run_id": pa.Column("str", named, unique=True),
            **{column: pa.Column("str", named) for column in ("workload", "group", "pair_id")},
            "side": pa.Column("str", sides),
            "valid": pa.Column("boolean", nullable=True),
            "abnormal": pa.Column("boolean", nullable=True),
        }
    )


def metrics() -> pa.DataFrameSchema:
    """Return the schema of the metrics: each once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema({"metric": pa.Column("str", unique=True), "unit": pa.Column("str")})


def check(tables: MatrixTables) -> None:
    """Check the tables.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    require(runs(), "runs", tables.runs)
    require(metrics(), "metrics", tables.metrics[list(METRIC_DTYPES)])


def possible(tables: MatrixTables) -> pa.DataFrameSchema:
    """Return the schema of what a run can be.

    Every metric is finite where it was measured; one that is not signed is 0 or more; a share is no more than
    all; the elapsed time is above 0.
    """
    import pandera.pandas as pa

    described = tables.metrics.set_index("metric")
    values = tables.runs[tables.all_metrics]
    often = (values < 0).mean() > SIGNED_SHARE
    signed = described["signed"].astype("boolean").fillna(often.reindex(described.index).astype("boolean"))
    finite = pa.Check(lambda column: column.abs() < np.inf, name="finite")
    columns = {}
    for name in tables.all_metrics:
        checks = [finite]
        if not signed[name]:
            checks.append(pa.Check(lambda column: column >= 0, name="0 or more"))
        if described.loc[name, "unit"] == "%":
            limit = 100 + OVER
            checks.append(pa.Check(lambda column, limit=limit: column <= limit, name="100 % at most"))
        if name == ELAPSED:
            checks.append(pa.Check(lambda column: column > 0, name="above 0"))
        columns[name] = pa.Column("float64", checks, nullable=name != ELAPSED)
    return pa.DataFrameSchema(columns)


def impossible(tables: MatrixTables) -> pd.DataFrame:
    """Return what breaks `possible`: ``run_id, metric, rule, value``, in the order of runs and metrics."""
    from pandera.errors import SchemaErrors

    values = tables.runs[tables.all_metrics].reset_index(drop=True)
    try:
        possible(tables).validate(values, lazy=True)
    except SchemaErrors as exc:
        cases = exc.failure_cases
        rows = cases["index"].to_numpy(np.int64)
        found = pd.DataFrame(
            {
                "run_id": tables.runs["run_id"].to_numpy()[rows],
                "metric": cases["column"].to_numpy(),
                "rule": cases["check"].replace({"not_nullable": "measured"}).to_numpy(),
                "value": values.to_numpy()[rows, values.columns.get_indexer(cases["column"])],
                "row": rows,
            }
        )
        return found.sort_values("row", kind="stable", ignore_index=True)[list(RULE_DTYPES)].astype(
            RULE_DTYPES
        )
    return typed(pd.DataFrame(), RULE_DTYPES)
