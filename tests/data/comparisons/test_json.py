import json
import math
from dataclasses import replace

import pytest
from typer.main import get_command

from data.comparisons import formats
from data.comparisons.formats.comparison_json import tables_of
from data.comparisons.posted import named_sides
from data.comparisons.request import OPTIONS, JudgeRequest, read_request
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.tables.problems import Problems
from serving.cli import app
from tests.data.comparisons.documents import configuration, request
from tests.data.refusals import refusal

FIVE = {"min": 1, "q1": 2, "median": 3, "q3": 4, "max": 5}


def problem(content):
    return refusal(tables_of, content, "r.json")


def test_omitted_threads_are_one_and_other_fields_unknown():
    left_out = {"baseline": [1.0, 2.0], "target": [3.0, 4.0]}
    omitted = tables_of(request(left_out)).results[["threads", "benchmark", "machine", "unit"]]
    assert omitted.to_numpy().tolist() == [[1, "unknown", "unknown", "unknown"]] * 4
    named = named_sides(read_request(json.dumps(request(left_out)).encode()).comparisons)
    assert named.sides.threads.tolist() == [1]
    twice = "r.json: comparisons[0].configurations[1].threads 1 appears twice"
    assert problem(request(left_out, left_out)) == twice


GOOD = request(configuration())
SETTINGS = {
    "max_false_negative_rate": 0.1,
    "max_false_positive_rate": 0.1,
    "costs": {"false_negative": 10, "false_positive": 2, "review": 1},
    "base_rate": "estimate",
    "explain": True,
}


@pytest.mark.parametrize("keys", [[], *([key] for key in SETTINGS), SETTINGS])
def test_settings_of_a_request_in_a_file_are_noted_with_the_options(keys):
    problems = Problems()
    unset = {key: JudgeRequest.model_fields[key].default for key in SETTINGS}
    tables_of(GOOD | unset | {key: SETTINGS[key] for key in keys}, "r.json", problems)
    options = ", ".join(OPTIONS[key] for key in keys)
    note = f"r.json: {', '.join(keys)} apply over HTTP only; `perfjudge judge` has {options}"
    assert problems.notes == [note] * bool(keys)


def test_notes_cover_all_settings_and_name_options_of_judge():
    options = {option for param in get_command(app).commands["judge"].params for option in param.opts}
    assert OPTIONS.keys() == SETTINGS.keys() == JudgeRequest.model_fields.keys() - {"comparisons"}
    assert {*OPTIONS.values()} <= options


def test_configurations_of_a_comparison_share_the_baseline_order():
    two, four = configuration(2, history=[[7], [8, 9]]), configuration(4, history=[[6]], later=[[5], [4]])
    tables = tables_of(request(two, four))
    comparison = tables.comparisons.iloc[0]
    assert comparison[["baseline_from", "target_to", "later_to"]].tolist() == [2, 3, 5]
    rows = tables.results[["threads", "order", "value"]]
    assert rows.query("order > 3").to_numpy().tolist() == [[4, 4, 5], [4, 5, 4]]
    history = [[2, 0, 7], [2, 1, 8], [2, 1, 9], [4, 1, 6]]
    assert rows.query("order < 2").to_numpy().tolist() == history


def test_samples_of_different_files_are_kept_separate(tmp_path):
    for name, value in (("a", 1.0), ("b", 5.0)):
        content = request(configuration(2, [value] * 2, [value] * 2), comparison_id=name)
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    sides = Sides.from_tables(formats.read_tables("comparison-json", [tmp_path]).tables)
    assert sides.baseline_five[:, 2].tolist() == [1, 5]


