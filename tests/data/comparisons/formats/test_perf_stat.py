"""What perf stat itself writes here, of stress-ng or of a plain program."""

import json
import re
import shutil

import pytest

from data.comparisons.formats import recognise_format, results_of_run
from data.tables.problems import Problems
from tests.data.comparisons.formats.reading import needs, ran, refusal, run, written

WORK = ("stress-ng", "--quiet", "--cpu", "1", "--cpu-ops", "20") if shutil.which("stress-ng") else ("true",)


def count(event, unit="count", place=""):
    return ("perf-stat", event + place, "unknown", 1, unit, "lower")


@needs("perf")
@pytest.mark.parametrize("form", ["-x,", "-x;", "-j"])
def test_appended_runs_are_repetitions_in_either_form(form, tmp_path):
    out = tmp_path / "perf.out"
    for _ in range(3):
        ran("perf", "stat", form, "-e", "task-clock,page-faults", "--append", "-o", out, *WORK)
    found = run(out, "perf-stat")
    assert len(found[count("task-clock", "ms")]) == len(found[count("page-faults")]) == 3
    assert min(found[count("task-clock", "ms")]) > 0


@needs("perf")
@pytest.mark.parametrize("form", ["-x,", "-j"])
def test_intervals_of_perf_stat_are_samples(form, tmp_path):
    out = tmp_path / "perf.out"
    loop = "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done"
    ran("perf", "stat", form, "-I", "50", "-e", "task-clock", "-o", out, "--", "sh", "-c", loop)
    assert len(next(iter(run(out, "perf-stat").values()))) > 1


@needs("perf")
@pytest.mark.parametrize("form", ["-x,", "-j"])
def test_repeated_runs_leave_a_mean_without_spread(form, tmp_path):
    out = tmp_path / "perf.out"
    ran("perf", "stat", form, "-r", "3", "-e", "page-faults", "-o", out, "true")
    # perf prints the standard error of the mean, but not the number of runs
    assert {*results_of_run(out, problems := Problems())["stat"]} == {"mean"}
    advice = "perf stat -r leaves only means, which cannot be judged; use --append or -I"
    assert f"{out}: {advice}" in problems.notes


def test_text_for_people_is_refused_with_the_right_option(tmp_path):
    path = written(tmp_path / "a.txt", "\n Performance counter stats for 'true':\n\n  49  page-faults\n")
    wanted = "a.txt: is text of perf stat for people; expected that of perf stat -x, or -j"
    assert refusal(path) == wanted


def test_processors_are_separate_and_uncounted_events_skipped(tmp_path):
    """As perf writes it with ``-A``; counters that this machine may not have."""
    rows = ("CPU0,12,,cycles,100", "CPU1,13,,cycles,100", "<not supported>,,branches,0")
    text = "".join(f"{row},100.00,,\n" for row in rows)
    found = run(written(tmp_path / "a.csv", text), "perf-stat")
    assert found == {count("cycles", place=f" CPU{n}"): [12 + n] for n in (0, 1)}


#: Keys of places, and two of each, as perf writes them with ``-A, --per-die, --for-each-cgroup`` and others.
KEYS = {
    "cpu": "CPU0 CPU1", "core": "S0-D0-C0 S0-D0-C1", "cache": "S0-D0-L3-ID0 S0-D0-L3-ID1",
    "cluster": "S0-D0-CLS0 S0-D0-CLS1", "die": "S0-D0 S0-D1", "socket": "S0 S1", "node": "N0 N1",
    "thread": "sort-17 sort-18", "cgroup": "a b",
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_each_place_that_json_counts_is_an_operation(key, tmp_path):
    places = KEYS[key].split()
    counts = [{key: place, "counter-value": "1.5", "unit": "", "event": "cycles"} for place in places]
    path = written(tmp_path / "a.json", "".join(f"{json.dumps(count)}\n" for count in counts * 2))
    assert run(path, "perf-stat") == {count("cycles", place=f" {place}"): [1.5, 1.5] for place in places}


PLACES = ("S0", "S0-D1", "S0-D0-C1", "S0-D0-CLS1", "S0-D0-L3-ID1", "N1")
GROUPS = ("/", "system.slice/a.service", "docker-1")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        *((place, f"{place},2,12,,cycles,100,100.00,,\n") for place in PLACES),
        *((group, f"12,,cycles,{group},{gap}100,100.00,,\n") for group in GROUPS for gap in ("", "1.50%,")),
    ],
)
def test_each_place_or_group_that_lines_count_is_an_operation(place, line, tmp_path):
    path = written(tmp_path / "a.csv", line)
    assert [key[1] for key in run(path, "perf-stat")] == [f"cycles {place}"]


