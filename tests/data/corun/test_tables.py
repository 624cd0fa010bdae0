"""Co-runs as they come in: a flaw is told in one line, or a decision leaves it out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.corun import formats as corun_formats
from data.corun.formats import pitot, spec_corun
from data.corun.tables import CorunTables, corunner_columns
from data.corun.validity import CorunDecisions, decide_validity, select_engines
from data.tables.problems import Problems
from serving.answering import import_sources
from tests.data.corun.rows import beside, pitot_archives, sample, small, solo
from tests.data.refusals import expect_only_flaw, refusal

NAMES = ("tasks", "pairs", "samples", "hosts")
COPY, COPY_2 = (f'machine "m" task "copy" repetition {number}' for number in (1, 2))
LATE, BESIDE = f"{COPY} t_seconds 0.8", 'machine "m" task "copy" beside "sort" repetition'
#: Messages and the rows that give them.
FLAWS = {
    "tasks row 3: has no task": {"tasks": [solo(None)]},
    f"{COPY_2}: solo_seconds=0 must be above 0 and finite": {"tasks": [solo("copy", 0.0, 2)]},
    f"{COPY_2}: has no solo_seconds": {"tasks": [solo("copy", np.nan, 2)]},
    f"{BESIDE} 2: corun_seconds=-1 must be above 0 and finite": {"pairs": [beside("copy", "sort", -1.0, 2)]},
    f"{COPY_2}: faults=-3 must be 0 or more and finite": {"tasks": [solo("copy", 2.0, 2, faults=-3.0)]},
    f"{LATE}: switches=inf must be 0 or more and finite": {"samples": [sample("copy", 0.8, switches=np.inf)]},
    f"{COPY}: occurs twice": {"tasks": [solo("copy")]},
    f"{BESIDE} 1: occurs twice": {"pairs": [beside("copy", "sort", 9.0)]},
    f"{COPY} t_seconds 0.4: occurs twice": {"samples": [sample("copy", 0.4)]},
    "pairs row 9: has no corunner_1": {"pairs": [beside("copy", None)]},
    f'{LATE}: phase="warm" must be "solo" or "corun"': {"samples": [sample("copy", 0.8, phase="warm")]},
    'machine "m" task "a+b" repetition 1 t_seconds 0.2: '
    'task="a+b" must be without "+", which joins the names in samples': {"samples": [sample("a+b", 0.2)]},
    'machine "m": occurs twice': {"hosts": [{"machine": "m"}]},
}


@pytest.mark.parametrize(("message", "further"), FLAWS.items())
def test_keep_going_skips_a_flawed_row_only(message, further):
    expect_only_flaw(message, small(**further), small())


def test_omitted_tables_and_columns_of_a_source_are_filled(tmp_path):
    pairs = [beside("copy", "sort"), beside("copy", "sort", repetition=2, corunner_2="pipe")]
    CorunTables.from_rows([solo("copy")], pairs).write(tmp_path)
    for name in ("samples", "hosts"):
        (tmp_path / f"{name}.parquet").unlink()
    pd.read_parquet(tmp_path / "tasks.parquet").drop(columns="family").to_parquet(tmp_path / "tasks.parquet")
    tables = CorunTables.read(tmp_path)
    assert tables.tasks["family"].tolist() == ["copy"]
    assert tables.hosts.to_dict("records") == [{"machine": "m", "device": "m", "engine": "", "note": ""}]
    assert tables.samples.empty
    assert tables.events == ["faults", "switches"]
    assert corunner_columns(tables.pairs) == ["corunner_1", "corunner_2"]
    assert tables.pairs["corunner_2"].isna().tolist() == [True, False]


def test_uncounted_perf_events_are_missing_and_other_text_refused(tmp_path):
    def faults(told):
        small().write(tmp_path)
        table = pd.read_parquet(tmp_path / "tasks.parquet")
        table["faults"] = table["faults"].astype(str).where(table["task"] != "sort", told)
        table.to_parquet(tmp_path / "tasks.parquet")
        return CorunTables.read(tmp_path).tasks["faults"]

    for told in ("<not counted>", "<not supported>", None):
        assert faults(told).isna().tolist() == [False, True, False]
    assert refusal(faults, "many").endswith('tasks.parquet row 1: faults="many" is not a number')


def test_tables_of_several_sources_are_joined_by_rows():
    pairs = [beside("copy", "copy", machine="n")]
    other = CorunTables.from_rows([solo("copy", machine="n", cycles=5.0)], pairs)
    joined = CorunTables.join_tables([small(), other])
    assert joined.tasks["cycles"].isna().tolist() == [True, True, True, False]
    assert joined.hosts["machine"].tolist() == ["m", "n"]
    assert (len(joined.pairs), len(joined.samples)) == (10, 6)


def reasons(table, column):
    return table.loc[~table["kept"]].set_index(column)["reason"].to_dict()


def test_flawless_tables_of_co_runs_are_kept_completely(tmp_path):
    decisions = decide_validity(small(), 0.2)
    for name in ("events", "tasks", "pairs", "samples"):
        assert getattr(decisions, name)["kept"].all()
    assert (decisions.pairs["flag"] == "").all()
    assert decisions.warnings.empty
    decisions.write(tmp_path)
    left = CorunDecisions.read(tmp_path).select_kept(small())
    for name in ("tasks", "pairs", "hosts"):
        pd.testing.assert_frame_equal(getattr(left, name), getattr(small(), name))
    assert len(left.samples) == 6


def test_co_runs_of_a_task_without_solo_run_are_excluded():
    further = [beside("copy", "lost"), beside("copy", "sort", repetition=2, corunner_2="lost")]
    further += [beside("copy", "sort", repetition=repetition) for repetition in (3, 4)]
    tables = small([solo("pipe", machine="n")], further, without=["pipe"])
    decisions = decide_validity(tables, 0.2)
    missing = {
        ("copy", "pipe"): 'co-runner "pipe"', ("sort", "pipe"): 'co-runner "pipe"',
        ("pipe", "copy"): 'task "pipe"', ("pipe", "sort"): 'task "pipe"', ("pipe", "pipe"): 'task "pipe"',
        ("copy", "lost"): 'co-runner "lost"', ("copy", "lost+sort"): 'co-runner "lost"',
    }  # fmt: skip
    assert reasons(decisions.pairs, ["task", "corunners"]) == {
        pair: f"the {name} has no solo run on this machine to learn from" for pair, name in missing.items()
    }
    assert len(decisions.select_kept(tables).pairs) == 6


def test_mostly_missing_or_constant_events_and_incomplete_runs_are_excluded():
    tables = small([solo("copy", repetition=2, cycles=4.0, faults=np.nan, ghosts=0.0)])
    tables.tasks["alignment-faults"] = 0.0
    decisions = decide_validity(tables, 0.4)
    rare = "was counted in 1 of 4 solo runs"
    never = {"alignment-faults": "has the same count 0 in all solo runs"}
    assert reasons(decisions.events, "event") == never | dict.fromkeys(("cycles", "ghosts"), rare)
    assert reasons(decisions.tasks, ["task", "repetition"]) == {
        ("copy", 2): 'lacks 50% of the events, such as "faults"'
    }
    left = decisions.select_kept(tables)
    assert (left.events, len(left.tasks)) == (["faults", "switches"], 3)


def test_a_co_run_faster_than_solo_is_flagged():
    fast = [beside("pipe", "sort", 3.6, 2), beside("pipe", "sort", 3.95, 3)]
    decisions = decide_validity(small(pairs=fast), 0.2)
    assert decisions.pairs["kept"].all()
    assert decisions.pairs["flag"].tolist()[-2:] == ["0.90 of its solo time", ""]
    (warning,) = decisions.warnings["warning"]
    assert warning.startswith("in 1 of 11 measurements, a task was faster beside others than alone, by more")
    assert warning.endswith('largest difference is that of "pipe" with "sort" on "m": 0.90 of its solo time')
    # repeated solo runs define the limit
    shaky = [solo("copy", 2.0 * (1 + change), number) for number, change in ((2, 0.1), (3, -0.1))]
    assert decide_validity(small(shaky, fast), 0.2).warnings.empty


def test_samples_with_gaps_or_without_a_run_are_excluded():
    gap = [sample("sort", end) for end in (0.2, 0.4, 1.2)]
    late = [sample("pipe", end) for end in (0.2, 0.6, 0.8)]
    lost = [sample("copy", end, "sort", "corun", 7) for end in (0.2, 0.4)]
    tables = small(samples=[*gap, *late, *lost])
    decisions = decide_validity(tables, 0.2)
    assert reasons(decisions.samples, ["task", "corunners", "repetition"]) == {
        ("sort", "", 1): "has a gap of 0.8 s before 1.2 s, where intervals last 0.2 s",
        ("copy", "sort", 7): "belong to no run",
    }
    left = decisions.select_kept(tables).samples
    assert sorted(set(left["task"])) == ["copy", "pipe", "sort"]
    assert set(left.loc[left["task"] == "sort", "phase"]) == {"corun"}
    three = [beside("copy", "sort", repetition=2, corunner_2="pipe")]
    for corunners in ("sort+pipe", "pipe+sort"):
        either_way = [sample("copy", 0.2, corunners, "corun", 2)]
        assert decide_validity(small(pairs=three, samples=either_way), 0.2).samples["kept"].all()


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ([], 'tasks: no event was counted that differs between solo runs; "faults" has the same count 443'),
        (
            [solo("sort", 3.0)],
            "pairs: 0 of 1 can be learned from; expected at least 5; the first left out: the",
        ),
    ],
)
def test_too_little_training_data_is_refused(further, message):
    tables = CorunTables.from_rows([solo("copy"), *further], [beside("copy", "pipe")])
    assert refusal(decide_validity, tables, 0.2).startswith(message)


def test_pitot_becomes_solo_runs_and_co_runs(tmp_path):
    pitot_archives(tmp_path)
    tables = pitot.read_tables(tmp_path)
    assert tables.tasks.to_dict("records")[0] == {
        "task": "vision/sift_l", "family": "vision/sift", "machine": "iwasm-a:hc-10", "solo_seconds": 1.0,
        "repetition": 1, "op_x04": 1000.0, "op_x05": 0.0, "op_x0C": 7.0,
    }  # fmt: skip
    assert tables.tasks["family"].tolist() == ["vision/sift", "libsodium/box_easy", "vision/sift"]
    assert tables.pairs.to_numpy().tolist() == [
        ["vision/sift_l", "libsodium/box_easy", "iwasm-a:hc-10", 1.5, 1],
        ["vision/sift_l", "libsodium/box_easy", "iwasm-a:hc-10", 1.6, 2],
        ["libsodium/box_easy", "vision/sift_l", "iwasm-a:hc-10", 3.0, 1],
    ]
    assert tables.hosts[["device", "engine", "l2_size"]].to_numpy().tolist() == [
        ["hc-10", "iwasm-a", -1.0], ["hc-10", "wasm3-i", 2.0],
    ]  # fmt: skip
    tables.without_flaws(Problems())


PLATFORM = "expected <engine>:<device>"


@pytest.mark.parametrize(
    ("array", "values", "message"),
    [
        ("if2.t", None, 'if2.npz: has no array "t"; found'),
        ("if2.i_interference0", np.array([0, 5, 0]), "if2.npz row 1: i_interference0=5 names none of the 2"),
        ("data.n_platform", np.array(["a:hc", "hc"]), f'data.npz row 1: n_platform="hc"; {PLATFORM}'),
        ("data.n_workload", np.array([{}, []], object), "data.npz: is not a readable NumPy archive"),
    ],
)
def test_a_wrong_archive_gives_a_one_line_error(tmp_path, array, values, message):
    pitot_archives(tmp_path, **{array: values})
    assert refusal(pitot.read_tables, tmp_path).startswith(f"{tmp_path}/{message}")


def campaign(directory, pairs="600.a_s 605.b_s 0.9 0.8 0.5 0.8\n", curve="0 10.0\n4 12.0\n"):
    """Two programs, beside each other and beside 4 MB."""
    (directory / "sensitivity").mkdir(parents=True)
    for name in ("600_a_s", "605_b_s"):
        (directory / f"sensitivity/{name}_data.csv").write_text(f"footprint_mb perf\n{curve}")
    (directory / "validated.csv").write_text(f"name1 name2 expected1 expected2 actual1 actual2\n{pairs}")
    (directory / "reporter_sensitivity.csv").write_text("0 600.0\n4 700.0\n")
    (directory / "contentiousness.csv").write_text(" 0\n600.a_s 900.0\n605.b_s 660.0\n")


def test_spec_corun_campaigns_become_machines_of_one_device(tmp_path):
    for name in ("ondemand", "conservative"):
        campaign(tmp_path / name)
    tables = spec_corun.read_tables(tmp_path)
    assert tables.hosts[["machine", "device"]].to_numpy().tolist() == [
        ["conservative", "spec-corun"], ["ondemand", "spec-corun"],
    ]  # fmt: skip
    pairs = tables.pairs[tables.pairs["machine"] == "ondemand"]
    assert pairs[["task", "corunner_1", "corun_seconds"]].to_numpy().tolist() == [
        ["600.a_s", "605.b_s", 20.0], ["605.b_s", "600.a_s", 12.5],
    ]  # fmt: skip
    rates = tables.tasks[tables.events].div(tables.tasks["solo_seconds"], axis="index")
    assert rates["beside_4mb"].tolist() == pytest.approx([1.2] * 4)
    assert rates["reporter_slowdown"].tolist() == pytest.approx([1.5, 1.1] * 2)
    tables.without_flaws(Problems())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": "600.a_s 605.b_s 1 1 0.5 x\n"}, 'validated.csv:2: actual2="x" is not a number'),
        (
            {"pairs": "\n600.a_s 9.z 1 1 1 1\n"},
            'validated.csv:3: the program "9.z" has no curve in sensitivity',
        ),
        (
            {"curve": "4 12.0\n"},
            "sensitivity/600_a_s_data.csv: has no row footprint_mb=0, which holds the solo",
        ),
    ],
)
def test_a_wrong_campaign_gives_a_one_line_error(tmp_path, change, message):
    campaign(tmp_path / "c", **change)
    assert refusal(spec_corun.read_tables, tmp_path / "c").startswith(f"{tmp_path}/c/{message}")


def test_a_directory_without_a_public_set_is_refused(tmp_path):
    assert refusal(pitot.read_tables, tmp_path) == f"{tmp_path}/data.npz: no such file"
    assert refusal(spec_corun.read_tables, tmp_path).startswith(
        f"{tmp_path}: holds no campaign of spec-corun"
    )


@pytest.mark.parametrize(("name", "least"), [("pitot", 20_000), ("spec-corun", 100)])
def test_the_public_sets_can_be_learned_from(shared_data, name, least):
    tables = corun_formats.read(name, [shared_data / name]).tables
    decisions = decide_validity(tables, 0.2)
    assert decisions.pairs["kept"].sum() > least
    assert decisions.events["kept"].sum() > 20
    alone = tables.tasks.set_index(["machine", "task"])["solo_seconds"]
    kept = decisions.select_kept(tables).pairs
    seconds = alone.loc[list(zip(kept["machine"], kept["task"], strict=True))]
    assert 1.0 < (kept["corun_seconds"].to_numpy() / seconds).median() < 1.3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pitot", "/data.npz: no such file"),
        ("spec-corun", ": holds no campaign of spec-corun"),
        ("tables", "/tasks.parquet: no such file"),
    ],
)
def test_a_directory_of_no_known_format_is_refused(tmp_path, name, message):
    assert refusal(corun_formats.read, name, [tmp_path]).startswith(f"{tmp_path}{message}")


def test_importing_co_runs_prints_the_imported_counts(tmp_path, capsys):
    campaign(tmp_path / "one")
    told = "1 machines, 2 tasks, 2 events, 2 solo_runs, 2 pairs, 0 samples, 0 skipped"
    for kind, source, out in (("spec-corun", "one", "a"), ("tables", "a", "b")):
        given = {"keep_going": False, "as_json": False, "options": {}}
        assert import_sources(kind, [tmp_path / source], tmp_path / out, **given) == 0
        assert capsys.readouterr().out == f"{told} -> {tmp_path / out}\n"
    for name in NAMES:
        first, second = (pd.read_parquet(tmp_path / out / f"{name}.parquet") for out in ("a", "b"))
        pd.testing.assert_frame_equal(first, second)


def test_two_machines_of_one_device_and_engine_are_refused():
    def on_device(engine):
        hosts = [{"machine": machine, "device": "d", "engine": engine} for machine in "ab"]
        return small([solo("copy", machine=machine) for machine in "ab"], hosts=hosts)

    told = refusal(decide_validity, on_device("jit"), 0.2)
    assert told.startswith('hosts: "a" and "b" have the device "d" and the engine "jit"')
    assert decide_validity(on_device(""), 0.2).tasks["kept"].all()


def test_only_co_runs_of_the_selected_engine_are_kept():
    hosts = pd.DataFrame({"machine": ["m"], "device": ["d"], "engine": ["jit"], "note": [""]})
    tables = replace(small(), hosts=hosts)
    assert len(select_engines(tables, ["jit"]).pairs) == len(tables.pairs)
    assert select_engines(replace(tables, pairs=tables.pairs.assign(machine="n")), ["jit"]).pairs.empty
    assert refusal(select_engines, tables, ["aot"]).endswith('no machine has the engine "aot"; there are jit')
