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

from benchmarks.human_labels.cases import Points, Stretch, View, chunk_slices
from data.errors import InputError
from data.tables.files import digest_of, replacing

HERE = Path(__file__).parent
#: Versions per call of a script; an interrupted run resumes after the last finished chunk.
CHUNK_VERSIONS = 60_000


@dataclass(frozen=True)
class Tool:
    name: str
    script: Path
    requirements: Path | None


@dataclass(frozen=True)
class ToolAnswer:
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


def tool_command(tool: Tool) -> list[str]:
    """Return the command that runs the script of `tool` in its environment, which uv caches."""
    if tool.requirements is None:
        return [sys.executable, str(tool.script)]
    needs = ["--with-requirements", str(tool.requirements)]
    return ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *needs, str(tool.script)]


def _run_command(command: list[str], problem: str) -> None:
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


def run_tool(tool: Tool, view: View, cache: Path) -> list[ToolAnswer]:
    """Run `tool` over the stretches of a view, or read its cached results; one answer per way of using it."""
    answers = [
        (piece.start, _cached_answer(tool, view.stretches[piece], cache / "answers"))
        for piece in chunk_slices(view, CHUNK_VERSIONS)
    ]
    return [_join_chunks(answers, number) for number in range(len(answers[0][1]["ways"]))]


def _cached_answer(tool: Tool, stretches: Sequence[Stretch], cache: Path) -> dict[str, Any]:
    inputs: dict[str, Any] = {
        "values": np.concatenate([stretch.medians for stretch in stretches]),
        "starts": np.cumsum([0, *(stretch.stop - stretch.first for stretch in stretches)]),
        "better": np.array([stretch.series.better for stretch in stretches]),
    }
    code_files = [
        tool.script,
        tool.script.with_name("points.py"),
        *([tool.requirements] if tool.requirements else []),
    ]
    content = b"".join(column.tobytes() for column in inputs.values())
    digest = hashlib.sha256(digest_of(*(path for path in code_files if path.is_file())).encode() + content)
    path = cache / f"{tool.script.stem}-{digest.hexdigest()[:16]}.npz"
    if not path.is_file():
        with replacing(path) as target:
            request_file = target.with_name("asked.npz")
            np.savez(request_file, **inputs)
            _run_command([*tool_command(tool), str(request_file), str(target)], f"{tool.name} failed")
    with np.load(path) as results:
        return dict(results)


def _join_chunks(answers: list[tuple[int, dict[str, Any]]], way: int) -> ToolAnswer:
    """Join the chunks of one way; each chunk comes with the number of its first stretch."""
    first = answers[0][1]
    chunks = [(start, answer, answer["way"] == way) for start, answer in answers]
    stretch = np.concatenate([answer["series"][rows] + start for start, answer, rows in chunks])
    position = np.concatenate([answer["position"][rows] for _, answer, rows in chunks])
    strength = np.concatenate([answer["strength"][rows] for _, answer, rows in chunks])
    settled = strength == 0
    points = [Points(stretch[rows], position[rows], strength[rows]) for rows in (settled, ~settled)]
    seconds = sum(float(answer["seconds"][way]) for _, answer in answers)
    return ToolAnswer(str(first["ways"][way]), str(first["version"]), points[0], points[1], seconds)
