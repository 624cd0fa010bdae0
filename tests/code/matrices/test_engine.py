from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.metrics import balanced_accuracy_score

from data.errors import InputError
from tests.matrix_pairs import pairs
from training.matrices.engine.engine import Engine
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases, resample_rows
from training.matrices.engine.models import CATALOGUE
from training.matrices.engine.search import PARTS, split_in_thirds
from training.matrices.engine.shape import make_test_rows
from training.matrices.engine.validity_tree import ValidityTree, run_deviations
from training.matrices.schemes import BLENDS, FULL, JOINED, LARGE, NAIVE, Cell, Scheme
from training.matrices.schemes import PLAIN as MEDIANS

SEED = 1
PLAIN = Scheme("raw", "flattened", prune=True, grouping="given", components=6, balance=True)


def accuracy(judged, tables):
    truth = tables.runs[tables.runs["side"] == "target"].groupby("pair_id")["abnormal"].any()
    return balanced_accuracy_score(truth[judged["pair_id"]].astype(bool), judged["abnormal"].astype(bool))


@pytest.fixture(scope="module")
def tables():
    return pairs()


def fitted_to(tables, scheme, model="logistic", trials=0):
    return Engine(Cell(model, scheme), trials, SEED).fit(tables)


@pytest.mark.parametrize("model", CATALOGUE)
def test_every_model_recognises_unknown_abnormal_pairs(model, tables):
    learned, unseen, scheme = tables, pairs(seed=2), JOINED if model in BLENDS else FULL
    # knows levels, not differences: those of its own test cases and groups
    if model == "similarity-logistic":
        of_all, scheme = pairs(versions=9), LARGE
        is_known = of_all.runs["pair_id"].str[-1].astype(int).to_numpy() < 6
        learned, unseen = of_all.select_runs(is_known), of_all.select_runs(~is_known)
    # trees are the slowest
    trials = 1 if model.endswith(("forest", "tree", "trees")) else 3
    judged = fitted_to(learned, scheme, model, trials).judge_pairs(unseen)
    assert accuracy(judged, unseen) > 0.9
    assert judged["probability"].between(0, 1).all()
    assert ((judged["probability"] >= judged["threshold"]) == judged["abnormal"]).all()


@pytest.mark.parametrize(
    ("scheme", "model"),
    [
        (FULL, "knn"),
        (replace(FULL, components=None), "logistic"),
        (replace(NAIVE, form="concatenated"), "logistic"),
        (MEDIANS, "extra-trees"),
        (JOINED, "xgboost-blend"),
    ],
)
def test_engines_fitted_again_or_to_prepared_cases_answer_alike(scheme, model, tables):
    engine, unseen = Engine(Cell(model, scheme), 1, SEED), pairs(seed=2)
    shaped = engine.row_settings.make_rows(tables)
    fitted = engine.fit_prepared(shaped, *engine.prepare_cases(shaped))
    rows = make_test_rows(shaped.form, shaped.scales, shaped.grouping, unseen)
    judged, vectors = fitted.judge_pairs_and_vectors(unseen, rows)
    alone = engine.fit(tables).judge_pairs_and_vectors(unseen)
    assert judged.equals(alone[0])
    assert vectors.equals(alone[1])


def test_small_or_unknown_groups_use_the_model_of_all_groups(tables):
    runs = tables.runs
    quiet = runs.assign(abnormal=runs["abnormal"].mask(runs["group"] == "g1", False))
    fitted = fitted_to(tables.with_runs(quiet), replace(PLAIN, components=None, balance=False))
    asked = tables.with_runs(runs.assign(group=runs["group"].mask(runs["workload"] == "g0 c0", "new")))
    used = fitted.judge_pairs(asked).groupby("group")["group_used"].unique().map(list)
    assert used.to_dict() == {"g0": ["g0"], "g1": ["fallback"], "new": ["fallback"]}


