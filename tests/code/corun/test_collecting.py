import os
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.corun import run
from data.corun import run as corun_suite
from data.corun.collect import MeasuredCorun, PlannedCorun, build_tables, plan_coruns
from data.corun.run import CorunSuite, TaskRun, interval_counts
from data.corun.tables import SAMPLE_DTYPES
from data.errors import InputError
from data.measure import perf_stat as perf_intervals
from data.measure.kernel_counts import ProcessTree, with_descendants
from tests.code.suites import CORUN, TASKS

SHIPPED = Path(__file__).parents[3] / "data/suites/corun.yaml"
HOST = {"machine": "m", "device": "m", "engine": "Linux", "note": "by hand"}
PERF = """# started on Sat Nov 21 16:25:22 2026

     0.203876159,84.26,msec,task-clock,84260436,100.00,0.421,CPUs utilized
     0.203876159,<not counted>,,context-switches,0,0.00,,
     0.404217677,79.64,msec,task-clock:u,79638108,100.00,0.398,CPUs utilized
     0.404217677,22,,context-switches,79638108,100.00,276.250,/sec
"""


@pytest.fixture
def suite():
    return CorunSuite.model_validate(CORUN)


def run_of(name, seconds=1.0, counts=(5.0, None)):
    samples = [[0.2, 2.0, None], [seconds, 3.0, None]]
    return TaskRun(name, 0, seconds, ["task-clock", "context-switches"], list(counts), samples)


def measured(planned, foreign=0.0):
    return MeasuredCorun(planned, "2026-11-21T00:00:00+00:00", foreign, tuple(map(run_of, planned.tasks)))


def test_shipped_suite_has_28_tasks_30_events_and_406_pairs():
    shipped = corun_suite.load_suite(SHIPPED)
    assert (len(shipped.tasks), len(shipped.events), shipped.together) == (28, 30, 2)
    named = "instructions bus-cycles LLC-loads L1-dcache-loads dTLB-loads branch-instructions branch-loads"
    assert {*named.split(), "context-switches"} <= set(shipped.events)
    everything = plan_coruns(shipped)
    pairs = [tuple(sorted(planned.tasks)) for planned in everything if len(planned.tasks) > 1]
    assert len(set(pairs)) == 406
    assert len(pairs) == 406 + shipped.repeat >= 466
    assert len(everything) - len(pairs) == 28 * shipped.solo >= 28 * 5


def test_solo_and_repeated_runs_are_spread_over_the_measurement(suite):
    everything = plan_coruns(suite)
    assert everything == plan_coruns(suite)
    pairs = {tuple(sorted(planned.tasks)) for planned in everything if len(planned.tasks) == 2}
    assert pairs == {tuple(sorted(pair)) for pair in combinations_with_replacement(TASKS, 2)}
    solo = [planned for planned in everything if len(planned.tasks) == 1]
    assert [planned.repetition for planned in solo] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {planned.tasks for planned in solo[:3]} == {(name,) for name in TASKS}
    assert everything.index(solo[-1]) - everything.index(solo[0]) > len(everything) / 2
    again = [planned for planned in everything if len(planned.tasks) == 2 and planned.repetition == 2]
    assert len(again) == 2
    for second in again:
        places = [
            number
            for number, planned in enumerate(everything)
            if sorted(planned.tasks) == sorted(second.tasks)
        ]
        between = everything[min(places) : max(places)]
        assert len(places) == 2
        assert any(planned in solo for planned in between)


def test_both_directions_of_a_pair_become_separate_rows():
    entries = [
        measured(PlannedCorun(("sort",), 1)),
        measured(PlannedCorun(("sort", "json"), 1)),
        measured(PlannedCorun(("json", "sort"), 2)),
        measured(PlannedCorun(("json", "json"), 1)),
        measured(PlannedCorun(("json", "sort", "sort"), 1)),
    ]
    found = build_tables(entries, HOST)
    assert found.tasks.to_dict("records")[0]["task-clock"] == 5.0
    assert found.tasks["context-switches"].isna().all()
    rows = found.pairs[["task", "corunner_1", "corunner_2", "repetition"]].fillna("").to_numpy().tolist()
    assert sorted(rows) == [
        ["json", "json", "", 1],
        ["json", "json", "", 2],
        ["json", "sort", "", 1],
        ["json", "sort", "", 2],
        ["json", "sort", "sort", 1],
        ["sort", "json", "", 1],
        ["sort", "json", "", 2],
        ["sort", "json", "sort", 1],
        ["sort", "json", "sort", 2],
    ]
    assert len(found.samples) == 2 * (1 + 2 + 2 + 2 + 3)
    three = found.samples[found.samples["corunners"] == "sort+sort"]
    assert three[["task", "phase", "t_seconds", "task-clock"]].to_numpy().tolist() == [
        ["json", "corun", 0.2, 2.0], ["json", "corun", 1.0, 3.0],
    ]  # fmt: skip


