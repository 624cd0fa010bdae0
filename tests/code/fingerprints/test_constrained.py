"""Machines that constraints make of one."""

from pathlib import Path

import pytest
import yaml

from data.errors import InputError
from data.fingerprints import constraints, stress_ng
from data.fingerprints import suite as fingerprint_suite
from data.fingerprints.constraints import ConstrainedRun, confined, plan, tables, words
from data.fingerprints.suite import Constraint, FingerprintSuite, TimedProgram
from data.measure.child import Finished
from data.measure.session import Journal, Session
from tests.code.fingerprints.test_collecting import MACHINE
from tests.seen import Seen

SUITE = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 2, "threads": ["one"],
    "stressors": ["cpu", "nop", "gone"],
    "programs": [{"name": "sort", "command": "{run} library heap 1"}],
    "constraints": [{"name": f"{kind} {number}", "kind": kind} for kind in "ab" for number in (1, 2)],
}  # fmt: skip
HAS = frozenset({"cpu", "nop"})


@pytest.fixture
def suite():
    return FingerprintSuite.model_validate(SUITE)


def test_each_constraint_is_put_on_once_a_repetition_for_all_that_runs_under_it(suite):
    tasks = plan(suite, HAS)
    assert tasks == plan(suite, HAS)
    batches = [tasks[begin : begin + 3] for begin in range(0, len(tasks), 3)]
    assert [len({(task.constraint, task.repetition) for task in batch}) for batch in batches] == [1] * 8
    assert {frozenset(task.name for task in batch) for batch in batches} == {
        frozenset({"cpu", "nop", "sort"})
    }
    assert [batch[0].repetition for batch in batches] == [1] * 4 + [2] * 4


def test_what_runs_under_a_constraint_is_kept_before_the_next_one(suite, tmp_path, monkeypatch):
    on, ran = [], []

    def execute(command, *_):
        ran.append((on[-1], command[-1]))
        return Finished(0, "0.25 1000", (1, 1, 1))

    class Recorded:
        def __init__(self, constraint, _):
            self.name = constraint.name

        def __enter__(self):
            on.append(self.name)
            return lambda command: [*command, self.name]

        def __exit__(self, *_):
            return None

    for module in (constraints, stress_ng):
        monkeypatch.setattr(module, "execute", execute)
    monkeypatch.setattr(constraints, "confined", Recorded)
    monkeypatch.setattr(stress_ng, "reported", lambda _: 7.0)
    monkeypatch.chdir(tmp_path)
    with Session(Journal.open(tmp_path / "journal.jsonl", SUITE, ConstrainedRun), Seen(), "runs") as session:
        constraints.measure(session, suite, HAS)
    assert len(on) == 8
    assert all(one == other for one, other in ran)
    found = tables(suite, session.journal.entries, MACHINE)
    assert set(found.machines["machine"]) == {"a 1", "a 2", "b 1", "b 2"}
    assert set(found.machines["bogo_ops_per_second"]) == {7.0}
    assert set(found.applications["value"]) == {0.25}
    assert found.hosts["cpu"].tolist() == ["Xeon, a", "Xeon, a", "Xeon, b", "Xeon, b"]
    assert found.hosts["source"].unique().tolist() == ["suite tiny: Xeon under constraints"]


def test_a_constraint_is_taken_off_again(tmp_path, monkeypatch):
    pages = tmp_path / "enabled"
    pages.write_text("always [madvise] never")
    monkeypatch.setattr(constraints, "HUGE_PAGES", pages)
    with confined(Constraint(name="c", kind="k", huge_pages="never", traced=2), 1) as wrap:
        assert pages.read_text() == "never"
        command = wrap(["true"])
        assert command[:2] == ["perf", "stat"]
        assert command[-2:] == ["--", "true"]
        assert command[command.index("--event") + 1].count("sys_enter") == 2
    assert pages.read_text() == "madvise"


def test_a_machine_that_does_not_let_itself_be_constrained_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(constraints, "HUGE_PAGES", tmp_path / "missing")
    with (
        pytest.raises(InputError, match='constraint "c": cannot be put on here'),
        confined(Constraint(name="c", kind="k", huge_pages="never"), 1),
    ):
        pass


def test_commands_of_programs_have_their_places_filled():
    found = words(TimedProgram(name="p", command="{run} system writing 3 where={scratch}"), Path("/s"))
    assert found[1:2] == ["-S"]
    assert found[-4:] == ["system", "writing", "3", "where=/s"]
    with pytest.raises(InputError, match=r'program "p": command=.*expected no placeholders but \{run\}'):
        words(TimedProgram(name="p", command="{cc} x"), Path("/s"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"threads": ["all"]}, "threads=['all']: expected [one] under constraints"),
        ({"constraints": []}, "programs need constraints to run under"),
        ({"constraints": [SUITE["constraints"][0]] * 2}, 'constraint "a 1": stands twice'),
        ({"constraints": [{"name": "a", "kind": "k", "traced": 99}]}, "constraints.0.traced=99"),
    ],
)
def test_a_wrong_suite_of_constraints_is_told_in_one_line(tmp_path, change, told):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE | change))
    with pytest.raises(InputError) as error:
        fingerprint_suite.load(path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
