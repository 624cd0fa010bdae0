"""Which version is older: by when it was measured, by the source's own order, or by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from data.comparisons.timelines.runs import TimelineRun

_PARTS = re.compile(r"[0-9]+|[^0-9]+")
#: What stands before the version that it leads to.
_BEFORE = re.compile(r"[-._~+]*(rc|alpha|beta|pre|dev)[-._]*", re.IGNORECASE)
#: Characters of a name that count.
_LONGEST = 1_000
_EARLIER, _END, _LETTERS, _NUMBER = range(4)

ByVersion = Mapping[str, Sequence[TimelineRun]]


def natural(version: str) -> tuple[tuple[int, Any], ...]:
    """Return a key that sorts versions as people do: 4.9 < 4.10-rc1 < 4.10 < 4.10-2.

    Examples
    --------
    >>> sorted(["4.10", "4.10-2", "4.9", "4.10-rc1"], key=natural)
    ['4.9', '4.10-rc1', '4.10', '4.10-2']
    """
    parts = _PARTS.findall(version[:_LONGEST])
    return (*map(_part, parts), (_END, ""))


def _part(text: str) -> tuple[int, Any]:
    if text[0] in "0123456789":
        return _NUMBER, int(text)
    return (_EARLIER if _BEFORE.fullmatch(text) else _LETTERS), text


def ordered(runs: Sequence[TimelineRun]) -> tuple[list[str], str]:
    """Return the versions of one machine's runs from the oldest to the newest, and how that was told.

    Where every run says when it was measured, by that; else where the source numbers its versions, by its
    numbers; else by name. What contradicts the numbers of the source is not taken.
    """
    by_version: dict[str, list[TimelineRun]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    ways: list[tuple[str, Callable[[str], Any]]] = []
    if all(run.measured_at is not None for run in runs):
        ways.append(("the time of measuring", lambda name: _first_measured(by_version[name])))
    numbers = {name: _numbers(found) for name, found in by_version.items()}
    if all(len(found) == 1 for found in numbers.values()):
        ways.append(("the numbers that the source gives them", lambda name: min(numbers[name])))
    ways.append(("their names", natural))
    courses = [(_sorted(by_version, key), told) for told, key in ways]
    kept = (course for course in courses if _agrees(course[0], by_version))
    return next(kept, courses[0])


def _sorted(versions: Iterable[str], key: Callable[[str], Any]) -> list[str]:
    return sorted(sorted(versions, key=natural), key=key)


def _first_measured(runs: Iterable[TimelineRun]) -> Any:
    return min(run.measured_at for run in runs if run.measured_at is not None)


def _numbers(runs: Iterable[TimelineRun]) -> set[int]:
    return {int(one) for run in runs if run.orders is not None for one in run.orders}


def _agrees(versions: Sequence[str], by_version: ByVersion) -> bool:
    """Whether the numbers of every series ascend."""
    last: dict[tuple[str, str, int], int] = {}
    for name in versions:
        for run in by_version[name]:
            orders = () if run.orders is None else run.orders.tolist()
            for series, order in zip(run.series if orders else (), orders, strict=True):
                key = series.benchmark, series.operation, series.threads
                if last.get(key, order) > order:
                    return False
                last[key] = order
    return True
