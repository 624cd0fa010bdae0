"""The list of model families, and the parts that each provides in the data layer.

A new family adds folders, its sections of params.yaml and dvc.yaml, and its name here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

FAMILIES = ("comparisons", "matrices", "corun", "fingerprints")


@dataclass(frozen=True)
class DataPlugin:
    """A family's functions in the data layer, as import strings such as ``data.corun.collect:collect``.

    Attributes
    ----------
    ingest, validate : str or None
        Stages, functions without arguments; None if the family has no such stage.
    suite : str
        The ``kind`` of the suites that `collect` measures.
    collect : str or None
        Takes a suite's file, a directory and a `data.measure.session.Screen`; returns whether all runs were
        measured. None if the family measures nothing.
    """

    ingest: str
    validate: str | None = None
    suite: str = ""
    collect: str | None = None


def family_plugin(family: str) -> DataPlugin:
    """Return the import strings of a family's functions; ModuleNotFoundError if `family` is unknown.

    `family` is a name such as "corun", of a package in ``data``. AttributeError if the package is no family.
    """
    plugin: DataPlugin = import_module(f"data.{family}").PLUGIN
    return plugin
