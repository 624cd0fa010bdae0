"""The stages and functions that each model family provides for training."""

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


def deferred_call(address: str, *arguments: str) -> Callable[[], Any]:
    """Return a function without arguments that imports and calls the function at ``package.module:name``.

    That function's arguments are the results of the functions at the addresses `arguments`, called without
    any; its result is returned. A wrong address raises ImportError or AttributeError when the returned
    function is called.
    """
    return partial(_import_and_call, address, *arguments)


def _import_and_call(address: str, *arguments: str) -> Any:
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)(*map(_import_and_call, arguments))


@dataclass(frozen=True)
class PredictionReaders:
    """How to read a family's out-of-fold predictions, to compare states of the project."""

    #: Files of the project that `read` opens in addition to metrics.json.
    files: tuple[str, ...]
    #: Takes the project's directory and the content of metrics.json; returns all entries of the split that
    #: the champion is chosen by, the champion first.
    read: Callable[[Path, Mapping[str, Any]], Sequence[OutOfFoldPredictions]]
    #: Takes the files of a registered version, the name of its run, and the project's directory.
    read_stored: Callable[[Path, str, Path], OutOfFoldPredictions]


@dataclass(frozen=True)
class TrainingPlugin:
    """The training stages of a model family, and the functions that the registry needs."""

    evaluate: Stage
    # None where the family, and dvc.yaml, have no such stage
    tune: Stage | None = None
    train: Stage | None = None
    profile: Stage | None = None
    promote: Stage | None = None
    #: Types of the family that a stored model may contain; see `training.registry.stored`.
    trusted: tuple[str, ...] = ()
    #: Returns an `PredictionReaders`; None where states of the project cannot be compared.
    out_of_fold: Callable[[], PredictionReaders] | None = None


def family_plugin(family: str) -> TrainingPlugin:
    """Return ``training.<family>.PLUGIN``, the family's stages; ModuleNotFoundError if it is unknown."""
    plugin: TrainingPlugin = import_module(f"training.{family}").PLUGIN
    return plugin
