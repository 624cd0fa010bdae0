"""What answers: arrays of features in, the probability of ``fail`` and its reasons out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from data.errors import ModelError

Floats = NDArray[np.float64]
Unit = Literal["log-odds", "probability"]
#: By how much the log-odds of a sure fail rise with every unit of its step.
STEEPNESS = 3.0


#: What helps where a model answers with no number.
_REMEDY = "the model's files are damaged, train or promote another one"


@contextmanager
def model_answering(model: str) -> Iterator[None]:
    """Run what a model computes: its failure becomes a ModelError, its overflow shows in the answer.

    Parameters
    ----------
    model : str
        Its name in the catalogue.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ModelError:
        raise
    except (ValueError, ArithmeticError, LookupError) as exc:
        # estimators refuse what overflowed on the way to them, or look it up where nothing is
        raise ModelError(f"the model ({model}) cannot answer ({exc}); {_REMEDY}") from exc


def require_finite(model: str, answer: str, *numbers: ArrayLike) -> None:
    """Refuse to answer with numbers that are not finite.

    Parameters
    ----------
    model : str
        Its name in the catalogue.
    answer : str
        What the numbers are, such as "probability".
    numbers : array_like
        All that the model says.

    Raises
    ------
    ModelError
        If one of them is NaN or infinite.
    """
    for given in numbers:
        known = np.asarray(given, np.float64)
        if not np.isfinite(known).all():
            value = known[~np.isfinite(known)].flat[0]
            told = f"the model ({model}) answers with {answer}={value}; expected a finite number"
            raise ModelError(f"{told}; {_REMEDY}")


def raised(probability: Floats, evidence: Floats, sure: float) -> Floats:
    """Leave only the doubt that the step leaves, too.

    Parameters
    ----------
    probability : ndarray of shape (n_rows,)
        Of ``fail``, as a classifier learned it.
    evidence : ndarray of shape (n_rows,)
        The signed root of the step in its own error; negative is worse.
    sure : float
        A step of this size halves the doubt; it is gone soon behind it.
    """
    beyond = STEEPNESS * (-evidence * np.abs(evidence) - sure)
    return np.asarray(1 - (1 - probability) * np.exp(-np.logaddexp(0.0, beyond)))


class Answering(Protocol):
    """A fitted model. Its features are columns, in the order of its card."""

    @property
    def unit(self) -> Unit:
        """The unit of its contributions."""

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Give the probability of ``fail``, and say what each feature contributes; positive = towards fail.

        What is answered of a row does not depend on the others.

        Parameters
        ----------
        columns : ndarray of shape (n_rows, n_features)
            NaN where a feature cannot be known.
        reference : ndarray of shape (n_features,)
            An ordinary comparison.

        Returns
        -------
        probability : ndarray of shape (n_rows,)
        contributions : ndarray of shape (n_rows, n_features)
        """

    def probability(self, columns: Floats) -> Floats:
        """Give the first of `answers` alone, which takes less time."""

    def assured(self, told: Floats, columns: Floats) -> Floats:
        """Raise what is told of rows, calibrated, where the evidence leaves no doubt; see `raised`."""


@dataclass(frozen=True)
class Fitted:
    """A pipeline of scikit-learn that answers itself, whatever its classifier.

    Contributions: how much the probability falls when that one feature is replaced by its reference.
    """

    pipeline: Any

    unit: ClassVar[Unit] = "probability"

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Answer; see `Answering`."""
        full = self.probability(columns)
        contributions = np.empty_like(columns)
        for feature in range(columns.shape[1]):
            without = columns.copy()
            without[:, feature] = reference[feature]
            contributions[:, feature] = full - self.probability(without)
        return full, contributions

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        return np.asarray(self.pipeline.predict_proba(columns)[:, 1], np.float64)

    def assured(self, told: Floats, columns: Floats) -> Floats:
        """Leave it as it is: the pipeline raised it."""
        del columns
        return told
