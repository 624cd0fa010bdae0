"""Load models of co-runs: the champions of the registry, or models at an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from data.corun.params import Corun
from features.corun.rates import Floats
from serving.models import ModelRef, Served, Source
from training.corun.estimators.pressure import Named
from training.corun.stored import ImpactCard, KnownTasks, OnlineCard, TrainedImpact, TrainedOnline
from training.registry.champions import (
    CHAMPION,
    Address,
    Version,
    locate_model,
    project_params,
    served_version,
)

#: Number of co-runs up to which compiled arrays are faster than reading the model.
FEW = 5000
#: Products of matrices compute as many rows at a time, and the rest in another order, with other last digits.
_KERNEL = 4
Online = Served[TrainedOnline]


@dataclass(frozen=True)
class Static:
    """The model that predicts from solo runs, the known solo runs, and the origin of the model.

    ``notes`` concern solo runs that were added.
    """

    card: ImpactCard
    known_tasks: KnownTasks
    ref: ModelRef
    quick: Callable[[], TrainedImpact]
    load: Callable[[], TrainedImpact]
    notes: tuple[str, ...] = ()

    def predict_impacts(self, x: Floats, named: Named) -> Floats:
        """Return co-run time / solo time for rows of `KnownTasks.corun_features`, shape (n_rows,).

        The result for a row does not depend on the other rows.
        """
        model = self.quick() if len(x) <= FEW else self.load()
        rows = np.resize(np.arange(len(x)), -(-len(x) // _KERNEL) * _KERNEL)
        return model.predict_impacts(x[rows], named[rows])[: len(x)]


def load_static(uri: Address = None) -> Static:
    """Return the static model at `uri` (None: champion) with the solo runs that it was trained on.

    InputError if the model is missing or invalid. The trained model itself is read only when it first
    predicts, which raises the InputError for a damaged one.
    """
    with locate_model(static_name, uri) as (directory, version):
        card, known_tasks = ImpactCard.read(directory), KnownTasks.read(directory)
        ref = IMPACTS.make_ref(directory, version, card)
    # read later by its version, so that card and model belong together
    read = partial(_read_version, version)
    quick, load = cache(partial(read, TrainedImpact.read_quick)), cache(partial(read, TrainedImpact.read))
    return Static(card, known_tasks, ref, quick, load)


def _read_version(version: Version, read: Callable[[Path], TrainedImpact]) -> TrainedImpact:
    with locate_model(static_name, version) as (files, _):
        return read(files)


def static_name() -> str:
    """Return the registered name of static models: that in the project's params.yaml, else the default.

    The default is used if the file or the entry is missing. The file is read once per process. InputError if
    it is invalid.
    """
    return project_params(Corun).section.promote.name


def online_name() -> str:
    """Return the registered name of online models: that in the project's params.yaml, else the default.

    The file is read once per process; it may be missing. InputError if it is invalid.
    """
    return project_params(Corun).section.online.name


IMPACTS = Source(static_name, TrainedImpact.read, ImpactCard.read)
SECONDS = Source(online_name, TrainedOnline.read, OnlineCard.read)
load_online = SECONDS.load


def known_online(uri: Address = None) -> Online | None:
    """Return the online model at `uri` (None: champion); None if `uri` is None and no champion exists.

    InputError if the model is missing or unreadable, or the registry does not answer.
    """
    if uri is None and served_version(f"models:/{online_name()}@{CHAMPION}") is None:
        return None
    return load_online(uri)
