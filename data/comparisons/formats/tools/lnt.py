"""Read reports of LNT as submitted, format 1 and 2; a directory of them is a series."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, each, json_of, moment
from data.comparisons.units import UNKNOWN

#: The metrics of the test suite nts, in either format: their unit, and which values are better.
_METRICS = {
    **dict.fromkeys(("execution_time", "exec"), ("s", "lower")),
    **dict.fromkeys(("compile_time", "compile"), ("s", "lower")),
    **dict.fromkeys(("mem_bytes", "mem"), ("B", "lower")),
    "code_size": ("B", "lower"),
    "score": (UNKNOWN, "higher"),
}
#: Keys of a test that are not metrics.
_NONE = frozenset(("name", "hash", "profile", "status", "info"))
#: Keys that may name the version; the first one present is used.
_VERSIONS = ("llvm_project_revision", "run_order", "revision", "git_sha", "commit", "tag")
Value = float | list[float] | str | None


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
    machine: dict[str, Value] = {}
    run: dict[str, Value] = {}
    tests: list[msgspec.Raw] = []


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every metric of every test, by revision."""
    for path in source.files:
        content = json_of(path, _LntFile)
        run = content.run or _told(content.run_1)
        machine = content.machine_1.name if content.machine_1 else str(content.machine.get("name", UNKNOWN))
        version = next((str(run[key]) for key in _VERSIONS if run.get(key)), path.stem)
        when = moment(str(run.get("end_time") or run.get("start_time") or ""))
        common = ("", machine, 1, version, when)
        for _, one in each(content.tests_1, _LntTest, path, "Tests"):
            name, _, metric = one.name.rpartition(".")
            yield from _measured(source, name, metric, one.data, common)
        for _, test in each(content.tests, dict[str, Value], path, "tests"):
            for metric, value in test.items():
                if isinstance(value, float | int | list):
                    values = value if isinstance(value, list) else [value]
                    yield from _measured(source, str(test.get("name", "")), metric, values, common)


def _told(run: _LntRun | None) -> dict[str, Value]:
    return {**run.info, "end_time": run.end_time} if run is not None else {}


def _measured(
    source: SourceFiles, test: str, metric: str, values: list[float], common: tuple[str, str, int, str, str]
) -> Iterator[Measurement]:
    if metric in _NONE or metric.endswith("status") or not values:
        return
    unit, better = _METRICS.get(metric, (UNKNOWN, None))
    yield Measurement(f"{test} {metric}", values, unit, source.better(better), *common)
