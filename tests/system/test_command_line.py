import json
import os
import signal
import subprocess
import sys

import pytest

from tests.commands import PROGRAM, perfjudge, perfjudge_process
from tests.imports import ROOT
from tests.system.conftest import Listening, comparison, refused


@pytest.fixture
def judged(request_file, model_directory):
    """Judge the equal and the slower comparison with further arguments."""
    return lambda *more: perfjudge("judge", request_file, "--model", model_directory, *more)


def printed(script, *arguments):
    """Return what a process prints that runs a script, without the end of the line."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_printing_help_imports_no_heavy_library():
    loaded = printed("import sys; import serving.cli; print(*sys.modules)").split()
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


@pytest.mark.parametrize("model", ["model_directory", "forest_directory"])
def test_a_model_with_arrays_judges_without_its_heavy_libraries(model, request, request_file):
    script = "import sys; from serving.cli import run_command; run_command(); print(*sys.modules)"
    directory = request.getfixturevalue(model)
    told = printed(script, "judge", request_file, "--model", directory, "--json")
    shown, _, loaded = told.rpartition("\n")
    assert [verdict["verdict"] for verdict in json.loads(shown)["verdicts"]] == ["pass", "fail"]
    assert not {"sklearn", "skops", "scipy.special", "xgboost", "mlflow", "pandas"} & set(loaded.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["judge"], "INPUT"),
        (["nonsense"], "nonsense"),
        (["judge", "x", "--format", "pdf"], "pdf"),
        (["serve", "--port", "x"], "port"),
        (["judge", "absent.json", "--model", "absent"], "absent"),
        (["judge", "absent.json", "--model", "models:/nobody@champion"], "nobody"),
        (["serve", "--model", "absent"], "absent"),
        # nobody may ask a server without a token, if others reach it
        (["serve", "--host", "0.0.0.0", "--port", "0"], "--tokens FILE"),
        # without a champion, the command that makes one is named
        (["serve"], "dvc repro"),
        (["judge", "x", "--min-effect-size", "much"], "'much' is not a percentage"),
        (["serve", "--min-effect-size", "100"], "'100' is not a percentage"),
        (["import", "jmh", "docs/samples/formats/jmh/base.json", "-o", "x"], "two are needed, the older one"),
        (["judge", "data/raw/matrices", "--min-effect-size", "1"], "--min-effect-size is not for"),
        (["judge", "data/raw/matrices", "--retrospective"], "--retrospective is not for"),
        (["judge", "data/raw/matrices", "--why"], "--why is not for"),
        (["trace", "absent.json", "--why"], "--why needs --input"),
        (["import", "tables", "docs/samples/run.csv", "-o", "x", "--include", "y"], "--include is not for"),
    ],
)
def test_bad_usage_ends_with_one_line_and_exit_2(arguments, named, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    refused(perfjudge(*arguments), named)


def test_a_port_in_use_is_named(listening, model_directory):
    port = listening.url.rsplit(":", 1)[-1]
    refused(perfjudge_process("serve", "--model", model_directory, "--port", port), port)


def test_a_regression_exits_with_1_only_on_request(judged, tmp_path, model_directory):
    fine = tmp_path / "fine.json"
    fine.write_text(json.dumps({"comparisons": [comparison("same")]}))
    assert judged("--json").returncode == 0
    assert judged("--fail-on-regression").returncode == 1
    assert perfjudge("judge", fine, "--model", model_directory, "--fail-on-regression").returncode == 0


def test_a_direction_missing_in_xml_can_be_given(figure, tmp_path, model_directory):
    source = tmp_path / "figure.xml"
    source.write_text(figure)
    judging = ("judge", source, "--model", model_directory)
    noted = perfjudge(*judging, "--json")
    (note,) = json.loads(noted.stdout)["notes"]
    assert note.startswith(f"{source} does not say which values are better; higher is assumed")
    assert perfjudge(*judging, "--format", "xml").stderr == f"note: {note}\n"
    turned = json.loads(perfjudge(*judging, "--json", "--better", "lower").stdout)
    assert turned["notes"] == []
    assert [v["verdict"] for v in turned["verdicts"]] == ["pass", "pass"]


def run_of(path, *threads):
    samples = [0.99, 0.995, 1.0, 1.005, 1.01]
    result = {"benchmark": "b", "operation": "x", "machine": "m", "unit": "1/s", "better": "higher"}
    configurations = [{"threads": number, "samples": samples} for number in threads]
    path.write_text(json.dumps({"results": [{**result, "configurations": configurations}]}))
    return path


def test_a_configuration_of_one_file_only_is_named(tmp_path, model_directory):
    before, after = run_of(tmp_path / "before.json", 1, 2), run_of(tmp_path / "after.json", 1)
    note = f"1 configuration only in {before}: b/x/m with 2 threads"

    def compared(target, *options):
        done = perfjudge("compare", before, target, "--model", model_directory, *options)
        return done.returncode, done.stdout

    code, told = compared(after, "--format", "markdown", "--fail-on-regression")
    assert (code, "- vanished: b/x/m with 2 threads" in told) == (0, True)
    code, told = compared(after, "--json", "--fail-on-missing")
    answer = json.loads(told)
    assert (code, answer["notes"], answer["verdicts"][0]["verdict"]) == (1, [note], "pass")
    assert answer["missing"] == [
        {"kind": "configuration", "only_in": "baseline", "machine": "m", "benchmark": "b", "operation": "x",
         "threads": 2}
    ]  # fmt: skip
    assert compared(before, "--fail-on-missing")[0] == 0


def test_import_of_bad_input_writes_nothing_without_keep_going(tmp_path, figure, model_directory):
    source, directory = tmp_path / "figure.xml", tmp_path / "new/tables"
    source.write_text(figure.replace('threads_no="4"', 'threads_no="four"'))
    refused = perfjudge("import", "comparison-xml", source, "-o", directory)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert all(f"{word}" in refused.stderr for word in (source, '"four"', "bt_C_x"))
    assert not directory.parent.exists()
    kept = perfjudge("import", "comparison-xml", source, "-o", directory, "--keep-going")
    assert (kept.returncode, "1 comparisons" in kept.stdout, "skipped 1" in kept.stderr) == (0, True, True)
    judged = perfjudge("judge", directory, "--model", model_directory, "--json")
    assert [verdict["verdict"] for verdict in json.loads(judged.stdout)["verdicts"]] == ["fail"]


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


@pytest.mark.parametrize(
    ("floor", "verdict", "ending"),
    [("30%", "pass", ", below the minimum effect size of 30.0 %"), ("none", "fail", "")],
)
def test_a_minimum_effect_size_option_overrides_the_model(judged, floor, verdict, ending):
    slow = json.loads(judged("--json", "--min-effect-size", floor).stdout)["verdicts"][1]
    assert slow["verdict"] == verdict
    assert slow["reason"].endswith(ending)
    assert "words" not in slow


def test_the_option_why_adds_evidence_to_json_and_tables(judged):
    slow = json.loads(judged("--json", "--why").stdout)["verdicts"][1]
    assert (slow["verdict"], len(slow["reasons"]), slow["counterfactual"][:11]) == ("fail", 3, "would pass ")
    assert slow["counterfactual"] in " ".join(judged("--format", "table", "--why").stdout.split())
    assert "would pass" not in judged("--format", "table").stdout
