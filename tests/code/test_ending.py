"""Unexpected errors of commands, stages and the server end in one line."""

import io
import re
import sys
import tempfile
import time
import tomllib
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from data.comparisons.labels.database import StoreAddress
from data.errors import InputError
from data.parallel import Compute, side_by_side, with_progress_bar
from data.stage import EXTRAS, exit_on_error
from serving import report
from serving.cli import run_command
from serving.http.api import create_app
from tests.asking import ask
from tests.imports import ROOT

LINE = re.compile(r"(?:perfjudge: )?unexpected (.*); the trace is in (.*)\n")


def divide(*_):
    return 1 / 0


def recurse(*_):
    return recurse()


def raising(error):
    def fail(*_):
        raise error

    return fail


FAILING = [
    ("ZeroDivisionError: division by zero", divide),
    ("RecursionError: maximum recursion depth exceeded", recurse),
    ("MemoryError", raising(MemoryError)),
    ("ValueError: two lines and", raising(ValueError("two\nlines and \ud800"))),
    ("KeyError: 'xxx", raising(KeyError("x" * 10_000))),
]


def ended(command):
    with pytest.raises(SystemExit) as end:
        exit_on_error(command)
    return end.value.code


@pytest.fixture
def traces(tmp_path, monkeypatch):
    directory = tmp_path / "traces"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def require_line_and_trace(said, traces, told, fail):
    what, path = LINE.fullmatch(said).groups()
    assert what.startswith(told)
    assert len(what) < 400
    assert list(traces.iterdir()) == [Path(path)]
    trace = Path(path).read_text(encoding="utf-8")
    assert trace.startswith("Traceback")
    assert f"in {fail.__name__}" in trace


def test_a_crashing_command_or_report_exits_with_70_and_a_trace_file(traces, monkeypatch, capsys):
    monkeypatch.setattr("serving.answering.judge_source", lambda *_, **__: divide())
    monkeypatch.setattr("serving.corun.page.page", divide)
    for end in (lambda: run_command(["judge", "x"]), lambda: report.main(["corun"])):
        assert end() == 70
        said = capsys.readouterr()
        assert said.out == ""
        require_line_and_trace(said.err, traces, "ZeroDivisionError", divide)
        next(traces.iterdir()).unlink()


@pytest.mark.parametrize(("told", "fail"), FAILING)
def test_a_crashing_stage_exits_with_70_and_a_trace_file(told, fail, traces, capsys):
    assert ended(fail) == 70
    require_line_and_trace(capsys.readouterr().err, traces, told, fail)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("x=1 is wrong", file="a.csv", line=3), "a.csv:3: x=1 is wrong\n"),
        (FileNotFoundError(2, "No such file or directory", "in/a.parquet"),
         "in/a.parquet: No such file or directory\n"),
    ],
    ids=["input", "file"],
)  # fmt: skip
def test_bad_stage_input_exits_with_2_without_a_trace(error, line, traces, capsys):
    assert ended(raising(error)) == 2
    assert capsys.readouterr().err == line
    assert list(traces.iterdir()) == []


def test_an_unwritable_trace_file_is_mentioned_in_the_message(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert ended(divide) == 70
    said = capsys.readouterr().err
    assert said.startswith("unexpected ZeroDivisionError: division by zero; the trace could not be written (")
    assert said.count("\n") == 1


def test_interrupts_and_exits_are_not_caught(traces):
    for passing in (KeyboardInterrupt, SystemExit):
        with pytest.raises(passing):
            exit_on_error(raising(passing))
    assert list(traces.iterdir()) == []


@pytest.mark.parametrize(("told", "fail"), FAILING[:3])
def test_unexpected_http_errors_are_problems_with_a_logged_instance(told, fail, caplog):
    app = create_app({})

    @app.get("/fails")
    def fails():
        fail()

    answer, again = ask(app, *[("GET", "/fails")] * 2, raising=False)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert (problem["status"], problem["title"]) == (500, "Internal Server Error")
    assert told.partition(":")[0] not in answer.text
    logged, _ = (record for record in caplog.records if record.name == "perfjudge")
    assert logged.getMessage().startswith(f"{problem['instance']}: GET /fails: unexpected {told}")
    assert f"in {fail.__name__}" in caplog.text
    assert again.json()["instance"] != problem["instance"]


NEEDS_EXTRA = {
    "psycopg": lambda: StoreAddress.from_address("postgresql://anna@nowhere/labels").new_engine(),
    "dask": lambda: side_by_side(abs, [1, 2], Compute(1, "tcp://nowhere:8786"), "sums"),
}


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch, capsys):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    monkeypatch.setitem(sys.modules, package, None)
    assert ended(NEEDS_EXTRA.get(package, lambda: import_module(package))) == 2
    line = capsys.readouterr().err
    command = f"pip install 'perfjudge[{EXTRAS[package]}]'"
    assert line.startswith(f"the package {package} is not installed; install it with: {command}")
    assert EXTRAS[package] in extras


@pytest.mark.parametrize("after", [0.0, 0.2, 60.0])
def test_a_progress_bar_appears_if_the_first_item_takes_long(after, monkeypatch):
    screen, began = io.StringIO(), time.monotonic()
    monkeypatch.setattr("rich.console.Console", partial(Console, file=screen, force_terminal=True, width=80))

    def awaited():
        while after < 60 and "matrices" not in screen.getvalue():
            assert time.monotonic() < began + 20
            time.sleep(0.01)
        yield from range(3)

    assert list(with_progress_bar(awaited(), 3, "matrices", after)) == [0, 1, 2]
    assert after == 60 or time.monotonic() - began >= after
    assert ("matrices" in screen.getvalue()) == (after < 60)
