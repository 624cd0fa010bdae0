"""Timelines as they come in: results, the rules that choose them, and samples over time."""

import json
import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.params import Measure
from data.comparisons.tables import ComparisonTables
from data.comparisons.timelines import heats, rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import choose_runs, gather_measurements
from data.errors import InputError
from data.tables.problems import Problems
from tests.comparison_rows import result
from tests.data.comparisons.documents import ELEMENTS
from tests.data.refusals import refusal

RULES = '<rules title="t">\n<baseline>{}</baseline>\n<targets>{}</targets>{}</rules>'
KERNEL = '<Kernel value="{}"/>'


def run(kernel, *levels, name="mg", results="", **settings):
    """Return a result file with one operation at 2 threads, whose samples are these."""
    results = results or "".join(f'<result mops="{level}"/>' for level in levels)
    about = {"Kernel": kernel, "Hostname": "m1", **settings}
    told = "".join(f'<{name} value="{value}"/>' for name, value in about.items())
    operation = f'<nas_result benchmark_name="{name}"><threads number="2">{results}</threads></nas_result>'
    return f"<beaker_run_result><settings>{told}</settings>{operation}</beaker_run_result>"


@pytest.fixture
def root(tmp_path):
    def filled(**files):
        for name, content in files.items():
            path = tmp_path / "results" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".xml").write_text(content)
        return tmp_path / "results"

    return filled


def read(root, **options):
    return read_folder(root, Measure(better="higher"), **options)


def timelines(root, baseline=".*", targets=".*", start=None):
    path = root.parent / "rules.xml"
    begun = f"<start>{KERNEL.format(start)}</start>" if start else ""
    path.write_text(RULES.format(KERNEL.format(baseline), KERNEL.format(targets), begun))
    (one,) = rules.read_rule_sets(path)
    return choose_runs(read(root).runs, one)


def test_an_error_while_processes_read_is_the_only_output(root, caplog, recwarn):
    folder = root(
        **{f"v{number:02}": "<broken" if number in {1, 9} else run("k-1", 1) for number in range(60)}
    )
    assert refusal(read, folder, jobs=2).startswith(f"{folder}/v01.xml:1: is not well-formed XML")
    assert (caplog.records, recwarn.list) == ([], [])


def test_the_newest_matching_version_is_the_baseline(root):
    files = {f"v{minor}": run(f"k-4.{minor}", 1, 2, 3) for minor in (2, 9, 10, 11)}
    (one,) = timelines(root(**files), r"k-4\.\d", r"k-4\..*", r"k-4\.1.")
    assert one.versions == ("k-4.9", "k-4.10", "k-4.11")
    assert (one.baseline, one.machine) == (0, "m1")


def test_versions_are_ordered_by_time_or_name(root):
    older = run("k-3", 1, StartTime="2018-12-14T10:00:00")
    newer = run("k-1", 1, StartTime="2018-12-15 10:00:00+02:00")
    assert timelines(root(a=older, b=newer))[0].versions == ("k-3", "k-1")
    (one,) = timelines(root(c=run("k-2-rc1", 1), d=run("k-2", 1)))
    assert one.versions == ("k-1", "k-2-rc1", "k-2", "k-3")
    assert one.notes == ("versions are in the order of their names",)


def test_every_machine_has_a_separate_timeline(root):
    folder = root(a=run("k-1", 1), b=run("k-2", 1), c=run("k-1", 1, Hostname="m2"))
    found = {one.machine: one.versions for one in timelines(folder)}
    assert found == {"m1": ("k-1", "k-2"), "m2": ("k-1",)}


UNMATCHED = '<Kernel>: no result matches "k-9"; found k-1, k-2, k-3'


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (("k-9", "k-9", "k-9"), f':2 rules "t" baseline {UNMATCHED}'),
        (("k-1", "k-9", "k-9"), f':3 rules "t" target {UNMATCHED}'),
        (("k-1", 'k-1"/><Hostname value="m2'), ':3 rules "t" target: no result matches all of them'),
        (
            ("k-1", 'k-1"/>\n<Operation value="cg'),
            ':4 rules "t" <Operation>: no operation matches "cg"; found mg',
        ),
        (("k-1", "k-1", "k-2"), "baseline and of a target that is a start"),
        (("k-1", "k-3"), "baseline and of a target"),
    ],
)
def test_a_role_without_a_match_on_one_machine_is_named(root, chosen, told):
    folder = root(a=run("k-1", 1), b=run("k-2", 1), c=run("k-3", 1, Hostname="m2"))
    assert refusal(timelines, folder, *chosen).endswith(told)


