"""What verdicts say of themselves: contributions of features, sentences, examples, what would flip them."""

import json
import operator
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from data.comparisons.params import FeatureSet
from data.errors import InputError
from features.comparisons.vectors import PreparedComparisons, feature_vectors, model_columns, vector_columns
from serving.comparisons import render
from serving.comparisons.explain.counterfactuals import TRIED
from serving.comparisons.explain.explanations import strongest_features
from serving.comparisons.explain.features import describe_feature as said
from serving.comparisons.explain.features import feature_meaning, format_value, percent
from serving.comparisons.explain.sentences import (
    MOST_WORDS,
    DecisiveFacts,
    EarlierBuilds,
    Facts,
    UsualVariation,
    direction_words,
    write_reason,
    write_sentences,
)
from serving.comparisons.judge import judge_sides
from serving.comparisons.schemas import JudgeAnswer
from serving.models import Served
from tests.code.comparisons.posted import comparison, drawn, posted, served_model, standardised, trained
from training.comparisons.stored import ReadyModel
from training.comparisons.train import _choose_examples


def told(explaining, *comparisons):
    return judge_sides(posted(*comparisons), explaining).verdicts


@pytest.mark.parametrize("features", get_args(FeatureSet))
def test_every_feature_has_a_unique_description_and_readable_values(features):
    columns = vector_columns(features)
    words = {name: said(name, 2) for name in (*columns, *model_columns(features))}
    assert [name for name, told in words.items() if feature_meaning(name) is None or told == name] == []
    assert len({*words.values()}) == len(words)
    assert all(format_value(name, value) for name in columns for value in (-1e9, -1.5, 0.0, 0.3, 1e9))


def test_later_versions_are_mentioned_if_the_model_uses_them():
    one = comparison([100, 101, 102], [110, 111, 112], STEADY)
    one["configurations"][0]["later"] = [[108.0, 109.0], [0.0], [111.0]]
    asked = PreparedComparisons.from_sides(posted(one).sides)
    told = partial(write_sentences, Facts.from_comparison(asked, 0), direction_words("ms", -1), "fail")
    after = "the median of what came after the target is 8.7 % slower (2 builds)"
    assert told([("later", 1.0)])[2:] == (after,)
    assert told([("levels", 1.0), ("later", -1.0)])[3:] == (after,)
    bare = Facts.from_comparison(PreparedComparisons.from_sides(posted(comparison([1, 1], [2, 2])).sides), 0)
    assert len(write_sentences(bare, direction_words("ms", -1), "fail", [("later", 1.0)])) == 2


STEADY = [[100, 101, 102], [102, 103, 104], [100, 101, 102], [102, 103, 104]]


@pytest.mark.parametrize(
    ("unit", "better", "target", "said"),
    [
        ("ms", "lower", 110, "median 10.0 % slower"),
        ("ms", "lower", 90, "median 10.0 % faster"),
        ("Mop/s", "higher", 90, "median 10.0 % less throughput"),
        ("MiB", "lower", 110, "median 10.0 % more memory"),
        ("misses", "lower", 110, "median 10.0 % higher"),
        ("points", "higher", 90, "median 10.0 % lower"),
        ("unknown", "higher", 90, "median 10.0 % worse"),
    ],
)
def test_the_unit_decides_the_word_for_worse(explaining, unit, better, target, said):
    (one,) = told(explaining, comparison([99, 100, 101], [target - 1, target, target + 1], (), unit, better))
    assert one.words[0] == said


def test_sentences_mark_facts_that_contradict_the_verdict():
    variation = UsualVariation(0.012, is_measured=True)
    facts = Facts(
        DecisiveFacts(-0.07, scatter=0.03, threads=1, configurations=1, worse=1, variation=variation),
        sign=-1.0, n_baseline=5, n_target=5, gap=-0.01, superior=0.0, noise_baseline=0.01,
        noise_target=0.03, low=-0.09, high=-0.05,
        past=EarlierBuilds(steps=20, larger=0, builds=21, as_bad=2, trend=-0.03, earlier=20),
    )  # fmt: skip
    leaning = [("separation", 0.4), ("spread", -0.3), ("levels", -0.2), ("steps", 0.1), ("trend", 0.001)]
    assert write_sentences(facts, direction_words("ms", -1), "fail", leaning) == (
        "median 7.0 % slower",
        "builds of this operation differ by 1.2 % (20 earlier builds)",
        "all 5 target samples are slower than all 5 baseline samples",
        "of 20 steps between earlier builds none was as large",
        "against a regression: the target scatters 3.0 times as much as the baseline",
    )


