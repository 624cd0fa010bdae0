"""Canonical names of events, for the names of vendors, kernels and perf's modifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.tables.problems import nearest_name

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


def _normalize_name(name: str) -> str:
    return name.casefold().replace("_", "-")


_KNOWN = {_normalize_name(other): name for name, others in SYNONYMS.items() for other in (name, *others)}


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
    def from_text(cls, written: str) -> EventName:
        """Return the parsed name of an event, such as ``cpu_core/instructions/u`` or ``cycles:k``."""
        within = _WITHIN.fullmatch(written) or _MODES.fullmatch(written)
        if within is None:
            return cls(written, "", "")
        parts = within.groupdict()
        levels = "".join(sorted({*(parts["modes"] or "")} & {*_PRIVILEGES}))
        event = _KNOWN.get(_normalize_name(parts["event"]), parts["event"])
        return cls(event, parts.get("pmu") or "", "" if "u" in levels and "k" in levels else levels)


@dataclass(frozen=True)
class Canonical:
    """Samples with canonical event names, and the ``privileges`` of events with only some levels counted."""

    table: pd.DataFrame
    privileges: dict[str, str]


def canonical_samples(table: pd.DataFrame, time: str, unchanged_names: Collection[str] = ()) -> Canonical:
    """Return samples with one column per event, under its canonical name, after the column `time`.

    The counts of all kinds of processor of a machine are summed up, and those of user and kernel mode if the
    event has no count of both; a sum is NaN only if all are. An event counted in one mode only has this mode,
    ``u`` or ``k``, in ``privileges``. If two columns have the same event, kind of processor and mode, the
    first is used. KeyError if `table` has no column `time`.

    Parameters
    ----------
    time : str
        The column of times.
    unchanged_names : collection of str
        Names that are not changed.
    """
    by_event: dict[str, dict[str, dict[str, str]]] = {}
    for name in map(str, table.columns.drop(time)):
        parsed = EventName(name, "", "") if name in unchanged_names else EventName.from_text(name)
        by_event.setdefault(parsed.event, {}).setdefault(parsed.privileges, {}).setdefault(parsed.pmu, name)
    columns, privileges = {time: table[time]}, {}
    for event, by_privilege in by_event.items():
        parts = {"": by_privilege[""]} if "" in by_privilege else by_privilege
        names = [name for pmus in parts.values() for name in pmus.values()]
        columns[event] = table[names].sum(axis="columns", min_count=1) if names[1:] else table[names[0]]
        if parts.keys() != {""} and parts.keys() != {"u", "k"}:
            privileges[event] = "".join(sorted(parts))
    return Canonical(pd.DataFrame(columns), privileges)


def unknown_events(names: Iterable[str], extra_events: Collection[str] = ()) -> dict[str, str | None]:
    """Return the `names` not in `SYNONYMS` or `extra_events`, each with the most similar name or None."""
    events = {*SYNONYMS, *extra_events}
    candidates = events | {other for others in SYNONYMS.values() for other in others}
    return {name: nearest_name(name, candidates) for name in names if name not in events}
