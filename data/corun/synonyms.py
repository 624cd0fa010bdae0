"""Canonical names of events, for the names of vendors, kernels and perf's modifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.measure.perf_stat import TIME
from data.tables.problems import nearest_name

Floats = NDArray[np.float64]
_LINES = Path(__file__).with_name("events.txt").read_text(encoding="utf-8").splitlines()
#: Other names of each event, by the name that perf lists first; raw codes only where a kernel has no name.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(others.split()) for name, _, others in (line.partition(":") for line in _LINES)
}
#: ``cpu_core/instructions/u``: processor, event and modifiers.
_WITHIN = re.compile(r"(?P<pmu>[\w.-]+)/(?P<event>[^/]+)/(?P<modes>\w*)")
_MODES = re.compile(r"(?P<event>.+?)(?::(?P<modes>[a-zA-Z]+))?")
#: Modifiers of the privilege level; those of the precision do not change counts.
_PRIVILEGES = "ukh"


def normalize_name(name: str) -> str:
    """Return the name of an event in lower case, with ``-`` in place of ``_``."""
    return name.casefold().replace("_", "-")


_KNOWN = {normalize_name(other): name for name, others in SYNONYMS.items() for other in (name, *others)}


@dataclass(frozen=True)
class EventName:
    """An event by its canonical name, or as written if it has none.

    ``pmu`` is the kind of processor that counts it, empty for all; ``privileges`` is ``u`` or ``k`` if only
    one level was counted, else empty.
    """

    event: str
    pmu: str
    privileges: str

    @classmethod
    @lru_cache(maxsize=4096)
    def from_text(cls, written: str) -> EventName:
        """Return the parsed name of an event, such as ``cpu_core/instructions/u`` or ``cycles:k``."""
        within = _WITHIN.fullmatch(written) or _MODES.fullmatch(written)
        if within is None:
            return cls(written, "", "")
        parts = within.groupdict()
        levels = "".join(sorted({*(parts["modes"] or "")} & {*_PRIVILEGES}))
        event = _KNOWN.get(normalize_name(parts["event"]), parts["event"])
        return cls(event, parts.get("pmu") or "", "" if "u" in levels and "k" in levels else levels)


@dataclass(frozen=True)
class IntervalCounts:
    """Counts of events in the intervals of one run.

    `ends`, shape (n_intervals,), are seconds since the start; `counts`, shape (n_intervals, n_events), is NaN
    where an event was not counted.
    """

    events: tuple[str, ...]
    ends: Floats
    counts: Floats

    @classmethod
    def from_table(cls, table: pd.DataFrame) -> IntervalCounts:
        """Return the counts of a table with ``t_seconds``, else KeyError, and a column per event."""
        counts = table.drop(columns=TIME)
        events = tuple(map(str, counts.columns))
        return cls(events, table[TIME].to_numpy(np.float64), counts.to_numpy(np.float64))

    @property
    def is_missing(self) -> NDArray[np.bool_]:
        """Whether an event was not counted in any interval, shape (n_events,)."""
        return np.asarray(np.isnan(self.counts).all(axis=0))

    def counts_of(self, event: str) -> Floats:
        """Return the counts of one of `events`, shape (n_intervals,); ValueError if `event` is unknown."""
        return np.asarray(self.counts[:, self.events.index(event)])

    def select_events(self, mask: NDArray[np.bool_]) -> IntervalCounts:
        """Return a copy with the events where `mask`, shape (n_events,), is true."""
        return replace(self, events=tuple(compress(self.events, mask)), counts=self.counts[:, mask])


def canonical_counts(
    samples: IntervalCounts, unchanged_names: Collection[str] = ()
) -> tuple[IntervalCounts, dict[str, str]]:
    """Return counts by canonical event names, and the privilege levels of events counted at some levels only.

    The second result maps such an event to letters: ``u`` user, ``k`` kernel, ``h`` hypervisor; an event with
    columns of user and of kernel mode only is complete, and not in it. An event's counts are summed over all
    kinds of processor and, if no column has all its levels, over levels; a sum is NaN only if all its counts
    are. If two columns have the same event, kind of processor and level, the first is used.
    `unchanged_names` are not changed. Events keep the order of their first columns.
    """
    by_event: dict[str, dict[str, dict[str, int]]] = {}
    for number, name in enumerate(samples.events):
        parsed = EventName(name, "", "") if name in unchanged_names else EventName.from_text(name)
        by_processor = by_event.setdefault(parsed.event, {}).setdefault(parsed.privileges, {})
        by_processor.setdefault(parsed.pmu, number)
    first, several, privileges = [], {}, {}
    for place, (event, by_level) in enumerate(by_event.items()):
        parts = {"": by_level[""]} if "" in by_level else by_level
        numbers = [number for pmus in parts.values() for number in pmus.values()]
        first.append(numbers[0])
        if numbers[1:]:
            several[place] = numbers
        if parts.keys() != {""} and parts.keys() != {"u", "k"}:
            privileges[event] = "".join(sorted(parts))
    table = samples.counts[:, np.array(first, np.intp)]
    for place, numbers in several.items():
        counts = samples.counts[:, numbers]
        table[:, place] = np.where(np.isnan(counts).all(axis=1), np.nan, np.nansum(counts, axis=1))
    return replace(samples, events=tuple(by_event), counts=table), privileges


@lru_cache(maxsize=1024)
def nearest_event(name: str, extra_events: frozenset[str]) -> str | None:
    """Return the event, synonym or one of `extra_events` that is most similar to `name`; None if none is."""
    return nearest_name(name, sorted(extra_events.union(SYNONYMS, *SYNONYMS.values())))
