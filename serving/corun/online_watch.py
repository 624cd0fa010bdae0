"""Sample a running task, and predict its impact after each interval."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console

from data.corun.run import STOPPED
from data.corun.synonyms import IntervalCounts
from data.corun.tables import SAMPLE_DTYPES
from data.errors import InputError
from data.measure.child import Child, end_in_good_order
from data.measure.kernel_counts import running_seconds, with_descendants
from data.measure.perf_stat import TIME, Counting, parse_intervals, read_intervals, uncountable_events
from data.tables.problems import shorten_names
from serving.corun.model import Online
from serving.corun.online_answer import predict_online
from serving.corun.schemas import OnlineAnswer
from serving.corun.text import settling_text
from training.corun.progress import KINDS

#: Name of the watched run in notes.
_NAME = "the task beside others"
#: Seconds after its start from which watching a process counts as late.
_LATE = 0.5


def yield_predictions(
    target: Sequence[str],
    solo: Path,
    interval: float,
    say: Callable[[str], None],
    *,
    machine: str | None,
    online: Online | None,
) -> Iterator[OnlineAnswer]:
    """Yield a prediction after each interval, until the task ends or Ctrl-C; pass notes to `say`.

    `target` is a process id or a command, `solo` the file with samples of its solo run, `interval` the
    seconds between samples, `online` the trained model. InputError if process, program or countable events
    are missing, or the last samples are unusable.
    """
    alone = read_intervals(solo, SAMPLE_DTYPES)
    events = _countable_events(alone, solo, say)
    before = running_seconds(int(target[0])) if _is_pid(target) else 0.0
    slower = 1.0
    if before > _LATE:
        say(f"it has run for {before:.1f} s: the prediction assumes that it ran like this from its start")
    problem = "ended before anything was counted"
    for table, ended in _sample_task(target, events, interval):
        after = before + table[TIME].iloc[-1] if ended else None
        solo_table = alone if ended else _samples_after(alone, before / slower)
        pair = IntervalCounts.from_table(solo_table), IntervalCounts.from_table(table)
        try:
            prediction = predict_online(*pair, machine, online, (str(solo), _NAME), whole=True, ended=after)
        except InputError as exc:
            problem = str(exc)
            continue
        problem, slower = "", prediction.impact or 1.0
        yield prediction
    if problem:
        raise InputError(problem, place="watch")


def _countable_events(alone: pd.DataFrame, solo: Path, say: Callable[[str], None]) -> list[str]:
    """Return the events of the solo run that this machine counts; pass a note on the others to `say`."""
    wanted = [str(name) for name in alone.columns.drop(TIME)]
    lacking = uncountable_events(wanted)
    countable = [name for name in wanted if name not in lacking]
    if lacking:
        say(f"this machine does not count {shorten_names(list(lacking))}, which {solo} has")
    if not countable:
        expected = f"{KINDS[0].event} or task-clock"
        raise InputError(f"has no event that perf counts here; expected {expected}", file=solo)
    return countable


def _sample_task(
    target: Sequence[str], events: Sequence[str], interval: float
) -> Iterator[tuple[pd.DataFrame, bool]]:
    """Yield all samples so far after each interval, and whether the task has ended."""
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch, ExitStack() as stack:
        pid, ended = _attach_or_start(target, stack)
        counting = Counting(list(with_descendants(pid)), events, interval, Path(scratch) / "samples")
        stack.callback(counting.close)
        counting.start_counting()
        if not _is_pid(target):
            os.kill(pid, signal.SIGCONT)
        lines, going = 0, True
        # Ctrl-C is noted instead of raised, also while an answer is computed
        interrupts: list[int] = []
        previous = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
        stack.callback(signal.signal, signal.SIGINT, previous)
        try:
            while going and not interrupts:
                going = not select.select([ended], [], [], interval / 2)[0]
                text = _whole_lines(counting.output)
                if text.count("\n") > lines and going:
                    lines = text.count("\n")
                    yield parse_intervals(text, _NAME, SAMPLE_DTYPES), False
        except KeyboardInterrupt:
            pass
        yield counting.stop_counting(), not going


def _whole_lines(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError:
        return ""
    return text[: text.rfind("\n") + 1]


def _attach_or_start(target: Sequence[str], stack: ExitStack) -> tuple[int, int]:
    """Return the process id, and a file descriptor that is readable at its end; commands start stopped."""
    if not _is_pid(target):
        if shutil.which(target[0]) is None:
            raise InputError(f"needs the program {target[0]!r}, which is not installed", place="watch")
        end_in_good_order()
        child = Child([*STOPPED, *target], f'command "{target[0]}"')
        stack.callback(child.end)
        os.waitpid(child.pid, os.WUNTRACED)
        return child.pid, child.ended
    try:
        ended = os.pidfd_open(int(target[0]))
    except (OSError, OverflowError) as exc:
        raise InputError(f"there is no process {target[0]} ({exc})", place="watch") from exc
    stack.callback(os.close, ended)
    return int(target[0]), ended


def _samples_after(alone: pd.DataFrame, seconds: float) -> pd.DataFrame:
    left = alone[alone[TIME] > seconds]
    if seconds < _LATE or left.empty:
        return alone
    return left.assign(**{TIME: left[TIME] - seconds})


def _is_pid(target: Sequence[str]) -> bool:
    return len(target) == 1 and target[0].isdecimal()


def watch_to_end(
    target: Sequence[str],
    solo: Path,
    interval: float,
    *,
    machine: str | None,
    online: Online | None,
    as_json: bool,
) -> OnlineAnswer:
    """Watch a task until it ends or Ctrl-C is pressed; return the last answer.

    Parameters are as of `yield_predictions`. Ctrl-C ends a command that was started here, not a process that
    ran before. With `as_json`, each answer is a line of JSON on standard output; otherwise, each replaces the
    status line of a terminal. Notes go to standard error. InputError if the solo run cannot be read, the task
    cannot be watched, or its samples at the end are unusable; ModelError if an impact is not finite.
    """
    console = Console(stderr=True)
    say = partial(console.print, markup=False, soft_wrap=True)
    last: OnlineAnswer | None = None
    with console.status("watching") if console.is_terminal else nullcontext() as line:
        for last in yield_predictions(target, solo, interval, say, machine=machine, online=online):
            if as_json:
                sys.stdout.write(f"{last.model_dump_json()}\n")
                sys.stdout.flush()
            elif line is not None:
                line.update(settling_text(last))
    assert last is not None
    return last
