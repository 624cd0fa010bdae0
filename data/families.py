"""The list of model families, and the parts that each provides in the data layer.

A new family adds folders, its sections of params.yaml and dvc.yaml, and its name here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

FAMILIES = ("comparisons", "matrices", "corun", "fingerprints")


@dataclass(frozen=True)
class DataPlugin:
    """A family's functions in the data layer, as import strings such as ``data.corun.collect:collect``."""

    ingest: str  # a stage, a function without arguments
    validate: str | None = None  # a stage
    suite: str = ""  # the ``kind`` of the suites that `collect` measures
    #: Takes a suite's file, a directory and a `data.measure.session.Screen`; returns whether it is complete.
    collect: str | None = None


def family_plugin(family: str) -> DataPlugin:
    """Return the import strings of a family's functions; ModuleNotFoundError if `family` is unknown."""
    return import_module(f"data.{family}").PLUGIN