def test_perf_output_becomes_one_row_per_interval(tmp_path):
    (tmp_path / "perf.csv").write_text(PERF)
    found = perf_intervals.read_intervals(tmp_path / "perf.csv")
    assert found["t_seconds"].tolist() == [0.203876159, 0.404217677]
    assert found[["task-clock", "task-clock:u"]].sum().tolist() == [84.26, 79.64]
    assert found["context-switches"].isna().tolist() == [True, False]
    (tmp_path / "perf.csv").write_text(PERF.replace(",", ";"))
    assert perf_intervals.read_intervals(tmp_path / "perf.csv").equals(found)
    (tmp_path / "perf.csv").write_text(f"\N{BYTE ORDER MARK}{PERF}")
    assert perf_intervals.read_intervals(tmp_path / "perf.csv").equals(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": holds no interval; expected the output of perf stat -I 200 -x,"),
        (
            "task,share\n",
            ":1: 'task,share': expected the output of perf stat -I 200 with -x, or -j, or a CSV whose header",
        ),
        (PERF.replace(",22,", ",many,"), ':6: context-switches="many" is not a count'),
        *(
            (PERF.replace(",22,", f",{count},"), f":6: context-switches={count} must be 0 or more, and less")
            for count in ("-22", "inf", "-inf", "nan", "1e400", "18446744073709551616")
        ),
        *(
            (
                PERF.replace("context-switches", name),
                f':4: counts an event called "{name}", which is the name',
            )
            for name in ("t_seconds", "task", "corunners", "machine", "phase", "repetition")
        ),
        (f"{'9' * 400}.5,1,,faults,1,100.00,,\n", f":1: t_seconds={'9' * 40} must be 0 or more"),
        (PERF + PERF, ':9: counts "task-clock" twice in one interval'),
        ('{"interval": 0.2}\n', ':1: \'{"interval": 0.2}\': expected {"interval", "counter-value"'),
        ("t,instructions\n0.2,1\n0.4\n", ":3: has 1 cells; expected 2 as in the header"),
        ("t,instructions\n0.2,-1\n", ":2: instructions=-1 must be 0 or more"),
        ("t\n0.2\n", ":1: 't': expected the output of perf stat"),
    ],
)
def test_invalid_perf_output_gives_a_one_line_error(tmp_path, text, message):
    path = tmp_path / "perf.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        perf_intervals.read_intervals(path, SAMPLE_DTYPES)
    assert str(error.value).startswith(f"{path}{message}")


def test_perf_intervals_are_matched_to_the_nearest_ends():
    looks = pd.DataFrame({"faults": [5.0, 9.0, 7.0, 12.0]}, index=[0.0, 0.2, 0.41, 0.5])
    perf = pd.DataFrame({"t_seconds": [0.21, 0.4, 0.495, 0.501], "clock": [1.0, np.nan, 3.0, 4.0]})
    found = interval_counts(looks, perf)
    assert found.index.tolist() == [0.2, 0.41, 0.5]
    assert found["faults"].tolist() == [4.0, 0.0, 3.0]
    assert found["clock"].fillna(-1).tolist() == [1.0, -1.0, 7.0]


def test_kernel_counts_include_all_descendants_of_a_program():
    tree, cpu = ProcessTree(os.getpid()), min(os.sched_getaffinity(0))
    before = run.kernel_event_counts(tree, cpu, None)
    child = os.fork()
    if child == 0:
        Path("/proc/self/io").read_bytes()
        os._exit(0 if sum(range(10**6)) else 1)
    found = list(with_descendants(os.getpid()))
    # others may have been started before, such as a browser
    assert (found[0], child in found) == (os.getpid(), True)
    os.waitpid(child, 0)
    after = run.kernel_event_counts(tree, cpu, None)
    assert before.keys() == after.keys()
    assert after["process-minor-faults"] > before["process-minor-faults"]
    assert after["process-rchar"] > before["process-rchar"]
    assert after["system-ctxt"] > before["system-ctxt"]
    assert all(after[name] >= before[name] for name in before)
    assert tree.resident_mebibytes > 1
