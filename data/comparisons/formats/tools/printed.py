"""Read the text output of ``perf stat``, Go benchmarks and sysbench."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    name_with_parameters,
    parse_number,
    read_json_lines,
    read_lines,
)
from data.comparisons.formats.tools.recognition import Keys, tool_format
from data.comparisons.pair import list_names
from data.comparisons.units import is_rate
from data.errors import InputError

#: A number; with a decimal comma, as some locales print it, if the next delimiter is another character.
_NUMBER = r"[\d.]+(?:,\d+(?=%?[;|\t]))?"
_COUNT = rf"{_NUMBER}(?:[eE][-+]?\d+)?|<not (?:counted|supported)>"
#: A line of counts, with any delimiter: optional interval or processor, then count, unit, event and optional
#: control group. A fraction follows the count if a decimal comma is also the delimiter.
LINE = re.compile(
    rf"^\s*(?:(?P<time>\d+(?:\.\d{{6,}}|,\d{{6,}}(?=[;|\t])))(?P<s>[,;|\t]))?"
    rf"(?:(?P<where>(?:[SDCNL]|CLS|ID)\d+(?:-(?:[SDCNL]|CLS|ID)\d+)*|(?P<cpu>CPU\d+))"
    rf"(?(cpu)|(?:[,;|\t]\d+)?)[,;|\t])?"
    rf"(?P<count>{_COUNT})(?P<x>[,;|\t])(?:(?P<fraction>\d+)(?P=x))?"
    rf"(?P<unit>[^,;|\t]*)(?P=x)(?P<event>(?![\d.]+(?P=x))[^,;|\t]+)(?P=x)"
    rf"(?:(?P<cgroup>[^,;|\t\d][^,;|\t]*)(?P=x))?(?:(?P<spread>{_NUMBER})%(?P=x))?\d+(?P=x)"
)
#: The rest of a line whose spread has a decimal comma, if the part before that was taken for the run time.
_CUT_SPREAD = re.compile(r"\d+%")
#: The rest of a line with decimal commas between commas. If its count has a unit, it has decimals, too; they
#: were taken for the count if the number of processors is missing.
_CUT_SHARE = re.compile(r"\d{1,3},\d\d(?:,|$)")
_UNITS = {"msec": "ms", "": "count"}


class _PerfCount(msgspec.Struct, rename={"count": "counter-value", "spread": "variance"}):
    """A count as perf writes it in JSON; `spread` in percent if the count is a mean of several runs."""

    count: str | float = ""
    event: str = ""
    unit: str = ""
    spread: float | None = None
    cpu: str | None = None
    core: str | None = None
    cache: str | None = None
    cluster: str | None = None
    die: str | None = None
    socket: str | None = None
    node: str | None = None
    thread: str | None = None
    cgroup: str | None = None


#: Unit and event; the part of the machine or of the load that a count is for (at most one); control group.
_PLACES = ("cpu", "core", "cache", "cluster", "die", "socket", "node", "thread")
_SERIES = attrgetter("unit", "event", *_PLACES, "cgroup")


@tool_format("perf-stat", Keys("counter-value", "event", lines=True), LINE)
def read_perf_stat(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per operation: a value per run or interval, or, with ``-r``, only their mean.

    A mean is a ``summary`` without spread. The unit of events without one is "count". The operation is the
    event, followed by the processor, core, cache, cluster, die, socket, node, thread or control group if
    there is a count for each. perf does not define which values are better; unless the user does, fewer
    events are better. Other text, computed metrics and events that were not counted are ignored. InputError
    if a count or JSON is invalid, commas separate fields of which one has a decimal comma, or a file cannot
    be read.
    """
    better = source.measure.better or "lower"
    series: dict[tuple[str, ...], tuple[array[float], dict[str, float]]] = {}
    for path in source.files:
        for line, text, decoded in read_json_lines(path, _PerfCount):
            if decoded is not None:
                counter = decoded
                # as with -x; JSON has the number alone
                counter.cpu = counter.cpu and f"CPU{counter.cpu.removeprefix('CPU')}"
            elif match := LINE.match(text):
                is_cut = match["x"] == "," and match["unit"] and _CUT_SHARE.match(text, match.end())
                if match["fraction"] or is_cut or _CUT_SPREAD.match(text, match.end()):
                    problem = "has commas in and between numbers; use another separator (perf stat -x';')"
                    raise InputError(problem, file=path, line=line)
                spread = float(match["spread"].replace(",", ".")) if match["spread"] else None
                where, cgroup = match["where"], match["cgroup"]
                counter = _PerfCount(
                    match["count"], match["event"], match["unit"], spread, where, cgroup=cgroup
                )
            else:
                continue  # a computed metric, or output of the measured program
            if not counter.event or counter.count == "" or str(counter.count).startswith("<"):
                continue  # not counted, or a computed metric in JSON
            value = parse_number(str(counter.count).replace(",", "."), path, line, counter.event)
            values, summary = series.setdefault(_SERIES(counter), (array("d"), {}))
            if counter.spread is None:
                values.append(value)
            else:
                # the spread is the standard error of the mean, of an unknown number of runs
                summary["mean"] = value
    for (unit, *names), (values, summary) in series.items():
        name = " ".join(filter(None, names))
        if not values:
            note = "perf stat -r leaves only means, which cannot be judged; use --append or -I"
            source.problems.add_note(f"{source.path}: {note}")
        yield Measurement(name, values, _UNITS.get(unit, unit), better, summary=summary or None)


