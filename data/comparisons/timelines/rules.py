"""Rules that select results of a timeline: regular expressions over properties (scheduler thesis, 5.2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from data.tables.xml_stream import Document, Element, WholeDocument

Role = Literal["baseline", "target", "start"]
ROLES: tuple[Role, ...] = ("baseline", "target", "start")
#: Roles by name of a node; the thesis uses the plural of target.
NODES: dict[str, Role] = {**{role: role for role in ROLES}, "targets": "target"}
#: Maximum length of a pattern and of a property's value.
MAX_LENGTH = 1_000
#: Maximum number of sets of rules in one file.
MAX_SETS = 1_000
_EXPECTED = "expected <baseline>, <targets> and, if wanted, <start>"


@dataclass(frozen=True)
class TimelineRule:
    """A regular expression (RE2, linear time) that must match the whole value of a property.

    `file` and `line` are its place for messages; rules that differ only in their place are equal.
    """

    role: Role
    name: str
    pattern: str
    file: str | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)

    def matching_values(self, values: Iterable[str]) -> set[str]:
        """Return the values that match; those longer than `MAX_LENGTH` never do."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = sorted({value for value in values if len(value) <= MAX_LENGTH})
        matches = pc.match_substring_regex(pa.array(texts, pa.string()), rf"\A(?:{self.pattern})\z")
        return {text for text, match in zip(texts, matches.to_pylist(), strict=True) if match}


@dataclass(frozen=True)
class RuleSet:
    """The rules that select the results of one timeline."""

    title: str
    rules: tuple[TimelineRule, ...]

    @cached_property
    def roles(self) -> frozenset[Role]:
        """The roles that have rules."""
        return frozenset(rule.role for rule in self.rules)

    def rules_of_role(self, role: Role) -> tuple[TimelineRule, ...]:
        """Return the rules of "baseline", "target" or "start", in the order of the file."""
        return tuple(rule for rule in self.rules if rule.role == role)

    def accepts_runs(self, role: Role, runs: Sequence[Mapping[str, str]]) -> list[bool]:
        """Return for each run whether all rules of a role match; all True for a role without rules.

        `runs` are properties with names in lower case. A run without a rule's property does not match.
        """
        accepted = [True] * len(runs)
        for rule in self.rules_of_role(role):
            name = rule.name.lower()
            values = [properties.get(name) for properties in runs]
            matching = rule.matching_values(value for value in values if value is not None)
            accepted = [before and value in matching for before, value in zip(accepted, values, strict=True)]
        return accepted


def read_rule_sets(path: Path) -> tuple[RuleSet, ...]:
    """Return the sets of rules in an XML file, in the order of the file; at least one.

    A set has the nodes ``baseline``, ``targets`` (or ``target``) and optionally ``start``. Their child
    elements have the names of properties in the settings of a result (the scheduler thesis, figure 4.3) and a
    regular expression (RE2, for the whole value) as the attribute ``value``; names ignore case. If the root
    has such a node, or no elements, it is the only set; else each of its elements is a set. A set's ``title``
    is the attribute of this name, else the file's stem, with a number if the root has sets. InputError if the
    file is missing or not well-formed, a node is unknown, repeated, missing or empty, a property is repeated
    or has no ``value``, a pattern is invalid, or a limit (`MAX_SETS`, `MAX_LENGTH`) is exceeded.
    """
    tree = WholeDocument(Document.from_path(path))
    elements = list(tree.root)
    if not elements or any(str(element.tag).lower() in NODES for element in elements):
        return (_read_set(tree, tree.root, path.stem),)
    if len(elements) > MAX_SETS:
        raise tree.error_at(tree.root, f"holds {len(elements)} sets of rules; expected {MAX_SETS} at most")
    return tuple(
        _read_set(tree, element, f"{path.stem} {number}") for number, element in enumerate(elements, start=1)
    )


def _read_set(tree: WholeDocument, element: Element, default_title: str) -> RuleSet:
    title = (element.get("title") or default_title).strip()[:MAX_LENGTH]
    place = f'rules "{title}"'
    rules: dict[Role, list[TimelineRule]] = {}
    for node in element:
        role = NODES.get(str(node.tag).lower())
        if role is None:
            raise tree.error_at(node, f"<{node.tag}> is not a role of results; {_EXPECTED}", place)
        if role in rules:
            raise tree.error_at(node, f"<{node.tag}> appears twice; {_EXPECTED}, each once", place)
        rules[role] = _read_rules(tree, node, role, place)
    required = {"<baseline>": "baseline", "<targets>": "target"}
    missing = [name for name, role in required.items() if role not in rules]
    if missing:
        raise tree.error_at(element, f"has no {' and no '.join(missing)}; {_EXPECTED}", place)
    return RuleSet(title, tuple(rule for of_role in rules.values() for rule in of_role))


def _read_rules(tree: WholeDocument, node: Element, role: Role, place: str) -> list[TimelineRule]:
    import pyarrow as pa
    import pyarrow.compute as pc

    rules: dict[str, TimelineRule] = {}
    role_place = f"{place} {role}"
    for element in node:
        name = str(element.tag)
        pattern = tree.text_attribute(element, "value", role_place)
        if name.lower() in rules:
            raise tree.error_at(element, f"<{name}> appears twice; expected each property once", role_place)
        rule = TimelineRule(role, name, pattern, tree.document.name, tree.line_of(element))
        rules[name.lower()] = rule
        rule_place = f"{role_place} <{name}>"
        if len(pattern) > MAX_LENGTH:
            problem = f"value has {len(pattern)} characters; expected {MAX_LENGTH} at most"
            raise tree.error_at(element, problem, rule_place)
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
            rule.matching_values([""])
        except (pa.ArrowException, UnicodeError) as exc:
            reason = str(exc).removeprefix("Invalid regular expression: ")
            problem = f'value="{pattern[:60]}" is not a regular expression of RE2 ({reason})'
            raise tree.error_at(element, problem, rule_place) from exc
    if not rules:
        problem = f'<{node.tag}> holds no rule; expected elements like <Kernel value="..."/>'
        raise tree.error_at(node, problem, place)
    return list(rules.values())
