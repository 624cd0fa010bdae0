"""The stages of the data layer, ingest and validate, for the readers and rules of any family."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from data.errors import one_line
from data.params import FamilySection, Ingest, load
from data.paths import FamilyPaths
from data.tables.files import Compression
from data.tables.formats import Reading, Sources
from data.tables.problems import SHOWN, Problems, skipped_summary
from data.tables.specs import Spec, Tables, with_dtypes

WARNINGS = Spec({"warning": "str"})
KEPT = {"kept": "bool", "reason": "str"}


@dataclass(frozen=True)
class Decisions(Tables):
    """Tables of decisions: whether each row is ``kept``, and the ``reason`` why not (empty: it is kept).

    ``warnings`` concern the interpretation of results. `WHAT` has a plural noun for the rows of each table,
    in the order of messages; `UNTOLD` are columns that do not identify a row.
    """

    COMPRESSION: ClassVar[Compression] = "snappy"
    WHAT: ClassVar[Mapping[str, str]] = {}
    UNTOLD: ClassVar[tuple[str, ...]] = ("kept",)

    warnings: pd.DataFrame

    @classmethod
    def from_reasons(cls, warnings: Iterable[str], **tables: pd.DataFrame) -> Self:
        """Return the decisions; tables with ``reason`` (empty: row is kept) get the column ``kept``."""
        frames = {"warnings": pd.DataFrame({"warning": list(warnings)})}
        for name, table in tables.items():
            decided = table.assign(kept=table["reason"] == "") if "reason" in table else table
            frames[name] = decided[list(cls.SPECS[name].dtypes)]
        return cls(**{name: with_dtypes(frame, cls.SPECS[name].dtypes) for name, frame in frames.items()})

    def explanation_lines(self, shown: int = SHOWN) -> list[str]:
        """Return a line per warning and per row that is not kept, for each table at most `shown` rows."""
        lines = [f"warning: {warning}" for warning in self.warnings["warning"]]
        for name, what in self.WHAT.items():
            table = getattr(self, name)
            left_out = table[~table["kept"]].drop(columns=list(self.UNTOLD), errors="ignore")
            for row in left_out.head(shown).to_dict("records"):
                reason = row.pop("reason")
                place = ", ".join(f'{column} "{value}"' for column, value in row.items())
                lines.append(f"excluded {place}: {reason}")
            if len(left_out) > shown:
                lines.append(f"... and {len(left_out) - shown} more {what}")
        return lines

    def describe_counts(self) -> str:
        """Return a text with the kept rows of each table: "5 of 6 runs, 2 of 2 pairs are kept"."""
        tables = {what: getattr(self, name)["kept"] for name, what in self.WHAT.items()}
        parts = [f"{is_kept.sum()} of {len(is_kept)} {what}" for what, is_kept in tables.items()]
        return f"{', '.join(parts)} are kept"


def messages_where(messages: Sequence[str], wrong: pd.Series) -> pd.Series:
    """Return a Series with the row's text in `messages` where the mask `wrong` is true, else empty text."""
    return pd.Series(messages, wrong.index, dtype="str").where(wrong, "")


def column_counts(values: pd.DataFrame) -> pd.DataFrame:
    """Return ``rows, measured, least, most`` per column: numbers of rows and values, extreme values."""
    measured = {"measured": values.notna().sum(), "least": values.min(), "most": values.max()}
    return pd.DataFrame({"rows": len(values), **measured})


def useless_column_reasons(
    counts: pd.DataFrame, missing: float, rows: str, measured: str, value: str
) -> pd.Series:
    """Return a text per column: the reason why it is useless for training; empty if it is useful.

    `counts` is the result of `column_counts`. A column is useless if its values are missing in more than the
    share `missing` (0 to 1) of the rows (this is checked first), or all equal. The other parameters are words
    of the texts, "was `measured` in 3 of 10 `rows`" and "has the same `value` 5 in all `rows`".
    """
    too_few = [f"was {measured} in {count.measured} of {count.rows} {rows}" for count in counts.itertuples()]
    same = [f"has the same {value} {number:g} in all {rows}" for number in counts["least"]]
    seldom = messages_where(too_few, (counts["rows"] - counts["measured"]) / counts["rows"] > missing)
    return seldom.where(seldom != "", messages_where(same, counts["least"] == counts["most"]))


def missing_value_reasons(values: pd.DataFrame, missing: float, of: str) -> pd.Series:
    """Return a text per row: that more than the share `missing` of its values are missing; else empty text.

    If `of` is "the events, such as", a text is ``lacks 40% of the events, such as "cycles"``, where "cycles"
    is the first column without a value in the row.
    """
    lacks, names = values.isna().mean(axis="columns"), values.columns.get_level_values(0)
    messages = pd.Series("", values.index, dtype="str")
    for row in np.flatnonzero(lacks > missing):
        first = names[values.iloc[row].isna().argmax()]
        messages.iloc[row] = f'lacks {lacks.iloc[row]:.0%} of {of} "{first}"'
    return messages


def reason_table(names: str | list[str], row_reasons: pd.Series) -> pd.DataFrame:
    """Return a Series of reasons as a frame: its index as the columns `names`, then the column ``reason``."""
    return row_reasons.rename_axis(names).reset_index(name="reason")


SectionType = TypeVar("SectionType", bound=FamilySection)
TablesType = TypeVar("TablesType", bound=Tables)


def ingest(section: type[SectionType], read: Callable[[SectionType], Reading[TablesType]]) -> None:
    """Stage ingest: write the tables that `read` returns for the section to ``data/interim/<family>``.

    Skipped parts and notes go to stderr, the numbers of rows to stdout. InputError if params.yaml or the
    source is invalid.
    """
    reading = read(load(section).section)
    reading.tables.write(FamilyPaths(section.family).interim)
    sys.stderr.write(skipped_summary(reading.skipped))
    sys.stderr.writelines(f"{one_line(f'note: {note}')}\n" for note in reading.notes)
    print(reading.tables.describe_counts())  # noqa: T201


def run_validate(
    section: type[SectionType], tables: type[TablesType], decide: Callable[[TablesType, SectionType], Tables]
) -> None:
    """Stage validate: write the decisions of `decide` on the ingested tables to ``data/valid/<family>``.

    Warnings and the reasons of the first rejected rows go to stderr, the numbers of kept rows to stdout.
    InputError if params.yaml or a table is missing or invalid.
    """
    paths = FamilyPaths(section.family)
    decisions = decide(tables.read(paths.interim).without_flaws(Problems()), load(section).section)
    decisions.write(paths.valid)
    sys.stderr.writelines(f"{line}\n" for line in decisions.explanation_lines())
    print(decisions.describe_counts())  # noqa: T201


def read_source(sources: Sources[TablesType], source: Ingest) -> Reading[TablesType]:
    """Return the tables of the source that params.yaml names; errors are those of `Sources.read`."""
    return sources.read(source.format, [source.path], keep_going=source.keep_going)
