from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.storages.journal import JournalFileSymlinkLock
from sklearn.metrics import average_precision_score

from data.comparisons.params import Evaluate
from data.errors import InputError
from tests.families import MODELS, feature_table, interrupted, params, small_family
from training.comparisons.evaluate import FoldPredictions, tie_break
from training.comparisons.family import Examples, FeatureTable, all_parts, grouped_parts
from training.comparisons.stored import Card, TrainedModel
from training.comparisons.tune import SearchTask, log_of, run_search, tasks_of
from training.estimators.catalogue import (
    CATALOGUE,
    ClassCounts,
    InfeasibleError,
    OneOf,
    Real,
    Where,
    build_pipeline,
    fail_probability,
    space_of,
    suggest_params,
    without_sampler,
)
from training.evaluation.figures import scores_table
from training.evaluation.metrics import (
    average_precision,
    precision_by_recall,
    rank_models,
    score_verdicts,
    summarise_entry,
)
from training.evaluation.paired_bootstrap import BootstrapSettings, paired_difference
from training.evaluation.search import TrialLog
from training.evaluation.thresholds import best_cut


@pytest.fixture
def examples():
    table = feature_table()
    return Examples(
        table[["medians_min", "medians_med", "noise", "spread"]].to_numpy(),
        (table["status"] == "fail").to_numpy(np.int64),
        table["fold_group"].to_numpy(np.str_),
    )


@pytest.mark.parametrize(
    ("sampler", "rate", "passed", "failed"),
    [("under", 0.5, 40, 20), ("over", 0.5, 80, 40), ("smote", 1.0, 80, 80)],
)
def test_resampling_brings_the_classes_to_the_rate(sampler, rate, passed, failed):
    assert ClassCounts(80, 20).after_resampling(sampler, rate) == ClassCounts(passed, failed)


@pytest.mark.parametrize(
    ("counts", "sampler", "rate"),
    [
        (ClassCounts(80, 20), "over", 0.2),
        (ClassCounts(80, 20), "under", 0.25),
        (ClassCounts(80, 5), "smote", 0.5),
    ],
)
def test_samplers_without_effect_or_enough_fails_are_infeasible(counts, sampler, rate):
    with pytest.raises(InfeasibleError):
        counts.after_resampling(sampler, rate)


def test_cost_ratio_multiplies_the_balanced_class_weights():
    for counts in (ClassCounts(50, 50), ClassCounts(990, 10)):
        weights = counts.balancing_weights(3.0)
        assert weights[1] * counts.failed == pytest.approx(3 * weights[0] * counts.passed)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [*((name, "none") for name in CATALOGUE), *((MODELS[0], name) for name in ("under", "over", "smote"))],
)
def test_stored_models_use_trusted_types_and_answer_identically(examples, tmp_path, name, sampler):
    model = CATALOGUE[name]
    params = {**model.start, "sampler": sampler, "rate": 0.9}
    fitted = build_pipeline(model, params, examples.y, 3).fit(examples.x, examples.y)
    columns = ("a", "b", "c", "d")
    card = Card(name, columns, 0.5, params, dict.fromkeys(columns, 0.0), "d", 3)
    TrainedModel(without_sampler(fitted), card).write(tmp_path)
    after = TrainedModel.read(tmp_path)
    unseen = feature_table(seed=1)[["medians_min", "medians_med", "noise", "spread"]].to_numpy()
    assert after.card == card
    assert fail_probability(after.model, unseen).tolist() == fail_probability(fitted, unseen).tolist()


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_search_starts_with_the_thesis_configuration(name):
    model = CATALOGUE[name]
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial(model.start)
    assert suggest_params(space_of(model), study.ask()) == model.start


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [("none", {"sampler": "none", "trees": 9}), ("over", {"sampler": "over", "rate": 0.5, "trees": 9})],
)
def test_conditional_parameters_are_suggested_only_if_needed(chosen, asked):
    rate = Real(0.1, 1.0, condition=Where("sampler", ("over",)))
    space = {"sampler": OneOf(("none", "over")), "rate": rate, "trees": 9}
    trial = optuna.trial.FixedTrial({"sampler": chosen, "rate": 0.5})
    assert suggest_params(space, trial) == asked


