import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from data import collect
from data.errors import InputError
from data.matrices import rates as matrix_rates
from data.matrices import suite as matrix_suite
from data.matrices import summaries
from data.matrices.collect import Costs, MeasuredRun, PlannedRun, measure, order, plan, tables, trials
from data.matrices.defects import DEFECTS
from data.matrices.rates import Look, rates
from data.matrices.run import Outcome
from data.matrices.suite import CAUSES, INVALID_KINDS, MatrixSuite
from data.matrices.validity import decide
from data.matrices.workloads import WORKLOADS
from data.measure import kernel_counts
from data.measure.journal import Journal
from data.measure.session import Session
from tests.seen import Seen

SHIPPED = Path(__file__).parents[3] / "data/suites/matrices.yaml"
CASES = [
    {"name": name, "group": group, "workload": name, "transactions": 50}
    for name, group in (("sort", "sorting"), ("heap", "sorting"), ("touch", "vm"), ("json", "cpu"))
]
SUITE = {
    "kind": "matrix", "name": "tiny", "seed": 3, "versions": 5, "abnormal": 0.2, "sizes": [0.2, 0.4],
    "events": ["task-clock"], "cases": CASES,
}  # fmt: skip
COSTS = dict.fromkeys(["unit", *DEFECTS], 1e-3)


@pytest.fixture
def suite():
    return MatrixSuite.model_validate(SUITE)


def made(order):
    faults = order.units * 10 + order.amount
    rare = {"rare": 1.0} if faults > 117 else {}
    metrics = {"faults": faults, "switches": 5.0, "perf.lost": math.nan} | rare
    return Outcome(order.units * order.transactions / 1000, order.transactions, metrics, 0.0)


def opened(path, begun, able=None):
    return Journal.open(path, begun, MeasuredRun, Costs, able)


def everything_measured(suite, path):
    journal = opened(path, suite.model_dump(mode="json"))
    planned = plan(suite, CAUSES, INVALID_KINDS)
    session = Session(journal, Seen(), "runs")
    measure(session, suite, planned, run=made, cost=lambda case, needed: COSTS)
    return journal


def test_the_shipped_suite_measures_more_than_4000_runs_of_39_test_cases_in_13_groups():
    shipped = matrix_suite.load(SHIPPED)
    assert Counter(case.group for case in shipped.cases) == dict.fromkeys(
        {case.group for case in shipped.cases}, 3
    )
    assert len({case.group for case in shipped.cases}) == 13
    assert {case.workload for case in shipped.cases} == set(WORKLOADS)
    assert set(shipped.causes) == set(CAUSES)
    everything = plan(shipped, shipped.causes, shipped.invalid_kinds)
    assert len(everything) == 4114
    valid = [planned for planned in everything if not planned.invalid]
    assert set(Counter((planned.pair_id, planned.side) for planned in valid).values()) == {3}
    assert (len(everything) - len(valid)) / len(everything) == pytest.approx(0.09, abs=0.001)
    targets = [planned for planned in valid if planned.side == "target"]
    # as in the seed, 3.5 % of all valid vectors are abnormal, baselines counted
    assert np.mean([bool(planned.cause) for planned in valid]) == pytest.approx(0.035, abs=0.001)
    assert not any(planned.cause for planned in everything if planned.side == "baseline")
    assert len({planned.cause for planned in targets}) == len(CAUSES) + 1
    assert set(Counter(planned.invalid for planned in everything if planned.invalid)) == set(INVALID_KINDS)
    # every group has something to find, no test case more than two
    groups = {case.name: case.group for case in shipped.cases}
    spoiled = {planned.pair_id: planned.case for planned in targets if planned.cause}
    assert {groups[case] for case in spoiled.values()} == set(groups.values())
    assert max(Counter(spoiled.values()).values()) == 2


def test_runs_of_a_pair_come_together_and_in_random_order(suite):
    everything = plan(suite, CAUSES, INVALID_KINDS)
    assert everything == plan(suite, CAUSES, INVALID_KINDS)
    assert len({planned.run_id for planned in everything}) == len(everything)
    pairs = [planned.pair_id for planned in everything]
    changes = sum(first != second for first, second in pairwise(pairs))
    assert changes == len(set(pairs)) - 1 == 19
    sides = [planned.side for planned in everything]
    assert 0.3 < np.mean([first != second for first, second in pairwise(sides)]) < 0.8
    assert len({planned.pair_id for planned in everything if planned.cause}) == 4
    assert not any(planned.invalid for planned in plan(suite, CAUSES, ()))


