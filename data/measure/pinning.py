"""Keeping a processor for what is measured: pinned to it, and before all others on it, where we may."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

AUTOGROUP = Path("/proc/self/autogroup")


class Pinned:
    """While the block runs, this process and what it starts run on one processor, at a priority.

    Parameters
    ----------
    processor : int or None
        None = where the kernel likes.
    nice : int or None
        As ``nice`` takes it: -20 comes before all others; None = as it is.

    Attributes
    ----------
    settings : dict
        What became of it: the processor, the niceness, and why not, where we may not.
    """

    def __init__(self, processor: int | None, nice: int | None) -> None:
        self._processor, self._nice = processor, nice
        self._before = os.sched_getaffinity(0), os.nice(0), _session()
        self.settings: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.settings["processor"] = "any"
        if self._processor is not None:
            try:
                os.sched_setaffinity(0, {self._processor})
                self.settings["processor"] = str(self._processor)
            except OSError as exc:
                self.settings["processor"] += f": {self._processor} is not to be had ({exc})"
        self.settings["nice"] = str(os.nice(0))
        if self._nice is not None:
            try:
                _prefer(self._nice, None if self._before[2] is None else self._nice)
                self.settings["nice"] = str(self._nice)
            except OSError as exc:
                self.settings["nice"] += f": {self._nice} is not allowed ({exc})"
        return self

    def __exit__(self, *_: object) -> None:
        affinity, nice, session = self._before
        os.sched_setaffinity(0, affinity)
        if self._nice is not None:
            # who has become nicer may not be allowed to go back
            with suppress(OSError):
                _prefer(nice, session)


def _session() -> int | None:
    """Return the niceness of our session where sessions are groups to the scheduler, otherwise None."""
    # kernels without such groups lack the file; a process without a group reads nothing in it
    said = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    return int(said[-1]) if said else None


def _prefer(nice: int, session: int | None) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    # where sessions are groups, niceness counts inside them only
    if session is not None:
        AUTOGROUP.write_text(str(session))
