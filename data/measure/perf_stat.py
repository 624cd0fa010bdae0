"""Counting events of a program with ``perf stat``, and reading what it prints interval by interval."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import InputError
from data.measure.child import Child, execute
from data.tables.blanks import MOST, UNCOUNTED

#: The column of time.
TIME = "t_seconds"
_TIME = re.compile(r"\s*(\d+\.\d+)(\D)")
_MODIFIER = re.compile(r":[a-zA-Z]+$")
#: The count and the event of a line, after its time.
_COUNT, _EVENT = 0, 2
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
        said, taken = output.with_suffix(".said"), (commands, acknowledge)
        self._perf = Child(command, "perf", said, environment=PLAIN, pass_fds=taken)
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
        """End counting; return the counts as `intervals` does."""
        self.close()
        return intervals(self.output)

    def close(self) -> None:
        """End perf, once."""
        if self._perf.code is None:
            self._perf.send(signal.SIGINT)
            self._perf.wait()
            self._perf.end()
            os.close(self._commands)
            os.close(self._acknowledged)


def intervals(path: Path, reserved: Container[str] = (TIME,)) -> pd.DataFrame:
    """Read what ``perf stat -I MS -x SEPARATOR`` printed.

    Parameters
    ----------
    path : Path
    reserved : container of str
        Names of columns beside which the counts will stand; no event may have one of them.

    Returns
    -------
    DataFrame
        One row per interval: ``t_seconds``, its end, then one column per event with the count within it;
        missing where perf has none (``<not counted>``, ``<not supported>``). task-clock is in ms, as perf
        has it.

    Raises
    ------
    InputError
        If the file cannot be read, a line is none of perf's, an event has a name that is reserved,
        a count is negative, infinite or beyond `MOST`, or there is no interval.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot be read ({exc})", file=path) from exc
    rows: dict[float, dict[str, float]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                _add(rows, line, reserved)
            except ValueError as exc:
                raise InputError(str(exc), file=path, line=number) from exc
    if not rows:
        raise InputError("holds no interval; expected the output of perf stat -I 200 -x,", file=path)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(TIME).sort_index().reset_index()


def _add(rows: dict[float, dict[str, float]], line: str, reserved: Container[str]) -> None:
    """Add what a line counts to its interval; ValueError if it is none of perf's."""
    begin = _TIME.match(line)
    fields = line[begin.end() :].split(begin[2]) if begin else []
    if begin is None or len(fields) <= _EVENT or not fields[_EVENT]:
        expected = "expected time,count,unit,event as perf stat -I 200 -x, prints them"
        raise ValueError(f"{line.strip()[:40]!r}: {expected}")
    event, told = _MODIFIER.sub("", fields[_EVENT]), fields[_COUNT]
    if event in reserved:
        raise ValueError(f'counts an event called "{event}", which is the name of a column of samples')
    within = rows.setdefault(_number(begin[1], TIME), {})
    count = np.nan if told in UNCOUNTED else _number(told, event)
    if event in within:
        raise ValueError(f'counts "{event}" twice in one interval')
    within[event] = count


def _number(told: str, name: str) -> float:
    try:
        found = float(told)
    except ValueError:
        raise ValueError(f'{name}="{told}" is not a count') from None
    if not 0 <= found < MOST:
        raise ValueError(f"{name}={told[:40]} must be 0 or more, and less than 2**64")
    return found
