import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from features.comparisons.vectors import SEED_FEATURES
from serving.comparisons import render
from serving.comparisons.judge import judge_tables
from serving.http.api import application
from serving.http.settings import ServerSettings
from serving.models import Served
from serving.reports.verdict_lines import as_markdown, as_plain
from tests.code.comparisons.test_judging import asked, rows, served  # noqa: F401 - a fixture
from tests.families import feature_table, small_family
from training.comparisons.decision import read_changes, write_out_of_fold
from training.comparisons.evaluate import out_of_fold
from training.comparisons.family import FeatureTable, all_parts
from training.comparisons.stored import TrainedModel
from training.comparisons.tune import Classified
from training.estimators.catalogue import CATALOGUE, build_pipeline, without_sampler
from training.evaluation.thresholds import below_min_effect, zero_below_min_effect


def judged(served, *configurations, floor=None):  # noqa: F811 - a fixture's name
    """Judge one comparison of ``(threads, baseline, target)``."""
    given = [
        row
        for threads, baseline, target in configurations
        for row in (*rows("x", baseline, threads=threads), *rows("x", target, 1, threads=threads))
    ]
    if floor is not None:
        card = replace(served.model.card, min_effect_size=floor)
        served = Served(replace(served.model, card=card), served.ref)
    return judge_tables(ComparisonTables.from_rows(given, [asked("x")], []), served)


class AlwaysFails:
    unit = "probability"

    def predict_and_explain(self, columns, reference):
        return np.ones(len(columns)), np.zeros(columns.shape)


@pytest.fixture
def eager(served):  # noqa: F811
    return Served(replace(served.model, answering=AlwaysFails()), served.ref)


def test_a_change_below_the_floor_passes_whatever_the_model_says(eager):
    (verdict,) = judged(eager, (1, [100.0] * 3, [99.999999] * 3)).verdicts
    assert (verdict.verdict, verdict.probability, verdict.decided_by) == ("pass", 0.0, "min_effect_size")
    assert (verdict.remarks, verdict.reasons) == (("below the minimum effect size of 0.5 %",), ())


@pytest.mark.parametrize("target", [[99.5] * 3, [30.0] * 3])
def test_from_the_floor_on_the_model_decides(eager, target):
    (verdict,) = judged(eager, (1, [100.0] * 3, target)).verdicts
    assert (verdict.verdict, verdict.decided_by, verdict.remarks) == ("fail", "model", ())


def test_the_worst_configuration_alone_reaches_the_floor(eager):
    judgement = judged(eager, (1, [100.0] * 3, [120.0] * 3), (2, [100.0] * 3, [99.0] * 3))
    assert judgement.verdicts[0].verdict == "fail"


def test_without_a_floor_the_model_decides_everything(eager):
    assert judged(eager, (1, [100.0] * 3, [99.999999] * 3), floor=0.0).verdicts[0].verdict == "fail"


def test_the_floor_itself_counts_as_reached_although_numbers_are_rounded():
    assert below_min_effect(np.array([(30.0 - 30.15) / 30.0, -0.0049, 0.1]), 0.005).tolist() == [
        False,
        True,
        True,
    ]
    assert zero_below_min_effect(np.array([0.9, 0.9]), np.array([-0.1, 0.1]), 0.005).tolist() == [0.9, 0.0]


def test_held_out_verdicts_know_the_floor(tmp_path):
    table = feature_table()
    family = small_family(tmp_path, table=table, models=("logistic",))
    usual = _held_out(family)
    change = np.where(np.arange(len(table)) < 40, -0.1, -0.004)
    table[["comparison_id"]].assign(worst_change=change).to_parquet(family.stage_file("changes"), index=False)
    moved = _held_out(family)
    low = moved["comparison_id"].isin(table["comparison_id"][40:])
    assert (moved.loc[low, "probability"] == 0).all()
    assert (moved.loc[low, "verdict"] == "pass").all()
    assert (usual.loc[low, "verdict"] == "fail").any()
    # and nothing is learned from it
    table.loc[40:, ["medians_min", "medians_med"]] *= -3
    table.to_parquet(family.features_file, index=False)
    pd.testing.assert_frame_equal(moved[~low], _held_out(family)[~low])
    assert not usual.loc[~low, "probability"].equals(moved.loc[~low, "probability"])


