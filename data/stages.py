"""The stages of this room, the same for every family: what it supplies is read, told and written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from data.errors import one_line
from data.params import FamilySection, Ingest, load
from data.paths import Places
from data.tables.formats import Reading, Sources
from data.tables.problems import SHOWN, told
from data.tables.specs import Spec, Tables, typed

WARNINGS = Spec({"warning": "str"})
KEPT = {"kept": "bool", "reason": "str"}


@dataclass(frozen=True)
class Decisions(Tables):
    """Tables of decisions: what is ``kept``, and the ``reason`` where it is not.

    ``warnings`` are for the reader of the results. `WHAT` names the rows of each table, in the order in
    which they are described; `UNTOLD` are columns that don't identify a row.
    """

    COMPRESSION: ClassVar[str] = "snappy"
    WHAT: ClassVar[Mapping[str, str]] = {}
    UNTOLD: ClassVar[tuple[str, ...]] = ("kept",)

    warnings: pd.DataFrame

    @classmethod
    def told(cls, warnings: Iterable[str], **tables: pd.DataFrame) -> Self:
        """Make the decisions of tables with a ``reason`` by row, empty for what is kept, or without."""
        frames = {"warnings": pd.DataFrame({"warning": list(warnings)})}
        for name, table in tables.items():
            kept = {"kept": table["reason"] == ""} if "reason" in table else {}
            frames[name] = table.assign(**kept)[list(cls.SPECS[name].dtypes)]
        return cls(**{name: typed(frame, cls.SPECS[name].dtypes) for name, frame in frames.items()})

    def explained(self, shown: int = SHOWN) -> list[str]:
        """Tell the warnings, what was left out and why, a line each; of each kind, at most `shown`."""
        lines = [f"warning: {warning}" for warning in self.warnings["warning"]]
        for name, what in self.WHAT.items():
            table = getattr(self, name)
            out = table[~table["kept"]].drop(columns=list(self.UNTOLD), errors="ignore")
            for row in out.head(shown).to_dict("records"):
                reason = row.pop("reason")
                place = ", ".join(f'{column} "{value}"' for column, value in row.items())
                lines.append(f"left out {place}: {reason}")
            if len(out) > shown:
                lines.append(f"... and {len(out) - shown} more {what}")
        return lines

    def counted(self) -> str:
        """Say how much can be learned from."""
        tables = {what: getattr(self, name)["kept"] for name, what in self.WHAT.items()}
        parts = [f"{kept.sum()} of {len(kept)} {what}" for what, kept in tables.items()]
        return f"{', '.join(parts)} are kept"


def said(told: Sequence[str], wrong: pd.Series) -> pd.Series:
    """Return what is `told` of each row that is `wrong`, and empty text for the others."""
    return pd.Series(told, wrong.index, dtype="str").where(wrong, "")


def column_counts(values: pd.DataFrame) -> pd.DataFrame:
    """Return by column ``rows, measured, least, most``; NaN where it was never measured."""
    measured = {"measured": values.notna().sum(), "least": values.min(), "most": values.max()}
    return pd.DataFrame({"rows": len(values), **measured})


def reasons(counts: pd.DataFrame, missing: float, rows: str, measured: str, value: str) -> pd.Series:
    """Return by column why nothing can be learned from it; empty where something can.

    Either more than the share `missing` of the rows lack it, or all have the same value. `counts` are as
    `column_counts` returns them. `rows`, `measured` and `value` are the words of messages for the rows, for
    what was done in them, and for the result.
    """
    told = [f"was {measured} in {one.measured} of {one.rows} {rows}" for one in counts.itertuples()]
    same = [f"has the same {value} {number:g} in all {rows}" for number in counts["least"]]
    seldom = said(told, (counts["rows"] - counts["measured"]) / counts["rows"] > missing)
    return seldom.where(seldom != "", said(same, counts["least"] == counts["most"]))


def lacking(values: pd.DataFrame, missing: float, of: str) -> pd.Series:
    """Say of rows that lack more than the share `missing` of the columns how much `of` them; else empty."""
    lacks, names = values.isna().mean(axis="columns"), values.columns.get_level_values(0)
    found = pd.Series("", values.index, dtype="str")
    for row in np.flatnonzero(lacks > missing):
        first = names[values.iloc[row].isna().argmax()]
        found.iloc[row] = f'lacks {lacks.iloc[row]:.0%} of {of} "{first}"'
    return found


def by(names: str | list[str], found: pd.Series) -> pd.DataFrame:
    """Return the table of reasons whose rows are known by `names`."""
    return found.rename_axis(names).reset_index(name="reason")


SectionType = TypeVar("SectionType", bound=FamilySection)
TablesType = TypeVar("TablesType", bound=Tables)


def ingest(section: type[SectionType], read: Callable[[SectionType], Reading[TablesType]]) -> None:
    """Stage ingest: the source that params.yaml names becomes the family's tables."""
    reading = read(load(section).section)
    reading.tables.write(Places(section.family).interim)
    sys.stderr.write(told(reading.skipped))
    sys.stderr.writelines(f"{one_line(f'note: {note}')}\n" for note in reading.notes)
    print(reading.tables.counted())  # noqa: T201


def validate(
    section: type[SectionType],
    tables: type[TablesType],
    decide: Callable[[TablesType, SectionType], Tables],
) -> None:
    """Stage validate: what of the family's tables can be learned from."""
    places = Places(section.family)
    decisions = decide(tables.read(places.interim), load(section).section)
    decisions.write(places.valid)
    sys.stderr.writelines(f"{line}\n" for line in decisions.explained())
    print(decisions.counted())  # noqa: T201


def named(sources: Sources[TablesType], source: Ingest) -> Reading[TablesType]:
    """Read what params.yaml names."""
    return sources.read(source.format, [source.path], keep_going=source.keep_going)
