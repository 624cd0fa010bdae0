import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.comparisons.timelines import rules
from data.errors import InputError
from tests.data.comparisons.xml_elements import ELEMENTS

BASELINE = '<baseline><Kernel value="kernel-4\\.18\\..*"/></baseline>'
TARGETS = '<targets><Kernel value="kernel-.*"/><Hostname value="m1|m2"/></targets>'


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "rules.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return rules.read_rule_sets(path)

    return of


def refused(read, text):
    with pytest.raises(InputError) as caught:
        read(text)
    return re.sub(r"\S*/rules.xml", "rules.xml", str(caught.value))


def test_rule_sets_are_the_root_or_its_children(read):
    (alone,) = read(f'<rules title="RHEL 8">{BASELINE}{TARGETS}</rules>')
    both = read(f'<all><set title="RHEL 7">{BASELINE}{TARGETS}</set><set>{BASELINE}{TARGETS}</set></all>')
    targets = [("target", "Kernel", "kernel-.*"), ("target", "Hostname", "m1|m2")]
    found = [(one.role, one.name, one.pattern) for one in alone.rules]
    assert found == [("baseline", "Kernel", r"kernel-4\.18\..*"), *targets]
    assert [one.title for one in (alone, *both)] == ["RHEL 8", "RHEL 7", "rules 2"]


def test_patterns_match_whole_values_and_names_ignore_case(read):
    (one,) = read(f"<rules>{BASELINE}{TARGETS}</rules>")
    names = ("kernel-4.18.0-80", "xkernel-4.18.0", "kernel-4.180", "kernel-4.18.\n")
    runs = [*({"kernel": name} for name in names), {}]
    assert one.accepts_runs("baseline", runs) == [True, False, False, False, False]
    hosts = [{"kernel": "kernel-5", "hostname": name} for name in ("m1", "m2", "m12")]
    assert one.accepts_runs("target", hosts) == [True, True, False]


def test_a_pattern_of_exponential_backtracking_takes_no_time(read):
    (one,) = read(f'<rules>{BASELINE}<target><Kernel value="(a+)+(a+)+b"/></target></rules>')
    assert one.accepts_runs("target", [{"kernel": "a" * 900}]) == [False]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"<r>\n{BASELINE}</r>", 'rules.xml:1 rules "rules": has no <targets>'),
        (f"<r>\n{BASELINE}\n<goal/></r>", 'rules.xml:3 rules "rules": <goal> is not a role of results'),
        (f"<r>{BASELINE}\n{BASELINE}{TARGETS}</r>", 'rules.xml:2 rules "rules": <baseline> appears twice'),
        (f"<r>{BASELINE}\n<targets/></r>", 'rules.xml:2 rules "rules": <targets> holds no rule'),
        (f"<r>{BASELINE}<targets>\n<Kernel/></targets></r>", "<Kernel> has no attribute value"),
        (
            f'<r>{BASELINE}<targets>\n<Kernel value="(4"/></targets></r>',
            'rules.xml:2 rules "rules" target <Kernel>: value="(4" is not a regular expression of RE2',
        ),
        (f'<r>{BASELINE}<targets><Kernel value="a)|(b"/></targets></r>', "not a regular expression of RE2"),
        (f'<r>{BASELINE}<targets><Kernel value="(?=a)"/></targets></r>', "not a regular expression of RE2"),
        (f'<r>{BASELINE}<targets><Kernel value="{"a" * 1001}"/></targets></r>', "has 1001 characters"),
        (
            f'<!DOCTYPE r [<!ENTITY a "b">]><r>{BASELINE}{TARGETS}</r>',
            "rules.xml:1: declares a document type",
        ),
        ("", "rules.xml: is empty; expected XML"),
    ],
)
def test_bad_rules_give_a_one_line_error(read, text, told):
    assert told in refused(read, text)


@given(st.one_of(st.binary(max_size=200), ELEMENTS.map(str.encode)))
def test_any_bytes_are_rules_or_one_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.xml"
    path.write_bytes(content)
    try:
        found = rules.read_rule_sets(path)
    except InputError:
        return
    assert all({"baseline", "target"} <= one.roles for one in found)
