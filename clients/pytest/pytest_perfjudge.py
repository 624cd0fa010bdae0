"""The option ``pytest --perfjudge BASE``: judge the results of pytest-benchmark against BASE.

The command ``perfjudge`` judges, in a process and usually in an environment of its own, so that a session
imports nothing of perfjudge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--perfjudge BASE`` to the options of pytest-benchmark: the path of a baseline (default: None)."""
    parser.getgroup("benchmark").addoption(
        "--perfjudge",
        metavar="BASE",
        type=Path,
        help="Judge the benchmarks of this session against BASE, a file that --benchmark-json wrote or a"
        " directory of such files; a regression fails the session.",
    )


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """With ``--perfjudge``, let pytest-benchmark write results to a temporary file unless a file is named.

    The option ``--benchmark-json`` is inserted at the start of `args`; the file is deleted after the session.
    pytest.UsageError if pytest-benchmark is not active, the path after ``--perfjudge`` does not exist, or
    ``--benchmark-json`` names a file of it.
    """
    options = early_config.known_args_namespace
    if options.perfjudge is None:
        return
    if not early_config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError("--perfjudge needs the plugin pytest-benchmark")
    if not options.perfjudge.exists():
        raise pytest.UsageError(
            f"--perfjudge: {options.perfjudge} does not exist;"
            f" `pytest --benchmark-json={options.perfjudge}` on the base writes it"
        )
    base, written = options.perfjudge.resolve(), options.benchmark_json
    if written is not None and written.exists() and base in {written.resolve(), written.resolve().parent}:
        raise pytest.UsageError(
            f"--benchmark-json={written} would overwrite results of --perfjudge {options.perfjudge};"
            " it must name another file"
        )
    if written is None:
        directory = Path(tempfile.mkdtemp(prefix="perfjudge-"))
        early_config.add_cleanup(lambda: shutil.rmtree(directory))
        args[:0] = [f"--benchmark-json={directory / 'results.json'}"]


def pytest_configure(config: pytest.Config) -> None:
    """With ``--perfjudge``, judge when the session ends; a regression or an error fails the session.

    A session without benchmarks fails, too. Nothing is judged with --collect-only, in workers of xdist, or
    if the session was interrupted or collected no test.
    """
    options = config.option
    if options.perfjudge is not None and not options.collectonly and not hasattr(config, "workerinput"):
        config.pluginmanager.register(BenchmarkJudge(options.perfjudge), "perfjudge-judge")


class BenchmarkJudge:
    """Judges the results that pytest-benchmark has written, against the runs that were in `base` before."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.earlier = _runs_in(base)
        self.has_results = False
        self.report = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_json(self) -> None:
        """Note that pytest-benchmark writes results, so that a file of an earlier session is not judged."""
        self.has_results = True

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Judge, and fail the session on a regression, an error, or without results."""
        if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        status, self.report = self._compare(session.config)
        if status:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the table of verdicts."""
        if self.report:
            terminalreporter.section("perfjudge")
            terminalreporter.write(self.report)

    def _compare(self, config: pytest.Config) -> tuple[int, str]:
        """Return the exit status of ``perfjudge compare``, and its table and messages."""
        if not self.has_results:
            return 2, "no benchmark ran; pytest-benchmark measures nothing with --benchmark-disable or -n\n"
        places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        program = shutil.which("perfjudge", path=places)
        if program is None:
            return 2, "the command perfjudge is not installed; see `uv tool install`\n"
        # the session may have saved its results beside its base
        bases = [self.base] if _runs_in(self.base) == self.earlier else self.earlier
        sides = [part for path in bases for part in ("--base", str(path))]
        command = [program, "compare", "--fail-on-regression", *sides]
        command += ["--target", str(config.option.benchmark_json)]
        done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
        return done.returncode, done.stdout + done.stderr


def _runs_in(base: Path) -> list[Path]:
    paths = sorted(base.iterdir()) if base.is_dir() else [base]
    return [path for path in paths if not path.name.startswith(".")]
