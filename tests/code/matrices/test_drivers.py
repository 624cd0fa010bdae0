import numpy as np
import pandas as pd
import pytest

from data.matrices.tables import MatrixTables
from tests.matrix_pairs import METRICS, pairs
from training.matrices.engine.engine import FULL, Engine, Scheme
from training.matrices.engine.stored import EngineRecipe
from training.matrices.judging import judge_tables
from training.matrices.schemes import Cell

ROWS = Scheme("raw", "flattened", prune=True, grouping="given", components=6, balance=True)
BESIDE = Scheme("raw", "concatenated", prune=True, grouping="none", components=6, balance=True)
SEED = 1


def moved_back(fitted, tables, metrics):
    """The tables with the targets moved so that the medians of these metrics are the baselines'."""
    runs = tables.runs.copy()
    for metric in metrics:
        unit = fitted.scales.units[fitted.metrics.index(metric)]
        scaled = np.arcsinh(runs[metric] / unit)
        middles = scaled.groupby([runs["pair_id"], runs["side"]]).median().unstack("side")
        by = (middles["target"] - middles["baseline"]).reindex(runs["pair_id"]).to_numpy()
        runs[metric] = np.sinh(scaled - by * (runs["side"] == "target").to_numpy()) * unit
    return MatrixTables(runs, tables.causes, tables.metrics)


@pytest.mark.parametrize(
    ("scheme", "model"), [(FULL, "logistic"), (FULL, "knn"), (ROWS, "logistic"), (BESIDE, "logistic")]
)
def test_contributions_equal_the_change_without_the_differences(scheme, model):
    fitted, asked = Engine(scheme, model, 3, SEED).fit(pairs()), pairs(cases=2, versions=3, seed=2)
    before = dict(zip(asked.pair_sides.names, fitted.log_odds(asked), strict=True))
    for told in fitted.explain_pairs(asked, 3):
        one = asked.select_runs((asked.runs["pair_id"] == told.pair_id).to_numpy(bool))
        without = moved_back(fitted, one, [driver.metric for driver in told.attributions])
        fallen = before[told.pair_id] - fitted.log_odds(without)[0]
        assert fallen == pytest.approx(sum(driver.contribution for driver in told.attributions), abs=1e-6)


@pytest.mark.parametrize("model", ["knn", "random-forest", "logistic"])
def test_removing_attributed_metrics_lowers_a_verdict_most(model):
    fitted, asked = Engine(FULL, model, 3, SEED).fit(pairs()), pairs(cases=3, versions=4, seed=2)
    draw = np.random.default_rng(SEED)
    for told in fitted.explain_pairs(asked, 3):
        if told.abnormal:
            one = asked.select_runs((asked.runs["pair_id"] == told.pair_id).to_numpy(bool))
            named = [driver.metric for driver in told.attributions]
            others = draw.choice(
                [f"m{at}" for at in range(METRICS) if f"m{at}" not in named], 3, replace=False
            )
            falls = [
                fitted.judge_pairs(moved_back(fitted, one, names))["probability"][0]
                for names in (named, others)
            ]
            assert falls[0] < falls[1]
            assert falls[0] < told.threshold


def test_a_pair_gets_the_same_answer_in_any_batch():
    recipe = EngineRecipe(Cell("knn", FULL), 3, SEED, validity=True, missing=0.5, digest="d")
    trained, asked = recipe.train(pairs(invalid=0.1)), pairs(cases=2, versions=3, invalid=0.2, seed=3)
    together = {one.pair_id: one for one in judge_tables(trained, asked).verdicts}
    for name, own in asked.runs.groupby("pair_id"):
        chosen = asked.select_runs(asked.runs.index.isin(own.index))
        # what is usual of a workload is known of its runs only
        alone = judge_tables(trained, chosen).verdicts[0]
        assert alone.attributions == together[name].attributions or together[name].verdict == "invalid"
        assert pd.Series(vars(alone)).drop("notes").equals(pd.Series(vars(together[name])).drop("notes"))