def test_samples_are_placed_by_operation_threads_and_version(root):
    summary = '<mops min="1" first_q="2" median="3" third_q="4" max="5"/>'
    files = {"deep__er__a": run("k-1", 3, 1, 2), "b": run("k-2", 7, name="cg"), "d": run("k-4", 9)}
    folder = root(**files, c=run("k-3", results=summary))
    found = gather_measurements(timelines(folder)[0], Problems())
    assert {(one.benchmark, one.threads) for one in found.operations} == {("nas", (2,))}
    assert [one.operation for one in found.operations] == ["mg", "cg"]
    assert found.five[0, :, 2].tolist() == pytest.approx([2, np.nan, 3, 9], nan_ok=True)
    assert found.sample_counts.tolist() == [[3, 0, 0, 1], [0, 1, 0, 0]]
    assert found.values[found.edges[0, 0] : found.edges[0, 1]].tolist() == [3, 1, 2]
    assert found.five[0, 2].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("keep_going", [False, True])
def test_files_of_other_programs_are_passed_over_with_a_note(keep_going, root):
    folder = root(a=run("k-1", 1), pom='<project xmlns="x"><version/></project>')
    (folder / "package.json").write_text("{}")
    found = read(folder, keep_going=keep_going)
    assert [one.source for one in found.runs] == ["a.xml"]
    assert found.skipped == ()
    assert found.notes == ("2 files hold no run, and are passed over, such as package.json",)


def test_repeated_runs_of_a_version_replace_earlier_ones(root):
    levels = {"01-02": ("k-1", 5, 6), "01-01": ("k-1", 1), "02-01": ("k-2", 1)}
    folder = root(**{day: run(*levels[day], StartTime=f"2020-{day}") for day in levels})
    found = gather_measurements(timelines(folder)[0], Problems())
    assert found.values.tolist() == [5, 6, 1]
    assert "measured again" in found.notes[0]


def test_timelines_also_read_json_and_tables(root):
    folder = root(a=run("k-1", 10, 11))
    about = {"benchmark": "nas", "operation": "mg", "machine": "m1", "unit": "mops", "better": "higher"}
    # what is only 0 stays in timelines
    for version, samples in (("k-0", [0, 0]), ("k-2", [20, 21])):
        content = about | {"configurations": [{"threads": 2, "samples": samples}]}
        (folder / f"{version}.json").write_text(json.dumps({"results": [content]}))
    rows = [result(value=value, **about, threads=2, version="k-3") for value in (30.0, 31.0)]
    ComparisonTables.from_rows(rows).write(folder / "tables")
    (one,) = timelines(folder)
    assert one.versions == ("k-0", "k-1", "k-2", "k-3")
    assert gather_measurements(one, Problems()).values.tolist() == [0, 0, 10, 11, 20, 21, 30, 31]


def test_symbolic_links_to_results_are_ignored(root, tmp_path):
    folder = root(a=run("k-1", 1))
    (tmp_path / "outside.xml").write_text(run("k-2", 1))
    (folder / "out.xml").symlink_to(tmp_path / "outside.xml")
    (folder / "round").symlink_to(folder)
    found = read(folder)
    assert [one.version for one in found.runs] == ["k-1"]
    assert found.notes == ("2 symbolic links are passed over",)


def test_a_bad_result_file_is_refused_or_skipped(root):
    folder = root(a=run("k-1", 1), b=run("k-2", "1", "x").replace("<nas", "\n<nas"), c="<beaker_run_result>")
    with pytest.raises(InputError, match=r'b\.xml:2 operation "mg" threads="2": mops="x" is not a number'):
        read(folder)
    found = read(folder, keep_going=True)
    assert [one.version for one in found.runs] == ["k-1", "k-2"]
    places = [str(one).partition(": ")[0].rpartition("/")[2] for one in found.skipped]
    assert places == ['b.xml:2 operation "mg" threads="2"', "c.xml:1"]


