"""The project answers as it did when the answers were recorded."""

import json
import sys

import pytest

from tests.system.golden import session
from tests.system.golden.answering import RENAMES, all_groups
from tests.system.golden.comparing import Renames, difference, equal

#: How many entries of a group are shown that differ.
_MOST = 5
_NAME = "test_all_answers_equal_the_recorded_ones"


@pytest.fixture(scope="session")
def golden_answers(short_project, made_once, request):
    """The present answers of all groups that this session tests; one process gives them."""
    groups = [item.callspec.params["group"] for item in request.session.items if item.originalname == _NAME]

    def fill(directory):
        found, seconds = session.answered(short_project, groups)
        _show("answering", seconds)
        for group, answers in found.items():
            (directory / f"{group}.json").write_text(json.dumps(answers))

    return made_once("golden-answers", fill)


def _show(what, seconds):
    """Print processor seconds; pytest shows them with -rP, or where a test fails."""
    each = ", ".join(f"{name} {spent:.1f}" for name, spent in seconds.items())
    sys.stdout.write(f"{what}: {sum(seconds.values()):.0f} s of one processor ({each})\n")


@pytest.mark.slow
@pytest.mark.parametrize("group", all_groups())
def test_all_answers_equal_the_recorded_ones(group, golden_answers):
    renames = Renames.read(RENAMES)
    answers = json.loads((golden_answers / f"{group}.json").read_text())
    answers = {renames.text(name): answer for name, answer in answers.items()}
    recorded = renames.value(session.recorded(group))
    names = [name for name in {**recorded, **answers} if not equal(recorded.get(name), answers.get(name))]
    shown = [difference(name, recorded.get(name), answers.get(name)) for name in names[:_MOST]]
    assert not names, "\n".join([f"{len(names)} of {len(answers)} answers of {group!r} differ", *shown])
