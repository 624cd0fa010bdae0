"""The model of matrices that a server names is the one that answers."""

import pytest

from data.errors import InputError
from serving.comparisons.model import ModelRef
from serving.doors.problems import RefusedError
from serving.matrices import served as matrices_served
from serving.matrices.served import MatrixModels


class Registry:
    """Versions of a model; the last one is champion."""

    def __init__(self):
        self.versions = []

    def uri(self, uri):
        if uri is None and not self.versions:
            raise InputError("no champion")
        return uri or f"models:/regression-matrix/{self.versions[-1]}"

    def described(self, uri=None):
        return {"uri": self.uri(uri)}

    def load(self, uri=None):
        address = self.uri(uri)

        class Engine:
            card = None

        class Served:
            engine, ref = Engine, ModelRef("regression-matrix", address[-1], address)

        return Served


@pytest.fixture
def registry(monkeypatch):
    registry = Registry()
    for name in ("described", "load"):
        monkeypatch.setattr(matrices_served, name, getattr(registry, name))
    monkeypatch.setattr(matrices_served, "told", lambda card, ref: {"uri": ref.uri})
    return registry


def test_who_is_promoted_after_the_start_answers_after_the_next_one(registry):
    registry.versions.append(1)
    models = MatrixModels.of()
    registry.versions.append(2)
    assert models.engine.get().ref.version == "1"
    assert models.cards == ({"uri": "models:/regression-matrix/1"},)


def test_a_server_without_champion_names_the_one_that_it_found_later(registry):
    models = MatrixModels.of()
    with pytest.raises(RefusedError):
        models.engine.get()
    assert models.cards == ()
    registry.versions.append(1)
    assert models.engine.get().ref.version == "1"
    assert models.cards == ({"uri": "models:/regression-matrix/1"},)
