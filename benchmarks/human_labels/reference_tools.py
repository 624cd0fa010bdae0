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

from benchmarks.human_labels.cases import Points, View
from data.errors import InputError
from data.tables.files import digest_of, replacing

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tool:
    """A tool, the stem of its script in `inside`, and its requirements."""

    name: str
    stem: str

    @property
    def script(self) -> Path:
        return HERE / "inside" / f"of_{self.stem}.py"

    @property
    def requirements(self) -> Path:
        return HERE / "requirements" / f"{self.stem}.txt"

    @property
    def command(self) -> list[str | Path]:
        """The command that runs the script in its environment, which uv caches."""
        python = ["uv", "run", "--quiet", "--no-project", "--python", sys.executable]
        return [*python, "--with-requirements", self.requirements, self.script]


@dataclass(frozen=True)
class ToolAnswer:
    """The change points of a tool in one way: at its fixed setting, and at many settings."""

    way: str
    version: str
    fixed: Points
    varied: Points
    seconds: float


TOOLS = (
    Tool("apache-otava", "otava"),
    Tool("signal-processing-algorithms", "mongodb"),
    Tool("ruptures", "ruptures"),
    Tool("asv", "asv"),
)


def run_or_raise(problem: str, command: Sequence[object], env: Any, cwd: Path | None = None) -> None:
    """Run a command; raise `InputError` with `problem` and the last line of stderr if it fails."""
    arguments = [str(argument) for argument in command]
    try:
        done = subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError(f"{problem}: {arguments[0]} is not installed") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
        raise InputError(f"{problem}: {last}")


def run_tool(tool: Tool, view: View, cache: Path) -> list[ToolAnswer]:
    """Run `tool` over the stretches of a view, or read its cached results; one answer per way of using it."""
    stretches = view.stretches
    inputs: dict[str, Any] = {
        "values": np.concatenate([stretch.medians for stretch in stretches]),
        "starts": np.cumsum([0, *(stretch.stop - stretch.first for stretch in stretches)]),
        "better": np.array([stretch.series.better for stretch in stretches]),
    }
    content = b"".join(column.tobytes() for column in inputs.values())
    code = digest_of(tool.script, tool.script.with_name("points.py"), tool.requirements)
    digest = hashlib.sha256(code.encode() + content)
    path = cache / "answers" / f"{tool.script.stem}-{digest.hexdigest()[:16]}.npz"
    if not path.is_file():
        # the script runs in another interpreter, which must not use the paths of this one
        own = ("PYTHON", "VIRTUAL_ENV")
        bare = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        with replacing(path) as target:
            request_file = target.with_name("asked.npz")
            np.savez(request_file, **inputs)
            run_or_raise(f"{tool.name} failed", [*tool.command, request_file, target], bare)
    with np.load(path) as results:
        answer = dict(results)
    tool_answers = []
    for number, way in enumerate(answer["ways"]):
        of_way, is_fixed = answer["way"] == number, answer["strength"] == 0
        chosen = (of_way & is_fixed, of_way & ~is_fixed)
        points = [
            Points(*(answer[name][rows] for name in ("series", "position", "strength"))) for rows in chosen
        ]
        seconds = float(answer["seconds"][number])
        tool_answers.append(ToolAnswer(str(way), str(answer["version"]), *points, seconds))
    return tool_answers
