import numpy as np
import pandas as pd
import pytest

from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from tests.matrix_pairs import METRICS, MOVED, pairs
from training.matrices.engine.engine import Engine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.shape import pair_causes, split_by_causes
from training.matrices.fitting import MatrixExamples, parts_of_causes
from training.matrices.schemes import FULL, Cell

SEED = 1
KINDS = 4


def of_kinds(tables):
    """Let each test case's defect move other metrics, and name it after them."""
    runs = tables.runs.copy()
    number = kind_of(tables)
    names = [f"m{place}" for place in range(METRICS)]
    for kind in range(KINDS):
        rows = number == kind
        runs.loc[rows, names] = np.roll(runs.loc[rows, names].to_numpy(), kind * len(MOVED), axis=1)
    bad = runs["abnormal"].fillna(value=False).astype(bool)
    told = pd.DataFrame({"run_id": runs["run_id"], "cause": "kind " + number.astype(str)})[bad]
    return MatrixTables.from_rows(runs, told.to_dict("records"), tables.metrics.to_dict("records"))


def kind_of(tables):
    return tables.runs["workload"].str.extract(r"c(\d+)$", expand=False).astype(int) % KINDS


def without_causes(tables):
    return MatrixTables(tables.runs, tables.causes.iloc[:0], tables.metrics)


@pytest.fixture(scope="module")
def tables():
    return of_kinds(pairs(groups=2, cases=12, size=0.1))


def test_test_pairs_share_no_cause_or_test_case_with_training():
    draw = np.random.default_rng(SEED)
    workload = draw.integers(0, 30, 600).astype(str).astype(object)
    abnormal = draw.random(600) < 0.4
    cause = np.where(abnormal & (draw.random(600) < 0.9), draw.integers(0, 7, 600).astype(str), "")
    part = np.unique(workload, return_inverse=True)[1] % 3
    found = split_by_causes(workload, cause, abnormal, part, SEED)
    assert len(found) == 3
    for train, test in found:
        assert not set(workload[train]) & set(workload[test])
        assert not set(cause[train & abnormal]) & set(cause[test & abnormal]) - {""}
        assert (cause[test & abnormal] != "").all()
    assert sum(test[~abnormal] for _, test in found).tolist() == [1] * (~abnormal).sum()


def test_test_cases_of_a_single_cause_follow_that_cause(tables):
    def parts(tables, folds):
        return parts_of_causes(
            MatrixExamples.from_tables(tables, decide_validity(tables, 0.5), ""), folds, SEED
        )

    cause, asked = pd.Series(pair_causes(tables)), []
    for part in parts(tables, KINDS):
        learned, unseen = (set(runs["pair_id"]) for runs in (part.train.runs, part.test.runs))
        asked += unseen
        assert not set(part.train.runs["workload"]) & set(part.test.runs["workload"])
        assert not set(cause[cause.index.isin(learned)]) & set(cause[cause.index.isin(unseen)])
    assert sorted(asked) == sorted(tables.runs["pair_id"].unique())
    assert parts(without_causes(tables), 3) == []


def test_thresholds_from_held_out_causes_find_unknown_causes(tables):
    last = (kind_of(tables) == KINDS - 1).to_numpy()
    learned, unseen = tables.select_runs(~last), tables.select_runs(last)
    knowing, other = (
        Engine(Cell("xgboost", FULL), 1, SEED).fit(known) for known in (learned, without_causes(learned))
    )
    assert knowing.search_result.rows == other.search_result.rows
    assert knowing.search_result.pairs != other.search_result.pairs
    judged = knowing.judge_pairs(unseen)
    abnormal, told = judged["pair_id"].isin(pair_causes(unseen)), judged["abnormal"].astype(bool)
    assert told[abnormal].mean() > 0.9
    assert told[~abnormal].mean() < 0.1


def test_the_false_positive_rate_holds_on_unknown_test_cases():
    # defects that can hardly be told: the best threshold alone calls many normal pairs abnormal
    learned, unseen = (pairs(groups=2, cases=12, size=0.02, seed=seed) for seed in (1, 2))
    engines = [
        Engine(Cell("logistic", FULL), 1, SEED, alarms=alarms).fit(learned)
        for alarms in (None, Alarms(0.1, 0.9))
    ]
    normal = ~unseen.runs.groupby("pair_id", sort=False)["abnormal"].any().astype(bool)
    free, kept = (
        (one.judge_pairs(unseen).set_index("pair_id")["abnormal"] & normal).sum() / normal.sum()
        for one in engines
    )
    assert engines[0].search_result.alarms is None
    assert engines[1].threshold >= engines[1].search_result.alarms.cut
    assert kept <= 0.1 < free
