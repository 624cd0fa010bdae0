import math
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.matrices import run as matrix_rates
from data.matrices import suite as matrix_suite
from data.matrices import validity
from data.matrices.collect import (
    HOST,
    Cost,
    MeasuredRun,
    PlannedRun,
    build_order,
    build_tables,
    corrected_cost,
    measure,
    plan_runs,
)
from data.matrices.run import Outcome, Snapshot, raw_metrics
from data.matrices.suite import CAUSES, INVALID_KINDS, QUOTA, MatrixSuite
from data.matrices.validity import decide_validity
from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS
from data.measure import kernel_counts
from data.measure.session import Journal, Session
from tests.code.suites import CASES, MATRIX
from tests.seen import Seen

SHIPPED = Path(__file__).parents[3] / "data/suites/matrices.yaml"
PACED = {
    "name": "paced", "group": "cpu", "workload": "json", "second": "heap", "share": 0.25, "transactions": 50,
    "pace": "polling", "load": 0.5, "length": 2.0,
}  # fmt: skip
#: Some causes, of each kind.
SOME = ("extra-work", "leak", "polling", "leak at equal time", "kept-memory")
COSTS = dict.fromkeys([*WORKLOADS, *DEFECTS], 1e-3)


@pytest.fixture
def suite():
    return MatrixSuite.model_validate(MATRIX)


def made(order):
    work = order.work
    faults = sum(work.units.values()) * 10 + work.amount
    rare = {"rare": 1.0} if faults > 117 else {}
    metrics = {"faults": faults, "switches": 5.0, "perf.lost": math.nan} | rare
    elapsed = sum(work.units.values()) * work.transactions / 1000
    return Outcome(elapsed, work.transactions, metrics, 0.0)


def opened(path, begun, able=None):
    return Journal.open_or_create(path, begun, MeasuredRun, Cost, able)


def everything_measured(suite, path):
    journal = opened(path, suite.model_dump(mode="json"))
    planned = plan_runs(suite, SOME, INVALID_KINDS)
    session = Session(journal, Seen(), "runs")
    measure(session, suite, planned, run=made, cost=lambda name, known: COSTS[name])
    return journal


def test_shipped_suite_plans_8000_runs_in_26_groups():
    shipped = matrix_suite.load_suite(SHIPPED)
    cases = shipped.test_cases
    assert set(Counter(case.group for case in cases.values()).values()) == {16}
    assert (len(cases), len({case.group for case in cases.values()})) == (416, 26)
    assert {name for case in cases.values() for name in case.workload_shares} == set(WORKLOADS)
    everything = plan_runs(shipped, shipped.causes, shipped.invalid_kinds)
    assert len({planned.run_id for planned in everything}) == len(everything) == 8229
    valid = [planned for planned in everything if not planned.invalid]
    assert set(Counter((planned.pair_id, planned.side) for planned in valid).values()) == {3}
    assert (len(everything) - len(valid)) / len(everything) == pytest.approx(0.09, abs=0.001)
    # as in the seed, 3.5 % of all valid vectors are abnormal, baselines counted
    assert np.mean([bool(planned.cause) for planned in valid]) == pytest.approx(0.035, abs=0.001)
    assert not any(planned.cause for planned in everything if planned.side == "baseline")
    assert {planned.cause for planned in valid} == {*shipped.causes, ""}
    assert {planned.size for planned in valid if planned.cause} == set(shipped.sizes)
    assert {planned.invalid for planned in everything} == {*INVALID_KINDS, ""}
    # every group has something to find, no test case more than one
    spoiled = {planned.pair_id: planned.case for planned in valid if planned.cause}
    assert {cases[case].group for case in spoiled.values()} == {case.group for case in cases.values()}
    assert max(Counter(spoiled.values()).values()) == 1
    assert not any(planned.cause == QUOTA and cases[planned.case].pace != "closed" for planned in everything)


def test_sides_of_a_pair_are_half_the_sessions_apart():
    shipped = matrix_suite.load_suite(SHIPPED)
    everything = plan_runs(shipped, shipped.causes, shipped.invalid_kinds)
    order = [planned.session for planned in everything]
    assert order == sorted(order)
    assert all(1300 < count < 1450 for count in Counter(order).values())
    session = {(planned.pair_id, planned.side): planned.session for planned in everything}
    apart = {session[pair, "baseline"] - session[pair, "target"] for pair, _ in session}
    assert apart == {-3, 3}


