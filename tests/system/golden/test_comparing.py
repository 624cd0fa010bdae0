"""How answers are compared: what counts as equal, and what a difference shows."""

from datetime import UTC, datetime

import pytest

from tests.system.golden.comparing import MOST_LINES, Renames, difference, equal, values
from tests.system.golden.normalise import Normaliser


@pytest.mark.parametrize(
    ("recorded", "answered", "same"),
    [
        ({"p": 0.25}, {"p": 0.2500000001}, True),
        ({"p": 0.25}, {"p": 0.2501}, False),
        ({"p": None}, {"p": 0.0}, False),
        ({"p": True}, {"p": 1}, False),
        ("slower by 3.10 %", "slower by 3.10 %", True),
        ("slower by 3.10 %", "slower by 3.11 %", False),
        ("a   b\n------", "a b\n---------", True),
        ([1, 2], [1, 2, 3], False),
    ],
)
def test_numbers_are_equal_within_the_tolerance(recorded, answered, same):
    assert equal(recorded, answered) is same


def test_renames_change_keys_and_words_but_no_values():
    renames = Renames({"keys": {"missed": "false_negative_rate"}, "words": {"--floor": "--min-effect-size"}})
    renamed = renames.value({"missed": 0.1, "help": "--floor PERCENT, not --floors"})
    assert renamed == {"false_negative_rate": 0.1, "help": "--min-effect-size PERCENT, not --floors"}
    assert values(renamed) == [0.1]


def test_a_difference_names_the_entry_and_is_short():
    shown = difference("judge x", {"rows": list(range(100))}, {"rows": list(range(200, 300))})
    assert shown.startswith("judge x:\n--- recorded\n+++ answered\n")
    assert len(shown.splitlines()) == MOST_LINES + 2


def test_only_times_of_this_session_are_normalised():
    normaliser = Normaliser({"/tmp/x": "<root>"}, datetime(2026, 11, 23, 12, tzinfo=UTC))
    text = "/tmp/x/a 2026-11-23T12:30:00Z 2026-11-22 23:08:43+00:00 0.12345678901234"
    assert normaliser.text(text) == "<root>/a <moment> 2026-11-22 23:08:43+00:00 0.123456789"
