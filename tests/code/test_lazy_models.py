"""The model that a server names is the one that answers."""

from types import SimpleNamespace

import pytest

from data.errors import InputError
from serving.doors.lazy import Lazy
from serving.models import Head, ModelRef
from serving.supply import Loader, Registered

ENTRY = {"name": "some", "version": "1", "uri": "models:/some/1", "estimator": "e", "serves": "any"}


class Registry:
    """Versions of a model; the last one is champion."""

    def __init__(self):
        self.versions = []

    def card(self, uri=None):
        if uri is None and not self.versions:
            raise InputError("no champion")
        address = uri or f"models:/some/{self.versions[-1]}"
        return Head(None, ModelRef("some", address[-1], address))

    def lazy(self, uri=None):
        loader = Loader(lambda: "any", self.card, lambda known: {"estimator": "e"}, dict, self.card)
        return Lazy.of(Registered("some", ""), loader, {"some": uri})


@pytest.fixture
def registry():
    return Registry()


def test_who_is_promoted_after_the_start_answers_after_the_next_one(registry):
    registry.versions.append(1)
    model = registry.lazy()
    registry.versions.append(2)
    assert model.get().ref.version == "1"
    assert model.entry == ENTRY


def test_a_server_without_champion_names_the_one_that_it_found_later(registry):
    model = registry.lazy()
    with pytest.raises(InputError):
        model.get()
    assert model.entry is None
    registry.versions.append(1)
    assert model.get().ref.version == "1"
    assert model.entry == ENTRY


def test_a_model_that_is_named_must_be_there_at_the_start(registry, monkeypatch):
    def absent(uri):
        raise InputError(f"no model {uri}")

    monkeypatch.setattr(registry, "card", absent)
    with pytest.raises(InputError, match="no model here"):
        registry.lazy("here")


def test_a_model_that_is_waited_for_is_loaded_once_with_its_knobs():
    asked = []

    def load(uri, **knobs):
        asked.append((uri, knobs))
        return SimpleNamespace(ref=ModelRef("some", "1", "here"))

    loader = Loader(str, load, vars, dict)
    model = Registered("some", "", {"floor": float, "other": str})
    lazy = Lazy.of(model, loader, {"some": "here", "floor": 0.2, "other": None, "foreign": 1})
    assert (lazy.eager, lazy.ref) == (True, None)
    assert lazy.get() is lazy.get()
    assert asked == [("here", {"floor": 0.2})]
