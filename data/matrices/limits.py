"""How large matrices are at most, and what their metrics cannot be called."""

from __future__ import annotations

#: More metrics than this are no measurement: the seed's systems have 165 to 278 (seed 001, table 1).
MOST_METRICS = 10_000
#: What says which run it is, and what was judged of it.
RUN_TEXTS = ("run_id", "workload", "group", "version", "machine", "side", "pair_id")
RUN_FLAGS = ("valid", "abnormal")
