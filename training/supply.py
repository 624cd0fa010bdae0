"""What a family supplies to the room where vectors become models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.stage import Stage

if TYPE_CHECKING:
    from training.evaluation.paired_bootstrap import OutOfFoldPredictions


def lazily(address: str, *given: str) -> Callable[[], Any]:
    """Return a function that imports and calls the function at ``package.module:name``.

    It is called with the results of the functions at the addresses `given`.
    """
    return partial(_called, address, *given)


def _called(address: str, *given: str) -> Any:
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)(*map(_called, given))


@dataclass(frozen=True)
class UnseenSupply:
    """How a family's out-of-fold predictions are read, to compare states of the project."""

    #: What `read`, and who explains single cases, opens beside metrics.json, in the project.
    files: tuple[str, ...]
    #: Takes the project's directory and the content of metrics.json; returns all entries of the split in
    #: which the champion is chosen, the champion first.
    read: Callable[[Path, Mapping[str, Any]], Sequence[OutOfFoldPredictions]]
    #: Takes the files of a registered version, the name of its run, and the project's directory.
    kept: Callable[[Path, str, Path], OutOfFoldPredictions]


@dataclass(frozen=True)
class TrainingSupply:
    """A family's part of this room: the stages that it has."""

    evaluate: Stage
    # None where the family, and dvc.yaml, have no such stage
    tune: Stage | None = None
    train: Stage | None = None
    profile: Stage | None = None
    promote: Stage | None = None
    #: The types of its own that a stored model may hold; see `training.registry.stored`.
    trusted: tuple[str, ...] = ()
    #: Returns an `UnseenSupply`; None where states of the project cannot be compared.
    unseen: Callable[[], UnseenSupply] | None = None


def supply(family: str) -> TrainingSupply:
    """Return what `family` supplies to this room."""
    supplied: TrainingSupply = import_module(f"training.{family}").SUPPLY
    return supplied
