import json
import os
import signal
import subprocess
import sys

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from tests.commands import PROGRAM, perfjudge, perfjudge_process
from tests.imports import ROOT
from tests.system.conftest import Listening, fitted, output_of, refused


def test_printing_help_imports_no_heavy_library():
    loaded = output_of(sys.executable, "-c", "import sys; import serving.cli; print(*sys.modules)").split()
    assert not {"numpy", "pandas", "sklearn", "mlflow", "fastapi", "lxml", "pydantic"} & set(loaded)


@pytest.mark.parametrize("group", ["", "labels", "irup", "matrices", "corun", "experiments"])
def test_a_missing_command_shows_descriptions_in_80_columns_uncut(group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown, without = perfjudge(*group.split(), "--help"), perfjudge(*group.split())
    commands = shown.stdout.partition("Commands:")[2]
    assert commands
    assert "..." not in commands
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.rstrip("\n") == shown.stdout.rstrip("\n")
    assert without.stderr.count("\n") > 5


@pytest.mark.parametrize("classifier", [LogisticRegression(), RandomForestClassifier(20, random_state=0)])
def test_a_model_with_arrays_judges_without_its_heavy_libraries(classifier, request_file, tmp_path):
    fitted(classifier).write(tmp_path / "model")
    script = "import sys; from serving.cli import run_command; run_command(); print(*sys.modules)"
    judging = ("judge", request_file, "--model", tmp_path / "model", "--json")
    shown, _, loaded = output_of(sys.executable, "-c", script, *judging).rstrip().rpartition("\n")
    assert [verdict["verdict"] for verdict in json.loads(shown)["verdicts"]] == ["pass", "fail"]
    assert not {"sklearn", "skops", "scipy.special", "xgboost", "mlflow", "pandas"} & set(loaded.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("judge absent.json --model models:/nobody@champion", "nobody"),
        ("judge data/raw/matrices", 'no champion of "regression-matrix"'),
        ("judge data/raw/matrices --model docs", "docs/model.skops"),
        ("judge data/raw/matrices --retrospective", "--retrospective is not for"),
        ("judge data/raw/matrices --why", "--why is not for"),
        ("trace absent.json --why", "--why needs --input"),
        # without a champion, the command that makes one is named
        ("serve", "dvc repro"),
        ("serve --min-effect-size 100", "'100' is not a percentage"),
        ("import jmh docs/samples/formats/jmh/base.json -o x", "two are needed, the older one"),
        ("import tables docs/samples/run.csv -o x --include y", "--include is not for"),
    ],
)
def test_bad_usage_ends_with_one_line_and_exit_2(arguments, named, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    refused(perfjudge(*arguments.split()), named)


def test_a_port_in_use_is_named(listening, model_directory):
    port = listening.url.rsplit(":", 1)[-1]
    refused(perfjudge_process("serve", "--model", model_directory, "--port", port), port)


def test_a_direction_missing_in_files_can_be_given(model_directory):
    judging = ("judge", "docs/samples/results", "--model", model_directory, "--json")
    assumed, given = (
        json.loads(perfjudge(*judging, *better).stdout) for better in ([], ["--better", "lower"])
    )
    assert ("higher is assumed" in assumed["notes"][0], given["notes"]) == (True, [])
    before, after = ([one["verdict"] for one in answer["verdicts"]] for answer in (assumed, given))
    assert before != after


def test_a_regression_exits_with_1_only_on_request(request_file, model_directory):
    judging = ("judge", request_file, "--model", model_directory)
    options = ([], ["--fail-on-regression"], ["--fail-on-regression", "--min-effect-size", "30"])
    assert [perfjudge(*judging, *chosen).returncode for chosen in options] == [0, 1, 0]


def test_a_configuration_of_one_file_only_is_named(tmp_path, model_directory):
    result = {"benchmark": "b", "operation": "x", "machine": "m", "unit": "1/s", "better": "higher"}
    before, after = (tmp_path / name for name in ("before.json", "after.json"))
    for path, threads in ((before, [1, 2]), (after, [1])):
        of_each = [{"threads": number, "samples": [0.99, 0.995, 1.0, 1.005, 1.01]} for number in threads]
        path.write_text(json.dumps({"results": [{**result, "configurations": of_each}]}))

    def compared(target, *options):
        done = perfjudge("compare", before, target, "--model", model_directory, *options)
        return done.returncode, done.stdout

    code, told = compared(after, "--format", "markdown", "--fail-on-regression")
    assert (code, "- vanished: b/x/m with 2 threads" in told) == (0, True)
    code, told = compared(after, "--json", "--fail-on-missing")
    answer, note = json.loads(told), f"1 configuration only in {before}: b/x/m with 2 threads"
    assert (code, answer["notes"], answer["verdicts"][0]["verdict"]) == (1, [note], "pass")
    (missing,) = answer["missing"]
    assert (missing["kind"], missing["only_in"], missing["threads"]) == ("configuration", "baseline", 2)
    assert compared(before, "--fail-on-missing")[0] == 0


@pytest.mark.parametrize(
    ("closed", "arguments"),
    [
        ("stdout", "judge {input} --model {model} --json --fail-on-regression"),
        ("stdout", "import comparison-json {input} -o {tables}"),
        ("stdout", "judge --help"),
        ("stderr", "judge missing.json --model {model}"),
    ],
)
def test_a_pipe_closed_by_its_reader_gives_status_141(
    closed, arguments, request_file, model_directory, tmp_path, monkeypatch
):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    given = arguments.format(input=request_file, model=model_directory, tables=tmp_path / "tables").split()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: pipe}
        done = subprocess.run([PROGRAM, *given], **streams, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout or b"", done.stderr or b"") == (141, b"", b"")


@pytest.mark.parametrize(
    "command",
    [
        ("-c", "from serving.cli import main; main()", "judge", "missing.json"),
        ("-m", "data.collect", "missing.yaml", "-o", "out"),
    ],
)
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-"])
def test_an_error_has_its_status_without_standard_error(command, closed):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *command]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_a_server_started_with_interrupts_ignored(model_directory, workers):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = Listening("--model", model_directory, "--workers", workers, program=str(PROGRAM))
    finally:
        signal.signal(signal.SIGINT, before)
    with server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.stop()[1]
