"""What verdicts say of themselves: sentences, labelled comparisons, what would flip them, a warning."""

import json
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.comparisons.params import FeatureSet
from data.errors import InputError
from features.comparisons.vectors import PreparedComparisons, feature_vectors, model_columns, vector_columns
from serving.comparisons import render
from serving.comparisons.explain.counterfactuals import TRIED
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
from serving.models import ModelRef, Served
from serving.reports.verdict_lines import as_markdown, as_plain
from tests.code.comparisons.posted import comparison, drawn, posted, trained
from training.comparisons.stored import ReadyModel
from training.comparisons.train import MOST

REF = ModelRef("m", "1", "models:/m/1")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def served(directory):
    return Served(ReadyModel.read(directory), REF)


def told(served, *comparisons):
    return judge_sides(posted(*comparisons), served).verdicts


@pytest.mark.parametrize("features", get_args(FeatureSet))
def test_every_feature_of_a_set_has_a_unique_description(features):
    names = {*vector_columns(features), *model_columns(features)}
    words = {name: said(name, 2) for name in names}
    assert [name for name in names if feature_meaning(name) is None or words[name] == name] == []
    assert len({*words.values()}) == len(names)


@pytest.mark.parametrize("features", get_args(FeatureSet))
@pytest.mark.parametrize("value", [-1e9, -1.5, 0.0, 0.3, 1e9])
def test_any_value_of_any_feature_can_be_written(features, value):
    assert all(format_value(name, value) for name in vector_columns(features))


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


def test_sentences_state_shift_usual_difference_and_sample_separation(served):
    (one,) = told(served, comparison([100, 101, 102], [110, 111, 112], STEADY))
    assert one.words[:2] == (
        "median 9.9 % slower",
        "builds of this operation differ by 1.6 % (4 earlier builds)",
    )
    assert one.reason.startswith("9.9 % slower; builds of this operation differ by 1.6 %")
    assert "all 3 target samples are slower than all 3 baseline samples" in one.words


def test_without_history_sentences_state_the_assumed_variation(served):
    (one,) = told(served, comparison([100, 101, 102], [110, 111, 112]))
    usual = f"builds usually differ by {percent(2**0.5 * served.model.card.run_spread)}"
    assert one.words[1] == f"few builds of this operation are known; {usual}"
    assert one.reason.startswith(f"9.9 % slower; {usual}")


@pytest.mark.parametrize(
    ("unit", "better", "target", "said"),
    [
        ("ms", "lower", 110, "median 10.0 % slower"),
        ("ms", "lower", 90, "median 10.0 % faster"),
        ("Mop/s", "higher", 90, "median 10.0 % less throughput"),
        ("MB/s", "higher", 110, "median 10.0 % more throughput"),
        ("MiB", "lower", 110, "median 10.0 % more memory"),
        ("misses", "lower", 110, "median 10.0 % higher"),
        ("points", "higher", 90, "median 10.0 % lower"),
        ("unknown", "higher", 90, "median 10.0 % worse"),
    ],
)
def test_the_unit_decides_the_word_for_worse(served, unit, better, target, said):
    (one,) = told(served, comparison([99, 100, 101], [target - 1, target, target + 1], (), unit, better))
    assert one.words[0] == said


def test_sentences_name_the_configuration_that_moved(served):
    both = comparison([99, 100, 101], [109, 110, 111])
    both["configurations"].append(both["configurations"][0] | {"threads": 4, "target": [99.0, 100.0, 101.0]})
    (one,) = told(served, both)
    assert one.words[0] == "median 10.0 % slower at 1 thread; 1 of 2 configurations got worse"


