"""Run `perfjudge` in this process, or, where the process itself is tested, in its own."""

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

from serving.cli import run_command

PROGRAM = Path(sys.executable).with_name("perfjudge")


def perfjudge(*arguments):
    """Run a command in this process: a new one would import the heavy libraries again.

    Return exit code, standard output and standard error as `subprocess.run` does.
    """
    streams = [TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = run_command([*map(str, arguments)])
    written = (stream.buffer.getvalue().decode() for stream in streams)
    return subprocess.CompletedProcess(arguments, code, *written)


def perfjudge_process(*arguments, **environment):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | environment,
    )  # fmt: skip
