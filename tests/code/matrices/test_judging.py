import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.matrices.tables import MatrixTables
from serving.matrices.request import answer_matrices, answer_matrices_batch
from serving.models import ModelRef, Served
from tests.code.matrices.engines import SEED, trained_on
from tests.matrix_pairs import MOVED, pairs
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
    return MatrixTables(tables.runs.assign(**columns), tables.causes, tables.metrics)


def changed(tables, run, **values):
    there = tables.runs["run_id"] == run
    return with_runs(tables, **{name: tables.runs[name].mask(there, value) for name, value in values.items()})


def without(tables, *runs):
    return tables.select_runs(~tables.runs["run_id"].isin(runs).to_numpy(bool))


def test_an_abnormal_pair_fails_and_names_changed_metrics(trained, unseen):
    verdicts = {one.pair_id: one for one in judge_tables(trained, unseen, n_attributions=3).verdicts}
    assert {name: one.verdict for name, one in verdicts.items()} == {
        "g0 c0 v0": "fail", "g0 c0 v1": "pass", "g1 c0 v0": "fail", "g1 c0 v1": "pass",
    }  # fmt: skip
    failed = verdicts["g0 c0 v0"]
    assert failed.probability >= failed.threshold
    assert (failed.group_used, failed.baseline_runs, failed.target_runs) == ("g0", 3, 3)
    assert {driver.metric for driver in failed.attributions} == set(MOVED)
    rows = unseen.runs[unseen.runs["pair_id"] == "g0 c0 v0"]
    for driver in failed.attributions:
        middles = rows.groupby("side")[driver.metric].median()
        assert (driver.baseline, driver.target) == pytest.approx((middles["baseline"], middles["target"]))
        assert driver.unit == ("1/s" if driver.metric == "m0" else "")


def test_flags_and_column_order_do_not_affect_verdicts(trained, unseen):
    turned = MatrixTables.from_rows(unseen.runs[unseen.runs.columns[::-1]], None, unseen.metrics)
    lied = with_runs(turned, valid=False, abnormal=~turned.runs["abnormal"])
    assert judge_tables(trained, lied) == judge_tables(trained, unseen)


def test_a_run_that_violates_a_rule_is_named_and_excluded(trained, unseen):
    broken = changed(unseen, "g0 c0 v0 target 1", m5=-1.0)
    verdict = judge_tables(trained, broken).verdicts[0]
    assert (verdict.verdict, verdict.target_runs) == ("fail", 2)
    (run,) = verdict.invalid_runs
    assert (run.run_id, run.side, run.by, run.rule) == ("g0 c0 v0 target 1", "target", "rule", "0 or more")
    assert run.reason == "m5=-1 must be 0 or more"


def test_a_run_excluded_by_the_tree_has_its_path(trained, unseen):
    draw = np.random.default_rng(SEED)
    there = unseen.runs["run_id"] == "g1 c0 v1 baseline 2"
    wild = {
        name: unseen.runs[name].mask(there, unseen.runs[name] * np.exp(draw.normal(0, 2)))
        for name in unseen.raw_metrics
    }
    verdict = judge_tables(trained, with_runs(unseen, **wild)).verdicts[3]
    (run,) = verdict.invalid_runs
    assert (run.run_id, run.by, run.rule) == ("g1 c0 v1 baseline 2", "tree", "")
    assert ">" in run.reason
    assert (verdict.verdict, verdict.baseline_runs) == ("pass", 2)


def test_a_pair_with_too_few_runs_is_invalid(trained, unseen):
    short = without(unseen, "g0 c0 v0 baseline 0", "g0 c0 v0 baseline 1")
    first, *others = judge_tables(trained, short).verdicts
    assert (first.verdict, first.probability, first.attributions) == ("invalid", None, ())
    assert first.reason == "has 1 valid of 1 baseline run; expected at least 2"
    assert "invalid" not in {one.verdict for one in others}
    alone = short.select_runs((short.runs["pair_id"] == "g0 c0 v0").to_numpy(bool))
    assert judge_tables(trained, alone).verdicts == (first,)


def test_runs_without_summary_metrics_are_judged_alike(trained, unseen):
    usual = judge_tables(trained, unseen)
    bare = MatrixTables.from_rows(
        unseen.runs[[*unseen.runs.columns[:9], *unseen.raw_metrics]], None, unseen.metrics
    )
    slow = [{"metric": "summary_elapsed", "unit": "ms"}, {"metric": "m0", "unit": "1/s"}]
    other = MatrixTables.from_rows(unseen.runs, None, slow)
    for asked in (bare, other):
        found = judge_tables(trained, asked)
        assert [one.verdict for one in found.verdicts] == [one.verdict for one in usual.verdicts]
        assert not any(one.invalid_runs for one in found.verdicts)


def test_training_tolerates_an_absurdly_large_number():
    tables = changed(pairs(cases=3, invalid=0.1), "g0 c0 v1 target 1", m5=1e308)
    trained = trained_on(tables, "logistic")
    assert "invalid" not in {one.verdict for one in judge_tables(trained, pairs(cases=1, seed=5)).verdicts}


