"""Read the JSON that hyperfine writes with ``--export-json``: version 1 (times) and 2 (measurements)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, Summary, each, json_of, named
from data.comparisons.units import UNKNOWN

_WALL = "time_wall_clock"


class _HyperfineQuantity(msgspec.Struct):
    value: float
    unit: str = UNKNOWN


class _HyperfineSummary(Summary):
    unit: str = UNKNOWN


class _HyperfineCommand(Summary):
    """A command; version 1 has ``times``, version 2 ``measurements`` and ``summary``."""

    command: str = ""
    name: str | None = None
    parameter: str | None = None
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    times: list[float] | None = None
    measurements: list[dict[str, _HyperfineQuantity | int | None]] | None = None
    summary: dict[str, _HyperfineSummary] = msgspec.field(default_factory=dict)


class _HyperfineFile(msgspec.Struct):
    results: list[msgspec.Raw]
    primary_metric: str = _WALL


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the times of every command; the operation's name contains its parameters."""
    for path in source.files:
        content = json_of(path, _HyperfineFile)
        for _, one in each(content.results, _HyperfineCommand, path, "results"):
            parameters = one.parameters | ({"parameter": one.parameter} if one.parameter else {})
            name = named(one.name or one.command, parameters)
            found = _measured(one, content.primary_metric) or _timed(one)
            if found.summary:
                source.summed_up()
            yield found._replace(operation=name)


def _timed(one: _HyperfineCommand) -> Measurement:
    return Measurement("", one.times or (), "s", "lower", summary=None if one.times else one.known)


def _measured(one: _HyperfineCommand, metric: str) -> Measurement | None:
    """Return the values of version 2's primary metric (lower is better), None where it has none."""
    if one.measurements:
        found = [
            quantity
            for run in one.measurements
            if isinstance(quantity := run.get(metric), _HyperfineQuantity)
        ]
        return Measurement("", [each.value for each in found], _unit(found[0].unit) if found else "", "lower")
    told = one.summary.get(metric)
    if told is None:
        return None
    return Measurement("", (), _unit(told.unit), "lower", summary=told.known)


def _unit(unit: str) -> str:
    return {"second": "s", "byte": "B"}.get(unit, unit)
