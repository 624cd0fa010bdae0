import json
import re
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from xgboost import DMatrix, XGBClassifier

from data.errors import InputError
from tests.code.fitted_models import trained, vectors
from training.comparisons.stored import ReadyModel
from training.estimators import compiled_pipeline
from training.estimators.answering import FittedPipeline
from training.estimators.boosted_trees import Attributions, Boosted
from training.estimators.catalogue import CATALOGUE, fail_probability
from training.registry.stored import StoredCard, load_model, store_model

FREEZING = ("logistic", "decision-tree", "random-forest", "extra-trees")


@pytest.mark.parametrize("name", FREEZING)
def test_compiled_arrays_answer_each_row_like_the_pipeline(name, tmp_path):
    model = trained(name)
    model.write(tmp_path)
    arrays, ready = compiled_pipeline.read(*files_of(tmp_path)), ReadyModel.read(tmp_path)
    assert ready.card == model.card
    unseen = np.concatenate([np.full((1, 6), np.nan), np.full((1, 6), -1e6), vectors(1000, seed=9)])
    expected = fail_probability(model.model, unseen)
    assert np.ptp(expected) > 0.5
    found = arrays.predict_and_explain(unseen, np.zeros(6))[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    predict = ready.predict_and_explain
    for together, alone in zip(predict(unseen), predict(unseen[-1:]), strict=True):
        assert together[-1].tolist() == alone[0].tolist()
    assert [answer.shape for answer in predict(unseen[:0])] == [(0,), (0, 6)]


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - set(FREEZING)))
def test_other_models_answer_as_their_pipeline_does(name, tmp_path):
    model = trained(name)
    model.write(tmp_path)
    unseen, read = vectors(50, seed=3), ReadyModel.read(tmp_path).answering
    assert isinstance(read, Boosted if name == "xgboost" else FittedPipeline)
    found = read.predict_and_explain(unseen, np.zeros(6))[0]
    assert found.tolist() == fail_probability(model.model, unseen).tolist()


def files_of(directory):
    return directory / compiled_pipeline.FILE, directory / "model.skops"


def rewritten(directory, **changes):
    """Write a tree, then change arrays in its file, or leave them out."""
    trained("decision-tree").write(directory)
    arrays, pipeline = files_of(directory)
    content = dict(np.load(arrays)) | changes
    np.savez(arrays, **{name: array for name, array in content.items() if array is not None})
    return arrays, pipeline


def test_compiled_arrays_of_other_models_and_versions_are_ignored(tmp_path):
    new = trained("decision-tree", seed=5)
    new.write(tmp_path / "new")
    old, _ = rewritten(tmp_path / "old", version=compiled_pipeline.VERSION + 1)
    assert compiled_pipeline.read(*files_of(tmp_path / "old")) is None
    rewritten(tmp_path / "old")
    old.rename(tmp_path / "new" / compiled_pipeline.FILE)
    assert compiled_pipeline.read(*files_of(tmp_path / "new")) is None
    unseen = vectors(50, seed=3)
    found = ReadyModel.read(tmp_path / "new").answering.predict_and_explain(unseen, np.zeros(6))[0]
    np.testing.assert_allclose(found, fail_probability(new.model, unseen), atol=1e-12)


LEAVES, ONE_FEATURE = np.full(3, -1), {"feature": np.zeros(3, np.intp)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"value": np.array([{}], object)}, "is not a readable NumPy archive (Object arrays"),
        ({"children": np.zeros((3, 2), np.intp), **ONE_FEATURE}, "children[0, 0]=0 is not after its parent"),
        ({"children": np.array([[1, 2], [0, 2], [1, 1]]), **ONE_FEATURE}, "children[1, 0]=0 is not after"),
        ({"children": np.full((3, 2), 3), **ONE_FEATURE}, "children[0, 0]=3 is not one"),
        ({"feature": np.array([6, -1, -1])}, "feature[0]=6 is not one of the 6 features"),
        ({"feature": np.array([-2, -1, -1])}, "feature[0]=-2 is not one of the 6 features"),
        ({"roots": np.array([3])}, "roots[0]=3 is not one of the 3 nodes"),
        ({"roots": np.array([], np.intp)}, 'array "roots": is empty'),
        ({"roots": None}, 'has no array "roots"; found version, '),
        ({"value": np.zeros(4)}, 'array "value": holds float64 of shape (4,); expected numbers of shape (3'),
        ({"value": np.array([0.5, np.nan, 1.0])}, 'array "value": holds nan; expected finite numbers'),
        ({"value": np.array([0.5, 2.0, 1.0])}, "value: expected shares from 0 to 1"),
        ({"feature": LEAVES * 1.0}, 'array "feature": holds float64 of shape (3,); expected whole numbers'),
        ({"threshold": np.array(["a"] * 3)}, 'array "threshold": holds <U1 of shape (3,); expected numbers'),
        ({"scale": np.zeros(6)}, "scale=0.0 is not above 0"),
        ({"kind": "forest"}, 'array "kind": is "forest"; expected linear or trees'),
        ({"version": "1"}, 'array "version": holds <U1 of shape (); expected whole numbers of shape ()'),
    ],
)  # fmt: skip
def test_malformed_tree_arrays_are_refused_by_name(tmp_path, changes, told):
    nodes = {
        "children": np.array([[1, 2], [-1, -1], [-1, -1]]), "feature": np.array([0, -1, -1]),
        "threshold": np.zeros(3), "value": np.array([0.5, 0.0, 1.0]),
    }  # fmt: skip
    with pytest.raises(InputError) as caught:
        compiled_pipeline.read(*rewritten(tmp_path, **nodes | changes))
    assert str(caught.value).startswith(f"{tmp_path / compiled_pipeline.FILE}")
    assert told in str(caught.value)


