import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from data.corun.collect import MeasuredCorun, PlannedCorun, build_tables, plan_coruns
from data.corun.run import CorunSuite, TaskRun, interval_counts, load_suite
from data.corun.synonyms import EventName, IntervalCounts, canonical_counts
from data.corun.tables import SAMPLE_DTYPES
from data.measure.machine import Topology
from data.measure.perf_stat import TIME, read_intervals
from serving.corun import online_watch
from tests.code.suites import CORUN, TASKS
from tests.data.refusals import refusal

SHIPPED = Path(__file__).parents[3] / "data/suites/corun.yaml"
HOST = {"machine": "m", "device": "m", "engine": "Linux", "note": "by hand"}
PERF = """# started on Sat Nov 21 16:25:22 2026

     0.203876159,84.26,msec,task-clock,84260436,100.00,0.421,CPUs utilized
     0.203876159,<not counted>,,context-switches,0,0.00,,
     0.404217677,79.64,msec,task-clock:u,79638108,100.00,0.398,CPUs utilized
     0.404217677,22,,context-switches,79638108,100.00,276.250,/sec
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a file of perf's intervals with this text."""

    def read_text(text, *columns):
        (tmp_path / "perf.csv").write_text(text)
        return read_intervals(tmp_path / "perf.csv", *columns)

    return read_text


def test_shipped_suite_has_31_tasks_30_events_and_496_pairs():
    shipped = load_suite(SHIPPED)
    assert (len(shipped.tasks), len(shipped.events), shipped.together) == (31, 30, 2)
    named = "instructions bus-cycles LLC-loads L1-dcache-loads dTLB-loads branch-instructions branch-loads"
    assert {*named.split(), "context-switches"} <= set(shipped.events)
    everything = plan_coruns(shipped)
    pairs = [tuple(sorted(planned.tasks)) for planned in everything if len(planned.tasks) > 1]
    assert (len(set(pairs)), len(pairs)) == (496, 496 + shipped.repeat)
    assert len(everything) - len(pairs) == 31 * shipped.solo >= 31 * 5
    assert shipped.repeat >= 60


@pytest.mark.parametrize("task", [task for task in load_suite(SHIPPED).tasks if task.group == "phases"])
def test_shipped_phases_come_once_in_a_short_form(tmp_path, task):
    counted = [phase.rpartition("=") for phase in task.workload.split()[2:]]
    assert len(counted) >= 3
    assert task.work == sum(int(units) for _, _, units in counted) - 1
    short = " ".join(f"{program}=1" for program, _, _ in counted)
    # one unit more would begin the first phase once more
    shortened = task.model_copy(update={"workload": f"phases once {short}", "work": len(counted)})
    ran = subprocess.run(shortened.command_words(tmp_path / "report"), capture_output=True, check=False)
    assert ran.returncode != 0


def test_solo_and_repeated_runs_are_spread_over_the_measurement():
    everything, again = (plan_coruns(CorunSuite.model_validate(CORUN)) for _ in range(2))
    assert everything == again
    names = [tuple(sorted(planned.tasks)) for planned in everything]
    pairs = Counter(tasks for tasks in names if len(tasks) == 2)
    assert set(pairs) == {tuple(sorted(pair)) for pair in combinations_with_replacement(TASKS, 2)}
    places = [place for place, tasks in enumerate(names) if len(tasks) == 1]
    assert [everything[place].repetition for place in places] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {names[place] for place in places[:3]} == {(name,) for name in TASKS}
    assert places[-1] - places[0] > len(everything) / 2
    assert sorted(pairs.values()) == [1, 1, 1, 1, 2, 2]
    for pair, _ in pairs.most_common(2):
        first, second = (place for place, tasks in enumerate(names) if tasks == pair)
        assert {everything[first].repetition, everything[second].repetition} == {1, 2}
        assert any(first < place < second for place in places)


