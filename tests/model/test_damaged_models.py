"""A damaged model never answers with a number that is not finite, whatever was done to its arrays."""

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.request import EXAMPLE
from data.errors import ModelError
from serving.comparisons.endpoints import answer_json, answer_many
from serving.http import schemas
from serving.http.api import create_app
from serving.http.models import all_models
from serving.models import ModelRef, Served
from tests.asking import ask
from tests.code.matrices.engines import trained_on
from tests.commands import perfjudge
from tests.matrix_pairs import pairs
from tests.model.comparisons.measured_models import trained
from training.comparisons.stored import ReadyModel
from training.corun.estimators.fitting import ImpactRecipe, named_of
from training.corun.estimators.models import CATALOGUE as IMPACTS
from training.corun.stored import ImpactCard, TrainedImpact
from training.estimators.catalogue import CATALOGUE
from training.matrices.judging import judge_tables

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FACTORS = st.sampled_from([1e308, -1e308, 1e300, 1e200, -1e160])
BODY = json.dumps(EXAMPLE).encode()


def float_arrays(thing, seen=None):
    """Yield every array of floats that a model holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind == "f" and thing.size and thing.flags.writeable:
            yield thing
        if thing.dtype.kind != "O":
            return
        inner = thing.ravel().tolist()
    elif isinstance(thing, dict | list | tuple):
        inner = thing.values() if isinstance(thing, dict) else thing
    elif is_dataclass(thing):
        inner = [getattr(thing, field.name) for field in fields(thing)]
    else:
        inner = () if isinstance(thing, type) else getattr(thing, "__dict__", {}).values()
    for one in inner:
        yield from float_arrays(one, seen)


def damaged(model, data):
    """Return a copy of which some arrays are multiplied: finite in themselves, they overflow later."""
    copy = deepcopy(model)
    arrays = [one for one in float_arrays(copy) if np.isfinite(one).any()]
    chosen = data.draw(st.lists(st.integers(0, len(arrays) - 1), min_size=1, max_size=4, unique=True))
    for place in chosen:
        values, factor = arrays[place], data.draw(FACTORS)
        factor = min(abs(factor), float(np.finfo(values.dtype).max) / 10) * np.sign(factor)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= factor
        most = np.finfo(values.dtype).max
        np.nan_to_num(values, copy=False, nan=0.0, posinf=most, neginf=-most)
    return copy


@pytest.fixture(scope="module", params=list(CATALOGUE))
def of_comparisons(request):
    return ReadyModel.from_trained(trained(request.param))


@settings(max_examples=15)
@given(data=st.data())
def test_a_damaged_model_of_comparisons_gives_finite_numbers_or_none(of_comparisons, data):
    served = Served(damaged(of_comparisons, data), ModelRef("some", "1", "some/1"))
    with suppress(ModelError):
        answer = json.loads(answer_json(BODY, served).content, parse_constant=pytest.fail)
        assert all(one["probability"] is not None for one in answer["verdicts"])


@pytest.fixture(scope="module", params=["logistic", "svm", "random-forest", "knn", "tan"])
def of_matrices(request):
    return trained_on(pairs(cases=6), request.param), pairs(cases=1, versions=2, seed=5)


@settings(max_examples=5)
@given(data=st.data())
def test_a_damaged_engine_of_matrices_gives_finite_numbers_or_none(of_matrices, data):
    engine, asked = of_matrices
    with suppress(ModelError):
        for one in judge_tables(damaged(engine, data), asked, n_attributions=3).verdicts:
            told = [one.probability, one.threshold, *(driver.contribution for driver in one.attributions)]
            assert one.verdict == "invalid" or np.isfinite(told).all()


@pytest.fixture(scope="module", params=["linear", "svm", "random-forest", "contention", "bayes-ranges"])
def of_coruns(request):
    columns, tasks = ("own_rate", "others_rate"), np.array([f"t{number}" for number in range(8)])
    own, others = np.random.default_rng(1).uniform(0, 1, (2, 64))
    rows = pd.DataFrame({
        "task": np.repeat(tasks, 8), "corunners": np.tile(tasks, 8), "machine": "m",
        "own_rate": own, "others_rate": others, "impact": 1 + own * others,
    })  # fmt: skip
    few = {"trees": 5, "forest": 3} if request.param == "contention" else {}
    model = ImpactRecipe(request.param, IMPACTS[request.param].start | few, columns, 0.03, 1).fit(rows).model
    card = ImpactCard(request.param, columns, {}, {"pairs": 0.1}, ("m",), tuple(tasks), "d", 1, 0.9)
    return TrainedImpact(model, card), rows


@settings(max_examples=15)
@given(data=st.data())
def test_a_damaged_model_of_coruns_gives_finite_numbers_or_none(of_coruns, data):
    trained_model, rows = of_coruns
    with suppress(ModelError):
        rates = rows[["own_rate", "others_rate"]].to_numpy()
        impacts = damaged(trained_model, data).predict_impacts(rates, named_of(rows))
        assert np.isfinite(impacts).all()


@pytest.fixture
def damaged_directory(tmp_path):
    """A linear model whose coefficients are finite on disk, and overflow when they are used."""
    trained("logistic").write(tmp_path)
    path = tmp_path / "model.npz"
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "coefficients": np.copysign(1e308, arrays["coefficients"])})
    return tmp_path


@pytest.mark.parametrize("shown", ["table", "json", "xml", "markdown", "junit"])
def test_a_damaged_model_ends_every_command_with_one_line(damaged_directory, tmp_path, shown):
    (tmp_path / "asked.json").write_bytes(BODY)
    judge = ("judge", tmp_path / "asked.json", "--model", damaged_directory, "--format", shown)
    done = perfjudge(*judge)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "expected a finite number: the model's files are damaged" in done.stderr.replace(";", ":")
    assert perfjudge(*judge, "-o", tmp_path / "answer").returncode == 2
    assert not (tmp_path / "answer").exists()


def test_a_server_does_not_answer_with_a_damaged_model(damaged_directory):
    app = create_app(all_models({"model": str(damaged_directory)}))
    question = {"content": BODY, "headers": {"content-type": "application/json"}}
    requests = ("POST", "/v1/comparisons/judge", question), ("GET", "/readyz")
    answered, ready = ask(app, *requests, started=True)
    assert (answered.status_code, answered.headers["content-type"]) == (503, schemas.MEDIA_TYPE)
    assert "expected a finite number" in answered.json()["detail"]
    assert ready.status_code == 503


def test_a_damaged_model_fails_the_requests_that_it_cannot_answer():
    model = ReadyModel.from_trained(trained("logistic"))
    served = Served(model, ModelRef("some", "1", "some/1"))
    assert not any(isinstance(one, ModelError) for one in answer_many([BODY, BODY], served))
    with np.errstate(over="ignore"):
        model.answering.coefficients[:] = np.copysign(1e308, model.answering.coefficients)
    assert [type(one) for one in answer_many([BODY, BODY], served)] == [ModelError, ModelError]
