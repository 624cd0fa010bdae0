"""Counting events of a program with ``perf stat``, interval by interval."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import InputError
from data.measure.child import Child, execute
from data.tables.documents import MAX_COUNT, UNCOUNTED

#: The column of time.
TIME = "t_seconds"
_TIME = re.compile(r"\s*(?P<time>\d+\.\d+)(?P<separator>\D)")
#: The count and the event of a line, after its time.
_COUNT, _EVENT = 0, 2
#: What a column of time may be called.
TIMES = (TIME, "time", "seconds", "t", "time_s")
#: What tables that are not perf's have where nothing was counted.
_MISSING = ("", "nan", "na", "null", "none")
EXPECTED = (
    "expected the output of perf stat -I 200 with -x, or -j, or a CSV whose header has t_seconds and events"
)


class CountedEvent(NamedTuple):
    """What one event came to in one interval, as it is written."""

    line: int
    time: str
    event: str
    told: str


def read(path: Path, reserved: Container[str] = (TIME,)) -> pd.DataFrame:
    """Read the intervals of a run.

    Parameters
    ----------
    reserved : container of str
        Names of columns beside which the counts will stand; no event may have one of them.

    Returns
    -------
    DataFrame
        One row per interval: ``t_seconds``, its end, then a column per event with the count within it, by the
        names in the file; missing where nothing was counted. task-clock is in ms, as perf has it.

    Raises
    ------
    InputError
        If the file cannot be read or has no such form, an event has a reserved name, a count is negative,
        infinite or beyond `MAX_COUNT`, or there is no interval.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot be read ({exc})", file=path) from exc
    return parsed(text, path, reserved)


def parsed(text: str, source: Path | str, reserved: Container[str] = (TIME,)) -> pd.DataFrame:
    """Return what `read` does, of the text of a file; raises as it."""
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    rows: dict[float, dict[str, float]] = {}
    try:
        for told in _counted(lines):
            _add(rows, told, reserved)
    except InputError as exc:
        raise exc.within(source) from exc
    if not rows:
        raise InputError("holds no interval; expected the output of perf stat -I 200 -x,", file=source)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(TIME).sort_index().reset_index()


def _add(rows: dict[float, dict[str, float]], told: CountedEvent, reserved: Container[str]) -> None:
    """Add what an event came to to its interval."""
    number, time, event, count = told
    if event in reserved:
        problem = f'counts an event called "{event}", which is the name of a column of samples'
        raise InputError(problem, line=number)
    within = rows.setdefault(_number(number, time, TIME), {})
    if event in within:
        raise InputError(f'counts "{event}" twice in one interval', line=number)
    within[event] = np.nan if count in UNCOUNTED else _number(number, count, event)


def _counted(lines: list[tuple[int, str]]) -> Iterator[CountedEvent]:
    if not lines:
        return iter(())
    first = lines[0][1].lstrip()
    if first.startswith("{"):
        return _of_json(lines)
    return _separated(lines) if _TIME.match(first) else _named(lines)


def _separated(lines: Iterable[tuple[int, str]]) -> Iterator[CountedEvent]:
    for number, line in lines:
        begin = _TIME.match(line)
        fields = line[begin.end() :].split(begin["separator"]) if begin else []
        if begin is None or len(fields) <= _EVENT or not fields[_EVENT]:
            expected = "expected time,count,unit,event as perf stat -I 200 -x, prints them"
            raise InputError(f"{line.strip()[:40]!r}: {expected}", line=number)
        yield CountedEvent(number, begin["time"], fields[_EVENT], fields[_COUNT])


def _of_json(lines: Iterable[tuple[int, str]]) -> Iterator[CountedEvent]:
    for number, line in lines:
        try:
            told = json.loads(line)
            yield CountedEvent(
                number, str(told["interval"]), str(told["event"]), str(told["counter-value"]).strip()
            )
        except (ValueError, TypeError, LookupError) as exc:
            expected = 'expected {"interval", "counter-value", "event"} as perf stat -I 200 -j prints them'
            raise InputError(f"{line.strip()[:40]!r}: {expected}", line=number) from exc


def _named(lines: list[tuple[int, str]]) -> Iterator[CountedEvent]:
    """Yield the cells of a table: a header with a column of time and one per event."""
    head = lines[0][1]
    separator = max(",;\t", key=head.count)
    columns, *rows = [
        [cell.strip() for cell in row] for row in csv.reader((line for _, line in lines), delimiter=separator)
    ]
    time = next((columns.index(name) for name in TIMES if name in columns), None)
    if time is None or columns == [columns[time]]:
        raise InputError(f"{head.strip()[:40]!r}: {EXPECTED}", line=lines[0][0])
    for (number, _), row in zip(lines[1:], rows, strict=False):
        if len(row) != len(columns):
            raise InputError(f"has {len(row)} cells; expected {len(columns)} as in the header", line=number)
        for place, (event, count) in enumerate(zip(columns, row, strict=True)):
            if place != time:
                blank = count.casefold() in _MISSING
                yield CountedEvent(number, row[time], event, UNCOUNTED[0] if blank else count)


def _number(line: int, told: str, name: str) -> float:
    try:
        found = float(told)
    except ValueError:
        raise InputError(f'{name}="{told[:40]}" is not a count', line=line) from None
    if not 0 <= found < MAX_COUNT:
        raise InputError(f"{name}={told[:40]} must be 0 or more, and less than 2**64", line=line)
    return found


_MODIFIER = re.compile(r":[a-zA-Z]+$")
#: Seconds that perf may take to end: with many events it takes some.
PATIENCE = 60.0
#: Numbers without any country's separators.
PLAIN = {"LC_ALL": "C"}


def uncountable(events: Sequence[str]) -> dict[str, str]:
    """Return by event why perf cannot count it here; nothing for the others. InputError without perf."""
    return {event: why for event in events if (why := _why_not(event))}


def _why_not(event: str) -> str:
    done = execute(["perf", "stat", "-x,", "-e", event, "true"], "events", environment=PLAIN)
    if done.code:
        return "is unknown to perf"
    return next((mark.strip("<>") for mark in UNCOUNTED[1:] if mark in done.output), "")


class Counting:
    """``perf stat -I`` attached to a stopped program, with what it starts; counts from `enable` to `stop`."""

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
        """End counting; return the counts as `data.measure.perf_stat.read` does, without perf's modifiers."""
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
