import os
import re
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from data.comparisons.params import Decide
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from features.comparisons.vectors import SEED_FEATURES
from serving.comparisons.judge import judge_tables
from serving.http.api import application
from serving.http.settings import ServerSettings
from serving.models import Served
from tests.code.comparisons.inputs import comparison_row, rows
from tests.code.comparisons.posted import standardised
from tests.data.refusals import refusal
from tests.families import feature_table, small_family
from training.comparisons.decision import (
    OUT_OF_FOLD_FILE,
    learn_decision,
    read_changes,
    read_out_of_fold,
    write_out_of_fold,
)
from training.comparisons.evaluate import out_of_fold
from training.comparisons.family import Examples, FeatureTable, all_parts
from training.comparisons.stored import TrainedModel
from training.comparisons.tune import Classified
from training.evaluation.search import SearchOutcome
from training.evaluation.thresholds import below_min_effect


def judged(served, *configurations, floor=None):
    """Judge one comparison of ``(threads, baseline, target)``."""
    given = [
        row
        for threads, baseline, target in configurations
        for row in (*rows("x", baseline, threads=threads), *rows("x", target, 1, threads=threads))
    ]
    if floor is not None:
        card = replace(served.model.card, min_effect_size=floor)
        served = Served(replace(served.model, card=card), served.ref)
    return judge_tables(ComparisonTables.from_rows(given, [comparison_row("x")], []), served, assumed=0.0)


@pytest.fixture
def eager(served):
    always = SimpleNamespace(unit="probability", predict_probability=lambda columns: np.ones(len(columns)))
    return Served(replace(served.model, answering=always), served.ref)


@pytest.mark.parametrize(
    ("targets", "floor", "expected"),
    [
        ([99.999999], None, ("pass", 0.0, "min_effect_size")),
        ([99.999999], 0.0, ("fail", 1.0, "model")),
        ([99.5], None, ("fail", 1.0, "model")),
        # one configuration is enough
        ([120.0, 99.0], None, ("fail", 1.0, "model")),
    ],
)
def test_only_changes_from_the_minimum_effect_size_on_are_decided_by_the_model(
    eager, targets, floor, expected
):
    configurations = [(at, [100.0] * 3, [target] * 3) for at, target in enumerate(targets, 1)]
    (verdict,) = judged(eager, *configurations, floor=floor).verdicts
    assert (verdict.verdict, verdict.probability, verdict.decided_by) == expected
    assert verdict.remarks == ()


def test_minimum_effect_size_is_inclusive_despite_rounding_of_numbers():
    changes = np.array([(30.0 - 30.15) / 30.0, -0.0049, 0.1])
    assert below_min_effect(changes, 0.005).tolist() == [False, True, True]


def outcome(part, probability):
    return SearchOutcome(part, "logistic", Classified({}, 1.0, 0.5), [], probability)


def held_out(family):
    """Return verdicts of models with as many fails as they say: there is nothing to calibrate."""
    table = FeatureTable.read(family.features_file, family.columns)
    chosen = Classified({"c": 1.0, "sampler": "none", "weights": "equal"}, 1.0, 0.5)
    folds = all_parts(table.examples, family.section.evaluate, family.params.seed)
    said = [outcome(part.name, np.full(len(part.train), 0.25)) for part in folds]
    write_out_of_fold(family.paths.tuned, said)
    names = ["grouped/f0", "grouped/f1", "stratified/r0f0", "stratified/r0f1"]
    verdicts, _ = out_of_fold(family, table, {name: {"logistic": chosen} for name in names})
    return verdicts[verdicts["kind"] == "model"].reset_index(drop=True)


def test_out_of_fold_verdicts_respect_minimum_effect_size(tmp_path):
    table = feature_table()
    family = small_family(tmp_path, table=table, models=("logistic",))
    usual = held_out(family)
    change = np.where(np.arange(len(table)) < 40, -0.1, -0.004)
    table[["comparison_id"]].assign(worst_change=change).to_parquet(family.stage_file("changes"), index=False)
    moved = held_out(family)
    low = moved["comparison_id"].isin(table["comparison_id"][40:])
    assert (moved.loc[low, "probability"] == 0).all()
    assert (moved.loc[low, "verdict"] == "pass").all()
    assert (usual.loc[low, "verdict"] == "fail").any()
    # and nothing is learned from it
    table.loc[40:, ["medians_min", "medians_med"]] *= -3
    table.to_parquet(family.features_file, index=False)
    pd.testing.assert_frame_equal(moved[~low], held_out(family)[~low])
    assert not usual.loc[~low, "probability"].equals(moved.loc[~low, "probability"])


