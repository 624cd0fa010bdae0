"""The rules of the house, read off the code. See CONTRIBUTING.md."""

import ast
from collections import Counter

import pytest

from data.families import FAMILIES
from tests.imports import ROOMS, ROOT, bound, imported, modules, names, ours, parsed, reached, told

#: What lies on a shelf imports nothing of those after it.
ORDERED = {"data": ("errors", "tables", "measure"), "training": ("estimators", "evaluation", "registry")}
#: Python's own documentation offers it to children of `os.fork`.
PUBLIC = {"os._exit"}
#: What still breaks a rule. Delete a line when it is mended; add none.
TO_MEND = {
    "across": """
data.corun.flaws -> data.comparisons.reading
data.corun.formats -> data.comparisons.reading
data.corun.formats.pitot -> data.comparisons.tables
data.corun.formats.spec_corun -> data.comparisons.tables
data.corun.placements -> data.comparisons.tables
data.corun.schema -> data.comparisons.schema
data.corun.stages -> data.comparisons.stages
data.corun.stages -> data.fingerprints.stages
data.corun.suite -> data.comparisons.suite
data.corun.tables -> data.comparisons.tables
data.corun.validity -> data.comparisons.tables
data.fingerprints.flaws -> data.comparisons.reading
data.fingerprints.formats -> data.comparisons.reading
data.fingerprints.formats.application_csv -> data.comparisons.tables
data.fingerprints.formats.quiho -> data.comparisons.tables
data.fingerprints.formats.sparecores -> data.comparisons.tables
data.fingerprints.schema -> data.comparisons.schema
data.fingerprints.stages -> data.comparisons.stages
data.fingerprints.suite -> data.comparisons.suite
data.fingerprints.tables -> data.comparisons.tables
data.fingerprints.validity -> data.comparisons.tables
data.matrices.collect -> data.corun.collect
data.matrices.flaws -> data.comparisons.reading
data.matrices.formats -> data.comparisons.reading
data.matrices.formats.dbsherlock -> data.comparisons.tables
data.matrices.schema -> data.comparisons.schema
data.matrices.schema -> data.comparisons.tables
data.matrices.stages -> data.comparisons.stages
data.matrices.stages -> data.fingerprints.stages
data.matrices.suite -> data.comparisons.suite
data.matrices.tables -> data.comparisons.tables
data.matrices.validity -> data.comparisons.tables
serving.comparisons.schemas -> serving.corun.schemas
serving.comparisons.schemas -> serving.matrices.schemas
serving.corun.evaluated -> data.comparisons.tables
serving.corun.json -> serving.comparisons.model
serving.corun.measured -> data.comparisons.tables
serving.corun.model -> serving.comparisons.model
serving.corun.schemas -> serving.fingerprints.schemas
serving.corun.served -> serving.comparisons.model
serving.corun.text -> serving.comparisons.model
serving.fingerprints.inputs -> data.comparisons.reading
serving.fingerprints.inputs -> data.comparisons.stages
serving.fingerprints.profiled -> data.comparisons.tables
serving.matrices.body -> data.comparisons.reading
serving.matrices.evaluated -> data.comparisons.tables
serving.matrices.judge -> serving.comparisons.model
serving.matrices.model -> serving.comparisons.model
serving.matrices.schemas -> serving.fingerprints.schemas
serving.matrices.source -> data.comparisons.reading
training.corun.known_tasks -> data.comparisons.tables
training.matrices.engine.stored -> data.comparisons.tables
""",
    "off_the_shelf": """
data.collect -> data.comparisons.suite
data.measure.perf_stat -> data.corun.tables
data.measure.programs -> data.comparisons.suite
serving.answering -> data.comparisons.formats
serving.answering -> data.comparisons.formats.comparison_status
serving.answering -> data.comparisons.pair
serving.answering -> data.comparisons.params
serving.answering -> data.comparisons.reading
serving.answering -> data.comparisons.run
serving.answering -> data.comparisons.tables
serving.answering -> data.comparisons.versions
serving.answering -> serving.comparisons.judge
serving.answering -> serving.comparisons.model
serving.answering -> serving.comparisons.render
serving.answering -> serving.comparisons.xml
serving.answering -> serving.matrices.command
serving.answering -> serving.matrices.source
serving.cli -> data.matrices.choice
serving.cli -> serving.corun.command
serving.cli -> serving.corun.static
serving.cli -> serving.fingerprints.command
serving.doors.api -> serving.comparisons.model
serving.doors.api -> serving.comparisons.schemas
serving.doors.api -> serving.corun.body
serving.doors.api -> serving.corun.schemas
serving.doors.api -> serving.corun.served
serving.doors.api -> serving.fingerprints.body
serving.doors.api -> serving.fingerprints.command
serving.doors.api -> serving.fingerprints.schemas
serving.doors.api -> serving.matrices.body
serving.doors.api -> serving.matrices.schemas
serving.doors.api -> serving.matrices.served
serving.doors.bodies -> data.comparisons.formats.comparison_json
serving.doors.bodies -> data.comparisons.formats.comparison_status
serving.doors.bodies -> data.comparisons.formats.comparison_xml
serving.doors.bodies -> data.comparisons.reading
serving.doors.bodies -> serving.comparisons.judge
serving.doors.bodies -> serving.comparisons.model
serving.doors.bodies -> serving.comparisons.render
serving.doors.server -> serving.comparisons.model
serving.doors.server -> serving.corun.served
serving.doors.server -> serving.matrices.served
serving.importing -> data.comparisons.formats
serving.importing -> data.comparisons.importing
serving.importing -> data.comparisons.params
serving.importing -> data.corun.formats
serving.importing -> data.fingerprints.formats
serving.importing -> data.matrices.choice
serving.importing -> data.matrices.formats
serving.pages.evaluated -> data.comparisons.tables
serving.pages.mistakes -> data.comparisons.sides
serving.pages.mistakes -> data.comparisons.tables
serving.report -> serving.comparisons.page
serving.report -> serving.corun.page
serving.report -> serving.fingerprints.page
serving.report -> serving.matrices.page
training.registry.trusted -> features.matrices.forms
training.registry.trusted -> features.matrices.projection
training.registry.trusted -> training.corun.estimators.contention
training.registry.trusted -> training.corun.estimators.pressure
training.registry.trusted -> training.matrices.engine.engine
training.registry.trusted -> training.matrices.engine.grouping
training.registry.trusted -> training.matrices.engine.judges
training.registry.trusted -> training.matrices.engine.search
training.registry.trusted -> training.matrices.engine.validity_tree
""",
    "around": """
serving.answering -> serving.matrices.command
serving.matrices.command -> serving.answering
training.matrices.contest -> training.matrices.promote
training.matrices.promote -> training.matrices.contest
training.registry.champions -> training.registry.tracking
training.registry.tracking -> training.registry.champions
""",
    "private": """
data.tables.xml_stream -> lxml.etree._Element
""",
    "long": """
data.matrices.programs
serving.cli
training.estimators.similarity
""",
}


