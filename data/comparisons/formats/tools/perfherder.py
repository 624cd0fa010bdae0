"""Read ``PERFHERDER_DATA`` from a log or a JSON file, and series as Treeherder's API returns them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    bytes_of,
    decoded,
    each,
    moment,
    standard,
)
from data.comparisons.units import UNKNOWN

MARK = b"PERFHERDER_DATA:"
_LOWER = {True: "lower", False: "higher"}


class _HerderSubtest(msgspec.Struct):
    """A subtest; its value is an aggregate of `replicates`."""

    name: str
    value: float | None = None
    replicates: list[float] = []
    unit: str = ""
    lowerIsBetter: bool | None = None  # noqa: N815 - as Perfherder writes it


class _HerderSuite(msgspec.Struct):
    name: str
    subtests: list[_HerderSubtest] = []
    value: float | None = None
    replicates: list[float] = []
    unit: str = ""
    lowerIsBetter: bool | None = None  # noqa: N815
    extraOptions: list[str] = []  # noqa: N815


class _HerderData(msgspec.Struct):
    suites: list[msgspec.Raw]


class _HerderPoint(msgspec.Struct):
    value: float
    push_timestamp: str | float | None = None
    push_id: int | None = None
    revision: str | None = None


class _HerderSeries(msgspec.Struct):
    suite: str
    data: list[_HerderPoint]
    test: str = ""
    lower_is_better: bool = True
    measurement_unit: str | None = None


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the replicates of every subtest, and the values of suites without subtests."""
    for path in source.files:
        content = standard(bytes_of(path))
        for document in _documents(content):
            if document.lstrip()[:1] == b"[":
                series = decoded(document, list[msgspec.Raw], path)
                for _, one in each(series, _HerderSeries, path, ""):
                    yield from _of_series(one)
            else:
                suites = decoded(document, _HerderData, path).suites
                for _, suite in each(suites, _HerderSuite, path, "suites"):
                    yield from _of_suite(suite)


def _documents(content: bytes) -> list[bytes]:
    """Return the JSON documents of a log, which follow marks; without marks, the whole content."""
    if MARK not in content:
        return [content]
    return [line.partition(MARK)[2] for line in content.splitlines() if MARK in line]


def _of_suite(suite: _HerderSuite) -> Iterator[Measurement]:
    benchmark = " ".join([suite.name, *suite.extraOptions])
    for one in suite.subtests:
        lower = one.lowerIsBetter if one.lowerIsBetter is not None else suite.lowerIsBetter
        better = _LOWER[lower is not False]
        values = one.replicates or _single(one.value)
        yield Measurement(one.name, values, one.unit or suite.unit or UNKNOWN, better, benchmark)
    values = suite.replicates or _single(suite.value)
    if not suite.subtests and values:
        better = _LOWER[suite.lowerIsBetter is not False]
        yield Measurement(suite.name, values, suite.unit, better, benchmark)


def _single(value: float | None) -> Sequence[float]:
    return () if value is None else (value,)


def _of_series(one: _HerderSeries) -> Iterator[Measurement]:
    better, unit = _LOWER[one.lower_is_better], one.measurement_unit or UNKNOWN
    for point in one.data:
        version = (point.revision or "")[:12] or str(point.push_id or point.push_timestamp or "")
        when = moment(point.push_timestamp)
        yield Measurement(
            one.test or one.suite, (point.value,), unit, better, one.suite, version=version, when=when
        )