def test_no_operation_is_in_training_and_test_at_once(examples):
    for part in grouped_parts(examples, Evaluate(n_grouped_folds=3), 1):
        assert not set(examples.groups[part.train]) & set(examples.groups[part.test])


def test_every_comparison_is_tested_once_per_repeated_split(examples):
    divided = all_parts(examples, Evaluate(n_folds=4, n_repeats=2, n_grouped_folds=3), 1)
    for split, repeats in (("grouped", 1), ("stratified", 2)):
        tested = np.concatenate([part.test for part in divided if part.split == split])
        assert np.bincount(tested).tolist() == [repeats] * len(examples.y)


def test_fails_of_too_few_operations_are_refused(examples):
    few = Examples(examples.x, examples.y, np.where(examples.y == 1, "b/only", examples.groups))
    with pytest.raises(
        InputError, match="grouped split: fails come from 1 operations; 3 folds need at least 3"
    ):
        grouped_parts(few, Evaluate(n_grouped_folds=3), 1)


def test_sampling_the_training_rows_keeps_all_fails(examples):
    sample = examples.drop_passes(30, 5)
    assert (sample.y.sum(), len(sample.y)) == (20, 30)


def test_training_rows_include_comparisons_with_and_without_history(
    examples,
):
    low = np.arange(len(examples.y)) % 3 == 0
    known = replace(examples, below=low, bare=replace(examples, x=-examples.x, below=~low))
    lessons = known.training_rows
    np.testing.assert_array_equal(lessons.x, np.concatenate([-examples.x[low], examples.x[~low]]))
    assert lessons.y.tolist() == [*examples.y[low], *examples.y[~low]]
    assert len(known.all_rows.y) == 2 * len(examples.y)
    sample = known.drop_passes(15, 5)
    assert (sample.needs_model.sum(), (~sample.needs_model).sum()) == (15, low.sum())
    assert sample.y[sample.needs_model].sum() == examples.y[~low].sum()
    np.testing.assert_array_equal(sample.bare.x, -sample.x)


def test_the_threshold_lies_in_the_middle_between_the_classes():
    cut = best_cut(np.array([0, 0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.7, 0.9]))
    assert cut.threshold == pytest.approx(0.5)
    assert cut.balanced_accuracy == 1


def test_the_threshold_maximises_the_balanced_accuracy():
    y = np.array([0] * 100 + [1] * 10)
    probability = np.concatenate([np.linspace(0.0, 0.3, 100), [0.05], np.linspace(0.6, 0.9, 9)])
    cut = best_cut(y, probability)
    assert 0.28 < cut.threshold <= 0.6
    assert cut.balanced_accuracy == pytest.approx(0.95)


def test_equal_probabilities_give_the_neutral_threshold():
    assert best_cut(np.array([0, 1]), np.array([0.4, 0.4])).threshold == 0.5


def test_scores_count_both_kinds_of_mistakes():
    failed = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0], bool)
    judged = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0, 0], bool)
    found = score_verdicts(failed, judged, None)
    assert found.false_negative_rate == pytest.approx(1 / 4)
    assert found.false_positive_rate == pytest.approx(1 / 6)
    assert found.balanced_accuracy == pytest.approx((3 / 4 + 5 / 6) / 2)
    assert (found.precision, found.recall, found.f1, found.accuracy) == pytest.approx((0.75, 0.75, 0.75, 0.8))
    assert found.average_precision is None


#: Each fold ranks its fail first; the second fold's probabilities are a tenth of the first one's.
TWO_SCALES = [("fail", 0.9, 0), ("pass", 0.5, 0), ("fail", 0.09, 1), ("pass", 0.05, 1)]


def judged_in_folds(rows):
    table = pd.DataFrame(rows, columns=["status", "probability", "fold"])
    return table.assign(repeat=0, kind="model", verdict=np.where(table["probability"] >= 0.5, "fail", "pass"))


