"""The installed package: its version and models, and new projects from its template."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import yaml

from data.errors import InputError
from data.families import FAMILIES
from data.tables.files import replacing, write_text, yaml_content
from training.registry.champions import (
    CHAMPION,
    DIGEST,
    SHIPPED,
    served_version,
    shipped_champions,
    template_root,
)
from training.registry.origins import git_output


def describe_version() -> str:
    """Return version and commit of perfjudge, and a line for each champion: name, version, model and digest.

    The names are those of the champions inside an installed wheel, else of the models of the endpoints; a
    registered champion takes precedence. InputError if the registry cannot be read, or params.yaml is
    invalid.
    """
    commit_file = SHIPPED / "commit.txt"
    if commit_file.is_file():
        commit = commit_file.read_text("utf-8").strip()
    else:
        commit = git_output(Path(__file__).parents[1], "rev-parse", "HEAD") or "unknown"
    lines = [f"perfjudge {version('perfjudge')} (commit {commit[:12]})"]
    names = [champion.name for champion in shipped_champions()]
    if not names:
        from serving.plugins import registered_names

        names = registered_names()
    for name in names:
        if (champion := served_version(f"models:/{name}@{CHAMPION}")) is not None:
            model, digest = champion.tags.get("model", ""), champion.tags.get(DIGEST, "unknown")
            lines.append(f"{name} {champion.version} ({model}, sha256 {digest[:12]})")
    return "\n".join(lines)


#: Files and folders of new projects, besides `PIPELINES`: paths in the repository and the template.
PROJECT_FILES = (
    *(".dvc/.gitignore", ".dvc/config", ".dvc/plots", ".dvcignore", ".gitignore"),
    *("data/raw/measured", "params.yaml"),
)
#: Files of new projects that are written without other families and dependencies on code.
PIPELINES = ("dvc.yaml", "reports/dvc.yaml")
#: The family that new projects train.
_FAMILY = "comparisons"
#: Dependencies of stages on folders of code: an installed perfjudge has its code outside of projects.
_CODE = re.compile(r"(docs|features|training|serving)/|data/(tables|measure|\$)")


def create_project(directory: Path) -> int:
    """Write a project that trains comparison models to `directory`, print next steps, and return 0.

    The project has the measurement that the champion inside perfjudge was trained on. It becomes a git
    repository with one commit, unless it is inside of one or git is not installed. Missing parents are
    created. InputError if `directory` exists and is not an empty directory; ModuleNotFoundError without the
    extra ``train``. After either, nothing is written.
    """
    import dvc  # noqa: F401 - without the extra, the project could not be run

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError("is not an empty directory", file=directory)
    template, target = template_root(), directory.absolute()
    # an existing directory is kept, as it may be the current one
    made = target / "new project" if target.exists() else target
    with replacing(made) as project:
        for name in PROJECT_FILES:
            source, copied = template / name, project / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copied)
            else:
                shutil.copyfile(source, copied)
        for name in PIPELINES:
            _write_pipeline(template / name, project / name)
        _start_repository(project, target.parent)
    if made != target:
        for part in made.iterdir():
            part.replace(target / part.name)
        made.rmdir()
    sys.stdout.write(
        f"{directory} trains on an example, data/raw/measured. To train on results of your own:\n"
        f"  cd {shlex.quote(str(directory))}\n"
        "  perfjudge import FORMAT SOURCE -o data/raw/mine\n"
        "  dvc exp run -S comparisons.ingest.path=data/raw/mine\n"
    )
    return 0


def _write_pipeline(template: Path, target: Path) -> None:
    content, others = yaml_content(template), [family for family in FAMILIES if family != _FAMILY]
    if "plots" in content:
        content["plots"] = [plot for plot in content["plots"] if next(iter(plot)).startswith(_FAMILY)]
    stages = content.get("stages", {})
    for name, stage in list(stages.items()):
        each = stage.get("foreach", _FAMILY)
        if _FAMILY not in each:
            del stages[name]
            continue
        if "foreach" in stage:
            stage["foreach"] = {_FAMILY: each[_FAMILY]} if isinstance(each, dict) else [_FAMILY]
        body = stage.get("do", stage)
        body["cmd"] = " ".join(word for word in body["cmd"].split() if word not in others)
        body["deps"] = [dep for dep in body["deps"] if not _CODE.match(dep) and Path(dep).name not in others]
    text = yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)
    write_text(target, f"# After an upgrade of perfjudge: dvc repro --force\n{text}" if stages else text)


def _start_repository(project: Path, parent: Path) -> None:
    """Make `project` a git repository with one commit, unless `parent` is inside of one; DVC needs none."""
    if git_output(parent, "rev-parse", "--is-inside-work-tree") == "true":
        return
    git_output(project, "init", "--quiet")
    if (project / ".git").is_dir():
        person = ("-c", "user.name=perfjudge", "-c", "user.email=perfjudge@localhost")
        git_output(project, "add", ".", timeout=None)
        commit = ("commit", "--quiet", "--message", "Create the project")
        git_output(project, *person, *commit, timeout=None)  # hooks of the user may take long
    else:
        config = project / ".dvc" / "config"
        write_text(config, config.read_text("utf-8").replace("[core]", "[core]\n    no_scm = true", 1))
