"""Damaged input and output that cannot be written: exit 0 or 2, and one line that says why."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands import PROGRAM, perfjudge
from tests.system.matrices import inputs as matrix_inputs
from training.matrices.engine.stored import TrainedEngine
from training.registry.stored import CARD

SAMPLES = Path("docs/samples")
REQUEST = SAMPLES / "mine.json"
WHOLE = [-1, 0, 2**31, 2**62, -(2**62)]
VALUES = [*WHOLE, None, float("nan"), 1e300, float("inf"), "", "x", "\0", True, b"\xff"]
TIMES = st.datetimes().map(pd.Timestamp)
DAMAGE = (
    st.sampled_from(VALUES) | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=3) | TIMES
)
PROPERTY = settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def status_and_error(*arguments):
    done = perfjudge(*arguments)
    return done.returncode, done.stderr


def require_an_answer_or_one_line(*arguments):
    code, told = status_and_error(*arguments)
    assert code == 0 or (code == 2 and ("--keep-going" in arguments or told.count("\n") == 1)), told


@pytest.fixture(scope="module")
def engine(made_once):
    return made_once("engine", matrix_inputs.engine)


@given(data=st.data())
@PROPERTY
def test_tables_with_any_damaged_column_are_judged_or_refused(data, model_directory):
    name = data.draw(st.sampled_from(["comparisons", "results", "labels"]))
    table = pd.read_parquet(SAMPLES / "labelled" / f"{name}.parquet")
    column, value = data.draw(st.sampled_from(sorted(table))), data.draw(DAMAGE)
    values = [value] * len(table)
    if data.draw(st.booleans()):
        values = table[column].astype(object).tolist()
        values[data.draw(st.integers(0, len(values) - 1))] = value
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "tables")
        shutil.copytree(SAMPLES / "labelled", source)
        try:
            table.assign(**{column: pd.Series(values, dtype=object)}).to_parquet(source / f"{name}.parquet")
        except (ValueError, TypeError, OverflowError):
            return  # Parquet holds no such column
        command = data.draw(st.sampled_from(["judge", "import", "labels"]))
        more = data.draw(st.sampled_from([[], ["--keep-going"]]))
        arguments = {
            "judge": ["judge", source, "--model", model_directory, "--json"],
            "import": ["import", "tables", source, "-o", Path(directory, "imported")],
            "labels": ["labels", "people", source],
        }[command]
        require_an_answer_or_one_line(*arguments, *more)


TEXTS = ["mine.json", "before.json", "labelled.xml", "before.xml", "machines.csv", "application-before.csv",
         "corun.csv", "matrices.json", "run.csv", "labels.csv", "rules.xml"]  # fmt: skip
SLIPS = ["", "0", "-1", "1e999", "9" * 5000, "NaN", '"', "<", "{", "[", ",", "\n", "\\ud800", "\x00", "null",
         "\udcff"]  # fmt: skip


@pytest.mark.parametrize("column", [0, 1])
def test_a_name_too_long_for_a_profile_is_refused(tmp_path, column):
    header, first, *others = (SAMPLES / "machines.csv").read_text().splitlines()
    cells = first.split(",")
    cells[column] = "m" * 301
    path = tmp_path / "machines.csv"
    path.write_text("\n".join([header, ",".join(cells), *others]))
    text = (SAMPLES / "application-before.csv").read_text().replace(f"{first.split(',')[0]},", f"{cells[0]},")
    (tmp_path / "application.csv").write_text(text)
    code, told = status_and_error("irup", "profile", path, tmp_path / "application.csv", "--json")
    assert (code, "more than 300 characters" in told, told.count("\n")) == (2, True, 1)


@given(st.sampled_from(TEXTS), st.floats(0, 1), st.sampled_from(SLIPS), st.integers(0, 40))
@PROPERTY
def test_any_damaged_sample_is_answered_or_refused(model_directory, engine, name, share, slip, dropped):
    content = (SAMPLES / name).read_bytes()
    at = int(share * len(content))
    changed = content[:at] + slip.encode("utf-8", "surrogateescape") + content[at + dropped :]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, name)
        path.write_bytes(changed)
        other, pages = SAMPLES / name.replace("before", "after"), Path(directory, "pages")
        model = engine if name == "matrices.json" else model_directory
        require_an_answer_or_one_line("judge", path, "--model", model, "--json")
        for begin, *arguments in (
            ("before", "compare", path, other, "--model", model, "--json"),
            ("mine", "compare", path, other, "--model", model, "--json"),
            ("machines", "irup", "profile", path, SAMPLES / "application-before.csv", "--json"),
            ("application", "irup", "profile", SAMPLES / "machines.csv", path, "--json"),
            ("rules", "timelines", path, SAMPLES / "results", "-o", pages, "--model", model),
        ):
            if name.startswith(begin):
                require_an_answer_or_one_line(*arguments)


def test_a_card_without_a_metric_of_its_model_is_refused(engine, tmp_path):
    shutil.copytree(engine, tmp_path / "engine")
    card = tmp_path / "engine" / CARD
    metric = TrainedEngine.read(engine).engine.metrics[0]
    card.write_text(card.read_text().replace(f'"{metric}"', '"renamed"'))
    told = f'{card}: metrics: "{metric}" is missing; expected every metric that model.skops takes'
    judging = ("judge", SAMPLES / "matrices.json", "--model", tmp_path / "engine")
    assert status_and_error(*judging) == (2, f"perfjudge: {told}\n")


def test_a_file_name_that_is_not_utf8_is_refused_where_tables_have_it(model_directory, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.xml")
    shutil.copy(SAMPLES / "labelled.xml", path)
    code, told = status_and_error("judge", path, "--model", model_directory)
    assert (code, told.count("\n")) == (2, 1)
    assert "\\udcff" in told
    assert "is not UTF-8" in told
    # an answer on JSON has no name of a file
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")
    shutil.copy(REQUEST, path)
    assert status_and_error("judge", path, "--model", model_directory) == (0, "")


def judged_into(output, model, *more):
    return status_and_error("judge", REQUEST, "--model", model, "-o", output, *more)


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("x.md", ["--json"], "x.md: --format json does not write a .md file; expected .json"),
        ("x.csv", [], "x.csv: no --format writes a .csv file; expected .json, .xml, .md, .markdown, .txt"),
    ],
)
def test_an_unusable_output_is_refused_and_nothing_written(name, more, told, model_directory, tmp_path):
    line = f"perfjudge: {tmp_path}/{told}\n"
    assert judged_into(tmp_path / name, model_directory, *more) == (2, line)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("judge mine.json", "mine.json"),
        ("judge labelled", "labelled/comparisons.json"),
        ("irup profile machines.csv application-before.csv", "machines.csv"),
        ("irup diff before.json after.json", "after.json"),
        ("corun online solo.csv corun.csv", "corun.csv"),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_an_output_that_is_an_input_is_refused(command, output, suffix, tmp_path, monkeypatch):
    copied = shutil.copytree(SAMPLES, tmp_path / "copied")
    monkeypatch.chdir(copied)
    name = Path(output).with_suffix(suffix)
    if Path(output).exists():
        Path(output).rename(name)
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    code, told = status_and_error(*command.replace(output, str(name)).split(), "-o", f"../copied/{name}")
    assert (code, told.count("\n")) == (2, 1)
    assert told.startswith(f"perfjudge: ../copied/{name}: is ")
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command",
    [
        "judge x --format xml", "compare x y --format table", "irup profile x y --format html",
        "irup diff x y --format text", "experiments diff x --format html",
    ],
)  # fmt: skip
def test_json_and_another_form_are_a_contradiction(command):
    told = f"perfjudge: --json contradicts --format {command.rpartition(' ')[2]}\n"
    assert status_and_error(*command.split(), "--json") == (2, told)


@pytest.mark.parametrize("directory", ["/proc", "/sys"])
def test_an_unwritable_output_file_is_named(directory, model_directory):
    code, told = judged_into(f"{directory}/x.json", model_directory)
    assert (code, told.count("\n"), ".part" in told) == (2, 1, False)
    assert told.startswith(f"perfjudge: {directory}/x.json: ")


def test_a_full_disk_names_the_file(model_directory, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    output = tmp_path / "x.json"
    assert judged_into(output, model_directory) == (2, f"perfjudge: {output}: No space left on device\n")
    assert not list(tmp_path.iterdir())


def test_a_full_standard_output_is_named(model_directory, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Path("/dev/full").open("w") as full:
        command = [PROGRAM, "judge", REQUEST, "--model", model_directory]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "perfjudge: standard output: No space left on device\n")
