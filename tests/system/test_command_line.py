import json
import signal
import subprocess
import sys

import pytest
from lxml import etree

from tests.commands import PROGRAM, perfjudge, perfjudge_process
from tests.system.conftest import comparison


@pytest.fixture
def judged(request_file, model_directory):
    """Judge the equal and the slower comparison with further arguments."""
    return lambda *more: perfjudge("judge", request_file, "--model", model_directory, *more)


def test_help_names_the_commands():
    assert {"judge", "compare", "import", "serve", "collect"} <= set(
        perfjudge_process("--help").stdout.split()
    )


def test_help_imports_nothing_heavy():
    script = "import sys; import serving.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "pandas", "sklearn", "mlflow", "fastapi", "lxml", "pydantic"} & set(loaded)


@pytest.mark.parametrize("model", ["model_directory", "forest_directory"])
def test_a_model_with_arrays_judges_without_its_heavy_libraries(model, request, request_file):
    script = "import sys; from serving.cli import run; code = run(); print(*sys.modules); sys.exit(code)"
    directory = request.getfixturevalue(model)
    command = [sys.executable, "-c", script, "judge", request_file, "--model", directory, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shown, _, loaded = done.stdout.strip().rpartition("\n")
    assert [verdict["verdict"] for verdict in json.loads(shown)["verdicts"]] == ["pass", "fail"]
    assert not {"sklearn", "skops", "scipy.stats", "xgboost", "mlflow"} & set(loaded.split())


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
        (["judge", "x", "--floor", "much"], "'much' is no percentage"),
        (["serve", "--floor", "100"], "'100' is no percentage"),
        (["judge", "data/raw/matrices", "--floor", "1"], "--floor is not for"),
        (["judge", "data/raw/matrices", "--retrospective"], "--retrospective is not for"),
    ],
)
def test_bad_usage_gets_one_line_and_exit_2(arguments, named, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    done = perfjudge(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


@pytest.mark.parametrize("command", [["judge", "x.json"], ["serve"]])
def test_without_a_champion_one_line_names_the_command_which_makes_one(command, tmp_path):
    done = perfjudge_process(*command, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/none.db")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "dvc repro" in done.stderr


def test_a_model_that_is_none_is_named(tmp_path, request_file):
    (tmp_path / "card.json").write_text("{}")
    (tmp_path / "model.skops").write_bytes(b"PK nothing")
    done = perfjudge("judge", request_file, "--model", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(tmp_path) in done.stderr


def test_a_taken_port_is_named(listening, model_directory):
    port = listening.url.rsplit(":", 1)[-1]
    done = perfjudge_process("serve", "--model", model_directory, "--port", port)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert port in done.stderr


def test_the_table_shows_every_verdict_and_counts_them(request_file, model_directory):
    done = perfjudge_process("judge", request_file, "--model", model_directory)
    assert done.returncode == 0
    assert "2 comparisons: 1 fail, 1 pass, 0 invalid" in done.stdout
    cells = [line.split("\u2502") for line in done.stdout.splitlines() if "\u2502" in line]
    assert [(row[1].strip(), row[4].strip()) for row in cells] == [("pass", "same"), ("fail", "slow")]


def test_json_has_the_shape_of_the_design(judged):
    done = judged("--json")
    answer = json.loads(done.stdout)
    assert done.stdout == judged("--format", "json").stdout
    told = {"name", "version", "uri", "digest", "contribution_unit", "floor", "decided"}
    assert set(answer["model"]) == told
    assert [v["verdict"] for v in answer["verdicts"]] == ["pass", "fail"]
    assert [r["contribution"] > 0 for r in answer["verdicts"][1]["reasons"]] == [True] * 3


def test_a_regression_is_exit_1_only_when_asked_for(judged, tmp_path, model_directory):
    fine = tmp_path / "fine.json"
    fine.write_text(json.dumps({"comparisons": [comparison("same")]}))
    assert judged("--json").returncode == 0
    assert judged("--fail-on-regression").returncode == 1
    assert perfjudge("judge", fine, "--model", model_directory, "--fail-on-regression").returncode == 0


def test_markdown_puts_the_regression_first(judged):
    rows = [line for line in judged("--format", "markdown").stdout.splitlines() if line.startswith("|")]
    assert rows[0] == "| verdict | probability | benchmark | operation | reasons |"
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| **fail**", "| pass"]


def test_junit_has_a_suite_a_benchmark_and_a_failure_a_regression(judged, tmp_path):
    file = tmp_path / "junit.xml"
    assert judged("--format", "junit", "-o", file).stdout == ""
    root = etree.fromstring(file.read_bytes())
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in root] == [("b", "2", "1")]
    (failed,) = root.findall(".//failure/..")
    assert failed.get("name") == "slow"
    assert failed.findtext("failure").startswith("median 20.0 %")


def test_xml_is_the_same_xml_with_the_status_filled_in(figure, tmp_path, model_directory):
    source, file = tmp_path / "figure.xml", tmp_path / "out.xml"
    source.write_text(figure)
    done = perfjudge("judge", source, "--model", model_directory, "--format", "xml", "-o", file)
    assert done.returncode == 0
    root = etree.fromstring(file.read_bytes())
    assert root.get("base_uuid") == "11111111-1111-4111-8111-111111111111"
    assert [node.get("result_status") for node in root] == ["pass", "fail"]
    assert len(root.findall(".//base_result")) == 3


def test_xml_of_another_source_has_the_layout_of_the_figure(judged):
    root = etree.fromstring(judged("--format", "xml").stdout.encode())
    assert root.tag == "comparison_results"
    assert [(n.get("operation_name"), n.get("result_status")) for n in root] == [
        ("same", "pass"),
        ("slow", "fail"),
    ]
    assert root[1].find("result").get("threads_no") == "1"
    assert root[1].find("result/target_result").get("median") == "80.0"
    assert float(root[1].find("result").get("median_diff")) == -20


def test_what_xml_does_not_say_is_noted_and_can_be_said(figure, tmp_path, model_directory):
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


RUN = """<beaker_run_result><nas_parallel_result benchmark_name="bt_C_x"><threads number="4">{}</threads>
</nas_parallel_result></beaker_run_result>"""


def test_what_two_runs_do_not_say_is_noted_once_a_file_and_can_be_said(tmp_path, model_directory):
    paths = [tmp_path / name for name in ("before.xml", "after.xml")]
    for path, scale in zip(paths, (1.0, 0.8), strict=True):
        samples = (f'<result mops="{scale * rate}"/>' for rate in (99.0, 99.5, 100.0, 100.5, 101.0))
        path.write_text(RUN.format("".join(samples)))
    comparing = ("compare", *paths, "--model", model_directory, "--json")
    noted, said = (json.loads(perfjudge(*comparing, *more).stdout) for more in ((), ("--better", "lower")))
    assert [note.partition(" does not say")[0] for note in noted["notes"]] == [str(path) for path in paths]
    assert said["notes"] == []
    assert [answer["verdicts"][0]["verdict"] for answer in (noted, said)] == ["fail", "pass"]


def test_the_same_verdicts_from_the_xml_that_was_written(tmp_path, model_directory):
    source, written = tmp_path / "lower.json", tmp_path / "written.xml"
    slow = comparison("slow", 120.0, better="lower", unit="ms")
    source.write_text(json.dumps({"comparisons": [slow, comparison("same")]}))
    judging = ("--model", model_directory)
    assert perfjudge("judge", source, *judging, "--format", "xml", "-o", written).stderr == ""
    answers = [json.loads(perfjudge("judge", path, *judging, "--json").stdout) for path in (source, written)]
    assert answers[0]["verdicts"] == answers[1]["verdicts"]
    assert answers[0]["verdicts"][0]["verdict"] == "fail"
    assert answers[1]["notes"] == []


def test_an_output_that_cannot_be_written_is_named_and_nothing_is_left(judged, tmp_path):
    (tmp_path / "file").write_text("")
    done = judged("-o", tmp_path / "file" / "out.json", "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def run_of(value, path, threads=(1, 2), **changes):
    samples = [value + value * part / 100 for part in (-1, -0.5, 0, 0.5, 1)]
    result = {"benchmark": "b", "operation": "x", "machine": "m", "unit": "1/s", "better": "higher"}
    configurations = [{"threads": number, "samples": samples} for number in threads]
    path.write_text(json.dumps({"results": [{**result, **changes, "configurations": configurations}]}))
    return path


def test_two_files_of_samples_are_judged_at_once(tmp_path, model_directory):
    before, after = run_of(100.0, tmp_path / "before.json"), run_of(80.0, tmp_path / "after.json")
    options = ("--model", model_directory, "--json", "--fail-on-regression")
    slower, faster = (
        perfjudge("compare", before, after, *options),
        perfjudge("compare", after, before, *options),
    )
    assert (slower.returncode, faster.returncode) == (1, 0)
    (verdict,) = json.loads(slower.stdout)["verdicts"]
    assert (verdict["operation"], verdict["verdict"]) == ("x", "fail")


def test_the_same_result_in_another_unit_is_no_regression(tmp_path, model_directory):
    before = run_of(101.0, tmp_path / "before.json", unit="ms", better="lower")
    after = run_of(101000.0, tmp_path / "after.json", unit="us", better="lower")
    answer = json.loads(perfjudge("compare", before, after, "--model", model_directory, "--json").stdout)
    assert answer["verdicts"][0]["verdict"] == "pass"
    assert answer["missing"] == []
    assert "in us, multiplied by 0.001 to ms" in answer["notes"][0]


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"unit": "MB"}, ('"MB"', '"1/s"', '"x"')), ({"better": "lower"}, ('"lower"', '"higher"', '"x"'))],
)
def test_results_that_cannot_be_compared_get_one_line(tmp_path, model_directory, changes, named):
    before, after = run_of(1.0, tmp_path / "before.json"), run_of(1.0, tmp_path / "after.json", **changes)
    done = perfjudge("compare", before, after, "--model", model_directory)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert all(name in done.stderr for name in (*named, "before.json", "after.json"))


