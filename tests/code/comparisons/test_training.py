from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.storages.journal import JournalFileSymlinkLock
from sklearn.metrics import average_precision_score

from data.comparisons.params import Evaluate
from data.errors import InputError
from tests.families import COLUMNS, MODELS, feature_table, interrupted, params, small_family
from training.comparisons.evaluate import FoldPredictions, tie_break
from training.comparisons.family import Examples, FeatureTable, all_parts, grouped_parts
from training.comparisons.label_review import Learnable
from training.comparisons.stored import Card, TrainedModel
from training.comparisons.tune import SearchTask, log_of, run_search, tasks_of
from training.estimators import catalogue
from training.evaluation import metrics
from training.evaluation.paired_bootstrap import BootstrapSettings, paired_difference
from training.evaluation.search import TrialLog
from training.evaluation.thresholds import best_cut


@pytest.fixture
def examples():
    table = feature_table()
    failed = (table["status"] == "fail").to_numpy(np.int64)
    return Examples(table[[*COLUMNS]].to_numpy(), failed, table["fold_group"].to_numpy(np.str_))


#: Every third of these examples changes less than the minimum effect size.
LOW = np.arange(80) % 3 == 0


@pytest.fixture
def known(examples):
    """The examples, and the same without history, of which those change enough that do not with history."""
    return replace(examples, below=LOW, bare=replace(examples, x=-examples.x, below=~LOW))


def test_resampling_reaches_its_rate_and_costs_multiply_balanced_weights():
    for sampler, rate, after in (("under", 0.5, (40, 20)), ("over", 0.5, (80, 40)), ("smote", 1.0, (80, 80))):
        assert catalogue.ClassCounts(80, 20).after_resampling(sampler, rate) == catalogue.ClassCounts(*after)
    for failed, sampler, rate in ((20, "over", 0.2), (20, "under", 0.25), (5, "smote", 0.5)):
        with pytest.raises(catalogue.InfeasibleError):
            catalogue.ClassCounts(80, failed).after_resampling(sampler, rate)
    for counts in (catalogue.ClassCounts(50, 50), catalogue.ClassCounts(990, 10)):
        weights = counts.balancing_weights(3.0)
        assert weights[1] * counts.failed == pytest.approx(3 * weights[0] * counts.passed)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [*product(catalogue.CATALOGUE, ["none"]), *product(MODELS[:1], ["under", "over", "smote"])],
)
def test_stored_models_use_trusted_types_and_answer_identically(examples, tmp_path, name, sampler):
    model = catalogue.CATALOGUE[name]
    params = {**model.start, "sampler": sampler, "rate": 0.9}
    fitted = catalogue.build_pipeline(model, params, examples.y, 3).fit(examples.x, examples.y)
    card = Card(name, COLUMNS, 0.5, params, dict.fromkeys(COLUMNS, 0.0), "d", 3)
    TrainedModel(catalogue.without_sampler(fitted), card).write(tmp_path)
    after, unseen = TrainedModel.read(tmp_path), feature_table(seed=1)[[*COLUMNS]].to_numpy()
    assert after.card == card
    stored, own = (catalogue.fail_probability(one, unseen) for one in (after.model, fitted))
    assert stored.tolist() == own.tolist()


def test_searches_start_with_the_thesis_configuration_and_needed_parameters():
    for model in catalogue.CATALOGUE.values():
        study = optuna.create_study(direction="maximize")
        study.enqueue_trial(model.start)
        assert catalogue.suggest_params(catalogue.space_of(model), study.ask()) == model.start
    rate = catalogue.Real(0.1, 1.0, condition=catalogue.Where("sampler", ("over",)))
    space = {"sampler": catalogue.OneOf(("none", "over")), "rate": rate, "trees": 9}
    for sampler, more in (("none", {}), ("over", {"rate": 0.5})):
        trial = optuna.trial.FixedTrial({"sampler": sampler, "rate": 0.5})
        assert catalogue.suggest_params(space, trial) == {"sampler": sampler, "trees": 9, **more}