def test_both_directions_of_a_pair_become_separate_rows():
    def measured(repetition, *tasks):
        samples, events = [[0.2, 2.0, None], [1.0, 3.0, None]], ["task-clock", "context-switches"]
        runs = tuple(TaskRun(name, 0, 1.0, events, [5.0, None], samples) for name in tasks)
        return MeasuredCorun(PlannedCorun(tasks, repetition), "2026-11-21T00:00:00+00:00", 0.0, runs)

    runs = [("sort",), ("sort", "json"), ("json", "json"), ("json", "sort", "sort")]
    entries = [*(measured(1, *tasks) for tasks in runs), measured(2, "json", "sort")]
    found = build_tables(entries, HOST)
    assert found.tasks.to_dict("records")[0]["task-clock"] == 5.0
    assert found.tasks["context-switches"].isna().all()
    rows = found.pairs[["task", "corunner_1", "corunner_2", "repetition"]].fillna("").to_numpy().tolist()
    assert sorted(rows) == [
        ["json", "json", "", 1], ["json", "json", "", 2], ["json", "sort", "", 1], ["json", "sort", "", 2],
        ["json", "sort", "sort", 1], ["sort", "json", "", 1], ["sort", "json", "", 2],
        ["sort", "json", "sort", 1], ["sort", "json", "sort", 2],
    ]  # fmt: skip
    assert len(found.samples) == 2 * (1 + 2 + 2 + 2 + 3)
    three = found.samples[found.samples["corunners"] == "sort+sort"]
    assert three[["task", "phase", "t_seconds", "task-clock"]].to_numpy().tolist() == [
        ["json", "corun", 0.2, 2.0], ["json", "corun", 1.0, 3.0],
    ]  # fmt: skip


SEPARATED = "0.2,7,,instructions:u,1,100.00,,\n0.2,<not counted>,,cs,0,0.00,,\n0.4,8,,instructions:u,1,1,,\n"
LINES = "".join(
    json.dumps({"interval": time, "counter-value": count, "unit": "", "event": event}) + "\n"
    for time, count, event in [
        (0.2, "7.000000", "instructions:u"), (0.2, "<not counted>", "cs"), (0.4, "8.0", "instructions:u"),
    ]
)  # fmt: skip
NAMED = "time;instructions:u;cs\n0.2;7;<not counted>\n0.4;8;\n"
EXPECTED, SEVERAL = "expected the output of perf stat", "the file has several runs; expected a single one"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f": holds no interval; {EXPECTED} -I 200 -x,"),
        ("task,share\n", f":1: 'task,share': {EXPECTED} -I 200 with -x, or -j, or a CSV whose header"),
        (PERF.replace(",22,", ",many,"), ':6: context-switches="many" is not a count'),
        *(
            (PERF.replace(",22,", f",{count},"), f":6: context-switches={count} must be 0 or more, and less")
            for count in ("-22", "nan", "1e400", 2**64)
        ),
        (PERF.replace("context-switches", "phase"), ':4: counts an event called "phase", which is the name'),
        (f"{'9' * 400}.5,1,,faults,1,100.00,,\n", f":1: t_seconds={'9' * 40} must be 0 or more"),
        (PERF.replace("0.404", "0.203"), f":5: t_seconds=0.203217677 is before 0.203876159: {SEVERAL}"),
        (LINES.replace('"interval": 0.4', '"interval": 0.1'), f":3: t_seconds=0.1 is before 0.2: {SEVERAL}"),
        ("t,cs\n0.2,7\n0.6,7\n0.4,7\n", f":4: t_seconds=0.4 is before 0.6: {SEVERAL}"),
        (PERF + PERF, ":7: begins another run, as perf stat --append does; expected a single run"),
        (PERF.replace("context-switches", "task-clock"), ':4: counts "task-clock" twice in one interval'),
        ('{"interval": 0.2}\n', ':1: \'{"interval": 0.2}\': expected {"interval", "counter-value"'),
        ('{"interval": 1, "counter-value": 1, "event": "cs"}\n[1]\n', ":2: '[1]': expected {"),
        (PERF.replace("msec", "parsec"), ':3: task-clock has the unit "parsec"; expected msec'),
        ("0.2,,,\n", ":1: '0.2,,,': expected time,count,unit,event"),
        pytest.param(f'{{"a": {"[" * 100_000}\n', f":1: '{{\"a\": {'[' * 34}': expected {{", id="deep"),
        ("t,instructions\n0.2,1\n0.4\n", ":3: has 1 cells; expected 2 as in the header"),
        ("t,instructions\n0.2,-1\n", ":2: instructions=-1 must be 0 or more"),
        ("t\n0.2\n", f":1: 't': {EXPECTED}"),
        pytest.param(
            f't,instructions\n0.2,"1\n{"0.4,2" * 40_000}\n', ":3: is not a table (field", id="quote"
        ),
    ],
)
def test_invalid_perf_output_gives_a_one_line_error(read, tmp_path, text, message):
    assert refusal(read, text, SAMPLE_DTYPES).startswith(f"{tmp_path / 'perf.csv'}{message}")


