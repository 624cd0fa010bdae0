"""A GitHub workflow for the benchmarks of a repository, and its file of acknowledgements."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import yaml

from data.errors import InputError
from data.tables.files import write_text
from serving.comparisons.compare.acknowledging import DEFAULT
from serving.reports.rendering import render
from training.registry.origins import git_output

#: The workflow file, relative to the repository.
WORKFLOW = Path(".github/workflows/perfjudge.yml")
#: Directories that are not searched for benchmarks.
_SKIPPED = {".git", ".tox", ".venv", "venv", "node_modules", "target", "build", "dist"}
#: Most bytes of a file that are searched.
_SEARCHED = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BenchmarkTool:
    """A benchmark tool, how it is found in a repository, and how it measures.

    In commands and `results`, ``{file}`` is the found file and ``{directory}`` its directory, relative to the
    project's directory, in which the commands run. ``{requirements}`` are arguments of pip.
    """

    name: str
    patterns: Sequence[str]  # of names of files
    mention: str = ""  # what one of these files contains; empty: the file alone suffices
    project: Sequence[str] = ()  # files that mark the project's directory; empty: the root of the repository
    outermost: bool = False  # of several such directories, whether the outermost one counts, not the nearest
    prepare: str = ""  # command that installs what the measurement needs; empty: nothing
    measure: str  # command that writes `results`
    results: str  # file or directory
    results_key: str = ""  # key of the found file with another name in {directory}; empty: none
    repeat: str = ""  # command that measures again into {output}; empty: none

    def as_used_in(self, root: Path) -> ToolJob | None:
        """Return the job for the first file of `root` with a pattern and the mention; None without one."""
        paths = (path for pattern in self.patterns for path in sorted(root.rglob(pattern)))
        for path in paths:
            file = path.relative_to(root)
            if _SKIPPED.intersection(file.parts) or not path.is_file():
                continue
            if self.mention in (content := _read_start(path)):
                # a line with // before the key is a comment
                key = rf'^(?!\s*//).*"{self.results_key or "(?!)"}"\s*:\s*"([^"]+)"'
                named = re.search(key, content, re.MULTILINE)
                results = self.results if named is None else f"{{directory}}/{named[1]}"
                return self._job(root, file, results)
        return None

    def _job(self, root: Path, file: Path, results: str) -> ToolJob:
        parents = reversed(file.parents) if self.outermost else file.parents
        marked = (path for path in parents if any((root / path / name).is_file() for name in self.project))
        project = next(marked, Path())
        inside = file.relative_to(project)

        def filled(command: str) -> str:
            command = command.replace("{file}", shlex.quote(str(inside)))
            command = command.replace("{requirements}", _requirements(root / project, inside.parent))
            return command.replace("{directory}", shlex.quote(str(inside.parent)))

        repeat = filled(self.repeat)
        if repeat and project != Path():
            repeat = f"sh -c {shlex.quote(f'cd {shlex.quote(str(project))} && {repeat}')}"
        results = os.path.normpath(project / results.replace("{directory}", str(inside.parent)))
        texts = str(project), filled(self.prepare), filled(self.measure), results, repeat
        return ToolJob(self.name, *("" if text in {"", "."} else _as_yaml(text) for text in texts))


class ToolJob(NamedTuple):
    """The job of a tool in a workflow; all but the name as scalars of YAML, empty if there is none."""

    name: str
    directory: str  # in which `prepare` and `measure` run; empty: the root of the repository
    prepare: str
    measure: str
    results: str
    repeat: str  # runs in the root of the repository


def _as_yaml(text: str) -> str:
    scalar = yaml.safe_dump(text, width=2**31 - 1, allow_unicode=True)
    return scalar.removesuffix("...\n").rstrip("\n")


def _requirements(project: Path, inside: Path) -> str:
    """Return arguments of pip: the package of `project`, else requirements files there and in `inside`."""
    # a pyproject.toml may have settings of tools only, and pip installs nothing by a setup.cfg alone
    path, packaged = project / "pyproject.toml", r"(?m)^\[(project|build-system)\]"
    if (project / "setup.py").is_file() or (path.is_file() and re.search(packaged, _read_start(path))):
        return " ."
    paths = sorted(path for place in {project, project / inside} for path in place.glob("requirements*.txt"))
    return "".join(f" -r {shlex.quote(str(path.relative_to(project)))}" for path in paths)


def _default_branch(root: Path) -> str:
    # a clone knows the default branch of its origin
    remote = git_output(root, "symbolic-ref", "refs/remotes/origin/HEAD").removeprefix("refs/remotes/origin/")
    return remote or git_output(root, "symbolic-ref", "--short", "HEAD") or "main"


def _read_start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_SEARCHED).decode(errors="replace")


_TABLE = files("serving.comparisons.compare") / "tools.yaml"
TOOLS = [BenchmarkTool(**fields) for fields in yaml.safe_load(_TABLE.read_text(encoding="utf-8"))]


def write_workflow(root: Path) -> Sequence[tuple[str, Path]]:
    """Write the workflow and the file of acknowledgements of a repository; return (name, path) pairs.

    The workflow has a job per tool that `root` uses, each with a pair; paths are relative to `root`. A
    missing file of acknowledgements is written, with the last pair; an existing one is kept, without a pair.
    Raises InputError if `root` is a subdirectory of a repository, no tool is found, or the workflow exists;
    then nothing is written.
    """
    top = git_output(root, "rev-parse", "--show-toplevel")
    if top and not root.samefile(top):
        raise InputError(f"is below the root of its repository; run the command in {top}", file=root)
    found = [used for tool in TOOLS if (used := tool.as_used_in(root)) is not None]
    if not found:
        names = ", ".join(tool.name for tool in TOOLS)
        raise InputError(f"has no benchmarks of a known tool: expected {names}", file=root)
    workflow, acknowledged = root / WORKFLOW, root / DEFAULT
    if workflow.exists():
        raise InputError("exists already; delete it to write it again", file=workflow)
    # the action of this version, or of the branch if this is no release
    release = re.fullmatch(r"\d+(\.\d+)*", version("perfjudge"))
    action = "main" if release is None else f"v{release[0]}"
    branch = _as_yaml(_default_branch(root))
    write_text(workflow, render("compare/workflow.yml", tools=found, action=action, branch=branch))
    written = [(tool.name, WORKFLOW) for tool in found]
    if not acknowledged.exists():
        write_text(acknowledged, render("compare/acknowledged.yml"))
        written.append(("acknowledgements", DEFAULT))
    return written