def test_splits_test_every_comparison_and_grouped_ones_separate_operations(examples):
    divided = all_parts(examples, Evaluate(n_folds=4, n_repeats=2, n_grouped_folds=3), 1)
    for split, repeats in (("grouped", 1), ("stratified", 2)):
        tested = np.concatenate([part.test for part in divided if part.split == split])
        assert np.bincount(tested).tolist() == [repeats] * len(examples.y)
    for part in grouped_parts(examples, Evaluate(n_grouped_folds=3), 1):
        assert not set(examples.groups[part.train]) & set(examples.groups[part.test])
    few = replace(examples, groups=np.where(examples.y == 1, "b/only", examples.groups))
    message = "grouped split: fails come from 1 operations; 3 folds need at least 3"
    with pytest.raises(InputError, match=message):
        grouped_parts(few, Evaluate(n_grouped_folds=3), 1)


def test_training_rows_include_comparisons_with_and_without_history(examples, known):
    lessons = known.training_rows
    np.testing.assert_array_equal(lessons.x, np.concatenate([-examples.x[LOW], examples.x[~LOW]]))
    assert lessons.y.tolist() == [*examples.y[LOW], *examples.y[~LOW]]
    assert len(known.all_rows.y) == 2 * len(examples.y)
    # all are used if one of both labels would be missing
    only_passes = replace(examples, below=examples.y == 1, bare=examples).training_rows
    np.testing.assert_array_equal(only_passes.x, examples.x)
    assert only_passes.y.tolist() == examples.y.tolist()


def test_sampling_the_training_rows_keeps_all_fails(examples, known):
    sample = examples.drop_passes(30, 5)
    assert (sample.y.sum(), len(sample.y)) == (20, 30)
    sample = known.drop_passes(15, 5)
    assert (sample.needs_model.sum(), (~sample.needs_model).sum()) == (15, LOW.sum())
    assert sample.y[sample.needs_model].sum() == examples.y[~LOW].sum()
    np.testing.assert_array_equal(sample.bare.x, -sample.x)


def test_the_threshold_maximises_balanced_accuracy_midway_between_classes():
    cut = best_cut(np.array([0, 0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.7, 0.9]))
    assert (cut.threshold, cut.balanced_accuracy) == (pytest.approx(0.5), 1)
    y = np.array([0] * 100 + [1] * 10)
    probability = np.concatenate([np.linspace(0.0, 0.3, 100), [0.05], np.linspace(0.6, 0.9, 9)])
    cut = best_cut(y, probability)
    assert 0.28 < cut.threshold <= 0.6
    assert cut.balanced_accuracy == pytest.approx(0.95)
    assert best_cut(np.array([0, 1]), np.array([0.4, 0.4])).threshold == 0.5
    # however common passes are
    generator = np.random.default_rng(3)
    fails, passes = generator.beta(6, 2, 200), generator.beta(2, 6, 200)
    few, many = (
        best_cut(np.repeat([1, 0], [200, 200 * times]), np.r_[fails, np.tile(passes, times)]).threshold
        for times in (1, 10)
    )
    assert many == pytest.approx(few)


#: Each fold ranks its fail first; the second fold's probabilities are a tenth of the first one's.
TWO_SCALES = [("fail", 0.9, 0), ("pass", 0.5, 0), ("fail", 0.09, 1), ("pass", 0.05, 1)]


def judged_in_folds(rows):
    table = pd.DataFrame(rows, columns=["status", "probability", "fold"])
    return table.assign(repeat=0, kind="model", verdict=np.where(table["probability"] >= 0.5, "fail", "pass"))


def test_average_precision_is_averaged_over_folds_without_pooling():
    found = metrics.summarise_entry(judged_in_folds(TWO_SCALES))
    assert found["average_precision"] == {"mean": 1.0, "std": 0.0, "pooled": None}
    assert found["recall"] == {"mean": 0.5, "std": 0.5, "pooled": 0.5}
    unknown = metrics.summarise_entry(judged_in_folds(TWO_SCALES).replace({"probability": {0.05: np.nan}}))
    assert unknown["average_precision"] == {"mean": None, "std": None, "pooled": None}
    # equally accurate models are ranked by it
    worse = [(status, probability, 0) for status, probability, _ in TWO_SCALES]
    first, second = (metrics.summarise_entry(judged_in_folds(rows)) for rows in (worse, TWO_SCALES))
    assert first["balanced_accuracy"]["pooled"] == second["balanced_accuracy"]["pooled"]
    assert metrics.rank_models({"a": first, "b": second})[0] == "b"


