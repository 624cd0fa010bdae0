"""Labelled comparisons that lie beside a model: what a new one is most like, and whether it is like any."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from training.estimators import out_of_distribution
from training.estimators.compiled_pipeline import belongs, write_arrays
from training.estimators.out_of_distribution import Familiar
from training.registry.stored import MODEL, beside_model, require_width

Floats = NDArray[np.float64]
Texts = NDArray[np.str_]
#: The file beside ``model.skops``, and the version of its content; another one is not read.
FILE, VERSION = "examples.npz", 2
#: Features that together carry this share of the model's importance make two comparisons alike.
_CARRIED = 0.95
#: The two labels, in the order in which `Precedents.nearest` has them.
LABELS = ("pass", "fail")
_TEXTS = ("identifiers", "benchmarks", "operations", "statuses", "labelled_by", "labelled_at")
_SPECS = {
    **dict.fromkeys(_TEXTS, ArraySpec("U", ("examples",))),
    "rows": ArraySpec("f", ("examples", "features"), finite=False),
    "weights": ArraySpec("f", ("features",)),
    "prior": ArraySpec("f", (2,)),
}


@dataclass(frozen=True)
class Precedents:
    """Labelled comparisons, those that passed before those that failed.

    Attributes
    ----------
    identifiers, benchmarks, operations, statuses : ndarray of str, shape (n_examples,)
    labelled_by, labelled_at : ndarray of str, shape (n_examples,)
        Who labelled it, and when (ISO 8601); empty where that is not known.
    rows : ndarray of shape (n_examples, n_features)
        Their features, in the order of the model's card.
    weights : ndarray of shape (n_features,)
        The model's own importance of every feature; they sum to 1.
    prior : ndarray of shape (2,)
        How far medians differ in training comparisons that passed, as shares: the middle one, and what 19 of
        20 stay below.
    familiar : Familiar
        What the training comparisons look like.
    """

    identifiers: Texts
    benchmarks: Texts
    operations: Texts
    statuses: Texts
    labelled_by: Texts
    labelled_at: Texts
    rows: Floats
    weights: Floats
    prior: Floats
    familiar: Familiar

    def write(self, directory: Path) -> None:
        """Write ``examples.npz`` beside the ``model.skops`` of `directory`."""
        own = {name: getattr(self, name) for name in _SPECS}
        known = {name: getattr(self.familiar, name) for name in out_of_distribution.SPECS}
        write_arrays(directory / FILE, VERSION, directory / MODEL, own | known)

    @classmethod
    def read(cls, directory: Path, features: tuple[str, ...]) -> Self | None:
        """Read what `write` wrote, without pickle.

        Returns
        -------
        Precedents or None
            None if there is no such file, or it is of another version or another model.

        Raises
        ------
        InputError
            If the file holds anything else; names the array.
        """
        path = beside_model(directory, FILE)
        if not path.is_file() or not belongs(path, VERSION, directory / MODEL):
            return None
        found = arrays.read(path, _SPECS | out_of_distribution.SPECS)
        require_width(directory, features, len(found["weights"]))
        if sorted(found["statuses"].tolist(), key=LABELS.index) != found["statuses"].tolist():
            raise InputError("holds fail before pass", file=path, place='array "statuses"')
        known = Familiar(**{field.name: found.pop(field.name) for field in fields(Familiar)})
        return cls(**found, familiar=known)

    def nearest(self, asked: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Find the example of each label that is most like each row.

        Parameters
        ----------
        asked : ndarray of shape (n_rows, n_features)

        Returns
        -------
        index : ndarray of int, shape (n_rows, 2)
            Of `LABELS`, in their order; -1 where no example has the label.
        distance : ndarray of shape (n_rows, 2)
            In standard deviations of squashed features, weighted by the model's importance.
        """
        own = self._placed(asked)
        index, distance = np.full((len(own), 2), -1), np.full((len(own), 2), np.nan)
        # (a - b)^2 without a^2, which is the same for all examples of a row
        far = np.column_stack((own, np.ones(len(own)))) @ self._product
        for label, part in enumerate(self._labels):
            if part.stop > part.start and len(own):
                index[:, label] = far[:, part].argmin(axis=1) + part.start
                distance[:, label] = np.sqrt(((own - self._places[index[:, label]]) ** 2).sum(axis=1))
        return index, distance

    @cached_property
    def named(self) -> list[tuple[str, str, str, str, str, str]]:
        """What is said of every example: its id, benchmark, operation and label, by whom and when."""
        texts = [getattr(self, name).tolist() for name in _TEXTS]
        return [*zip(*texts, strict=True)]

    @cached_property
    def _labels(self) -> tuple[slice, slice]:
        passed = int((self.statuses == LABELS[0]).sum())
        return slice(0, passed), slice(passed, len(self.statuses))

    @cached_property
    def _carrying(self) -> NDArray[np.intp]:
        order = np.argsort(-self.weights, kind="stable")
        return order[: int(np.searchsorted(self.weights[order].cumsum(), _CARRIED)) + 1]

    @cached_property
    def _places(self) -> Floats:
        return self._placed(self.rows.astype(np.float64))

    @cached_property
    def _product(self) -> Floats:
        """What a row, and 1 behind it, is multiplied with: -2 b, and b^2 below it."""
        return np.vstack((-2 * self._places.T, (self._places**2).sum(axis=1)))

    def _placed(self, rows: Floats) -> Floats:
        carrying = self._carrying
        return np.asarray(self.familiar.squashed(rows[:, carrying], carrying) * self._roots)

    @cached_property
    def _roots(self) -> Floats:
        return np.sqrt(self.weights[self._carrying])
