"""Count events of a program with ``perf stat``, per interval, and read its output."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import InputError
from data.measure.child import Child, execute
from data.tables.documents import MAX_COUNT, UNCOUNTED

#: Name of the column of time.
TIME = "t_seconds"
_TIME = re.compile(r"\s*(?P<time>\d+\.\d+)(?P<separator>\D)")
#: Positions of the count, its unit and the event in a line, after its time.
_COUNT, _UNIT, _EVENT = 0, 1, 2
#: Events that are times of a processor.
_CLOCK = re.compile(r"(task|cpu)-clock\b")
#: Parts of a millisecond by unit; perf before 5.0 prints milliseconds without a unit.
_PER_MILLISECOND = {"": 1.0, "msec": 1.0, "ms": 1.0, "nsec": 1e6, "ns": 1e6, "usec": 1e3, "us": 1e3}
_PER_MILLISECOND |= {"sec": 1e-3, "s": 1e-3}
#: Accepted names of the column of time.
TIMES = (TIME, "time", "seconds", "t", "time_s")
#: Missing counts in tables of other programs than perf.
_MISSING = ("", "nan", "na", "null", "none")
EXPECTED = (
    "expected the output of perf stat -I 200 with -x, or -j, or a CSV whose header has t_seconds and events"
)


class CountedEvent(NamedTuple):
    """The count of one event in one interval, as text from the file; tables have no unit."""

    line: int
    time: str
    event: str
    value: str
    unit: str = ""


def read_intervals(path: Path, reserved: Container[str] = (TIME,)) -> pd.DataFrame:
    """Return a row per interval in a file, with ``t_seconds`` and events, as `parse_intervals` does.

    `reserved` are names that no event may have. InputError, too, if the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot be read ({exc})", file=path) from exc
    return parse_intervals(text, path, reserved)


def parse_intervals(text: str, source: Path | str, reserved: Container[str] = (TIME,)) -> pd.DataFrame:
    """Return a row per interval, by time: its end ``t_seconds``, and a count per event, NaN if not counted.

    `text` is the output of ``perf stat -I`` with ``-x`` or ``-j``, or a table separated by commas, semicolons
    or tabs, with a column of time in seconds (one of `TIMES`, such as "time") and one per event; its blank
    cells become NaN. Events are named as in the text. task-clock and cpu-clock are in ms, converted if perf
    prints another unit of time; units of other events are ignored. Lines that begin with ``#`` or have only a
    metric are ignored. `source` is named in errors. InputError if the text has another format, no interval or
    several runs, an event occurs twice in an interval or has a name in `reserved` (other columns of the
    caller's table), a clock has an unknown unit, or a count or time is negative or 2**64 or more.
    """
    numbered = list(enumerate(text.splitlines(), 1))
    starts = [number for number, line in numbered if line.startswith("# started on")]
    if starts[1:]:
        problem = "begins another run, as perf stat --append does; expected a single run"
        raise InputError(problem, file=source, line=starts[1])
    lines = [(number, line) for number, line in numbered if line.lstrip()[:1] not in {"", "#"}]
    rows: dict[float, dict[str, float]] = {}
    try:
        for counted in _counted_events(lines):
            _add_count(rows, counted, reserved)
    except InputError as exc:
        raise exc.with_file(source) from exc
    if not rows:
        raise InputError("holds no interval; expected the output of perf stat -I 200 -x,", file=source)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(TIME).reset_index()


def _add_count(rows: dict[float, dict[str, float]], counted: CountedEvent, reserved: Container[str]) -> None:
    number, time, event, count, unit = counted
    if event in reserved:
        problem = f'counts an event called "{event}", which is the name of a column of samples'
        raise InputError(problem, line=number)
    end = _parse_count(number, time, TIME)
    latest = next(reversed(rows), end)
    if end < latest:
        problem = f"{TIME}={end:.9g} is before {latest:.9g}: the file has several runs; expected a single one"
        raise InputError(problem, line=number)
    interval = rows.setdefault(end, {})
    if event in interval:
        raise InputError(f'counts "{event}" twice in one interval', line=number)
    interval[event] = np.nan if count in UNCOUNTED else _parse_count(number, count, event)
    if unit != "msec" and _CLOCK.match(event):
        if unit not in _PER_MILLISECOND:
            raise InputError(f'{event} has the unit "{unit[:40]}"; expected msec', line=number)
        interval[event] /= _PER_MILLISECOND[unit]


