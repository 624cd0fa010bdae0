import numpy as np
import pandas as pd
import pytest

from training.evaluation import figures


def verdicts(*probability):
    status, verdict = ["pass", "fail", "pass", "fail"], np.where(np.array(probability) > 0.5, "fail", "pass")
    rows = {"status": status, "verdict": verdict, "probability": probability}
    return pd.DataFrame(rows).assign(entry="a", split="grouped", repeat=0, fold=0)


def predictions(factor, fold=(0, 0, 1, 1)):
    measured = np.array([4.0, 1.0, 2.0, 8.0])
    rows = {"measured": measured, "predicted": measured * factor, "fold": fold}
    return pd.DataFrame(rows).assign(entry="a", unit="one")


def metrics(champion, **entries):
    """Return the metrics of entries that have a kind and a score each."""
    known = {name: {"kind": kind, "mape": {"pooled": score}} for name, (kind, score) in entries.items()}
    return {"champion": champion, "splits": {"grouped": {"entries": known}}}


def test_the_predictor_summary_omits_unknown_scores():
    known = metrics("a", a=("model", 0.5))
    known["splits"]["grouped"]["entries"]["a"]["within_tolerance"] = {"pooled": None}
    shown = figures.dvc_prediction_figures(known, "grouped", "mape", predictions(1.5))
    assert shown.summary == {"champion": "a", "mape": 0.5}


def test_the_champion_is_shown_with_the_two_best_models():
    models = {name: ("model", score) for name, score in zip("abcde", (0.1, 0.2, 0.1, 0.3, 0.2), strict=True)}
    known = metrics("b", **models, best=("rule", 0.0))
    shown = figures.leading_entries(known, "grouped", lambda entry: entry["mape"]["pooled"])
    assert shown == ["b", "a", "c"]


def test_tables_of_verdicts_match_counts_by_hand():
    four = verdicts(0.0, 0.05, 0.55, 1.0)
    told = figures.precision_recall(four)
    assert told["recall"].iloc[[0, -1]].tolist() == [0.01, 1.0]
    # the surest is right; to catch the other fail costs one alarm of three
    assert told.groupby("precision")["recall"].max().to_dict() == {2 / 3: 1.0, 1.0: 0.5}
    bins = [[0.025, 0.5, 2], [0.55, 0.0, 1], [1.0, 1.0, 1]]
    assert figures.reliability_bins(four).to_numpy().tolist() == bins
    counts = figures.confusion_rows(verdicts(0.0, 0.0, 0.0, 1.0))
    assert counts[["label", "verdict"]].agg(" ".join, axis=1).tolist() == [
        "pass pass", "fail pass", "pass fail", "fail fail",
    ]  # fmt: skip
    assert counts[["cases", "share"]].to_numpy().tolist() == [[2, 1.0], [1, 0.5], [0, 0.0], [1, 0.5]]


def test_interval_widths_come_from_the_other_folds():
    told = figures.interval_coverage(predictions([1.1, 1.2, 2.0, 3.0]))
    # fold 0 errs by less than fold 1, so its intervals hold nothing of fold 1, and those of fold 1 all of it
    assert told[["covered", "cases"]].drop_duplicates().to_numpy().tolist() == [[0.5, 4]]
    alike = figures.interval_coverage(predictions([1.1, 1.3, 1.2, 1.4], fold=(0, 1, 0, 1)))
    assert alike["covered"].is_monotonic_increasing
    of_one_fold = figures.interval_coverage(predictions([1.1, 1.2, 1.3, 1.4], fold=(0,) * 4))
    assert of_one_fold["covered"].iloc[-1] == 1.0


@pytest.mark.parametrize("cases", [3, 4000])
def test_at_most_a_thousand_predictions_are_drawn(cases):
    measured = np.arange(cases, 0, -1.0)
    told = figures.predicted_points(pd.DataFrame({"measured": measured, "predicted": measured}))
    assert len(told) == min(cases, 1000)
    assert told["measured"].iloc[[0, -1]].tolist() == [1.0, cases]
