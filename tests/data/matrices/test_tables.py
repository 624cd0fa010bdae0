"""Matrices as they come in: a flaw is told in one line, or a decision leaves it out."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import synthetic_matrices
from data.matrices import formats as matrix_formats
from data.matrices.formats import dbsherlock, petshop
from data.matrices.limits import MOST_METRICS
from data.matrices.suite import INVALID_KINDS
from data.matrices.tables import MatrixTables, PairSides, select_workloads
from data.matrices.validity import MatrixDecisions, decide_validity, first_broken
from serving.answering import import_sources
from tests.data.matrices.rows import pair, run, small
from tests.data.refusals import refusal
from training.matrices.judging import match_metrics

PUBLIC = Path(__file__).parents[4] / "shared/data"
SHIPPED = Path(__file__).parents[3] / "data/raw/matrices"
SORT = "sort 1 target 1"


def read(tables, directory, **how):
    tables.write(directory)
    return matrix_formats.read("tables", [directory], **how)


def needs(path):
    return pytest.mark.skipif(not path.exists(), reason=f"{path.name} is not at {path.parent}")


def every(*pairs, **further):
    return [row | further for name in pairs or ("sort 1", "pipe 1") for row in pair(name)]


#: Messages and the changes of a run that give them.
FLAWS = {
    "runs row 1: has no run_id": {"run_id": ""},
    f'run "{SORT}": has no pair_id': {"pair_id": ""},
    f'run "{SORT}": has no group': {"group": None},
    f'run "{SORT}": side="left" must be "baseline" or "target"': {"side": "left"},
    'pair "sort 1": the target mixes version "v2" and "v1"; expected one': {"version": "v2"},
}


@pytest.mark.parametrize(("message", "change"), FLAWS.items())
def test_a_flawed_run_is_refused_or_left_out(message, change, tmp_path):
    flawed, rows = pd.DataFrame([run("sort 1", "target", 1) | change]), small(without=(SORT,)).runs
    rows = pd.concat([rows[:1], flawed, rows[1:]], ignore_index=True)
    assert refusal(read, MatrixTables.from_rows(rows), tmp_path) == message
    kept = read(MatrixTables.from_rows(rows), tmp_path, keep_going=True)
    assert [str(skipped) for skipped in kept.skipped] == [message]
    assert len(kept.tables.runs) == (6 if "mixes" in message else 11)


BASELINE = [f"sort 1 baseline {number}" for number in (1, 2, 3)]
ELSEWHERE = [row | {"machine": "n"} for row in pair("sort 1") if row["side"] == "target"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (small().with_runs(pd.concat([small().runs] * 2)), 'run "sort 1 baseline 1": occurs twice'),
        (small(*ELSEWHERE), "target differ in version, machine; expected one field to compare by"),
        (small(without=BASELINE), 'pair "sort 1": has no run of the baseline'),
        (small().with_runs(small().runs.head(0)), ": holds no run"),
    ],
)
def test_repeated_runs_and_incomparable_sides_are_refused(tables, message, tmp_path):
    assert refusal(read, tables, tmp_path).endswith(message)


def test_sides_may_differ_in_the_machine_only(tmp_path):
    same_version = [row | {"version": "v0"} for row in ELSEWHERE]
    assert len(read(small(*same_version), tmp_path).tables.runs) == 12


def test_runs_of_pairs_are_counted_by_side_and_mask():
    rows = [("b", "baseline"), ("a", "baseline"), ("b", "target"), ("b", "target"), ("a", "baseline")]
    sides = PairSides.from_runs(pd.DataFrame(rows, columns=["pair_id", "side"]))
    assert sides.names.tolist() == ["b", "a"]
    assert sides.count_runs().tolist() == [[1, 2], [2, 0]]
    assert sides.count_runs(np.array([False, True, True, False, False])).tolist() == [[0, 1], [1, 0]]
    # a pair without a target has the first run of its baseline
    assert sides.first_rows.tolist() == [2, 1]


def test_too_wide_or_truncated_files_are_refused_before_reading(tmp_path):
    path = tmp_path / "matrices.parquet"
    columns = {f"m{number}": pa.array([0.0]) for number in range(MOST_METRICS + 1)}
    pq.write_table(pa.table({"run_id": ["r"], **columns}), path, use_dictionary=False, write_statistics=False)
    told = f"has {MOST_METRICS + 1} metrics; expected {MOST_METRICS} at most"
    assert told in refusal(MatrixTables.read, path)
    small().write(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    assert "is not a readable Parquet file" in refusal(MatrixTables.read, tmp_path)
    path.unlink()
    assert refusal(MatrixTables.read, tmp_path).startswith(f"{path}: no such file")


def test_flags_of_a_wrong_type_are_ignored_when_judging(tmp_path):
    path = tmp_path / "runs.parquet"
    small().runs.astype({"valid": object}).assign(valid="yes").to_parquet(path)
    told = refusal(matrix_formats.read, "tables", [path])
    assert told.endswith('runs.parquet row 0: valid="yes" is not true or false')
    assert matrix_formats.read_for_judging("tables", path).tables.runs["valid"].isna().all()
    # units come from a neighbouring file
    pd.DataFrame({"metric": ["faults"], "unit": ["1/s"]}).to_parquet(tmp_path / "metrics.parquet")
    known = matrix_formats.read_for_judging("tables", path).tables.metrics.set_index("metric")
    assert known["unit"].to_dict() == {
        "faults": "1/s", "switches": "", "summary_elapsed": "", "summary_transactions": "",
    }  # fmt: skip


def test_an_error_names_only_a_few_of_thousands(tmp_path):
    path = tmp_path / "runs.parquet"
    pd.DataFrame({f"m{number}": [1.0] for number in range(3000)}).to_parquet(path)
    assert refusal(MatrixTables.read, path).endswith("m6, m7 and 2992 more")
    groups = [row for number in range(30) for row in every(f"new {number}", group=f"g{number}")]
    notes = match_metrics(small(*groups), small().metrics, {"sorting", "pipes"}, 0.5)[1]
    assert (len(notes), notes[-1]) == (6, "... and 25 more are unknown groups")


#: Reasons, rules and the values of a run that break them.
INVALID = {
    "faults=-3 must be 0 or more": ("0 or more", {"faults": -3.0}),
    "switches=inf must be finite": ("finite", {"switches": np.inf}),
    "summary_elapsed=0 must be above 0": ("above 0", {"summary_elapsed": 0.0}),
    "switches=-1e+308 must be 1e+100 at most in size": ("1e+100 at most in size", {"switches": -1e308}),
    "summary_elapsed=nan must be measured": ("measured", {"summary_elapsed": np.nan}),
    "summary_cpu=140 must be 100 % at most": ("100 % at most", {"summary_cpu": 140.0}),
    "lacks 100% of the raw metrics": ("measured", {"faults": np.nan, "switches": np.nan}),
    "summary_transactions=28, where 30 is usual for this workload": (
        "same transaction count", {"summary_transactions": 28.0},
    ),
}  # fmt: skip
METRICS = [
    {"metric": "summary_cpu", "unit": "%", "signed": False},
    {"metric": "faults", "unit": "1/s", "signed": False},
]


@pytest.mark.parametrize(("reason", "rule", "values"), [(key, *value) for key, value in INVALID.items()])
def test_runs_with_impossible_values_are_invalid_by_rule(reason, rule, values):
    rows = every(summary_cpu=50.0)
    tables = small(*rows, rows[3] | values, metrics=METRICS)
    decided = decide_validity(tables, 0.5)
    out = decided.runs[~decided.runs["kept"]]
    assert out[["run_id", "rule", "reason"]].to_numpy().tolist() == [[SORT, rule, reason]]
    assert decided.pairs["kept"].all()
    assert decided.flag_valid_runs(tables).runs["valid"].sum() == 11


def test_missing_metrics_are_counted_against_those_of_the_model():
    def broken(tables, missing=0.5):
        """Return for each run the rule that a model refuses it by, empty where none, and the reason."""
        return first_broken(tables, missing, tables.raw_metrics, [])

    nothing = {"faults": np.nan, "switches": np.nan}
    for others in ([], every("pipe 1", **nothing)[:4]):
        tables = small(*every("sort 1", **nothing), *others)
        sorts = tables.runs["run_id"].str.startswith("sort")
        assert set(pd.Series(broken(tables)[1])[sorts]) == {"lacks 100% of the raw metrics"}
    gap = every("sort 1", summary_elapsed=1.0, summary_cpu=np.nan)[:1]
    assert not any(broken(small(*gap, *every("pipe 1", summary_cpu=9.0)), 0.2)[0])
    # runs of pairs without elapsed time are valid
    assert not any(broken(small(*every("sort 1", summary_elapsed=np.nan)))[0])
    untimed = small().runs.drop(columns=["summary_elapsed", "summary_transactions"])
    assert decide_validity(MatrixTables.from_rows(untimed), 0.5).runs["kept"].all()


def test_expected_transactions_need_a_majority_of_equal_counts():
    counts = (990.0, 1003.0, 1010.0, 990.0, 1003.0, 990.0)
    timed = [row | {"summary_transactions": count} for row, count in zip(pair("sort 1"), counts, strict=True)]
    assert decide_validity(small(*timed), 0.5).runs["kept"].all()
    most = [*timed[:4], timed[4] | {"summary_transactions": 990.0}, timed[5]]
    decided = decide_validity(small(*most), 0.5).runs
    assert decided.loc[~decided["kept"], "reason"].tolist() == [
        f"summary_transactions={count}, where 990 is usual for this workload" for count in (1003, 1010)
    ]


def test_a_metric_that_may_be_negative_stays_valid():
    negative = [row | {"faults": -row["faults"]} for row in every()]
    assert decide_validity(small(*negative), 0.5).runs["kept"].all()
    known = [{"metric": "faults", "unit": "", "signed": False}]
    told = refusal(decide_validity, small(*negative, metrics=known), 0.5)
    assert told.startswith('pairs: none can be judged; the first, "sort 1", has 0 valid of 3')


def test_uninformative_metrics_are_left_out_with_a_reason():
    rows = every(same=5.0, never=np.nan, seldom=np.nan)
    rows[0]["seldom"] = 1.0
    metrics = decide_validity(small(*rows), 0.5).metrics
    assert metrics[~metrics["kept"]].set_index("metric")["reason"].to_dict() == {
        "same": "has the same value 5 in all runs",
        "never": "was measured in 0 of 12 runs",
        "seldom": "was measured in 1 of 12 runs",
        "summary_transactions": "has the same value 30 in all runs",
    }
    told = refusal(decide_validity, small(*every(faults=1.0, switches=1.0)), 0.5)
    assert told.startswith('metrics: no raw metric carries information; the first, "faults", has')


def test_a_pair_with_one_baseline_run_is_excluded(tmp_path):
    one = small(without=["sort 1 baseline 2", "sort 1 baseline 3"])
    decided = decide_validity(one, 0.5)
    assert decided.pairs.to_numpy().tolist() == [
        ["sort 1", False, "has 1 valid of 1 baseline run; expected at least 2"], ["pipe 1", True, ""],
    ]  # fmt: skip
    decided.write(tmp_path)
    for name in ("runs", "pairs", "metrics", "warnings"):
        assert getattr(MatrixDecisions.read(tmp_path), name).equals(getattr(decided, name))


def test_a_change_of_unit_is_a_warning():
    exact = [row | {"faults": 108_000.0 + number} for number, row in enumerate(pair("sort 1"))]
    assert decide_validity(small(), 0.5).warnings.empty
    (warning,) = decide_validity(small(*exact[3:]), 0.5).warnings["warning"]
    assert warning == 'pair "sort 1": faults is 1000.04 times its baseline; is it in another unit?'


def test_matrices_are_reduced_to_metrics_of_the_model():
    def match(runs, units=None, groups=("sorting", "pipes")):
        return match_metrics(MatrixTables.from_rows(runs, None, units), known, set(groups), 0.5)

    known, tables = small(metrics=METRICS[1:]).metrics, small()
    runs = tables.runs
    same, notes = match(runs[[*reversed(runs.columns)]])
    assert notes == ()
    assert same.runs.equals(runs)

    found, notes = match(runs.rename(columns={"switches": "switchs"}).assign(new=1.0), groups=["sorting"])
    assert notes == (
        'metric "switches" is missing; it is taken as not measured; was it renamed "switchs"?',
        'metric "switchs" is unknown to the model; it is not used',
        'metric "new" is unknown to the model; it is not used',
        'group "pipes" is unknown to the model; the classifier for all groups is used',
    )
    assert found.all_metrics == tables.all_metrics
    assert found.runs["switches"].isna().all()

    found, notes = match(runs, [{"metric": "faults", "unit": "1/ms"}])
    assert notes == ('metric "faults" comes in 1/ms, expected 1/s; it is taken as not measured',)
    assert found.runs["faults"].isna().all()
    missing = '2 of the 2 raw metrics of the model are missing, such as "faults"; expected 50% of them'
    assert refusal(match, runs.drop(columns=["faults", "switches"])) == f"runs: {missing}"


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
@pytest.mark.parametrize(("column", "values"), [("unit", ["s", "ms"]), ("signed", [True, False])])
def test_contradicting_descriptions_of_a_metric_are_refused(column, values, order, tmp_path):
    rows = [{"metric": "faults", "unit": "s", column: value} for value in values][::order]
    mixed = f'metric "faults": mixes {column} "{rows[0][column]}" and "{rows[1][column]}"; expected one'
    assert refusal(MatrixTables.join_tables, [small(metrics=[row]) for row in rows]) == mixed
    path = tmp_path / "metrics.parquet"
    small().runs.to_parquet(tmp_path / "matrices.parquet")
    pd.DataFrame(rows).to_parquet(path)
    for source in (tmp_path, tmp_path / "matrices.parquet"):
        assert refusal(matrix_formats.read_for_judging, "tables", source) == f"{path} {mixed}"


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_any_order_of_descriptions_gives_equal_metrics(order, tmp_path):
    rows = [
        {"metric": "faults", "unit": "", "signed": None},
        {"metric": "faults", "unit": "ms", "signed": None},
        {"metric": "faults", "unit": None, "signed": False},
    ]
    whole = small(metrics=rows[1:2]).metrics.assign(signed=pd.array([False, None, None, None], "boolean"))
    ordered = [rows[number] for number in order]
    small().runs.to_parquet(tmp_path / "matrices.parquet")
    pd.DataFrame(ordered).to_parquet(tmp_path / "metrics.parquet")
    joined = MatrixTables.join_tables([small(metrics=[row]) for row in ordered])
    for tables in (MatrixTables.read(tmp_path), joined):
        pd.testing.assert_frame_equal(tables.metrics, whole)


@pytest.mark.parametrize(
    ("how", "pairs"),
    [({"exclude": ["s*"]}, ["pipe 1"]), ({"include": ["*"], "exclude": ["pipe"]}, ["sort 1"])],
)
def test_patterns_select_the_workloads_to_use(how, pairs):
    assert select_workloads(small(), **how).runs["pair_id"].unique().tolist() == pairs


def test_excluding_either_workload_excludes_a_mixed_pair():
    other = [row for row in every("sort 1", workload="heap", version="v0") if row["side"] == "target"]
    for pattern in ("heap", "sort"):
        left = select_workloads(small(*other), exclude=[pattern])
        assert set(left.runs["pair_id"]) == {"pipe 1"}
    told = refusal(select_workloads, small(), ["x"])
    assert told == '"x" matches no workload; there are "sort", "pipe"'
    assert refusal(select_workloads, small(), ["sort"], ["sort"]).startswith("no workload is left")


OPTIONS = {"keep_going": False, "as_json": False, "options": {}}


def test_importing_matrices_prints_the_imported_counts(tmp_path, capsys):
    small().write(tmp_path / "in")
    assert import_sources("tables", [tmp_path / "in"], tmp_path / "out", **OPTIONS) == 0
    counts = "2 groups, 2 workloads, 2 pairs, 12 runs, 2 raw_metrics, 2 summary_metrics, 0 skipped"
    assert capsys.readouterr().out == f"{counts} -> {tmp_path / 'out'}\n"
    assert MatrixTables.read(tmp_path / "out").runs.equals(small().runs)


@pytest.mark.parametrize(
    ("kind", "source"),
    [("tables", "in"), ("jmh", "in/matrices.parquet"), ("spec-corun", "link"), ("quiho", "linked")],
)
def test_an_import_over_its_own_source_is_refused(tmp_path, kind, source):
    small().write(tmp_path / "in")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/matrices.parquet").symlink_to("../in/matrices.parquet")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    told = refusal(import_sources, kind, [tmp_path / source], tmp_path / "in", **OPTIONS)
    where = f"{tmp_path / 'in'}: is the input {tmp_path / source}"
    assert told == f"{where}; expected another directory for the tables"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_tables_given_twice_are_named_or_skipped_row_by_row(tmp_path, capsys):
    small().write(tmp_path / "in")
    (tmp_path / "link").symlink_to("in")
    sources = [tmp_path / "in", tmp_path / "link"]
    told = refusal(import_sources, "tables", sources, tmp_path / "out", **OPTIONS)
    assert told == f"{tmp_path / 'link'}: is given twice; expected each source of tables once"
    assert import_sources("tables", sources, tmp_path / "out", **OPTIONS | {"keep_going": True}) == 0
    assert "12 runs, 2 raw_metrics, 2 summary_metrics, 12 skipped" in capsys.readouterr().out


def test_descriptions_of_metrics_of_no_run_are_noted(tmp_path, capsys):
    known = small()
    known.write(tmp_path)
    unknown = [{"metric": f"m{number}", "unit": "s"} for number in range(6)]
    file = tmp_path / "metrics.parquet"
    pd.concat([known.metrics, pd.DataFrame(unknown)]).to_parquet(file)
    note = f"{file}: unused, as no run has the metric: m0, m1, m2, m3 and 2 more"
    for source in (tmp_path, tmp_path / "matrices.parquet"):
        assert matrix_formats.read_for_judging("tables", source).notes == (note,)
        import_sources("tables", [source], tmp_path / "out", **OPTIONS)
        assert capsys.readouterr().err == f"note: {note}\n"
    assert matrix_formats.read("tables", [tmp_path / "out"]).notes == ()


def test_synthetic_matrices_have_the_shape_of_the_thesis_data():
    tables = synthetic_matrices.generate()
    runs = tables.runs
    assert (len(runs), len(tables.raw_metrics), len(tables.summary_metrics)) == (22_964, 200, 16)
    assert (runs["group"].nunique(), runs["workload"].nunique()) == (20, 300)
    assert (runs["valid"].sum(), (runs["abnormal"] & runs["valid"]).sum()) == (20_920, 740)
    assert not runs.loc[runs["side"] == "baseline", "abnormal"].any()
    decided = decide_validity(tables, 0.5)
    caught = ~decided.runs["kept"]
    assert not (caught & runs["valid"]).any()
    assert 0.5 < (caught & ~runs["valid"]).sum() / 2_044 < 0.8
    assert decided.pairs["kept"].mean() > 0.95
    words = set(tables.all_metrics) - {"summary_elapsed", "summary_transactions"}
    assert all("synthetic" in name for name in [*words, *runs["run_id"].head()])
    assert synthetic_matrices.generate(3_000).runs.equals(synthetic_matrices.generate(3_000).runs)


@needs(SHIPPED / "matrices.parquet")
def test_shipped_measurement_has_the_documented_size_and_variety():
    tables = MatrixTables.read(SHIPPED)
    runs, valid = tables.runs, tables.runs["valid"].to_numpy(bool)
    assert len(runs) >= 8000
    assert runs.loc[valid, "summary_elapsed"].median() >= 0.15
    numbers = runs.loc[valid, tables.raw_metrics]
    assert (numbers.max() > numbers.min()).sum() >= 200
    cases = runs.groupby("group")["workload"].nunique()
    assert (len(cases) >= 25, cases.min() >= 3, cases.sum() >= 400) == (True, True, True)
    assert set(tables.causes["cause_size"].agg(["min", "max"])) == {0.03, 0.6}
    assert runs[valid].groupby(["pair_id", "side"]).size().min() >= 3
    assert runs.loc[valid, "abnormal"].mean() == pytest.approx(0.035, abs=0.002)
    invalid = tables.causes[tables.causes["invalid_kind"] != ""]
    assert set(invalid["run_id"]) == set(runs.loc[~valid, "run_id"])
    assert len(invalid) / len(runs) == pytest.approx(0.09, abs=0.005)
    assert set(invalid["invalid_kind"]) == set(INVALID_KINDS)
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 15_000_000


@needs(SHIPPED / "matrices.parquet")
def test_load_changes_metrics_differently_between_shipped_groups():
    tables = MatrixTables.read(SHIPPED)
    normal = tables.runs["valid"] & ~tables.runs["abnormal"].fillna(value=True)
    runs = tables.runs[normal.to_numpy(bool)]
    timers = "perf.timer:hrtimer_start"
    numbers = np.log(runs[["process.run", timers, "summary_elapsed"]].clip(lower=1e-3))
    within = numbers - numbers.groupby(runs["workload"]).transform("mean")
    alike = within.groupby(runs["group"]).corr().xs(timers, level=1)["process.run"]
    assert (alike.max() > 0.8, alike.min() < -0.6) == (True, True)
    # at a rate, no duration shows how much work there is
    spread = within["summary_elapsed"].groupby(runs["group"]).quantile(0.9)
    paced = spread.index.str.endswith(" at a rate")
    assert spread[paced].median() < spread[~paced].min() / 10


@needs(PUBLIC / "dbsherlock")
def test_dbsherlock_gives_pairs_of_normal_and_faulty_stretches():
    tables = matrix_formats.read("dbsherlock", [PUBLIC / "dbsherlock"]).tables
    runs = tables.runs
    assert runs["workload"].nunique() == 110
    sides = runs.drop_duplicates(["pair_id", "side"]).set_index("pair_id")
    targets = sides[sides["side"] == "target"]
    assert (~targets["abnormal"]).sum() > targets["abnormal"].sum() > 300
    assert set(runs[runs["side"] == "baseline"]["abnormal"]) == {False}
    sizes = runs.groupby(["pair_id", "side"]).size().unstack()
    assert sizes["target"].unique().tolist() == [4]
    # where nothing is committed, nothing is a baseline, but it is asked about
    committed = runs.groupby(["pair_id", "side"])["dbmsCommittedCommands"].max()
    idle = committed.xs("target", level="side") == 0
    assert set(targets.loc[idle[idle].index, "abnormal"]) == {True, False}
    assert committed.xs("baseline", level="side").min() > 0
    # how long the baseline is does not tell what the target is
    about = targets.join(sizes)
    assert not (about["baseline"] != about.groupby("workload")["baseline"].transform("first")).any()
    assert not {"Epoch", "second", "cause"} & set(tables.all_metrics)
    known = tables.causes.set_index("run_id")["cause"]
    assert known.nunique() == 10
    assert set(known.index) == set(runs.loc[runs["abnormal"], "run_id"])
    decided = decide_validity(tables, 0.5)
    assert decided.runs["kept"].mean() > 0.999
    assert decided.pairs["kept"].all()


@needs(PUBLIC / "petshop")
def test_petshop_keeps_gaps_and_no_row_is_in_two_pairs():
    tables = matrix_formats.read("petshop", [PUBLIC / "petshop"]).tables
    runs = tables.runs
    assert set(runs["group"]) == {"high_traffic", "low_traffic"}
    targets = runs[runs["side"] == "target"].groupby("workload")["abnormal"].agg(["size", "first"])
    assert set(targets["size"]) == {5}
    assert targets["first"].value_counts().to_dict() == {True: 52, False: 58}
    normal = runs.loc[~runs["abnormal"], tables.all_metrics]
    assert not normal.dropna(axis="columns", thresh=400).duplicated().any()
    assert 0.05 < normal.isna().to_numpy().mean() < 0.3
    assert "PetSite/latency/Average" in tables.raw_metrics
    assert "PetSearch_AWS::ECS::Fargate" in set(tables.causes["cause"])


def test_missing_files_of_public_formats_are_named(tmp_path):
    pattern = "holds no traffic pattern; expected */noissue/metrics.csv"
    assert refusal(petshop.read_tables, tmp_path) == f"{tmp_path}: {pattern}"
    assert refusal(dbsherlock.read_tables, tmp_path) == f"{tmp_path}: holds no .parquet file"
    pd.DataFrame({"run": [1]}).to_parquet(tmp_path / "x.parquet")
    assert refusal(dbsherlock.read_tables, tmp_path / "x.parquet").endswith("no column 'cause'; found run")
