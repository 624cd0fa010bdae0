"""A server answers with the model that it names, which follows its alias."""

import logging
import time
from types import SimpleNamespace

import pytest

from data.errors import InputError
from serving.http import models as lazy_models
from serving.http.models import HotReloadingModel
from serving.models import Head, ModelRef
from serving.plugins import Loader, Registered
from training.registry.champions import Version


class Registry:
    """Versions of a model; the last one is champion."""

    def __init__(self):
        self.versions, self.broken, self.loads, self.away = [], set(), [], False

    def found(self, name, uri):
        if self.away or not self.versions:
            raise InputError("no champion")
        number = str(self.versions[-1]) if uri is None else uri[-1]
        return Version("some", number, {}, f"/files/{number}")

    def card(self, version):
        if "no card" in self.broken:
            raise InputError("no card")
        return Head(None, ModelRef("some", version.version, version.uri))

    def load(self, version, **knobs):
        self.loads.append(version.version)
        if version.version in self.broken:
            raise InputError(f"{version.uri} is broken")
        return SimpleNamespace(**vars(self.card(version)))

    def trial(self, model):
        if f"{model.ref.version} is dumb" in self.broken:
            raise ValueError("no answer")

    def lazy(self, uri=None, shared=None, *, eager=False):
        card = None if eager else self.card
        loader = Loader(lambda: "any", self.load, lambda known: {"estimator": "e"}, dict, card, self.trial)
        return HotReloadingModel.from_options(Registered("some", ""), loader, {"some": uri}, shared)


@pytest.fixture
def registry(monkeypatch):
    registry = Registry()
    monkeypatch.setattr(lazy_models, "resolve_address", registry.found)
    return registry


@pytest.fixture
def standing(registry):
    """A model whose first version answers."""
    registry.versions.append(1)
    model = registry.lazy(eager=True)
    assert model.ensure_loaded().ref.version == "1"
    return model


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(("uri", "version", "swaps"), [(None, "2", 1), ("models:/some/1", "1", 0)])
def test_an_unused_model_follows_only_its_alias_without_loading(registry, uri, version, swaps):
    registry.versions.append(1)
    model = registry.lazy(uri)
    registry.versions.append(2)
    assert model.models_entry["version"] == "1"
    model.check_alias()
    assert (model.models_entry["version"], model.swaps, registry.loads) == (version, swaps, [])
    assert model.ensure_loaded().ref.version == version


def test_a_champion_may_come_later_but_a_named_model_may_not(registry):
    with pytest.raises(InputError, match="no champion"):
        registry.lazy("models:/some/1")
    model = registry.lazy()
    with pytest.raises(InputError):
        model.ensure_loaded()
    model.check_alias()
    assert (model.models_entry, model.readiness_entry) == (None, None)
    registry.versions.append(1)
    model.check_alias()
    assert (model.models_entry["version"], model.load_failure, model.swaps) == ("1", None, 0)
    assert model.ensure_loaded().ref.version == "1"


@pytest.mark.parametrize(("how", "next_one"), [("2", "3"), ("2 is dumb", "3"), ("no card", "3"), ("2", "2")])
def test_a_broken_version_keeps_the_previous_one_answering(
    registry, standing, how, next_one, caplog, monkeypatch
):
    registry.versions.append(2)
    registry.broken.add(how)
    for _ in range(3):
        standing.check_alias()
    assert standing.ensure_loaded().ref.version == "1"
    entries = standing.readiness_entry, standing.models_entry
    assert [entry["load_failure"] for entry in entries] == [standing.load_failure] * 2 != [None] * 2
    # what is broken is not read again at once
    assert (len(said(caplog)), registry.loads) == (1, ["1", "2"])
    assert said(caplog)[0].endswith("; models:/some/1 answers meanwhile")
    registry.broken.clear()
    if next_one == "3":
        registry.versions.append(3)
    else:
        # it is tried again after a while
        monkeypatch.setattr(lazy_models, "monotonic", lambda: float("inf"))
    standing.check_alias()
    assert (standing.loaded_model.ref.version, standing.load_failure, standing.swaps) == (next_one, None, 1)
    assert said(caplog)[1:] == [f"any: all is well again, models:/some/{next_one} answers"]


def test_without_a_registry_the_last_version_keeps_answering(registry, standing, caplog):
    registry.away = True
    for _ in range(3):
        standing.check_alias()
    assert (standing.ensure_loaded().ref.version, standing.load_failure) == ("1", "no champion")
    registry.away = False
    standing.check_alias()
    assert standing.load_failure is None
    assert said(caplog) == [
        "any: no champion; models:/some/1 answers meanwhile",
        "any: all is well again, models:/some/1 answers",
    ]


def test_a_new_process_serves_the_version_of_its_siblings(registry, tmp_path, caplog):
    registry.versions.append(1)
    registry.lazy(shared=tmp_path, eager=True).ensure_loaded()
    registry.versions.append(2)
    registry.broken.add("2")
    late = registry.lazy(shared=tmp_path, eager=True)
    assert (late.ensure_loaded().ref.version, late.load_failure) == ("1", "models:/some/2 is broken")
    registry.away = True
    assert registry.lazy(shared=tmp_path, eager=True).ensure_loaded().ref.version == "1"
    assert [line.endswith("models:/some/1 answers meanwhile") for line in said(caplog)] == [True, True]


@pytest.mark.parametrize(
    ("is_used", "is_broken", "loads"), [(1, 0, ["1", "1"]), (0, 0, []), (1, 1, ["1", "1"])]
)
def test_a_used_model_is_loaded_by_all_processes(registry, tmp_path, is_used, is_broken, loads):
    registry.versions.append(1)
    used, other = registry.lazy(shared=tmp_path), registry.lazy(shared=tmp_path)
    if is_used:
        used.ensure_loaded()
    registry.broken = {"1"} if is_broken else set()
    with lazy_models.follow_aliases([other], 0.01):
        time.sleep(0.3)
    # a failure is not repeated
    assert registry.loads[: len(loads)] == loads
    assert len(registry.loads) <= len(loads) + is_broken
    assert (other.loaded_model is not None) == bool(is_used and not is_broken)


def test_a_load_failure_is_reported_until_loading_succeeds(registry):
    registry.versions.append(1)
    registry.broken.add("1")
    model = registry.lazy()
    assert model.load_failure is None
    with pytest.raises(InputError, match="broken"):
        model.ensure_loaded()
    model.check_alias()
    assert model.load_failure == "models:/some/1 is broken"
    registry.broken.clear()
    assert (model.ensure_loaded().ref.version, model.load_failure) == ("1", None)


def test_a_requested_model_is_loaded_once_with_its_options():
    asked = []

    def load(uri, **knobs):
        asked.append((uri.location, knobs))
        return SimpleNamespace()

    loader = Loader(str, load, vars, dict)
    model = Registered("some", "", {"floor": float, "other": str})
    options = {"some": "/", "floor": 0.2, "other": None, "foreign": 1}
    lazy = HotReloadingModel.from_options(model, loader, options)
    assert (lazy.eager, lazy.ref) == (True, None)
    assert lazy.ensure_loaded() is lazy.ensure_loaded()
    assert asked == [("/", {"floor": 0.2})]
