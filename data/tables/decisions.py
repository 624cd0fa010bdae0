"""What was decided about tables: which rows can be learned from, and why the others cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from data.tables.problems import SHOWN
from data.tables.specs import Spec, Tables

WARNINGS = Spec({"warning": "str"})


@dataclass(frozen=True)
class Decisions(Tables):
    """Tables that say what is ``kept``, and the ``reason`` where it is not.

    Attributes
    ----------
    warnings : DataFrame
        ``warning``: what a reader of the results should know.
    WHAT : mapping of str to str
        What the rows of those tables are, in the order in which they are told.
    UNTOLD : tuple of str
        Their columns that don't say which row is meant.
    """

    COMPRESSION: ClassVar[str] = "snappy"
    WHAT: ClassVar[Mapping[str, str]] = {}
    UNTOLD: ClassVar[tuple[str, ...]] = ("kept",)

    warnings: pd.DataFrame

    def explained(self, shown: int = SHOWN) -> list[str]:
        """Tell the warnings, what was left out and why, a line each; of each kind, at most `shown`."""
        lines = [f"warning: {warning}" for warning in self.warnings["warning"]]
        for name, what in self.WHAT.items():
            lines += self._left_out(getattr(self, name), what, shown)
        return lines

    def _left_out(self, table: pd.DataFrame, what: str, shown: int) -> list[str]:
        """Tell what is left out: the first `shown` rows one by one, then how many more `what`."""
        out = table[~table["kept"]].drop(columns=list(self.UNTOLD), errors="ignore")
        lines = []
        for row in out.head(shown).to_dict("records"):
            reason = row.pop("reason")
            place = ", ".join(f'{name} "{value}"' for name, value in row.items())
            lines.append(f"left out {place}: {reason}")
        if len(out) > shown:
            lines.append(f"... and {len(out) - shown} more {what}")
        return lines

    def counted(self) -> str:
        """Say how much can be learned from."""
        tables = {what: getattr(self, name)["kept"] for name, what in self.WHAT.items()}
        parts = [f"{kept.sum()} of {len(kept)} {what}" for what, kept in tables.items()]
        return f"{', '.join(parts)} are kept"


def decided(reasons: pd.Series, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Return the decisions by the index of `reasons`, which are empty for what is kept."""
    names = [name for name in dtypes if name not in {"kept", "reason"}]
    table = reasons.rename("reason").rename_axis(names).reset_index()
    return table.assign(kept=table["reason"] == "")[list(dtypes)].astype(dict(dtypes))


def warned(warnings: list[str]) -> pd.DataFrame:
    """Return the table of what a reader of the results should know."""
    return pd.DataFrame({"warning": warnings}, dtype="str")
