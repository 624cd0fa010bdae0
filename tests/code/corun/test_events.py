"""Events under the names that vendors, kernels and perf give them, in all forms that perf prints."""

import json

import pandas as pd
import pytest

from data.corun.synonyms import EventName, IntervalCounts, canonical_counts, unknown_events
from data.measure.perf_stat import TIME, parse_intervals

SEPARATED = "0.2,7,,instructions:u,1,100.00,,\n0.2,<not counted>,,cs,0,0.00,,\n0.4,8,,instructions:u,1,1,,\n"
LINES = "".join(
    json.dumps({"interval": time, "counter-value": count, "unit": "", "event": event}) + "\n"
    for time, count, event in [
        (0.2, "7.000000", "instructions:u"), (0.2, "<not counted>", "cs"), (0.4, "8.0", "instructions:u"),
    ]
)  # fmt: skip
NAMED = "time;instructions:u;cs\n0.2;7;<not counted>\n0.4;8;\n"


@pytest.mark.parametrize("text", [SEPARATED, LINES, NAMED], ids=["-x", "-j", "a table"])
def test_all_forms_of_perf_output_read_alike(text):
    found = parse_intervals(text, "f").set_index(TIME)
    assert found["instructions:u"].to_dict() == {0.2: 7.0, 0.4: 8.0}
    assert found["cs"].isna().all()


@pytest.mark.parametrize(
    ("written", "event", "privileges"),
    [
        ("cycles", "cpu-cycles", ""),
        ("cycles:u", "cpu-cycles", "u"),
        ("instructions:ukP", "instructions", ""),
        ("cpu_core/instructions/", "instructions", ""),
        ("cpu_atom/INST_RETIRED.ANY/u", "instructions", "u"),
        ("ex_ret_instr", "instructions", ""),
        ("l3_cache_refill", "cache-misses", ""),
        ("LLC-load-misses", "LLC-load-misses", ""),
        ("branches", "branch-instructions", ""),
        ("something-else:k", "something-else", "k"),
    ],
)
def test_an_event_has_a_single_canonical_name(written, event, privileges):
    found = EventName.from_text(written)
    assert (found.event, found.privileges) == (event, privileges)


def test_counts_of_core_types_and_modes_are_summed():
    table = pd.DataFrame(
        {
            TIME: [0.2, 0.4],
            "cpu_core/instructions/": [5.0, 6.0],
            "cpu_atom/instructions/": [None, 1.0],
            "cycles:u": [2.0, 2.0],
            "cycles:k": [1.0, 1.0],
            "branches:u": [1.0, 1.0],
            "faults": [3.0, 3.0],
            "page-faults": [4.0, 4.0],
        }
    )
    found, privileges = canonical_counts(IntervalCounts.from_table(table))
    assert found.ends.tolist() == [0.2, 0.4]
    assert {event: found.counts_of(event).tolist() for event in found.events} == {
        "instructions": [5.0, 7.0],
        "cpu-cycles": [3.0, 3.0],
        "branch-instructions": [1.0, 1.0],
        "page-faults": [3.0, 3.0],
    }
    assert privileges == {"branch-instructions": "u"}


def test_an_unknown_event_is_reported_with_the_nearest():
    found = unknown_events(["instrucions", "LLC-loads", "own-event", "zzz"], ["own-event"])
    assert found == {"instrucions": "instructions", "zzz": None}
