"""Read the JSON of LNT, Conbench and Perfherder, which track many versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    decode_each,
    decode_json,
    name_with_parameters,
    read_content,
    read_json,
    standard_json,
)
from data.comparisons.formats.tools.recognition import Keys, tool_format
from data.comparisons.units import UNKNOWN, is_rate
from data.errors import InputError

#: The metrics of the test suite nts, in both formats: unit and better values.
_LNT_METRICS = {
    **dict.fromkeys(("execution_time", "exec"), ("s", "lower")),
    **dict.fromkeys(("compile_time", "compile"), ("s", "lower")),
    **dict.fromkeys(("mem_bytes", "mem"), ("B", "lower")),
    "code_size": ("B", "lower"),
    "score": (UNKNOWN, "higher"),
}
#: Keys of a test that are not metrics.
_NO_LNT_METRICS = frozenset(("name", "hash", "profile", "status", "info"))
#: Keys that may name the version; the first one present is used.
_LNT_VERSIONS = ("llvm_project_revision", "run_order", "revision", "git_sha", "commit", "tag")
_LntValue = float | list[float] | str | None


class _LntMachine(msgspec.Struct, rename="pascal"):
    name: str = UNKNOWN


class _LntRun(msgspec.Struct):
    end_time: str = msgspec.field(name="End Time", default="")
    info: dict[str, str] = msgspec.field(name="Info", default_factory=dict)


class _LntTest(msgspec.Struct, rename="pascal"):
    name: str
    data: list[float]


class _LntFile(msgspec.Struct):
    """A report: the first three fields belong to format 1, the others to format 2."""

    machine_1: _LntMachine | None = msgspec.field(name="Machine", default=None)
    run_1: _LntRun | None = msgspec.field(name="Run", default=None)
    tests_1: list[msgspec.Raw] = msgspec.field(name="Tests", default_factory=list)
    # int first: a whole number is a name
    machine: dict[str, int | _LntValue] = {}
    run: dict[str, int | _LntValue] = {}
    tests: list[msgspec.Raw] = []


@tool_format("lnt", Keys("machine", "run", "tests"), Keys("Machine", "Run", "Tests"), versions=True)
def read_lnt(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every metric of every test, by revision (else the file's stem).

    Operations are "test metric". Metrics with names of the suite nts are known: times are in s and sizes in
    B, where lower is better; of ``score``, higher is better. Others have no known unit, and the user's choice
    of better values, else higher is assumed, with a note. Keys such as hash and status, and texts, are
    ignored. InputError if a file cannot be read, or its JSON is invalid.
    """
    for path in source.files:
        content = read_json(path, _LntFile)
        run = content.run
        if not run and content.run_1:
            run = {**content.run_1.info, "end_time": content.run_1.end_time}
        machine = content.machine_1.name if content.machine_1 else str(content.machine.get("name", UNKNOWN))
        version = next((str(run[key]) for key in _LNT_VERSIONS if run.get(key)), path.stem)
        when = str(run.get("end_time") or run.get("start_time") or "")
        for test, metric, values in _lnt_values(content, path):
            if values and metric not in _NO_LNT_METRICS and not metric.endswith("status"):
                unit, better = _LNT_METRICS.get(metric, (UNKNOWN, None))
                better = better or source.better_direction()
                yield Measurement(f"{test} {metric}", values, unit, better, "", machine, 1, version, when)


def _lnt_values(content: _LntFile, path: Path) -> Iterator[tuple[str, str, list[float]]]:
    for _, entry in decode_each(content.tests_1, _LntTest, path, "Tests"):
        name, _, metric = entry.name.rpartition(".")
        yield name, metric, entry.data
    for _, test in decode_each(content.tests, dict[str, _LntValue], path, "tests"):
        name = str(test.get("name", ""))
        for metric, value in test.items():
            if isinstance(value, (list, float, int)):
                yield name, metric, value if isinstance(value, list) else [value]


_CONBENCH_UNITS = {"b/s": "bit/s", "i/s": "items/s", "b": "bit"}
#: Tags that are not parameters of a benchmark.
_NO_PARAMETER = frozenset(("name", "suite", "source"))


class _ConbenchStats(msgspec.Struct):
    data: list[float | str | None]
    unit: str


class _ConbenchMachine(msgspec.Struct):
    name: str = UNKNOWN


class _ConbenchCommit(msgspec.Struct):
    """The measured commit: ``commit`` in posted results, ``sha`` in those of the API."""

    commit: str | None = None
    sha: str | None = None
    timestamp: str | None = None


class _ConbenchResult(msgspec.Struct):
    tags: dict[str, str | int | float | bool | list[str] | None]
    stats: _ConbenchStats | None = None
    timestamp: str = ""
    machine_info: _ConbenchMachine | None = None
    github: _ConbenchCommit | None = None
    commit: _ConbenchCommit | None = None


class _ConbenchPage(msgspec.Struct):
    data: list[msgspec.Raw] | None = None


