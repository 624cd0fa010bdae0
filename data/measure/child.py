"""Start measured programs, read their output, and end them with all processes they started."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from data.errors import InputError, shorten
from data.measure.groups import NAP, new_container, signal_processes

#: Seconds between SIGTERM and SIGKILL.
GRACE = 5.0
#: Number of bytes that are kept of the beginning and of the end of a program's output.
KEPT = 1 << 16
#: Number of characters of a line in messages.
LINE = 300
#: Capacity of a pipe in bytes, and the size of a read after which the next one follows at once.
_PIPE, _MUCH = 1 << 20, 1 << 17
#: Seconds between reads of little output, because each read takes processor time.
_LOOK = 0.02


class TimedOutError(InputError):
    """A program was ended because it exceeded its time limit of ``seconds``."""

    seconds = 0.0

    @classmethod
    def from_limit(cls, seconds: float, place: str) -> TimedOutError:
        """Return the error of a program that ran for longer than `seconds`."""
        error = cls(f"ran for longer than {seconds:g} seconds", place=place)
        error.seconds = seconds
        return error


class TimeLimits:
    """Time limits of runs in seconds: `timeout`, or a multiple of earlier durations.

    Without `timeout`, the limit of a kind of run is 10 times the slowest of its first 5 runs, at least 30 s;
    300 s until one of them has ended.
    """

    FIRST, LEAST, TIMES, RUNS = 300.0, 30.0, 10.0, 5

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout
        self._first: defaultdict[Hashable, list[float]] = defaultdict(list)

    def limit_for(self, what: Hashable) -> float:
        """Return the time limit in seconds of a run of the kind `what`, for example a task's name."""
        if self.timeout is not None:
            return self.timeout
        first = self._first[what]
        return max(self.LEAST, self.TIMES * max(first)) if first else self.FIRST

    def record_duration(self, what: Hashable, seconds: float) -> None:
        """Record the duration of a finished run of the kind `what`; only the first `RUNS` are used."""
        if len(self._first[what]) < self.RUNS:
            self._first[what].append(seconds)


class Output:
    """Output of a program: keeps its beginning and end, and empties the pipe continuously."""

    def __init__(self, reading: int) -> None:
        self._first, self._last, self._size = bytearray(), bytearray(), 0
        self._ending = threading.Event()
        # unprivileged programs may not be allowed to enlarge the pipe
        with suppress(OSError):
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE)
        read = partial(self._read_all, reading)
        self._thread = threading.Thread(target=read, daemon=True, name="output of a program")
        self._thread.start()

    def _read_all(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0):
            while data := os.read(reading, _PIPE):
                room = KEPT - len(self._first)
                self._first += data[:room]
                self._last += data[room:]
                del self._last[:-KEPT]
                self._size += len(data)
                if len(data) < _MUCH:
                    self._ending.wait(_LOOK)

    def finish_reading(self) -> None:
        """Read the rest of the output and stop, after at most 1 s; later output is ignored."""
        self._ending.set()
        self._thread.join(1.0)

    @property
    def text(self) -> str:
        """The output so far; where the middle is left out, a line has its size."""
        left = self._size - len(self._first) - len(self._last)
        between = f"\n... {left:,} bytes are left out here ...\n".encode() if left else b""
        return bytes(self._first + between + self._last).decode(errors="replace")


@contextmanager
def _on_processor(cpu: int | None, place: str) -> Iterator[None]:
    """Run this thread on processor `cpu`; programs started in the block and their children inherit it."""
    if cpu is None:
        yield
        return
    former = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as exc:
        raise InputError(f"cannot use processor {cpu} ({exc.strerror})", place=place) from exc
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


