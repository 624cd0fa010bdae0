"""Two runs become comparisons of what both measured, in one unit; the rest is refused or named."""

from fractions import Fraction

import numpy as np
import pytest

from data.comparisons.pair import Missing, paired_runs
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, version_ranges
from data.comparisons.units import conversion_factor
from tests.comparison_rows import result
from tests.data.refusals import refusal

NAMES = ("before.json", "after.json")


def rows(operation, values, **changes):
    return [result(operation, 7, value, **{"unit": "ms"} | changes) for value in values]


def run(*parts):
    return ComparisonTables.from_rows([row for part in parts for row in part], [], []).results


def values(pair, order):
    return pair.tables.results.query("order == @order")["value"].tolist()


X, ZERO, ELSEWHERE = rows("x", [1.0]), rows("x", [0.0]), rows("x", [1.0], machine="n")
BOTH = [*X, *rows("x", [1.0], threads=2)]
HIGHER = [[*X, *rows("x", [1.0], better="higher", threads=threads)] for threads in (1, 2)]
MB = rows("x", [1.0], unit="MB/s")
ODD = rows("x", [1.0], better="Lower")
NONE_IN_COMMON = "before.json and after.json: have no operation of one benchmark and machine in common: "
LEFT_OUT = "0 throughout, and left out: x"
AFTER, BEFORE = (f'{name} operation "x": ' for name in ("after.json", "before.json"))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (X, ELSEWHERE, f"{NONE_IN_COMMON}1 machine only in before.json: m; 1 machine only in after.json: n"),
        (ZERO, ZERO, NONE_IN_COMMON + LEFT_OUT),
        (X, MB, AFTER + 'unit "MB/s" cannot be converted to "ms" of before.json'),
        *((BOTH, one, AFTER + 'better="higher" is not "lower" as in before.json') for one in HIGHER),
        (ODD, ODD, BEFORE + 'better="Lower" is not "lower" or "higher"'),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(before, after, told):
    assert refusal(paired_runs, [run(before)], [run(after)], names=NAMES) == told


#: An earlier run, two of the baseline and two of the target.
FILES = ("h.json", "b1.json", "b2.json", "t1.json", "t2.json")


def pair_files(changed, **changes):
    """Pair five runs, of which those of these numbers differ from the others."""
    runs = [run(rows("x", [1.0], **(changes if number in changed else {}))) for number in range(5)]
    return paired_runs(runs[1:3], runs[3:], runs[:1], NAMES, FILES)


@pytest.mark.parametrize("number", [0, 2, 3, 4])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"unit": "MB"}, 'unit "MB" cannot be converted to "ms" of b1.json'),
        ({"better": "higher"}, 'better="higher" is not "lower" as in b1.json'),
    ],
)
def test_an_error_names_the_file_that_has_the_value(number, changes, told):
    assert refusal(pair_files, [number], **changes) == f'{FILES[number]} operation "x": {told}'


def test_an_error_names_the_file_that_has_the_first_unit():
    runs = [run(rows("x", [1.0], unit=unit)) for unit in ("", "", "", "ms", "MB")]
    told = 't2.json operation "x": unit "MB" cannot be converted to "ms" of t1.json'
    assert refusal(paired_runs, runs[1:3], runs[3:], runs[:1], NAMES, FILES) == told


@pytest.mark.parametrize("changed", [[0], [2], [4], [0, 2, 3, 4]])
def test_a_conversion_names_the_files_that_have_the_unit(changed):
    places = ", ".join(FILES[number] for number in changed)
    (note,) = pair_files(changed, unit="us").notes
    assert note == f"{places}: 1 operation in us, multiplied by 0.001 to ms: b/x/m"


@pytest.mark.parametrize("kind", [{}, {"stat": "median"}], ids=["samples", "summaries"])
@pytest.mark.parametrize("lacking", [[], [2], [3], [1, 4]])
def test_a_comparison_ranges_over_the_runs_that_have_the_operation(lacking, kind):
    names = [["x"] if number in lacking else ["x", "y"] for number in range(5)]
    runs = [
        run(*(rows(name, [1.0], version=f"v{number}", **kind) for name in own))
        for number, own in enumerate(names)
    ]
    pair = paired_runs(runs[1:3], runs[3:], runs[:1], NAMES, FILES)
    sides = ([number for number in side if number not in lacking] for side in ((1, 2), (3, 4)))
    expected = " -> ".join("..".join(f"v{number}" for number in side) for side in sides)
    assert version_ranges(pair.tables) == ["v1..v2 -> v3..v4", expected]
    places = ", ".join(FILES[number] for number in lacking)
    assert pair.notes == ((f"1 operation missing in some runs ({places}): b/y/m",) if lacking else ())
    # a side has the statistics of its first run
    assert np.isfinite(Sides.from_tables(pair.tables).baseline_five[:, 2]).all()


def test_runs_of_another_machine_lack_nothing():
    machines = [run(rows("x", [1.0], machine=machine)) for machine in "mn"]
    assert paired_runs(machines, machines).notes == ()


@pytest.mark.parametrize("kind", [{}, {"stat": "median"}], ids=["samples", "summaries"])
def test_units_are_converted_to_the_first_also_within_a_file(kind):
    before = run(rows("x", [1.0], **kind), rows("x", [2000.0], unit="us", threads=2, **kind))
    after = run(rows("x", [0.003], unit="s", **kind), rows("x", [0.004], unit="s", threads=2, **kind))
    both = paired_runs([before], [after], names=NAMES)
    assert (values(both, 0), values(both, 1)) == ([1.0, 2.0], [3.0, 4.0])
    assert set(both.tables.results["unit"]) == {"ms"}