def test_a_defect_costs_its_share_of_the_time_and_invalid_runs_their_count(suite):
    plain = order(suite, PlannedRun("sort", 1, "baseline", 1), COSTS)
    assert plain.units * plain.transactions * COSTS["unit"] == pytest.approx(suite.seconds)
    assert (plain.amount, plain.quota) == (0, 1)
    work = order(suite, PlannedRun("sort", 1, "target", 1, "extra-work", 0.2), COSTS)
    assert work.units == pytest.approx(1.2 * plain.units)
    leak = order(suite, PlannedRun("sort", 1, "target", 1, "leak", 0.4), COSTS)
    assert leak.amount * leak.transactions * COSTS["leak"] == pytest.approx(0.4 * suite.seconds)
    assert leak.units == plain.units
    assert order(suite, PlannedRun("sort", 1, "target", 1, "quota", 0.25), COSTS).quota == pytest.approx(0.8)
    for number in range(9):
        wrong = order(suite, PlannedRun("sort", 1, "target", number, invalid="wrong-count"), COSTS)
        assert wrong.transactions != plain.transactions
        killed = order(suite, PlannedRun("sort", 1, "target", number, invalid="killed"), COSTS)
        assert 0.1 < killed.moment / suite.seconds < 0.75


def test_trial_runs_correct_what_units_cost_while_somebody_counts(suite):
    def seconds(order):
        # everything takes twice as long as it told
        return 2 * order.transactions * (order.units * 1e-3 + order.amount * 1e-3)

    costs = trials(suite, suite.cases[0], ["leak"], COSTS, seconds)
    assert costs["unit"] == pytest.approx(2e-3)
    assert costs["leak"] == pytest.approx(2e-3)
    assert costs["polling"] == 1e-3


def test_only_what_the_journal_lacks_is_measured_and_kept_at_once(suite, tmp_path):
    path, ran, calibrated = tmp_path / "journal.jsonl", [], []
    planned = plan(suite, CAUSES, INVALID_KINDS)

    def stopped(order):
        if len(ran) == 7:
            raise KeyboardInterrupt
        ran.append(order)
        return made(order)

    def cost(case, needed):
        calibrated.append(case.name)
        return COSTS

    begun = suite.model_dump(mode="json")
    with Session(opened(path, begun), Seen(), "runs") as session:
        measure(session, suite, planned, run=stopped, cost=cost)
    again = opened(path, begun)
    assert [entry.planned for entry in again.entries] == planned[:7]
    assert again.entries == session.journal.entries
    assert again.entries[0].metrics["perf.lost"] is None
    matrices = everything_measured(suite, path)
    assert [entry.planned for entry in matrices.entries] == planned
    assert sorted(calibrated) == sorted(case["name"] for case in CASES)
    with pytest.raises(InputError, match="was begun with another suite"):
        opened(path, begun | {"seed": 4})


