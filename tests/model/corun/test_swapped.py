"""Whether samples alone and together were swapped, on the shipped measurement: asked both ways."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from data.corun.tables import CorunTables
from features.corun.featurize import training_instances
from features.corun.rates import Solo
from serving.corun.online_answer import SWAPPED_LOG_ODDS
from training.corun.online import SampledRuns, fit_online_models, pair_runs
from training.corun.splits import at_random, by_task

SHIPPED = Path(__file__).parents[3] / "data/raw/corun"
#: What perf stat counts on any machine without a hardware counter.
PERF = ("context-switches", "cpu-migrations", "major-faults", "minor-faults", "page-faults", "task-clock")


@pytest.fixture(scope="module")
def shipped():
    """The first 2 s of all runs, and which belong together."""
    tables = CorunTables.read(SHIPPED)
    sampled = SampledRuns.from_samples(tables.samples, 2.0)
    return sampled, pair_runs(sampled.runs, training_instances(tables, Solo.from_tables(tables)))


def asked(shipped, divide, events):
    """Return of each held-out pair whether it is asked about: as it is, and swapped."""
    sampled, pairs = shipped
    known = np.isin(sampled.events, events)
    found = []
    for train, test in divide(pairs, 5, 1):
        learned, unseen = pairs.iloc[train], pairs.iloc[test]
        (model,) = fit_online_models(sampled, learned, [LinearRegression()])
        done = model.completion_rates(sampled.start)
        found += [
            [model.changes.swap_log_odds(sign * ratios, known) > SWAPPED_LOG_ODDS for sign in (1, -1)]
            for ratios in done[unseen["corun"]] - done[unseen["solo"]]
        ]
    return np.array(found).mean(axis=0)


@pytest.mark.parametrize("divide", [at_random, by_task])
@pytest.mark.parametrize(("events", "least"), [(PERF, 0.85), (PERF[:1], 0.8)], ids=["perf", "one event"])
def test_most_swapped_pairs_are_suspected_and_few_correct_ones(shipped, divide, events, least):
    falsely, noticed = asked(shipped, divide, events)
    assert falsely <= 0.01
    assert noticed >= least


def test_an_event_that_changes_either_way_raises_no_suspicion(shipped):
    falsely, noticed = asked(shipped, at_random, ["page-faults"])
    assert max(falsely, noticed) <= 0.02