def test_imports_are_read_in_functions_too():
    code = """
from data import stage as one
def f():
    import data.errors
    from data.errors import InputError
"""
    read = {("one", "data.stage"), ("data.errors", "data.errors"), ("InputError", "data.errors.InputError")}
    assert bound(ast.walk(ast.parse(code))) == read
    assert [ours(dotted) for _, dotted in sorted(read)] == ["data.errors", "data.errors", "data.stage"]


def family(module):
    """Return the family whose cell a module lies in; None for what is shared."""
    return next((part for part in module.split(".")[1:2] if part in FAMILIES), None)


def room(module):
    return ROOMS.index(module.split(".")[0])


def late(module):
    """Return the place of a module among its room's shelves; None where that has no order."""
    parts = module.split(".")
    order = ORDERED.get(parts[0], ())
    return order.index(parts[1]) if len(parts) > 1 and parts[1] in order else None


def up(module, other):
    return room(other) > room(module)


def across(module, other):
    return family(module) is not None and family(other) not in {None, family(module)}


def off_the_shelf(module, other):
    return family(module) is None and family(other) is not None


def later(module, other):
    ranked = None not in {late(module), late(other)} and room(module) == room(other)
    return ranked and late(other) > late(module)


def around(module, other):
    return module in reached(other)


def broken(rule):
    """Return who breaks a rule, and by importing or naming whom."""
    return [
        f"{one} -> {other}"
        for one in modules()
        # a supply is found by its family's name, and imports its type from there
        for other in (imported(one) if rule is around else imported(one) | told(one))
        if rule(one, other)
    ]


def expect(rule, found):
    """Nothing breaks a rule but what is listed, and what is listed does."""
    listed = TO_MEND.get(rule, "").split("\n")[1:-1]
    assert sorted(found) == sorted(listed)


@pytest.mark.parametrize("rule", [up, across, off_the_shelf, later, around])
def test_imports_keep_the_rules_of_the_house(rule):
    expect(rule.__name__, broken(rule))


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


def test_no_module_takes_private_names_of_another_or_of_a_library():
    taken = ((module, name) for module in modules() for name in private(module) if name not in PUBLIC)
    expect("private", [f"{module} -> {name}" for module, name in taken])


def test_folders_hold_at_most_20_modules():
    files = (path for path in modules().values() if path.name != "__init__.py")
    held = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)
    assert {folder: many for folder, many in held.items() if many > 20} == {}


def test_modules_have_at_most_400_lines():
    lines = {module: len(path.read_text().splitlines()) for module, path in modules().items()}
    expect("long", [module for module, many in lines.items() if many > 400])