def mpstat(path, *moments):
    """Write what mpstat says at some moments: time, and processor, user and system time."""
    statistics = [
        {"timestamp": time, "cpu-load": [{"cpu": cpu, "usr": usr, "sys": sys} for cpu, usr, sys in loads]}
        for time, *loads in moments
    ]
    path.write_text(json.dumps({"sysstat": {"hosts": [{"nodename": "m1", "statistics": statistics}]}}))
    return path


def test_user_and_system_of_every_core_are_added(tmp_path):
    before = ("23:59:59", ("all", 10, 5), ("0", 20.5, 4.5), ("1", 0, 1))
    after = ("12:00:00 AM", ("0", 50, 50), ("1", 1, 2))
    found = heats.read_heats(mpstat(tmp_path / "result.mpstat.json", before, after))
    assert found.rows == ("0", "1")
    assert found.seconds.tolist() == [0, 1]
    assert found.values.tolist() == [[25, 100], [1, 3]]


@pytest.mark.parametrize(
    ("time", "cpu", "told"),
    [("later", "0", 'timestamp="later" is not a time'), ("00:00:01", "all", 'holds only the core "all"')],
)
def test_mpstat_without_times_or_cores_is_refused(tmp_path, time, cpu, told):
    assert told in refusal(heats.read_heats, mpstat(tmp_path / "a.mpstat.json", (time, (cpu, 1, 2))))


def test_csv_of_nodes_keeps_gaps_and_is_thinned(tmp_path):
    path = tmp_path / "result.nodes.csv"
    path.write_text("seconds,node0,node1\n" + "".join(f"{second},1,\n" for second in range(1_500)))
    found = heats.read_heats(path)
    assert (found.what, found.rows, found.values.shape) == ("nodes", ("node0", "node1"), (2, 600))
    assert np.isnan(found.values[1]).all()
    for row, problem in (("1,x", 'node0="x" is not a finite number'), ("0,2", "seconds do not ascend")):
        path.write_text(f"seconds,node0\n0,1\n\n{row}\n")
        with pytest.raises(InputError, match=rf"nodes\.csv:4: {problem}"):
            heats.read_heats(path)


def test_heat_map_files_share_the_name_of_their_result(tmp_path):
    for name in ("r.mpstat.json", "r.1.cores.csv", "r2.cores.csv", "r.csv"):
        (tmp_path / name).touch()
    found = [path.name for path in heats.heat_files_beside(tmp_path / "r.xml")]
    assert found == ["r.1.cores.csv", "r.mpstat.json"]


BASELINE = '<baseline><Kernel value="kernel-4\\.18\\..*"/></baseline>'
TARGETS = '<targets><Kernel value="kernel-.*"/><Hostname value="m1|m2"/></targets>'


@pytest.fixture
def rule_sets(tmp_path):
    def of(text):
        (tmp_path / "rules.xml").write_text(text)
        return rules.read_rule_sets(tmp_path / "rules.xml")

    return of


def test_rule_sets_are_the_root_or_its_children(rule_sets):
    (alone,) = rule_sets(f'<rules title="RHEL 8">{BASELINE}{TARGETS}</rules>')
    both = rule_sets(
        f'<all><set title="RHEL 7">{BASELINE}{TARGETS}</set><set>{BASELINE}{TARGETS}</set></all>'
    )
    targets = [("target", "Kernel", "kernel-.*"), ("target", "Hostname", "m1|m2")]
    found = [(one.role, one.name, one.pattern) for one in alone.rules]
    assert found == [("baseline", "Kernel", r"kernel-4\.18\..*"), *targets]
    assert [one.title for one in (alone, *both)] == ["RHEL 8", "RHEL 7", "rules 2"]


def test_patterns_match_whole_values_and_names_ignore_case(rule_sets):
    (one,) = rule_sets(f"<rules>{BASELINE}{TARGETS}</rules>")
    names = ("kernel-4.18.0-80", "xkernel-4.18.0", "kernel-4.180", "kernel-4.18.\n")
    runs = [*({"kernel": name} for name in names), {}]
    assert one.accepts_runs("baseline", runs) == [True, False, False, False, False]
    hosts = [{"kernel": "kernel-5", "hostname": name} for name in ("m1", "m2", "m12")]
    assert one.accepts_runs("target", hosts) == [True, True, False]


