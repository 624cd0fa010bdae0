"""Largest number of metrics, and names that a metric cannot have."""

from __future__ import annotations

#: Upper limit of the number of metrics; the systems of the matrix paper, table 1, have 165 to 278.
MOST_METRICS = 10_000
#: Columns that describe a run, and analysts' flags.
RUN_TEXTS = ("run_id", "workload", "group", "version", "machine", "side", "pair_id")
RUN_FLAGS = ("valid", "abnormal")
