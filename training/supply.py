"""What a family supplies to the room where vectors become models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.stage import Stage

if TYPE_CHECKING:
    from training.evaluation.paired_bootstrap import Unseen


def lazily(address: str) -> Callable[[], Any]:
    """Return a function that imports and calls the function at ``package.module:name``."""

    def call() -> Any:
        module, _, name = address.partition(":")
        return getattr(import_module(module), name)()

    return call


@dataclass(frozen=True)
class UnseenSupply:
    """What a family's entries said of cases that they had not seen, for states of the project to be compared.

    Attributes
    ----------
    files : tuple of str
        What `read`, and who explains single cases, opens beside metrics.json, in the project.
    read : callable
        Takes the project's directory and the content of metrics.json; returns all entries of the split in
        which the champion is chosen, the champion first.
    kept : callable
        Takes the files of a registered version, the name of its run, and the project's directory.
    """

    files: tuple[str, ...]
    read: Callable[[Path, Mapping[str, Any]], Sequence[Unseen]]
    kept: Callable[[Path, str, Path], Unseen]


@dataclass(frozen=True)
class TrainingSupply:
    """A family's part of this room: the stages that it has.

    Attributes
    ----------
    tune, train, profile, promote : callable or None
        None where a family has no such stage; dvc.yaml has no such stage then either.
    trusted : tuple of str
        The types of its own that a stored model may hold; see `training.registry.stored`.
    unseen : callable or None
        Returns an `UnseenSupply`; None where states of the project cannot be compared.
    """

    evaluate: Stage
    tune: Stage | None = None
    train: Stage | None = None
    profile: Stage | None = None
    promote: Stage | None = None
    trusted: tuple[str, ...] = ()
    unseen: Callable[[], UnseenSupply] | None = None


def supply(family: str) -> TrainingSupply:
    """Return what `family` supplies to this room."""
    supplied: TrainingSupply = import_module(f"training.{family}").SUPPLY
    return supplied
