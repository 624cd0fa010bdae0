"""A family of models: where its files lie, and which of its table's columns are features."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from data.errors import InputError
from data.params import Comparisons, Params, load
from data.stage import FAMILIES, guard

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Family:
    """What the stages need to know of a family.

    Attributes
    ----------
    name : str
    params : Params
        All of params.yaml.
    section : Comparisons
        The family's own section.
    columns : callable
        Returns the features that the models see.
    rules : callable
        Returns the fixed rules' verdicts: a boolean column per rule (True is fail), indexed by
        ``comparison_id``.
    root : Path
        The project's directory.
    """

    name: str
    params: Params
    section: Comparisons
    columns: Callable[[], tuple[str, ...]]
    rules: Callable[[], pd.DataFrame]
    root: Path = Path()

    @property
    def features(self) -> Path:
        """The table of labelled vectors."""
        return self.root / "data" / "processed" / self.name / "features.parquet"

    @property
    def asked(self) -> Path:
        """The table of what models are asked about the same comparisons."""
        return self.features.with_name("asked.parquet")

    @property
    def interim(self) -> Path:
        """The directory of results, comparisons and labels."""
        return self.root / "data" / "interim" / self.name

    @property
    def tuned(self) -> Path:
        """The directory of what the searches tried and chose."""
        return self.root / "models" / "tuned" / self.name

    @property
    def models(self) -> Path:
        """The directory of trained models, a directory each."""
        return self.root / "models" / self.name

    @property
    def reports(self) -> Path:
        """The directory of metrics and verdicts."""
        return self.root / "reports" / self.name

    @property
    def studies(self) -> Path:
        """Where searches keep their trials."""
        return self.root / ".studies" / self.name


def family(name: str) -> Family:
    """Return the family called `name`, with the params.yaml of the working directory.

    Raises
    ------
    InputError
        If there is no such family, or params.yaml is wrong.
    """
    from training.comparisons.bound import comparisons

    makers = {"comparisons": comparisons}
    if name not in makers:
        raise InputError(f"{name!r} is no family; expected one of: {', '.join(makers)}")
    return makers[name](load())


def run(stage: Callable[[Family], None]) -> None:
    """Run a stage for the families named on the command line; what fails ends as `data.stage.guard` says.

    A family that is no classification has stages of its own, ``<verb>_stage`` in
    ``training.<family>_<verb>`` or ``training.<family>``.
    """
    for name in sys.argv[1:] or [""]:
        guard(partial(_run, stage, name))


def _run(stage: Callable[[Family], None], name: str) -> None:
    own = _own_stage(name, stage.__name__) if name in FAMILIES else None
    if own is None:
        stage(family(name))
    else:
        own()


def _own_stage(name: str, verb: str) -> Callable[[], None] | None:
    modules = (f"training.{name}_{verb}", f"training.{name}")
    stages = (
        getattr(import_module(module), f"{verb}_stage", None) for module in modules if find_spec(module)
    )
    return next(filter(None, stages), None)
