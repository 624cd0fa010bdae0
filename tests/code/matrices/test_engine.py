from dataclasses import replace

import numpy as np
import pytest

from data.errors import InputError
from data.matrices.tables import MatrixTables
from tests.matrix_pairs import MOVED, of_groups, pairs
from training.matrices.engine.engine import FULL, LARGE, NAIVE, Engine, Scheme
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases, resample_rows
from training.matrices.engine.models import CATALOGUE
from training.matrices.engine.search import PARTS, split_in_thirds
from training.matrices.engine.shape import make_test_rows

SEED = 1


def accuracy(judged, tables):
    runs = tables.runs[tables.runs["side"] == "target"]
    truth = runs.groupby("pair_id")["abnormal"].any().reindex(judged["pair_id"]).to_numpy(bool)
    told = judged["abnormal"].to_numpy()
    return (told[truth].mean() + (~told[~truth]).mean()) / 2


@pytest.fixture(scope="module")
def tables():
    return pairs()


@pytest.fixture(scope="module")
def fitted(tables):
    return Engine(FULL, "extra-trees", 3, SEED).fit(tables)


def versions(tables, numbers):
    chosen = tables.runs["pair_id"].str.extract(r" v(\d+)$", expand=False).astype(int).isin(numbers)
    return tables.select_runs(chosen.to_numpy())


@pytest.mark.parametrize("model", CATALOGUE)
def test_every_model_recognises_unknown_abnormal_pairs(model, tables):
    learned, unseen, scheme = tables, pairs(seed=2), FULL
    if (
        model == "similarity-logistic"
    ):  # knows levels, not differences: those of its own test cases and groups
        of_all, scheme = pairs(versions=9), LARGE
        learned, unseen = versions(of_all, range(6)), versions(of_all, range(6, 9))
    judged = Engine(scheme, model, 3, SEED).fit(learned).judge_pairs(unseen)
    assert accuracy(judged, unseen) > 0.9
    assert judged["probability"].between(0, 1).all()
    assert ((judged["probability"] >= judged["threshold"]) == judged["abnormal"]).all()


@pytest.mark.parametrize("form", ["flattened", "concatenated", "subtracted"])
def test_every_form_answers_for_pairs_and_for_vectors(form, tables):
    scheme = Scheme("raw", form, prune=True, grouping="given", components=6, balance=True)
    fitted = Engine(scheme, "decision-tree", 2, SEED).fit(tables)
    assert fitted.judge_pairs(tables)["pair_id"].tolist() == tables.runs["pair_id"].drop_duplicates().tolist()
    vectors = fitted.judge_vectors(tables)
    assert len(vectors) == len(tables.runs) // (1 if form == "flattened" else 2)


@pytest.mark.parametrize(
    ("scheme", "model"),
    [
        (FULL, "knn"),
        (replace(FULL, components=None), "logistic"),
        (replace(FULL, tuned=False), "decision-tree"),
        (replace(NAIVE, form="concatenated"), "logistic"),
    ],
)
def test_shared_prepared_cases_give_the_same_answers(scheme, model, tables):
    engine, unseen = Engine(scheme, model, 2, SEED), pairs(seed=2)
    shaped = engine.row_settings.make_rows(tables)
    prepared = engine.prepare_cases(shaped)
    fitted = engine.fit_prepared(prepared)
    rows = make_test_rows(shaped.form, shaped.scales, shaped.grouping, unseen)
    judged, vectors = fitted.judge_cases(unseen, prepared.make_test_cases(rows))
    assert judged.equals(fitted.judge_pairs(unseen))
    assert vectors.equals(fitted.judge_vectors(unseen))


def test_answers_are_deterministic_and_independent_of_the_batch(tables, fitted):
    judged = fitted.judge_pairs(tables)
    again = Engine(FULL, "extra-trees", 3, SEED).fit(tables).judge_pairs(tables)
    assert judged.equals(again)
    alone = fitted.judge_pairs(
        tables.select_runs((tables.runs["pair_id"] == judged["pair_id"][4]).to_numpy())
    )
    assert alone["probability"][0] == judged["probability"][4]