SLOW = DecisiveFacts(-0.079, 0.01, 8, 1, 1, UsualVariation(0.008, is_measured=True))
BUILDS = "builds of this operation differ by 0.8 %"


@pytest.mark.parametrize(
    ("facts", "answer", "reason"),
    [
        ({}, "fail", f"7.9 % slower; {BUILDS}"),
        ({"configurations": 4}, "fail", f"7.9 % slower at 8 threads; {BUILDS}"),
        ({"variation": UsualVariation(0.01, False)}, "fail", "7.9 % slower; builds usually differ by 1.0 %"),
        (
            {"change": -0.006, "configurations": 4, "worse": 3},
            "fail",
            "0.6 % slower at 8 threads; 3 of 4 configurations got worse",
        ),
        ({"change": 0.02}, "fail", "2.0 % faster; other evidence speaks for a regression"),
        ({"change": 0.02}, "pass", "2.0 % faster"),
        ({"change": -0.007}, "pass", "0.7 % slower, within the usual variation of 0.8 %"),
        ({"change": -0.009}, "pass", "0.9 % slower, within the samples' scatter of 1.0 %"),
        ({}, "pass", f"7.9 % slower, not significant; {BUILDS}"),
        ({"scatter": 0.1}, "unsure", "7.9 % slower; samples scatter by 10.0 %"),
        ({"scatter": np.nan}, "unsure", f"7.9 % slower; {BUILDS}"),
    ],
)
def test_the_reason_is_the_sentence_of_its_verdict(facts, answer, reason):
    assert write_reason(SLOW._replace(**facts), direction_words("ms", -1), answer) == reason


def test_reasons_mention_minimum_effect_size_and_unlike_training_data():
    words = direction_words("ms", -1)
    small, same = (write_reason(SLOW._replace(change=change), words, "pass", 0.005) for change in (-0.002, 0))
    assert (small, same) == ("0.2 % slower, below the minimum effect size of 0.5 %", "unchanged")
    # a larger change passes where earlier runs reach the target
    reached = write_reason(SLOW, words, "pass", 0.005)
    assert reached == "7.9 % slower, at the level of earlier builds; builds differ by 0.8 %"
    unlike = write_reason(SLOW, words, "fail", out_of_distribution=True)
    assert unlike == f"7.9 % slower; {BUILDS}; unlike the training data"


@given(
    st.builds(
        DecisiveFacts,
        change=st.floats(-1e9, 1e9),
        scatter=st.floats(0, 10) | st.just(np.nan),
        threads=st.integers(1, 999_999),
        configurations=st.integers(1, 64),
        worse=st.integers(1, 64),
        variation=st.builds(UsualVariation, st.floats(1e-3, 10), st.booleans()),
    ),
    st.sampled_from([("Mop/s", 1), ("MiB", -1), ("ms", -1), ("unknown", 1)]),
    st.sampled_from(["pass", "fail", "unsure"]),
    st.none() | st.floats(0, 1),
    st.booleans(),
)
def test_no_reason_of_any_numbers_is_longer_than_allowed(facts, unit, answer, below, unlike):
    reason = write_reason(facts, direction_words(*unit), answer, below, out_of_distribution=unlike)
    assert len(reason.split()) <= MOST_WORDS
    assert not facts.change or percent(abs(facts.change)) in reason


def scaled(one, change, moved):
    factor = (1 - change) * moved.baseline_median / moved.target_median
    (configuration,) = one["configurations"]
    target = [value * factor for value in configuration["target"]]
    return one | {"configurations": [configuration | {"target": target}]}


def test_a_counterfactual_change_is_the_smallest_that_flips(explaining):
    asked = list(drawn(40, seed=5))
    judged = zip(asked, told(explaining, *asked), strict=True)
    found = [pair for pair in judged if pair[1].counterfactual_change is not None]
    assert len(found) > 30
    for one, verdict in found:
        flips, nearer = verdict.counterfactual_change, 1 if verdict.verdict == "pass" else -1
        before = TRIED[np.flatnonzero(flips == TRIED)[0] + nearer]
        there, short = told(explaining, *(scaled(one, change, verdict.moved) for change in (flips, before)))
        assert there.verdict == {"pass": "fail", "fail": "pass"}[verdict.verdict]
        beyond = (before - verdict.moved.change) * -nearer < 0
        assert beyond or short.verdict == verdict.verdict