def test_a_decompression_bomb_of_arrays_is_refused(tmp_path, monkeypatch):
    path, model = rewritten(tmp_path)
    monkeypatch.setattr("data.tables.arrays.MAX_BYTES", 1000)
    with pytest.raises(InputError, match=r"model.npz: unpacks to \d+ MB; expected \d+ at most"):
        compiled_pipeline.read(path, model)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"features": list("abcde")}, "features: names 5, but the model takes 6"),
        ({"features": "abc"}, 'card.json: features="abc" is not a list'),
        ({"features": [1]}, "card.json: features[0]=1 is not a string"),
        ({"features": ["a", "z"]}, 'card.json: the file: reference has no "z"'),
        ({"threshold": None}, "card.json: threshold=null is not a number"),
        ({"threshold": 1e999}, "is not JSON (Infinity is not a finite number)"),
        ({"reference": {"a": "much"}}, 'card.json: reference.a="much" is not a number'),
        ({"seed": ...}, "card.json: lacks seed"),
    ],
)
def test_a_card_that_does_not_fit_is_refused_by_key(tmp_path, changes, told):
    trained("decision-tree").write(tmp_path)
    card = json.loads((tmp_path / "card.json").read_text()) | changes
    kept = {key: value for key, value in card.items() if value is not ...}
    (tmp_path / "card.json").write_text(json.dumps(kept))
    for _ in ("with compiled arrays", "without"):
        with pytest.raises(InputError, match=re.escape(told)):
            ReadyModel.read(tmp_path)
        (tmp_path / compiled_pipeline.FILE).unlink(missing_ok=True)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b"PK\x03\x04"])
@pytest.mark.parametrize("name", ["model.skops", "card.json"])
def test_an_invalid_card_or_pipeline_is_refused_by_file(tmp_path, name, content):
    trained("decision-tree").write(tmp_path)
    (tmp_path / compiled_pipeline.FILE).unlink()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        ReadyModel.read(tmp_path)


@pytest.mark.parametrize(
    "build",
    [
        LogisticRegression,
        partial(DecisionTreeClassifier, random_state=0),
        partial(RandomForestClassifier, 5, random_state=0),
        partial(XGBClassifier, n_estimators=5),
    ],
    ids=["logistic", "decision tree", "forest", "xgboost"],
)
def test_equal_models_are_stored_as_equal_bytes(build, tmp_path):
    x, files = np.random.default_rng(0).normal(size=(200, 4)), []
    rows = x, (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
    for attempt in "ab":
        # arrays that are freed leave other bytes in the padding of nodes, and other addresses
        del [np.full(5_000, ord(attempt), np.uint8) for _ in range(500)][:]
        files.append(store_model(tmp_path / attempt, build().fit(*rows), StoredCard()))
    assert files[0].read_bytes() == files[1].read_bytes()
    expected = build().fit(*rows).predict_proba(rows[0])
    assert np.array_equal(load_model(tmp_path / "a").predict_proba(rows[0]), expected)


@pytest.mark.parametrize("depth", [1, 3, 4, 7])
def test_attributions_of_trees_with_few_leaves_equal_those_of_xgboost(depth):
    rows = vectors(600, seed=0).astype(np.float32)
    failed = np.nan_to_num(rows[:, 0]) * np.nan_to_num(rows[:, 1], nan=0.5) + np.nan_to_num(rows[:, 2]) > 0.3
    trees = XGBClassifier(n_estimators=12, max_depth=depth, nthread=1).fit(rows, failed).get_booster()
    attributions = Attributions.from_booster(trees)
    assert (attributions is None) == (depth == 7)
    if attributions is not None:
        own = trees.predict(DMatrix(rows), pred_contribs=True)[:, :-1]
        assert np.abs(own).max() > 1
        found = attributions.compute_contributions(rows)
        np.testing.assert_allclose(found, own, atol=2e-6)
        each = np.vstack([attributions.compute_contributions(row[None]) for row in rows[::10]])
        np.testing.assert_array_equal(each, found[::10])
