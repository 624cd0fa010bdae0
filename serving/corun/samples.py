"""The first seconds of a run as they come from perf: what is wrong with them, and what can still be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.corun.validity import GAP
from data.errors import InputError

#: Seconds of samples below which nothing is answered: the fewest that the online model is judged at.
FEWEST = 0.4
#: Intervals end a little early or late.
_ROUNDING = 1e-6
TIME = "t_seconds"
#: Short names that perf also knows events by.
ALIASES = {
    "branches": "branch-instructions",
    "cs": "context-switches",
    "cycles": "cpu-cycles",
    "faults": "page-faults",
    "migrations": "cpu-migrations",
}


@dataclass(frozen=True)
class Looked:
    """Samples that can be used.

    Attributes
    ----------
    table : DataFrame
        ``t_seconds``, the end of each interval since the first one began, then the events of the model: the
        count within the interval; those that were never counted are absent.
    notes : tuple of str
        What was wrong, a line each, and what was done about it.
    """

    table: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """How long was sampled without a gap."""
        return float(self.table[TIME].iloc[-1])


def looked(table: pd.DataFrame, events: Sequence[str], source: str) -> Looked:
    """Look at the samples of one run.

    Parameters
    ----------
    table : DataFrame
        ``t_seconds`` and a column per event, as `data.measure.perf_stat.intervals` reads them.
    events : sequence of str
        Those that the model takes.
    source : str
        What the lines call the run: its file.

    Raises
    ------
    InputError
        If no event of the model was counted, a count is negative, time does not go on, or less than `FEWEST`
        seconds are left.
    """
    _require_time(table, source)
    known = {
        short: name
        for short, name in ALIASES.items()
        if short in table and name in events and name not in table
    }
    counted, notes = _counted(table.rename(columns=known), events, source)
    whole, cut = _without_gaps(counted, source)
    if whole[TIME].iloc[-1] < FEWEST - _ROUNDING:
        told = f"{cut[0].partition(': ')[2]}; " if cut else ""
        problem = f"{told}{whole[TIME].iloc[-1]:.2g} s of samples are too few; expected at least {FEWEST:g} s"
        raise InputError(problem, file=source)
    return Looked(whole, (*notes, *cut))


def _require_time(table: pd.DataFrame, source: str) -> None:
    times = table[TIME].to_numpy(np.float64)
    wrong = np.flatnonzero(~(np.diff(times, prepend=0.0) > 0))
    if len(wrong):
        place = int(wrong[0])
        before = f"after {times[place - 1]:g} s" if place else "above 0"
        raise InputError(
            f"t_seconds={times[place]:g} must be {before}", file=source, place=f"row {place + 1}"
        )


def _counted(table: pd.DataFrame, events: Sequence[str], source: str) -> tuple[pd.DataFrame, list[str]]:
    """Keep the events of the model; tell of those that are missing or were not always counted."""
    there = [event for event in events if event in table.columns]
    for event in there:
        negative = np.flatnonzero(table[event].to_numpy(np.float64) < 0)
        if len(negative):
            value, row = table[event].iloc[negative[0]], f"row {negative[0] + 1}"
            raise InputError(f"{event}={value:g} must be 0 or more", file=source, place=row)
    never = [event for event in there if table[event].isna().all()]
    usable = [event for event in there if event not in never]
    if not usable:
        problem = f"counts none of the {len(events)} events that the model takes ({some(events)})"
        raise InputError(problem, file=source)
    lacking = {"lacks": [event for event in events if event not in there], "did not count": never}
    notes = [
        f"{source}: {what} {len(names)} of the model's {len(events)} events ({some(names)})"
        for what, names in lacking.items()
        if names
    ]
    part = [event for event in usable if table[event].isna().any()]
    if part:
        notes.append(f"{source}: did not count {some(part)} in every interval; the others stand for these")
    return table[[TIME, *usable]], notes


def _without_gaps(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the longest stretch without a gap, its time counted from its own beginning."""
    times = table[TIME].to_numpy(np.float64)
    lasted = np.diff(times, prepend=0.0)
    usual = float(np.median(lasted))
    # perf may have been told to wait before the first interval, so a long one before it is no gap
    gaps = np.flatnonzero(lasted[1:] > GAP * usual) + 1
    starts, stops = np.array([0, *gaps]), np.array([*gaps, len(table)])
    # the interval that ends a gap lasted unknown long
    begins = times[starts]
    begins[0] = times[0] - min(lasted[0], usual) if len(times) > 1 else 0.0
    longest = int(np.argmax(times[stops - 1] - begins))
    rows = table.iloc[starts[longest] + (longest > 0) : stops[longest]]
    found = rows.assign(**{TIME: rows[TIME] - begins[longest]}).reset_index(drop=True)
    if not len(gaps):
        return found, []
    worst = gaps[np.argmax(lasted[gaps])]
    told = (
        f"{source}: has a gap of {lasted[worst]:.1f} s before {times[worst]:.1f} s where intervals last "
        f"{usual:.1f} s; the {found[TIME].iloc[-1]:.1f} s without one are looked at"
    )
    return found, [told]


def some(names: Sequence[str], most: int = 4) -> str:
    """List names, and how many more there are than so many."""
    more = len(names) - most
    listed = ", ".join(names[:most])
    return f"{listed} and {more} more" if more > 0 else listed