def test_counterfactuals_do_not_depend_on_the_batch_size(explaining):
    many = [*drawn(100, seed=8)]
    found = [one.counterfactual_change for one in told(explaining, *many)]
    assert len({*found}) > 10
    assert found[:9] == [told(explaining, one)[0].counterfactual_change for one in many[:9]]


def test_counterfactuals_are_worded_only_if_one_exists(explaining):
    slow, same = (comparison([100, 101, 102], [at, at + 1, at + 2], STEADY) for at in (120, 100))
    fails, passes = told(explaining, slow, same)
    limits = [f"{-100 * one.counterfactual_change:.1f} % slower" for one in (fails, passes)]
    assert fails.counterfactual == f"would pass if the median were at most {limits[0]}"
    assert passes.counterfactual == f"would fail from {limits[1]} on"
    never = replace(explaining.model, card=replace(explaining.model.card, threshold=2.0))
    (stays,) = told(Served(never, explaining.ref), slow)
    assert (stays.verdict, stays.counterfactual_change, stays.counterfactual) == ("pass", None, "")


def test_nearest_examples_match_an_exhaustive_search(explaining):
    known = explaining.model.examples
    asked = feature_vectors(posted(*drawn(20, seed=9)).sides)
    order = np.argsort(-known.weights)
    carrying = order[: np.argmax(known.weights[order].cumsum() >= 0.95) + 1]
    assert len(carrying) < len(order)
    place = known.distribution.squashed_deviations
    for row, at, far in zip(asked, *known.find_nearest(asked), strict=True):
        apart = place(row[None]) - place(known.rows.astype(float))
        all_of_them = np.sqrt((apart[:, carrying] ** 2) @ known.weights[carrying])
        for label, chosen, own in zip(("pass", "fail"), at, far, strict=True):
            assert known.statuses[chosen] == label
            assert own == pytest.approx(all_of_them[known.statuses == label].min())
            assert own == pytest.approx(all_of_them[chosen])


def test_out_of_distribution_warnings_name_the_unusual_feature(explaining):
    ordinary = told(explaining, *drawn(200, seed=3))
    assert sum(one.out_of_distribution is not None for one in ordinary) <= 8
    values = np.random.default_rng(1).normal(100, 25, (22, 5)).clip(1)
    values[1] += 40
    both = told(explaining, comparison(*values[:2], values[2:]), comparison(*values[:2]))
    noisy, bare = (one.out_of_distribution for one in both)
    assert not noisy.low <= noisy.value <= noisy.high
    assert noisy.words.startswith("unlike the training data: ")
    lacking = "too little is known of other builds; all training comparisons have more"
    assert (bare.value, bare.words) == (None, f"unlike the training data: {lacking}")


def test_json_without_explanations_holds_and_computes_only_the_reason(explaining, monkeypatch):
    explained, kind = [], type(explaining.model)
    explain = kind.predict_and_explain
    monkeypatch.setattr(kind, "predict_and_explain", lambda *args: explained.append(1) or explain(*args))
    judgement = judge_sides(posted(*drawn(6, seed=2), comparison([1], [2])), explaining)
    bare = json.loads(render.as_json(judgement, explain=False))
    assert explained == []
    full = json.loads(render.as_json(judgement))
    assert explained == [1]
    explanations = {"reasons", "words", "examples", "counterfactual_change", "counterfactual"}
    for short, verdict in zip(bare["verdicts"], full["verdicts"], strict=True):
        assert verdict.keys() - short.keys() == explanations
        assert short == {name: value for name, value in verdict.items() if name not in explanations}
    unflipped = JudgeAnswer.model_validate_json(render.as_json(judgement, flipped=False))
    assert {one.counterfactual_change for one in unflipped.verdicts} == {None}
    assert unflipped.notes == [render.UNFLIPPED]


