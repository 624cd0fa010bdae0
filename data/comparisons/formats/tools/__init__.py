"""Formats of benchmark tools, each with its reader."""

from __future__ import annotations

import re

from data.comparisons.formats.tools import (
    benchmark_json,
    criterion,
    csv_tables,
    phoronix,
    printed,
    run_json,
    tracking_json,
)
from data.comparisons.formats.tools.recognition import Columns, Keys, ToolFormat

#: In the order of recognition: formats with more specific signs come first.
_ALL = (
    ToolFormat("run-json", run_json.read_run_json, Keys("results.configurations", "results.operation")),
    ToolFormat(
        "pytest-benchmark",
        benchmark_json.read_pytest_benchmark,
        Keys("machine_info", "benchmarks.stats", "benchmarks.fullname"),
    ),
    ToolFormat(
        "google-benchmark",
        benchmark_json.read_google_benchmark,
        Keys("context", "benchmarks.real_time"),
        Keys("context.library_build_type", "benchmarks"),
    ),
    ToolFormat("pyperf", benchmark_json.read_pyperf, Keys("benchmarks.runs", "version")),
    ToolFormat(
        "asv",
        tracking_json.read_asv,
        Keys("commit_hash", "result_columns", "results"),
        folder="*/*-*.json",
        versions=True,
    ),
    ToolFormat(
        "hyperfine",
        benchmark_json.read_hyperfine,
        Keys("results.command", "results.mean"),
        Keys("results.command", "results.times"),
        Keys("results.command", "results.measurements"),
    ),
    ToolFormat("jmh", benchmark_json.read_jmh, Keys("benchmark", "mode", "primaryMetric")),
    ToolFormat(
        "phoronix",
        phoronix.read_phoronix,
        Keys("results.*.results", "results.*.scale"),
        Keys("title", "systems", "results"),
        root=phoronix.ROOT,
        versions=True,
    ),
    ToolFormat(
        "lnt",
        tracking_json.read_lnt,
        Keys("machine", "run", "tests"),
        Keys("Machine", "Run", "Tests"),
        versions=True,
    ),
    ToolFormat(
        "conbench",
        tracking_json.read_conbench,
        Keys("tags", "stats.data"),
        Keys("data.tags", "data.stats.data"),
        Keys("tags", "run_id", "timestamp"),
        versions=True,
    ),
    ToolFormat(
        "perfherder",
        tracking_json.read_perfherder,
        Keys("framework", "suites.name"),
        Keys("suite", "lower_is_better", "data.value"),
        re.compile("PERFHERDER_DATA:"),
        versions=True,
    ),
    ToolFormat(
        "criterion",
        criterion.read_criterion,
        Columns(("sample_measured_value",), ("iteration_count",)),
        Keys("reason", "id", "measured_values", lines=True),
        Keys("reason", "group_name", "benchmarks", lines=True),
        folder=criterion.NEW,
    ),
    ToolFormat("perf-stat", printed.read_perf_stat, Keys("counter-value", "event", lines=True), printed.LINE),
    ToolFormat("go-bench", printed.read_go_bench, printed.RESULT),
    ToolFormat("sysbench", printed.read_sysbench, printed.BEGIN),
    ToolFormat(
        "long-csv",
        csv_tables.read_long_csv,
        Columns((csv_tables.VALUE,), (csv_tables.OPERATION,)),
        versions=True,
    ),
    ToolFormat("otava-csv", csv_tables.read_otava_csv, Columns(csv_tables.TIMES), versions=True),
)
TOOLS = {tool.name: tool for tool in _ALL}