@needs("perf")
@pytest.mark.parametrize("option", ["-A", "--per-socket", "--per-core", "--per-node"])
def test_places_have_equal_names_in_both_forms(option, tmp_path):
    outs = [tmp_path / "perf.csv", tmp_path / "perf.json"]
    for out, form in zip(outs, ("-x,", "-j"), strict=True):
        ran("perf", "stat", "-a", option, form, "-e", "task-clock", "-o", out, "--", "sleep", "0.1")
    lines, objects = (set(run(out, "perf-stat")) for out in outs)
    assert lines == objects


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_decimal_commas_are_read_as_points(delimiter, tmp_path):
    """As perf prints numbers in German, with ``-I`` and ``-r``."""
    rows = (
        "     1,000123456;12,50;msec;task-clock;12500000;100,00;0,9;CPUs utilized",
        "     2,000123456;7;;page-faults;7;100,00;;",
        "1234,5;msec;cpu-clock;0,12%;1234;100,00;;",
    )
    text = "".join(f"{row}\n" for row in rows).replace(";", delimiter)
    found = results_of_run(written(tmp_path / "a.csv", text))
    values = dict(zip(found["operation"], found["value"], strict=True))
    assert values == {"task-clock": 12.5, "page-faults": 7, "cpu-clock": 1234.5}
    assert found.set_index("operation")["stat"]["cpu-clock"] == "mean"


RIGHT = "7,,page-faults,1234560000,100,00,,\n"


@pytest.mark.parametrize(
    "place", ["", "CPU0,", "S0,2,", "S0-D0-C1,", "  1.000123456,", "  1.000123456,CPU0,"]
)
@pytest.mark.parametrize("group", ["", "system.slice/a.service,"])
@pytest.mark.parametrize(
    "line",
    [
        "1234,56,msec,task-clock,{}1234560000,100,00,1,000,CPUs utilized",
        "1234,56,msec,task-clock,{}0,12%,1234560000,100,00,1,000,CPUs utilized",
        "7,,page-faults,{}0,12%,1234560000,100,00,,",
    ],
)
def test_decimal_commas_between_commas_are_refused(place, group, line, tmp_path):
    path = written(tmp_path / "a.csv", f"{RIGHT}{place}{line.format(group)}\n")
    told = "a.csv:2: has commas in and between numbers; use another separator (perf stat -x';')"
    assert refusal(path, "perf-stat") == told


def test_whole_counts_are_read_whatever_the_decimal_separator(tmp_path):
    path = written(tmp_path / "a.csv", RIGHT + RIGHT.replace("100,00", "100.00"))
    assert [*run(path, "perf-stat").values()] == [[7, 7]]


@pytest.mark.parametrize("row", ["1,2,3,4,5", "1700000000,abc,5.5,6,7"])
def test_rows_of_numbers_are_no_counts_of_perf(row, tmp_path):
    path = written(tmp_path / "a.csv", f"time,commit,a,b,c\n{row}\n")
    assert recognise_format(path) == "otava-csv"


def test_a_decimal_comma_in_json_is_read_as_a_point(tmp_path):
    path = written(tmp_path / "a.json", '{"event": "cpu-clock", "unit": "msec", "counter-value": "12,50"}\n')
    assert run(path) == {count("cpu-clock", "ms"): [12.5]}


def test_computed_metrics_in_json_are_no_counts(tmp_path):
    """As perf writes them with ``--metrics``, or below a count."""
    lines = (
        '{"event": "cycles", "counter-value": "12.0"}',
        '{"metric-value": "69.95", "metric-unit": "%  tma_backend_bound"}',
        '{"event-runtime": 100, "metricgroup": "TopdownL1"}',
    )
    assert run(written(tmp_path / "a.json", "\n".join(lines)), "perf-stat") == {count("cycles"): [12]}


@pytest.mark.parametrize("before", [0, 999, 1000, 2500])
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ('"1", "event": "cycles"}', 'the key "event" appears twice'),
        ('"1"}, {}', "is not JSON"),
        ("[1]}", ".counter-value: Expected"),
    ],
)
def test_errors_of_lines_of_json_name_the_line(wrong, problem, before, tmp_path):
    right = '{"event": "cycles", "counter-value": "1", "frequency": NaN}\n'
    wrong = f'{{"event": "cycles", "counter-value": {wrong}'
    path = written(tmp_path / "a.json", f"# started on Monday\n\n{right * before}{wrong}\n{right * 3}")
    message = refusal(path, "perf-stat")
    assert problem in message
    assert re.match(rf"a\.json(:|:? line ){before + 3}\b", message)
