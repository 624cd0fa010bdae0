"""Reasons agree with the verdicts of a model trained on the shipped measurements."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.pair import MatchedOperations
from data.comparisons.sides import NamedSides
from data.comparisons.tables import ComparisonTables
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.compare.rows import QUIET, compared_rows
from serving.comparisons.compare.weighing import judge_runs
from serving.comparisons.explain.sentences import MOST_WORDS, Facts
from serving.comparisons.judge import judge_sides
from serving.models import ModelRef, Served
from tests.comparison_rows import compared, result
from tests.model.comparisons.measured_models import trained
from training.comparisons.stored import ReadyModel
from training.evaluation.thresholds import DecisionThresholds

FLOOR = 0.005
#: Sentences that compare the target with something before it, and which way they speak.
WORSE, BETTER = re.compile(r"target samples? (is|are) slower"), re.compile(r"target samples? (is|are) faster")
PAIRS = re.compile(r"in ([\d.]+) % of all pairs of samples, the target sample is slower")
AGAINST = {"pass": "for a regression: ", "fail": "against a regression: ", "unsure": "against a regression: "}


@pytest.fixture(scope="module")
def served():
    model = ReadyModel.from_trained(trained("extra-trees"))
    card = replace(model.card, cuts=DecisionThresholds(high=0.68, low=0.29), min_effect_size=FLOOR)
    return Served(replace(model, card=card), ModelRef("m", "1", "models:/m/1"))


@st.composite
def pairs(draw):
    """Return tables of a few operations: each with its noise, its change and earlier runs or none."""
    many, earlier = draw(st.sampled_from([1, 2, 5, 8])), draw(st.sampled_from([0, 2, 8]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    whole, rows, comparisons = draw(st.sampled_from([0.0, 0.0, -0.1])), [], []
    for number in range(many):
        noise = draw(st.sampled_from([0.001, 0.01, 0.05, 0.3]))
        change = draw(st.floats(-0.3, 0.3) | st.floats(-0.01, 0.01)) + whole
        for order in range(earlier + 2):
            level = 100 * (1 + change * (order == earlier + 1)) * (1 + 0.005 * rng.standard_normal())
            samples = np.abs(level * (1 + noise * rng.standard_normal(draw(st.integers(3, 10))))) + 1e-3
            rows += [result(f"o{number}", order, value, unit="ms") for value in samples]
        spans = (earlier, earlier), (earlier + 1, earlier + 1)
        comparisons.append(compared(f"c{number}", f"o{number}", *spans))
    return ComparisonTables.from_rows(rows, comparisons)


def slower(sentence):
    """Return whether a sentence says that the target is slower; None if it says nothing of that."""
    if pairs := PAIRS.fullmatch(sentence):
        return None if float(pairs[1]) == 50 else float(pairs[1]) > 50
    return True if WORSE.search(sentence) else False if BETTER.search(sentence) else None


def agree(verdict):
    """Check a verdict that a model gave, or a floor."""
    answer, fails = verdict.verdict, verdict.verdict != "pass"
    against = [one for one in verdict.words if one.startswith(AGAINST[answer])]
    lines = [one for one in verdict.words if one not in against]
    assert not any(line.startswith(("for a ", "against a ")) for line in lines)
    assert {slower(line.removeprefix(AGAINST[answer])) for line in against} <= {None, not fails}
    assert {slower(line) for line in lines[1:]} <= {None, fails}
    if "minimum effect size" in verdict.reason:
        assert -FLOOR <= verdict.moved.change <= 0
    if verdict.decided_by == "min_effect_size":
        assert (answer, verdict.probability) == ("pass", 0.0)
    else:
        within = verdict.unsure_from <= verdict.probability < verdict.threshold
        assert (answer == "unsure", answer == "fail") == (within, verdict.probability >= verdict.threshold)


@given(tables=pairs())
@settings(max_examples=40, derandomize=True)
def test_no_reason_of_a_judged_comparison_contradicts_its_verdict(served, tables):
    named = NamedSides.from_tables(tables)
    asked = PreparedComparisons.from_sides(named.sides, served.model.card.run_spread)
    for row, verdict in enumerate(judge_sides(named, served).verdicts):
        if verdict.verdict != "invalid":
            agree(verdict)
            assert len(verdict.reason.split()) <= MOST_WORDS
            facts = Facts.from_comparison(asked, row)
            noise = max(facts.noise_baseline, facts.noise_target)
            assert facts.decisive.change <= noise or verdict.verdict == "pass"


@given(tables=pairs())
@settings(max_examples=40, derandomize=True)
def test_no_row_of_compare_contradicts_its_outcome(served, tables):
    weighed, many = judge_runs(tables, served, 0.03), len(tables.comparisons)
    for row in compared_rows(weighed, tables, [""] * many, [None] * many, MatchedOperations()):
        if row.outcome == "invalid":
            continue
        verdict = row.verdict
        agree(verdict)
        assert len(row.reason.split()) <= MOST_WORDS
        # a noisy pair is never called unchanged
        assert row.outcome != "unchanged" or (abs(verdict.moved.change) < FLOOR and row.detectable <= 0.05)
        if row.outcome in QUIET or row.outcome == "improvement":
            assert not ("minimum effect size" in row.reason and "faster" in row.change_text)
        assert row.outcome != "improvement" or "usual variation" not in row.reason
        if verdict.verdict == "unsure" and row.judged != "unsure":
            assert verdict.decided_by == "between_run_variation"
            assert "reliable" in row.reason or "run" in row.reason
