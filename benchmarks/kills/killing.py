"""Kill ``dvc repro`` at a moment, run it again, and look at what came of it."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.kills.project import metrics_of, repro

#: What is killed: DVC alone, its whole process group, or the stage that it runs.
KINDS = ("dvc", "group", "stage")
#: Seconds in which what was left behind has to end.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Killed:
    """A run that was killed, and the next one.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    after : float
        Seconds.
    stage : str
        The one that ran, or was about to.
    status : int
        Of the next run.
    same : bool
        Whether all figures are those of a run that nobody killed.
    left : int
        Processes of the killed run that still lived when the next one had ended.
    unfinished : int
        Runs that MLflow holds to be running, names without champion, and half-written files.
    said : str
        The end of what the next run said, if that failed.
    """

    kind: str
    after: float
    stage: str
    status: int
    same: bool
    left: int
    unfinished: int
    said: str = ""

    @property
    def well(self) -> bool:
        """Whether nothing is to be seen of the kill."""
        return self.status == 0 and self.same and self.left == 0 and self.unfinished == 0


def whole(root: Path, stages: Sequence[str]) -> tuple[float, dict[str, bytes]]:
    """Bring stages of the copy in `root` up to date undisturbed; return the seconds, and its figures."""
    begin = time.perf_counter()
    status, said = _again(root, stages)
    if status:
        raise RuntimeError(said)
    return time.perf_counter() - begin, metrics_of(root)


def killed(root: Path, stages: Sequence[str], kind: str, after: float, wanted: dict[str, bytes]) -> Killed:
    """Kill a run of the copy in `root` after so many seconds, and run it again at once."""
    command, environment = repro(root, stages)
    log = root / "killed.log"
    with log.open("wb") as said:
        run = subprocess.Popen(
            command, cwd=root, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        time.sleep(after)
        before = [*_family_of(run.pid)]
        _kill(run.pid, kind)
        run.wait()
    status, told = _again(root, stages)
    begun = re.findall(r"Running stage '(.*)'", log.read_text(errors="replace"))
    stage = begun[-1] if begun else "before the first"
    left, same = len(psutil.wait_procs(before, _PATIENCE)[1]), metrics_of(root) == wanted
    return Killed(kind, after, stage, status, same, left, unfinished(root), "" if status == 0 else told)


def _kill(process: int, kind: str) -> None:
    begun = [] if kind != "stage" else psutil.Process(process).children()
    if kind == "group":
        os.killpg(process, signal.SIGKILL)
    elif begun:
        begun[0].kill()
    else:
        os.kill(process, signal.SIGKILL)


def _family_of(process: int) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        yield from psutil.Process(process).children(recursive=True)


def _again(root: Path, stages: Sequence[str]) -> tuple[int, str]:
    command, environment = repro(root, stages)
    done = subprocess.run(command, check=False, cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr)[-2000:]


def unfinished(root: Path) -> int:
    """Count what a promotion or a stage left half done."""
    parts = len([*root.glob("reports/**/.*.part"), *root.glob("models/**/.*.part")])
    store = root / "mlflow.db"
    if not store.is_file():
        return parts
    with closing(sqlite3.connect(store)) as file:
        running = file.execute("SELECT count(*) FROM runs WHERE status = 'RUNNING'").fetchone()[0]
        nameless = file.execute(
            "SELECT count(*) FROM registered_models WHERE name NOT IN"
            " (SELECT name FROM registered_model_aliases WHERE alias = 'champion')"
        ).fetchone()[0]
        broken = file.execute("PRAGMA integrity_check").fetchone()[0] != "ok"
    return int(parts + running + nameless + broken)