@pytest.mark.parametrize("count", [0, 2**53 + 1, 2**64 - 1])
def test_every_count_of_64_bits_is_read_from_files(read, count):
    for text in (PERF.replace(",22,", f",{count},"), f"t,context-switches\n0.2,0\n0.4,{count}\n"):
        assert read(text)["context-switches"].iloc[-1] == float(count)


def test_perf_intervals_are_matched_to_the_nearest_ends():
    looks = pd.DataFrame({"faults": [5.0, 9.0, 7.0, 12.0]}, index=[0.0, 0.2, 0.41, 0.5])
    perf = pd.DataFrame({"t_seconds": [0.21, 0.4, 0.495, 0.501], "clock": [1.0, np.nan, 3.0, 4.0]})
    found = interval_counts(looks, perf)
    assert found.index.tolist() == [0.2, 0.41, 0.5]
    assert found["faults"].tolist() == [4.0, 0.0, 3.0]
    assert found["clock"].fillna(-1).tolist() == [1.0, -1.0, 7.0]


@pytest.mark.parametrize(
    "text",
    [SEPARATED, SEPARATED.replace(",", ";"), f"\N{BYTE ORDER MARK}{SEPARATED}", LINES, NAMED],
    ids=["-x,", "-x;", "a byte order mark", "-j", "a table"],
)
def test_all_forms_of_perf_output_read_alike(read, text):
    found = read(text).set_index(TIME)
    assert found["instructions:u"].to_dict() == {0.2: 7.0, 0.4: 8.0}
    assert found["cs"].isna().all()


def test_intervals_stay_in_the_order_of_time_whatever_was_counted_in_them(read):
    rows = [(0.2, "cs"), (0.4, "faults"), (0.6, "cs"), (10.0, "faults"), (10.2, "cycles")]
    found = read("".join(f"{time:.9f},7,,{event},1,1,,\n" for time, event in rows)).set_index(TIME)
    assert found.index.tolist() == [time for time, _ in rows]
    assert found.notna().sum(axis=1).tolist() == [1] * 5


@pytest.mark.parametrize(
    ("event", "count", "unit"),
    [
        ("task-clock:u", "84.5", "msec"), ("cpu-clock", "84.5", ""), ("task-clock", "84500000", "nsec"),
        ("cpu-clock:u", "84500000", "ns"), ("task-clock", "84500", "usec"), ("cpu-clock", "0.0845", "sec"),
        # the units of other events change nothing
        ("power/energy-pkg/", "84.5", "Joules"), ("duration_time", "84.5", "ns"),
    ],
)  # fmt: skip
def test_clocks_are_in_milliseconds_in_every_unit_of_time(read, event, count, unit):
    line = {"interval": 0.2, "counter-value": count, "unit": unit, "event": event}
    for text in (f"0.2,{count},{unit},{event},1,1,,\n", json.dumps(line)):
        assert read(text)[event].tolist() == [pytest.approx(84.5)]
        assert read(text.replace(count, "<not counted>"))[event].isna().all()


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        ("0.2,,,,,,0.50,insn per cycle\n", SEPARATED),
        ("0.2,,,,,,,,30.0,%  tma_retiring\n", SEPARATED),
        ('{"interval": 0.2, "metric-value": "0.50", "metric-unit": "insn per cycle"}\n', LINES),
        ('{"interval": 0.2, "counter-value": "", "event": "", "metric-value": 0.5}\n', LINES),
    ],
)
def test_lines_with_only_a_metric_are_skipped_wherever_they_are(read, metric, counts):
    lines, expected = counts.splitlines(keepends=True), read(counts)
    for place in range(len(lines) + 1):
        found = read("".join([*lines[:place], metric, metric, *lines[place:]]))
        pd.testing.assert_frame_equal(found, expected)
    assert "holds no interval" in refusal(read, metric)


