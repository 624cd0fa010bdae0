"""The entry of a model family in the features package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from data.stage import Stage


@dataclass(frozen=True)
class FeaturesPlugin:
    """The stage that a model family provides in the features package."""

    #: The stage or its import string; None where vectors depend on the fold and are computed in training.
    featurize: Stage | str | None = None


def family_plugin(family: str) -> FeaturesPlugin:
    """Return the constant ``PLUGIN`` of ``features.<family>``; ModuleNotFoundError if `family` is unknown.

    Its ``featurize`` is the stage or its import string, None without such a stage.
    """
    plugin: FeaturesPlugin = import_module(f"features.{family}").PLUGIN
    return plugin
