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
    *(
        "data/ending.py",
        "data/errors.py",
        "data/tables/files.py",
        "data/tables/given.py",
        "data/tables/nearest.py",
    ),
    *("data/params.py", "data/measure/screen.py", "data/stage.py"),
    *("training/comparisons/family.py", "training/evaluation/sidebyside.py", "data/tables/written.py"),
}
#: What stages of other families don't list yet. Delete a line when it is mended; add none.
UNLISTED = {
    "ingest": "data/comparisons/formats/result_run.py",
    "validate": "data/comparisons/tables.py",
    "ingest-fingerprints": "data/comparisons/stages.py data/comparisons/reading.py data/comparisons/schema.py",
    "validate-fingerprints": "data/comparisons/stages.py data/fingerprints/tables.py data/comparisons/tables.py",
    "featurize-fingerprints": "data/comparisons/tables.py",
    "evaluate-fingerprints": "data/tables/digest.py training/evaluation/metrics.py",
    "report-fingerprints": (
        "data/comparisons/stages.py data/fingerprints/tables.py data/fingerprints/stages.py data/comparisons/tables.py"
    ),
    "ingest-corun": "data/comparisons/stages.py data/comparisons/reading.py data/comparisons/schema.py",
    "validate-corun": "data/comparisons/stages.py data/fingerprints/stages.py data/comparisons/tables.py",
    "featurize-corun": "data/comparisons/tables.py",
    "tune-corun": (
        "data/corun/tables.py features/corun/rates.py training/corun/promote.py data/tables/digest.py "
        "training/corun/estimators/pressure.py"
    ),
    "evaluate-corun": (
        "data/corun/tables.py data/corun/validity.py data/comparisons/tables.py features/corun/rates.py "
        "training/corun/promote.py data/tables/digest.py training/evaluation/metrics.py training/corun/estimators/pressure.py"
    ),
    "train-corun": (
        "data/corun/tables.py data/corun/validity.py data/comparisons/tables.py features/corun/rates.py "
        "training/corun/promote.py data/tables/digest.py training/corun/estimators/scores.py "
        "training/corun/online_evaluating.py training/corun/estimators/pressure.py training/corun/estimators/ranges.py"
    ),
    "report-corun": (
        "data/comparisons/stages.py data/corun/stages.py data/corun/placements.py data/fingerprints/stages.py data/comparisons/tables.py "
        "serving/corun/schemas.py"
    ),
    "featurize": "data/comparisons/stages.py data/comparisons/tables.py",
    "tune": (
        "data/comparisons/sides.py data/comparisons/tables.py features/comparisons/vectors.py features/comparisons/history.py features/comparisons/ranks.py "
        "training/comparisons/bound.py data/tables/digest.py training/comparisons/rules.py"
    ),
    "train": (
        "data/comparisons/sides.py data/comparisons/tables.py features/comparisons/vectors.py features/comparisons/history.py features/comparisons/ranks.py "
        "training/estimators/answering.py training/comparisons/bound.py data/tables/digest.py training/comparisons/rules.py "
        "training/comparisons/tuning.py"
    ),
    "evaluate": (
        "data/comparisons/sides.py data/comparisons/tables.py features/comparisons/vectors.py features/comparisons/history.py features/comparisons/ranks.py "
        "training/comparisons/bound.py data/tables/digest.py training/comparisons/tuning.py"
    ),
    "report": (
        "data/comparisons/sides.py data/comparisons/tables.py training/estimators/answering.py data/tables/digest.py training/estimators/frozen.py "
        "training/registry/stored.py training/registry/trusted.py"
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
    """Return where a stage begins; see `data.stage`, `training.comparisons.family` and `serving.report`."""
    package, verb = module.split(".")
    if module == "serving.report":
        return [(module, "main"), (f"serving.{family}_report", "page")]
    for own in (f"{package}.{family}_{verb}", f"{package}.{family}"):
        if source(own).exists() and f"{verb}_stage" in definitions(own):
            return [(module, ""), (own, f"{verb}_stage")]
    return [(module, verb), ("training.comparisons.family", "family")]


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
    evaluation = code(("training.matrices.stages", "evaluate_stage"))
    assert {
        "training/estimators/tan.py",
        "training/estimators/cuts.py",
        "data/comparisons/schema.py",
        "training/matrices/engine/drivers.py",
    } <= evaluation
    # the stage promote and the family comparisons alone use these
    assert (
        not {
            "training/matrices/contest.py",
            "data/comparisons/formats/__init__.py",
            "data/comparisons/formats/comparison_xml.py",
        }
        & evaluation
    )