def test_attributions_are_the_changed_metrics_with_their_values(tables, fitted):
    judged = fitted.judge_pairs(tables)
    worst = judged["pair_id"][judged["probability"].argmax()]
    (drivers,) = (one.attributions for one in fitted.explain_pairs(tables, 3) if one.pair_id == worst)
    assert {driver.metric for driver in drivers} == set(MOVED)
    assert all(driver.contribution > 0 for driver in drivers)
    runs = tables.runs[(tables.runs["pair_id"] == worst)]
    for driver in drivers:
        middles = runs.groupby("side")[driver.metric].median()
        assert (driver.baseline, driver.target) == pytest.approx((middles["baseline"], middles["target"]))


def test_small_or_unknown_groups_use_the_model_of_all_groups(tables):
    runs = tables.runs
    quiet = runs.assign(abnormal=runs["abnormal"].mask(runs["group"] == "g1", False))
    scheme = Scheme("raw", "flattened", prune=True, grouping="given", components=None, balance=False)
    fitted = Engine(scheme, "logistic", 0, SEED).fit(MatrixTables(quiet, tables.causes, tables.metrics))
    renamed = of_groups(tables, "g0").runs.assign(group="new")
    asked = MatrixTables.join_tables([tables, MatrixTables.from_rows(renamed.assign(
        run_id="n " + renamed["run_id"], pair_id="n " + renamed["pair_id"]
    ))])  # fmt: skip
    used = fitted.judge_pairs(asked).groupby("group")["group_used"].unique().map(list)
    assert used.to_dict() == {"g0": ["g0"], "g1": ["fallback"], "new": ["fallback"]}


def test_automatic_groups_join_test_cases_with_similar_noise():
    alike = pairs(groups=2, cases=9, versions=6)
    one = Grouping.from_tables("automatic", alike, alike.raw_metrics, SEED).assign_groups(alike).runs["group"]
    assert one.nunique() == 1
    # the second group of test cases is noisier from pair to pair
    runs, draw = alike.runs, np.random.default_rng(SEED)
    matrix = runs.groupby(["pair_id", "side"]).ngroup()
    noisy = np.where(runs["group"] == "g1", np.exp(draw.normal(0, 0.5, matrix.max() + 1))[matrix], 1.0)
    many = alike.with_runs(runs.assign(**{name: runs[name] * noisy for name in ("m6", "m7", "m8")}))
    grouped = (
        Grouping.from_tables("automatic", many, many.raw_metrics, SEED).assign_groups(many).runs["group"]
    )
    together = grouped.groupby(many.runs["group"]).agg(set)
    assert not together["g0"] & together["g1"]


def test_pruning_protects_training_from_invalid_runs():
    polluted, unseen = pairs(cases=8, invalid=0.15), pairs(cases=8, seed=2)
    clean = polluted.select_runs(polluted.runs["valid"].to_numpy(bool))
    scheme = Scheme("raw", "subtracted", prune=False, grouping="none", components=None, balance=False)
    keeping, pruning = (
        Engine(replace(scheme, prune=prune), "logistic", 0, SEED).fit(polluted) for prune in (False, True)
    )
    from_clean = Engine(replace(scheme, prune=True), "logistic", 0, SEED).fit(clean)
    assert pruning.judge_pairs(unseen).equals(from_clean.judge_pairs(unseen))
    assert accuracy(keeping.judge_pairs(unseen), unseen) < accuracy(pruning.judge_pairs(unseen), unseen) - 0.1


def test_the_naive_engine_uses_summary_metrics_without_groups(tables):
    fitted = Engine(NAIVE, "decision-tree", 5, SEED).fit(tables)
    assert fitted.metrics == tuple(tables.summary_metrics)
    assert fitted.threshold == 0.5
    assert set(fitted.judge_pairs(tables)["group_used"]) == {"all"}


def test_tables_without_enough_to_learn_are_refused(tables):
    normal = tables.select_runs((~tables.runs["abnormal"].astype(bool)).to_numpy())
    with pytest.raises(InputError, match="all training rows are normal; expected normal and abnormal ones"):
        Engine(FULL, "knn", 1, SEED).fit(normal)
    with pytest.raises(InputError, match='model="trees"'):
        Engine(FULL, "trees", 1, SEED).fit(tables)


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
