"""Verdicts that between-run variation decides: their reasons, and the agreement of judge and compare."""

import re
from dataclasses import replace
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.pair import paired_runs
from data.comparisons.tables import Builder, Series
from data.comparisons.units import readable_unit
from features.comparisons.between_run_variation import ASSUMED
from serving.comparisons.between_runs import RunReason, share_of_baseline
from serving.comparisons.compare.weighing import judge_runs
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import describe_change, direction_words
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import load_judge, with_card
from serving.comparisons.render import judgement_summary
from serving.models import Served
from tests.code.comparisons.posted import trained_with_scores

SHARES = st.floats(1e-6, 10)


@given(
    st.sampled_from(["fail", "unsure", "pass"]),
    st.floats(-0.99, 10),
    st.tuples(SHARES, SHARES, st.just(nan) | st.floats(-3, 3), st.just(nan) | SHARES),
    st.sampled_from([("ms", -1.0), ("op/s", 1.0), ("MiB", -1.0), ("points", 1.0)]),
)
def test_a_reason_by_runs_has_at_most_fifteen_words(answer, change, shares, unit):
    words = direction_words(*unit)
    sentence = RunReason(answer, *shares, unit[1]).in_words(describe_change(change, words), words)
    assert sentence.startswith(describe_change(change, words))
    assert len(sentence.split()) <= 15


@pytest.mark.parametrize(
    ("ratio", "sign", "share"), [(2.0, -1.0, -1.0), (0.5, -1.0, 0.5), (0.5, 1.0, -0.5), (2.0, 1.0, 1.0)]
)
def test_a_shift_is_a_share_of_the_baseline_in_either_direction(ratio, sign, share):
    assert share_of_baseline(sign * np.log(ratio), sign) == pytest.approx(share)


def run(levels, seed, samples=6):
    rng, builder = np.random.default_rng(seed), Builder()
    for name, level in levels.items():
        series = Series(name, "b", "b", name, "m", "ms", "lower", 1)
        values = level * (1 + 0.01 * rng.standard_normal(samples))
        builder.results.add_values(series, 0, str(seed), values.tolist())
    return builder.take_tables().results


@given(st.floats(-0.2, 0.3), st.integers(1, 3), st.sampled_from([0, 3, 9]), st.integers(0, 10_000))
@settings(max_examples=60)
def test_judge_and_compare_agree_on_few_operations(served, change, operations, earlier, seed):
    levels = {f"o{number}": 10.0 * (number + 1) for number in range(operations)}
    history = [run(levels, seed + 2 + number) for number in range(earlier)]
    slower = {name: level * (1 + change) for name, level in levels.items()}
    tables = paired_runs([run(levels, seed)], [run(slower, seed + 1)], history).tables
    compared, judged = (
        [(one.verdict, one.probability, one.reason) for one in judgement.verdicts]
        for judgement in (judge_runs(tables, served, ASSUMED).judgement, judge_tables(tables, served))
    )
    assert compared == judged


#: Samples of operations that cannot be judged.
UNUSABLE = {
    "zero": [0.0, 5.0, 5.1, 5.2, 9.0],
    "negative": [-9.0, -5.1, -5.0, -4.9, -4.8],
    "infinite": [5.0, 5.1, 5.2, 5.3, 9.0, np.inf],
}


def with_unusable(results, kinds, factor=1.0):
    builder = Builder()
    for number, kind in enumerate(kinds):
        series = Series(f"u{number}", "b", "b", f"u{number}", "m", "ms", "lower", 1)
        builder.results.add_values(series, 0, "0", [factor * value for value in UNUSABLE[kind]])
    return pd.concat([results, builder.take_tables().results], ignore_index=True)


@given(
    st.integers(0, 7),
    st.lists(st.sampled_from([*UNUSABLE]), min_size=1, max_size=7),
    st.floats(0.5, 2),
    st.sampled_from([(1, 0), (1, 4), (3, 0)]),
    st.integers(0, 10_000),
)
@settings(max_examples=40)
def test_invalid_operations_change_nothing_about_the_others(served, number, kinds, factor, runs, seed):
    levels = {f"o{at}": 10.0 * (at + 1) for at in range(number)}
    slower = {name: level * (1.03 if name == "o0" else 1) for name, level in levels.items()}
    bare = [
        [run(side, seed + 10 * at + place) for place in range(count)]
        for at, (side, count) in enumerate(((levels, runs[0]), (slower, runs[0]), (levels, runs[1])))
    ]
    added = [
        [with_unusable(one, kinds, factor if at == 1 else 1.0) for one in side]
        for at, side in enumerate(bare)
    ]
    many = judge_runs(paired_runs(*added).tables, served, ASSUMED)
    assert set(many.judgement.answers[number:]) == {"invalid"}
    assert all(np.isnan(column[number:]).all() for column in many.changes)
    if number:
        few = judge_runs(paired_runs(*bare).tables, served, ASSUMED)
        assert (many.whole, many.judgement.notes) == (few.whole, few.judgement.notes)
        found, alone = (
            [(one.verdict, one.probability, one.reason) for one in each.judgement.verdicts]
            for each in (many, few)
        )
        assert found[:number] == alone
        np.testing.assert_array_equal(np.array(many.changes)[:, :number], few.changes)