def test_what_only_one_of_two_files_has_is_named_in_every_answer_and_fails_when_asked_for(
    tmp_path, model_directory
):
    before, after = run_of(1.0, tmp_path / "before.json"), run_of(1.0, tmp_path / "after.json", threads=(1,))
    note = f"1 configuration only in {before}: b/x/m with 2 threads"

    def compared(target, *options):
        done = perfjudge("compare", before, target, "--model", model_directory, *options)
        return done.returncode, done.stdout

    for form, named in (("table", note), ("markdown", "- vanished: b/x/m with 2 threads"), ("junit", note)):
        code, told = compared(after, "--format", form, "--fail-on-regression")
        assert (code, named in told) == (0, True)
    code, told = compared(after, "--json", "--fail-on-missing")
    answer = json.loads(told)
    assert (code, answer["notes"], answer["verdicts"][0]["verdict"]) == (1, [note], "pass")
    assert answer["missing"] == [
        {"kind": "configuration", "only_in": "baseline", "machine": "m", "benchmark": "b", "operation": "x",
         "threads": 2}
    ]  # fmt: skip
    assert compared(before, "--fail-on-missing")[0] == 0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{}", "in no known format"),
        ('{"results": [{"benchmark": "b"}]}', "operation"),
        ('{"results": NaN}', "NaN"),
        ("{", "JSON"),
        ("", "empty"),
    ],
)
def test_a_file_of_samples_that_is_wrong_is_named(tmp_path, model_directory, content, named):
    before, after = run_of(100.0, tmp_path / "before.json"), tmp_path / "after.json"
    after.write_text(content)
    done = perfjudge("compare", before, after, "--model", model_directory)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "after.json" in done.stderr
    assert named in done.stderr


