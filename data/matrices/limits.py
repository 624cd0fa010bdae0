"""How large matrices are at most."""

from __future__ import annotations

#: More metrics than this are no measurement: the seed's systems have 165 to 278 (seed 001, table 1).
MOST_METRICS = 10_000
