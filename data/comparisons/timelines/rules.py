"""Rules that select a timeline's results: regular expressions over properties (seed 000, section 5.2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from data.tables.xml_stream import Document, Element, WholeDocument

Role = Literal["baseline", "target", "start"]
ROLES: tuple[Role, ...] = ("baseline", "target", "start")
#: Roles by name of a node; the thesis uses the plural of target.
NODES: Mapping[str, Role] = {
    "baseline": "baseline",
    "target": "target",
    "targets": "target",
    "start": "start",
}
#: Maximum length of a pattern and of a property's value.
LONGEST = 1_000
#: Maximum number of sets of rules in one file.
MOST_SETS = 1_000
_EXPECTED = "expected <baseline>, <targets> and, if wanted, <start>"


@dataclass(frozen=True)
class TimelineRule:
    """A regular expression (RE2, linear time) that must match the whole value of a property."""

    role: Role
    name: str
    pattern: str

    def matching(self, values: Iterable[str]) -> set[str]:
        """Return the values that match; those longer than `LONGEST` never do."""
        given = sorted({value for value in values if len(value) <= LONGEST})
        told = pc.match_substring_regex(pa.array(given, pa.string()), rf"\A(?:{self.pattern})\z")
        return {value for value, matches in zip(given, told.to_pylist(), strict=True) if matches}


@dataclass(frozen=True)
class RuleSet:
    """The rules that select the results of one timeline."""

    title: str
    rules: tuple[TimelineRule, ...]

    @cached_property
    def roles(self) -> frozenset[Role]:
        """The roles that have rules."""
        return frozenset(rule.role for rule in self.rules)

    def of(self, role: Role) -> tuple[TimelineRule, ...]:
        """Return the rules of one role."""
        return tuple(rule for rule in self.rules if rule.role == role)

    def accepting(self, role: Role, runs: Sequence[Mapping[str, str]]) -> list[bool]:
        """Return for each run, by its properties (names in lower case), whether all rules of a role match."""
        accepted = [True] * len(runs)
        for rule in self.of(role):
            name = rule.name.lower()
            values = [one.get(name) for one in runs]
            matching = rule.matching(value for value in values if value is not None)
            accepted = [before and value in matching for before, value in zip(accepted, values, strict=True)]
        return accepted


def read(path: Path) -> tuple[RuleSet, ...]:
    """Read the sets of rules of an XML file.

    A set has the nodes ``baseline``, ``targets`` (or ``target``) and optionally ``start``. Their child
    elements have the names of properties in the settings of a result (figure 4.3) and a regular expression as
    the attribute ``value``. The root is the only set, or its elements are several sets, named by the
    attribute ``title``. InputError if a node is unknown, repeated, missing or empty, or a pattern is invalid.
    """
    tree = WholeDocument(Document.of_path(path))
    inside = list(tree.root)
    if any(_name(one) in NODES for one in inside) or not inside:
        return (_set(tree, tree.root, path.stem),)
    if len(inside) > MOST_SETS:
        raise tree.error(f"holds {len(inside)} sets of rules; expected {MOST_SETS} at most")
    found = [_set(tree, one, f"{path.stem} {number}") for number, one in enumerate(inside, start=1)]
    return tuple(found)


def _name(element: Element) -> str:
    return str(element.tag).lower()


def _set(tree: WholeDocument, element: Element, otherwise: str) -> RuleSet:
    tree.here = element
    title = (element.get("title") or otherwise).strip()[:LONGEST]
    place = f'rules "{title}"'
    rules: list[TimelineRule] = []
    seen: set[Role] = set()
    for node in element:
        tree.here, role = node, NODES.get(_name(node))
        if role is None:
            raise tree.error(f"<{node.tag}> is no role of results; {_EXPECTED}", place)
        if role in seen:
            raise tree.error(f"<{node.tag}> stands twice; {_EXPECTED}, each once", place)
        seen.add(role)
        rules += _role(tree, node, role, place)
    tree.here = element
    lacking = [
        f"<{name}>" for name, role in (("baseline", "baseline"), ("targets", "target")) if role not in seen
    ]
    if lacking:
        raise tree.error(f"lacks {' and '.join(lacking)}; {_EXPECTED}", place)
    return RuleSet(title, tuple(rules))


def _role(tree: WholeDocument, node: Element, role: Role, place: str) -> list[TimelineRule]:
    rules: dict[str, TimelineRule] = {}
    for one in node:
        tree.here = one
        pattern, name = tree.text(one, "value", f"{place} {role}"), str(one.tag)
        if name.lower() in rules:
            raise tree.error(f"<{name}> stands twice; expected each property once", f"{place} {role}")
        rules[name.lower()] = rule = TimelineRule(role, name, pattern)
        _require_regular(tree, rule, f"{place} {role} <{name}>")
    if not rules:
        tree.here = node
        raise tree.error(f'<{node.tag}> holds no rule; expected elements like <Kernel value="..."/>', place)
    return list(rules.values())


def _require_regular(tree: WholeDocument, rule: TimelineRule, place: str) -> None:
    if len(rule.pattern) > LONGEST:
        raise tree.error(f"value has {len(rule.pattern)} characters; expected {LONGEST} at most", place)
    try:
        pc.match_substring_regex(pa.array([""]), rule.pattern)
        rule.matching([""])
    except (pa.ArrowException, UnicodeError) as exc:
        why = str(exc).removeprefix("Invalid regular expression: ")
        raise tree.error(
            f'value="{rule.pattern[:60]}" is no regular expression of RE2 ({why})', place
        ) from exc