def test_one_session_runs_each_pair_together_in_random_order(suite):
    everything = plan_runs(suite, CAUSES, INVALID_KINDS)
    assert everything == plan_runs(suite, CAUSES, INVALID_KINDS)
    assert len({planned.run_id for planned in everything}) == len(everything)
    pairs = [planned.pair_id for planned in everything]
    changes = sum(first != second for first, second in pairwise(pairs))
    assert changes == len(set(pairs)) - 1 == 19
    sides = [planned.side for planned in everything]
    assert 0.3 < np.mean([first != second for first, second in pairwise(sides)]) < 0.8
    assert len({planned.pair_id for planned in everything if planned.cause}) == 4
    assert not any(planned.invalid for planned in plan_runs(suite, CAUSES, ()))
    paced = MatrixSuite.model_validate(MATRIX | {"cases": [PACED]})
    assert not any(planned.cause for planned in plan_runs(paced, [QUOTA], ()))


def test_defects_cost_the_planned_share_of_time(suite):
    def ordered(*planned, **more):
        return build_order(suite, PlannedRun("sort", 1, *planned, **more), COSTS)

    plain = ordered("baseline", 1)
    assert plain.work.units["sort"] * plain.work.transactions * COSTS["sort"] == pytest.approx(suite.seconds)
    assert (plain.work.amount, plain.work.period, plain.quota) == (0, 0, 1)
    assert ordered("target", 1, "extra-work", 0.2).work.units["sort"] == pytest.approx(
        1.2 * plain.work.units["sort"]
    )
    leak = ordered("target", 1, "leak", 0.4).work
    assert leak.amount * leak.transactions * COSTS["leak"] == pytest.approx(0.4 * suite.seconds)
    assert leak.units == plain.work.units
    assert ordered("target", 1, "quota", 0.25).quota == pytest.approx(0.8)
    equal = ordered("target", 1, "leak at equal time", 0.4).work
    assert equal.amount == leak.amount
    assert equal.units["sort"] == pytest.approx(0.6 * plain.work.units["sort"])
    kept = ordered("target", 1, "kept-memory", 0.4).work
    assert (kept.defect, kept.defect_size, kept.units) == ("kept-memory", 0.4, plain.work.units)
    # there is one unit at least, however dear
    dear = build_order(
        suite, PlannedRun("sort", 1, "target", 1, "extra-processes", 0.2), COSTS | {"extra-processes": 9.0}
    )
    assert dear.work.amount * dear.work.transactions == pytest.approx(1)
    for number in range(9):
        wrong = ordered("target", number, invalid="wrong-count")
        assert wrong.work.transactions != plain.work.transactions
        killed = ordered("target", number, invalid="killed")
        assert 0.1 < killed.moment / suite.seconds < 0.75


def test_paced_workloads_leave_idle_time_for_a_defect():
    suite = MatrixSuite.model_validate(MATRIX | {"cases": [PACED]})
    plain = build_order(suite, PlannedRun("paced", 1, "baseline", 1), COSTS).work
    assert plain.polling
    assert plain.period * plain.transactions == pytest.approx(2 * suite.seconds)
    busy = {name: units * plain.transactions * COSTS[name] for name, units in plain.units.items()}
    assert busy == pytest.approx({"json": 0.75 * suite.seconds, "heap": 0.25 * suite.seconds})
    leak = build_order(suite, PlannedRun("paced", 1, "target", 1, "leak", 0.4), COSTS).work
    assert leak.amount * leak.transactions * COSTS["leak"] == pytest.approx(0.4 * suite.seconds)
    assert leak.period == plain.period


def test_trial_runs_correct_unit_costs_for_counting_overhead(suite):
    def seconds(order):
        # everything takes twice as long as it told, but the host
        work = order.work
        units = sum(count * (1e-3 if name == HOST else 2e-3) for name, count in work.units.items())
        return work.transactions * (units + work.amount * 2e-3)

    assert corrected_cost(suite, "heap", COSTS, seconds) == pytest.approx(2e-3)
    assert corrected_cost(suite, "leak", COSTS, seconds) == pytest.approx(2e-3)
    assert not set(DEFECTS) & set(STANDING)


