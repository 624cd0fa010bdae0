"""Between-run variation: shifts of builds, their errors, and verdicts that they decide."""

import re
from dataclasses import replace
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.drift import Circumstances, Project
from data.comparisons.pair import MatchedOperations, paired_runs
from data.comparisons.sides import Sides
from data.comparisons.tables import Builder, Series
from data.comparisons.units import readable_unit
from features.comparisons.between_run_variation import ASSUMED, build_shifts, share_of_baseline
from features.comparisons.earlier_runs import without_outlying_runs
from features.comparisons.run_levels import RunLevels
from features.comparisons.run_shifts import DOUBTED, RunShifts
from serving.comparisons.between_runs import adjust_to_runs
from serving.comparisons.compare.rows import compared_rows
from serving.comparisons.compare.weighing import judge_runs, outcomes_from_zero
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import describe_change, direction_words
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import with_card
from serving.comparisons.render import judgement_summary
from serving.comparisons.run_reasons import RunReason
from serving.models import Served
from training.evaluation.thresholds import DecisionPolicy

SHARES = st.floats(1e-6, 10)
SEEDS = st.integers(0, 10_000)


@given(
    st.sampled_from(["fail", "unsure", "pass", "better"]),
    st.floats(-0.99, 10),
    st.tuples(SHARES, SHARES, st.just(nan) | st.floats(-3, 3), st.just(nan) | SHARES),
    st.sampled_from([("ms", -1.0), ("op/s", 1.0), ("MiB", -1.0), ("points", 1.0)]),
    st.booleans(),
)
def test_a_reason_by_runs_has_at_most_fifteen_words(answer, change, shares, unit, at_level):
    words = direction_words(*unit)
    reason = RunReason(answer, *shares, unit[1], at_level=at_level)
    sentence = reason.in_words(describe_change(change, words), words, change)
    assert sentence.startswith(describe_change(change, words))
    assert len(sentence.split()) <= 15


@pytest.mark.parametrize(("change", "words"), [(0.004, "0.4 % faster"), (-0.002, "0.2 % slower")])
def test_doubt_in_a_faster_run_names_the_other_operations(change, words):
    times = direction_words("ms", -1.0)
    reason = RunReason("unsure", 0.001, 0.005, -np.log(0.99), nan, -1.0)
    said = reason.in_words(describe_change(change, times), times)
    assert said == f"{words}, but the other operations 1.0 % faster"


@pytest.mark.parametrize(
    ("share", "at_level", "reason"),
    [
        (-0.03, False, "3.0 % slower; within the usual variation of 4.0 %"),
        (-0.08, False, "8.0 % slower; not significant where builds differ by 4.0 %"),
        (-0.08, True, "8.0 % slower; at the level of earlier builds; builds differ by 4.0 %"),
    ],
)
def test_a_pass_names_only_limits_that_its_change_is_within(share, at_level, reason):
    times = direction_words("ms", -1.0)
    passed = RunReason("pass", 0.04, 0.1, 0.0, nan, -1.0, at_level)
    assert passed.in_words(describe_change(share, times), times, share) == reason


@pytest.mark.parametrize(
    ("ratio", "sign", "share"), [(2.0, -1.0, -1.0), (0.5, -1.0, 0.5), (0.5, 1.0, -0.5), (2.0, 1.0, 1.0)]
)
def test_a_shift_is_a_share_of_the_baseline_in_either_direction(ratio, sign, share):
    assert share_of_baseline(sign * np.log(ratio), sign) == pytest.approx(share)


def results_of(samples, version="0", unit="ms"):
    """Return results of a run; samples are by operation, or by the number of threads of one operation."""
    builder = Builder()
    for key, values in samples.items():
        name, threads = ("x", key) if isinstance(key, int) else (key, 1)
        series = Series(name, "b", "b", name, "m", unit, "lower", threads)
        builder.results.add_values(series, 0, version, list(values))
    return builder.take_tables().results


def levels_of(number, change=0.0, others=0.0):
    """Return levels of operations, of which the first is slower by the share `change`."""
    return {f"o{at}": 10.0 * (at + 1) * (1 + (others if at else change)) for at in range(number)}


def run(levels, seed, samples=6):
    rng = np.random.default_rng(seed)
    noise = {name: 1 + 0.01 * rng.standard_normal(samples) for name in levels}
    return results_of({name: level * noise[name] for name, level in levels.items()}, str(seed))