def test_average_precision_is_averaged_over_folds_without_pooling():
    found = summarise_entry(judged_in_folds(TWO_SCALES))
    assert found["average_precision"] == {"mean": 1.0, "std": 0.0, "pooled": None}
    assert found["recall"] == {"mean": 0.5, "std": 0.5, "pooled": 0.5}


@pytest.mark.parametrize("digits", [16, 2])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_average_precision_equals_that_of_scikit_learn_bit_for_bit(digits, is_weighted):
    draw = np.random.default_rng(3)
    for _ in range(200):
        rows = int(draw.integers(3, 900))
        failed = draw.random(rows) < draw.uniform(0.05, 0.9)
        failed[0] = True
        probability = draw.random(rows).round(digits)
        weights = draw.integers(0, 4, rows).astype(float) if is_weighted else None
        if weights is not None:
            weights[0] = 1
        expected = average_precision_score(failed, probability, sample_weight=weights)
        assert average_precision(failed, probability, weights) == expected


def test_a_fold_without_probabilities_leaves_no_average_precision():
    found = summarise_entry(judged_in_folds(TWO_SCALES).replace({"probability": {0.05: np.nan}}))
    assert found["average_precision"] == {"mean": None, "std": None, "pooled": None}


def test_area_under_the_mean_curve_equals_mean_average_precision():
    random = np.random.default_rng(3)
    rows = [
        ("fail" if random.random() < 0.4 else "pass", random.integers(8) / 8, fold) for fold in range(200)
    ]
    verdicts = judged_in_folds([(status, probability, fold % 4) for status, probability, fold in rows])
    recall, precision = precision_by_recall(verdicts)
    assert recall[-1] == 1
    mean = summarise_entry(verdicts)["average_precision"]["mean"]
    assert np.diff(recall, prepend=0) @ precision == pytest.approx(mean, abs=1e-6)
    assert mean < 0.9
    without = verdicts.assign(fold=np.where(verdicts["status"] == "pass", verdicts["fold"], 0))
    one = without[without["fold"] == 0]
    assert precision_by_recall(without)[1].tolist() == precision_by_recall(one)[1].tolist()


def test_equally_accurate_models_are_ranked_by_average_precision():
    worse = [(status, probability, 0) for status, probability, _ in TWO_SCALES]
    both = {"a": summarise_entry(judged_in_folds(worse)), "b": summarise_entry(judged_in_folds(TWO_SCALES))}
    assert both["a"]["balanced_accuracy"]["pooled"] == both["b"]["balanced_accuracy"]["pooled"]
    assert rank_models(both)[0] == "b"


def test_caption_explains_average_precision_as_a_mean_over_folds():
    entry = summarise_entry(judged_in_folds(TWO_SCALES))
    split = {"scheme": "2 folds", "entries": {"m": entry}}
    data = {"path": "d", "comparisons": 4, "fails": 2}
    table = scores_table({"splits": {"grouped": split}, "data": data, "seed": 1, "champion": "m"})
    assert list(table.columns[-1].cells) == ["1.000"]
    assert table.caption.startswith("Average precision is the mean over folds")


def flags(*rows):
    return np.repeat(np.array(rows, bool), 20)


def test_a_model_missing_everywhere_is_significantly_worse():
    failed = flags(1, 0)
    groups = np.array([f"o{number % 10}" for number in range(40)])
    knobs = BootstrapSettings(300, 0.95, 1)
    assert paired_difference(failed, flags(0, 0), failed, groups, knobs).is_worse
    same = paired_difference(failed, failed, failed, groups, knobs)
    assert (same.observed, same.low, same.high, same.is_worse, same.is_better) == (0, 0, 0, False, False)
    assert paired_difference(failed, failed, flags(0, 0), groups, knobs).is_better


def test_mistakes_in_a_single_operation_are_not_significant():
    failed = flags(1, 0)
    groups = np.array([f"o{number % 10}" for number in range(40)])
    once = failed & (groups != "o3")
    found = paired_difference(failed, once, failed, groups, BootstrapSettings(300, 0.95, 1))
    assert found.observed == pytest.approx(-0.05)
    assert (found.is_worse, found.is_better) == (False, False)
    gained = paired_difference(failed, failed, once, groups, BootstrapSettings(300, 0.95, 1))
    assert gained.observed == pytest.approx(0.05)
    assert not gained.is_better


