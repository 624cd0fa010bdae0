"""Formats of benchmark tools, each with its reader."""

from __future__ import annotations

from data.comparisons.formats.tools import (
    benchmark_json,
    criterion,
    csv_tables,
    phoronix,
    printed,
    run_json,
    tracking_json,
)
from data.comparisons.formats.tools.recognition import ToolFormat

#: In the order of recognition: formats with more specific signs come first.
_MODULES = (run_json, benchmark_json, phoronix, tracking_json, criterion, printed, csv_tables)
TOOLS: dict[str, ToolFormat] = {
    part.name: part for module in _MODULES for part in vars(module).values() if isinstance(part, ToolFormat)
}
