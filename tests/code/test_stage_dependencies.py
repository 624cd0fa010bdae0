"""Stages of dvc.yaml: their order, and that they depend on the folders of all code that they run.

Modules beside the folders only find other modules; no stage depends on them.
"""

import ast
import inspect
import shutil
import textwrap
from fnmatch import fnmatch
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

from tests.imports import ROOT, bound, copied, modules, ours, reached, run

# of a library that DVC finds its outputs with, until that follows its own advice
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value will soon raise:DeprecationWarning")


@cache
def stages():
    """Return command and dependencies of every stage of dvc.yaml but those that run every time."""
    with Repo(str(ROOT)) as repo:
        return {
            stage.name: (stage.cmd, {one.def_path for one in stage.deps if one.def_path})
            for stage in repo.index.stages
            if not stage.always_changed
        }


def starts(module, family):
    """Return the modules with which a family's stage begins: what it supplies for the verb imports them."""
    room, verb = module.split(".")
    if module == "serving.report":
        return {f"serving.{family}.page"}
    plugins = import_module("data.families" if room == "data" else f"{room}.plugins")
    stage = getattr(plugins.family_plugin(family), verb)
    addresses = stage.args if isinstance(stage, partial) else [stage]
    if isinstance(addresses[0], str):
        return {address.partition(":")[0] for address in addresses}
    body = ast.parse(textwrap.dedent(inspect.getsource(stage)))
    return {one for _, dotted in bound(ast.walk(body)) if (one := ours(dotted))}


def folders(command):
    """Return the shelves, and the families' folders, whose code a command may run."""
    module, *families = command.removeprefix("python -m ").split()
    first = {module}.union(*(starts(module, family) for family in families))
    paths = {modules()[one].relative_to(ROOT) for start in first for one in {start, *reached(start, run)}}
    return sorted({"/".join(path.parts[:2]) for path in paths if len(path.parts) > 2})


def test_stages_depend_on_all_folders_of_code_that_they_run():
    missing = {name: {*folders(command)} - listed for name, (command, listed) in stages().items()}
    assert [name for name in missing if missing[name]] == []
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 160


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy in which every stage has run, as DVC sees it; measurements and outputs are made up."""
    root = tmp_path_factory.mktemp("project")
    copied(root)
    for name in ("dvc.yaml", "params.yaml", ".dvcignore"):
        shutil.copy(ROOT / name, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        with Repo.init(str(root), no_scm=True) as repo:
            paths = {one.fs_path for stage in repo.index.stages for one in (*stage.deps, *stage.outs)}
            for path in map(Path, sorted(paths, reverse=True)):
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("made up")
            repo.commit(force=True)
    assert would_run(root) == set()
    return root


def would_run(root):
    with Repo(str(root)) as repo:
        return {stage for stage, why in repo.status().items() if why != ["always changed"]}


def named(*patterns):
    return {name for name in stages() if any(fnmatch(name, pattern) for pattern in patterns)}


#: What changes without a change of any result: where and by how many processes is computed.
ELSEWHERE = {
    b"scheduler: null": b"scheduler: tcp://there:8786",
    b"storage: null": b"storage: postgresql://there/trials",
    b"n_jobs: 2": b"n_jobs: 7",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        ("training/corun/splits.py", ["tune@corun", "[ertp]*@corun"]),
        ("data/matrices/validity.py", ["*@matrices"]),
        ("features/fingerprints/matrix.py", ["[!iv]*@fingerprints"]),
        ("serving/comparisons/page.py", ["report@comparisons"]),
        ("data/tables/files.py", ["*@*", "plots"]),
        ("data/families.py data/corun/__pycache__/run.cpython-311.pyc params.yaml", []),
    ],
)
def test_changed_code_reruns_only_the_dependent_stages(project, touched, expected, monkeypatch):
    monkeypatch.chdir(project)
    before = {path: path.read_bytes() if path.exists() else b"" for path in map(Path, touched.split())}
    for path, content in before.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content + b"# touched\n")
        for old, new in ELSEWHERE.items() if path.name == "params.yaml" else ():
            assert old in content
            path.write_bytes(path.read_bytes().replace(old, new))
    try:
        assert would_run(project) == named(*expected)
    finally:
        for path, content in before.items():
            path.write_bytes(content) if content else path.unlink()


def test_comparisons_run_first_promotion_late_and_maintenance_last():
    with Repo(str(ROOT)) as repo:
        stages = collect_stages(repo, [str(ROOT / "dvc.yaml")])
        planned = [stage.addressing for stage in plan_repro(get_active_graph(repo.index.graph), stages)]
    before = planned[: planned.index("promote@comparisons")]
    assert {stage.rpartition("@")[2] for stage in before} == {"comparisons"}
    assert not any(stage.startswith("report") for stage in before)
    for promotion in (stage for stage in planned if stage.startswith("promote@")):
        assert planned.index(promotion.replace("promote", "evaluate")) < planned.index(promotion)
    assert planned[-1] == "champions"
