import numpy as np
import pandas as pd
import pytest

from training import frozen
from training.answering import Fitted
from training.models import CATALOGUE
from training.pipeline import answering, fail_probability, pipeline
from training.ready import ReadyModel
from training.trained import Card, TrainedModel

NAMES = tuple("abcdef")
FREEZING = ("logistic", "decision-tree", "random-forest", "extra-trees")


def vectors(rows, seed):
    """Six features with gaps; one is never known, one has few values, so that some equal a threshold."""
    generator = np.random.default_rng(seed)
    columns = generator.normal(size=(rows, len(NAMES)))
    columns[:, 1] = np.round(columns[:, 1] * 2) / 2
    columns[generator.random(columns.shape) < 0.2] = np.nan
    columns[:, 5] = np.nan
    return columns


def trained(name, weights="balanced", seed=0):
    """Fit the first configuration of the catalogue's model `name` to noisy labels, which make deep trees."""
    columns, generator = vectors(300, seed), np.random.default_rng(seed + 1)
    fails = (np.nan_to_num(columns[:, 0]) + generator.normal(0, 1, 300) < -0.7).astype(np.int64)
    model = CATALOGUE[name]
    params = {**model.start, "weights": weights, "cost_ratio": 3.0}
    fitted = answering(pipeline(model, params, fails, seed).fit(columns, fails))
    return TrainedModel(fitted, Card(name, NAMES, 0.5, {}, dict.fromkeys(NAMES, 0.0), "d", seed))


@pytest.fixture(scope="module", params=FREEZING)
def frozen_model(request):
    return trained(request.param)


def test_arrays_read_from_disk_answer_as_the_pipeline_does(frozen_model, tmp_path):
    frozen_model.write(tmp_path)
    read = frozen.read(tmp_path / frozen.FILE, tmp_path / "model.skops")
    unseen = np.concatenate([vectors(3000, seed=9), np.full((1, 6), np.nan), np.full((1, 6), -1e6)])
    expected = fail_probability(frozen_model.pipeline, unseen)
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(read.probability(unseen), expected, rtol=0, atol=1e-12)
    assert ReadyModel.read(tmp_path).card == frozen_model.card


def test_the_answer_to_one_does_not_depend_on_the_others(frozen_model):
    unseen = pd.DataFrame(vectors(1200, seed=4), columns=list(NAMES))
    model = ReadyModel.of(frozen_model)
    last = unseen.tail(1)
    np.testing.assert_allclose(model.probability(unseen)[-1:], model.probability(last), rtol=0, atol=1e-15)
    np.testing.assert_allclose(model.contributions(unseen)[-1:], model.contributions(last), atol=1e-15)
    assert model.contributions(unseen.head(0)).shape == (0, 6)


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - set(FREEZING)))
def test_other_models_answer_from_their_pipeline(name, tmp_path):
    model = trained(name)
    model.write(tmp_path)
    unseen = vectors(50, seed=3)
    read = ReadyModel.read(tmp_path).answering
    assert isinstance(read, Fitted)
    assert read.probability(unseen).tolist() == fail_probability(model.pipeline, unseen).tolist()


def test_arrays_of_another_model_are_not_asked(tmp_path):
    old, new = trained("decision-tree", seed=0), trained("decision-tree", seed=5)
    old.write(tmp_path / "old")
    new.write(tmp_path / "new")
    (tmp_path / "old" / frozen.FILE).rename(tmp_path / "new" / frozen.FILE)
    unseen = vectors(50, seed=3)
    found = ReadyModel.read(tmp_path / "new").answering.probability(unseen)
    assert frozen.read(tmp_path / "new" / frozen.FILE, tmp_path / "new" / "model.skops") is None
    np.testing.assert_allclose(found, fail_probability(new.pipeline, unseen), atol=1e-12)


def rewritten(directory, **changes):
    """Write a tree, then change arrays in its file."""
    trained("decision-tree").write(directory)
    with np.load(directory / frozen.FILE) as arrays:
        content = dict(arrays)
    np.savez(directory / frozen.FILE, **{**content, **changes})
    return directory / frozen.FILE, directory / "model.skops"


def test_another_version_is_not_read(tmp_path):
    assert frozen.read(*rewritten(tmp_path, version=frozen.VERSION + 1)) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"share": np.array([{}], object)}, "pickle"),
        ({"children": np.zeros((3, 2), np.intp), "feature": np.zeros(3, np.intp)}, "children"),
        ({"children": np.full((3, 2), 3), "feature": np.zeros(3, np.intp)}, "children"),
        ({"children": np.array([[1, 2]] * 3), "feature": np.array([6, -1, -1])}, "features"),
    ],
)
def test_arrays_that_cannot_be_walked_or_trusted_are_refused(tmp_path, changes, told):
    with pytest.raises(ValueError, match=told):
        frozen.read(*rewritten(tmp_path, **changes))
