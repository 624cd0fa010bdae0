"""Formats of benchmark tools, each with its reader."""

from __future__ import annotations

import re

from data.comparisons.formats.tools import (
    asv,
    conbench,
    criterion,
    google_benchmark,
    hyperfine,
    jmh,
    lnt,
    long_csv,
    otava_csv,
    perfherder,
    phoronix,
    printed,
    python_tools,
    run_json,
)
from data.comparisons.formats.tools.recognition import Columns, Keys, ToolFormat

#: In the order of recognition: formats with more specific signs come first.
_ALL = (
    ToolFormat("run-json", run_json.read, Keys("results.configurations", "results.operation")),
    ToolFormat(
        "pytest-benchmark",
        python_tools.read_pytest_benchmark,
        Keys("machine_info", "benchmarks.stats", "benchmarks.fullname"),
    ),
    ToolFormat(
        "google-benchmark",
        google_benchmark.read,
        Keys("context", "benchmarks.real_time"),
        Keys("context.library_build_type", "benchmarks"),
    ),
    ToolFormat("pyperf", python_tools.read_pyperf, Keys("benchmarks.runs", "version")),
    ToolFormat(
        "asv", asv.read, Keys("commit_hash", "result_columns", "results"), folder="*/*-*.json", versions=True
    ),
    ToolFormat(
        "hyperfine",
        hyperfine.read,
        Keys("results.command", "results.mean"),
        Keys("results.command", "results.times"),
        Keys("results.command", "results.measurements"),
    ),
    ToolFormat("jmh", jmh.read, Keys("benchmark", "mode", "primaryMetric")),
    ToolFormat(
        "phoronix",
        phoronix.read,
        Keys("results.*.results", "results.*.scale"),
        Keys("title", "systems", "results"),
        root=phoronix.ROOT,
        versions=True,
    ),
    ToolFormat(
        "lnt", lnt.read, Keys("machine", "run", "tests"), Keys("Machine", "Run", "Tests"), versions=True
    ),
    ToolFormat(
        "conbench",
        conbench.read,
        Keys("tags", "stats.data"),
        Keys("data.tags", "data.stats.data"),
        Keys("tags", "run_id", "timestamp"),
        versions=True,
    ),
    ToolFormat(
        "perfherder",
        perfherder.read,
        Keys("framework", "suites.name"),
        Keys("suite", "lower_is_better", "data.value"),
        re.compile("PERFHERDER_DATA:"),
        versions=True,
    ),
    ToolFormat(
        "criterion",
        criterion.read,
        Columns(("sample_measured_value",), ("iteration_count",)),
        Keys("reason", "id", "measured_values", lines=True),
        Keys("reason", "group_name", "benchmarks", lines=True),
        folder=criterion.NEW,
    ),
    ToolFormat("perf-stat", printed.read_perf_stat, Keys("counter-value", "event", lines=True), printed.LINE),
    ToolFormat("go-bench", printed.read_go_bench, printed.RESULT),
    ToolFormat("sysbench", printed.read_sysbench, printed.BEGIN),
    ToolFormat("long-csv", long_csv.read, Columns((long_csv.VALUE,), (long_csv.OPERATION,)), versions=True),
    ToolFormat("otava-csv", otava_csv.read, Columns(otava_csv.TIMES), versions=True),
)
TOOLS = {tool.name: tool for tool in _ALL}
