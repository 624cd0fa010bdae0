"""Fingerprints as they come in: a flaw is told in one line, or a decision leaves it out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.fingerprints import formats as fingerprint_formats
from data.fingerprints.collect import load_suite
from data.fingerprints.formats import quiho, sparecores
from data.fingerprints.formats.typed_csv import known_stressors, read_application
from data.fingerprints.tables import CATEGORIES, FingerprintTables
from data.fingerprints.validity import FingerprintDecisions, decide_validity
from data.tables.problems import Problems
from tests.data.fingerprints.rows import MACHINES, STRESSORS, host, measured, rate, small
from tests.data.refusals import expect_only_flaw, refusal

ROOT = Path(__file__).parents[3]
SHIPPED, SUITES = ROOT / "data/raw/fingerprints", ROOT / "data/suites"
CPU, ZLOG = 'machine "a" stressor "cpu" threads', 'machine "a" application "zlog" repetition'
CELL = (
    'machine "a" stressor "qsort" threads 0 repetition 1: bogo_ops_per_second={} must be above 0 and finite'
)
#: Messages and the rows that give them.
FLAWS = {
    f"{CPU} 1 repetition 1: occurs twice": {"machines": [rate("a", "cpu", 5.0)]},
    CELL.format("0"): {"machines": [rate("a", "qsort", 0.0, threads=0)]},
    CELL.format("inf"): {"machines": [rate("a", "qsort", float("inf"), threads=0)]},
    'machine "e": has no CPU model in the table of hosts; expected one, by which it is held out': {
        "machines": [rate("e", "cpu", 5.0)]
    },
    'machine "a": occurs twice': {"hosts": [host("a", "Opteron")]},
    f"{ZLOG} 1: occurs twice": {"applications": [measured("a", 9.0)]},
    f"{ZLOG} 2: value=0 must be above 0 and finite": {"applications": [measured("a", 0.0, repetition=2)]},
    f"{CPU} 2 repetition 1: threads=2 must be 0 (all threads) or 1": {
        "machines": [rate("a", "cpu", 1.0, threads=2)]
    },
    'machine "a" application "x" repetition 1: better="more" must be "lower" or "higher"': {
        "applications": [measured("a", 1.0, "x", better="more")]
    },
}


@pytest.mark.parametrize(("message", "further"), FLAWS.items())
def test_keep_going_skips_a_flawed_row_only(message, further):
    expect_only_flaw(message, small(**further), small())


def test_a_row_repeating_a_skipped_one_is_kept():
    problems = Problems(keep_going=True)
    left = small([rate("a", "vm", 0.0), rate("a", "vm", 3.0)]).without_flaws(problems)
    assert left.machines["bogo_ops_per_second"].iloc[-1] == 3.0
    assert len(problems.skipped) == 1


def test_an_application_in_two_units_is_left_out_whole():
    mixed = small(applications=[measured("a", 4000.0, metric="ms", repetition=2)])
    units = "seconds (lower is better), ms (lower is better)"
    told = refusal(mixed.without_flaws, Problems())
    assert told == f'application "zlog": is measured in several units: {units}'
    assert mixed.without_flaws(Problems(keep_going=True)).applications.empty


KEYS = {
    "machines": "machine", "runs": ["machine", "repetition"], "stressors": ["stressor", "threads"],
    "applications": "application",
}  # fmt: skip


def reasons(decisions):
    """Return the reason of each row that a decision leaves out, by table and key."""
    tables = {name: getattr(decisions, name) for name in KEYS}
    out = {name: table[~table["kept"]].set_index(KEYS[name]) for name, table in tables.items()}
    return {name: table["reason"].to_dict() for name, table in out.items() if len(table)}


def test_rows_that_tell_nothing_are_left_out_with_a_reason():
    rates = [rate("e", "cpu", 5.0), rate("a", "cpu", 5.0, repetition=2), rate("a", "cpu", 9.0, threads=0)]
    rates += [rate(machine, "null", 7.0) for machine in MACHINES]
    rates += [rate("a", "vm", 3.0), rate("b", "vm", np.nan)]
    values = [measured(machine, 2.0, "sleep") for machine in MACHINES]
    values += [measured(*value, "fast") for value in zip("abcd", (1, 2, 0.0, np.nan), strict=True)]
    foreign = [("x", "zlog"), ("y", "comd")]
    values += [measured(name, 4.0, app) for name, app in foreign]
    decisions = decide_validity(small(rates, values, [host("e")]), 0.4)
    lacking = 'lacks 75% of the fingerprint, such as the stressor "cache"'
    rare = "has a rate in 1 of 6 runs, on 1 of 5 machines"
    assert reasons(decisions) == {
        "machines": {"e": lacking} | {name: f"has no fingerprint, only {app}" for name, app in foreign},
        "runs": {("a", 2): lacking, ("e", 1): lacking},
        "stressors": {("cpu", 0): rare, ("null", 1): "has the same rate on all machines", ("vm", 1): rare},
        "applications": {
            "comd": "is measured on 0 machines with a fingerprint; expected at least 3",
            "fast": "has no value in 2 of 4 measurements",
            "sleep": "has the same value 2 everywhere",
        },
    }
    assert decisions.imputed.empty


def test_a_machine_measured_often_counts_once():
    often = [rate("d", name, 3.0, repetition=n) for n in range(1, 30) for name in ("vm", *STRESSORS)]
    decisions = decide_validity(small(often, without=[("d", name) for name in STRESSORS]), 0.2)
    seldom = {("vm", 1): "has a rate in 29 of 32 runs, on 1 of 4 machines"}
    assert reasons(decisions) == {"stressors": seldom}


@pytest.mark.parametrize("gaps", [[], [{"machine": "a", "repetition": 1, "stressor": "nop", "threads": 1}]])
def test_flawless_tables_are_kept_and_small_gaps_imputed(gaps):
    without = [(gap["machine"], gap["stressor"]) for gap in gaps]
    decisions = decide_validity(small(without=without), 0.4)
    assert reasons(decisions) == {}
    assert decisions.imputed.to_dict("records") == gaps
    assert decisions.warnings.empty


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([rate("a", "cpu", 1.0), rate("b", "cpu", 2.0)], "machines: 2 of 2 machines have a fingerprint to"),
        ([rate(machine, "cpu", 1.0) for machine in MACHINES], "no stressor has rates on enough machines"),
        (small().machines, "applications: none is measured"),
    ],
    ids=["two machines", "constant stressors", "no application"],
)
def test_tables_with_too_little_to_learn_are_refused(rates, message):
    tables = FingerprintTables.from_rows(rates, [], [*map(host, MACHINES)])
    assert message in refusal(decide_validity, tables, 0.2)


def test_mixed_versions_or_probably_mixed_units_give_a_warning():
    newer = [rate("e", stressor, 5.0) for stressor in STRESSORS]
    tables = small(newer, [measured("e", 90_000.0)], [host("e", stress_ng="0.18.04")])
    versions, unit = decide_validity(tables, 0.2).warnings["warning"]
    assert versions == (
        "the rates come from several versions of stress-ng, which need not be comparable:"
        " 0.15.06 (4 machines), 0.18.04 (1 machines)"
    )
    assert unit == 'application "zlog" has no value between 4 and 90000: are these of one unit?'


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
        (tmp_path / "in.csv").write_text(text)
        return tmp_path / "in.csv"

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


def test_names_are_stripped_and_applications_with_a_unit_have_any(typed_in):
    text = 'machine,cpu,"score (points, higher)","cahce@all (seconds, lower)"\n m1 ,5,7,8\n'
    tables = fingerprint_formats.read("tables", [typed_in(text)]).tables
    assert tables.machines["machine"].tolist() == tables.hosts["machine"].tolist() == ["m1"]
    assert tables.applications[["application", "better", "value"]].to_numpy().tolist() == [
        ["score", "higher", 7.0], ["cahce@all", "lower", 8.0],
    ]  # fmt: skip


MISSPELT = ':1: the column "{}" is {} (an application is written "{} (seconds, lower)")'
COLUMNS = {
    "repitition": 'unknown; did you mean "repetition"?',
    "cpu-model": 'unknown; did you mean "cpu_model"?',
    "cahce@ALL": "no stressor of stress-ng",
    "streem": 'unknown; did you mean "stream"?',
    "Vm_rw": 'unknown; did you mean "vm-rw"?',
    "redis (requests/s, hihger)": "neither lower nor higher",
}
WRONG_CSV = {
    "": ": is empty; expected CSV",
    "machine,cpu\n": ": holds no machine",
    "machine,cpu\nm1,fast\n": ':2: cpu="fast" is not a number',
    "machine,cpu,repetition\nm1,5,1.5\n": ':2: repetition="1.5" is not a whole number',
    "machine,cpu,Cpu\nm1,5,5\n": ':1: has the column "cpu" twice',
    "machine,zlog\nm1,5\n": ":1: has no column that is a stressor of stress-ng",
    "machine,cpu\nm1,5\n,5\n": ":3: names no machine",
    "machine,cpu,redis\n\nm1,5,2\n\nm1,5,slow\n": ':5: redis="slow" is not a number',
    "machine,cpu,redis (requests/s, higher),z\nm1,5,2,3\n": ':1: the column "redis (requests/s" has '
    "unbalanced brackets; a name with a comma is written in quotes "
    '(an application is written "redis (seconds, lower)")',
    "machine,cpu\nm1,5\nm1,6\n": 'machine "m1" stressor "cpu" threads 1 repetition 1: occurs twice',
    **{
        f'machine,cpu,"{name}"\nm1,5,1\nm1,5,2\n': MISSPELT.format(name, told, name.partition(" (")[0])
        for name, told in COLUMNS.items()
    },
}


@pytest.mark.parametrize(("text", "message"), WRONG_CSV.items())
def test_a_wrong_csv_table_is_refused_with_its_line(typed_in, text, message):
    path = typed_in(text)
    assert refusal(fingerprint_formats.read, "tables", [path]).removeprefix(str(path)) == message


@pytest.mark.parametrize("stressor", sorted(known_stressors() - {"cpu"})[::40])
def test_case_is_ignored_in_names_of_stressors(typed_in, stressor):
    path = typed_in(f"machine,cpu,{stressor.upper()},{stressor.title()}@All\nm1,5,7,9\n")
    tables = fingerprint_formats.read("tables", [path]).tables
    assert tables.machines["stressor"].tolist() == ["cpu", stressor, stressor]
    assert tables.applications.empty


@pytest.mark.parametrize(("columns", "application"), [("cache,cached", "cached"), ("fifo@all,fio", "fio")])
def test_an_application_may_resemble_a_stressor_of_the_file(typed_in, columns, application):
    tables = fingerprint_formats.read("tables", [typed_in(f"machine,{columns}\nm1,5,7\n")]).tables
    assert tables.applications["application"].tolist() == [application]


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
    assert tables.hosts[["cpu", "cores"]].to_numpy().tolist() == [[quiho.processor_name("dwill"), 4]]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("result\n", "outcome\n", 'results.csv:1: has no column "result"'),
        ("edu,2,cpu", "edu,1.5,cpu", 'results.csv:4: repetition="1.5" is not a whole number'),
        ("cpu,220", "cpu,many", 'results.csv:3: result="many" is not a number'),
        ("stressng", "stress", 'results.csv: holds no row with the benchmark "stressng"'),
    ],
)
def test_wrong_data_of_the_paper_are_refused_with_line(paper, right, wrong, message):
    (paper / "results.csv").write_text(RESULTS.replace(right, wrong))
    assert message in refusal(quiho.read_tables, paper)


def test_nodes_of_one_site_are_one_processor_group():
    def groups(*names):
        return len(set(map(quiho.processor_name, names)))

    assert groups("d430.quiho.Schedock.emulab.net", "pc3000.quiho2.Schedock.emulab.net") == 1
    assert groups("issdm-0", "issdm-41") == 1
    other = ("scruffy.soe.ucsc.edu", "dwill.soe.ucsc.edu", "x1.quiho.p.somewhere.example.org", "lab7")
    assert groups(*other) == 4


def test_every_application_of_the_paper_has_a_run(shared_data):
    tables = fingerprint_formats.read("quiho", [shared_data / "quiho"]).tables
    runs, measured_on = (
        table.set_index(["machine", "repetition"]).index for table in (tables.machines, tables.applications)
    )
    assert measured_on.isin(runs).all()
    assert set(tables.machines["stressor"]) == set(CATEGORIES)
    named = "hpccg ssca scikit-learn redis-set redis-get zlog"
    assert {*named.split()} <= set(tables.applications["application"])
    decisions = decide_validity(tables, 0.2)
    assert {name for name, _ in reasons(decisions)["stressors"]} == {"oom-pipe", "stack"}
    assert decisions.machines["kept"].all()


def test_spare_cores_has_both_numbers_of_threads_and_one_latency(shared_data):
    tables = sparecores.read_tables(shared_data / "sparecores")
    assert set(tables.machines["threads"]) == {0, 1}
    assert tables.machines["machine"].nunique() == len(tables.hosts) == 1216
    lower = tables.applications[tables.applications["better"] == "lower"]
    assert set(lower["application"]) == {"passmark:ME_LATENCY"}
    assert decide_validity(tables.without_flaws(Problems()), 0.2).machines["kept"].all()


@pytest.mark.parametrize(("file", "column"), [("fingerprint", "sng1:zlib"), ("apps", "redis:GET")])
def test_lists_of_rates_or_scores_are_refused(tmp_path, file, column):
    keys = {"vendor": ["a"], "server": ["x"]}
    tables = {"servers": {"cpu": ["p"], "ncpu": [4]}, "fingerprint": {"sng1:cpu": [1.0]}, "apps": {}}
    tables[file][column] = [[1.0, 2.0]]
    for name, values in tables.items():
        pd.DataFrame(keys | values).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=f'the column "{column}" holds list.*; expected a number'):
        sparecores.read_tables(tmp_path)


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


@pytest.mark.parametrize(
    ("text", "metric", "rows"),
    [
        # values without repetition get numbers beyond those of the fingerprint
        ("machine,value\na,1.5\nb,2\na,1.25\n", "seconds", [["a", 4, 1.5], ["b", 4, 2.0], ["a", 5, 1.25]]),
        ("machine,value,unit\na,1, ms\nb,2,ms\n", "ms", [["a", 4, 1.0], ["b", 4, 2.0]]),
        ("value, machine, repetition\n1, a, 2\n1, a, 1\n", "seconds", [["a", 2, 1.0], ["a", 1, 1.0]]),
    ],
    ids=["no repetition", "a unit", "repetitions"],
)
def test_a_csv_table_of_values_is_an_application(typed_in, text, metric, rows):
    table = read_application(typed_in(text), "mine", beyond=3)
    assert table[["machine", "repetition", "value"]].to_numpy().tolist() == rows
    assert (set(table["application"]), set(table["metric"])) == ({"mine"}, {metric})


WRONG_VALUES = {
    "": "is empty; expected CSV",
    "machine,value\n": "holds no measurement",
    "machine,value\n\na,1,7\n": ":3: has rows that are longer than its header",
    "machine,seconds\na,1\n": ':1: has no column "value"; found machine, seconds',
    "machine,value\na,1\nb,fast\n": ':3: value="fast" is not a number from 1e-30 to 1e+30',
    "machine,value\na,0\n": ':2: value="0" is not a number from 1e-30 to 1e+30',
    "machine,value\na,-1\n": ':2: value="-1" is not a number from 1e-30 to 1e+30',
    "machine,value\na,1\nb,1e308\n": ':3: value="1e308" is not a number from 1e-30 to 1e+30',
    "machine,value\na,inf\n": ':2: value="inf" is not a number from 1e-30 to 1e+30',
    "machine,value\n ,1\n": ":2: names no machine",
    "machine,value,repitition\na,1,2\n": ':1: the column "repitition" is unknown; did you mean "repetition"?',
    "machine,value,units\na,1,ms\n": ':1: the column "units" is unknown; did you mean "unit"?',
    "machine,value,host\na,1,b\n": ':1: the column "host" is unknown; there are machine, value, repetition',
    "machine,value,unit\na,1,s\nb,900,ms\n": ':3: unit="ms" but "s" before; expected one unit',
    "machine,value,repetition\na,1,x\n": ':2: repetition="x" is not a whole number',
    "machine,value,repetition\na,1,1\na,2,1\n": ':3: machine "a" has the repetition 1 twice',
}


@pytest.mark.parametrize(("text", "told"), WRONG_VALUES.items())
def test_unusable_rows_of_values_are_refused_with_their_line(typed_in, text, told):
    assert told in refusal(read_application, typed_in(text), "mine")


def test_unusable_rows_of_values_are_left_out_on_request(typed_in):
    text = "machine,value,unit\na,fast,ms\nb,2,ms\n ,3,ms\nc,4,s\nd,5,ms\n"
    path, problems = typed_in(text), Problems(keep_going=True)
    table = read_application(path, "mine", problems=problems)
    assert table[["machine", "value"]].to_numpy().tolist() == [["b", 2.0], ["d", 5.0]]
    assert [(error.file, error.line) for error in problems.skipped] == [(path, 4), (path, 2), (path, 5)]
    no_row = typed_in("machine,value\na,fast\n")
    assert refusal(read_application, no_row, "mine", problems=problems).endswith("holds no measurement")


DIRECTIONS = {
    "lower": ("seconds", "ms", "\N{MICRO SIGN}s", "nanoseconds", "min", "ns/op", "seconds per request"),
    "higher": (
        "requests/s",
        "MB/s",
        "fps",
        "ops",
        "Mbps",
        "IOPS",
        "GFLOPS",
        "MIPS",
        "ktps",
        "frames per second",
        "tokens / min",
    ),
    None: ("points", "MB", "points/request", "%", "drops", "gaps", "steps", "hops"),
}
METRICS = [(metric, better) for better, metrics in DIRECTIONS.items() for metric in metrics]


@pytest.mark.parametrize(("metric", "direction"), METRICS)
@pytest.mark.parametrize("better", [None, "higher"])
@pytest.mark.parametrize("column", [None, "unit"])
def test_the_direction_follows_the_metric_of_file_or_option(typed_in, metric, direction, better, column):
    text = f"machine,value,{column}\na,1,{metric}\n" if column else "machine,value\na,1\n"
    path, stated = typed_in(text), None if column else metric
    if expected := better or direction:
        row = read_application(path, "mine", stated, better).iloc[0]
        assert (row["metric"], row["better"]) == (metric, expected)
    else:
        problem = f": does not say whether lower or higher {metric} is better; expected --better"
        assert refusal(read_application, path, "mine", stated) == f"{path}{problem}"


@pytest.mark.parametrize("column", ["unit", "metric"])
def test_an_option_may_repeat_but_not_contradict_a_unit(typed_in, column):
    path = typed_in(f"machine,value,{column}\na,1,requests/s\n")
    assert read_application(path, "mine", "requests/s")["better"].tolist() == ["higher"]
    problem = f'{path} column "{column}": --metric=ms contradicts requests/s'
    assert refusal(read_application, path, "mine", "ms") == problem
