"""Stages as the command line runs them, in this process: importing pandas anew takes longer than they do."""

import contextlib
import io
import runpy
import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ended:
    """How a stage ended."""

    returncode: int
    stdout: str
    stderr: str


def run(directory, module, *arguments):
    """Run ``python -m module arguments`` in `directory`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setattr(sys, "argv", [module, *arguments])
        patch.setattr("data.stage.keep_bytecode", lambda: None)
        patch.setattr("data.stage.pin_arithmetic", lambda: None)
        # runpy warns of a module that something has imported already
        patch.delitem(sys.modules, module, raising=False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                runpy.run_module(module, run_name="__main__")
            except SystemExit as end:
                code = end.code or 0
    return Ended(code, out.getvalue(), err.getvalue())
