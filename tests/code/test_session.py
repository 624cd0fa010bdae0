import math

import pytest

from data.errors import InputError
from data.fingerprints.collect import MeasuredRun, PlannedRun
from data.measure.session import Journal, Session, repeat_while_disturbed
from tests.seen import Seen

PLAN = [PlannedRun("", "stressor", "cpu", 1, repetition) for repetition in range(1, 6)]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr("data.measure.session.PATIENCE", 0)


@pytest.fixture
def journal(tmp_path):
    return Journal.open_or_create(tmp_path / "journal.jsonl", {}, MeasuredRun)


def rate(task, value):
    return MeasuredRun(*task.journal_key, "2026-11-21T00:00:00+00:00", value, "", 0.0)


def test_a_disturbed_batch_is_repeated_as_a_whole(journal):
    shares, batches, seen = iter([0.5, 0.4, 0.6, 0.0, 0.0, 0.0]), [], Seen()

    def make(tasks):
        batches.append([task.repetition for task in tasks])
        return [rate(task, len(batches)) for task in tasks], next(shares)

    Session(journal, seen, "rates", 0.1, math.inf).measure_missing(PLAN, make, batch=2)
    assert batches == [[1, 2]] * 4 + [[3, 4], [5]]
    assert [entry.value for entry in journal.entries] == [4, 4, 5, 5, 6]
    assert [line[:2] for line in seen.lines] == [(0, 5)] * 4 + [(2, 5), (4, 5), (5, 5)]


def test_a_failing_session_keeps_its_earlier_measurements(journal):
    def make(tasks):
        if tasks[0].repetition == 3:
            raise InputError("broken")
        return [rate(tasks[0], 1.0)], 0.0

    with pytest.raises(InputError, match="broken"), Session(journal, Seen(), "rates") as session:
        session.measure_missing(PLAN, make)
    again = Journal.open_or_create(journal.path, {}, MeasuredRun)
    assert [task.repetition for task in Session(again, Seen(), "rates").runs_to_measure(PLAN)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("shares", "attempts", "made", "told"),
    [
        ([0.1], 3, 0, []), ([0.5], 1, 0, []), ([0.5, 0.1], 3, 1, ["50%"]),
        ([0.5, 0.3, 0.4], 3, 1, ["50%", "30%"]),
    ],
)  # fmt: skip
def test_the_quietest_of_some_attempts_is_kept(shares, attempts, made, told):
    trials, waits = iter(enumerate(shares)), []
    assert repeat_while_disturbed(lambda: next(trials), 0.2, attempts, waits.append) == (made, shares[made])
    assert waits == [f"waiting: others use {share} of the machine" for share in told]
