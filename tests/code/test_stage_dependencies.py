"""A stage depends on all code that it runs, or DVC would keep its outputs when that code has changed.

Code is followed from the stage's function, definition by definition, into functions' own imports too: what a
definition names is what it may run. A module that is imported, but of which nothing is named, does not count.
"""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
#: These find a stage, read params, write files, say what is wrong, how far it is and how it ends; no results.
PLUMBING = {
    *("data/ending.py", "data/errors.py", "data/files.py", "data/given.py", "data/nearest.py"),
    *("data/params.py", "data/screen.py", "data/stage.py"),
    *("training/family.py", "training/sidebyside.py", "training/written.py"),
}
#: What stages of other families don't list yet. Delete a line when it is mended; add none.
UNLISTED = {
    "ingest": "data/result_run.py",
    "validate": "data/tables.py",
    "ingest-fingerprints": "data/comparisons.py data/reading.py data/schema.py",
    "validate-fingerprints": "data/comparisons.py data/fingerprint_tables.py data/tables.py",
    "featurize-fingerprints": "data/tables.py",
    "evaluate-fingerprints": "training/digest.py training/metrics.py",
    "report-fingerprints": (
        "data/comparisons.py data/fingerprint_tables.py data/fingerprints.py data/tables.py"
    ),
    "ingest-corun": "data/comparisons.py data/reading.py data/schema.py",
    "validate-corun": "data/comparisons.py data/fingerprints.py data/tables.py",
    "featurize-corun": "data/tables.py",
    "tune-corun": (
        "data/corun_tables.py features/corun.py training/corun_promote.py training/digest.py "
        "training/pressure.py"
    ),
    "evaluate-corun": (
        "data/corun_tables.py data/corun_validity.py data/tables.py features/corun.py "
        "training/corun_promote.py training/digest.py training/metrics.py training/pressure.py"
    ),
    "train-corun": (
        "data/corun_tables.py data/corun_validity.py data/tables.py features/corun.py "
        "training/corun_promote.py training/digest.py training/impact_scores.py "
        "training/online_evaluating.py training/pressure.py training/ranges.py"
    ),
    "report-corun": (
        "data/comparisons.py data/corun.py data/corun_placements.py data/fingerprints.py data/tables.py "
        "serving/corun_schemas.py"
    ),
    "featurize": "data/comparisons.py data/tables.py",
    "tune": (
        "data/sides.py data/tables.py features/comparisons.py features/history.py features/ranks.py "
        "training/comparisons.py training/digest.py training/rules.py"
    ),
    "train": (
        "data/sides.py data/tables.py features/comparisons.py features/history.py features/ranks.py "
        "training/answering.py training/comparisons.py training/digest.py training/rules.py "
        "training/tuning.py"
    ),
    "evaluate": (
        "data/sides.py data/tables.py features/comparisons.py features/history.py features/ranks.py "
        "training/comparisons.py training/digest.py training/tuning.py"
    ),
    "report": (
        "data/sides.py data/tables.py training/answering.py training/digest.py training/frozen.py "
        "training/trained.py training/trusted.py"
    ),
}
NOT_RUN = {"TYPE_CHECKING", "__name__ == '__main__'"}
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def source(module):
    return ROOT / (module.replace(".", "/") + ".py")


def statements(body):
    """Yield what runs when a module is imported."""
    for node in body:
        if not isinstance(node, ast.If):
            yield node
        elif ast.unparse(node.test) not in NOT_RUN:
            yield from statements([*node.body, *node.orelse])


@cache
def parsed(module):
    return list(statements(ast.parse(source(module).read_text()).body))


@cache
def definitions(module):
    """Return the statements that make each name of a module; under "" those that make none."""
    found = {}
    for node in parsed(module):
        made = [node.name] if isinstance(node, DEFINITION) else []
        names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
        made = made or [one.id for one in names if isinstance(one.ctx, ast.Store)]
        for name in made or [""]:
            found.setdefault(name, []).append(node)
    return found


def imports(nodes):
    """Return what each name that `nodes` import stands for: a module, and what of it ("": all)."""
    found = {}
    for node in nodes:
        for one in ast.walk(node):
            for alias in one.names if isinstance(one, ast.ImportFrom) else ():
                module = f"{one.module}.{alias.name}"
                target = (module, "") if source(module).exists() else (one.module, alias.name)
                found[alias.asname or alias.name] = target
    return found


@cache
def imported_by(module):
    return imports(node for node in parsed(module) if not isinstance(node, DEFINITION))


@cache
def used(module, name):
    """Return what a definition may use, as (module, name); names that mean nothing there do no harm."""
    everywhere = imported_by(module)
    nodes = definitions(module).get(name, [])
    if not nodes and name in everywhere:
        return [everywhere[name]]
    known, found = everywhere | imports(nodes), []
    for one in (one for node in nodes for one in ast.walk(node)):
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            whole, part = known.get(one.value.id, ("", ""))
            found += [(whole, one.attr)] if whole and not part else []
        elif isinstance(one, ast.Name):
            found.append(known.get(one.id, (module, one.id)))
    return found


def code(*starts):
    """Return the files of all that is reached from these definitions."""
    seen, left = set(), list(starts)
    while left:
        module, name = left.pop()
        if (module, name) not in seen and source(module).exists():
            seen.add((module, name))
            left += [(module, ""), *used(module, name)]
    return {source(module).relative_to(ROOT).as_posix() for module, _ in seen}


def starts(module, family):
    """Return where a stage begins; see `data.stage`, `training.family` and `serving.report`."""
    package, verb = module.split(".")
    if module == "serving.report":
        return [(module, "main"), (f"serving.{family}_report", "page")]
    for own in (f"{package}.{family}_{verb}", f"{package}.{family}"):
        if source(own).exists() and f"{verb}_stage" in definitions(own):
            return [(module, ""), (own, f"{verb}_stage")]
    return [(module, verb), ("training.family", "family")]


def stages():
    """Yield module, family and dependencies of every stage that DVC may leave out."""
    for name, stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].items():
        for family in stage.get("matrix", {}).get("family", [""]):
            if not stage.get("always_changed"):
                command = stage["cmd"].replace("${item.family}", family)
                _, _, module, of = command.split()
                yield pytest.param(name, module, of, set(stage["deps"]), id=name)


@pytest.mark.parametrize(("stage", "module", "family", "listed"), list(stages()))
def test_a_stage_depends_on_all_code_that_it_runs_and_on_no_other(stage, module, family, listed):
    needed = code(*starts(module, family))
    missing = {path for path in needed - PLUMBING if not {path, *map(str, Path(path).parents)} & listed}
    assert sorted(missing) == sorted(UNLISTED.get(stage, "").split())
    assert {path for path in listed if path.endswith(".py")} <= needed


def test_code_is_followed_into_functions_but_only_where_it_is_named():
    evaluation = code(("training.matrices", "evaluate_stage"))
    assert {"training/tan.py", "training/cuts.py", "data/schema.py", "training/drivers.py"} <= evaluation
    # the stage promote and the family comparisons alone use these
    assert not {"training/matrix_contest.py", "data/formats.py", "data/comparison_xml.py"} & evaluation
