"""Drift: how far the inputs of a model lie from its training data."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from serving.http.bodies import Answered
from serving.http.drift import FEWEST, Drift
from serving.http.metrics import ServerCounters
from serving.http.request_context import RequestContext
from serving.models import ModelRef
from serving.plugins import Endpoint, Registered
from training.comparisons.stored import Card
from training.registry.stored import Deciles, deciles_of_features

NAMES = ("even", "skewed", "mostly missing", "constant", "few values")
REF = ModelRef("some", "1", "models:/some/1")
DOOR = Endpoint("/judge", "", "", object, object, {}, 1, Registered("key", ""))


def draws(rows, seed):
    rng = np.random.default_rng(seed)
    missing = np.where(rng.random(rows) < 0.8, np.nan, rng.normal(size=rows))
    few = rng.choice([0.0, 0.0, 0.0, 1.0, 2.0], rows)
    columns = [rng.normal(size=rows), rng.exponential(size=rows), missing, np.full(rows, 0.1), few]
    return np.column_stack(columns)


def model(ref=REF, usual=None):
    usual = deciles_of_features(NAMES, draws(3000, 0)) if usual is None else usual
    return SimpleNamespace(ref=ref, card=SimpleNamespace(features=NAMES, usual=usual))


def ask(drift, vectors, served):
    drift.queue_inputs(SimpleNamespace(endpoint=DOOR, answered=Answered(b"", vectors=vectors), served=served))


@pytest.mark.parametrize(
    ("feature", "shift"),
    [
        ("even", lambda column: column + 1),
        ("even", lambda column: np.where(np.arange(len(column)) % 3 == 0, np.nan, column)),
        ("skewed", lambda column: column * 3),
        ("mostly missing", np.nan_to_num),
        ("constant", lambda column: column + 1e-3),
        ("constant", lambda column: column - 1e-3),
        ("few values", lambda column: np.where(column == 0, 1.0, column)),
    ],
)
def test_only_a_shifted_feature_has_drift(feature, shift):
    vectors, drift, served = draws(3000, 4), Drift({}), model()
    place = NAMES.index(feature)
    vectors[:, place] = shift(vectors[:, place])
    for part in np.array_split(vectors, 7):
        ask(drift, part, served)
    found = drift.by_model()["key"]
    (first, largest), *others = found.features
    assert (found.rows, first) == (3000, feature)
    assert largest > 0.25
    assert others == sorted(others, key=lambda one: -one[1])
    assert others[0][1] < 0.02


def test_the_stability_index_matches_a_manual_calculation():
    trained = np.array([0.5, 0.4, 0.1])
    card = SimpleNamespace(features=("x",), usual={"x": Deciles((0.0,), tuple(trained))})
    drift = Drift({})
    vectors = np.array([[-1.0]] * 300 + [[1.0]] * 600 + [[np.nan]] * 100)
    ask(drift, vectors, SimpleNamespace(ref=REF, card=card))
    asked = np.array([300.5, 600.5, 100.5]) / 1001.5
    expected = ((asked - trained) * np.log(asked / trained)).sum()
    assert drift.by_model()["key"].features[0][1] == pytest.approx(expected)


def test_few_rows_or_cards_without_deciles_give_no_drift():
    drift, old = Drift({}), Drift({})
    for rows, features in ((FEWEST - 1, 0), (1, len(NAMES))):
        ask(drift, draws(rows, 1), model())
        assert len(drift.by_model()["key"].features) == features
    ask(old, draws(500, 1), model(usual={}))
    assert old.by_model() == {}


def test_drift_counts_restart_with_a_new_version():
    lazy, second = SimpleNamespace(ref=REF), ModelRef("some", "2", "models:/some/2")
    drift = Drift({"key": lazy})
    ask(drift, draws(300, 1), model())
    assert drift.by_model()["key"].rows == 300
    lazy.ref = second
    ask(drift, draws(10, 1), model(second))
    ask(drift, draws(500, 1), model())
    assert (drift.by_model()["key"].ref, drift.by_model()["key"].rows) == (second, 10)


def test_drift_counts_are_summed_over_workers(tmp_path, monkeypatch):
    drift = Drift({}, str(tmp_path))
    for worker in (11, 12):
        monkeypatch.setattr("serving.http.drift.os.getpid", lambda worker=worker: worker)
        one = Drift({}, str(tmp_path))
        ask(one, draws(150, worker), model())
        one.count_queued()
    monkeypatch.setattr("serving.http.drift.os.getpid", lambda: 13)
    assert drift.by_model()["key"].rows == 300
    gauges = {family.name: family.samples for family in drift.collect()}
    assert gauges["perfjudge_judged_rows"][0].value == 300
    assert len(gauges["perfjudge_drift"]) == len(NAMES)
    assert gauges["perfjudge_drift_max"][0].value == max(one.value for one in gauges["perfjudge_drift"])


def test_cards_are_read_with_and_without_deciles(tmp_path):
    usual = deciles_of_features(("a",), draws(100, 0)[:, :1])
    content = asdict(Card("m", ("a",), 0.5, {}, {"a": 0.0}, "ab", 0, 0.01, usual))
    for known in (usual, {}):
        (tmp_path / "card.json").write_text(json.dumps(content))
        assert Card.read(tmp_path).usual == known
        content.pop("usual", None)


def test_out_of_distribution_requests_are_counted_by_endpoint_and_model():
    counters = ServerCounters(None, Drift({}))
    for unlike in (2, 0, 1):
        exchange = RequestContext("POST", "id", has_body=True, status=200, served=model())
        exchange.answered = Answered(b"", n_out_of_distribution=unlike)
        counters.count_request(exchange, "/judge", {"pass": 4})
    lines = counters.prometheus_text().decode().splitlines()
    assert 'perfjudge_out_of_distribution_total{endpoint="/judge",model="some",version="1"} 3.0' in lines
