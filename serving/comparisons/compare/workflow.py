"""A GitHub workflow for the benchmarks of a repository, and its file of acknowledgements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from data.errors import InputError
from data.tables.files import write_text
from serving.comparisons.compare.acknowledging import DEFAULT

#: The workflow file, relative to the repository.
WORKFLOW = Path(".github/workflows/perfjudge.yml")
#: Directories that are not searched for benchmarks.
_SKIPPED = {".git", ".tox", ".venv", "venv", "node_modules", "target", "build", "dist"}
#: Most bytes of a file that are searched.
_SEARCHED = 1 << 20


@dataclass(frozen=True)
class BenchmarkTool:
    """A benchmark tool, how it is found in a repository, and how it measures."""

    name: str
    patterns: tuple[str, ...]  # of names of files
    mention: str  # what one of these files contains; empty: the file alone suffices
    prepare: str  # command that installs what the measurement needs; empty: nothing
    measure: str  # command that writes `results`
    results: str  # file or directory
    repeat: str  # command that measures again into {output}; empty: none

    def is_used_in(self, root: Path) -> bool:
        """Return whether a file of the directory matches one of the patterns and has the mention."""
        paths = (path for pattern in self.patterns for path in sorted(root.rglob(pattern)))
        return any(
            path.is_file() and (not self.mention or self.mention in _read_start(path))
            for path in paths
            if not _SKIPPED.intersection(path.relative_to(root).parts)
        )


def _read_start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_SEARCHED).decode(errors="replace")


TOOLS = (
    BenchmarkTool(
        "pytest-benchmark",
        ("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "tox.ini"),
        "pytest-benchmark",
        "pip install . pytest-benchmark",
        "pytest --benchmark-only --benchmark-json=results.json",
        "results.json",
        "pytest --benchmark-only --benchmark-json={output}",
    ),
    BenchmarkTool(
        "asv",
        ("asv.conf.json",),
        "",
        "pip install asv && asv machine --yes",
        "asv run 'HEAD^!'",
        ".asv/results",
        "",
    ),
    BenchmarkTool("criterion", ("Cargo.toml",), "criterion", "", "cargo bench", "target/criterion", ""),
    BenchmarkTool(
        "go",
        ("*_test.go",),
        "func Benchmark",
        "",
        "go test -run '^$' -bench . -count 6 ./... > results.txt",
        "results.txt",
        "sh -c \"go test -run '^$' -bench . -count 6 ./... > {output}\"",
    ),
    BenchmarkTool(
        "jmh",
        ("pom.xml", "build.gradle", "build.gradle.kts"),
        "jmh",
        "mvn -q package",
        "java -jar target/benchmarks.jar -rf json -rff results.json",
        "results.json",
        "java -jar target/benchmarks.jar -rf json -rff {output}",
    ),
    BenchmarkTool(
        "hyperfine",
        ("Makefile", "justfile", "*.sh"),
        "hyperfine",
        "sudo apt-get install -y hyperfine",
        "hyperfine --export-json results.json './program'  # the command to measure",
        "results.json",
        "hyperfine --export-json {output} './program'",
    ),
)


def write_workflow(root: Path) -> Sequence[tuple[str, Path]]:
    """Write the workflow and the file of acknowledgements of a repository; return (name, path) pairs.

    The workflow has a job per tool that `root` uses. Each tool has a pair of its name and the path of the
    workflow, relative to `root`. A missing file of acknowledgements is written, and the last pair is
    ("acknowledgements", its relative path); an existing one is kept, without a pair. Raises InputError if no
    tool is found, or the workflow exists; then nothing is written.
    """
    found = [tool for tool in TOOLS if tool.is_used_in(root)]
    if not found:
        names = ", ".join(tool.name for tool in TOOLS)
        raise InputError(f"has no benchmarks of a known tool: expected {names}", file=root)
    workflow, acknowledged = root / WORKFLOW, root / DEFAULT
    if workflow.exists():
        raise InputError("exists already; delete it to write it again", file=workflow)
    written = [(tool.name, WORKFLOW) for tool in found]
    write_text(workflow, _HEAD + "".join(map(_job_text, found)))
    if not acknowledged.exists():
        write_text(acknowledged, _ACKNOWLEDGED)
        written.append(("acknowledgements", DEFAULT))
    return written


_HEAD = """\
# Compares the benchmarks of a pull request with those of its base. The action keeps the results of the
# default branch (40 runs) as baseline and history.
name: benchmarks
on:
  pull_request:
  push:
    branches: [main]
permissions:
  contents: read
  pull-requests: write
jobs:
"""
_ACKNOWLEDGED = """\
# Intended changes, which do not fail a build, and operations that are too unstable to judge. An entry:
# - operation: sort*
#   reason: sorts stably since 2.1
#   by: anna
#   until: 2.2
acknowledged: []
unstable: []
"""


def _action_ref() -> str:
    """Return the tag of the action that installs this version, or its branch if this is no release."""
    release = re.fullmatch(r"\d+(\.\d+)*", version("perfjudge"))
    return "main" if release is None else f"v{release[0]}"


def _job_text(tool: BenchmarkTool) -> str:
    steps = [
        "- uses: actions/checkout@v4",
        "  with:",
        "    fetch-depth: 0",
        *([f"- run: {tool.prepare}"] if tool.prepare else []),
        f"- run: {tool.measure}",
        f"- uses: OWNER/perfjudge@{_action_ref()}  # the owner of the copy that you use",
        "  with:",
        f"    name: {tool.name}",
        f"    target: {tool.results}",
    ]
    if tool.repeat:
        steps += ["    arguments: --fail-on-regression --confirm 3", f"    confirm: {tool.repeat}"]
    lines = [f"  {tool.name}:", "    runs-on: ubuntu-latest", "    steps:", *(f"      {s}" for s in steps)]
    return "\n".join(lines) + "\n"
