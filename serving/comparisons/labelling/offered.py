"""The comparisons that a server offers for labelling, each in its report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import formats
from data.comparisons.labels.consensus import Rule, consensus
from data.comparisons.sides import NamedSides, Samples, Siblings, Versions
from data.comparisons.tables import ComparisonTables, versions
from data.errors import InputError
from data.tables.problems import Problems
from serving.comparisons.explain.counterfactuals import packed, scaled

#: Versions kept on either side of one that counts: more than any feature looks at.
_NEAR = 12


def nearby(siblings: Siblings) -> Siblings:
    """Return the same with only the versions that lie near one by a target's name.

    What is left of a series falls into pieces, each a series by itself: what lies in one piece is as far
    apart as it was. Features of siblings are the same, at a cost that doesn't grow with the source.
    """
    versions, spans = siblings.versions, siblings.stop - siblings.first
    if not len(versions.series) or not spans.any():
        return siblings
    names = versions.name[siblings.first[spans > 0]]
    own = [np.arange(first, stop) for first, stop in zip(siblings.first, siblings.stop, strict=True)]
    counted = np.unique(np.concatenate([np.flatnonzero(np.isin(versions.name, names[names >= 0])), *own]))
    around = (counted[:, None] + np.arange(-_NEAR, _NEAR + 1)).ravel()
    kept = np.unique(around[(around >= 0) & (around < len(versions.series))])
    first = np.searchsorted(kept, siblings.first)
    first = np.where(spans > 0, first, 0)
    return Siblings(_only(versions, kept), first, first + spans)


def _only(versions: Versions, kept: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Versions:
    """Return some of the versions; those that did not follow each other are of two series."""
    apart = (np.diff(kept, prepend=kept[:1]) > 1) | (np.diff(versions.series[kept], prepend=-1) != 0)
    lists = Samples(versions.values, np.zeros(0, np.int64), versions.starts[kept], versions.starts[kept + 1])
    values = packed(lists).values  # noqa: PD011
    return replace(
        versions,
        values=values,
        starts=np.append(0, lists.lengths.cumsum()),
        series=np.cumsum(apart),
        operation=versions.operation[kept],
        name=versions.name[kept],
        lower=versions.lower[kept],
    )


Ints = NDArray[np.int64]
#: Hexadecimal digits of what stands for a report or a comparison in an address.
_DIGITS = 20


def key_of(*names: str) -> str:
    """Return what stands for names in an address: it tells nothing of them, and is only looked up."""
    return sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class OfferedReport:
    """What was measured on one machine in two versions, or in two ranges of versions."""

    key: str
    number: int  # its place in the source, from 1: the name of the report where its versions are hidden
    machine: str  # machine, baseline, target: versions as names such as ``v3``, or ``v1..v3``
    baseline: str
    target: str
    rows: Ints  # its comparisons, by benchmark and operation

    def title(self, *, shown: bool) -> str:
        """Return the versions, or what stands for them while they are hidden."""
        return f"{self.baseline} \N{RIGHTWARDS ARROW} {self.target}" if shown else f"Report {self.number}"


@dataclass(frozen=True)
class Offered:
    """All comparisons of a source, each identifier once."""

    tables: ComparisonTables  # also those that cannot be judged
    named: NamedSides
    units: Sequence[str]
    versions: Sequence[str]
    keys: Sequence[str]  # what stands for each in an address
    places: Mapping[str, int]  # the row of every comparison, by its identifier
    by_key: Mapping[str, int]  # the same by its key
    reports: Mapping[str, OfferedReport]  # by their keys
    labels: Mapping[str, str]  # what the source's own labels say, by identifier

    @classmethod
    def read(cls, source: Path, counting: Rule) -> Offered:
        """Read a source of any format; what is wrong in it is left out.

        Raises InputError if it cannot be read, or holds no comparison.
        """
        problems = Problems(keep_going=True)
        pieces = formats.stream(formats.sniff(source), [source], problems, piece=None)
        tables = ComparisonTables.joined(list(pieces))
        if tables.comparisons.empty:
            raise problems.skipped[0] if problems.skipped else InputError("holds no comparison", file=source)
        return cls.of(tables, counting)

    @classmethod
    def of(cls, tables: ComparisonTables, counting: Rule = "majority") -> Offered:
        """Sort the comparisons of tables into reports; labels of several people count by a rule."""
        first = tables.comparisons.drop_duplicates("comparison_id").reset_index(drop=True)
        tables = ComparisonTables(tables.results, first, tables.labels)
        named, told = NamedSides.of(tables), versions(tables)
        keys = [key_of(name) for name in named.identifiers]
        labels = consensus(tables.labels, counting).dropna().to_dict()
        places = {name: row for row, name in enumerate(named.identifiers)}
        by_key = {key: row for row, key in enumerate(keys)}
        return cls(tables, named, named.units(), told, keys, places, by_key, _reports(first, told), labels)

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, rows: Ints) -> NamedSides:
        """Return some of the comparisons; what is said of them is what is said of them among all."""
        named = self.named
        sides = scaled(named.sides, rows, np.ones((len(rows), 1)))
        if sides.siblings is not None:
            sides = replace(sides, siblings=nearby(sides.siblings))
        each = rows.tolist()
        identifiers, benchmarks, operations = (
            [column[row] for row in each]
            for column in (named.identifiers, named.benchmarks, named.operations)
        )
        return NamedSides(
            identifiers, benchmarks, operations, sides, lambda: [self.units[row] for row in each]
        )

    def masked(self, name: str, row: int) -> str:
        """Return a name without the versions and the file name of a comparison, which may stand in it.

        `name`: of a machine, a benchmark or an operation.
        `row`: of the comparison.
        """
        report, source = self.report_of(row), self.tables.comparisons["source"].iloc[row]
        known = {one for span in (report.baseline, report.target) for one in (span, *span.split(".."))}
        if not pd.isna(source):
            known.add(Path(re.split(r":\d", str(source))[0]).stem)
        # a number is a place in time, and stands in many names
        wanted = sorted((one for one in known if one and not one.isdecimal()), key=len, reverse=True)
        for one in wanted:
            name = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", "\N{HORIZONTAL ELLIPSIS}", name)
        return name

    def report_of(self, row: int) -> OfferedReport:
        """Return the report in which a comparison stands."""
        return self.reports[_report_key(self.tables.comparisons["machine"].iloc[row], self.versions[row])]


def _report_key(machine: str, told: str) -> str:
    return key_of("report", machine, told)


def _reports(comparisons: pd.DataFrame, told: Sequence[str]) -> dict[str, OfferedReport]:
    names = comparisons[["benchmark", "operation"]].to_numpy(str)
    frame = pd.DataFrame({"machine": comparisons["machine"], "versions": told})
    found: dict[str, OfferedReport] = {}
    for (machine, both), group in frame.groupby(["machine", "versions"], sort=False).groups.items():
        rows = np.asarray(group, np.int64)
        ordered = rows[np.lexsort(names[rows].T[::-1])]
        key = _report_key(machine, both)
        before, _, after = both.partition(" -> ")
        found[key] = OfferedReport(key, len(found) + 1, machine, before, after, ordered)
    return found
