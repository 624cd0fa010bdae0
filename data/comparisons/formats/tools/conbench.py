"""Read results of Conbench as posted, a list of them, or a page of its API; a directory is a series."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    bytes_of,
    decoded,
    each,
    moment,
    named,
    of_unit,
    standard,
)
from data.comparisons.units import UNKNOWN
from data.errors import InputError

_UNITS = {"b/s": "bit/s", "i/s": "items/s", "b": "bit"}
#: Tags that are not parameters of a benchmark.
_NO_PARAMETER = frozenset(("name", "suite", "source"))


class _ConbenchStats(msgspec.Struct):
    data: list[float | str | None]
    unit: str


class _ConbenchMachine(msgspec.Struct):
    name: str = UNKNOWN


class _ConbenchCommit(msgspec.Struct):
    """The measured commit: ``commit`` in posted results, ``sha`` in those of the API."""

    commit: str | None = None
    sha: str | None = None
    timestamp: str | None = None


class _ConbenchResult(msgspec.Struct):
    tags: dict[str, str | int | float | bool | list[str] | None]
    stats: _ConbenchStats | None = None
    timestamp: str = ""
    machine_info: _ConbenchMachine | None = None
    github: _ConbenchCommit | None = None
    commit: _ConbenchCommit | None = None


class _ConbenchPage(msgspec.Struct):
    data: list[msgspec.Raw] | None = None


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the repetitions of every result, by commit; tags other than the name are parameters."""
    for path in source.files:
        for place, one in each(_results(path), _ConbenchResult, path, "results"):
            name = str(one.tags.get("name") or "")
            values = _values(one.stats, path, place) if one.stats else []
            if one.stats is None or not values:
                source.left_out(f"{place} ({name})", "it has no values")
                continue
            tags = {
                key: one.tags[key] for key in sorted(one.tags) if key not in _NO_PARAMETER and one.tags[key]
            }
            commit = one.commit or one.github or _ConbenchCommit()
            yield Measurement(
                named(name, tags),
                values,
                _UNITS.get(one.stats.unit, one.stats.unit),
                of_unit(one.stats.unit),
                str(one.tags.get("suite") or ""),
                one.machine_info.name if one.machine_info else UNKNOWN,
                version=(commit.sha or commit.commit or "")[:10],
                when=moment(commit.timestamp or one.timestamp),
            )


def _values(stats: _ConbenchStats, path: Path, place: str) -> list[float]:
    try:
        return [float(value) for value in stats.data if value is not None]
    except ValueError as exc:
        raise InputError(f"stats.data holds {str(exc)[-60:]}", file=path, place=place) from exc


def _results(path: Path) -> list[msgspec.Raw]:
    content = standard(bytes_of(path))
    if content.lstrip()[:1] == b"[":
        return decoded(content, list[msgspec.Raw], path)
    page = decoded(content, _ConbenchPage, path)
    return [msgspec.Raw(content)] if page.data is None else page.data
