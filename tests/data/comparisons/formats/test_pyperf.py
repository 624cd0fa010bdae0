"""Files that pyperf itself writes here."""

import json
import sys

from tests.data.comparisons.formats.reading import ran, run, written

SCRIPT = """
import pyperf
runner = pyperf.Runner()
runner.bench_func("sort", sorted, [3, 1, 2])
"""


def test_the_values_of_all_processes_are_samples_without_warm_ups(tmp_path):
    script, out = written(tmp_path / "b.py", SCRIPT), tmp_path / "out.json"
    ran(sys.executable, script, "-q", "-p", "2", "-n", "3", "-w", "1", "-l", "10", "-o", out)
    runs = json.loads(out.read_text())["benchmarks"][0]["runs"]
    values = [value for one in runs for value in one.get("values", [])]
    assert run(out, "pyperf") == {("pyperf", "sort", "unknown", 1, "s", "lower"): values}
    assert len(values) == 6


def test_memory_of_pyperf_is_in_bytes(tmp_path):
    runs = [{"values": [4096, 8192]}, {"warmups": [[1, 2.0]]}]
    content = {"version": "1.0", "metadata": {"name": "peak", "unit": "byte"}, "benchmarks": [{"runs": runs}]}
    path = written(tmp_path / "a.json", content)
    assert run(path, "pyperf") == {("pyperf", "peak", "unknown", 1, "B", "lower"): [4096, 8192]}