@tool_format(
    "conbench",
    Keys("tags", "stats.data"),
    Keys("data.tags", "data.stats.data"),
    Keys("tags", "run_id", "timestamp"),
    versions=True,
)
def read_conbench(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per result, with all its repetitions except missing values.

    Its version is the first 10 digits of the commit. The tag ``suite`` is the benchmark, ``name`` the
    operation; each is empty if it is missing. All other tags are its parameters, sorted, except ``source``
    and those that are empty, 0 or false. Higher is better for rates (see `is_rate`), else lower.
    Results without values are skipped, with a note. InputError if a file cannot be read or is invalid, or a
    value is not a number.
    """
    for path in source.files:
        content = standard_json(read_content(path))
        if content.lstrip()[:1] == b"[":
            results = decode_json(content, list[msgspec.Raw], path)
        else:
            page = decode_json(content, _ConbenchPage, path)
            results = [msgspec.Raw(content)] if page.data is None else page.data
        for place, result in decode_each(results, _ConbenchResult, path, "results"):
            tags, stats = result.tags, result.stats
            name = str(tags.get("name") or "")
            try:
                values = [float(value) for value in stats.data if value is not None] if stats else []
            except ValueError as exc:
                raise InputError(f"stats.data holds {str(exc)[-60:]}", file=path, place=place) from exc
            if stats is None or not values:
                source.note_omission(f"{place} ({name})", "it has no values")
                continue
            parameters = {key: tags[key] for key in sorted(tags) if key not in _NO_PARAMETER and tags[key]}
            commit = result.commit or result.github or _ConbenchCommit()
            yield Measurement(
                name_with_parameters(name, parameters),
                values,
                _CONBENCH_UNITS.get(stats.unit, stats.unit),
                "higher" if is_rate(stats.unit) else "lower",
                str(tags.get("suite") or ""),
                result.machine_info.name if result.machine_info else UNKNOWN,
                version=(commit.sha or commit.commit or "")[:10],
                when=commit.timestamp or result.timestamp,
            )


MARK = b"PERFHERDER_DATA:"
_LOWER = {True: "lower", False: "higher"}


class _HerderSubtest(msgspec.Struct):
    name: str
    value: float | None = None
    replicates: list[float] = []
    unit: str = ""
    lowerIsBetter: bool | None = None  # noqa: N815 - as Perfherder writes it


class _HerderSuite(_HerderSubtest):
    subtests: list[_HerderSubtest] = []
    extraOptions: list[str] = []  # noqa: N815


class _HerderData(msgspec.Struct):
    suites: list[msgspec.Raw]


class _HerderPoint(msgspec.Struct):
    value: float
    push_timestamp: str | float | None = None
    push_id: int | None = None
    revision: str | None = None


class _HerderSeries(msgspec.Struct):
    suite: str
    data: list[_HerderPoint]
    test: str = ""
    lower_is_better: bool = True
    measurement_unit: str | None = None


@tool_format(
    "perfherder",
    Keys("framework", "suites.name"),
    Keys("suite", "lower_is_better", "data.value"),
    re.compile("PERFHERDER_DATA:"),
    versions=True,
)
def read_perfherder(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the replicates (else the value) of every subtest, or of suites without subtests.

    The benchmark is the suite with its extra options, the operation the subtest, else the suite. Lower is
    better unless the file says otherwise. Suites and subtests without values are skipped, with a note. Files
    are JSON, or logs with JSON after ``PERFHERDER_DATA:``. JSON may also be a list of series: one value per
    point, by revision (12 digits), else by push. InputError if a file cannot be read or is invalid.
    """
    for path in source.files:
        content = read_content(path)
        # in a log, JSON follows a mark
        lines = [line.partition(MARK)[2] for line in content.splitlines() if MARK in line]
        for document in map(standard_json, lines or [content]):
            if document.lstrip()[:1] == b"[":
                parts = decode_json(document, list[msgspec.Raw], path)
                for _, series in decode_each(parts, _HerderSeries, path, ""):
                    yield from _series_measurements(series)
            else:
                suites = decode_json(document, _HerderData, path).suites
                for place, suite in decode_each(suites, _HerderSuite, path, "suites"):
                    yield from _suite_measurements(suite, place, source)


def _suite_measurements(suite: _HerderSuite, place: str, source: SourceFiles) -> Iterator[Measurement]:
    benchmark = " ".join([suite.name, *suite.extraOptions])
    for index, test in enumerate(suite.subtests or [suite]):
        values = test.replicates or ([] if test.value is None else [test.value])
        if not values:
            part = f"{place}.subtests[{index}]" if suite.subtests else place
            source.note_omission(f"{part} ({test.name})", "it has no values")
            continue
        lower = suite.lowerIsBetter if test.lowerIsBetter is None else test.lowerIsBetter
        unit = test.unit or suite.unit or UNKNOWN
        yield Measurement(test.name, values, unit, _LOWER[lower is not False], benchmark)


def _series_measurements(series: _HerderSeries) -> Iterator[Measurement]:
    name, better = series.test or series.suite, _LOWER[series.lower_is_better]
    unit = series.measurement_unit or UNKNOWN
    for point in series.data:
        when = point.push_timestamp
        version = (point.revision or "")[:12] or str(point.push_id or when or "")
        yield Measurement(name, (point.value,), unit, better, series.suite, version=version, when=when)
