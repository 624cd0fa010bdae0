import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from data.matrices import collect, validity
from data.matrices import run as matrix_rates
from data.matrices.collect import PlannedRun, build_order, plan_runs
from data.matrices.run import Outcome, Snapshot, raw_metrics
from data.matrices.suite import CAUSES, INVALID_KINDS, QUOTA, MatrixSuite, load_suite
from data.matrices.validity import decide_validity
from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS
from data.measure import kernel_counts
from data.measure.session import Journal, Session
from tests.code.suites import CASES, MATRIX
from tests.data.refusals import refusal
from tests.seen import Seen

SHIPPED = Path(__file__).parents[3] / "data/suites/matrices.yaml"
#: Some causes, of each kind.
SOME = ("extra-work", "leak", "polling", "leak at equal time", "kept-memory")
COSTS = dict.fromkeys([*WORKLOADS, *DEFECTS], 1e-3)
near = partial(pytest.approx, abs=0.001)


PACED = MatrixSuite.model_validate(MATRIX | {"cases": [{
    "name": "paced", "group": "cpu", "workload": "json", "second": "heap", "share": 0.25,
    "transactions": 50, "pace": "polling", "load": 0.5, "length": 2.0,
}]})  # fmt: skip


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
    return Journal.open_or_create(path, begun, collect.MeasuredRun, collect.Cost, able)


def planned_table(suite, causes, kinds):
    planned = plan_runs(suite, causes, kinds)
    return pd.DataFrame(planned).assign(
        pair_id=[run.pair_id for run in planned], run_id=[run.run_id for run in planned]
    )


def test_shipped_suite_plans_8000_runs_in_six_sessions():
    shipped = load_suite(SHIPPED)
    groups = pd.Series({name: case.group for name, case in shipped.test_cases.items()})
    assert groups.value_counts().tolist() == [16] * 26
    shares = (case.workload_shares for case in shipped.test_cases.values())
    assert {name for workloads in shares for name in workloads} == set(WORKLOADS)
    plan = planned_table(shipped, shipped.causes, shipped.invalid_kinds)
    assert plan["run_id"].nunique() == len(plan) == 8229
    assert plan["invalid"].replace("", "valid").value_counts(normalize=True)["valid"] == near(0.91)
    assert set(plan["invalid"]) == {*INVALID_KINDS, ""}
    valid = plan[plan["invalid"] == ""]
    assert valid.value_counts(["pair_id", "side"]).unique().tolist() == [3]
    # as in the seed, 3.5 % of all valid vectors are abnormal, baselines counted
    spoiled = valid[valid["cause"] != ""]
    assert len(spoiled) / len(valid) == near(0.035)
    assert set(plan.loc[plan["cause"] != "", "side"]) == {"target"}
    assert (set(spoiled["cause"]), set(spoiled["size"])) == (set(shipped.causes), set(shipped.sizes))
    assert {shipped.test_cases[name].pace for name in spoiled["case"][spoiled["cause"] == QUOTA]} == {
        "closed"
    }
    # every group has something to find, no test case more than one
    found = spoiled.drop_duplicates("pair_id")["case"]
    assert found.is_unique
    assert set(groups[found]) == set(groups)
    # the sides of a pair are half the sessions apart
    assert plan["session"].is_monotonic_increasing
    assert plan["session"].value_counts().between(1301, 1449).all()
    sessions = plan.groupby(["pair_id", "side"])["session"].first().unstack()
    assert set(sessions["baseline"] - sessions["target"]) == {-3, 3}


def test_one_session_runs_each_pair_together_in_random_order(suite):
    plan = planned_table(suite, CAUSES, INVALID_KINDS)
    pd.testing.assert_frame_equal(plan, planned_table(suite, CAUSES, INVALID_KINDS))
    changes = plan[["pair_id", "side"]].ne(plan[["pair_id", "side"]].shift()).iloc[1:]
    assert changes["pair_id"].sum() == plan["pair_id"].nunique() - 1 == 19
    assert 0.3 < changes["side"].mean() < 0.8
    assert plan.loc[plan["cause"] != "", "pair_id"].nunique() == 4
    assert not any(planned.invalid for planned in plan_runs(suite, CAUSES, ()))
    assert not any(planned.cause for planned in plan_runs(PACED, [QUOTA], ()))