RESULT = re.compile(r"^(Benchmark\S*)\s+(\d+)\s+(\S+ \S+.*)$")
_PROCESSORS = re.compile(r"-([1-9]\d{0,5})$")
#: The end of a unit such as ``B/op`` or ``p99-ns``; others, such as ``-s`` and ``-min``, are ambiguous.
_COST = re.compile(r"/op$|-[num\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]s$")
#: A line such as ``Unit ns/op better=lower``, which packages may print.
_DIRECTION = re.compile(r"^Unit (\S+) .*\bbetter=(lower|higher)")


@tool_format("go-bench", RESULT)
def read_go_bench(source: SourceFiles) -> Iterator[Measurement]:
    """Yield one value per line and unit, each with its number of threads.

    That is GOMAXPROCS, the number after the last ``-`` of a name, else 1. Numbers above 999,999 belong to the
    name. ``pkg:`` names the benchmark of the lines after it, ``Unit NAME ... better=higher`` the direction of
    a unit in them. For other units, higher is better for rates (see `is_rate`), lower if they end in ``/op``
    or ``-ns``, ``-us``, ``-ms``; else the user's choice is used, or higher is assumed, with a note. An
    operation's name has its unit at the end, except ``ns/op``, and does not have ``Benchmark`` at the
    beginning. Other lines are ignored; InputError if a number is invalid or a file cannot be read.
    """
    assumed = dict[str, str]()
    for path in source.files:
        package, directions = "", dict[str, str]()
        for line, text in read_lines(path):
            if text.startswith("pkg:"):
                package = text.removeprefix("pkg:").strip()
            elif match := _DIRECTION.match(text):
                directions[match[1]] = match[2]
            elif match := RESULT.match(text):
                full_name, fields = match[1].removeprefix("Benchmark"), match[3].split()
                processors = _PROCESSORS.search(full_name)
                name = _PROCESSORS.sub("", full_name) or match[1]
                threads = int(processors[1]) if processors else 1
                for number, unit in zip(fields[::2], fields[1::2], strict=False):
                    value = parse_number(number, path, line, unit)
                    usual = "higher" if is_rate(unit) else "lower" if _COST.search(unit) else None
                    better = directions.get(unit) or usual or source.measure.better
                    if better is None:
                        assumed[unit] = better = "higher"
                    operation = name if unit == "ns/op" else f"{name} {unit}"
                    yield Measurement(operation, (value,), unit, better, package, threads=threads)
    if assumed:
        source.problems.assume_higher(source.path, f"for {list_names([*assumed])}; --better says otherwise")


