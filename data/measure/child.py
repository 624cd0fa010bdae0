"""A program of ours in a process group of its own: started, heard, and ended with all that it started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from data.errors import InputError


class Child:
    """A program that runs. Ctrl-C is for us: we end our programs.

    Parameters
    ----------
    command : sequence of str
    place : str
        What an error names.
    said : Path, optional
        The file that takes what it prints; it may leave temporary files beside it.
    cpu : int, optional
        The processor it is pinned to.
    environment : mapping, optional
        Beside ours.
    pass_fds : sequence of int
        Descriptors that it takes over.

    Attributes
    ----------
    pid : int
    ended : int
        A descriptor that can be read from when the program has ended.
    used : tuple of float
        User and kernel seconds, with those of the children it waited for; known once it was taken note of.

    Raises
    ------
    InputError
        If the program is not installed.
    """

    #: Its standard input, and its standard output where it is not kept.
    STREAMS: ClassVar[tuple[int, int | None]] = (subprocess.DEVNULL, None)

    def __init__(
        self,
        command: Sequence[str],
        place: str,
        said: Path | None = None,
        *,
        cpu: int | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._place, self._said = place, said or Path(os.devnull)
        beside = {} if said is None else {"TMPDIR": str(said.parent)}
        stdin, stdout = self.STREAMS
        with self._said.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=stdout or output,
                    stderr=output,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **beside, **(environment or {})},
                    bufsize=0,
                    pass_fds=pass_fds,
                    process_group=0,
                )
            except FileNotFoundError as exc:
                problem = f"needs the program {command[0]!r}, which is not installed"
                raise InputError(problem, place=place) from exc
        self.pid = self._process.pid
        self.ended = os.pidfd_open(self.pid)
        self.used = (0.0, 0.0)
        if cpu is not None:
            os.sched_setaffinity(self.pid, {cpu})

    @property
    def code(self) -> int | None:
        """The exit code (negative: a signal); None until `end`."""
        return self._process.returncode

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._said.read_text(errors="replace")

    @property
    def last_line(self) -> str:
        """What it printed last."""
        return _last_line(self.output)

    def send(self, number: int) -> None:
        """Send it a signal, if it was not yet waited for."""
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends, for some seconds; tell whether it has."""
        poll = select.poll()
        poll.register(self.ended, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it and all it started a signal, if it was not yet waited for: its number may be another's."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def end(self) -> int:
        """End it with all it started, if it still runs, and take note of it, once; return its exit code."""
        if self._process.returncode is None:
            self.kill()
            _, status, usage = os.wait4(self.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.used = usage.ru_utime, usage.ru_stime
            os.close(self.ended)
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        return self._process.returncode

    def require(self) -> None:
        """Take note that it has ended, with all it started; InputError if it failed."""
        if self.end():
            raise self.failed()

    def failed(self) -> InputError:
        """Take note of it; return what went wrong."""
        return InputError(f"exit code {self.end()} ({self.last_line})", place=self._place)


class Talking(Child):
    """A program that we talk with over its standard input and output; only its errors are kept."""

    STREAMS = (subprocess.PIPE, subprocess.PIPE)

    def say(self, word: bytes) -> None:
        """Write to it."""
        if self._process.stdin is not None:
            self._process.stdin.write(word)

    def heard(self, seconds: float) -> bytes | None:
        """Return the next byte that it says, none if it ended; None if it says nothing for some seconds."""
        stdout = self._process.stdout
        if stdout is None or not select.select([stdout], [], [], seconds)[0]:
            return None
        return stdout.read(1)


@dataclass(frozen=True)
class Finished:
    """A program that has run: its exit code (negative: a signal), output, and real, user and kernel time."""

    code: int
    output: str
    seconds: tuple[float, float, float]

    @property
    def last_line(self) -> str:
        """What it printed last."""
        return _last_line(self.output)

    def require(self, place: str) -> None:
        """Raise an InputError if the program failed."""
        if self.code:
            raise InputError(f"exit code {self.code} ({self.last_line})", place=place)


def execute(
    command: Sequence[str],
    place: str,
    scratch: Path | None = None,
    limit: float | None = None,
    *,
    cpu: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run `command` to its end.

    Parameters
    ----------
    command : sequence of str
    place : str
        What an error names.
    scratch : Path, optional
        Where it may leave temporary files; they go when it has ended, if none is given.
    limit : float, optional
        Seconds after which the program and what it started are killed.
    cpu, environment
        As `Child` takes them.

    Raises
    ------
    InputError
        If the program is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as own:
        begin = time.perf_counter()
        said = (scratch or Path(own)) / "output"
        child = Child(command, place, said, cpu=cpu, environment=environment)
        try:
            child.wait(limit)
            real = time.perf_counter() - begin
        except BaseException:
            # stress-ng tidies up when it is asked to end
            child.kill(signal.SIGTERM)
            child.wait()
            raise
        finally:
            child.end()
        return Finished(child.end(), child.output, (real, *child.used))


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["it printed nothing"])[-1]
