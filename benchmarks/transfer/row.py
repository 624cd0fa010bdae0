"""A row of the table of transfer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TransferRow:
    """What one judge came to on what was held out.

    Attributes
    ----------
    data : str
        The data set.
    held_out : str
        What was never on both sides, such as "whole causes".
    question : str
        What was asked, such as the application that is predicted.
    cases : int
        How many were asked about.
    judge : str
        Ours, or a plain one that was trained alike.
    figure : str
        What ``value`` is, such as "mean error".
    value : float
    spread : float
        Standard deviation of ``value`` over the folds.
    """

    data: str
    held_out: str
    question: str
    cases: int
    judge: str
    figure: str
    value: float
    spread: float