def test_import_writes_the_tables_that_judge_reads(request_file, tmp_path, model_directory):
    done = perfjudge("import", "comparison-json", request_file, "-o", tmp_path / "tables", "--json")
    assert json.loads(done.stdout)["comparisons"] == 2
    judged = perfjudge("judge", tmp_path / "tables", "--model", model_directory, "--json")
    assert [v["verdict"] for v in json.loads(judged.stdout)["verdicts"]] == ["pass", "fail"]


def test_import_of_fingerprints_writes_their_tables(tmp_path):
    source = tmp_path / "machines.csv"
    source.write_text("machine,cpu,cpu@all,zlog\nm1,10,20,5\n")
    done = perfjudge("import", "tables", source, "-o", tmp_path / "tables", "--json")
    assert json.loads(done.stdout) == {
        "machines": 1, "rates": 2, "applications": 1, "values": 1, "skipped": 0,
        "directory": str(tmp_path / "tables"),
    }  # fmt: skip
    again = perfjudge("import", "tables", tmp_path / "tables", "-o", tmp_path / "again")
    assert (again.returncode, again.stderr) == (0, "")
    assert {path.stem for path in (tmp_path / "again").iterdir()} == {"machines", "applications", "hosts"}


def test_import_of_bad_input_leaves_nothing_and_keeps_going_only_when_told(tmp_path, figure):
    source, directory = tmp_path / "figure.xml", tmp_path / "tables"
    source.write_text(figure.replace('threads_no="4"', 'threads_no="four"'))
    refused = perfjudge("import", "comparison-xml", source, "-o", directory)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert {"figure.xml", "four", "bt_C_x"} <= set(
        refused.stderr.replace('"', " ").replace(":", " ").split("/")[-1].split()
    )
    assert list(directory.glob("*")) == []
    kept = perfjudge("import", "comparison-xml", source, "-o", directory, "--keep-going")
    assert kept.returncode == 0
    assert "1 comparisons" in kept.stdout
    assert "skipped 1" in kept.stderr


@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN], ids=["default", "ignored"])
def test_ctrl_c_ends_the_server_whatever_it_was_started_with(model_directory, inherited):
    command = [PROGRAM, "serve", "--model", model_directory, "--port", "0"]
    before = signal.signal(signal.SIGINT, inherited)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert "http://" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode in {0, 130}
    assert "Traceback" not in said


@pytest.mark.parametrize(("floor", "verdict"), [("30", "pass"), ("30%", "pass"), ("none", "fail")])
def test_another_floor_than_the_models_own(judged, floor, verdict):
    slow = json.loads(judged("--json", "--floor", floor).stdout)["verdicts"][1]
    told = [] if verdict == "fail" else ["below the floor of 30 %"]
    assert (slow["verdict"], slow["remarks"]) == (verdict, told)