@pytest.mark.parametrize("digits", [16, 2])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_average_precision_equals_that_of_scikit_learn_bit_for_bit(digits, is_weighted):
    draw = np.random.default_rng(3)
    for rows in draw.integers(3, 900, 60):
        failed = draw.random(rows) < draw.uniform(0.05, 0.9)
        probability = draw.random(rows).round(digits)
        weights = draw.integers(0, 4, rows).astype(float) if is_weighted else None
        failed[0] = True
        if is_weighted:
            weights[0] = 1
        expected = average_precision_score(failed, probability, sample_weight=weights)
        assert metrics.average_precision(failed, probability, weights) == expected


def test_area_under_the_mean_curve_equals_mean_average_precision():
    random = np.random.default_rng(3)
    statuses = np.where(random.random(200) < 0.4, "fail", "pass")
    verdicts = judged_in_folds(
        zip(statuses, random.integers(8, size=200) / 8, np.arange(200) % 4, strict=True)
    )
    recall, precision = metrics.precision_by_recall(verdicts)
    mean = metrics.summarise_entry(verdicts)["average_precision"]["mean"]
    assert np.diff(recall, prepend=0) @ precision == pytest.approx(mean, abs=1e-6)
    assert mean < 0.9 < recall[-1] == 1
    # folds without fails do not count
    without = verdicts.assign(fold=np.where(verdicts["status"] == "pass", verdicts["fold"], 0))
    one = without[without["fold"] == 0]
    assert metrics.precision_by_recall(without)[1].tolist() == metrics.precision_by_recall(one)[1].tolist()


def test_only_differences_in_many_operations_are_significant():
    failed, nothing = np.arange(40) < 20, np.zeros(40, bool)
    groups = np.array([f"o{number % 10}" for number in range(40)])

    def differing(judged, other):
        return paired_difference(failed, judged, other, groups, BootstrapSettings(300, 0.95, 1))

    assert differing(nothing, failed).is_worse
    assert differing(failed, nothing).is_better
    same = differing(failed, failed)
    assert (same.observed, same.low, same.high, same.is_worse, same.is_better) == (0, 0, 0, False, False)
    once = failed & (groups != "o3")
    lost, gained = differing(once, failed), differing(failed, once)
    assert (lost.observed, gained.observed) == pytest.approx((-0.05, 0.05))
    assert not any((lost.is_worse, lost.is_better, gained.is_better))


def last_task(root, **knobs):
    family = small_family(root, **knobs)
    return tasks_of(family, FeatureTable.read(family.features_file, family.columns))[-1]


def test_an_interrupted_search_resumes_to_the_same_result(tmp_path, monkeypatch):
    task = last_task(tmp_path, trials=9)
    whole = run_search(replace(task, log=TrialLog(tmp_path / "whole.log")))
    interrupted(monkeypatch, 7)
    with pytest.raises(KeyboardInterrupt):
        run_search(task)
    assert run_search(task) == whole
    assert len(whole.trials) == 9


def test_a_search_without_any_possible_parameters_is_refused(tmp_path, monkeypatch):
    def fail(*_):
        raise catalogue.InfeasibleError("k=50 exceeds the number of comparisons")

    task = last_task(tmp_path, trials=2)
    monkeypatch.setattr("training.comparisons.tune.strict_pipeline", fail)
    with pytest.raises(InputError, match=rf"{task.model}: no tried parameters are possible with \d+ comp"):
        run_search(task)


def test_unknown_models_and_missing_features_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"params.yaml comparisons.tune: models='perceptron' is not one of"):
        last_task(tmp_path, models=("knn-uniform", "perceptron"))
    with pytest.raises(InputError, match=r"features.parquet: has no column 'noise'"):
        last_task(tmp_path, table=feature_table().drop(columns="noise"))


def test_trials_with_another_minimum_effect_size_are_kept_separate(examples, tmp_path):
    task = SearchTask("all", "logistic", Learnable(examples), params(models=("logistic",)).section.tune, 7)
    raised = replace(task, data=Learnable(replace(examples, below=np.arange(len(examples.y)) % 3 == 0)))
    logs = [log_of(tmp_path, "digest", ("a",), one) for one in (task, replace(task), raised)]
    assert logs[0] == logs[1] != logs[2]


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
    monkeypatch.setattr("training.evaluation.search.LOCK_SECONDS", 3)
    log = TrialLog(Path("trials/search.log"))
    with log.open_study("maximize") as study, monkeypatch.context() as killed:
        killed.setattr(JournalFileSymlinkLock, "release", lambda _: None)
        study.add_trial(optuna.create_trial(value=1.0))
    assert Path("trials/search.log.lock").is_symlink()
    with log.open_study("maximize") as study:
        study.ask()
        assert len(study.trials) == 2