def _counted_events(lines: list[tuple[int, str]]) -> Iterator[CountedEvent]:
    if not lines:
        return iter(())
    first = lines[0][1].lstrip()
    if first.startswith("{"):
        return _json_events(lines)
    return _separated_events(lines) if _TIME.match(first) else _table_events(lines)


def _separated_events(lines: Iterable[tuple[int, str]]) -> Iterator[CountedEvent]:
    for number, line in lines:
        begin = _TIME.match(line)
        fields = line[begin.end() :].split(begin["separator"]) if begin else []
        if any(fields) and not any(fields[: _EVENT + 1]):
            continue  # only a metric
        if begin is None or len(fields) <= _EVENT or not fields[_EVENT]:
            expected = "expected time,count,unit,event as perf stat -I 200 -x, prints them"
            raise InputError(f"{line.strip()[:40]!r}: {expected}", line=number)
        yield CountedEvent(number, begin["time"], fields[_EVENT], fields[_COUNT], fields[_UNIT])


def _json_events(lines: Iterable[tuple[int, str]]) -> Iterator[CountedEvent]:
    for number, line in lines:
        try:
            fields = json.loads(line)
            if "metric-value" in fields and not fields.get("event") and not fields.get("counter-value"):
                continue  # only a metric
            time, event, count = (str(fields[key]) for key in ("interval", "event", "counter-value"))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
            expected = 'expected {"interval", "counter-value", "event"} as perf stat -I 200 -j prints them'
            raise InputError(f"{line.strip()[:40]!r}: {expected}", line=number) from exc
        yield CountedEvent(number, time, event, count.strip(), str(fields.get("unit") or ""))


def _table_events(lines: list[tuple[int, str]]) -> Iterator[CountedEvent]:
    """Yield the cells of a table whose header has a column of time and one per event."""
    head = lines[0][1]
    separator = max(",;\t", key=head.count)
    reader = csv.reader((line for _, line in lines), delimiter=separator)
    try:
        columns, *rows = [[cell.strip() for cell in row] for row in reader]
    except csv.Error as exc:
        raise InputError(f"is not a table ({exc})", line=lines[reader.line_num - 1][0]) from exc
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


def _parse_count(line: int, text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InputError(f'{name}="{text[:40]}" is not a count', line=line) from None
    # float64 rounds the largest counts of 64 bits to 2**64
    if not number >= 0 or (number >= MAX_COUNT and Decimal(text) >= MAX_COUNT):
        raise InputError(f"{name}={text[:40]} must be 0 or more, and less than 2**64", line=line)
    return number


_MODIFIER = re.compile(r":[a-zA-Z]+$")
#: Seconds to wait until perf ends, which takes some time with many events.
PATIENCE = 60.0
#: Environment for numbers without locale-specific separators.
PLAIN = {"LC_ALL": "C"}


def uncountable_events(events: Sequence[str]) -> dict[str, str]:
    """Return the reason for each event that perf cannot count here; InputError if perf is not installed."""
    reasons = {}
    for event in events:
        done = execute(["perf", "stat", "-x,", "-e", event, "true"], "events", environment=PLAIN)
        if done.code:
            reasons[event] = "is unknown to perf"
        elif UNCOUNTED[1] in done.output:
            reasons[event] = UNCOUNTED[1].strip("<>")
    return reasons


class Counting:
    """``perf stat -I`` attached to stopped programs (`pids`) and their children.

    It counts events between `start_counting` and `stop_counting`, every `interval` seconds, and writes them
    to the file `output`. InputError if perf is not installed.
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

    def start_counting(self) -> None:
        """Start counting; InputError if perf has ended."""
        self._send_command(b"enable\n")

    def wait_until_ready(self) -> None:
        """Wait until perf is ready to count; InputError if it has ended."""
        self._send_command(b"ping\n")

    def _send_command(self, command: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._commands, command)
        if not os.read(self._acknowledged, 16):
            self._perf.wait()
            raise InputError(f"perf did not begin to count ({self._perf.last_line})")

    def stop_counting(self) -> pd.DataFrame:
        """Stop counting; return a row per interval: ``t_seconds``, and counts by event without modifiers."""
        self.close()
        return read_intervals(self.output).rename(columns=lambda name: _MODIFIER.sub("", name))

    def close(self) -> None:
        """End perf; later calls do nothing."""
        if self._perf.code is None:
            self._perf.send_signal(signal.SIGINT)
            self._perf.wait(PATIENCE)
            self._perf.end()
            os.close(self._commands)
            os.close(self._acknowledged)
