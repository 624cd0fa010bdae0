"""An application's performance on a machine that was only fingerprinted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """An application's predicted performance on one machine.

    Attributes
    ----------
    application, metric, better, machine : str
    value, low, high : float
        In the application's unit; the interval is to hold the true value with probability ``confidence``.
    confidence : float
    reasons : tuple of str
        Why it must not be relied upon; may be empty.
    """

    application: str
    metric: str
    better: str
    machine: str
    value: float
    low: float
    high: float
    confidence: float
    reasons: tuple[str, ...]