BEGIN = re.compile(r"^sysbench \d+\.\d+")
_THREADS = re.compile(r"^Number of threads:\s*(\d+)")
#: Parameters of a test.
_PARAMETERS = re.compile(r"^\s*(Prime numbers limit|block size|operation|scope|Block size):\s*(\S+)")
_N = r"([\d.]+)"
#: Totals of a run: pattern, operation, unit and better values.
_TOTALS = (
    (re.compile(rf"^\s*events per second:\s*{_N}"), "events", "events/s", "higher"),
    (re.compile(rf"^\s*events/s \(eps\):\s*{_N}"), "events", "events/s", "higher"),
    (re.compile(rf"^Total operations: .*\({_N} per second\)"), "operations", "op/s", "higher"),
    (re.compile(rf"MiB transferred \({_N} MiB/sec\)"), "transferred", "MiB/s", "higher"),
    (re.compile(rf"^\s*transactions:\s.*\({_N} per sec"), "transactions", "transactions/s", "higher"),
    (re.compile(rf"^\s*queries:\s.*\({_N} per sec"), "queries", "queries/s", "higher"),
    (re.compile(rf"^\s*reads/s:\s*{_N}"), "reads", "reads/s", "higher"),
    (re.compile(rf"^\s*writes/s:\s*{_N}"), "writes", "writes/s", "higher"),
    (re.compile(rf"^\s*fsyncs/s:\s*{_N}"), "fsyncs", "fsyncs/s", "higher"),
    (re.compile(rf"^\s*read, MiB/s:\s*{_N}"), "read", "MiB/s", "higher"),
    (re.compile(rf"^\s*written, MiB/s:\s*{_N}"), "written", "MiB/s", "higher"),
    (re.compile(rf"^\s*avg:\s*{_N}"), "latency", "ms", "lower"),
)
_KINDS = {name: (unit, better) for _, name, unit, better in _TOTALS}
#: Values per interval (``--report-interval``), which replace the total of the same operation.
_INTERVALS = (
    (re.compile(rf"\beps: {_N}"), "events"),
    (re.compile(rf"\btps: {_N}"), "transactions"),
    (re.compile(rf"\bqps: {_N}"), "queries"),
    (re.compile(rf"\] {_N} MiB/sec"), "transferred"),
)


@dataclass
class _SysbenchRun:
    threads: int = 1
    parameters: dict[str, str] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def iterate_measurements(self) -> Iterator[Measurement]:
        for name, (unit, better) in _KINDS.items():
            values = self.intervals.get(name) or ([self.totals[name]] if name in self.totals else [])
            if values:
                operation = name_with_parameters(name, self.parameters)
                yield Measurement(operation, values, unit, better, threads=max(self.threads, 1))


@tool_format("sysbench", BEGIN)
def read_sysbench(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rates and the mean latency (ms) of every run, with its number of threads.

    Operations are named like ``events`` or ``latency``, with the test's parameters in brackets; runs with
    equal parameters and threads are repetitions. Higher rates and lower latencies are better. Rates per
    interval, if printed, replace the run's. Other lines are ignored; InputError if a number is invalid or a
    file cannot be read.
    """
    for path in source.files:
        run = _SysbenchRun()
        for line, text in read_lines(path):
            if BEGIN.match(text):
                yield from run.iterate_measurements()
                run = _SysbenchRun()
            _add_line(run, text, path, line)
        yield from run.iterate_measurements()


def _add_line(run: _SysbenchRun, text: str, path: Path, line: int) -> None:
    if match := _THREADS.match(text):
        run.threads = int(match[1])
    elif match := _PARAMETERS.match(text):
        run.parameters[match[1].lower().replace(" ", "_")] = match[2]
    elif text.startswith("["):
        for pattern, name in _INTERVALS:
            if match := pattern.search(text):
                run.intervals.setdefault(name, []).append(parse_number(match[1], path, line, name))
    else:
        for pattern, name, _, _ in _TOTALS:
            if match := pattern.search(text):
                run.totals.setdefault(name, parse_number(match[1], path, line, name))