def test_sentences_mark_facts_that_contradict_the_verdict():
    facts = Facts(
        threads=1, sign=-1.0, configurations=1, worse=1, change=-0.07, n_baseline=5, n_target=5, gap=-0.01,
        superior=0.0, noise_baseline=0.01, noise_target=0.03, low=-0.09, high=-0.05,
        variation=UsualVariation(0.012, is_measured=True),
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


SLOWER = "7.9 % slower"
SLOW = DecisiveFacts(-0.079, 0.01, 8, 1, 1, UsualVariation(0.008, is_measured=True))


@pytest.mark.parametrize(
    ("facts", "answer", "below", "unlike", "reason"),
    [
        ({}, "fail", None, False, "7.9 % slower; builds of this operation differ by 0.8 %"),
        (
            {"configurations": 4},
            "fail",
            None,
            False,
            "7.9 % slower at 8 threads; builds of this operation differ by 0.8 %",
        ),
        (
            {},
            "fail",
            None,
            True,
            "7.9 % slower; builds of this operation differ by 0.8 %; unlike the training data",
        ),
        (
            {"variation": UsualVariation(0.01, is_measured=False)},
            "fail",
            None,
            False,
            "7.9 % slower; builds usually differ by 1.0 %",
        ),
        (
            {"change": -0.006, "configurations": 4, "worse": 3},
            "fail",
            None,
            False,
            "0.6 % slower at 8 threads; 3 of 4 configurations got worse",
        ),
        ({"change": 0.02}, "fail", None, False, "2.0 % faster; other evidence speaks for a regression"),
        ({"change": 0.02}, "pass", None, False, "2.0 % faster"),
        ({"change": 0.0}, "pass", 0.005, False, "unchanged"),
        ({"change": -0.002}, "pass", 0.005, False, "0.2 % slower, below the minimum effect size of 0.5 %"),
        ({"change": -0.007}, "pass", None, False, "0.7 % slower, within the usual variation of 0.8 %"),
        ({"change": -0.009}, "pass", None, False, "0.9 % slower, within the samples' scatter of 1.0 %"),
        (
            {},
            "pass",
            None,
            False,
            "7.9 % slower, not significant; builds of this operation differ by 0.8 %",
        ),
        ({"scatter": 0.1}, "unsure", None, False, "7.9 % slower; samples scatter by 10.0 %"),
        (
            {"scatter": np.nan},
            "unsure",
            None,
            False,
            "7.9 % slower; builds of this operation differ by 0.8 %",
        ),
    ],
)
def test_the_reason_is_the_sentence_of_its_verdict(facts, answer, below, unlike, reason):
    words = write_reason(
        SLOW._replace(**facts), direction_words("ms", -1), answer, below, out_of_distribution=unlike
    )
    assert words == reason


@given(
    change=st.floats(-1e9, 1e9),
    scatter=st.floats(0, 10) | st.just(np.nan),
    threads=st.integers(1, 999_999),
    configurations=st.integers(1, 64),
    spread=st.floats(1e-3, 10),
    is_measured=st.booleans(),
    unit=st.sampled_from([("Mop/s", 1), ("MiB", -1), ("ms", -1), ("unknown", 1)]),
    answer=st.sampled_from(["pass", "fail", "unsure"]),
    below=st.none() | st.floats(0, 1),
    unlike=st.booleans(),
)
def test_no_reason_of_any_numbers_is_longer_than_allowed(
    change, scatter, threads, configurations, spread, is_measured, unit, answer, below, unlike
):
    facts = DecisiveFacts(
        change, scatter, threads, configurations, configurations, UsualVariation(spread, is_measured)
    )
    reason = write_reason(facts, direction_words(*unit), answer, below, out_of_distribution=unlike)
    assert len(reason.split()) <= MOST_WORDS
    assert not change or percent(abs(change)) in reason


def scaled(one, change, before, after):
    factor = (1 - change) * before / after
    (configuration,) = one["configurations"]
    target = [value * factor for value in configuration["target"]]
    return one | {"configurations": [configuration | {"target": target}]}


def test_a_counterfactual_change_is_the_smallest_that_flips(served):
    asked = list(drawn(40, seed=5))
    checked = 0
    for one, verdict in zip(asked, told(served, *asked), strict=True):
        if verdict.counterfactual_change is None:
            continue
        checked += 1
        nearer = 1 if verdict.verdict == "pass" else -1
        before = TRIED[np.flatnonzero(verdict.counterfactual_change == TRIED)[0] + nearer]
        medians = verdict.moved.baseline_median, verdict.moved.target_median
        there, short = told(
            served, *(scaled(one, change, *medians) for change in (verdict.counterfactual_change, before))
        )
        assert there.verdict == {"pass": "fail", "fail": "pass"}[verdict.verdict]
        beyond = (before - verdict.moved.change) * -nearer < 0
        assert beyond or short.verdict == verdict.verdict
    assert checked > 30


def test_counterfactuals_do_not_depend_on_the_batch_size(served):
    many = [*drawn(100, seed=8)]
    found = [one.counterfactual_change for one in told(served, *many)]
    assert len({*found}) > 10
    assert found[:9] == [told(served, one)[0].counterfactual_change for one in many[:9]]


def test_counterfactuals_are_worded_only_if_one_exists(served):
    slow = comparison([100, 101, 102], [120, 121, 122], STEADY)
    (fails,), (passes,) = (
        told(served, slow),
        told(served, comparison([100, 101, 102], [100, 101, 102], STEADY)),
    )
    assert (
        fails.counterfactual
        == f"would pass if the median were at most {-100 * fails.counterfactual_change:.1f} % slower"
    )
    assert passes.counterfactual == f"would fail from {-100 * passes.counterfactual_change:.1f} % slower on"
    never = replace(served.model, card=replace(served.model.card, threshold=2.0))
    (stays,) = told(Served(never, REF), slow)
    assert (stays.verdict, stays.counterfactual_change, stays.counterfactual) == ("pass", None, "")


def test_a_training_comparison_is_its_own_nearest_example(served):
    failed = next(drawn(1))
    (one,) = told(served, failed)
    first, second = one.examples
    assert (first.comparison_id, first.label, first.distance) == ("c0", "fail", pytest.approx(0, abs=1e-3))
    assert (first.labelled_by, first.labelled_at) == ("anna", "2026-11-20T09:00:00+00:00")
    assert (second.label, second.distance > 0.1) == ("pass", True)
    assert first.near.startswith("similar shift ")
    assert "other" not in first.near


def test_nearest_examples_match_an_exhaustive_search(served):
    known = served.model.examples
    asked = feature_vectors(posted(*drawn(20, seed=9)).sides)
    index, distance = known.find_nearest(asked)
    order = np.argsort(-known.weights)
    carrying = order[: np.argmax(known.weights[order].cumsum() >= 0.95) + 1]
    assert len(carrying) < len(order)
    for row, at, far in zip(asked, index, distance, strict=True):
        apart = known.distribution.squashed_deviations(row[None]) - known.distribution.squashed_deviations(
            known.rows.astype(float)
        )
        all_of_them = np.sqrt((apart[:, carrying] ** 2) @ known.weights[carrying])
        for label, chosen, own in zip(("pass", "fail"), at, far, strict=True):
            assert known.statuses[chosen] == label
            assert own == pytest.approx(all_of_them[known.statuses == label].min())
            assert own == pytest.approx(all_of_them[chosen])


def test_out_of_distribution_warnings_name_the_unusual_feature(served):
    ordinary = told(served, *drawn(200, seed=3))
    assert sum(one.out_of_distribution is not None for one in ordinary) <= 8
    rng = np.random.default_rng(1)
    values = rng.normal(100, 25, (22, 5)).clip(1)
    values[1] += 40
    noisy, bare = told(served, comparison(values[0], values[1], values[2:]), comparison(values[0], values[1]))
    assert noisy.out_of_distribution is not None
    assert (
        not noisy.out_of_distribution.low <= noisy.out_of_distribution.value <= noisy.out_of_distribution.high
    )
    assert noisy.out_of_distribution.words.startswith("unlike the training data: ")
    told_of_bare = (
        "unlike the training data: too little is known of other builds; all training comparisons have more"
    )
    assert (bare.out_of_distribution.value, bare.out_of_distribution.words) == (None, told_of_bare)


def test_json_holds_explanations_with_optional_counterfactuals(served):
    judgement = judge_sides(posted(*drawn(6, seed=2), comparison([1], [2])), served)
    answer = JudgeAnswer.model_validate_json(render.as_json(judgement))
    for one, verdict in zip(answer.verdicts, judgement.verdicts, strict=True):
        assert (tuple(one.words), one.counterfactual_change, one.counterfactual) == (
            verdict.words,
            verdict.counterfactual_change,
            verdict.counterfactual,
        )
        assert [example.model_dump() for example in one.examples] == [
            own._asdict() for own in verdict.examples
        ]
        assert (one.out_of_distribution and one.out_of_distribution.words) == (
            verdict.out_of_distribution and verdict.out_of_distribution.words
        )
    assert (answer.verdicts[-1].words, answer.verdicts[-1].examples) == ([], [])
    short = JudgeAnswer.model_validate_json(render.as_json(judgement, flipped=False))
    assert ({one.counterfactual_change for one in short.verdicts}, short.notes) == (
        {None},
        [render.UNFLIPPED],
    )


def test_tables_explain_regressions_only_on_request(served):
    judgement = judge_sides(posted(comparison([100, 101, 102], [120, 121, 122], STEADY)), served)
    (row,) = render.table_lines(judgement, ["a -> b"]).rows
    assert row.reason.startswith("19.8 % slower; builds of this operation differ by 1.6 %")
    assert row.details == ()
    table = render.table_lines(judgement, ["a -> b"], explain=True)
    (explained,) = table.rows
    assert explained.reason == row.reason
    assert any(text.startswith("would pass if the median were at most ") for text in explained.details)
    assert any(text.startswith("nearest fail: c") for text in explained.details)
    assert explained.details[0] in as_plain(table)
    listed, folded = as_markdown(table).split("<details><summary>Why</summary>")
    assert (row.reason in listed, explained.details[0] in listed, explained.details[0] in folded) == (
        True,
        False,
        True,
    )


def test_json_without_explanations_holds_only_the_reason(served):
    judgement = judge_sides(posted(*drawn(6, seed=2)), served)
    bare, full = (json.loads(render.as_json(judgement, explain=explain)) for explain in (False, True))
    explanations = {"reasons", "words", "examples", "counterfactual_change", "counterfactual"}
    for short, verdict in zip(bare["verdicts"], full["verdicts"], strict=True):
        assert verdict.keys() - short.keys() == explanations
        assert short == {name: value for name, value in verdict.items() if name not in explanations}


def test_verdicts_do_not_compute_contributions_until_they_are_read(served, monkeypatch):
    explained = []
    explain = type(served.model).predict_and_explain
    monkeypatch.setattr(
        type(served.model), "predict_and_explain", lambda *args: explained.append(1) or explain(*args)
    )
    judgement = judge_sides(posted(*drawn(6, seed=2)), served)
    render.as_json(judgement, explain=False)
    assert explained == []
    assert judgement.verdicts[0].reasons
    assert explained == [1]


def test_a_model_without_examples_still_describes_measurements(directory, tmp_path):
    for name in ("model.skops", "card.json", "model.npz"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    (one,) = told(Served(ReadyModel.read(tmp_path), REF), comparison([100, 101, 102], [110, 111, 112]))
    assert (one.words[0], one.examples, one.out_of_distribution) == ("median 9.9 % slower", (), None)


def test_examples_of_other_models_are_ignored_or_refused(directory, tmp_path):
    for path in directory.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with np.load(tmp_path / "examples.npz") as archive:
        content = dict(archive)
    np.savez(tmp_path / "examples.npz", **content | {"model_digest": np.array("other")})
    assert ReadyModel.read(tmp_path).examples is None
    np.savez(tmp_path / "examples.npz", **content | {"weights": content["weights"] * np.nan})
    with pytest.raises(InputError, match=r'examples.npz array "weights": holds nan; expected finite numbers'):
        ReadyModel.read(tmp_path)


def test_stored_examples_are_limited_and_cover_both_labels(monkeypatch, tmp_path):
    monkeypatch.setattr("training.comparisons.train.MOST", 40)
    known = ReadyModel.read(trained(tmp_path)).examples
    assert (known.statuses == "fail").sum() == (known.statuses == "pass").sum() == 20
    assert MOST == 2000