def test_every_workload_and_defect_can_be_set_up_and_repeated(tmp_path):
    script = (
        "from data.matrices.programs import DEFECTS, WORKLOADS, calibrate_unit\n"
        "import os\n"
        "for name in (*WORKLOADS, *DEFECTS): print(name, calibrate_unit(name, 1e-4), flush=True)\n"
        "os._exit(0)"
    )
    environment = {**matrix_rates.ENVIRONMENT, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    seconds = dict(line.split() for line in done.stdout.splitlines())
    assert seconds.keys() == {*WORKLOADS, *DEFECTS}
    assert all(0 < float(value) < 1 for value in seconds.values())


def test_only_runs_missing_in_the_journal_are_measured(suite, tmp_path):
    path, ran, calibrated = tmp_path / "journal.jsonl", [], []
    planned = plan_runs(suite, SOME, INVALID_KINDS)

    def stopped(order):
        if len(ran) == 7:
            raise KeyboardInterrupt
        ran.append(order)
        return made(order)

    def cost(name, known):
        assert set(known) == set(calibrated)
        calibrated.append(name)
        return COSTS[name]

    begun = suite.model_dump(mode="json")
    with Session(opened(path, begun), Seen(), "runs") as session:
        measure(session, suite, planned, run=stopped, cost=cost)
    again = opened(path, begun)
    assert [entry.planned for entry in again.entries] == planned[:7]
    assert again.entries == session.journal.entries
    assert again.entries[0].metrics["perf.lost"] is None
    matrices = everything_measured(suite, path)
    assert [entry.planned for entry in matrices.entries] == planned
    needed = {planned.cause.split(" at equal")[0] for planned in planned} & set(DEFECTS)
    assert sorted(calibrated) == sorted({HOST, *(case["name"] for case in CASES), *needed})
    with pytest.raises(InputError, match="was begun with another suite"):
        opened(path, begun | {"seed": 4})


def test_resuming_requires_the_same_causes_and_events(suite, tmp_path):
    path, begun = tmp_path / "journal.jsonl", suite.model_dump(mode="json")
    able = {"causes": ["leak", "quota"], "events": ["task-clock"]}
    opened(path, begun, able)
    assert opened(path, begun, able).entries == []
    for what, changed, told in (
        ("causes", ["leak"], '"quota" is not available here'),
        ("events", ["task-clock", "page-faults"], '"page-faults" was not available then'),
    ):
        with pytest.raises(InputError) as error:
            opened(path, begun, able | {what: changed})
        assert str(error.value) == (
            f"{path}: was begun with other {what} ({told}); go on as then, or name another directory"
        )
    # who began before this was written down may go on
    old = tmp_path / "old.jsonl"
    opened(old, begun)
    assert opened(old, begun, able).entries == []


def test_tables_separate_causes_and_drop_constant_metrics(suite, tmp_path):
    found = build_tables(suite, everything_measured(suite, tmp_path / "journal.jsonl").entries, "m")
    runs = found.runs.set_index("run_id")
    assert found.raw_metrics == ["faults", "rare"]
    assert runs["rare"].isin([0.0, 1.0]).all()
    assert not {"cause", "cause_size", "invalid_kind"} & set(runs.columns)
    known = found.causes.set_index("run_id")
    invalid = known.index[known["invalid_kind"] != ""]
    assert runs["valid"].sum() == len(runs) - len(invalid) == 120
    assert runs.loc[invalid, "abnormal"].isna().all()
    abnormal = runs.index[runs["abnormal"].fillna(value=False)]
    assert set(abnormal) == set(known.index[known["cause"] != ""]) - set(invalid)
    assert (runs.loc[abnormal, "side"] == "target").all()
    assert set(runs.loc[runs["side"] == "baseline", "version"]) == {"v0"}
    decided = decide_validity(found, 0.5).runs.set_index("run_id")
    wrong = known.index[known["invalid_kind"] == "wrong-count"]
    assert (decided.loc[wrong, "rule"] == "same transaction count").all()
    assert decided["kept"].sum() == len(decided) - len(wrong)


def test_rates_are_per_second_per_transaction_or_absolute():
    first, middle, last = (
        Snapshot(
            at,
            {"stat.ctxt": count, "irq.RES": 1.0},
            program,
            {"user_usec": used, "system_usec": 0.0},
            {"free": free},
            levels,
        )
        for at, count, program, used, free, levels in (
            (10.0, 100.0, {"faults": 5.0, "user": 1.0}, 9000.0, 50.0, {"level_Threads": 1.0}),
            (10.5, 400.0, {"faults": 45.0}, 9500.0, 20.0, {"level_Threads": 4.0}),
            (12.0, 500.0, {"faults": 25.0}, 100.0, 30.0, {}),
        )
    )
    found = raw_metrics([first, middle, last], {"page-faults": 60.0, "lost": math.nan}, 20)
    assert found["stat.ctxt"] == 200
    assert found["stat.ctxt.peak"] == 600
    assert found["irq.RES"] == 0
    assert found["free.change"] == -10
    # what ended has not uncounted what it counted, but a control group made anew has
    assert found["process.faults"] == 2
    assert found["group.user_usec"] == -4450
    assert found["process.busy"] == -4.45
    assert found["process.level_Threads"] == 2.5
    assert found["perf.page-faults"] == 3
    assert math.isnan(found["perf.lost"])
    assert math.isnan(raw_metrics([first, last], {}, 0)["process.faults"])


@pytest.mark.parametrize(("end", "count", "peak"), [(11.01, 160.0, 120 / 1.01), (11.6, 126.0, 60.0)])
def test_a_much_shorter_last_interval_makes_no_peak(end, count, peak):
    looks = [
        Snapshot(at, {"stat.ctxt": switches}, {"user": 0.0, "system": 0.0}, {}, {}, {})
        for at, switches in ((9.0, 0.0), (10.0, 40.0), (11.0, 90.0), (end, count))
    ]
    assert raw_metrics(looks, {}, 1)["stat.ctxt.peak"] == pytest.approx(peak)


@pytest.mark.parametrize(
    ("name", "unit", "signed"),
    [
        ("stat.softirq_time", "ms/s", False),
        ("cpu.user", "ms/s", False), ("stat.ctxt.peak", "1/s", False), ("disk.write_volume", "KiB/s", False),
        ("disk.busy_time", "ms/s", False), ("net.rx_bytes", "B/s", False),
        ("pressure.io_some", "us/s", False), ("meminfo.Cached.change", "KiB/s", True),
        ("process.user", "ms/txn", False), ("process.busy", "ms/s", False),
        ("process.resident", "MiB", False),
        ("process.level_VmData", "KiB", False),
        ("process.level_Threads", "1", False), ("group.user_usec", "us/s", False),
        ("perf.task-clock", "ms/txn", False), ("perf.page-faults", "1/txn", False),
    ],
)  # fmt: skip
def test_every_collected_metric_has_a_unit(name, unit, signed):
    assert (matrix_rates.metric_unit(name), matrix_rates.may_be_negative(name)) == (unit, signed)


def test_kernel_counters_are_monotonic_with_stable_names():
    before = kernel_counts.machine_counts(0)
    Path("/proc/self/stat").read_bytes()
    after = kernel_counts.machine_counts(0)
    assert len(before) > 150
    assert all(
        after[name] >= value for name, value in before.items() if not name.endswith((".idle", ".iowait"))
    )
    assert {
        "stat.ctxt",
        "cpu.user",
        "vmstat.pgfault",
        "irq.LOC",
        "softirq.cpu.SCHED",
        "net.lo_rx_bytes",
    } <= set(before)
    assert not any(name.removeprefix("irq.").removeprefix("cpu.").isdecimal() for name in before)
    assert {"vmstat.nr_free_pages", "meminfo.Cached"} <= set(kernel_counts.machine_levels(0))
    assert "vmstat.nr_free_pages" not in before


def test_times_and_counts_of_processors_have_distinct_names(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_counts, "PROC", tmp_path)
    ticks = "1 2 3 4 5 6 7 8"
    counts = "intr 100 1\nctxt 200\nprocesses 300\nprocs_running 9\nsoftirq 400 1\n"
    (tmp_path / "stat").write_text(f"cpu {ticks} 0 0\ncpu0 {ticks} 0 0\n{counts}")
    numbers = kernel_counts.processor_counts(0)
    assert len(numbers) == 2 * len(kernel_counts.CPU_TIMES) + len(counts.splitlines())
    assert numbers["stat.softirq_time"] == numbers["cpu.softirq"] == 7 * kernel_counts.TICK_MILLISECONDS
    assert numbers["stat.softirq"] == 400


def test_all_summary_metrics_match_their_formulas():
    kinds = {kind: 1.0 + number for number, kind in enumerate(validity.PROCESSOR_TIMES)}
    raw = {f"{place}.{kind}": float(value) for place in ("cpu", "stat") for kind, value in kinds.items()}
    raw |= {"process.busy": 6.0, "process.read_calls": 2.0, "process.write_calls": 3.0, "disk.reads": 1.0}
    run = pd.DataFrame([raw | {validity.ELAPSED: 2.0, validity.TRANSACTIONS: 50.0}])
    found = validity.with_summary_metrics(run).iloc[0]
    assert found["summary_throughput"] == 25
    assert found["summary_cpu"] == pytest.approx(100 * 15 / 36)
    assert found["summary_cpu_others"] == pytest.approx(100 * 9 / 36)
    assert found["summary_io_calls"] == 5
    assert math.isnan(found["summary_disk_requests"])
    assert set(validity.UNITS) == {name for name in found.index if name.startswith("summary_")}
    assert 15 <= len(validity.UNITS) <= 18
