"""Of what other operations did, the part that tells something of a few comparisons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.comparisons.siblings import Siblings, Versions
from data.comparisons.sides import Samples
from serving.comparisons.reasons.flips import packed

#: Versions kept on either side of one that counts: more than any feature looks at.
_NEAR = 12


def nearby(siblings: Siblings) -> Siblings:
    """Return the same with only the versions that lie near one by a target's name.

    What is left of a series falls into pieces, each a series by itself: what lies in one piece is as far
    apart as it was. Features of siblings are the same, at a cost that doesn't grow with the source.
    """
    versions, spans = siblings.versions, siblings.stop - siblings.first
    if not len(versions.series) or not spans.any():
        return siblings
    names = versions.name[siblings.first[spans > 0]]
    own = [np.arange(first, stop) for first, stop in zip(siblings.first, siblings.stop, strict=True)]
    counted = np.unique(np.concatenate([np.flatnonzero(np.isin(versions.name, names[names >= 0])), *own]))
    around = (counted[:, None] + np.arange(-_NEAR, _NEAR + 1)).ravel()
    kept = np.unique(around[(around >= 0) & (around < len(versions.series))])
    first = np.searchsorted(kept, siblings.first)
    first = np.where(spans > 0, first, 0)
    return Siblings(_only(versions, kept), first, first + spans)


def _only(versions: Versions, kept: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Versions:
    """Return some of the versions; those that did not follow each other are of two series."""
    apart = (np.diff(kept, prepend=kept[:1]) > 1) | (np.diff(versions.series[kept], prepend=-1) != 0)
    lists = Samples(versions.values, np.zeros(0, np.int64), versions.starts[kept], versions.starts[kept + 1])
    values = packed(lists).values
    return replace(
        versions,
        values=values,
        starts=np.append(0, lists.lengths.cumsum()),
        series=np.cumsum(apart),
        operation=versions.operation[kept],
        name=versions.name[kept],
        lower=versions.lower[kept],
    )
