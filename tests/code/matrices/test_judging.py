import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lxml import etree

from data.matrices.tables import SIDES, MatrixTables
from serving.matrices.command import as_xml
from serving.matrices.request import answer_matrices, answer_matrices_batch, tables_of
from serving.matrices.schemas import MatricesAnswer, MatricesRequest
from serving.models import ModelRef, Served
from tests.code.matrices.engines import SEED, trained_on
from tests.data.refusals import refusal
from tests.matrix_pairs import MOVED, pairs
from tests.system.matrices.inputs import request
from training.matrices.engine.models import CATALOGUE
from training.matrices.engine.stored import TrainedEngine
from training.matrices.judging import NO_ANSWER, judge_tables


@pytest.fixture(scope="module")
def trained():
    return trained_on(pairs(cases=8, invalid=0.1))


@pytest.fixture(scope="module")
def unseen():
    """Two test cases that nobody trained on; their first versions are abnormal."""
    return pairs(cases=1, versions=2, seed=5)


def with_runs(tables, **columns):
    return tables.with_runs(tables.runs.assign(**columns))


def rows_of(tables, pair, side=None):
    """Tell for each run whether it is of this pair, and of this side if there is one."""
    runs = tables.runs
    return (runs["pair_id"] == pair) & (runs["side"] == (side or runs["side"]))


def test_an_abnormal_pair_fails_and_names_changed_metrics(trained, unseen):
    verdicts = {one.pair_id: one for one in judge_tables(trained, unseen, n_attributions=3).verdicts}
    assert {name: one.verdict for name, one in verdicts.items()} == {
        "g0 c0 v0": "fail", "g0 c0 v1": "pass", "g1 c0 v0": "fail", "g1 c0 v1": "pass",
    }  # fmt: skip
    failed = verdicts["g0 c0 v0"]
    assert failed.probability >= failed.threshold
    assert (failed.group_used, failed.baseline_runs, failed.target_runs) == ("g0", 3, 3)
    assert {driver.metric for driver in failed.attributions} == set(MOVED)
    sides = unseen.runs[rows_of(unseen, "g0 c0 v0")].groupby("side")
    for driver in failed.attributions:
        middles = sides[driver.metric].median()
        assert (driver.baseline, driver.target) == pytest.approx((middles["baseline"], middles["target"]))
        assert driver.unit == ("1/s" if driver.metric == "m0" else "")
        assert driver.contribution > 0


def test_flags_and_column_order_do_not_affect_verdicts(trained, unseen):
    turned = MatrixTables.from_rows(unseen.runs[unseen.runs.columns[::-1]], None, unseen.metrics)
    lied = with_runs(turned, valid=False, abnormal=~turned.runs["abnormal"])
    assert judge_tables(trained, lied) == judge_tables(trained, unseen)


def test_a_run_excluded_by_rule_or_tree_is_named(trained, unseen):
    runs, metrics = unseen.runs.copy(), unseen.raw_metrics
    wild = np.exp(np.random.default_rng(SEED).normal(0, 2, len(metrics)))
    runs.loc[runs["run_id"] == "g1 c0 v1 baseline 2", metrics] *= wild
    runs.loc[runs["run_id"] == "g0 c0 v0 target 1", "m5"] = -1.0
    first, *_, last = judge_tables(trained, unseen.with_runs(runs)).verdicts
    assert (first.verdict, first.target_runs, last.verdict, last.baseline_runs) == ("fail", 2, "pass", 2)
    (run,) = first.invalid_runs
    assert (run.run_id, run.side, run.by, run.rule) == ("g0 c0 v0 target 1", "target", "rule", "0 or more")
    assert run.reason == "m5=-1 must be 0 or more"
    (run,) = last.invalid_runs
    assert (run.run_id, run.by, run.rule) == ("g1 c0 v1 baseline 2", "tree", "")
    assert ">" in run.reason


def test_a_lone_pair_with_too_few_runs_is_invalid(trained, unseen):
    few = unseen.runs["run_id"].str.match("g0 c0 v0 (target|baseline 2)")
    (verdict,) = judge_tables(trained, unseen.select_runs(few.to_numpy(bool))).verdicts
    assert (verdict.verdict, verdict.probability, verdict.attributions) == ("invalid", None, ())
    assert verdict.reason == "has 1 valid of 1 baseline run; expected at least 2"


def test_training_tolerates_an_absurdly_large_number():
    tables = pairs(cases=3, invalid=0.1)
    huge = tables.runs["m5"].mask(tables.runs["run_id"] == "g0 c0 v1 target 1", 1e308)
    found = judge_tables(trained_on(with_runs(tables, m5=huge)), pairs(cases=1, seed=5))
    assert "invalid" not in {one.verdict for one in found.verdicts}


@pytest.mark.parametrize(
    ("column", "runs", "reason"),
    [
        ("side", "baseline", "has no run of the baseline"),
        ("machine", "target", "baseline and target differ in version, machine; expected one field to comp"),
        ("version", "target 2", 'the target mixes version "target 0" and "other"; expected one'),
    ],
)
def test_an_incomparable_pair_is_invalid_without_affecting_others(trained, unseen, column, runs, reason):
    chosen = unseen.runs["run_id"].str.startswith(f"g0 c0 v0 {runs}")
    other = "target" if column == "side" else "other"
    asked = with_runs(unseen, **{column: unseen.runs[column].mask(chosen, other)})
    verdict, *others = judge_tables(trained, asked).verdicts
    assert (verdict.pair_id, verdict.verdict) == ("g0 c0 v0", "invalid")
    assert verdict.reason.startswith(reason)
    assert tuple(others) == judge_tables(trained, unseen).verdicts[1:]


