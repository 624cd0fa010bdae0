"""Matrices as they come in: a flaw is told in one line, or a decision leaves it out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import synthetic_matrices
from data.errors import InputError
from data.matrices import formats as matrix_formats
from data.matrices.formats import dbsherlock, petshop
from data.matrices.limits import MOST_METRICS
from data.matrices.suite import INVALID_KINDS
from data.matrices.tables import Choice, MatrixTables
from data.matrices.validity import MatrixDecisions, decide_validity, first_broken
from serving.answering import import_sources
from tests.data.matrices.rows import pair, run, small
from training.matrices.judging import match_metrics

PUBLIC = Path(__file__).parents[4] / "shared/data"
SHIPPED = Path(__file__).parents[3] / "data/raw/matrices"
SORT = "sort 1 target 1"


def read(tables, directory, **how):
    tables.write(directory)
    return matrix_formats.read("tables", [directory], **how)


def needs(name):
    there = (PUBLIC / name).exists()
    return pytest.mark.skipif(not there, reason=f"the public data {name} is not at ../shared/data")


FLAWS = {
    "no name": ({"run_id": ""}, "runs row 0: has no run_id"),
    "no group": ({"group": None}, f'run "{SORT}": has no group'),
    "an unknown side": ({"side": "left"}, f'run "{SORT}": side="left" must be "baseline" or "target"'),
    "a mixed side": (
        {"version": "v2"}, 'pair "sort 1": the target mixes version "v2" and "v1"; expected one',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), FLAWS.values(), ids=FLAWS)
def test_a_flawed_run_is_refused_or_left_out(change, message, tmp_path):
    others = small(without=(SORT,)).runs
    flawed = pd.DataFrame([run("sort 1", "target", 1) | change])
    tables = MatrixTables.from_rows(pd.concat([flawed, others], ignore_index=True))
    with pytest.raises(InputError) as error:
        read(tables, tmp_path)
    assert str(error.value) == message
    kept = read(tables, tmp_path, keep_going=True)
    assert [str(skipped) for skipped in kept.skipped] == [message]
    assert len(kept.tables.runs) == (6 if "mixes" in message else 11)


def test_repeated_runs_and_incomparable_sides_are_refused(tmp_path):
    tables = small()
    twice = pd.concat([tables.runs, tables.runs.tail(1)], ignore_index=True)
    with pytest.raises(InputError, match=f'^run "{tables.runs["run_id"].iloc[-1]}": occurs twice$'):
        read(MatrixTables(twice, tables.causes, tables.metrics), tmp_path)
    other = [row | {"machine": "n"} for row in pair("sort 1") if row["side"] == "target"]
    with pytest.raises(InputError) as error:
        read(small(*other), tmp_path)
    assert str(error.value) == (
        'pair "sort 1": baseline and target differ in version, machine; expected one field to compare by'
    )
    one = [row | {"machine": "n", "version": "v0"} for row in other]
    assert len(read(small(*one), tmp_path).tables.runs) == 12


def test_missing_sides_and_tables_without_runs_are_refused(tmp_path):
    alone = small(without=[f"sort 1 baseline {number}" for number in (1, 2, 3)])
    with pytest.raises(InputError, match=r'^pair "sort 1": has no run of the baseline$'):
        read(alone, tmp_path)
    with pytest.raises(InputError, match=r": holds no run$"):
        read(MatrixTables(small().runs.head(0), *(small().causes, small().metrics)), tmp_path)


def test_too_wide_or_truncated_files_are_refused_before_reading(tmp_path):
    path = tmp_path / "matrices.parquet"
    columns = {f"m{number}": pa.array([0.0]) for number in range(MOST_METRICS + 1)}
    pq.write_table(pa.table({"run_id": ["r"], **columns}), path, use_dictionary=False, write_statistics=False)
    with pytest.raises(InputError, match=f"has {MOST_METRICS + 1} metrics; expected {MOST_METRICS} at most"):
        MatrixTables.read(path)
    small().write(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="is not a readable Parquet file") as error:
        MatrixTables.read(tmp_path)
    assert "\n" not in str(error.value)


def test_errors_name_the_row_of_the_file(tmp_path):
    rows = small().runs
    rows.loc[1, "run_id"], rows.loc[4, "pair_id"] = "", ""
    kept = read(MatrixTables.from_rows(rows), tmp_path, keep_going=True)
    assert [str(skipped) for skipped in kept.skipped] == [
        "runs row 1: has no run_id", f'run "{rows["run_id"][4]}": has no pair_id',
    ]  # fmt: skip


def test_flags_of_a_wrong_type_are_ignored_when_judging(tmp_path):
    path = tmp_path / "runs.parquet"
    small().runs.astype({"valid": object}).assign(valid="yes").to_parquet(path)
    with pytest.raises(InputError, match=r'runs.parquet row 0: valid="yes" is not true or false$'):
        matrix_formats.read("tables", [path])
    assert matrix_formats.read_for_judging("tables", path).tables.runs["valid"].isna().all()


def test_units_are_read_from_a_neighbouring_file(tmp_path):
    small().runs.to_parquet(tmp_path / "runs.parquet")
    pd.DataFrame({"metric": ["faults"], "unit": ["1/s"]}).to_parquet(tmp_path / "metrics.parquet")
    known = MatrixTables.read(tmp_path / "runs.parquet").metrics.set_index("metric")
    assert known["unit"].to_dict() == {
        "faults": "1/s", "switches": "", "summary_elapsed": "", "summary_transactions": "",
    }  # fmt: skip


def test_an_error_names_only_a_few_of_thousands(tmp_path):
    path = tmp_path / "runs.parquet"
    pd.DataFrame({f"m{number}": [1.0] for number in range(3000)}).to_parquet(path)
    with pytest.raises(InputError, match=r"has no column 'run_id'; found m0, .*, m7 and 2992 more$"):
        MatrixTables.read(path)
    groups = [row | {"group": f"g{number}"} for number in range(30) for row in pair(f"new {number}")]
    notes = match_metrics(small(*groups), small().metrics, {"sorting", "pipes"}, 0.5).notes
    assert (len(notes), notes[-1]) == (6, "... and 25 more are unknown groups")


INVALID = {
    "a negative rate": ({"faults": -3.0}, "0 or more", "faults=-3 must be 0 or more"),
    "an infinite rate": ({"switches": np.inf}, "finite", "switches=inf must be finite"),
    "no time": ({"summary_elapsed": 0.0}, "above 0", "summary_elapsed=0 must be above 0"),
    "too large": (
        {"switches": -1e308}, "1e+100 at most in size", "switches=-1e+308 must be 1e+100 at most in size",
    ),
    "no number": ({"summary_elapsed": np.nan}, "measured", "summary_elapsed=nan must be measured"),
    "more than all": ({"summary_cpu": 140.0}, "100 % at most", "summary_cpu=140 must be 100 % at most"),
    "nothing measured": (
        {"faults": np.nan, "switches": np.nan}, "measured", "lacks 100% of the raw metrics",
    ),
    "another count": (
        {"summary_transactions": 28.0}, "same transaction count",
        "summary_transactions=28, where 30 is usual for this workload",
    ),
}  # fmt: skip
METRICS = [
    {"metric": "summary_cpu", "unit": "%", "signed": False},
    {"metric": "faults", "unit": "1/s", "signed": False},
]


@pytest.mark.parametrize(("values", "rule", "reason"), INVALID.values(), ids=INVALID)
def test_runs_with_impossible_values_are_invalid_by_rule(values, rule, reason):
    rows = [row | {"summary_cpu": 50.0} for row in (*pair("sort 1"), *pair("pipe 1"))]
    tables = small(*rows, rows[3] | values, metrics=METRICS)
    decided = decide_validity(tables, 0.5)
    out = decided.runs[~decided.runs["kept"]]
    assert out[["run_id", "rule", "reason"]].to_numpy().tolist() == [[SORT, rule, reason]]
    assert decided.pairs["kept"].all()
    assert len(decided.select_kept(tables).runs) == 11


def broken_rules(tables, missing):
    """Return for each run the rule that a model refuses it by; empty where none."""
    return first_broken(tables, missing, tables.raw_metrics, [])[0]


def test_runs_of_pairs_without_elapsed_time_are_valid():
    never = small(*(row | {"summary_elapsed": np.nan} for row in pair("sort 1")))
    assert not any(broken_rules(never, 0.5))
    untimed = MatrixTables.from_rows(small().runs.drop(columns=["summary_elapsed", "summary_transactions"]))
    assert decide_validity(untimed, 0.5).runs["kept"].all()


def test_missing_metrics_are_counted_against_those_of_the_model():
    nothing = [row | {"faults": np.nan, "switches": np.nan} for row in pair("sort 1")]
    for others in ([], [row | {"faults": np.nan, "switches": np.nan} for row in pair("pipe 1")[:4]]):
        tables = small(*nothing, *others)
        _, reasons = first_broken(tables, 0.5, tables.raw_metrics, [])
        sorts = tables.runs["run_id"].str.startswith("sort")
        assert set(pd.Series(reasons)[sorts]) == {"lacks 100% of the raw metrics"}
    gaps = [row | {"summary_elapsed": 1.0, "summary_cpu": np.nan} for row in pair("sort 1")[:1]]
    cpu = [row | {"summary_cpu": 9.0} for row in pair("pipe 1")]
    assert not any(broken_rules(small(*gaps, *cpu), 0.2))


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
    negative = [row | {"faults": -row["faults"]} for row in (*pair("sort 1"), *pair("pipe 1"))]
    assert decide_validity(small(*negative), 0.5).runs["kept"].all()
    known = [{"metric": "faults", "unit": "", "signed": False}]
    with pytest.raises(
        InputError, match=r'^pairs: none can be judged; the first, "sort 1", has 0 valid of 3'
    ):
        decide_validity(small(*negative, metrics=known), 0.5)


def test_uninformative_metrics_are_left_out_with_a_reason():
    rows = [
        row | {"same": 5.0, "never": np.nan, "seldom": 1.0 if number == 0 else np.nan}
        for number, row in enumerate((*pair("sort 1"), *pair("pipe 1")))
    ]
    decided = decide_validity(small(*rows), 0.5)
    assert decided.metrics[~decided.metrics["kept"]].set_index("metric")["reason"].to_dict() == {
        "same": "has the same value 5 in all runs",
        "never": "was measured in 0 of 12 runs",
        "seldom": "was measured in 1 of 12 runs",
        "summary_transactions": "has the same value 30 in all runs",
    }
    with pytest.raises(
        InputError, match=r'^metrics: no raw metric carries information; the first, "faults", has'
    ):
        decide_validity(small(*(row | {"faults": 1.0, "switches": 1.0} for row in rows)), 0.5)


def test_a_pair_with_one_baseline_run_is_excluded(tmp_path):
    one = small(without=["sort 1 baseline 2", "sort 1 baseline 3"])
    decided = decide_validity(one, 0.5)
    assert decided.pairs.to_numpy().tolist() == [
        ["sort 1", False, "has 1 valid of 1 baseline run; expected at least 2"], ["pipe 1", True, ""],
    ]  # fmt: skip
    assert decided.select_kept(one).runs["pair_id"].unique().tolist() == ["pipe 1"]
    decided.write(tmp_path)
    for name in ("runs", "pairs", "metrics", "warnings"):
        assert getattr(MatrixDecisions.read(tmp_path), name).equals(getattr(decided, name))


def test_a_change_of_unit_is_a_warning():
    exact = [row | {"faults": 108_000.0 + number} for number, row in enumerate(pair("sort 1")) if number >= 3]
    assert decide_validity(small(), 0.5).warnings.empty
    assert decide_validity(small(*exact), 0.5).warnings["warning"].iloc[0] == (
        'pair "sort 1": faults is 1000.04 times its baseline; is it in another unit?'
    )


def test_matrices_are_reduced_to_metrics_of_the_model():
    known = small(metrics=METRICS[1:]).metrics
    tables = small()
    shuffled = MatrixTables.from_rows(tables.runs[[*reversed(tables.runs.columns)]])
    same = match_metrics(shuffled, known, {"sorting", "pipes"}, 0.5)
    assert same.notes == ()
    assert same.tables.runs.equals(tables.runs)

    renamed = MatrixTables.from_rows(tables.runs.rename(columns={"switches": "switchs"}).assign(new=1.0))
    found = match_metrics(renamed, known, {"sorting"}, 0.5)
    assert found.notes == (
        'metric "switches" is missing; it is taken as not measured; was it renamed "switchs"?',
        'metric "switchs" is unknown to the model; it is not used',
        'metric "new" is unknown to the model; it is not used',
        'group "pipes" is unknown to the model; the classifier for all groups is used',
    )
    assert found.tables.all_metrics == tables.all_metrics
    assert found.tables.runs["switches"].isna().all()

    per_ms = MatrixTables.from_rows(tables.runs, None, [{"metric": "faults", "unit": "1/ms"}])
    found = match_metrics(per_ms, known, {"sorting", "pipes"}, 0.5)
    assert found.notes == ('metric "faults" comes in 1/ms, expected 1/s; it is taken as not measured',)
    assert found.tables.runs["faults"].isna().all()
    with pytest.raises(InputError) as error:
        match_metrics(
            MatrixTables.from_rows(tables.runs.drop(columns=["faults", "switches"])), known, set(), 0.5
        )
    assert str(error.value) == (
        'runs: 2 of the 2 raw metrics of the model are missing, such as "faults"; expected 50% of them'
    )


def test_sources_with_one_metric_in_two_units_cannot_be_joined():
    parts = [
        MatrixTables.from_rows(small().runs, None, [{"metric": "faults", "unit": unit}])
        for unit in ("s", "ms")
    ]
    with pytest.raises(InputError, match=r'^metric "faults": comes in the units "s" and "ms"; expected one$'):
        MatrixTables.join_tables(parts)


CHOICES = {
    "one workload": ({"include": ["sort"]}, ["sort 1"]),
    "all but one": ({"exclude": ["s*"]}, ["pipe 1"]),
    "both": ({"include": ["*"], "exclude": ["pipe"]}, ["sort 1"]),
}


@pytest.mark.parametrize(("how", "pairs"), CHOICES.values(), ids=CHOICES)
def test_patterns_select_the_workloads_to_use(how, pairs):
    assert Choice(**how).select_pairs(small()).runs["pair_id"].unique().tolist() == pairs


def test_excluding_either_workload_excludes_a_mixed_pair():
    other = [row | {"workload": "heap", "version": "v0"} for row in pair("sort 1") if row["side"] == "target"]
    for pattern in ("heap", "sort"):
        assert Choice(exclude=[pattern]).select_pairs(small(*other)).runs["pair_id"].unique().tolist() == [
            "pipe 1"
        ]
    with pytest.raises(InputError, match=r'^"x" matches no workload; there are "sort", "pipe"$'):
        Choice(include=["x"]).select_pairs(small())
    with pytest.raises(InputError, match=r"^no workload is left"):
        Choice(include=["sort"], exclude=["sort"]).select_pairs(small())


def test_importing_matrices_prints_the_imported_counts(tmp_path, capsys):
    small().write(tmp_path / "in")
    assert (
        import_sources(
            "tables", [tmp_path / "in"], tmp_path / "out", keep_going=False, as_json=False, options={}
        )
        == 0
    )
    assert capsys.readouterr().out == (
        "2 groups, 2 workloads, 2 pairs, 12 runs, 2 raw_metrics, 2 summary_metrics, 0 skipped -> "
        f"{tmp_path / 'out'}\n"
    )
    assert MatrixTables.read(tmp_path / "out").runs.equals(small().runs)


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
    words = [name for name in tables.all_metrics if name not in {"summary_elapsed", "summary_transactions"}]
    assert all("synthetic" in name for name in [*words, *runs["run_id"].head()])
    assert synthetic_matrices.generate(3_000).runs.equals(synthetic_matrices.generate(3_000).runs)


@pytest.mark.skipif(
    not (SHIPPED / "matrices.parquet").exists(), reason="the measurement is not at data/raw/matrices"
)
def test_shipped_measurement_has_the_documented_size_and_variety():
    tables = MatrixTables.read(SHIPPED)
    runs, valid = tables.runs, tables.runs["valid"].to_numpy(bool)
    assert len(runs) >= 8000
    assert runs.loc[valid, "summary_elapsed"].median() >= 0.15
    numbers = runs.loc[valid, tables.raw_metrics]
    assert (numbers.max() > numbers.min()).sum() >= 200
    cases = runs.groupby("group")["workload"].nunique()
    assert (len(cases) >= 25, cases.min() >= 3, cases.sum() >= 400) == (True, True, True)
    sizes = tables.causes["cause_size"]
    assert (sizes.min(), sizes.max()) == (0.03, 0.6)
    assert runs[valid].groupby(["pair_id", "side"]).size().min() >= 3
    assert runs.loc[valid, "abnormal"].mean() == pytest.approx(0.035, abs=0.002)
    invalid = tables.causes.loc[tables.causes["invalid_kind"] != "", ["run_id", "invalid_kind"]]
    assert set(invalid["run_id"]) == set(runs.loc[~valid, "run_id"])
    assert len(invalid) / len(runs) == pytest.approx(0.09, abs=0.005)
    assert set(invalid["invalid_kind"]) == set(INVALID_KINDS)
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 15_000_000


@pytest.mark.skipif(
    not (SHIPPED / "matrices.parquet").exists(), reason="the measurement is not at data/raw/matrices"
)
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


@needs("dbsherlock")
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


@needs("petshop")
def test_petshop_keeps_gaps_and_no_row_is_in_two_pairs():
    tables = matrix_formats.read("petshop", [PUBLIC / "petshop"]).tables
    runs = tables.runs
    assert set(runs["group"]) == {"high_traffic", "low_traffic"}
    targets = runs[runs["side"] == "target"].groupby("workload")["abnormal"].agg(["size", "first"])
    assert set(targets["size"]) == {5}
    assert targets["first"].sum() == 52
    assert (~targets["first"].astype(bool)).sum() == 58
    normal = runs.loc[~runs["abnormal"], tables.all_metrics]
    assert not normal.dropna(axis="columns", thresh=400).duplicated().any()
    assert 0.05 < normal.isna().to_numpy().mean() < 0.3
    assert "PetSite/latency/Average" in tables.raw_metrics
    assert "PetSearch_AWS::ECS::Fargate" in set(tables.causes["cause"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (petshop.read_tables, r": holds no traffic pattern; expected \*/noissue/metrics.csv$"),
        (dbsherlock.read_tables, r": holds no \.parquet file$"),
        (lambda path: dbsherlock.read_tables(path / "x.parquet"), r"has no column 'cause'; found run$"),
    ],
)
def test_missing_files_of_public_formats_are_named(make, message, tmp_path):
    if "has no column" in message:
        pd.DataFrame({"run": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=message):
        make(tmp_path)
