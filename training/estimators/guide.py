"""What an estimator must know of its columns to stay sound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guide:
    """What an estimator must know of its columns.

    Attributes
    ----------
    directions : tuple of int
        -1: the larger the less probable is ``fail``; 1: the more; 0: no promise.
    evidence : int or None
        The column that holds the signed root of the step in its own error; negative is worse.
    """

    directions: tuple[int, ...]
    evidence: int | None = None
