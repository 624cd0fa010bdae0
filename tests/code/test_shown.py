import json

import numpy as np
import pandas as pd
import pytest

from data.paths import FamilyPaths
from training.evaluation.figures import (
    confusion_rows,
    dvc_prediction_figures,
    dvc_verdict_figures,
    interval_coverage,
    leading_entries,
    precision_recall,
    predicted_points,
    reliability_bins,
)


def score(kind="model", **pooled):
    return {"kind": kind} | {name: {"pooled": value} for name, value in pooled.items()}


def judged(accuracy, kind="model"):
    rates = {"false_negative_rate": 0.25, "false_positive_rate": 0.123456}
    return score(kind, balanced_accuracy=accuracy, **rates)


def verdicts(entry="a", probability=(0.0, 0.05, 0.55, 1.0), split="grouped"):
    status, verdict = ["pass", "fail", "pass", "fail"], np.where(np.array(probability) > 0.5, "fail", "pass")
    about = {"entry": entry, "split": split, "repeat": 0, "fold": 0}
    return pd.DataFrame({"status": status, "verdict": verdict, "probability": probability}).assign(**about)


def predictions(factor, fold=(0, 0, 1, 1), entry="a"):
    measured = np.array([4.0, 1.0, 2.0, 8.0])
    rows = {"measured": measured, "predicted": measured * factor, "fold": fold}
    return pd.DataFrame(rows).assign(entry=entry, unit="one")


def metrics(entries, champion):
    return {"champion": champion, "splits": {"grouped": {"entries": entries}}}


def test_classifier_summary_uses_the_split_of_the_selection(tmp_path):
    every = pd.concat([verdicts("a"), verdicts("b"), verdicts("a", (0.9,) * 4, split="stratified")])
    shown = dvc_verdict_figures(metrics({"a": judged(0.75), "b": judged(0.5)}, "a"), "grouped", every)
    places = FamilyPaths("boots", tmp_path)
    shown.write(places)
    scores = {"balanced_accuracy": 0.75, "false_negative_rate": 0.25, "false_positive_rate": 0.1235}
    assert json.loads(places.summary.read_text()) == {"champion": "a", **scores}
    drawn = {path.stem: pd.read_csv(path) for path in places.evaluated.iterdir()}
    assert set(drawn) == {"precision_recall", "reliability", "confusion"}
    assert all(list(table["entry"].unique()) == ["a", "b"] for table in drawn.values())
    assert drawn["confusion"].groupby("entry")["cases"].sum().to_dict() == {"a": 4, "b": 4}


def test_the_predictor_summary_omits_unknown_scores():
    known = score(mape=0.5, within_tolerance=None)
    shown = dvc_prediction_figures(metrics({"a": known}, "a"), "grouped", "mape", predictions(1.5))
    assert shown.summary == {"champion": "a", "mape": 0.5}
    assert {name: list(table) for name, table in shown.plots.items()} == {
        "predicted": ["entry", "measured", "predicted"],
        "coverage": ["entry", "wanted", "covered", "cases"],
    }


def test_the_champion_is_shown_with_the_two_best_models():
    entries = dict(zip("abcde", map(judged, (0.9, 0.8, 0.9, 0.7, 0.8)), strict=True))
    entries["rule"] = judged(1.0, "rule")
    shown = leading_entries(
        metrics(entries, "b"), "grouped", lambda entry: -entry["balanced_accuracy"]["pooled"]
    )
    assert shown == ["b", "a", "c"]


def test_precision_is_listed_at_a_hundred_recalls():
    told = precision_recall(verdicts())
    assert told["recall"].iloc[[0, -1]].tolist() == [0.01, 1.0]
    # the surest is right; to catch the other fail costs one alarm of three
    assert told.groupby("precision")["recall"].max().to_dict() == {2 / 3: 1.0, 1.0: 0.5}


def test_reliability_bins_include_1_in_the_last_bin():
    bins = [[0.025, 0.5, 2], [0.55, 0.0, 1], [1.0, 1.0, 1]]
    assert reliability_bins(verdicts()).to_numpy().tolist() == bins


def test_the_confusion_matrix_contains_zero_counts():
    told = confusion_rows(verdicts(probability=(0.0, 0.0, 0.0, 1.0)))
    assert told.to_numpy().tolist() == [
        ["pass", "pass", 2, 1.0], ["fail", "pass", 1, 0.5], ["pass", "fail", 0, 0.0], ["fail", "fail", 1, 0.5]
    ]  # fmt: skip


def test_interval_widths_come_from_the_other_folds():
    sure = predictions([1.1, 1.2, 2.0, 3.0])
    told = interval_coverage(sure)
    # fold 0 errs by less than fold 1, so its intervals hold nothing of fold 1, and those of fold 1 all of it
    assert told[["covered", "cases"]].drop_duplicates().to_numpy().tolist() == [[0.5, 4]]
    alike = interval_coverage(predictions([1.1, 1.3, 1.2, 1.4], fold=(0, 1, 0, 1)))
    assert alike["covered"].is_monotonic_increasing
    of_one_fold = interval_coverage(predictions([1.1, 1.2, 1.3, 1.4], fold=(0,) * 4))
    assert of_one_fold["covered"].iloc[-1] == 1.0


@pytest.mark.parametrize("cases", [3, 4000])
def test_at_most_a_thousand_predictions_are_drawn(cases):
    measured = np.arange(cases, 0, -1.0)
    told = predicted_points(pd.DataFrame({"measured": measured, "predicted": measured}))
    assert len(told) == min(cases, 1000)
    assert told["measured"].iloc[[0, -1]].tolist() == [1.0, cases]
