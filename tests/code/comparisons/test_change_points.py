import pytest

from data.comparisons.formats.sap_hana import ChangePoint, Span, find_boundaries
from data.comparisons.params import LabelRules

RULES = LabelRules(
    versions_before=10,
    versions_after=5,
    clean_every=10,
    min_annotators=3,
    match_window=5,
    exclusion_window=12,
)
PEOPLE = ("7", "8", "11")


def changes(marks, spans=None, rules=RULES):
    found = find_boundaries(spans or [Span(0, 200, PEOPLE)], [ChangePoint(*mark) for mark in marks], rules)
    return [(boundary.version, boundary.annotators) for boundary in found if boundary.marked]


def clean(marks, spans=None, rules=RULES):
    found = find_boundaries(spans or [Span(0, 200, PEOPLE)], [ChangePoint(*mark) for mark in marks], rules)
    return [boundary.version for boundary in found if not boundary.marked]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([(50, "7"), (50, "8"), (51, "11")], [(50, PEOPLE)]),
        ([(50, "7"), (54, "8"), (55, "11")], [(54, PEOPLE)]),
        ([(50, "7"), (53, "8"), (56, "11")], []),
        ([(50, "7"), (50, "8")], []),
        ([(50, "7"), (51, "7"), (52, "8")], []),
        ([(50, "7"), (50, "8"), (50, "11"), (58, "7"), (58, "8"), (58, "11")], [(50, PEOPLE), (58, PEOPLE)]),
        ([(46, "7"), (50, "7"), (51, "8"), (51, "11")], [(51, PEOPLE)]),
        ([(9, "7"), (9, "8"), (9, "11")], []),
        ([(10, "7"), (10, "8"), (10, "11")], [(10, PEOPLE)]),
        ([(195, "7"), (195, "8"), (195, "11")], [(195, PEOPLE)]),
        ([(196, "7"), (196, "8"), (196, "11")], []),
    ],
)
def test_changes_need_enough_annotators_marking_nearby_versions(marks, expected):
    assert changes(marks) == expected


def test_every_tenth_unmarked_boundary_is_clean():
    assert clean([]) == list(range(10, 200, 10))


def test_one_or_two_marks_nearby_make_a_boundary_ambiguous():
    assert clean([(58, "7")]) == [10, 20, 30, 40, *range(80, 200, 10)]
    assert clean([(57, "7")]) == [10, 20, 30, 40, *range(70, 200, 10)]


def test_spans_that_overlap_give_every_boundary_once():
    spans = [Span(0, 100, PEOPLE), Span(80, 200, PEOPLE)]
    assert clean([], spans) == list(range(10, 200, 10))
    assert changes([(90, "7"), (90, "8"), (91, "11")], spans) == [(90, PEOPLE)]


def test_spans_with_too_few_annotators_have_no_boundaries():
    assert clean([], [Span(0, 200, ("7", "8"))]) == []
    assert clean([], [Span(0, 60, PEOPLE), Span(40, 200, ("9",))]) == [10, 20, 30, 40, 50]


def test_no_boundaries_lie_beyond_the_annotated_spans():
    assert clean([], [Span(750, 800, PEOPLE)]) == [760, 770, 780, 790]
    assert changes([(20, "7"), (20, "8"), (20, "11")], [Span(750, 800, PEOPLE)]) == []
