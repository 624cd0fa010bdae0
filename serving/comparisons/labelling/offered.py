"""The comparisons that a server offers for labelling, grouped into reports."""

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
from data.comparisons.labels.consensus import Rule, consensus_status
from data.comparisons.sides import NamedSides, Samples, Siblings
from data.comparisons.tables import ComparisonTables, version_ranges
from data.errors import InputError
from data.tables.problems import Problems
from serving.comparisons.evaluated import consensus_rule
from serving.comparisons.explain.counterfactuals import pack_samples, scale_targets
from training.registry.champions import project_root

Ints = NDArray[np.int64]
#: Versions kept on either side of a relevant one: more than any feature uses.
_NEAR = 12
#: Hexadecimal digits of the key of a report or a comparison.
_DIGITS = 20


def keep_nearby_versions(siblings: Siblings) -> Siblings:
    """Return a copy with only the targets' versions, those of the same names, and 12 on either side of each.

    Versions of different operations of one benchmark and machine may share a name; if a target has several
    versions, only the name of its first one counts. Each remaining part of a series becomes a series of its
    own; features of siblings do not change. Without versions or targets, `siblings` is returned.
    """
    versions, spans = siblings.versions, siblings.stop - siblings.first
    if not len(versions.series) or not spans.any():
        return siblings
    names = versions.name[siblings.first[spans > 0]]
    targets = [np.arange(first, stop) for first, stop in zip(siblings.first, siblings.stop, strict=True)]
    relevant = np.unique(
        np.concatenate([np.flatnonzero(np.isin(versions.name, names[names >= 0])), *targets])
    )
    around = (relevant[:, None] + np.arange(-_NEAR, _NEAR + 1)).ravel()
    rows = np.unique(around[(around >= 0) & (around < len(versions.series))])
    # versions that did not follow each other belong to different series
    begins = (np.diff(rows, prepend=rows[:1]) > 1) | (np.diff(versions.series[rows], prepend=-1) != 0)
    lists = Samples(versions.values, np.zeros(0, np.int64), versions.starts[rows], versions.starts[rows + 1])
    near = replace(
        versions,
        values=pack_samples(lists).values,
        starts=np.append(0, lists.lengths.cumsum()),
        series=np.cumsum(begins),
        operation=versions.operation[rows],
        name=versions.name[rows],
        lower=versions.lower[rows],
    )
    first = np.where(spans > 0, np.searchsorted(rows, siblings.first), 0)
    return Siblings(near, first, first + spans)


def key_of(*names: str) -> str:
    """Return 20 hexadecimal digits for addresses: a hash of `names` that does not reveal them."""
    return sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, kw_only=True)
class OfferedReport:
    """The comparisons of two versions, or two ranges of versions, on one machine."""

    key: str
    number: int  # position in the source, from 1; names the report while its versions are hidden
    machine: str
    baseline: str  # baseline, target: a version such as ``v3``, or a range such as ``v1..v3``
    target: str
    rows: Ints  # its comparisons, by benchmark and operation

    def report_title(self, *, shown: bool) -> str:
        """Return the versions as ``baseline → target`` if `shown`, else ``Report`` with its number."""
        return f"{self.baseline} \N{RIGHTWARDS ARROW} {self.target}" if shown else f"Report {self.number}"


