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
    lists = [[(*one, [], [])[at] for one in configurations] for at in range(4)]
    baseline, target, history, later = map(samples, lists)
    both = five_numbers(baseline), five_numbers(target)
    return _sides(comparisons, better, baseline, target, history, later, *both)


def sides_of_summaries(comparisons, better="higher"):
    """Make `Sides` of ``[[(five, five), ...], ...]`` as a source of summaries gives them."""
    five = np.array([pair for comparison in comparisons for pair in comparison], np.float64)
    return _sides(comparisons, better, *[samples([[] for _ in five])] * 4, five[:, 0], five[:, 1])


def _sides(comparisons, better, *parts):
    owner = np.repeat(np.arange(len(comparisons)), [len(comparison) for comparison in comparisons])
    sign = np.full(len(owner), -1.0 if better == "lower" else 1.0)
    return Sides(owner, len(comparisons), np.arange(len(owner)), sign, *parts)
