"""Check and repair the first seconds of a run, as sampled by perf."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun import synonyms
from data.corun.validity import GAP
from data.errors import InputError
from data.measure.perf_stat import TIME
from serving.corun.static import some
from training.corun.progress import KINDS

#: Seconds of samples below which nothing is answered: the fewest that the online model is judged at.
FEWEST = 0.4
#: Intervals end a little early or late.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Looked:
    """Samples that can be used."""

    source: str
    table: pd.DataFrame
    stretch: pd.DataFrame
    never: frozenset[str]
    privileges: dict[str, str]
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """How long was sampled without a gap."""
        return float(self.stretch[TIME].iloc[-1])

    @cached_property
    def counted(self) -> frozenset[str]:
        """The events that were counted in it."""
        there = self.stretch.notna().to_numpy().any(axis=0)
        return frozenset(self.stretch.columns[there]) - {TIME}

    def lacking(self, events: Sequence[str]) -> list[str]:
        """Say which of a model's events it has not."""
        there = {*self.table.columns, *self.never}
        lacks = {
            "lacks": [event for event in events if event not in there],
            "did not count": [event for event in events if event in self.never],
        }
        return [
            f"{self.source}: {what} {len(names)} of the model's {len(events)} events ({some(names)})"
            for what, names in lacks.items()
            if names
        ]


def looked(table: pd.DataFrame, source: str, events: Collection[str] = ()) -> Looked:
    """Look at the samples of one run."""
    _require_time(table, source)
    found = synonyms.canonical(table, TIME, events)
    known = {*synonyms.SYNONYMS, *events}
    there = found.table[[TIME, *(name for name in found.table.columns if name in known)]]
    _require_counts(there, source)
    strange = _strange([name for name in found.table.columns.drop(TIME) if name not in known], events)
    asleep = _asleep(there)
    never = frozenset(asleep.columns[asleep.isna().all()])
    usable = asleep.drop(columns=list(never))
    if not {*usable.columns} & {*events, *(kind.event for kind in KINDS)}:
        expected = "instructions, cycles or task-clock" + (", nor any event of the model" if events else "")
        raise InputError("; ".join([f"counts none of {expected}", *strange]), file=source)
    whole, stretch, cut = _without_gaps(usable, source)
    if stretch[TIME].iloc[-1] < FEWEST - _ROUNDING:
        about = f"{cut[0].partition(': ')[2]}; " if cut else ""
        problem = (
            f"{about}{stretch[TIME].iloc[-1]:.2g} s of samples are too few; expected at least {FEWEST:g} s"
        )
        raise InputError(problem, file=source)
    part = [event for event in usable if usable[event].isna().any()]
    partly = [f"{source}: did not count {some(part)} in every interval; the others stand for these"]
    told = [f"{source}: {line}" for line in strange] + (partly if part else [])
    return Looked(source, whole, stretch, never, found.privileges, (*told, *cut))


def _strange(names: Sequence[str], events: Collection[str]) -> list[str]:
    """Return a message about unknown events, with the nearest known names."""
    found = [
        f"{name} (did you mean {near}?)" if near else name
        for name, near in synonyms.unknown(names, events).items()
    ]
    return [f"nobody knows the events {some(found)}"] if found else []


def _require_time(table: pd.DataFrame, source: str) -> None:
    times = table[TIME].to_numpy(np.float64)
    wrong = np.flatnonzero(~(np.diff(times, prepend=0.0) > 0))
    if len(wrong):
        place = int(wrong[0])
        before = f"after {times[place - 1]:g} s" if place else "above 0"
        raise InputError(
            f"t_seconds={times[place]:g} must be {before}", file=source, place=f"row {place + 1}"
        )


def _require_counts(table: pd.DataFrame, source: str) -> None:
    for row, column in np.argwhere(table.to_numpy(np.float64) < 0)[:1]:
        problem = f"{table.columns[column]}={table.iloc[row, column]:g} must be 0 or more"
        raise InputError(problem, file=source, place=f"row {row + 1}")


def _asleep(table: pd.DataFrame) -> pd.DataFrame:
    """Fill intervals without any counts with zeros: perf counts nothing while a task sleeps."""
    events = table.drop(columns=TIME)
    missing = events.isna().to_numpy()
    nothing = missing.all(axis=1)[:, None] & ~missing.all(axis=0)
    return table.assign(**events.mask(nothing, 0.0)) if nothing.any() else table


def _without_gaps(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return the samples since the first began, the longest stretch of them without a gap, and a note."""
    times = table[TIME].to_numpy(np.float64)
    lasted = np.diff(times, prepend=0.0)
    usual = float(np.median(lasted))
    # a long time before the first interval is not a gap: perf may have been started with a delay
    gaps = np.flatnonzero(lasted[1:] > GAP * usual) + 1
    starts, stops = np.array([0, *gaps]), np.array([*gaps, len(table)])
    # the interval that ends a gap lasted unknown long
    begins = times[starts]
    begins[0] = times[0] - min(lasted[0], usual) if len(times) > 1 else 0.0
    longest = int(np.argmax(times[stops - 1] - begins))
    rows = table.iloc[starts[longest] + (longest > 0) : stops[longest]]
    stretch = rows.assign(**{TIME: rows[TIME] - begins[longest]}).reset_index(drop=True)
    whole = table.assign(**{TIME: table[TIME] - begins[0]})
    if not len(gaps):
        return whole, stretch, []
    worst = gaps[np.argmax(lasted[gaps])]
    told = (
        f"{source}: has a gap of {lasted[worst]:.1f} s before {times[worst]:.1f} s where intervals last "
        f"{usual:.1f} s; the {stretch[TIME].iloc[-1]:.1f} s without one are looked at"
    )
    return _filled(whole, gaps, usual), stretch, [told]


def _filled(table: pd.DataFrame, gaps: NDArray[np.intp], usual: float) -> pd.DataFrame:
    """Return the samples with an empty row inserted for each gap."""
    missing = pd.DataFrame({TIME: table[TIME].to_numpy()[gaps] - usual})
    return pd.concat([table, missing]).sort_values(TIME, ignore_index=True)
