"""Change-point detection tools, each run in a separate environment."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.human_labels.cases import Points, Stretch, View, pieces
from data.errors import InputError
from data.tables.files import digest_of, replacing

HERE = Path(__file__).parent
#: Versions per call of a script; an interrupted run resumes after the last finished chunk.
PIECE = 60_000


@dataclass(frozen=True)
class Tool:
    name: str
    script: Path
    requirements: Path | None


@dataclass(frozen=True)
class Answered:
    way: str
    version: str
    fixed: Points
    varied: Points
    seconds: float


def _tool(name: str, stem: str) -> Tool:
    return Tool(name, HERE / "inside" / f"of_{stem}.py", HERE / "requirements" / f"{stem}.txt")


TOOLS = (
    _tool("apache-otava", "otava"),
    _tool("signal-processing-algorithms", "mongodb"),
    _tool("ruptures", "ruptures"),
    _tool("asv", "asv"),
)


def command(tool: Tool) -> list[str]:
    """Return the command that runs the script of `tool` in its environment, which uv caches."""
    if tool.requirements is None:
        return [sys.executable, str(tool.script)]
    needs = ["--with-requirements", str(tool.requirements)]
    return ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *needs, str(tool.script)]


def _run(command: list[str], problem: str) -> None:
    # the script runs in another interpreter, which must not use the paths of this one
    bare = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    try:
        done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError(f"{problem}: {command[0]} is not installed") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
        raise InputError(f"{problem}: {last}")


def ask(tool: Tool, view: View, cache: Path) -> list[Answered]:
    """Run `tool` over the stretches of a view, or read its cached results; one answer per way of using it."""
    answers = [
        (piece.start, _answer(tool, view.stretches[piece], cache / "answers"))
        for piece in pieces(view, PIECE)
    ]
    return [_joined(answers, number) for number in range(len(answers[0][1]["ways"]))]


def _answer(tool: Tool, stretches: Sequence[Stretch], cache: Path) -> dict[str, Any]:
    given: dict[str, Any] = {
        "values": np.concatenate([one.medians for one in stretches]),
        "starts": np.cumsum([0, *(one.stop - one.first for one in stretches)]),
        "better": np.array([one.series.better for one in stretches]),
    }
    said = [
        tool.script,
        tool.script.with_name("points.py"),
        *([tool.requirements] if tool.requirements else []),
    ]
    content = b"".join(column.tobytes() for column in given.values())
    digest = hashlib.sha256(digest_of(*(path for path in said if path.is_file())).encode() + content)
    path = cache / f"{tool.script.stem}-{digest.hexdigest()[:16]}.npz"
    if not path.is_file():
        with replacing(path) as target:
            asked = target.with_name("asked.npz")
            np.savez(asked, **given)
            _run([*command(tool), str(asked), str(target)], f"{tool.name} failed")
    with np.load(path) as found:
        return dict(found)


def _joined(answers: list[tuple[int, dict[str, Any]]], way: int) -> Answered:
    """Join the chunks of one way; each chunk comes with the number of its first stretch."""
    first = answers[0][1]
    own = [(start, found, found["way"] == way) for start, found in answers]
    stretch = np.concatenate([found["series"][rows] + start for start, found, rows in own])
    position = np.concatenate([found["position"][rows] for _, found, rows in own])
    strength = np.concatenate([found["strength"][rows] for _, found, rows in own])
    settled = strength == 0
    points = [Points(stretch[rows], position[rows], strength[rows]) for rows in (settled, ~settled)]
    seconds = sum(float(found["seconds"][way]) for _, found in answers)
    return Answered(str(first["ways"][way]), str(first["version"]), points[0], points[1], seconds)