def test_an_incomparable_pair_is_invalid_without_affecting_others(trained, unseen):
    first = unseen.runs["pair_id"] == "g0 c0 v0"
    target = unseen.runs["side"] == "target"
    alone = unseen.select_runs(~(first & target).to_numpy(bool))
    spoilt = {
        "has no run of the target": alone,
        "baseline and target differ in version, machine; expected one field to compare by": with_runs(
            unseen, machine=unseen.runs["machine"].mask(first & target, "n")
        ),
        'the target mixes version "target 0" and "other"; expected one': with_runs(
            unseen, version=unseen.runs["version"].mask(unseen.runs["run_id"] == "g0 c0 v0 target 2", "other")
        ),
    }
    usual = judge_tables(trained, unseen).verdicts[1:]
    for reason, asked in spoilt.items():
        verdict, *others = judge_tables(trained, asked).verdicts
        assert (verdict.pair_id, verdict.verdict, verdict.reason) == ("g0 c0 v0", "invalid", reason)
        assert tuple(others) == usual


def test_a_pair_without_comparable_metrics_has_a_reason(trained, unseen):
    card = replace(trained.card, missing=1.0)
    there = (unseen.runs["pair_id"] == "g0 c0 v0") & (unseen.runs["side"] == "target")
    empty = with_runs(unseen, **{name: unseen.runs[name].mask(there) for name in unseen.all_metrics})
    verdict = judge_tables(replace(trained, card=card, validity=None), empty).verdicts[0]
    assert (verdict.verdict, verdict.reason) == ("invalid", NO_ANSWER)


def test_the_group_of_the_target_decides_for_mixed_pairs(trained, unseen):
    pair = unseen.select_runs((unseen.runs["pair_id"] == "g0 c0 v0").to_numpy(bool))
    baseline = pair.runs["side"] == "baseline"
    moved = with_runs(pair, group=pair.runs["group"].mask(baseline, "g1"), version="v")
    (verdict,) = judge_tables(trained, moved).verdicts
    assert (verdict.group, verdict.group_used) == ("g0", "g0")


def test_a_metric_in_another_unit_is_noted(trained, unseen):
    target = (unseen.runs["pair_id"] == "g0 c0 v1") & (unseen.runs["side"] == "target")
    exact = unseen.runs["m9"].mask(unseen.runs["pair_id"] == "g0 c0 v1", 2.0)
    verdict = judge_tables(trained, with_runs(unseen, m9=exact.mask(target, 2000.0))).verdicts[1]
    assert verdict.notes == ("m9 is 1000 times its baseline; is it in another unit?",)


def test_tables_without_any_run_are_refused(trained, unseen):
    with pytest.raises(InputError, match="runs: none; expected at least one pair"):
        judge_tables(trained, unseen.select_runs(np.zeros(len(unseen.runs), bool)))


@pytest.mark.parametrize("model", CATALOGUE)
def test_a_stored_engine_answers_as_before(model, unseen, tmp_path):
    trained = trained_on(pairs(versions=3, invalid=0.1), model)
    trained.write(tmp_path)
    read = TrainedEngine.read(tmp_path)
    assert replace(read.card, params={}) == replace(trained.card, params={})
    pd.testing.assert_frame_equal(read.card.known_metrics, trained.card.known_metrics)
    assert judge_tables(read, unseen) == judge_tables(trained, unseen)


def body_of_pairs(tables, *names):
    """Return a JSON request about the pairs of these names."""
    entries = []
    for name in names:
        rows = tables.runs[tables.runs["pair_id"] == name]
        sides = {
            side: {
                "version": side,
                "metrics": {metric: runs[metric].tolist() for metric in tables.all_metrics},
            }
            for side, runs in rows.groupby("side")
        }
        about = {field: rows[field].iloc[0] for field in ("workload", "group", "machine")}
        entries.append({"pair_id": name, **about, **sides})
    return {"pairs": entries, "units": {"m0": "1/s"}}


def test_requests_of_a_batch_get_the_answers_of_each_alone(trained, unseen):
    served = Served(trained, ModelRef("regression-matrix", "1", "models:/regression-matrix/1"))
    first, second, other = (body_of_pairs(unseen, name) for name in ("g0 c0 v0", "g1 c0 v1", "g1 c0 v0"))
    other["pairs"][0]["group"] = "unknown to the model"
    few, one_sided = body_of_pairs(unseen, "g0 c0 v1"), body_of_pairs(unseen, "g0 c0 v1", "g0 c0 v0")
    for side in ("baseline", "target"):
        few["pairs"][0][side]["metrics"] = {"m0": few["pairs"][0][side]["metrics"]["m0"]}
    one_sided["pairs"][0]["target"]["metrics"] = {"m0": []}
    bodies = [json.dumps(entry).encode() for entry in (first, second, first, other, few, one_sided)]
    *answers, bad = answer_matrices_batch([*bodies, b"{"], served)
    alone = [answer_matrices(body, served).content for body in bodies]
    assert [one.content for one in answers] == alone
    assert len({*alone}) == len(bodies) - 1
    assert "the body is not JSON" in str(bad)