def builds(number, seed, change=0.0, others=0.0, earlier=0):
    """Return the runs of a baseline, of a target whose first operation is slower by `change`, and before."""
    levels, slower = levels_of(number), levels_of(number, change, others)
    return [run(levels, seed)], [run(slower, seed + 1)], [run(levels, seed + 2 + at) for at in range(earlier)]


def judged(served, before, after, history=(), assumed=ASSUMED):
    return judge_runs(paired_runs(before, after, history).tables, served, assumed)


def said(judgement):
    return [(one.verdict, one.probability, one.reason) for one in judgement.verdicts]


@given(st.floats(-0.2, 0.3), st.integers(1, 3), st.sampled_from([0, 3, 9]), SEEDS)
@settings(max_examples=12)
def test_judge_and_compare_agree_on_few_operations(served, change, operations, earlier, seed):
    tables = paired_runs(*builds(operations, seed, change, change, earlier)).tables
    assert said(judge_runs(tables, served, ASSUMED).judgement) == said(judge_tables(tables, served))


@given(st.integers(5, 11), st.sampled_from([0, 3, 10]), SEEDS)
@settings(max_examples=12)
def test_changes_of_half_of_few_operations_do_not_hide_each_other(served, number, earlier, seed):
    before, _, history = builds(number, seed, earlier=earlier)
    factors = dict(zip(levels_of(number), (1.3, 0.7, 1.25, 0.75, 1.35)[: number // 2], strict=False))
    after = run({name: level * factors.get(name, 1.0) for name, level in levels_of(number).items()}, seed + 1)
    verdicts = dict(
        zip(levels_of(number), judged(served, before, [after], history).judgement.answers, strict=True)
    )
    slower = [verdicts[name] for name, factor in factors.items() if factor > 1]
    assert slower == ["fail"] * len(slower)


@given(st.lists(st.floats(-0.5, 1.0), min_size=2, max_size=3), st.floats(0.001, 0.1), SEEDS)
@settings(max_examples=15)
def test_the_interval_of_a_row_is_of_the_change_that_it_shows(served, changes, scatter, seed):
    rng = np.random.default_rng(seed)
    levels = {2**at: 10.0 / 2**at for at in range(len(changes))}
    slower = {key: level * (1 + by) for (key, level), by in zip(levels.items(), changes, strict=True)}
    sides = [
        results_of({key: one[key] * np.exp(scatter * rng.standard_normal(6)) for key in one})
        for one in (levels, slower)
    ]
    tables = paired_runs(*([side] for side in sides)).tables
    found = judge_runs(tables, served, ASSUMED)
    (row,) = compared_rows(found, tables, [""], [None], MatchedOperations())
    assert row.interval[0] <= row.move.change <= row.interval[1]
    medians = [side[side["threads"] == row.move.threads]["value"].median() for side in sides]
    assert row.move.change == pytest.approx(1 - medians[1] / medians[0], abs=0.02)


@given(st.floats(-0.3, 0.3), st.integers(5, 9), st.sampled_from([0, 9]), SEEDS)
@settings(max_examples=12)
def test_promised_limits_of_errors_hold_where_runs_decide(served, change, number, earlier, seed):
    for limit, kept, lost in (("negative", "fail", "pass"), ("positive", "pass", "fail")):
        policy = DecisionPolicy(**{f"max_false_{limit}_rate": 0.05})
        limited = with_card(served, replace(served.model.card, policy=policy))
        found = judged(limited, *builds(number, seed, change, earlier=earlier))
        assert lost not in found.judgement.answers[np.isin(found.judged, [kept, "unsure"])]


#: Samples of operations that cannot be judged.
UNUSABLE = {
    "zero": [0.0, 5.0, 5.1, 5.2, 9.0],
    "negative": [-9.0, -5.1, -5.0, -4.9, -4.8],
    "infinite": [5.0, 5.1, 5.2, 5.3, 9.0, np.inf],
}


@given(
    st.integers(0, 7),
    st.lists(st.sampled_from([*UNUSABLE]), min_size=1, max_size=7),
    st.floats(0.5, 2),
    st.sampled_from([(1, 0), (1, 4), (3, 0)]),
    SEEDS,
)
@settings(max_examples=15)
def test_invalid_operations_change_nothing_about_the_others(served, number, kinds, factor, runs, seed):
    bare = [
        [run(levels_of(number, slower), seed + 10 * at + place) for place in range(count)]
        for at, (slower, count) in enumerate(((0.0, runs[0]), (0.03, runs[0]), (0.0, runs[1])))
    ]
    unusable = results_of({f"u{at}": UNUSABLE[kind] for at, kind in enumerate(kinds)})
    moved = unusable.assign(value=factor * unusable["value"])
    added = [
        [pd.concat([one, more], ignore_index=True) for one in side]
        for side, more in zip(bare, (unusable, moved, unusable), strict=True)
    ]
    many = judged(served, *added)
    assert set(many.judgement.answers[number:]) == {"invalid"}
    assert all(np.isnan(column[number:]).all() for column in many.changes)
    if number:
        few = judged(served, *bare)
        assert (many.whole, many.judgement.notes) == (few.whole, few.judgement.notes)
        assert said(many.judgement)[:number] == said(few.judgement)
        np.testing.assert_array_equal(np.array(many.changes)[:, :number], few.changes)


@given(st.integers(1, 12), st.integers(0, 12))
@settings(max_examples=8)
def test_operations_whose_level_underflows_do_not_count(served, tiny, usual):
    samples = [np.array([5e-324] * 4)] * tiny + [np.array([10.0, 10.1, 10.2])] * usual
    sides = [[results_of({f"o{at}": by * values for at, values in enumerate(samples)})] for by in (1, 2)]
    found = judged(served, *sides)
    assert bool(found.whole) == (usual >= 5)
    assert np.isnan(found.changes.detectable).tolist() == [True] * tiny + [False] * usual


@given(st.floats(0.11, 0.5), st.floats(-0.3, 0.5), SEEDS)
@example(0.5, 0.01, 2116)
@settings(max_examples=12)
def test_only_slower_operations_of_a_slower_run_fail_and_both_changes_are_stated(served, whole, own, seed):
    found = judged(served, *builds(12, seed, own, whole))
    failed = [one for one in found.judgement.verdicts if one.verdict == "fail"]
    assert len(failed) >= 11
    for one in failed:
        assert one.moved.change < 0
        stated = re.match(r"(.*) slower, the run (.*) % slower; ", one.reason)
        assert stated[1] == percent(-one.moved.change)
        assert float(stated[2]) == pytest.approx(-100 * found.whole["m"], abs=0.06)


@given(st.floats(-0.01, 0.12), st.integers(1, 7), st.sampled_from([0, 9]), SEEDS)
@settings(max_examples=12)
def test_a_counterfactual_of_compare_flips_its_verdict(served, change, number, earlier, seed):
    before, (after,), history = builds(number, seed, change, earlier=earlier)

    def verdicts(assumed=ASSUMED):
        return judged(served, before, [after], history, assumed).judgement.verdicts

    first, *others = verdicts()
    assert number < 5 or {one.counterfactual_change for one in (first, *others)} == {None}
    assert (first.counterfactual == "") == (first.counterfactual_change is None)
    assert verdicts(0)[0].counterfactual_change is not None
    if first.counterfactual_change is not None:
        medians = first.moved.baseline_median, first.moved.target_median
        is_first = after["operation"] == "o0"
        after.loc[is_first, "value"] *= (1 - first.counterfactual_change) * medians[0] / medians[1]
        assert verdicts()[0].verdict == ("pass" if first.verdict == "fail" else "fail")


@given(st.floats(-0.05, 0.15), st.integers(5, 9), st.sampled_from([0, 3, 9]), SEEDS)
@settings(max_examples=15)
def test_an_answer_has_one_number_for_each_fact_on_runs(served, change, number, earlier, seed):
    found = judged(served, *builds(number, seed, change, earlier=earlier))
    facts = found.changes.usual_difference, found.changes.detectable
    for verdict, difference, least in zip(found.judgement.verdicts, *facts, strict=True):
        texts = "; ".join((verdict.reason, *verdict.words, *verdict.details))
        differences = re.findall(r"(?:builds[a-z ]* differ by|usual variation(?: of)?) (.*? %)", texts)
        assert {*differences} == {percent(difference)}
        assert {*re.findall(r"reliable (?:only )?from (.*? %)", texts)} <= {percent(least)}
        for multiple in re.findall(r"the change is (.*?) times the usual difference", texts):
            assert float(multiple) == pytest.approx(abs(verdict.moved.change) / difference, abs=0.051)


@given(st.floats(0.0, 0.3), st.just(1e-6) | st.floats(0.001, 0.5), SEEDS)
@settings(max_examples=12)
def test_detectable_changes_and_noisy_operations_follow_from_noise_and_minimum(served, least, scatter, seed):
    rng = np.random.default_rng(seed)
    sides = [
        [results_of({f"o{at}": 10.0 * np.exp(scatter * rng.standard_normal(6)) for at in range(8)})]
        for _ in range(2)
    ]
    card = replace(served.model.card, min_effect_size=least)
    found = judged(with_card(served, card), *sides)
    detectable = found.changes.detectable
    assert (detectable >= least).all()
    assert scatter > 1e-6 or least < 0.005 or (detectable == least).all()
    noisy = int((detectable > max(least, 0.1)).sum())
    notes = [note for note in found.judgement.notes if "too noisy" in note]
    assert bool(notes) == bool(noisy)
    if notes:
        limit = f"{max(least, 0.1):.0%}"
        assert notes[0].startswith(f"{noisy} of 8 operations too noisy to detect {limit} (")
        assert notes[0].endswith(f" would detect {max(least, 0.05):.0%}")


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_more_runs_detect_as_much_as_the_note_on_noise_says(served, better):
    def compared(n_runs):
        runs = [run(levels_of(1), seed).assign(better=better) for seed in range(2 * n_runs)]
        found = judged(served, runs[::2], runs[1::2], assumed=0.2)
        (note,) = [note for note in found.judgement.notes if "too noisy" in note]
        return found.changes.detectable[0], int(re.search(r"(\d+) runs? per side", note)[1])

    detectable, needed = zip(*map(compared, (1, 3)), strict=True)
    assert needed[0] == pytest.approx(needed[1], rel=0.03)
    sign = -1 if better == "lower" else 1
    shifts = np.log1p(-sign * np.array([*detectable, 0.05]))
    assert needed[0] == pytest.approx((shifts[0] / shifts[2]) ** 2, rel=0.01)
    assert (shifts[0] / shifts[1]) ** 2 == pytest.approx(3, rel=0.02)
    assert 0 < detectable[1] < detectable[0] < (np.inf if better == "lower" else 1)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
def test_verdicts_of_many_operations_are_equal_at_every_base_rate(explaining, rate):
    rng = np.random.default_rng(3)
    names, slower = [f"o{number}" for number in range(40)], 1 + 0.1 * (np.arange(40) % 10 == 0)
    levels = [10 * np.exp(0.01 * rng.standard_normal(40)) * factor for factor in (1, slower)]
    sides = [[run(dict(zip(names, side, strict=True)), seed)] for seed, side in enumerate(levels)]
    tables, corrected = paired_runs(*sides).tables, explaining.model.card.at_base_rate(rate)
    models = explaining, with_card(explaining, corrected)
    plain, moved = (judge_runs(tables, one, ASSUMED).judgement for one in models)
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


#: A value with its unit, and how it is shown.
READABLE = """
0.0002169 s = 216.9 us, 4138.0 us = 4.138 ms, 0.5 ns = 500 ps, 2.5e9 op/s = 2.5 Gop/s, 3 x = 3 x, 0 s = 0 s
"""


@pytest.mark.parametrize("line", READABLE.strip().split(", "))
def test_medians_are_shown_in_a_readable_unit(line):
    given, shown = line.split(" = ")
    value, unit = given.split()
    name, factor = readable_unit(float(value), unit)
    assert f"{float(value) * factor:.4g} {name}" == shown


USUAL = Circumstances(operations=20)
DRIFTING = Circumstances(history=10, runs=3, drift=0.005, spread=0.005)


def compared(circumstances, seed, slower=0.0):
    """Return the shifts of a simulated build against the previous one, from its runs' levels."""
    rng, n = np.random.default_rng(seed), circumstances.operations
    project = Project(rng, circumstances)
    levels = []
    n_history, n_runs = circumstances.history, circumstances.runs
    for number, change in ((n_history, 0.0), (n_runs, 0.0), (n_runs, slower)):
        runs = [project.next_levels() * (1 + change) for _ in range(number)]
        scatter = circumstances.scatter * project.scatter((number * n, circumstances.samples))
        samples = np.reshape(runs, (-1, 1)) * (1 + scatter)
        levels.append(-np.log(samples.mean(axis=1)).reshape(number, n))
    noise = np.full(n, 2 * circumstances.scatter**2 / circumstances.samples / circumstances.runs)
    return shifts_of(RunLevels(*levels, np.arange(n), noise))


def shifts_of(levels):
    """Return the shifts of runs on one machine, where less is better and nothing is assumed."""
    build, n = build_shifts(levels), levels.target.shape[1]
    together, assumed, sign = np.full(n, build.removed), np.zeros(n, bool), np.full(n, -1.0)
    names, machines = np.full(n, "m"), {"m": build}
    return RunShifts(build.own, together, build.run_spread, assumed, names, machines, sign, np.arange(n), n)


def run_levels(history, baseline, target):
    """Return levels of operations without noise of their own."""
    n = target.shape[1]
    return RunLevels(history, baseline, target, np.arange(n), np.zeros(n))


def first_slower(by):
    """Return slow-downs of 20 operations, of which only the first is not 0."""
    return np.where(np.arange(20) == 0, by, 0.0)


OTHERS = (
    {}, {"runs": 3}, {"history": 10}, {"history": 10, "drift": 0.003}, {"history": 10, "outlier": 0.3},
    {"whole": 0.03}, {"noise": "bimodal", "scatter": 0.02}, {"operations": 5, "history": 10},
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("circumstances", [DRIFTING, *(replace(USUAL, **one) for one in OTHERS)], ids=str)
def test_at_most_one_unchanged_build_in_twenty_fails(circumstances):
    failed = [compared(circumstances, seed).is_beyond(-1.0).any() for seed in range(60)]
    # of 60 builds at 5 %, more than 7 fail with a probability of 1 %
    assert sum(failed) <= 7


@pytest.mark.parametrize(
    ("circumstances", "slower"),
    [(USUAL, 0.1), (replace(USUAL, history=10), 0.07), (replace(USUAL, runs=3), 0.06), (DRIFTING, 0.05)],
    ids=str,
)
def test_a_slow_operation_is_found_without_blaming_others(circumstances, slower):
    change = first_slower(slower)
    found = np.array([compared(circumstances, seed, change).is_beyond(-1.0) for seed in range(30)])
    assert found[:, 0].mean() >= 0.9
    assert found[:, 1:].mean() <= 0.01


def test_more_runs_and_history_lower_the_detectable_change():
    detectable = [
        np.median([np.median(compared(replace(USUAL, runs=r, history=h), s).detectable) for s in range(9)])
        for r, h in ((1, 0), (1, 3), (1, 10), (3, 10))
    ]
    assert detectable == sorted(detectable, reverse=True)


@settings(max_examples=30)
@given(st.integers(0, 7), st.sampled_from([0.1, 0.5, 0.9, 1.1, 1.5, 3.0, 10.0]), st.integers(0, 1000))
def test_one_outlying_earlier_run_hides_no_slow_operation(at, factor, seed):
    rng = np.random.default_rng(seed)
    history, *sides = (rng.normal(0, 0.004, (runs, 20)) for runs in (8, 1, 1))
    usual = np.median(build_shifts(run_levels(history, *sides)).own.error)
    history[at] += np.log(factor)
    odd = np.median(build_shifts(run_levels(history, *sides)).own.error)
    # a shift is found from three standard errors on: at most two percentage points later
    assert 3 * (odd - usual) <= 0.02


@pytest.mark.parametrize("operations", [20, 100])
def test_an_earlier_run_that_scatters_more_than_others_is_left_out(operations):
    scattered, alike = [], []
    for seed in range(100):
        past = np.random.default_rng(seed).normal(0, 0.01, (11, operations))
        alike.append(11 - len(without_outlying_runs(past, 10)[0]))
        past[seed % 10] *= 3
        left, n_history = without_outlying_runs(past, 10)
        scattered.append(n_history == 9 and not (left == past[seed % 10]).all(axis=1).any())
        # the baseline is never left out
        assert (left[-1] == past[-1]).all()
    assert np.mean(scattered) >= 0.85
    assert np.mean(np.array(alike) > 0) <= 0.15


def test_the_shift_of_a_whole_run_is_taken_out():
    quiet = replace(USUAL, spread=0.002)
    same, slower = (compared(quiet, 3, change) for change in (0.0, 0.06))
    (build,) = slower.by_machine.values()
    assert build.whole.value[0] == pytest.approx(-np.log(1.06), abs=0.003)
    np.testing.assert_allclose(slower.own.value, same.own.value, atol=0.002)
    assert not slower.is_beyond(-1.0).any()
    assert compared(quiet, 3, 0.3).is_beyond(-1.0).all()


def test_few_operations_and_runs_leave_the_assumed_variation():
    def single(history):
        project = Project(np.random.default_rng(1), Circumstances(operations=1, history=history))
        earlier, before = project.runs(history), project.runs(1)
        sides = Sides.from_tables(paired_runs(before, project.runs(1), earlier).tables)
        return RunShifts.from_sides(sides, ["machine"], 0.02)

    alone = single(history=0)
    assert not alone.by_machine
    assert alone.is_assumed.all()
    assert alone.own.error[0] >= 0.02 * np.sqrt(2)
    decides, doubts = alone.deciding_rows()
    assert (decides.any(), doubts.all()) == (False, True)
    assert not single(history=10).is_assumed.any()


def test_probabilities_agree_with_doubts_and_certain_shifts():
    shifts = compared(USUAL, 5, first_slower(0.2) + np.where(np.arange(20) == 1, 0.035, 0.0))
    probability = shifts.regression_probability(0.3, 0.7)
    beyond, doubted = shifts.is_beyond(-1.0), shifts.is_doubted()
    assert beyond[0]
    assert (probability[beyond] >= 0.7).all()
    between = probability[doubted & ~beyond]
    assert ((between >= 0.3) & (between < 0.7)).all()
    assert (probability[~doubted & ~beyond] < 0.3).all()
    assert (doubted == (shifts.own.value / shifts.own.usual_error < -DOUBTED)).all()


def test_the_reason_of_an_improvement_states_no_usual_variation(served):
    shifts = compared(USUAL, 5, first_slower(-0.3))
    answers, worst = np.full(20, "unsure"), np.arange(20)
    adjusted = adjust_to_runs(answers, np.full(20, 0.5), shifts, worst, served.model.card)
    words = direction_words("ms", -1.0)
    reasons = [adjusted.reasons[row].in_words("changed", words) for row in range(20)]
    assert (adjusted.answers[0], "usual variation" in reasons[0]) == ("pass", False)
    assert any("usual variation" in reason for reason in reasons[1:])


def test_far_improvements_raise_the_limit_of_slower_operations():
    rng = np.random.default_rng(5)
    before = rng.normal(0, 0.01, (1, 20))
    target = before + rng.normal(0, 0.01, 20)
    target[0, 0] -= 0.08
    faster = target.copy()
    faster[0, 1:3] += 0.15
    levels = (run_levels(np.empty((0, 20)), before, one) for one in (target, faster))
    assert [build_shifts(one).own.freedom[0] > 10 for one in levels] == [True, False]


def test_a_shift_of_an_earlier_run_is_doubted_but_no_fail():
    rng = np.random.default_rng(3)
    history, before, target = (rng.normal(0, 0.005, (runs, 20)) for runs in (10, 1, 1))
    seen = history.copy()
    seen[4, 0] -= 0.065
    for earlier, fails in ((history, True), (seen, False)):
        shifts = shifts_of(run_levels(earlier, before, target - first_slower(0.06)))
        assert (shifts.is_beyond(-1)[0], shifts.is_doubted()[0]) == (fails, True)


NONE, SOME, VARIED = [0.0] * 4, [3.0] * 4, [3.0, 4.0]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ({1: NONE, 4: NONE}, {1: SOME, 4: SOME}, "regression"),
        ({1: NONE, 4: SOME}, {1: SOME, 4: SOME}, "regression"),
        ({1: NONE, 4: SOME}, {1: SOME, 4: NONE}, "regression"),
        ({1: NONE, 4: SOME}, {1: SOME, 4: [9.0] * 4}, "regression"),
        ({1: SOME, 4: SOME}, {1: NONE, 4: NONE}, "improvement"),
        ({1: SOME, 4: SOME}, {1: NONE, 4: SOME}, "improvement"),
        ({1: SOME, 4: SOME}, {1: NONE, 4: [9.0] * 4}, "unsure"),
        ({1: NONE[:2], 4: NONE}, {1: VARIED, 4: NONE}, "unsure"),
        ({1: [0.0], 4: SOME}, {1: [3.0], 4: SOME}, None),
        ({1: SOME, 4: SOME}, {1: SOME, 4: [9.0] * 4}, None),
    ],
)
def test_values_from_or_to_zero_decide_at_any_number_of_threads(before, after, outcome):
    tables = paired_runs(*([results_of(side, unit="allocs")] for side in (before, after))).tables
    assert outcomes_from_zero(tables) == ({0: outcome} if outcome else {})
