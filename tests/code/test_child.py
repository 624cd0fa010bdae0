import os
import select
import sys

import pytest

from data.errors import InputError
from data.measure.child import Child, Talking, execute


def gone(pid):
    """Tell whether a process that is being killed ends."""
    try:
        ended = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    return bool(select.select([ended], [], [], 30)[0])


def test_a_program_that_takes_too_long_is_killed_with_all_it_started():
    done = execute(["sh", "-c", "sleep 77 & echo $!; wait"], "x", limit=0.3)
    assert done.code == -9
    assert gone(done.last_line)
    assert 0.3 <= done.seconds[0] < 30


def test_what_a_program_leaves_running_ends_with_it():
    done = execute(["sh", "-c", "sleep 77 & echo $!"], "x")
    assert done.code == 0
    assert gone(done.last_line)


def test_a_program_that_fails_or_is_missing_is_told_in_one_line_with_what_it_said_last(tmp_path):
    child = Child(["sh", "-c", "echo first; echo no luck >&2; exit 3"], "here", tmp_path / "said")
    child.wait()
    with pytest.raises(InputError, match=r"^here: exit code 3 \(no luck\)$"):
        child.require()
    with pytest.raises(InputError, match=r"^here: needs the program 'no-such', which is not installed$"):
        Child(["no-such"], "here")


def test_a_program_is_pinned_and_leaves_temporary_files_beside_what_it_says(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    told = "import os; print(os.sched_getaffinity(0), os.environ['TMPDIR'], os.environ['X'])"
    done = execute([sys.executable, "-c", told], "x", tmp_path, cpu=cpu, environment={"X": "y"})
    assert done.output == f"{{{cpu}}} {tmp_path} y\n"


def test_a_program_that_we_talk_with_is_heard_until_it_ends():
    program = Talking(["sh", "-c", "read word; echo $word"], "x")
    assert program.heard(0) is None
    program.say(b"a\n")
    assert [program.heard(60) for _ in range(3)] == [b"a", b"\n", b""]
    assert program.end() == program.end() == 0
