"""Fingerprints as they come in: a flaw is told in one line, or a decision leaves it out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.fingerprints import formats as fingerprint_formats
from data.fingerprints.collect import load_suite
from data.fingerprints.formats import quiho, sparecores
from data.fingerprints.tables import CATEGORIES, FingerprintTables
from data.fingerprints.validity import FingerprintDecisions, decide_validity
from data.tables.problems import Problems
from tests.data.fingerprints.rows import MACHINES, STRESSORS, host, measured, rate, small

ROOT = Path(__file__).parents[3]
SHIPPED, SUITES = ROOT / "data/raw/fingerprints", ROOT / "data/suites"
SAMPLE = ROOT / "docs/samples/figure-4.csv"
CELL = (
    'machine "a" stressor "qsort" threads {} repetition 1: bogo_ops_per_second={} must be above 0 and finite'
)
FLAWS = {
    "a machine twice": (
        {"machines": [rate("a", "cpu", 5.0)]},
        'machine "a" stressor "cpu" threads 1 repetition 1: occurs twice',
    ),
    "a rate of zero": ({"machines": [rate("a", "qsort", 0.0)]}, CELL.format(1, "0")),
    "a negative rate": ({"machines": [rate("a", "qsort", -2.0, threads=0)]}, CELL.format(0, "-2")),
    "an infinite rate": ({"machines": [rate("a", "qsort", float("inf"))]}, CELL.format(1, "inf")),
    "a machine of unknown CPU": (
        {"machines": [rate("e", "cpu", 5.0)]},
        'machine "e": has no CPU model in the table of hosts; expected one, by which it is held out',
    ),
    "a machine described twice": ({"hosts": [host("a", "Opteron")]}, 'machine "a": occurs twice'),
    "an application twice": (
        {"applications": [measured("a", 9.0)]},
        'machine "a" application "zlog" repetition 1: occurs twice',
    ),
    "a time of zero": (
        {"applications": [measured("a", 0.0, repetition=2)]},
        'machine "a" application "zlog" repetition 2: value=0 must be above 0 and finite',
    ),
    "two threads": (
        {"machines": [rate("a", "cpu", 1.0, threads=2)]},
        'machine "a" stressor "cpu" threads 2 repetition 1: threads=2 must be 0 (all threads) or 1',
    ),
    "an unknown direction": (
        {"applications": [measured("a", 1.0, "x", better="more")]},
        'machine "a" application "x" repetition 1: better="more" must be "lower" or "higher"',
    ),
}


@pytest.mark.parametrize(("further", "message"), FLAWS.values(), ids=FLAWS)
def test_keep_going_skips_a_flawed_row_only(further, message):
    with pytest.raises(InputError) as error:
        small(**further).without_flaws(Problems())
    assert str(error.value) == message
    problems = Problems(keep_going=True)
    left = small(**further).without_flaws(problems)
    assert [str(problem) for problem in problems.skipped] == [message]
    for name in ("machines", "applications", "hosts"):
        pd.testing.assert_frame_equal(getattr(left, name), getattr(small(), name))


def test_a_row_repeating_a_skipped_one_is_kept():
    problems = Problems(keep_going=True)
    left = small([rate("a", "vm", 0.0), rate("a", "vm", 3.0)]).without_flaws(problems)
    assert left.machines["bogo_ops_per_second"].iloc[-1] == 3.0
    assert len(problems.skipped) == 1


def test_an_application_in_two_units_is_left_out_whole():
    mixed = small(applications=[measured("a", 4000.0, metric="ms", repetition=2)])
    message = (
        'application "zlog": is measured in several units: seconds (lower is better), ms (lower is better)'
    )
    with pytest.raises(InputError) as error:
        mixed.without_flaws(Problems())
    assert str(error.value) == message
    assert mixed.without_flaws(Problems(keep_going=True)).applications.empty


def reasons(table):
    return {row[0]: row.reason for row in table[~table["kept"]].itertuples(index=False)}


def test_flawless_fingerprint_tables_are_kept_completely():
    decisions = decide_validity(small(), 0.2)
    assert reasons(decisions.machines) == reasons(decisions.stressors) == {}
    assert decisions.applications["kept"].tolist() == [True]
    assert decisions.imputed.empty
    assert decisions.warnings.empty


def test_incomplete_machines_are_excluded_and_small_gaps_imputed():
    few = [rate("e", "cpu", 5.0)]
    decisions = decide_validity(small(few, hosts=[host("e")], without=[("a", "nop")]), 0.4)
    assert reasons(decisions.machines) == {"e": 'lacks 67% of the fingerprint, such as the stressor "cache"'}
    assert decisions.imputed.to_dict("records") == [
        {"machine": "a", "repetition": 1, "stressor": "nop", "threads": 1}
    ]


def test_a_truncated_run_is_excluded_but_not_its_machine():
    decisions = decide_validity(small([rate("a", "cpu", 5.0, repetition=2)]), 0.5)
    assert decisions.runs[~decisions.runs["kept"]].to_dict("records") == [
        {"machine": "a", "repetition": 2, "kept": False,
         "reason": 'lacks 67% of the fingerprint, such as the stressor "cache"'}
    ]  # fmt: skip
    assert decisions.machines["kept"].all()
    assert decisions.imputed.empty


def test_rare_and_constant_stressors_are_excluded():
    same = [rate(machine, "null", 7.0) for machine in MACHINES]
    decisions = decide_validity(small([*same, rate("a", "vm", 3.0), rate("b", "vm", np.nan)]), 0.2)
    assert reasons(decisions.stressors) == {
        "null": "has the same rate on all machines",
        "vm": "has a rate in 1 of 4 runs, on 1 of 4 machines",
    }
    assert decisions.machines["kept"].all()


def test_a_machine_measured_often_counts_once():
    often = [rate("d", name, 3.0, repetition=n) for n in range(1, 30) for name in ("vm", *STRESSORS)]
    tables = small(often, without=[("d", name) for name in STRESSORS])
    decisions = decide_validity(tables, 0.2)
    assert reasons(decisions.stressors) == {"vm": "has a rate in 29 of 32 runs, on 1 of 4 machines"}
    assert decisions.runs["kept"].all()


def test_threads_distinguish_two_columns_of_one_stressor():
    decisions = decide_validity(small([rate("a", "cpu", 9.0, threads=0)]), 0.2)
    out = decisions.stressors[~decisions.stressors["kept"]]
    assert out[["stressor", "threads"]].to_numpy().tolist() == [["cpu", 0]]


def test_an_application_on_machines_without_fingerprint_is_named_with_them():
    decisions = decide_validity(small(applications=[measured("x", 4.0), measured("y", 4.0, "comd")]), 0.2)
    assert reasons(decisions.machines) == {
        "x": "has no fingerprint, only zlog",
        "y": "has no fingerprint, only comd",
    }
    assert reasons(decisions.applications) == {
        "comd": "is measured on 0 machines with a fingerprint; expected at least 3"
    }


def test_uninformative_or_too_short_applications_are_excluded():
    constant = [measured(machine, 2.0, "sleep") for machine in MACHINES]
    fast = [
        measured(machine, value, "fast") for machine, value in zip(MACHINES, (1, 2, 3, np.nan), strict=True)
    ]
    assert reasons(decide_validity(small(applications=[*constant, *fast]), 0.2).applications) == {
        "fast": "has no value in 1 of 4 measurements",
        "sleep": "has the same value 2 everywhere",
    }


def test_tables_of_only_two_machines_are_refused():
    two = small()
    two = FingerprintTables(
        two.machines[two.machines["machine"].isin(["a", "b"])], two.applications, two.hosts
    )
    with pytest.raises(InputError, match="machines: 2 of 2 machines have a fingerprint to learn from"):
        decide_validity(two, 0.2)


def test_tables_with_only_constant_stressors_are_refused():
    same = FingerprintTables.from_rows(
        [rate(machine, "cpu", 1.0) for machine in MACHINES], [], list(map(host, MACHINES))
    )
    with pytest.raises(InputError, match="no stressor has rates on enough machines that differ"):
        decide_validity(same, 0.2)


def test_tables_without_any_usable_application_are_refused():
    tables = small()
    with pytest.raises(InputError, match="applications: none is measured"):
        decide_validity(FingerprintTables(tables.machines, tables.applications[:0], tables.hosts), 0.2)


def test_mixed_versions_of_stress_ng_give_a_warning():
    newer = [rate("e", stressor, 5.0) for stressor in STRESSORS]
    (warning,) = decide_validity(small(newer, hosts=[host("e", stress_ng="0.18.04")]), 0.2).warnings[
        "warning"
    ]
    assert warning == (
        "the rates come from several versions of stress-ng, which need not be comparable:"
        " 0.15.06 (4 machines), 0.18.04 (1 machines)"
    )


def test_widely_separated_values_of_an_application_give_a_warning():
    table = small(
        [rate("e", stressor, 5.0) for stressor in STRESSORS], [measured("e", 90_000.0)], [host("e")]
    )
    (warning,) = decide_validity(table, 0.2).warnings["warning"]
    highest = table.applications["value"].nlargest(2).iloc[1]
    assert warning == (
        f'application "zlog" has no value between {highest:g} and 90000: are these of one unit?'
    )


def test_stored_decisions_select_the_same_rows(tmp_path):
    tables = small([rate("a", "vm", 3.0)], [measured("x", 4.0), measured("a", 1.0, "comd")])
    decide_validity(tables, 0.2).write(tmp_path)
    kept = FingerprintDecisions.read(tmp_path).select_kept(tables)
    pd.testing.assert_frame_equal(kept.machines, small().machines)
    pd.testing.assert_frame_equal(kept.applications, small().applications)
    assert kept.hosts["machine"].tolist() == list(MACHINES)


CSV = """machine_id,cpu_model,cores,cpu,cpu@all,zlog,"redis-set (requests/s, higher)"
m1,Xeon,4,100.5,390,20,1000
m2,Opteron,,90,,25,
"""


@pytest.fixture
def typed_in(tmp_path):
    def make(text):
        path = tmp_path / "in.csv"
        path.write_text(text)
        return path

    return make


def test_a_csv_table_holds_stressors_and_applications(typed_in):
    tables = fingerprint_formats.read("tables", [typed_in(CSV)]).tables
    assert tables.machines.to_numpy().tolist() == [
        ["m1", "cpu", 1, 1, 100.5], ["m1", "cpu", 0, 1, 390.0], ["m2", "cpu", 1, 1, 90.0],
    ]  # fmt: skip
    assert tables.applications.to_numpy().tolist() == [
        ["m1", "zlog", "seconds", "lower", 1, 20.0],
        ["m1", "redis-set", "requests/s", "higher", 1, 1000.0],
        ["m2", "zlog", "seconds", "lower", 1, 25.0],
    ]
    assert tables.hosts["cpu"].tolist() == ["Xeon", "Opteron"]
    assert tables.hosts["cores"].tolist() == [4, pd.NA]


def test_spaces_around_names_of_machines_are_ignored(typed_in):
    tables = fingerprint_formats.read("tables", [typed_in("machine,cpu\n m1 ,5\n")]).tables
    assert tables.machines["machine"].tolist() == tables.hosts["machine"].tolist() == ["m1"]


def test_applications_with_a_unit_may_have_any_name(typed_in):
    path = typed_in('machine,cpu,"score (points, higher)","cahce@all (seconds, lower)"\nm1,5,7,8\n')
    tables = fingerprint_formats.read("tables", [path]).tables
    assert tables.applications[["application", "better", "value"]].to_numpy().tolist() == [
        ["score", "higher", 7.0], ["cahce@all", "lower", 8.0],
    ]  # fmt: skip


MISSPELT = 'in.csv:1: the column "{}" is {} (an application is written "{} (seconds, lower)")'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "in.csv: is empty; expected CSV"),
        ("machine,cpu\n", "in.csv: holds no machine"),
        ("machine,cpu\nm1,fast\n", 'in.csv:2: cpu="fast" is not a number'),
        ("machine,cpu,repetition\nm1,5,1.5\n", 'in.csv:2: repetition="1.5" is not a whole number'),
        ("machine,cpu,cpu\nm1,5,5\n", 'in.csv:1: has the column "cpu" twice'),
        ("machine,zlog\nm1,5\n", "in.csv:1: has no column that is a stressor of stress-ng"),
        ("machine,cpu\nm1,5\n,5\n", "in.csv:3: names no machine"),
        ("machine,cpu,redis\n\nm1,5,2\n\nm1,5,slow\n", 'in.csv:5: redis="slow" is not a number'),
        (
            "machine,cpu,repitition\nm1,5,1\nm1,5,2\n",
            MISSPELT.format("repitition", 'unknown; did you mean "repetition"?', "repitition"),
        ),
        (
            "machine,cpu-model,cpu\nm1,Xeon,5\n",
            MISSPELT.format("cpu-model", 'unknown; did you mean "cpu_model"?', "cpu-model"),
        ),
        (
            "machine,cpu,cahce@all\nm1,5,5\n",
            MISSPELT.format("cahce@all", "no stressor of stress-ng", "cahce@all"),
        ),
        (
            'machine,cpu,"redis (requests/s, hihger)"\nm1,5,5\n',
            MISSPELT.format("redis (requests/s, hihger)", "neither lower nor higher", "redis"),
        ),
        ("machine,cpu\nm1,5\nm1,6\n", 'machine "m1" stressor "cpu" threads 1 repetition 1: occurs twice'),
    ],
)
def test_a_wrong_csv_table_is_refused_with_its_line(typed_in, text, message):
    path = typed_in(text)
    with pytest.raises(InputError) as error:
        fingerprint_formats.read("tables", [path])
    assert str(error.value).removeprefix(f"{path.parent}/") == message


RESULTS = """giturl,commit,user,timestamp,benchmark,machine,repetition,test,result
u,c,ivo,200,stressng,dwill.soe.ucsc.edu,1,cpu,230
u,c,ivo,100,stressng,dwill.soe.ucsc.edu,1,cpu,220
u,c,ivo,100,stressng,dwill.soe.ucsc.edu,2,cpu,221
u,c,ivo,100,stressng,dwill.soe.ucsc.edu,2,,70
u,c,ivo,100,stressng,dwill.soe.ucsc.edu,2,oom-pipe,0.0
u,c,ivo,200,hpccg,dwill.soe.ucsc.edu,1,hpccg,15.5
u,c,ivo,100,redisbench,dwill.soe.ucsc.edu,2,SET,90000
u,c,ivo,100,mysqlslap-mariadb-10.3.2,dwill.soe.ucsc.edu,1,innodb_load,40
u,c,ivo,100,fio,dwill.soe.ucsc.edu,1,read-4k,0.0
u,c,ivo,100,fio,dwill.soe.ucsc.edu,1,rw-4k,7
u,c,ivo,100,fio,dwill.soe.ucsc.edu,1,rw-4k,0.0
u,c,ivo,100,stream,dwill.soe.ucsc.edu,1,add-30,900
"""


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "results.csv").write_text(RESULTS)
    (tmp_path / "machines.csv").write_text("machine,cores,num_cpus\ndwill,4,1\n")
    return tmp_path


def test_repetitions_of_the_paper_are_numbered_across_campaigns(paper):
    tables = quiho.read_tables(paper)
    rates = tables.machines.set_index(["stressor", "repetition"])["bogo_ops_per_second"]
    assert rates.drop("oom-pipe").to_dict() == {
        ("cpu", 3): 230.0, ("cpu", 1): 220.0, ("cpu", 2): 221.0, ("null", 2): 70.0,
    }  # fmt: skip
    assert rates["oom-pipe"].isna().all()
    values = tables.applications.set_index(["application", "repetition"])
    assert values["better"].to_dict() == {
        ("hpccg", 3): "lower", ("redis-set", 2): "higher", ("mariadb-10.3.2-innodb-load", 1): "lower",
        ("fio-rw-4k-read", 1): "higher", ("fio-rw-4k-write", 1): "higher",
        ("stream-nadds-add-30", 1): "higher",
    }  # fmt: skip
    assert values["value"].isna().sum() == 1
    assert tables.hosts[["cpu", "cores"]].to_numpy().tolist() == [
        ["Intel(R) Core(TM) i5-2400 CPU @ 3.10GHz", 4]
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("result\n", "outcome\n"), 'results.csv:1: has no column "result"'),
        (("cpu,220", "cpu,many"), 'results.csv:3: result="many" is not a number'),
        (("stressng", "stress"), 'results.csv: holds no row with the benchmark "stressng"'),
    ],
)
def test_wrong_data_of_the_paper_are_refused_with_line(paper, change, message):
    (paper / "results.csv").write_text(RESULTS.replace(*change))
    with pytest.raises(InputError) as error:
        quiho.read_tables(paper)
    assert message in str(error.value)


def test_nodes_of_one_site_are_one_processor_group():
    same = {"d430.quiho.Schedock.emulab.net", "pc3000.quiho2.Schedock.emulab.net"}
    assert len(set(map(quiho.processor_name, same))) == 1
    assert quiho.processor_name("issdm-0") == quiho.processor_name("issdm-41")
    apart = {"scruffy.soe.ucsc.edu", "dwill.soe.ucsc.edu", "x1.quiho.p.somewhere.example.org", "lab7"}
    assert len(set(map(quiho.processor_name, apart))) == 4


def test_every_application_of_the_paper_has_a_run(shared_data):
    reading = fingerprint_formats.read("quiho", [shared_data / "quiho"])
    tables = reading.tables
    runs = tables.machines.set_index(["machine", "repetition"]).index.unique()
    belongs = tables.applications.set_index(["machine", "repetition"]).index
    assert belongs.isin(runs).all()
    assert set(tables.machines["stressor"]) == set(CATEGORIES)
    assert {"hpccg", "ssca", "scikit-learn", "redis-set", "redis-get", "zlog"} <= set(
        tables.applications["application"]
    )
    decisions = decide_validity(tables, 0.2)
    assert set(reasons(decisions.stressors)) == {"oom-pipe", "stack"}
    assert decisions.machines["kept"].all()


def test_spare_cores_has_both_numbers_of_threads_and_one_latency(shared_data):
    tables = sparecores.read_tables(shared_data / "sparecores")
    assert set(tables.machines["threads"]) == {0, 1}
    assert tables.machines["machine"].nunique() == len(tables.hosts) == 1216
    lower = tables.applications[tables.applications["better"] == "lower"]
    assert set(lower["application"]) == {"passmark:ME_LATENCY"}
    assert decide_validity(tables.without_flaws(Problems()), 0.2).machines["kept"].all()


def test_the_shipped_fingerprints_are_of_machines_that_constraints_made():
    tables = fingerprint_formats.read("tables", [SHIPPED]).tables
    suite = load_suite(SUITES / "constrained.yaml")
    assert set(tables.hosts["machine"]) == {one.name for one in suite.constraints}
    assert tables.hosts["cpu"].nunique() == len({one.kind for one in suite.constraints}) >= 12
    assert tables.hosts["source"].str.endswith("under constraints").all()
    assert set(tables.applications["application"]) == {one.name for one in suite.programs}
    decisions = decide_validity(tables.without_flaws(Problems()), 0.2)
    assert decisions.machines["kept"].all()
    assert decisions.applications["kept"].all()


def test_figure_4_of_the_paper_is_a_sample():
    figure = fingerprint_formats.read("tables", [SAMPLE]).tables
    assert len(figure.hosts) == 13
    assert set(figure.machines["stressor"]) == {"mmap", "crypt", "cpu", "mremap", "shm-sysv", "longjmp"}
    assert set(figure.applications["application"]) == {"zlog"}