def test_changes_of_other_comparisons_are_refused(tmp_path):
    family = small_family(tmp_path)
    table = FeatureTable.read(family.features_file, family.columns)
    path = family.stage_file("changes")
    pd.read_parquet(path).iloc[1:].to_parquet(path)
    told = refusal(read_changes, path, table)
    assert told.startswith(f"{path}: holds other comparisons than the features")


def test_a_single_outlier_is_ignored_with_a_remark(served):
    usual = [99.0, 99.5, 100.0, 100.5, 101.0, 99.2, 99.8, 100.3, 100.7, 100.1]
    wild = judged(served, (8, usual, [*usual[:9], 10.03]), floor=0.0).verdicts[0]
    without = judged(served, (8, usual, usual[:9]), floor=0.0).verdicts[0]
    assert (wild.verdict, wild.probability) == ("pass", without.probability)
    assert wild.remarks == (
        "one sample of 10 is left out: 10.03 against a median of 100 (target, 8 threads)",
    )


def test_all_server_processes_use_the_configured_minimum_effect_size(served, tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(20, len(SEED_FEATURES)))
    fitted = standardised(LogisticRegression()).fit(x, np.arange(20) % 2)
    TrainedModel(fitted, served.model.card).write(tmp_path)
    own = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    monkeypatch.setattr("os.environ", own)
    for options, used in (({}, 0.005), ({"min_effect_size": 0.2}, 0.2)):
        ServerSettings({"model": str(tmp_path), **options}).export_to_environment()
        assert application().state.models["model"].ensure_loaded().card.min_effect_size == used


@given(content=st.binary(max_size=200))
def test_damaged_or_unreadable_probabilities_are_refused_by_name(tmp_path_factory, content):
    damaged, unreadable = (tmp_path_factory.mktemp(name) for name in ("damaged", "unreadable"))
    (damaged / OUT_OF_FOLD_FILE).write_bytes(content)
    (unreadable / OUT_OF_FOLD_FILE).mkdir()
    told = [refusal(read_out_of_fold, one, [("all", "logistic")]) for one in (damaged, unreadable)]
    assert re.search(r"run tune (again|first)", told[0])
    assert "is damaged or unreadable; run tune again" in told[1]


def damaged(content, place, mask):
    place = int(place * len(content))
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@settings(max_examples=50)
def test_a_changed_byte_never_changes_stored_probabilities(tmp_path_factory, place, mask):
    directory, probabilities = tmp_path_factory.mktemp("tuned"), np.random.default_rng(1).random(30)
    write_out_of_fold(directory, [outcome("all", probabilities)])
    path = directory / OUT_OF_FOLD_FILE
    path.write_bytes(damaged(path.read_bytes(), place, mask))
    problem, found = "", []
    try:
        found = read_out_of_fold(directory, [("all", "logistic")])
    except InputError as error:
        problem = str(error)
    if found:
        np.testing.assert_array_equal(found, [probabilities])
    else:
        assert re.search(r"held.npz: .*run tune (again|first)$", problem)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@settings(max_examples=50)
def test_a_damaged_feature_table_is_refused_by_name(tmp_path_factory, place, mask):
    path = tmp_path_factory.mktemp("processed") / "features.parquet"
    feature_table().to_parquet(path, index=False)
    path.write_bytes(damaged(path.read_bytes(), place, mask))
    with suppress(InputError):
        assert FeatureTable.read(path, ("noise",)).examples.x.shape[1] == 1
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"features.parquet: .*run featurize again$"):
        FeatureTable.read(path, ("noise",))


def test_a_decision_is_learned_if_all_effects_are_small():
    y, probability = np.arange(60) % 2, np.linspace(0, 1, 60)
    groups = np.array([f"g{number}" for number in range(60)])
    examples = Examples(np.zeros((60, 1)), y, groups, below=np.full(60, True))
    decision = learn_decision(examples, probability, 0.5, Decide(), 1)
    assert 0 <= decision.calibration.map_probability(0.2) <= decision.calibration.map_probability(0.9) <= 1