@pytest.mark.parametrize(
    ("written", "event", "privileges"),
    [
        ("cycles", "cpu-cycles", ""), ("cycles:u", "cpu-cycles", "u"),
        ("instructions:ukP", "instructions", ""), ("cpu_core/instructions/", "instructions", ""),
        ("cpu_atom/INST_RETIRED.ANY/u", "instructions", "u"), ("ex_ret_instr", "instructions", ""),
        ("l3_cache_refill", "cache-misses", ""), ("LLC-load-misses", "LLC-load-misses", ""),
        ("branches", "branch-instructions", ""), ("something-else:k", "something-else", "k"),
    ],
)  # fmt: skip
def test_an_event_has_a_single_canonical_name(written, event, privileges):
    found = EventName.from_text(written)
    assert (found.event, found.privileges) == (event, privileges)


def test_counts_of_core_types_and_modes_are_summed():
    counts = {
        "cpu_core/instructions/": [5.0, 6.0], "cpu_atom/instructions/": [None, 1.0],
        "cycles:u": [2.0, 2.0], "cycles:k": [1.0, 1.0], "branches:u": [1.0, 1.0],
        "faults": [3.0, 3.0], "page-faults": [4.0, 4.0],
    }  # fmt: skip
    table = IntervalCounts.from_table(pd.DataFrame({TIME: [0.2, 0.4], **counts}))
    found, privileges = canonical_counts(table)
    assert found.ends.tolist() == [0.2, 0.4]
    assert {event: found.counts_of(event).tolist() for event in found.events} == {
        "instructions": [5.0, 7.0], "cpu-cycles": [3.0, 3.0], "branch-instructions": [1.0, 1.0],
        "page-faults": [3.0, 3.0],
    }  # fmt: skip
    assert privileges == {"branch-instructions": "u"}


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_ctrl_c_during_a_prediction_leaves_the_last_answer(tmp_path, monkeypatch):
    solo, ends = tmp_path / "solo.csv", []
    solo.write_text("".join(f"{end / 5},200,msec,task-clock,1,1,,\n" for end in range(1, 9)))

    def predict(*_, ended, **__):
        ends.append(ended)
        if len(ends) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return SimpleNamespace(impact=1.0)

    monkeypatch.setattr(online_watch, "predict_online", predict)
    busy = [sys.executable, "-c", "while True: pass"]
    before = signal.getsignal(signal.SIGINT)
    predictions = online_watch.yield_predictions(busy, solo, 0.1, lambda _: None, machine=None, online=None)
    assert next(predictions).impact == 1.0
    # the counts until then are predicted once more
    assert [prediction.impact for prediction in predictions] == [1.0]
    signal.signal(signal.SIGINT, before)
    assert ends == [None, None]


def test_a_topology_names_private_and_shared_caches():
    topology = Topology(("0", "1"), {"L1d 32K": ("0", "1"), "L3 32768K": ("0-1",)}, False, 32.0)
    caches = "L1d 32K for each of 0 and 1, L3 32768K shared by 0-1"
    assert topology.description == f"cores: 0 and 1; caches: {caches}"