def test_automatic_groups_join_test_cases_with_similar_noise():
    def grouped(tables):
        grouping = Grouping.from_tables("automatic", tables, tables.raw_metrics, SEED)
        return grouping.assign_groups(tables).runs["group"]

    alike = pairs(cases=9)
    assert len(set(grouped(alike))) == 1
    # the second group of test cases is noisier from pair to pair
    runs, draw = alike.runs, np.random.default_rng(SEED)
    matrix = runs.groupby(["pair_id", "side"]).ngroup()
    noisy = np.where(runs["group"] == "g1", np.exp(draw.normal(0, 0.5, matrix.max() + 1))[matrix], 1.0)
    many = alike.with_runs(runs.assign(**{name: runs[name] * noisy for name in ("m6", "m7", "m8")}))
    together = grouped(many).groupby(many.runs["group"]).agg(set)
    assert not together["g0"] & together["g1"]


def test_pruning_protects_training_from_invalid_runs():
    polluted, unseen = pairs(cases=8, invalid=0.15), pairs(cases=8, seed=2)
    clean = polluted.select_runs(polluted.runs["valid"].to_numpy(bool))
    scheme = replace(PLAIN, form="subtracted", grouping="none", components=None, balance=False)
    pruning, keeping, from_clean = (
        fitted_to(learned, replace(scheme, prune=prune)).judge_pairs(unseen)
        for learned, prune in ((polluted, True), (polluted, False), (clean, True))
    )
    assert pruning.equals(from_clean)
    assert accuracy(keeping, unseen) < accuracy(pruning, unseen) - 0.1


def test_the_naive_engine_uses_summary_metrics_without_groups(tables):
    fitted = fitted_to(tables, NAIVE, "decision-tree", 5)
    assert (fitted.metrics, fitted.threshold) == (tuple(tables.summary_metrics), 0.5)
    assert set(fitted.judge_pairs(tables)["group_used"]) == {"all"}


def test_tables_without_enough_to_learn_are_refused(tables):
    normal = tables.select_runs((~tables.runs["abnormal"].astype(bool)).to_numpy())
    for learned, model, told in (
        (normal, "knn", "all training rows are normal; expected normal and abnormal ones"),
        (tables, "trees", 'model="trees"'),
        (tables, "xgboost-blend", '"xgboost-blend" needs the form "joined" and no principal comp'),
    ):
        with pytest.raises(InputError, match=told):
            fitted_to(learned, FULL, model)


def test_thirds_keep_test_cases_whole_and_share_abnormal_ones():
    draw = np.random.default_rng(SEED)
    workload = np.repeat(np.arange(30), 8).astype(object)
    y = ((np.arange(240) % 8 == 0) & (workload < 15)).astype(np.int64)
    cases = Cases(
        draw.normal(size=(240, 2)), None, y, np.arange(240), workload, workload, workload % 3, y >= 0, 1, 2
    )
    found = split_in_thirds(cases, SEED)
    assert all(len(set(found[workload == case])) == 1 for case in range(30))
    assert np.bincount(found, y).tolist() == [5, 5, 5]
    assert np.bincount(found).tolist() == [80, 80, 80]
    assert len(set(found)) == PARTS


def test_resampling_reaches_exactly_the_requested_rate():
    y = np.array([1] * 10 + [0] * 90)
    for sampler, counts in (("none", (90, 10)), ("under", (20, 10)), ("over", (90, 45))):
        rows = resample_rows(y, sampler, 0.5, SEED)
        assert tuple(np.bincount(y[rows])) == counts
        assert set(np.flatnonzero(y)) <= set(rows)
    assert len(resample_rows(y, "over", 0.1, SEED)) == 100


def moved_back(fitted, tables, metrics):
    """The tables with the targets moved so that the medians of these metrics are the baselines'."""
    runs = tables.runs.copy()
    for metric in metrics:
        unit = fitted.scales.units[fitted.metrics.index(metric)]
        scaled = np.arcsinh(runs[metric] / unit)
        middles = scaled.groupby([runs["pair_id"], runs["side"]]).median().unstack("side")
        by = (middles["target"] - middles["baseline"]).reindex(runs["pair_id"]).to_numpy()
        runs[metric] = np.sinh(scaled - by * (runs["side"] == "target").to_numpy()) * unit
    return tables.with_runs(runs)


def log_odds(fitted, tables):
    return logit(fitted.judge_pairs(tables).set_index("pair_id")["probability"])


