"""Whether two profiles differ, and in which stressors (seed 003, section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Difference:
    """Two profiles compared.

    Attributes
    ----------
    a, b : str
        The applications.
    paired : bool
        Whether they share machines, and are resampled together.
    features : DataFrame
        One row per stressor, largest change first: ``stressor, importance_a, importance_b`` (most important =
        100), ``change`` (b - a), ``p_value`` (adjusted for all stressors tested), ``moved`` (bool).
    categories : DataFrame
        The same for the categories of table 1, ``category`` instead of ``stressor``.
    stops_at : str or None
        The stressor where the seed's algorithm stops: the first, in the ranking of a, whose importances
        differ by more than the tolerance; None where it walks to the end (the profiles are equivalent).
    tolerance : float
        Of the seed's algorithm, on the scale of 100.
    reasons : tuple of str
        Why the test must not be relied upon (a profile is not trusted, few machines); may be empty.
    """

    a: str
    b: str
    paired: bool
    features: pd.DataFrame
    categories: pd.DataFrame
    stops_at: str | None
    tolerance: float
    reasons: tuple[str, ...]

    @property
    def moved(self) -> tuple[str, ...]:
        """The stressors that really moved."""
        return tuple(self.features.loc[self.features["moved"], "stressor"])

    @property
    def significant(self) -> bool:
        """Whether anything moved."""
        return bool(self.features["moved"].any())