@given(st.integers(1, 12), st.integers(0, 12))
@settings(max_examples=30)
def test_operations_whose_level_underflows_do_not_count(served, tiny, usual):
    samples, sides = [[5e-324] * 4] * tiny + [[10.0, 10.1, 10.2]] * usual, []
    for factor in (1, 2):
        builder = Builder()
        for number, values in enumerate(samples):
            series = Series(f"o{number}", "b", "b", f"o{number}", "m", "ms", "lower", 1)
            builder.results.add_values(series, 0, "0", [factor * value for value in values])
        sides.append([builder.take_tables().results])
    found = judge_runs(paired_runs(*sides).tables, served, ASSUMED)
    assert bool(found.whole) == (usual >= 5)
    assert np.isnan(found.changes.detectable).tolist() == [True] * tiny + [False] * usual


@given(st.floats(0.11, 0.5), st.floats(0.01, 0.5), st.integers(0, 10_000))
@settings(max_examples=30)
def test_a_reason_by_the_whole_run_states_both_changes(served, whole, own, seed):
    levels = {f"o{number}": 10.0 * (number + 1) for number in range(12)}
    slower = {name: level * (1 + (own if name == "o0" else whole)) for name, level in levels.items()}
    tables = paired_runs([run(levels, seed)], [run(slower, seed + 1)]).tables
    found = judge_runs(tables, served, ASSUMED)
    failed = [one for one in found.judgement.verdicts if one.verdict == "fail"]
    assert len(failed) >= 11
    for one in failed:
        stated = re.match(r"(.*) slower, the run (.*) % slower; ", one.reason)
        assert stated[1] == percent(-one.moved.change)
        assert float(stated[2]) == pytest.approx(-100 * found.whole["m"], abs=0.5)


@given(st.floats(-0.01, 0.12), st.integers(1, 7), st.sampled_from([0, 9]), st.integers(0, 10_000))
@settings(max_examples=30)
def test_a_counterfactual_of_compare_flips_its_verdict(served, change, number, earlier, seed):
    levels = {f"o{at}": 10.0 * (at + 1) for at in range(number)}
    before, history = [run(levels, seed)], [run(levels, seed + 2 + at) for at in range(earlier)]
    after = run(levels, seed + 1)
    after.loc[after["operation"] == "o0", "value"] *= 1 + change

    def judged(target, assumed=ASSUMED):
        return judge_runs(paired_runs(before, [target], history).tables, served, assumed).judgement.verdicts

    first, *others = judged(after)
    is_many = number >= 5
    assert not is_many or {one.counterfactual_change for one in (first, *others)} == {None}
    assert (first.counterfactual == "") == (first.counterfactual_change is None)
    assert judged(after, 0)[0].counterfactual_change is not None
    if first.counterfactual_change is not None:
        medians = first.moved.baseline_median, first.moved.target_median
        is_first = after["operation"] == "o0"
        after.loc[is_first, "value"] *= (1 - first.counterfactual_change) * medians[0] / medians[1]
        assert judged(after)[0].verdict == ("pass" if first.verdict == "fail" else "fail")


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
def test_verdicts_of_many_operations_are_equal_at_every_base_rate(tmp_path, rate):
    served, rng = load_judge(str(trained_with_scores(tmp_path))), np.random.default_rng(3)
    names, slower = [f"o{number}" for number in range(40)], 1 + 0.1 * (np.arange(40) % 10 == 0)
    levels = [10 * np.exp(0.01 * rng.standard_normal(40)) * factor for factor in (1, slower)]
    sides = [[run(dict(zip(names, side, strict=True)), seed)] for seed, side in enumerate(levels)]
    tables, card = paired_runs(*sides).tables, served.model.card.at_base_rate(rate)
    plain, moved = (judge_runs(tables, one, ASSUMED).judgement for one in (served, with_card(served, card)))
    assert plain.answers.tolist() == moved.answers.tolist()
    assert {"fail", "pass"} <= set(plain.answers)
    assert not np.allclose(plain.probability, moved.probability)


def test_the_summary_counts_verdicts_that_only_runs_make_unsure(served):
    card = replace(served.model.card, threshold=0.05)
    tables = paired_runs([run({"o": 10.0}, 0)], [run({"o": 10.2}, 1)]).tables
    judgement = judge_tables(tables, Served(replace(served.model, card=card), served.ref))
    (verdict,) = judgement.verdicts
    assert (verdict.decided_by, verdict.threshold) == ("between_run_variation", verdict.unsure_from)
    summary = judgement_summary(judgement)
    assert summary.startswith("1 comparison: 0 fail, 1 unsure, 0 pass, 0 invalid (model m 7, fail from a ")
    assert "unsure from" not in summary


def test_medians_are_shown_in_a_readable_unit():
    for value, unit, shown in (
        (0.0002169, "s", "216.9 us"),
        (4138.0, "us", "4.138 ms"),
        (0.5, "ns", "500 ps"),
        (2.5e9, "op/s", "2.5 Gop/s"),
        (3.0, "points", "3 points"),
        (0.0, "s", "0 s"),
    ):
        name, factor = readable_unit(value, unit)
        assert f"{value * factor:.4g} {name}" == shown
