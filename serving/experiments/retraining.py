"""What retraining would do: the stages that DVC would run, their durations, and the files that change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.families import FAMILIES
from data.stage import BAD_INPUT, DURATIONS
from data.tables.problems import unknown_message
from serving.reports.charts import with_noun

LOCK = Path("dvc.lock")
#: DVC's line before a stage that it runs.
_RUN = re.compile(r"^Running stage '([^']+)'", re.MULTILINE)


@dataclass(frozen=True)
class PlannedStage:
    """A stage that would run."""

    name: str
    changes: tuple[str, ...]  # why it runs; empty: only if an earlier stage writes other files
    seconds: float | None  # duration of its last run in this directory; None: unknown
    files: tuple[str, ...]  # its outputs


def _plan_lines(stages: Sequence[PlannedStage], seconds: float, files: Sequence[str]) -> Iterator[str]:
    changed = sum(bool(stage.changes) for stage in stages)
    unknown = sum(stage.seconds is None for stage in stages)
    time = f"about {seconds:.0f} s by their last runs"
    time += f", without {with_noun(unknown, 'stage')} of unknown duration" if unknown else ""
    time = "their durations are unknown" if stages and unknown == len(stages) else time
    others = len(stages) - changed
    after = f", then up to {others} that use their results" if others else ""
    yield f"{with_noun(changed, 'stage')} would run{after}: {time}"
    width = max((len(stage.name) for stage in stages), default=0)
    for stage in stages:
        duration = "?" if stage.seconds is None else f"{stage.seconds:.0f} s"
        reasons = ", ".join(stage.changes) or "if its inputs change"
        yield f"  {stage.name:<{width}} {duration:>7}  {reasons}"
    yield f"files that may change: {', '.join(files)}"
    yield "promote and champions also write to MLflow; git's index and params.yaml stay as they are"


def _stage_outputs(root: Path) -> dict[str, list[str]]:
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            return {stage.addressing: [str(out) for out in stage.outs] for stage in repo.index.stages}
    except DvcException as exc:
        raise InputError(str(exc), place="dvc") from exc


def requested_stages(targets: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the stages of `targets`: stages, families, stages of all families, or outputs."""
    for target in targets:
        stages = [name for name, files in outputs.items() if target in {name, *name.split("@"), *files}]
        if not stages:
            raise InputError(f'stage "{target}" {unknown_message(target, [*outputs, *FAMILIES])}')
        yield from stages


def _plan_stages(
    root: Path, targets: Sequence[str], outputs: Mapping[str, Sequence[str]]
) -> list[PlannedStage]:
    """Return the stages that ``dvc repro`` would run in their order, also those that `targets` need."""
    earlier = ["--with-deps"] if targets else []
    status: Mapping[str, Any] = json.loads(_dvc_output(root, "status", "--json", *earlier, *targets))
    stages = []
    for name in _RUN.findall(_dvc_output(root, "repro", "--dry", "--force-downstream", *targets)):
        recorded = root / DURATIONS / name
        seconds = float(recorded.read_text(encoding="utf-8")) if recorded.is_file() else None
        changes = tuple(_changes(status.get(name, ())))
        stages.append(PlannedStage(name, changes, seconds, tuple(outputs[name])))
    return stages


def _changes(entries: Sequence[str | Mapping[str, Any]]) -> Iterator[str]:
    """Yield the reasons of one stage in ``dvc status --json``, such as ``params.yaml: a.b modified``."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for parts in entry.values():
            for path, change in parts.items() if isinstance(parts, dict) else ():
                if isinstance(change, dict):
                    yield f"{path}: {', '.join(f'{name} {how}' for name, how in change.items())}"
                else:
                    yield f"{path} {change}"


def _dvc_output(root: Path, *command: str) -> str:
    words = [sys.executable, "-m", "dvc", *command]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.replace("ERROR: ", "").split())
        raise InputError(reason, place=f"dvc {' '.join(command)}")
    return done.stdout


def retrain(root: Path, targets: Sequence[str], *, dry_run: bool, as_json: bool) -> int:
    """Print the plan as text or JSON; unless `dry_run`, then run ``dvc repro`` of the stages `targets`.

    A target is a stage, or a family or an output, which stand for their stages. Stages that `targets` need
    are included; `targets` empty: all stages of the project `root`. Returns 0, or 2 if a stage failed.
    InputError if DVC cannot read the project, or a target is unknown; ModuleNotFoundError without DVC.
    """
    outputs = _stage_outputs(root)
    targets = [*requested_stages(targets, outputs)]
    stages = _plan_stages(root, targets, outputs)
    seconds = sum(stage.seconds or 0.0 for stage in stages)
    files = sorted({str(LOCK), *(file for stage in stages for file in stage.files)})
    if as_json:
        content = {"stages": [asdict(stage) for stage in stages], "seconds": seconds, "files": files}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _plan_lines(stages, seconds, files))
    if dry_run:
        return 0
    sys.stdout.flush()
    # stages call python, which is to be this one
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    command = [sys.executable, "-m", "dvc", "repro", *targets]
    done = subprocess.run(command, cwd=root, env={**os.environ, "PATH": path}, check=False)
    return BAD_INPUT if done.returncode else 0
