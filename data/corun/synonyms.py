"""One name for each event, whatever vendors, kernels and perf's modifiers call it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.tables.problems import nearest

_LINES = Path(__file__).with_name("events.txt").read_text(encoding="utf-8").splitlines()
#: Other names of events, by the one that perf lists first. Of raw codes, those that a kernel has no name for.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(others.split()) for name, _, others in (line.partition(":") for line in _LINES)
}
#: ``cpu_core/instructions/u``: where, what, and modifiers.
_WITHIN = re.compile(r"(?P<pmu>[\w.-]+)/(?P<event>[^/]+)/(?P<modes>\w*)")
_MODES = re.compile(r"(?P<event>.+?)(?::(?P<modes>[a-zA-Z]+))?")
#: Modifiers of privilege; those of precision change no count.
_PRIVILEGES = "ukh"


def _spelt(name: str) -> str:
    return name.casefold().replace("_", "-")


_KNOWN = {_spelt(other): name for name, others in SYNONYMS.items() for other in (name, *others)}


@dataclass(frozen=True)
class EventName:
    """An event by our name, if it has one, else as it was written.

    ``pmu`` is the kind of processor that counts it, empty for all; ``privileges`` are ``u`` or ``k`` where
    only these were counted, empty for all.
    """

    event: str
    pmu: str
    privileges: str

    @classmethod
    def of(cls, written: str) -> EventName:
        """Take a name apart."""
        within = _WITHIN.fullmatch(written) or _MODES.fullmatch(written)
        if within is None:
            return cls(written, "", "")
        told = within.groupdict()
        kept = "".join(sorted({*(told["modes"] or "")} & {*_PRIVILEGES}))
        event = _KNOWN.get(_spelt(told["event"]), told["event"])
        return cls(event, told.get("pmu") or "", "" if "u" in kept and "k" in kept else kept)


@dataclass(frozen=True)
class Canonical:
    """Samples under our names of events, and the ``privileges`` of those that were counted for some only."""

    table: pd.DataFrame
    privileges: dict[str, str]


def canonical(table: pd.DataFrame, time: str, kept: Collection[str] = ()) -> Canonical:
    """Return samples with one name for each event.

    The counts of several kinds of processor of one machine are added up, and those of user and kernel mode
    where nothing has both. Of two names of one event the first counts.

    Parameters
    ----------
    time : str
        The column that is no event.
    kept : collection of str
        Names that stay as they are.
    """
    written: dict[str, dict[str, dict[str, str]]] = {}
    for name in map(str, table.columns.drop(time)):
        named = EventName(name, "", "") if name in kept else EventName.of(name)
        written.setdefault(named.event, {}).setdefault(named.privileges, {}).setdefault(named.pmu, name)
    columns, privileges = {time: table[time]}, {}
    for event, by_privilege in written.items():
        parts = {"": by_privilege[""]} if "" in by_privilege else by_privilege
        names = [name for pmus in parts.values() for name in pmus.values()]
        columns[event] = table[names].sum(axis="columns", min_count=1) if names[1:] else table[names[0]]
        if parts.keys() != {""} and parts.keys() != {"u", "k"}:
            privileges[event] = "".join(sorted(parts))
    return Canonical(pd.DataFrame(columns), privileges)


def unknown(names: Iterable[str], further: Collection[str] = ()) -> dict[str, str | None]:
    """Return the events that neither the table nor `further` knows, each with the nearest known name."""
    known = {*SYNONYMS, *further}
    everyone = known | {other for others in SYNONYMS.values() for other in others}
    return {name: nearest(name, everyone) for name in names if name not in known}