@dataclass(frozen=True, kw_only=True)
class OfferedComparisons:
    """All comparisons of a source with distinct identifiers."""

    tables: ComparisonTables  # including comparisons that cannot be judged
    named: NamedSides
    units: Sequence[str]
    versions: Sequence[str]
    keys: Sequence[str]  # in addresses
    positions: Mapping[str, int]  # the row of every comparison by its identifier
    by_key: Mapping[str, int]  # and by its key
    reports: Mapping[str, OfferedReport]  # by their keys
    labels: Mapping[str, str]  # the labels in the source, by identifier
    counting: Rule  # how labels of several annotators are aggregated

    @classmethod
    def read(cls, source: Path) -> OfferedComparisons:
        """Return the comparisons of a source of any format, without its erroneous parts.

        Raises InputError if it cannot be read or contains no comparison, or if ``params.yaml`` is invalid.
        """
        problems = Problems(keep_going=True)
        chunks = formats.stream_tables(formats.recognise_format(source), [source], problems, chunk_rows=None)
        tables = ComparisonTables.join_tables(list(chunks))
        if tables.comparisons.empty:
            raise problems.skipped[0] if problems.skipped else InputError("holds no comparison", file=source)
        return cls.from_tables(tables, consensus_rule(project_root()))

    @classmethod
    def from_tables(cls, tables: ComparisonTables, counting: Rule = "majority") -> OfferedComparisons:
        """Return the comparisons of `tables`, grouped into reports by machine and versions.

        Of comparisons with equal ids, only the first is offered. `counting`: how labels of several annotators
        are aggregated, "majority" or "dawid-skene".
        """
        comparisons = tables.comparisons.drop_duplicates("comparison_id").reset_index(drop=True)
        tables = ComparisonTables(tables.results, comparisons, tables.labels)
        named, spans = NamedSides.from_tables(tables), version_ranges(tables)
        keys = [key_of(name) for name in named.identifiers]
        names = comparisons[["benchmark", "operation"]].to_numpy(str)
        frame = pd.DataFrame({"machine": comparisons["machine"], "versions": spans})
        reports: dict[str, OfferedReport] = {}
        for (machine, span), group in frame.groupby(["machine", "versions"], sort=False).groups.items():
            rows = np.asarray(group, np.int64)
            key = key_of("report", machine, span)
            before, _, after = span.partition(" -> ")
            reports[key] = OfferedReport(
                key=key,
                number=len(reports) + 1,
                machine=machine,
                baseline=before,
                target=after,
                rows=rows[np.lexsort(names[rows].T[::-1])],
            )
        return cls(
            tables=tables,
            named=named,
            units=named.units(),
            versions=spans,
            keys=keys,
            positions={name: row for row, name in enumerate(named.identifiers)},
            by_key={key: row for row, key in enumerate(keys)},
            reports=reports,
            labels=consensus_status(tables.labels, counting).dropna().to_dict(),
            counting=counting,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def select_comparisons(self, rows: Ints) -> NamedSides:
        """Return the comparisons `rows`, with all sibling versions that their features need."""
        named = self.named
        sides = scale_targets(named.sides, rows, np.ones((len(rows), 1)))
        if sides.siblings is not None:
            sides = replace(sides, siblings=keep_nearby_versions(sides.siblings))
        identifiers, benchmarks, operations, units = (
            [column[row] for row in rows.tolist()]
            for column in (named.identifiers, named.benchmarks, named.operations, self.units)
        )
        return NamedSides(identifiers, benchmarks, operations, sides, lambda: units)

    def mask_name(self, name: str, row: int) -> str:
        """Return `name` with an ellipsis in place of the versions and the file name of the comparison `row`.

        `name`: of a machine, a benchmark or an operation.
        """
        report, source = self.report_of(row), self.tables.comparisons["source"].iloc[row]
        hidden = {text for span in (report.baseline, report.target) for text in (span, *span.split(".."))}
        if not pd.isna(source):
            hidden.add(Path(re.split(r":\d", str(source))[0]).stem)
        # plain numbers occur in many names, and reveal only an order
        for text in sorted((text for text in hidden if text and not text.isdecimal()), key=len, reverse=True):
            name = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "\N{HORIZONTAL ELLIPSIS}", name)
        return name

    def report_of(self, row: int) -> OfferedReport:
        """Return the report that the comparison `row` belongs to."""
        return self.reports[
            key_of("report", self.tables.comparisons["machine"].iloc[row], self.versions[row])
        ]
