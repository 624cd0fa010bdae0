"""The project answers as it did when the answers were recorded."""

import json

import pytest

from tests.system.golden import session
from tests.system.golden.answering import all_groups
from tests.system.golden.comparing import Renames, difference, equal

#: How many entries of a group are shown that differ.
_MOST = 5


@pytest.fixture(scope="session")
def golden_answers(short_project, made_once, request):
    """The present answers of all groups that this session tests; one process gives them."""
    asked = [item for item in request.session.items if "golden_answers" in item.fixturenames]

    def fill(directory):
        found = session.answered(short_project, [item.callspec.params["group"] for item in asked])
        (directory / "answers.json").write_text(json.dumps(found))

    return json.loads((made_once("golden-answers", fill) / "answers.json").read_text())


@pytest.mark.parametrize("group", all_groups())
def test_all_answers_equal_the_recorded_ones(group, golden_answers):
    renames = Renames.read()
    answers = {renames.text(name): answer for name, answer in golden_answers[group].items()}
    recorded = renames.value(session.recorded(group))
    names = [name for name in {**recorded, **answers} if not equal(recorded.get(name), answers.get(name))]
    shown = [difference(name, recorded.get(name), answers.get(name)) for name in names[:_MOST]]
    assert not names, "\n".join([f"{len(names)} of {len(answers)} answers of {group!r} differ", *shown])
