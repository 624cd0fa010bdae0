"""What was decided about tables: which rows can be learned from, and why the others cannot."""

from __future__ import annotations

import pandas as pd

from data.tables.problems import SHOWN


def left_out(table: pd.DataFrame, what: str, shown: int = SHOWN) -> list[str]:
    """Tell what decisions leave out: the first `shown` rows one by one, then how many more `what`."""
    out = table[~table["kept"]].drop(columns="kept")
    lines = []
    for row in out.head(shown).to_dict("records"):
        reason = row.pop("reason")
        place = ", ".join(f'{name} "{value}"' for name, value in row.items())
        lines.append(f"left out {place}: {reason}")
    if len(out) > shown:
        lines.append(f"... and {len(out) - shown} more {what}")
    return lines