def test_models_without_own_examples_describe_measurements(explaining, model_directory, tmp_path):
    for name in ("model.skops", "card.json", "model.npz"):
        (tmp_path / name).write_bytes((model_directory / name).read_bytes())
    bare = Served(ReadyModel.read(tmp_path), explaining.ref)
    (one,) = told(bare, comparison([100, 101, 102], [110, 111, 112]))
    assert (one.words[0], one.examples, one.out_of_distribution) == ("median 9.9 % slower", (), None)
    with np.load(model_directory / "examples.npz") as archive:
        content = dict(archive)
    np.savez(tmp_path / "examples.npz", **content | {"model_digest": np.array("other")})
    assert ReadyModel.read(tmp_path).examples is None
    np.savez(tmp_path / "examples.npz", **content | {"weights": content["weights"] * np.nan})
    with pytest.raises(InputError, match=r'examples.npz array "weights": holds nan; expected finite numbers'):
        ReadyModel.read(tmp_path)


def test_stored_examples_are_few_and_different_and_cover_both_labels(explaining, monkeypatch, tmp_path):
    monkeypatch.setattr("training.comparisons.train.MOST", 40)
    known = ReadyModel.read(trained(tmp_path)).examples
    assert (known.statuses == "fail").sum() == (known.statuses == "pass").sum() == 20
    rows, failed = np.array([[np.nan, 1.0], [2.0, 1.0]] * 2), np.array([0, 1, 0, 1])
    assert _choose_examples(explaining.model, rows, failed).tolist() == [0, 1]


NAMES = ("worse", "noise", "idle")


def fitted_on(classifier):
    """Fit on data where a small ``worse`` means fail and the other two features mean nothing."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(400, 3))
    columns[::50, 1] = np.nan
    fails = columns[:, 0] + 0.3 * rng.normal(size=400) < -0.5
    return served_model(standardised(classifier).fit(columns, fails.astype(int)), NAMES).model


@pytest.fixture
def features():
    columns = np.random.default_rng(1).normal(size=(50, 3))
    columns[3, NAMES.index("noise")] = np.nan
    return columns


def log_odds(model, features):
    probability = model.predict_probability(features)
    return np.log(probability / (1 - probability))


CLASS_NAME = operator.attrgetter("__class__.__name__")
LINEAR, NEIGHBOURS = LogisticRegression(), KNeighborsClassifier(5)
BOOSTING = XGBClassifier(n_estimators=20, max_depth=3, nthread=1)
TREES = [
    DecisionTreeClassifier(min_samples_leaf=3, class_weight={0: 1, 1: 4}, random_state=0),
    RandomForestClassifier(30, class_weight={0: 1, 1: 4}, random_state=0),
    ExtraTreesClassifier(30, random_state=0),
]


@pytest.mark.parametrize("classifier", [LINEAR, BOOSTING, *TREES], ids=CLASS_NAME)
def test_contributions_sum_to_the_prediction_minus_a_constant(classifier, features):
    model = fitted_on(classifier)
    probability, found = model.predict_and_explain(features)
    assert model.unit == ("probability" if classifier in TREES else "log-odds")
    if classifier in TREES:
        constant = probability - found.sum(axis=1)
        expected, error = model.answering.value[model.answering.roots].mean(), 1e-12
    else:
        constant = log_odds(model, features) - found.sum(axis=1)
        reference = log_odds(model, model.reference_features[None])[0]
        expected, error = (reference, 1e-7) if classifier is LINEAR else (constant[0], 1e-4)
    np.testing.assert_allclose(constant, expected, atol=error)


def test_other_models_attribute_by_replacing_features_with_the_reference(features):
    model = fitted_on(NEIGHBOURS)
    probability, found = model.predict_and_explain(features)
    ordinary = features.copy()
    ordinary[:, 0] = model.reference_features[0]
    assert model.unit == "probability"
    np.testing.assert_allclose(found[:, 0], probability - model.predict_probability(ordinary))


@pytest.mark.parametrize("classifier", [LINEAR, BOOSTING, *TREES, NEIGHBOURS], ids=CLASS_NAME)
def test_the_causal_feature_has_the_largest_positive_contribution(classifier):
    _, found = fitted_on(classifier).predict_and_explain(np.array([[-2.0, 0.1, 0.1], [2.0, 0.1, 0.1]]))
    assert strongest_features(found, 1)[0] == [0]
    assert found[0, 0] > 0 >= found[1, 0]


def test_reasons_are_sorted_by_absolute_contribution():
    values = np.array([[0.1, -0.5, 0.3], [0.0, 0.2, -0.1]])
    assert strongest_features(values, 2).tolist() == [[1, 2], [1, 2]]
    assert strongest_features(values, 9).tolist() == [[1, 2, 0], [1, 2, 0]]
    assert strongest_features(values[:0], 2).shape == (0, 2)