def test_a_measurement_is_resumed_by_who_can_make_and_count_the_same(suite, tmp_path):
    path, begun = tmp_path / "journal.jsonl", suite.model_dump(mode="json")
    able = {"causes": ["leak", "quota"], "events": ["task-clock"]}
    opened(path, begun, able)
    assert opened(path, begun, able).entries == []
    for what, changed, told in (
        ("causes", ["leak"], '"quota" is not to be had here'),
        ("events", ["task-clock", "page-faults"], '"page-faults" was not to be had then'),
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


def test_a_disturbed_run_is_made_again_and_the_quietest_kept(suite, tmp_path, monkeypatch):
    monkeypatch.setattr("data.measure.session.PATIENCE", 0)
    shares, seen = iter([0.5, 0.2, 0.4, *[0.0] * 999]), Seen()
    session = Session(opened(tmp_path / "journal.jsonl", {}), seen, "runs", suite.foreign, suite.attempts)
    planned = plan(suite, CAUSES, INVALID_KINDS)
    measure(
        session, suite, planned,
        run=lambda order: Outcome(1.0, 1, {}, next(shares)),
        cost=lambda case, needed: COSTS,
    )  # fmt: skip
    assert [entry.foreign for entry in session.journal.entries] == [0.2, *[0.0] * (len(planned) - 1)]
    assert [line[2] for line in seen.lines].count("waiting: others use 50% of the machine") == 1


def test_causes_stand_beside_the_tables_and_metrics_that_never_vary_are_left_out(suite, tmp_path):
    found = tables(suite, everything_measured(suite, tmp_path / "journal.jsonl").entries, "m")
    runs = found.runs.set_index("run_id")
    assert found.raw == ["faults", "rare"]
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
    decided = decide(found, 0.5).runs.set_index("run_id")
    wrong = known.index[known["invalid_kind"] == "wrong-count"]
    assert (decided.loc[wrong, "rule"] == "same transaction count").all()
    assert decided["kept"].sum() == len(decided) - len(wrong)


def test_rates_are_per_second_per_transaction_and_as_read():
    first, middle, last = (
        Look(
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
    found = rates([first, middle, last], {"page-faults": 60.0, "lost": math.nan}, 20)
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
    assert math.isnan(rates([first, last], {}, 0)["process.faults"])


@pytest.mark.parametrize(("end", "count", "peak"), [(11.01, 160.0, 120 / 1.01), (11.6, 126.0, 60.0)])
def test_a_last_interval_that_is_much_shorter_makes_no_peak(end, count, peak):
    looks = [
        Look(at, {"stat.ctxt": switches}, {"user": 0.0, "system": 0.0}, {}, {}, {})
        for at, switches in ((9.0, 0.0), (10.0, 40.0), (11.0, 90.0), (end, count))
    ]
    assert rates(looks, {}, 1)["stat.ctxt.peak"] == pytest.approx(peak)


@pytest.mark.parametrize(
    ("name", "unit", "signed"),
    [
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
def test_every_metric_has_its_unit(name, unit, signed):
    assert (matrix_rates.unit(name), matrix_rates.signed(name)) == (unit, signed)


def test_what_the_kernel_counts_grows_and_has_names_that_last():
    before = kernel_counts.counts(0)
    Path("/proc/self/stat").read_bytes()
    after = kernel_counts.counts(0)
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
    assert {"vmstat.nr_free_pages", "meminfo.Cached"} <= set(kernel_counts.levels(0))
    assert "vmstat.nr_free_pages" not in before


def test_summary_metrics_are_what_their_formulas_say():
    kinds = {kind: 1.0 + number for number, kind in enumerate(summaries.ALL)}
    raw = {f"{place}.{kind}": float(value) for place in ("cpu", "stat") for kind, value in kinds.items()}
    raw |= {"process.busy": 6.0, "process.read_calls": 2.0, "process.write_calls": 3.0, "disk.reads": 1.0}
    run = pd.DataFrame([raw | {summaries.ELAPSED: 2.0, summaries.TRANSACTIONS: 50.0}])
    found = summaries.rolled_up(run).iloc[0]
    assert found["summary_throughput"] == 25
    assert found["summary_cpu"] == pytest.approx(100 * 15 / 36)
    assert found["summary_cpu_others"] == pytest.approx(100 * 9 / 36)
    assert found["summary_io_calls"] == 5
    assert math.isnan(found["summary_disk_requests"])
    assert set(summaries.UNITS) == {name for name in found.index if name.startswith("summary_")}
    assert 15 <= len(summaries.UNITS) <= 18


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": []}, "suite.yaml: sizes=[]: Tuple should have at least 1 item"),
        ({"abnormal": 1.5}, "suite.yaml: abnormal=1.5: Input should be less than 1"),
        ({"interal": 0.1}, 'suite.yaml: interal is unknown; did you mean "interval"?'),
        ({"cases": [CASES[0] | {"grup": "x"}]}, 'suite.yaml: cases.0.grup is unknown; did you mean "group"?'),
        ({"causes": ["extra-wrok"]}, 'suite.yaml: cause "extra-wrok" is unknown; did you mean "extra-work"?'),
        ({"causes": ["rust"]}, 'suite.yaml: cause "rust" is unknown; there are extra-work, quota'),
        ({"invalid_kinds": []}, "suite.yaml: invalid_kinds=[]: expected at least one"),
        ({"cases": [CASES[0] | {"workload": "rust"}]}, 'suite.yaml: workload "rust" is unknown'),
        ({"cases": [CASES[0]] * 2}, 'suite.yaml case "sort": stands twice'),
    ],
)  # fmt: skip
def test_a_wrong_suite_is_told_in_one_line(tmp_path, change, message):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE | change))
    with pytest.raises(InputError) as error:
        matrix_suite.load(path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")


def test_the_kind_of_the_shipped_suite_chooses_its_collector():
    assert collect.collector(SHIPPED).__module__ == "data.matrices"
