"""The page of one timeline: self-contained, drawn by scripts of its own from numbers that it has inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from serving.comparisons.timelines.findings import Finding, findings, gained, ranked, shaky, worst
from serving.comparisons.timelines.payload import heat_data, link, operation_data, shared_data
from serving.comparisons.timelines.scripts import policy, scripts
from serving.comparisons.timelines.timeline import HeatMap, TimelineReport
from serving.comparisons.timelines.wording import amount
from serving.pages.render import render


@dataclass(frozen=True)
class BenchmarkShown:
    """One benchmark: the findings of its operations."""

    benchmark: str
    found: tuple[Finding, ...]

    @property
    def numbers(self) -> str:
        """Which operations of the report they are."""
        return " ".join(str(one.number) for one in self.found)


@dataclass(frozen=True)
class HeatDrawn:
    """A heat map, what its chart needs, and what it shows in words."""

    heat: HeatMap
    data: Markup
    words: str
    version: str
    href: str


def page(report: TimelineReport) -> str:
    """Return a timeline as one self-contained HTML text.

    Notes
    -----
    Seed 000, section 5.1 and figure 5.1: the rules, per benchmark a chart per operation and the table of
    medians of the featured configuration; before them what to look at first.
    """
    found, texts = findings(report), scripts()
    return render(
        "timelines/page.html",
        report=report,
        sections=sections(found),
        bad=worst(found),
        good=gained(found),
        unstable=shaky(found),
        ranks=ranked(found),
        configurations=sorted({threads for one in report.operations for threads in one.threads}),
        shared=shared_data(report),
        data=[operation_data(one) for one in report.operations],
        heats=[_heat(report, heat) for heat in report.heats],
        scripts=texts,
        policy=policy(texts),
    )


def sections(found: Sequence[Finding]) -> list[BenchmarkShown]:
    """Put the operations of a benchmark together, in the order in which they first appear."""
    grouped: dict[str, list[Finding]] = {}
    for one in found:
        grouped.setdefault(one.operation.benchmark, []).append(one)
    return [BenchmarkShown(benchmark, tuple(of_it)) for benchmark, of_it in grouped.items()]


def _heat(report: TimelineReport, heat: HeatMap) -> HeatDrawn:
    version = report.versions[heat.version].name
    return HeatDrawn(heat, heat_data(heat), summary(heat), version, link(heat.source))


def summary(heat: HeatMap) -> str:
    """Say what a heat map shows: its range, and which rows are highest and lowest on the whole."""
    known = np.isfinite(heat.values)
    counts = known.sum(axis=1)
    if not counts.any():
        return "No sample is known."
    sums = np.where(known, heat.values, 0).sum(axis=1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    high, low = int(np.nanargmax(means)), int(np.nanargmin(means))
    return (
        f"{len(heat.rows):,} rows over {amount(float(heat.seconds[-1] - heat.seconds[0]))} seconds, from "
        f"{amount(float(np.nanmin(heat.values)))} to {amount(float(np.nanmax(heat.values)))} {heat.unit}. "
        f"On the whole, {heat.rows[high]} is highest with {amount(float(means[high]))}, "
        f"{heat.rows[low]} lowest with {amount(float(means[low]))}."
    )