def test_defects_cost_the_planned_share_of_time(suite):
    def ordered(cause="", size=0.0, number=1, costs=COSTS, invalid=""):
        return build_order(suite, PlannedRun("sort", 1, "target", number, cause, size, invalid), costs)

    plain = ordered()
    units = plain.work.units["sort"]
    assert units * plain.work.transactions * COSTS["sort"] == pytest.approx(suite.seconds)
    assert (plain.work.amount, plain.work.period, plain.quota) == (0, 0, 1)
    assert ordered("extra-work", 0.2).work.units["sort"] == pytest.approx(1.2 * units)
    leak, equal = ordered("leak", 0.4).work, ordered("leak at equal time", 0.4).work
    assert leak.amount * leak.transactions * COSTS["leak"] == pytest.approx(0.4 * suite.seconds)
    assert (leak.units, equal.amount) == (plain.work.units, leak.amount)
    assert equal.units["sort"] == pytest.approx(0.6 * units)
    assert ordered("quota", 0.25).quota == pytest.approx(0.8)
    kept = ordered("kept-memory", 0.4).work
    assert (kept.defect, kept.defect_size, kept.units) == ("kept-memory", 0.4, plain.work.units)
    # there is one unit at least, however dear
    dear = ordered("extra-processes", 0.2, costs=COSTS | {"extra-processes": 9.0}).work
    assert dear.amount * dear.transactions == pytest.approx(1)
    for number in range(9):
        wrong, killed = (ordered(number=number, invalid=kind) for kind in ("wrong-count", "killed"))
        assert wrong.work.transactions != plain.work.transactions
        assert 0.1 < killed.moment / suite.seconds < 0.75


def test_paced_workloads_leave_idle_time_for_a_defect():
    plain, leak = (
        build_order(PACED, PlannedRun("paced", 1, "target", 1, *defect), COSTS).work
        for defect in ((), ("leak", 0.4))
    )
    assert (plain.polling, leak.period) == (True, plain.period)
    assert plain.period * plain.transactions == pytest.approx(2 * PACED.seconds)
    busy = {name: units * plain.transactions * COSTS[name] for name, units in plain.units.items()}
    assert busy == pytest.approx({"json": 0.75 * PACED.seconds, "heap": 0.25 * PACED.seconds})
    assert leak.amount * leak.transactions * COSTS["leak"] == pytest.approx(0.4 * PACED.seconds)


def test_trial_runs_correct_unit_costs_for_counting_overhead(suite):
    def seconds(order):
        # everything takes twice as long as it told, but the host
        work = order.work
        units = sum(count * (1e-3 if name == collect.HOST else 2e-3) for name, count in work.units.items())
        return work.transactions * (units + work.amount * 2e-3)

    for name in ("heap", "leak"):
        assert collect.corrected_cost(suite, name, COSTS, seconds) == pytest.approx(2e-3)
    assert not set(DEFECTS) & set(STANDING)


def test_every_workload_and_defect_can_be_set_up_and_repeated(tmp_path):
    script = (
        "from data.matrices.programs import DEFECTS, WORKLOADS, calibrate_unit\n"
        "import json, os\n"
        "seconds = {name: calibrate_unit(name, 1e-4) for name in (*WORKLOADS, *DEFECTS)}\n"
        "print(json.dumps(seconds), flush=True)\n"
        "os._exit(0)"
    )
    environment = {**matrix_rates.ENVIRONMENT, "TMPDIR": str(tmp_path)}
    printed = subprocess.check_output([sys.executable, "-S", "-c", script], env=environment, timeout=60)
    seconds = json.loads(printed)
    assert seconds.keys() == {*WORKLOADS, *DEFECTS}
    assert all(0 < value < 1 for value in seconds.values())


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

    begun, seen = suite.model_dump(mode="json"), Seen()
    with Session(opened(path, begun), seen, "runs") as session:
        collect.measure(session, suite, planned, run=stopped, cost=cost)
    assert (session.finished, seen.notes) == (False, ["kept 7 runs; start again to resume"])
    needed = {planned.cause.split(" at equal")[0] for planned in planned} & set(DEFECTS)
    assert sorted(calibrated) == sorted({collect.HOST, *(case["name"] for case in CASES), *needed})
    again = opened(path, begun)
    assert again.entries == session.journal.entries
    assert [entry.planned for entry in again.entries] == planned[:7]
    assert again.entries[0].metrics["perf.lost"] is None
    # without calibrating anew
    collect.measure(Session(again, seen, "runs"), suite, planned, run=made, cost=None)
    assert [entry.planned for entry in again.entries] == planned


@pytest.mark.parametrize(
    ("what", "changed", "told"),
    [
        ("causes", ["leak"], '"quota" is not available here'),
        ("events", ["task-clock", "page-faults"], '"page-faults" was not available then'),
    ],
)
def test_resuming_requires_the_same_causes_and_events(suite, tmp_path, what, changed, told):
    path, begun = tmp_path / "journal.jsonl", suite.model_dump(mode="json")
    able = {"causes": ["leak", "quota"], "events": ["task-clock"]}
    # who began before this was written down may go on
    for journal, before in ((path.with_name("old"), None), (path, able)):
        opened(journal, begun, before)
        assert opened(journal, begun, able).entries == []
    told = f"{path}: was begun with other {what} ({told}); go on as then, or name another directory"
    assert refusal(opened, path, begun, able | {what: changed}) == told