def test_an_interrupted_search_resumes_to_the_same_result(tmp_path, monkeypatch):
    family = small_family(tmp_path, trials=9)
    task = tasks_of(family, FeatureTable.read(family.features_file, family.columns()))[-1]
    whole = run_search(replace(task, log=TrialLog(tmp_path / "whole.log")))
    interrupted(monkeypatch, 7)
    with pytest.raises(KeyboardInterrupt):
        run_search(task)
    assert run_search(task) == whole
    assert len(whole.trials) == 9


def test_an_unknown_model_in_the_params_is_named(tmp_path):
    family = small_family(tmp_path, models=("knn-uniform", "perceptron"))
    with pytest.raises(InputError, match=r"params.yaml comparisons.tune: models='perceptron' is not one of"):
        tasks_of(family, FeatureTable.read(family.features_file, family.columns()))


def test_a_feature_table_without_a_feature_is_refused(tmp_path):
    family = small_family(tmp_path, table=feature_table().drop(columns="noise"))
    with pytest.raises(InputError, match=r"features.parquet: has no column 'noise'"):
        FeatureTable.read(family.features_file, family.columns())


def test_training_uses_all_rows_if_one_label_is_missing(examples):
    only_passes = replace(examples, below=examples.y == 1, bare=examples)
    np.testing.assert_array_equal(only_passes.training_rows.x, examples.x)
    assert only_passes.training_rows.y.tolist() == examples.y.tolist()


def test_trials_with_another_minimum_effect_size_are_kept_separate(examples, tmp_path):
    task = SearchTask("all", "logistic", examples, params(models=("logistic",)).section.tune, 7)
    raised = replace(task, examples=replace(examples, below=np.arange(len(examples.y)) % 3 == 0))
    logs = [log_of(tmp_path, "digest", ("a",), one) for one in (task, replace(task), raised)]
    assert logs[0] == logs[1] != logs[2]


def test_the_threshold_does_not_depend_on_how_common_passes_are():
    generator = np.random.default_rng(3)
    fails, passes = generator.beta(6, 2, 200), generator.beta(2, 6, 200)
    few = best_cut(np.r_[np.ones(200, int), np.zeros(200, int)], np.r_[fails, passes])
    many = best_cut(np.r_[np.ones(200, int), np.zeros(2000, int)], np.r_[fails, np.tile(passes, 10)])
    assert many.threshold == pytest.approx(few.threshold)


GROUPS = np.array([f"o{number // 10}" for number in range(400)])
FAILED = np.arange(400) % 5 == 0


def said(*wrong):
    fails = FAILED.copy()
    fails[[*wrong]] ^= True
    return FoldPredictions(np.where(fails, 0.9, 0.1), fails)


@pytest.mark.parametrize(
    ("steady", "order", "chosen"),
    [
        ((7, 13), ["steady", "nimble"], "steady"),
        ((7, 13), ["nimble", "steady"], "nimble"),
        # significantly worse
        (range(0, 400, 15), ["steady", "nimble"], "nimble"),
        # a model that is not in the order comes last
        ((7,), ["steady"], "steady"),
    ],
)
def test_among_equivalent_models_the_most_stable_is_chosen(steady, order, chosen):
    models = {"nimble": said(7), "steady": said(*steady)}
    assert tie_break(FAILED, models, GROUPS, order, 0) == chosen


def test_a_lock_of_a_killed_process_expires(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = TrialLog(Path("trials/search.log"))
    with log.open_study("maximize") as study, monkeypatch.context() as killed:
        killed.setattr(JournalFileSymlinkLock, "release", lambda _: None)
        study.add_trial(optuna.create_trial(value=1.0))
    assert Path("trials/search.log.lock").is_symlink()
    with log.open_study("maximize") as study:
        study.ask()
        assert len(study.trials) == 2