NO_SHARE = 'is not a share between 0 and 1 or "estimate"'
#: What is told of a request, of its only comparison, and of its only configuration.
REQUESTS = {
    "the request=3 is not an object": 3,
    "lacks comparisons": {},
    "comparisons={...} is not a list": {"comparisons": {}},
    "comparisons is empty; expected at least one": {"comparisons": []},
    "comparisons[0]=null is not an object": {"comparisons": [None]},
    "comparisons[0] lacks comparison_id": {"comparisons": [{}]},
    "comparisons[0] lacks better": {"comparisons": [{"comparison_id": "a", "operation": "b"}]},
    'comparisons[1].comparison_id "a" appears twice': {"comparisons": GOOD["comparisons"] * 2},
    **{f"base_rate={n} {NO_SHARE}": GOOD | {"base_rate": n} for n in (0, 1, -0.5, 99.0)},
    'explain="x" is not true or false': GOOD | {"explain": "x"},
    "colour is unknown; there are " + ", ".join(["comparisons", *SETTINGS]): GOOD | {"colour": 1},
    'comparison is unknown; did you mean "comparisons"?': {"comparison": []},
    'costs.false_negatve is unknown; did you mean "false_negative"?': GOOD | {"costs": {"false_negatve": 1}},
}
COMPARISONS = {
    ".comparison_id=7 is not a string": {"comparison_id": 7},
    ".operation is empty": {"operation": " "},
    ".unit holds half a surrogate pair": {"unit": "\ud800"},
    '.better="up" is not "lower" or "higher"': {"better": "up"},
    '.machina is unknown; did you mean "machine"?': {"machina": "m"},
    **{f".siblings_worse={v} is not a share from 0 to 1": {"siblings_worse": v} for v in (-0.1, -1, 1.5, 2)},
}
#: A value is named by its place, which begins with the key.
CONFIGURATIONS = [
    *(("threads", value, f"={value} is not a whole number from 1 to 999999") for value in (0, 2.5)),
    ("threads", True, "=true is not a whole number from 1 to 999999"),
    ("baseline", [1, 2, "x"], '[2]="x" is not a number'),
    ("baseline", [1, True], "[1]=true is not a number"),
    ("baseline", [[1.0], 2.0], "[1]=2.0 is not a list"),
    ("baseline", [[1.0], ["x"]], '[1][0]="x" is not a number'),
    ("target", [None], "[0]=null is not a number"),
    ("target", [1.0, math.inf], "[1]=Infinity is not a finite number"),
    ("target", [math.nan], "[0]=NaN is not a finite number"),
    ("target", [10**400], "[0]=a huge number is not a finite number"),
    ("target", 3, "=3 is not a list of numbers or a five-number summary"),
    ("target", {"min": 1}, " lacks q1"),
    ("target", FIVE | {"q3": "4"}, '.q3="4" is not a number'),
    ("target", FIVE | {"stdv": 1}, '.stdv is unknown; did you mean "stdev"?'),
    ("history", [1], "[0]=1 is not a list of numbers or a five-number summary"),
    ("history", [[1], ["x"]], '[1][0]="x" is not a number'),
    ("history", None, "=null is not a list"),
    ("history", True, "=true is not a list"),
    ("history", [FIVE | {"p99": 6}], "[0].p99 is unknown; there are min, q1, median"),
    ("histroy", [[1.0]], ' is unknown; did you mean "history"?'),
    ("Baseline", [1.0], ' is unknown; did you mean "baseline"?'),
]


@pytest.mark.parametrize(("message", "content"), REQUESTS.items())
def test_a_wrong_request_gives_a_one_line_error(content, message):
    assert problem(content) == f"r.json: {message}"


@pytest.mark.parametrize(("message", "wrong"), COMPARISONS.items())
def test_a_wrong_comparison_is_refused_with_its_place(wrong, message):
    assert problem(request(configuration(), **wrong)) == f"r.json: comparisons[0]{message}"


@pytest.mark.parametrize(("key", "value", "message"), CONFIGURATIONS)
def test_a_wrong_configuration_is_refused_with_its_place(key, value, message):
    told = problem(request(configuration() | {key: value}))
    assert told.startswith(f"r.json: comparisons[0].configurations[0].{key}{message}")


def test_finite_numbers_with_an_overflowing_sum_are_accepted():
    sides = Sides.from_tables(tables_of(request(configuration(2, [1.7e308, 1.7e308], [1.0, 1.0]))))
    assert sides.baseline.values[:2].tolist() == [1.7e308, 1.7e308]


def test_keep_going_skips_the_wrong_comparison_alone():
    good, problems = GOOD["comparisons"][0], Problems(keep_going=True)
    bad = {**good, "comparison_id": "b", "better": None}
    tables = tables_of({"comparisons": [bad, good]}, "r.json", problems)
    assert tables.comparisons["comparison_id"].tolist() == ["a"]
    (told,) = map(str, problems.skipped)
    assert told == 'r.json: comparisons[0].better=null is not "lower" or "higher"'


ORDERED = "must satisfy baseline_from <= baseline_to < target_from <= target_to <= later_to"


@pytest.fixture
def tables():
    labels = ComparisonTables.from_rows([], [], [{"comparison_id": "a", "status": "pass"}]).labels
    return replace(tables_of(GOOD), labels=labels)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("results", "better", "up", 'better="up" must be "lower" or "higher"'),
        ("results", "threads", 0, "threads=0 must be 1 or more"),
        ("labels", "status", "maybe", 'status="maybe" must be "pass" or "fail" or "cannot_tell"'),
        ("comparisons", "target_from", 0, ORDERED),
        ("comparisons", "later_to", 0, ORDERED),
    ],
)
def test_a_broken_table_is_refused_with_column_and_row(tables, table, column, value, message):
    replace(tables, comparisons=tables.comparisons.assign(later_to=1)).without_flaws(Problems())
    broken = replace(tables, **{table: getattr(tables, table).assign(**{column: value})})
    assert refusal(broken.without_flaws, Problems()) == f"{table} row 0: {message}"
