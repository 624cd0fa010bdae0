"""Units of one kind convert into each other, others don't."""

from fractions import Fraction

import pytest

from data.comparisons.units import conversion_factor, is_known_unit


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        *(("us", "ms", Fraction(1, 1000)), ("s", "ms", 1000), ("min", "s", 60), ("h", "ps", 3600 * 10**12)),
        *(("\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", 1), ("usec", "us", 1), ("seconds", "s", 1)),
        *(("GB/s", "MB/s", 1000), ("GiB", "MiB", 1024), ("KiB", "B", 1024), ("KB", "B", 1000)),
        *(("B", "bit", 8), ("MB/s", "Mbit/s", 8), ("Gbps", "Mbit/s", 1000), ("GHz", "MHz", 1000)),
        *(("Mop/s", "ops/s", 10**6), ("mops", "Mop/s", 1), ("GFLOPS", "Mflop/s", 1000)),
        *(("ops/ms", "ops/s", 1000), ("1/ms", "1/s", 1000), ("requests per second", "req/s", 1)),
        *(("ns/op", "us/op", Fraction(1, 1000)), ("ms/txn", "s/txn", Fraction(1, 1000))),
        *(("bops", "bops", 1), (" ms ", "ms", 1)),
    ],
)
def test_units_of_one_kind_convert_in_both_directions(given, wanted, expected):
    assert conversion_factor(given, wanted) == expected
    assert conversion_factor(wanted, given) == 1 / Fraction(expected)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        *(("ms", "MB/s"), ("s", "1/s"), ("MB", "MB/s"), ("ns/op", "ns"), ("op/s", "req/s")),
        *(("bops", "mops"), ("Mb/s", "Mbit/s"), ("ms", "MS"), ("ps/txn", "ps/op"), ("bit", "op")),
    ],
)
def test_incompatible_and_ambiguous_units_have_no_conversion_factor(given, wanted):
    assert conversion_factor(given, wanted) is conversion_factor(wanted, given) is None


@pytest.mark.parametrize(("text", "expected"), [("ms", True), ("", False), ("unknown", False), (None, False)])
def test_only_stated_units_are_recognised_as_known(text, expected):
    assert is_known_unit(text) is expected
