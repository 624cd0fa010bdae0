"""Sides typed out in a test, without tables."""

from __future__ import annotations

import numpy as np

from data.comparisons.sides import Samples, Sides, five_numbers


def samples(lists):
    """Make `Samples` of lists of versions: ``[[[1, 2], [3]], ...]`` is one list with the versions 0 and 1."""
    values = [value for versions in lists for version in versions for value in version]
    orders = [order for versions in lists for order, version in enumerate(versions) for _ in version]
    lengths = np.array([sum(map(len, versions)) for versions in lists], np.int64)
    stops = np.cumsum(lengths)
    return Samples(np.array(values, np.float64), np.array(orders, np.int64), stops - lengths, stops)


def sides_of(comparisons, better="higher"):
    """Make `Sides`; a comparison is a list of ``(baseline, target, history, later)`` or less."""
    configurations = [configuration for comparison in comparisons for configuration in comparison]
    owner = np.repeat(np.arange(len(comparisons)), [len(comparison) for comparison in comparisons])
    baseline = samples([configuration[0] for configuration in configurations])
    target = samples([configuration[1] for configuration in configurations])
    history, later = (
        samples([configuration[at] if len(configuration) > at else [] for configuration in configurations])
        for at in (2, 3)
    )
    sign = np.full(len(owner), -1.0 if better == "lower" else 1.0)
    return Sides(
        owner, len(comparisons), np.arange(len(owner)), sign,
        baseline, target, history, later, five_numbers(baseline), five_numbers(target),
    )  # fmt: skip


def sides_of_summaries(comparisons, better="higher"):
    """Make `Sides` of ``[[(five, five), ...], ...]`` as a source of summaries gives them."""
    configurations = [configuration for comparison in comparisons for configuration in comparison]
    owner = np.repeat(np.arange(len(comparisons)), [len(comparison) for comparison in comparisons])
    nothing = samples([[] for _ in configurations])
    five = np.array(configurations, np.float64)
    sign = np.full(len(owner), -1.0 if better == "lower" else 1.0)
    return Sides(
        owner, len(comparisons), np.arange(len(owner)), sign,
        nothing, nothing, nothing, nothing, five[:, 0], five[:, 1],
    )  # fmt: skip