@pytest.mark.parametrize(
    ("scheme", "model"),
    [
        *((FULL, model) for model in ("logistic", "knn", "decision-tree")),
        (PLAIN, "logistic"),
        (replace(PLAIN, form="concatenated", grouping="none"), "logistic"),
        (MEDIANS, "random-forest"),
        (JOINED, "xgboost-blend"),
    ],
)
def test_contributions_equal_the_change_without_the_differences(scheme, model, tables):
    fitted, asked = fitted_to(tables, scheme, model), pairs(cases=2, versions=3, seed=2)
    before = log_odds(fitted, asked)
    for told in fitted.explain_pairs(asked, 3):
        one = asked.select_runs((asked.runs["pair_id"] == told.pair_id).to_numpy(bool))
        without = moved_back(fitted, one, [driver.metric for driver in told.attributions])
        after = log_odds(fitted, without)[told.pair_id]
        changed = sum(driver.contribution for driver in told.attributions)
        assert before[told.pair_id] - after == pytest.approx(changed, abs=1e-6)
        if told.abnormal and scheme == FULL:
            assert after < logit(told.threshold)


@pytest.mark.parametrize(
    ("scheme", "model"),
    [(JOINED, "xgboost-blend"), *((MEDIANS, model) for model in ("logistic", "random-forest", "xgboost"))],
)
def test_any_finite_value_gets_a_finite_answer(scheme, model, tables):
    fitted, asked = fitted_to(tables, scheme, model), pairs(cases=2, versions=3, seed=2)
    for side, value in product(("baseline", "target"), (-1e100, 1e300)):
        values = asked.runs["m1"].mask(asked.runs["side"] == side, value)
        for told in fitted.explain_pairs(asked.with_runs(asked.runs.assign(m1=values)), 3):
            assert 0 <= told.probability <= 1
            assert np.isfinite([driver.contribution for driver in told.attributions]).all()


def test_invalid_runs_of_unknown_test_cases_have_a_tree_path():
    tree = ValidityTree.fit(pairs(cases=8, invalid=0.1), 1)
    asked = pairs(cases=8, invalid=0.1, seed=2)
    paths = pd.Series(tree.decision_paths(asked))
    invalid = ~asked.runs["valid"].to_numpy(bool)
    assert paths[invalid].notna().mean() > 0.9
    assert paths[~invalid].notna().mean() < 0.02
    assert paths.dropna().str.contains(r"m\d+=\S+(?: > |, usually )").all()
    # a target that differs as a whole is valid, as is all without invalid training runs
    assert not any(tree.decision_paths(pairs(size=3.0)))
    assert not any(ValidityTree.fit(pairs(cases=2), 1).decision_paths(asked))


def compared_with_all(runs, scaled):
    """The deviation of each run from all others of its pair, one by one."""
    deviation, pairs = np.zeros(scaled.shape), runs["pair_id"].to_numpy()
    matrices = pairs + runs["side"].to_numpy()
    for row, metric in np.ndindex(scaled.shape):
        pair, own, typical = pairs == pairs[row], matrices == matrices[row], []
        for others in (own & (np.arange(len(runs)) != row), pair & ~own):
            apart = scaled[row, metric] - scaled[others, metric]
            apart = sorted(apart[np.isfinite(apart)], key=abs)
            typical += apart[(len(apart) - 1) // 2 : (len(apart) + 1) // 2]
        deviation[row, metric] = min(typical, key=abs, default=0.0)
    return deviation


def test_every_run_of_small_matrices_is_compared():
    runs = pairs(groups=1, cases=3, versions=2, runs=5).runs
    scaled = np.random.default_rng(1).normal(size=(len(runs), 4))
    scaled[::7, 1] = np.nan
    for part in (slice(None), slice(1)):
        deviation, usual = run_deviations(runs[part], scaled[part])
        assert (deviation == compared_with_all(runs[part], scaled[part])).all()
        assert (usual == np.nan_to_num(scaled[part] - deviation)).all()


def test_large_matrices_are_represented_by_some_runs():
    runs = pairs(groups=1, cases=1, versions=1, runs=500).runs
    scaled = np.random.default_rng(1).normal(0, 0.1, (len(runs), 20))
    scaled[350] += 5
    deviation, usual = run_deviations(runs, scaled)
    assert np.abs(usual[350]).max() < 1
    assert deviation[350].min() > 4
    # of so many runs, nearly every one is near the median
    middle = pd.DataFrame(scaled).groupby(runs["side"].to_numpy()).transform("median").to_numpy()
    assert np.abs(np.abs(deviation) - np.abs(scaled - middle)).mean() < 0.05