def test_a_pattern_of_exponential_backtracking_takes_no_time(rule_sets):
    (one,) = rule_sets(f'<rules>{BASELINE}<target><Kernel value="(a+)+(a+)+b"/></target></rules>')
    assert one.accepts_runs("target", [{"kernel": "a" * 900}]) == [False]


NOT_RE2 = 'rules.xml:2 rules "rules" target <Kernel>: value="{}" is not a regular expression of RE2'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"<r>\n{BASELINE}</r>", 'rules.xml:1 rules "rules": has no <targets>'),
        (f"<r>\n{BASELINE}\n<goal/></r>", 'rules.xml:3 rules "rules": <goal> is not a role of results'),
        (f"<r>{BASELINE}\n{BASELINE}{TARGETS}</r>", 'rules.xml:2 rules "rules": <baseline> appears twice'),
        (f"<r>{BASELINE}\n<targets/></r>", 'rules.xml:2 rules "rules": <targets> holds no rule'),
        (f"<r>{BASELINE}<targets>\n<Kernel/></targets></r>", "<Kernel> has no attribute value"),
        *(
            (f'<r>{BASELINE}<targets>\n<Kernel value="{pattern}"/></targets></r>', NOT_RE2.format(pattern))
            for pattern in ("(4", "a)|(b", "(?=a)")
        ),
        ('<r><baseline><a value="x"/><a value="y"/></baseline></r>', "baseline: <a> appears twice"),
        (f'<r>{BASELINE}<targets><Kernel value="{"a" * 1001}"/></targets></r>', "has 1001 characters"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><r/>', "rules.xml:1: declares a document type"),
        ("", "rules.xml: is empty; expected XML"),
    ],
)
def test_bad_rules_give_a_one_line_error(rule_sets, text, told):
    assert told in re.sub(r"\S*/rules.xml", "rules.xml", refusal(rule_sets, text))


def expect_runs(path):
    # beside which the file may hold settings
    path.with_name("a.xml").write_text(run("k-1", 1).replace("settings>", "other>"))
    assert all(np.isfinite(one.values).all() for one in read(path.parent).runs)


def expect_samples(path):
    found = heats.read_heats(path)
    assert found.values.shape == (len(found.rows), len(found.seconds))
    assert (np.diff(found.seconds) >= 0).all()
    assert not np.isinf(found.values).any()


def expect_rules(path):
    assert all({"baseline", "target"} <= one.roles for one in rules.read_rule_sets(path))


def in_json(strategy, around):
    return strategy.map(lambda content: json.dumps(around(content)).encode())


#: Numbers as they stand in files, the greatest and the wrong ones, too.
CELLS = st.floats().map(str) | st.integers().map(str) | st.sampled_from(["", "x", '"', "1e308", "-1e308"])
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=3).map(",".join), max_size=5)
LOADS = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["all", "0", "1"]), "usr": st.floats() | st.none(), "sys": st.floats(0, 1e308)}
)
TIMES = st.sampled_from(["00:00:01", "11:59:59 PM", "later"])
MOMENTS = st.fixed_dictionaries({"timestamp": TIMES, "cpu-load": st.lists(LOADS, max_size=3)})
RESULTS = st.recursive(st.none() | st.floats() | st.text(max_size=5), st.lists)
#: What reads files of these names, and what they may hold beside any bytes.
READERS = {
    expect_runs: (
        ("b.xml", "b.json", "a.settings.xml"),
        ELEMENTS.map(lambda inside: f"<beaker_run_result>{inside}</beaker_run_result>".encode())
        | in_json(RESULTS, lambda results: {"results": results}),
    ),
    expect_samples: (
        tuple(f"a{ending}" for ending in heats.BESIDE),
        ROWS.map(lambda rows: "\n".join(["seconds,core0,core1", *rows]).encode())
        | in_json(st.lists(MOMENTS, max_size=4), lambda own: {"sysstat": {"hosts": [{"statistics": own}]}}),
    ),
    expect_rules: (("rules.xml",), ELEMENTS.map(str.encode)),
}


@pytest.mark.parametrize("expect", READERS)
@given(data=st.data())
@settings(max_examples=60)
def test_any_bytes_are_read_or_give_one_error(tmp_path_factory, expect, data):
    names, content = READERS[expect]
    path = tmp_path_factory.mktemp("any") / data.draw(st.sampled_from(names))
    path.write_bytes(data.draw(st.binary(max_size=120) | content))
    with suppress(InputError):
        expect(path)