@pytest.mark.parametrize(("silent", "unit"), [(0, "unknown"), (0, None), (1, ""), (1, None)])
def test_a_missing_unit_is_taken_from_the_other_file(unit, silent):
    runs = [run(rows("x", [1.0])), run(rows("x", [1.0]))]
    runs[silent] = runs[silent].assign(unit=unit).astype({"unit": "str"})
    both = paired_runs(runs[:1], runs[1:], names=NAMES)
    assert both.notes == (f"{NAMES[silent]}: 1 operation in no unit, taken to be ms: b/x/m",)
    assert set(both.tables.results["unit"]) == {"ms"}


@pytest.mark.parametrize("units", [("unknown", "unknown"), ("ms", "msec")])
def test_missing_or_equally_meant_units_give_no_note(units):
    both = paired_runs(*([run(rows("x", [1.0], unit=unit))] for unit in units))
    assert (both.notes, set(both.tables.results["unit"])) == ((), {units[0]})


def test_what_only_one_run_has_is_left_out_and_listed():
    before = run(
        *(rows("x", [1.0]), rows("x", [9.0], threads=8), rows("gone", [1.0]), rows("x", [1.0], machine="n"))
    )
    # directions and units of what is left out do not matter
    new = (rows(name, [1.0], better="higher", unit="MB/s") for name in ("new", "newer"))
    after = run(rows("x", [3.0]), rows("x", [1.0], threads=2), *new)
    both = paired_runs([before], [after], names=NAMES)
    assert both.tables.comparisons["comparison_id"].tolist() == ["b/x/m"]
    assert (values(both, 0), values(both, 1)) == ([1.0], [3.0])
    assert both.missing == (
        Missing("baseline", "n"),
        Missing("baseline", "m", "b", "gone"),
        Missing("target", "m", "b", "new"),
        Missing("target", "m", "b", "newer"),
        Missing("baseline", "m", "b", "x", 8),
        Missing("target", "m", "b", "x", 2),
    )
    assert both.notes == (
        "1 machine only in before.json: n",
        "1 operation only in before.json: b/gone/m",
        "2 operations only in after.json: b/new/m, b/newer/m",
        "1 configuration only in before.json: b/x/m with 8 threads",
        "1 configuration only in after.json: b/x/m with 2 threads",
    )


def test_an_operation_without_common_configuration_is_kept_as_invalid():
    both = paired_runs([run(rows("x", [1.0]))], [run(rows("x", [2.0], threads=2))])
    assert (values(both, 0), values(both, 1), len(both.missing)) == ([1.0], [2.0], 2)


def test_long_lists_of_unmatched_operations_are_shortened():
    before = run(*(rows(f"x{number}", [1.0]) for number in range(13)))
    (note,) = paired_runs([before], [run(rows("x0", [1.0]))]).notes
    assert note.startswith("12 operations only in baseline: b/x1/m, b/x2/m, ")
    assert note.endswith("b/x10/m and 2 more")


def test_operations_without_a_machine_get_an_unknown_machine():
    nameless = run(rows("x", [1.0])).assign(machine=np.nan).astype({"machine": "str"})
    assert paired_runs([nameless], [nameless]).tables.comparisons["machine"].tolist() == ["unknown"]


@pytest.mark.parametrize("before", [[0.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("after", [[0.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("past", [[0.0, 0.0], [1.0, 2.0]])
def test_operations_are_left_out_only_if_all_values_are_zero(before, after, past):
    earlier, baseline, target = (run(rows("x", values), rows("y", [1.0])) for values in (past, before, after))
    pair = paired_runs([baseline], [target], [earlier], names=NAMES)
    found = pair.tables.results.query("operation == 'x'")["value"].tolist()
    if any(before + after):
        assert found == [*before, *(past if any(past) else []), *after]
        told = () if any(past) else ("0 throughout an earlier run, and left out there: x",)
    else:
        told = (LEFT_OUT,)
        assert found == []
    assert (pair.notes, pair.missing) == (told, ())


def test_an_operation_with_only_zeros_is_not_missing():
    pair = paired_runs([run(ZERO, rows("y", [1.0]))], [run(rows("y", [1.0]))])
    assert (pair.missing, pair.notes) == ((), (LEFT_OUT,))


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        *(("us", "ms", Fraction(1, 1000)), ("s", "ms", 1000), ("min", "s", 60), ("h", "ps", 3600 * 10**12)),
        *(("\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", 1), ("usec", "us", 1), ("seconds", "s", 1)),
        *((f"{prefix}second", f"{prefix}seconds", 1) for prefix in ("", "milli", "micro", "nano")),
        *(("GB/s", "MB/s", 1000), ("GiB", "MiB", 1024), ("KiB", "B", 1024), ("KB", "B", 1000)),
        *(("B", "bit", 8), ("MB/s", "Mbit/s", 8), ("Gbps", "Mbit/s", 1000), ("GHz", "MHz", 1000)),
        *(("Mop/s", "ops/s", 10**6), ("mops", "Mop/s", 1), ("GFLOPS", "Mflop/s", 1000)),
        *(("ops/ms", "ops/s", 1000), ("1/ms", "1/s", 1000), ("requests per second", "req/s", 1)),
        *(("ns/op", "us/op", Fraction(1, 1000)), ("ms/txn", "s/txn", Fraction(1, 1000))),
        *(("bops", "bops", 1), (" ms ", "ms", 1)),
        *(("Requests Per Second", "req/s", 1), ("QPS", "qps", 1), ("MB/S", "MB/s", 1), ("MSec", "ms", 1)),
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
