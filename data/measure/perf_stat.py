"""Counting events of a program with ``perf stat``, interval by interval."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

from data.errors import InputError
from data.measure.child import Child, execute
from data.measure.intervals import read
from data.tables.blanks import UNCOUNTED

_MODIFIER = re.compile(r":[a-zA-Z]+$")
#: Seconds that perf may take to end: with many events it takes some.
PATIENCE = 60.0
#: Numbers without any country's separators.
PLAIN = {"LC_ALL": "C"}


def uncountable(events: Sequence[str]) -> dict[str, str]:
    """Try to count each of `events` here; return why not by event, for those that perf cannot count.

    Raises
    ------
    InputError
        If perf is not installed.
    """
    return {event: why for event in events if (why := _why_not(event))}


def _why_not(event: str) -> str:
    done = execute(["perf", "stat", "-x,", "-e", event, "true"], "events", environment=PLAIN)
    if done.code:
        return "is unknown to perf"
    return next((mark.strip("<>") for mark in UNCOUNTED[1:] if mark in done.output), "")


class Counting:
    """``perf stat -I`` attached to a stopped program; counts from `enable` to `stop`.

    Parameters
    ----------
    pids : sequence of int
        The program, with what it has started; what they start from now on is counted, too.
    events : sequence of str
    interval : float
        Seconds.
    output : Path
    """

    def __init__(self, pids: Sequence[int], events: Sequence[str], interval: float, output: Path) -> None:
        self.output = output
        commands, self._commands = os.pipe()
        self._acknowledged, acknowledge = os.pipe()
        command = [
            *("perf", "stat", "-I", str(round(interval * 1000)), "-x,", "-o", str(output)),
            *("-D", "-1", "--control", f"fd:{commands},{acknowledge}"),
            *("-e", ",".join(events), "-p", ",".join(map(str, pids))),
        ]
        self._perf = Child(command, "perf", environment=PLAIN, pass_fds=(commands, acknowledge))
        os.close(commands)
        os.close(acknowledge)

    def enable(self) -> None:
        """Begin to count; InputError if perf ended instead."""
        self._ask(b"enable\n")

    def ready(self) -> None:
        """Wait until perf can begin to count; InputError if it ended instead."""
        self._ask(b"ping\n")

    def _ask(self, command: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._commands, command)
        if not os.read(self._acknowledged, 16):
            self._perf.wait()
            raise InputError(f"perf did not begin to count ({self._perf.last_line})")

    def stop(self) -> pd.DataFrame:
        """End counting; return the counts as `data.measure.intervals.read` does, without perf's modifiers."""
        self.close()
        return read(self.output).rename(columns=lambda name: _MODIFIER.sub("", name))

    def close(self) -> None:
        """End perf, once."""
        if self._perf.code is None:
            self._perf.send(signal.SIGINT)
            self._perf.wait(PATIENCE)
            self._perf.end()
            os.close(self._commands)
            os.close(self._acknowledged)
