"""What modules import, in functions too, and what of ours their strings name: read off their code."""

import ast
import shutil
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("data", "features", "training", "serving")


def copied(root):
    """Copy the code of the rooms and what is compiled of it, without data."""
    # other processes are about to rename files of that pattern
    left_out = shutil.ignore_patterns("*.pyc.*", "raw", "interim", "valid", "processed")
    for room in ROOMS:
        shutil.copytree(ROOT / room, root / room, ignore=left_out)


@cache
def modules():
    files = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {named(path.relative_to(ROOT)): path for path in files}


def named(path):
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def parsed(module):
    return list(ast.walk(ast.parse(modules()[module].read_text())))


@cache
def run(module):
    """Return what of a module may run: all but what only a type checker reads."""
    return list(walked(ast.parse(modules()[module].read_text())))


def walked(node):
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from walked(child)


@cache
def names(module):
    """Return what a module imports: the names that it gives, and the dotted names that they stand for."""
    return bound(parsed(module))


def bound(nodes):
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {(one.asname or one.name, one.name) for one in node.names}
    return frozenset(found)


def ours(dotted):
    """Return the module of ours that holds a dotted name; None if none does."""
    parts = dotted.split(".")
    whole = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((one for one in whole if one in modules() and "." in one), None)


@cache
def imported(module, of=parsed):
    return frozenset(one for _, dotted in bound(of(module)) if (one := ours(dotted)))


@cache
def told(module):
    """Return the modules of ours that strings of a module name, for somebody to import them."""
    texts = (node.value for node in parsed(module) if isinstance(node, ast.Constant))
    return frozenset(
        one
        for text in texts
        if isinstance(text, str) and " " not in text and (one := ours(text.partition(":")[0]))
    )


@cache
def reached(module, of=parsed):
    """Return the modules of ours that a module imports, and those that they import, and so on."""
    seen, left = set(), [module]
    while left:
        new = imported(left.pop(), of) - seen
        seen |= new
        left += new
    return frozenset(seen)