def test_a_pair_without_comparable_metrics_has_a_reason(trained, unseen):
    tolerant = replace(trained, card=replace(trained.card, missing=1.0), validity=None)
    there = rows_of(unseen, "g0 c0 v0", "target")
    empty = with_runs(unseen, **{name: unseen.runs[name].mask(there) for name in unseen.all_metrics})
    verdict = judge_tables(tolerant, empty).verdicts[0]
    assert (verdict.verdict, verdict.reason) == ("invalid", NO_ANSWER)


def test_mixed_groups_and_other_units_of_a_pair_are_told(trained, unseen):
    groups = unseen.runs["group"].mask(rows_of(unseen, "g0 c0 v0", "baseline"), "g1")
    values = unseen.runs["m9"].mask(rows_of(unseen, "g0 c0 v1"), 2.0)
    values = values.mask(rows_of(unseen, "g0 c0 v1", "target"), 2000.0)
    asked = with_runs(unseen, group=groups, version="v", m9=values)
    mixed, other_unit, *_ = judge_tables(trained, asked).verdicts
    # the target decides
    assert (mixed.group, mixed.group_used) == ("g0", "g0")
    assert other_unit.notes == ("m9 is 1000 times its baseline; is it in another unit?",)


def test_tables_without_any_run_are_refused(trained, unseen):
    nothing = unseen.select_runs(np.zeros(len(unseen.runs), bool))
    assert refusal(judge_tables, trained, nothing).startswith("runs: none; expected at least one pair")


@pytest.mark.parametrize("model", CATALOGUE)
def test_a_stored_engine_answers_as_before(model, unseen, tmp_path):
    # one group has an engine of its own, the other has not
    trained = trained_on(pairs(groups=1, versions=3, invalid=0.1), model, trials=0)
    trained.write(tmp_path)
    read = TrainedEngine.read(tmp_path)
    assert replace(read.card, params={}) == replace(trained.card, params={})
    pd.testing.assert_frame_equal(read.card.known_metrics, trained.card.known_metrics)
    assert judge_tables(read, unseen) == judge_tables(trained, unseen)


def expect_equal_answers_in_a_batch(trained, *contents):
    """Return the answers to requests, which are equal alone and in a batch with a broken one."""
    served = Served(trained, ModelRef("regression-matrix", "1", "models:/regression-matrix/1"))
    bodies = [json.dumps(content).encode() for content in contents]
    *answers, bad = answer_matrices_batch([*bodies, b"{"], served)
    assert "the body is not JSON" in str(bad)
    assert [one.content for one in answers] == [answer_matrices(body, served).content for body in bodies]
    return [one.content for one in answers]


def request_for(tables, *names):
    return request(tables.select_runs(tables.runs["pair_id"].isin(names).to_numpy()))


def test_requests_of_a_batch_get_the_answers_of_each_alone(trained, unseen):
    names = ("g0 c0 v0",), ("g1 c0 v1",), ("g1 c0 v0",), ("g0 c0 v1",), ("g0 c0 v1", "g0 c0 v0")
    first, second, other, few, one_sided = (request_for(unseen, *of_one) for of_one in names)
    other["pairs"][0]["group"] = "unknown to the model"
    for side in SIDES:
        few["pairs"][0][side]["metrics"] = {"m0": few["pairs"][0][side]["metrics"]["m0"]}
    one_sided["pairs"][0]["target"]["metrics"] = {"m0": []}
    found = expect_equal_answers_in_a_batch(trained, first, second, first, other, few, one_sided)
    assert len({*found}) == 5


@pytest.mark.parametrize(("values", "place"), [([], 0), ([1.0], 1), ([1.0] * 4, -1)])
def test_a_metric_of_another_length_than_most_is_named(unseen, place, values):
    sent = request(unseen)
    for side in ("target", "baseline"):
        metrics = sent["pairs"][0][side]["metrics"]
        name = list(metrics)[place]
        metrics[name] = values
        told = f'{side}.metrics["{name}"]: has {len(values)} values, where others have 3'
        assert told in refusal(tables_of, MatricesRequest.model_validate(sent))


def test_rules_on_all_runs_see_those_of_one_request_alone(trained, unseen):
    def body(name="g0 c0 v0", **columns):
        sent = request_for(unseen, name)
        for side in SIDES:
            sent["pairs"][0][side]["metrics"] |= columns
        return sent

    counts, odd = [[40.0] * 3, [20.0] * 3], [20.0, 20.0, 40.0]
    bodies = [body(summary_transactions=values) for values in (*counts, odd, counts[0])]
    bodies += [body("g0 c0 v1", summary_transactions=values) for values in counts]
    # negative values are common in the last request, and rare in all
    bodies += [body(summary_work=values) for values in (*[[1.0, 2.0, 3.0]] * 9, [-1.0, 2.0, 3.0])]
    found = expect_equal_answers_in_a_batch(trained, *bodies)
    assert [b'"run_id"' in one for one in found] == [one is bodies[2] for one in bodies]


def test_xml_has_the_risk_guarantee_without_unknown_values():
    (example,) = MatricesAnswer.model_json_schema()["examples"]
    promised = {"share": 0.1, "confidence": 0.9, "kept": True, "measured": None}
    found = [
        element.attrib
        for content in (example | {"risk_guarantee": promised}, example)
        for element in etree.fromstring(as_xml(MatricesAnswer.model_validate(content))).iter("risk_guarantee")
    ]
    assert found == [{"share": "0.1", "confidence": "0.9", "kept": "true"}]
