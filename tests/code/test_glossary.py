"""Names that the glossary retires are not used."""

import ast
import re

import pytest
import yaml

from tests.imports import ROOMS, ROOT

#: A row of the table: the names in its first cell.
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| `", re.MULTILINE)
TABLE = (ROOT / "docs/glossary.md").read_text().partition("## Retired names")[2]
RETIRED = {name for cell in ROW.findall(TABLE) for name in re.findall(r"\w+", cell)}
#: Programs that are measured, not part of the project's code.
MEASURED = ROOT / "data/suites/programs"


def names_in(tree):
    """Yield each name that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def keys_in(value):
    if isinstance(value, dict):
        for key, entry in value.items():
            yield str(key)
            yield from keys_in(entry)


@pytest.mark.parametrize("room", [*ROOMS, "benchmarks", "clients/python"])
def test_no_module_defines_a_retired_name(room):
    assert {"Reign", "Desk", "crown", "novelty"} <= RETIRED
    used = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if MEASURED not in path.parents
        for name, line in [(path.stem, 1), *names_in(ast.parse(path.read_text()))]
        if name in RETIRED
    ]
    assert used == []


def test_no_parameter_has_a_retired_name():
    assert RETIRED.isdisjoint(keys_in(yaml.safe_load((ROOT / "params.yaml").read_text())))