def test_tables_separate_causes_and_drop_constant_metrics(suite, tmp_path):
    journal = opened(tmp_path / "journal.jsonl", suite.model_dump(mode="json"))
    session, planned = Session(journal, Seen(), "runs"), plan_runs(suite, SOME, INVALID_KINDS)
    collect.measure(session, suite, planned, run=made, cost=lambda name, _: COSTS[name])
    found = collect.build_tables(suite, journal.entries, "m")
    runs, known = (table.set_index("run_id") for table in (found.runs, found.causes))
    assert found.raw_metrics == ["faults", "rare"]
    assert runs["rare"].isin([0.0, 1.0]).all()
    assert not {"cause", "cause_size", "invalid_kind"} & set(runs.columns)
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
            at, {"stat.ctxt": count, "irq.RES": 1.0}, program, {"user_usec": used, "system_usec": 0.0},
            {"free": free}, levels,
        )
        for at, count, program, used, free, levels in (
            (10.0, 100.0, {"faults": 5.0, "user": 1.0}, 9000.0, 50.0, {"level_Threads": 1.0}),
            (10.5, 400.0, {"faults": 45.0}, 9500.0, 20.0, {"level_Threads": 4.0}),
            (12.0, 500.0, {"faults": 25.0}, 100.0, 30.0, {}),
        )
    )  # fmt: skip
    found = raw_metrics([first, middle, last], {"page-faults": 60.0, "lost": math.nan}, 20)
    expected = {
        "stat.ctxt": 200, "stat.ctxt.peak": 600, "irq.RES": 0, "free.change": -10, "perf.page-faults": 3,
        "process.level_Threads": 2.5,
        # what ended has not uncounted what it counted, but a control group made anew has
        "process.faults": 2, "group.user_usec": -4450, "process.busy": -4.45,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert math.isnan(found["perf.lost"])
    assert math.isnan(raw_metrics([first, last], {}, 0)["process.faults"])


@pytest.mark.parametrize(("end", "count", "peak"), [(11.01, 160.0, 120 / 1.01), (11.6, 126.0, 60.0)])
def test_a_much_shorter_last_interval_makes_no_peak(end, count, peak):
    busy, counts = {"user": 0.0, "system": 0.0}, {9.0: 0.0, 10.0: 40.0, 11.0: 90.0, end: count}
    looks = [Snapshot(at, {"stat.ctxt": number}, busy, {}, {}, {}) for at, number in counts.items()]
    assert raw_metrics(looks, {}, 1)["stat.ctxt.peak"] == pytest.approx(peak)


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("ms/s", "stat.softirq_time cpu.user disk.busy_time process.busy"),
        ("1/s", "stat.ctxt.peak stat.softirq"), ("KiB/s", "disk.write_volume"), ("B/s", "net.rx_bytes"),
        ("us/s", "pressure.io_some group.user_usec"), ("ms/txn", "process.user perf.task-clock"),
        ("MiB", "process.resident"), ("KiB", "process.level_VmData"), ("1", "process.level_Threads"),
        ("1/txn", "perf.page-faults"),
    ],
)  # fmt: skip
def test_every_collected_metric_has_a_unit(unit, names):
    assert {matrix_rates.metric_unit(name) for name in names.split()} == {unit}
    assert not any(map(matrix_rates.may_be_negative, names.split()))
    assert matrix_rates.metric_unit("meminfo.Cached.change") == "KiB/s"
    assert matrix_rates.may_be_negative("meminfo.Cached.change")


def test_kernel_counters_are_monotonic_with_stable_names():
    before, after = kernel_counts.machine_counts(0), kernel_counts.machine_counts(0)
    assert len(before) > 150
    assert all(after[name] >= before[name] for name in before if not name.endswith((".idle", ".iowait")))
    names = "stat.ctxt cpu.user vmstat.pgfault irq.LOC softirq.cpu.SCHED net.lo_rx_bytes"
    assert {*names.split()} <= set(before)
    assert not any(name.removeprefix("irq.").removeprefix("cpu.").isdecimal() for name in before)
    assert {"vmstat.nr_free_pages", "meminfo.Cached"} <= set(kernel_counts.machine_levels())
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
    raw = {f"{place}.{kind}": value for place in ("cpu", "stat") for kind, value in kinds.items()}
    raw |= {"process.busy": 6.0, "process.read_calls": 2.0, "process.write_calls": 3.0, "disk.reads": 1.0}
    run = pd.DataFrame([raw | {validity.ELAPSED: 2.0, validity.TRANSACTIONS: 50.0}])
    found = validity.with_summary_metrics(run).iloc[0].filter(regex="^summary_")
    expected = {"throughput": 25, "cpu": 100 * 15 / 36, "cpu_others": 100 * 9 / 36, "io_calls": 5}
    assert found[[f"summary_{name}" for name in expected]].tolist() == pytest.approx([*expected.values()])
    assert math.isnan(found["summary_disk_requests"])
    assert set(validity.UNITS) == set(found.index)
    assert 15 <= len(validity.UNITS) <= 18
