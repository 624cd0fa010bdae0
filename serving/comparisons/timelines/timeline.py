"""What a timeline shows: the versions of one machine, and what was measured and judged of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats

#: A mark per version: 0 not judged, 1 pass, 2 unsure, 3 fail, 4 invalid.
Marks = NDArray[np.uint8]


@dataclass(frozen=True)
class TimelineVersion:
    """One version.

    Attributes
    ----------
    measured_at : str or None
        As the results say; None if they don't.
    source : str
        The path of the result below the folder that was read, with slashes; empty if there is none.
    """

    name: str
    measured_at: str | None
    source: str


@dataclass(frozen=True)
class Change:
    """A lasting change of level over the whole history.

    Attributes
    ----------
    kind : {"drop", "gain", "creep"}
        A step to worse, a step to better, or several small losses that add up.
    first, last : int
        Indices of versions: from `first` on it showed, at `last` it was complete. Equal for a step.
    share : float
        Of the level before; negative is worse.
    threads : int
        The configuration.
    """

    kind: Literal["drop", "gain", "creep"]
    first: int
    last: int
    share: float
    threads: int


@dataclass(frozen=True)
class TimelineOperation:
    """One operation over all versions.

    Attributes
    ----------
    threads : tuple of int
        The configurations, ascending.
    featured : int
        Which of them is shown first: that of the most threads.
    five : ndarray of shape (n_configurations, n_versions, 5)
        Minimum, quartiles, maximum, in `unit`; NaN where nothing was measured.
    against_baseline : ndarray of shape (n_versions,)
        The verdict on each version beside the baseline.
    against_before : ndarray of shape (n_versions,)
        The same beside the versions just before it: where a change began.
    probability : ndarray of shape (n_versions,)
        Of a regression against the baseline; NaN where not judged.
    words : mapping
        The reasons in words, by the index of a version, where a mark is unsure or fail.
    changes : tuple of Change
        Over the whole history, of the configuration where they are greatest.
    instability : float
        The smallest change that its noise lets one tell, as a share, see
        `features.comparisons.lasting_changes`; NaN if unknown.
    unstable : bool
        Whether that is more than 5 %.
    """

    benchmark: str
    operation: str
    unit: str
    better: str
    threads: tuple[int, ...]
    featured: int
    five: Floats
    against_baseline: Marks
    against_before: Marks
    probability: Floats
    words: Mapping[int, tuple[str, ...]]
    changes: tuple[Change, ...]
    instability: float
    unstable: bool


@dataclass(frozen=True)
class HeatMap:
    """Samples per core or per node of one run over time (seed 000, section 4.2.2).

    Attributes
    ----------
    rows : tuple of str
        The cores or nodes.
    seconds : ndarray of shape (n_times,)
    values : ndarray of shape (n_rows, n_times)
        In `unit`; NaN is unknown.
    source : str
        The file, as of `TimelineVersion`.
    version : int
        Index of the version that ran.
    """

    title: str
    rows: tuple[str, ...]
    seconds: Floats
    values: Floats
    unit: str
    source: str
    version: int


@dataclass(frozen=True)
class TimelineReport:
    """One page: one machine under one set of rules.

    Attributes
    ----------
    rules : tuple of (role, property, pattern)
        Role is baseline, target or start.
    versions : tuple of TimelineVersion
        The oldest first.
    baseline : int
        Index of the baseline among them.
    notes : tuple of str
        What had to be assumed, one line each.
    judged_by : str
        Which model judged; empty if none.
    """

    title: str
    machine: str
    rules: tuple[tuple[str, str, str], ...]
    versions: tuple[TimelineVersion, ...]
    baseline: int
    operations: tuple[TimelineOperation, ...]
    heats: tuple[HeatMap, ...]
    notes: tuple[str, ...]
    judged_by: str