def _held_out(family):
    table = FeatureTable.read(family.features_file, family.columns())
    names = ["grouped/f0", "grouped/f1", "stratified/r0f0", "stratified/r0f1"]
    chosen = Classified({"c": 1.0, "sampler": "none", "weights": "equal"}, 1.0, 0.5)
    # as many fails as it says: there is nothing to calibrate
    folds = all_parts(table.examples, family.section.evaluate, family.params.seed)
    said = [(part.name, "logistic", np.full(len(part.train), 0.25)) for part in folds]
    write_out_of_fold(family.paths.tuned, said)
    verdicts, _ = out_of_fold(family, table, {name: {"logistic": chosen} for name in names})
    return verdicts[verdicts["kind"] == "model"].reset_index(drop=True)


def test_changes_must_be_about_the_same_comparisons(tmp_path):
    family = small_family(tmp_path)
    table = FeatureTable.read(family.features_file, family.columns())
    pd.read_parquet(family.stage_file("changes")).iloc[1:].to_parquet(family.stage_file("changes"))
    with pytest.raises(InputError, match=r"changes.parquet: holds other comparisons than the features"):
        read_changes(family.stage_file("changes"), table)


def test_one_wild_sample_does_not_decide_and_the_answer_says_so(served):  # noqa: F811
    usual = [99.0, 99.5, 100.0, 100.5, 101.0, 99.2, 99.8, 100.3, 100.7, 100.1]
    wild = judged(served, (8, usual, [*usual[:9], 10.03]), floor=0.0).verdicts[0]
    without = judged(served, (8, usual, usual[:9]), floor=0.0).verdicts[0]
    assert (wild.verdict, wild.probability) == ("pass", without.probability)
    assert wild.remarks == (
        "one sample of 10 is left out: 10.03 against a median of 100 (target, 8 threads)",
    )


def test_the_answer_names_the_configuration_that_moved_and_the_one_that_got_better(served):  # noqa: F811
    judgement = judged(served, (1, [100.0] * 3, [105.0] * 3), (8, [200.0] * 3, [194.0] * 3))
    answer = json.loads(render.as_json(judgement))["verdicts"][0]
    worse = {"threads": 8, "baseline_median": 200.0, "target_median": 194.0, "change": pytest.approx(-0.03)}
    better = {"threads": 1, "baseline_median": 100.0, "target_median": 105.0, "change": pytest.approx(0.05)}
    assert (answer["moved"], answer["improved"], answer["decided_by"]) == (worse, better, "model")
    told = "median 3.0 % less throughput at 8 threads; 1 of 2 configurations got worse; "
    for text in (
        as_markdown(render.table_lines(judgement, [""])),
        as_plain(render.table_lines(judgement, [""])),
    ):
        assert told in " ".join(text.split())
        assert "; 1 thread: median 5.0 % better" in " ".join(text.split())


def test_changes_too_small_to_matter_are_told_as_they_are(served):  # noqa: F811
    lines = render.table_lines(
        judged(served, (1, [100.0] * 3, [99.96] * 3), (2, [100.0] * 3, [100.3] * 3)), [""]
    )
    moved = "median 0.04 % less throughput at 1 thread; 1 of 2 configurations got worse"
    assert lines.rows[0].reason == f"below the minimum effect size of 0.5 %; {moved}"
    lines = render.table_lines(judged(served, (1, [100.0] * 3, [100.0] * 3)), [""])
    assert lines.rows[0].reason == "below the minimum effect size of 0.5 %; median unchanged"


def test_every_process_of_a_server_takes_the_floor_that_was_asked_for(served, tmp_path, monkeypatch):  # noqa: F811
    TrainedModel(_logistic(), served.model.card).write(tmp_path)
    own = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    monkeypatch.setattr("os.environ", own)
    ServerSettings({"model": str(tmp_path)}).export_to_environment()
    assert application().state.models["model"].ensure_loaded().card.min_effect_size == 0.005
    ServerSettings({"model": str(tmp_path), "min_effect_size": 0.2}).export_to_environment()
    assert application().state.models["model"].ensure_loaded().card.min_effect_size == 0.2


def _logistic():
    model = CATALOGUE["logistic"]
    x, y = np.random.default_rng(0).normal(size=(20, len(SEED_FEATURES))), np.arange(20) % 2
    return without_sampler(build_pipeline(model, model.start, y, 0).fit(x, y))
