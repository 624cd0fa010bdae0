"""The rules of the house, read off the code, and the names that it retired. See CONTRIBUTING.md."""

import ast
import re

import yaml

from data.families import FAMILIES
from tests.imports import ROOMS, ROOT, imported, modules, names, parsed, reached, told

#: What lies on a shelf imports nothing of those after it.
ORDERED = {"data": ("errors", "tables", "measure"), "training": ("estimators", "evaluation", "registry")}
#: Python's own documentation offers it to children of `os.fork`.
PUBLIC = {"os._exit"}


def family(module):
    """Return the family whose cell a module lies in; None for what is shared."""
    return next((part for part in module.split(".")[1:2] if part in FAMILIES), None)


def room(module):
    return ROOMS.index(module.split(".")[0])


def late(module):
    parts = module.split(".")
    order = ORDERED.get(parts[0], ())
    return order.index(parts[1]) if len(parts) > 1 and parts[1] in order else None


def later(module, other):
    ranked = None not in {late(module), late(other)} and room(module) == room(other)
    return ranked and late(other) > late(module)


def test_imports_respect_the_layers_and_families():
    found = []
    for one in modules():
        for other in imported(one) | told(one):
            wrong = {
                "up": room(other) > room(one),
                "to a family": family(other) not in {None, family(one)},
                "to a later shelf": later(one, other),
                # a supply is found by its family's name, and imports its type from there
                "in a circle": other in imported(one) and one in reached(other),
            }
            found += [f"{one} -> {other}: {rule}" for rule in wrong if wrong[rule]]
    assert found == []


def private(module):
    """Yield the names with a leading underscore that a module takes from another, or from a library."""
    known = dict(names(module))
    dotted = {one for _, one in names(module)}
    for node in parsed(module):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            plain = first in known and all(part.isidentifier() for part in rest)
            dotted |= {".".join([known[first], *rest])} if plain else set()
    for name in dotted:
        if any(part.startswith("_") and not part.startswith("__") for part in name.split(".")):
            yield name


def test_no_module_uses_private_names_of_others():
    taken = [f"{module} -> {name}" for module in modules() for name in private(module) if name not in PUBLIC]
    assert taken == []


#: A row of the table: the names in its first cell.
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| `", re.MULTILINE)
TABLE = (ROOT / "docs/glossary.md").read_text().partition("## Retired names")[2]
RETIRED = {name for cell in ROW.findall(TABLE) for name in re.findall(r"\w+", cell)}
#: Programs that are measured, not part of the project's code.
MEASURED = ROOT / "data/suites/programs"


def names_in(nodes):
    for node in nodes:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def test_no_module_or_parameter_has_a_retired_name():
    assert {"Reign", "Desk", "crown", "novelty"} <= RETIRED
    tokens = yaml.scan((ROOT / "params.yaml").read_text())
    assert RETIRED.isdisjoint(one.value for one in tokens if isinstance(one, yaml.ScalarToken))
    others = [path for room in ("benchmarks", "clients/python") for path in (ROOT / room).rglob("*.py")]
    nodes = {path: parsed(module) for module, path in modules().items() if MEASURED not in path.parents}
    nodes |= {path: ast.walk(ast.parse(path.read_text())) for path in others}
    used = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in nodes
        for name, line in [(path.stem, 1), *names_in(nodes[path])]
        if name in RETIRED
    ]
    assert used == []
