"""Checks of the columns of a table, value by value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rule:
    """What the values of a column must be.

    Attributes
    ----------
    column : str
    told : str
        What they must be, in words.
    holds : callable
        Marks the values that are that, of those that are there.
    gaps : bool
        Whether values may be missing.
    """

    column: str
    told: str = "there"
    holds: Callable[[pd.Series], pd.Series] = pd.Series.notna
    gaps: bool = False

    def broken(self, table: pd.DataFrame) -> NDArray[np.intp]:
        """Return the rows of `table`, counted from 0, that break the rule."""
        values = table[self.column]
        missing, wrong = values.isna(), ~self.holds(values)
        return np.flatnonzero((missing & (not self.gaps)) | (~missing & wrong))


def positive(column: str, *, gaps: bool = False) -> Rule:
    """Return the rule of a number above 0 and finite."""
    return Rule(column, "above 0 and finite", lambda found: (found > 0) & np.isfinite(found), gaps)


def named(*columns: str) -> tuple[Rule, ...]:
    """Return the rules of columns of text that is never missing or empty."""
    return tuple(Rule(column, "a name", lambda found: found != "") for column in columns)


def one_of(column: str, *values: str, gaps: bool = False) -> Rule:
    """Return the rule of text that is one of `values`."""
    return Rule(column, " or ".join(f'"{value}"' for value in values), lambda found: found.isin(values), gaps)
