"""Keeping a processor for what is measured: pinned to it, and before all others on it, where we may."""

from __future__ import annotations

import os
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
        self._before = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
        self.settings: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            if self._processor is not None:
                os.sched_setaffinity(0, {self._processor})
        except OSError as exc:
            self.settings["processor"] = f"any: {self._processor} is not to be had ({exc})"
        else:
            self.settings["processor"] = "any" if self._processor is None else str(self._processor)
        self.settings["nice"] = str(os.nice(0))
        try:
            if self._nice is not None:
                _prefer(self._nice)
        except OSError as exc:
            self.settings["nice"] += f": {self._nice} is not allowed ({exc})"
        else:
            self.settings["nice"] = str(os.nice(0))
        return self

    def __exit__(self, *_: object) -> None:
        affinity, nice = self._before
        os.sched_setaffinity(0, affinity)
        if os.getpriority(os.PRIO_PROCESS, 0) != nice:
            _prefer(nice)


def _prefer(nice: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    # Where sessions are groups to the scheduler, niceness counts inside them only.
    if AUTOGROUP.exists():
        AUTOGROUP.write_text(str(nice))
