"""What other operations did at the same version: a change that is real rarely comes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Samples, Siblings, Sides, Versions
from features.comparisons.outliers import far_runs
from features.comparisons.summaries import NOISE_FLOOR

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Versions looked at on either side of a sibling's step, and how few will do after it.
_WINDOW, _FEWEST = 5, 2
#: From this t on a sibling counts as worse, and fully from this one on.
_WORSE, _SURELY = 2.0, 6.0
#: Fewer siblings say nothing; more than `_MOST`, evenly picked, say no more.
_ENOUGH, _MOST = 5, 256
#: Pairs of a comparison and a sibling that are handled at once, to bound memory.
_PAIRS = 1 << 20

#: It is what others did, whatever this operation does.
SIBLING_DIRECTIONS: Mapping[str, int] = {"siblings_worse": 0}
SIBLINGS = tuple(SIBLING_DIRECTIONS)


class _Found(NamedTuple):
    """Pairs of a comparison and a sibling's version that has the name of the target's first one."""

    comparison: Ints
    version: Ints


def sibling_features(sides: Sides) -> Floats:
    """Return the root of `siblings_worse` for every configuration: from none to a few is more than to most.

    Returns
    -------
    ndarray of shape (len(SIBLINGS), n_configurations)
        Between 0 and 1, or NaN.
    """
    return np.asarray(np.sqrt(siblings_worse(sides))[None, sides.comparison])


def siblings_worse(sides: Sides) -> Floats:
    """Return which share of the other operations got worse at the version at which the target begins.

    A sibling is another operation of the same benchmark on the same machine that was measured at that
    version, too. Its step is Welch's t of its `_WINDOW` versions before against those from it on, at most
    `_WINDOW` of them, of which the last is one of the target's own: nothing is looked at that came later than
    the target. It counts the more the clearer it is: the square of where t lies between `_WORSE` and
    `_SURELY`. Where the source gives the share itself, that is returned.

    Returns
    -------
    ndarray of shape (n_comparisons,)
        Between 0 and 1. NaN where fewer than `_ENOUGH` siblings are known.
    """
    siblings, stated = sides.siblings, sides.siblings_worse
    counted = np.full(sides.n_comparisons, np.nan) if siblings is None else _counted(sides, siblings)
    return counted if stated is None else np.where(np.isnan(stated), counted, stated)


def _counted(sides: Sides, siblings: Siblings) -> Floats:
    steps, ahead = _worsened(siblings.versions), _ahead(siblings.versions)
    known, worse = np.zeros((2, sides.n_comparisons))
    for pairs in _pairs(siblings):
        reach = _reach(siblings, ahead, pairs)
        seen = steps[reach, pairs.version]
        told = np.isfinite(seen)
        known += np.bincount(pairs.comparison[told], minlength=len(known))
        worse += np.bincount(pairs.comparison[told], seen[told], minlength=len(known))
    return np.asarray(worse / np.where(known >= _ENOUGH, known, np.nan))


def _worsened(versions: Versions) -> Floats:
    """Return how clearly every version is worse than those before, by how many from it on are looked at.

    Returns
    -------
    ndarray of shape (_WINDOW + 1, n_versions)
        Between 0 and 1; NaN where the series has too few versions before or from there on.
    """
    n = len(versions.series)
    orders = np.repeat(np.arange(n), np.diff(versions.starts))
    level = Samples(versions.values, orders, versions.starts[:-1], versions.starts[1:]).levels.values
    level = np.where(versions.lower, -level, level)
    result = np.full((_WINDOW + 1, n), np.nan)
    before = np.flatnonzero(_same(versions.series, _WINDOW - 1)) + _WINDOW
    for reach in range(_FEWEST, _WINDOW + 1):
        at = before[before + reach <= n]
        at = at[versions.series[at - _WINDOW] == versions.series[at + reach - 1]]
        left, right = (level[at[:, None] + np.arange(*span)] for span in ((-_WINDOW, 0), (0, reach)))
        result[reach, at] = _clear(left, right)
    return result


def _clear(left: Floats, right: Floats) -> Floats:
    """Return where t of the windows lies between `_WORSE` and `_SURELY`, squared.

    On the left, a version far outside all others counts as the middle one.
    """
    far = far_runs(np.abs(left))
    if far.any():
        left = np.where(far, np.median(left, axis=1, keepdims=True), left)
    variance = sum(side.var(axis=1, ddof=1) / side.shape[1] for side in (left, right))
    middle = left.mean(axis=1)
    error = np.sqrt(np.maximum(variance, (NOISE_FLOOR * middle) ** 2))
    t = (middle - right.mean(axis=1)) / np.where(error > 0, error, np.inf)
    return np.asarray(np.clip((t - _WORSE) / (_SURELY - _WORSE), 0, 1) ** 2)


def _same(series: Ints, further: int) -> NDArray[np.bool_]:
    """Return of which versions the one so many places further is one of the same series."""
    return series[: max(len(series) - further, 0)] == series[further:]


def _ahead(versions: Versions) -> Ints:
    """Return the names of every version and the following ones of its series, shape (_WINDOW, n_versions).

    -2 where there is none: it is no target's name.
    """
    ahead = np.full((_WINDOW, len(versions.series)), -2)
    for further in range(min(_WINDOW, len(versions.series))):
        n = len(versions.series) - further
        ahead[further, :n] = np.where(_same(versions.series, further), versions.name[further:], -2)
    return ahead


def _pairs(siblings: Siblings) -> Iterator[_Found]:
    """Yield every sibling's version that has the name of a target's first one, `_PAIRS` or so at once."""
    versions = siblings.versions
    order = np.argsort(versions.name, kind="stable")
    names = versions.name[order]
    name = versions.name[np.minimum(siblings.first, len(names) - 1)]
    asked = np.flatnonzero((siblings.stop - siblings.first >= _FEWEST) & (name >= 0))
    start, stop = (np.searchsorted(names, name[asked], side) for side in ("left", "right"))
    many = np.minimum(stop - start, _MOST)
    for part in np.array_split(np.arange(len(asked)), max(1, int(many.sum()) // _PAIRS)):
        owner = np.repeat(part, many[part])
        within = np.arange(len(owner)) - np.repeat(np.cumsum(many[part]) - many[part], many[part])
        place = start[owner] + within * (stop - start)[owner] // many[owner]
        found = _Found(asked[owner], order[place])
        own = versions.operation[siblings.first[found.comparison]]
        other = versions.operation[found.version] != own
        yield _Found(found.comparison[other], found.version[other])


def _reach(siblings: Siblings, ahead: Ints, pairs: _Found) -> Ints:
    """Return how many of a sibling's versions may be looked at: the last one is one of the target's."""
    reach = np.ones(len(pairs.version), np.int64)
    first, count = siblings.first[pairs.comparison], (siblings.stop - siblings.first)[pairs.comparison]
    for own in range(1, min(int(count.max(initial=0)), _WINDOW)):
        name = siblings.versions.name[np.minimum(first + own, len(siblings.versions.name) - 1)]
        name = np.where(own < count, name, -3)
        for further in range(1, _WINDOW):
            reach = np.where(ahead[further, pairs.version] == name, np.maximum(reach, further + 1), reach)
    return reach