class Child:
    """A running program. Ctrl-C does not reach it: this process ends its children itself.

    InputError, with the program's name `place`, if it is not installed, cannot be run or may not use `cpu`.

    Parameters
    ----------
    scratch : Path, optional
        Only for measured programs: the directory for temporary files, where the file ``output`` receives the
        output at the end; linear algebra uses one thread. Without it, the environment is unchanged.
    cpu : int, optional
        The processor it is pinned to.
    environment : mapping, optional
        Additional environment variables.

    Attributes
    ----------
    begun : float
        Time of the start, by `time.perf_counter`.
    ended : int
        A file descriptor that becomes readable when the program has ended.
    group : Group or Descendants
        The program and all processes it started.
    seconds : float
        Real time from the start to the end; set by `execute`.
    used : tuple of float
        User and kernel seconds, including those of children it waited for; set by `end`.
    """

    #: Standard input and standard output; None: the output is kept.
    STREAMS: ClassVar[tuple[int, int | None]] = (subprocess.DEVNULL, None)

    def __init__(
        self,
        command: Sequence[str],
        place: str,
        scratch: Path | None = None,
        *,
        cpu: int | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._place, self._scratch = place, scratch
        measured = {} if scratch is None else {"TMPDIR": str(scratch), "OPENBLAS_NUM_THREADS": "1"}
        self.group = new_container()
        reading, writing = os.pipe()
        self._output = Output(reading)
        stdin, stdout = self.STREAMS
        try:
            with self.group.starting_inside(), _on_processor(cpu, place):
                self.begun = time.perf_counter()
                self._process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=writing if stdout is None else stdout,
                    stderr=writing,
                    env={**os.environ, **measured, **(environment or {}), **self.group.environment},
                    bufsize=0,
                    pass_fds=pass_fds,
                    process_group=0,
                    preexec_fn=self.group.prepare_child,  # noqa: PLW1509 - set only without control groups
                )
        except BaseException as exc:
            self.group.close()
            if not isinstance(exc, OSError):
                raise
            missing = isinstance(exc, FileNotFoundError)
            problem = "which is not installed" if missing else f"which cannot be run ({exc.strerror})"
            raise InputError(f"needs the program {command[0]!r}, {problem}", place=place) from exc
        finally:
            os.close(writing)
        self.pid = self._process.pid
        self.group.follow_program(self.pid)
        self.ended = os.pidfd_open(self.pid)
        self.seconds, self.used = 0.0, (0.0, 0.0)

    @property
    def code(self) -> int | None:
        """The exit code (negative: a signal); None until `end`."""
        return self._process.returncode

    @property
    def output(self) -> str:
        """The beginning and the end of the program's output so far, at most `KEPT` bytes each."""
        return self._output.text

    @property
    def last_line(self) -> str:
        """The last line of the output so far, cut after `LINE` characters; "it printed nothing" if empty."""
        return shorten((self.output.strip().splitlines() or ["it printed nothing"])[-1], LINE)

    def send_signal(self, number: int) -> None:
        """Send the signal `number` to the program, unless the program was already waited for."""
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the program's end, at most `seconds` (None: no limit); return whether it has ended."""
        poll = select.poll()
        poll.register(self.ended, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def kill(self) -> None:
        """Kill the program and all processes it started, unless it was already waited for."""
        if self.code is None:
            self.group.kill()

    def end(self) -> int:
        """End the program and all processes it started, wait for it, and return its exit code.

        The processes get SIGTERM, and SIGKILL after `GRACE` seconds or at Ctrl-C. The code is negative after
        a signal. Later calls only return the code.
        """
        grace, interrupted = GRACE, False
        while self._process.returncode is None:
            try:
                self._end_processes(grace)
            except KeyboardInterrupt:
                grace, interrupted = 0.0, True
        if interrupted:
            raise KeyboardInterrupt
        return self._process.returncode

    def _end_processes(self, grace: float) -> None:
        ended = time.monotonic() + grace
        running = self.group.list_processes()
        # stopped processes receive SIGTERM only after SIGCONT
        signal_processes(running, signal.SIGTERM)
        signal_processes(running, signal.SIGCONT)
        while running and time.monotonic() < ended:
            time.sleep(NAP)
            running = self.group.list_processes()
        self.group.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._output.finish_reading()
        if self._scratch is not None:
            (self._scratch / "output").write_text(self.output)
        try:
            _, status, usage = os.wait4(self.pid, 0)
            self.used = usage.ru_utime, usage.ru_stime
        except ChildProcessError:
            # Ctrl-C interrupted an earlier call just after wait4
            status = signal.SIGKILL
        self._process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.ended)

    def require_success(self) -> None:
        """End the program and all processes it started; InputError if its exit code is not 0."""
        if self.end():
            raise self.end_with_error()

    def end_with_error(self) -> InputError:
        """End the program and its processes; return, not raise, an error with its exit code and last line."""
        return InputError(f"exit code {self.end()} ({self.last_line})", place=self._place)


class Talking(Child):
    """A program that is controlled through standard input and output; only standard error is kept."""

    STREAMS = (subprocess.PIPE, subprocess.PIPE)

    def send_message(self, word: bytes) -> None:
        """Write `word` to the program's standard input."""
        if self._process.stdin is not None:
            self._process.stdin.write(word)

    def read_byte(self, seconds: float) -> bytes | None:
        """Return the next byte of standard output, empty if it ended; None after `seconds` without output."""
        stdout = self._process.stdout
        if stdout is None or not select.select([stdout], [], [], seconds)[0]:
            return None
        return stdout.read(1)


def execute(
    command: Sequence[str],
    place: str,
    scratch: Path | None = None,
    limit: float | None = None,
    *,
    cpu: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Run `command` to its end, and return the ended program; its exit code is not checked.

    The result has ``code``, ``output`` and ``seconds``. `place` names the program in errors, `scratch` its
    directory for temporary files, `cpu` its processor, `environment` further variables. All processes that
    the program started are ended with it. InputError if the program is not installed, cannot be run or may
    not use the processor `cpu`; TimedOutError if it was ended because it ran for longer than `limit` seconds
    (None: no limit).
    """
    child = Child(command, place, scratch, cpu=cpu, environment=environment)
    try:
        in_time = child.wait(limit)
        child.seconds = time.perf_counter() - child.begun
    finally:
        child.end()
    if not in_time and limit is not None:
        raise TimedOutError.from_limit(limit, place)
    return child


def end_in_good_order() -> None:
    """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, so that child programs are ended, too.

    SIGHUP stays ignored where it is (nohup). ValueError outside of the main thread.
    """
    for request in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # keep ignoring SIGHUP if started with nohup
        if request != signal.SIGHUP or signal.getsignal(request) != signal.SIG_IGN:
            signal.signal(request, signal.default_int_handler)
