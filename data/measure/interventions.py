"""Making a program slower from outside: a processor quota, or competition for the processors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from data.measure.child import Talking
from data.measure.groups import remove_abandoned, remove_group
from data.measure.kernel_counts import own_seconds
from data.measure.suite import WORKLOADS

#: Control group period: short beside a repetition, so that a quota slows evenly.
PERIOD_MICROSECONDS = 10_000
#: Seconds that a competitor may take to start.
LIMIT = 60.0
CGROUPS = Path("/sys/fs/cgroup")


class Quota:
    """A control group (version 1 or 2) whose processor time is bounded.

    Raises
    ------
    OSError
        From the constructor, if this machine does not let us make one.
    """

    def __init__(self) -> None:
        legacy = CGROUPS / "cpu"
        self._legacy = legacy.is_dir()
        root = legacy if self._legacy else CGROUPS
        remove_abandoned(root)
        self.path = root / f"perfjudge-{os.getpid()}"
        self.path.mkdir()
        self._weigh()
        if not self._legacy and not (self.path / "cpu.max").exists():
            self.path.rmdir()
            raise OSError(f"{self.path} has no cpu.max: the cpu controller is not enabled")

    def _weigh(self) -> None:
        """Give the group the largest weight: the quota alone should slow a program, not its neighbours."""
        name, largest = ("cpu.shares", "262144") if self._legacy else ("cpu.weight", "10000")
        if (self.path / name).exists():
            (self.path / name).write_text(largest)

    def limit(self, processors: float) -> None:
        """Allow `processors` seconds of processor time a second."""
        quota = max(1000, round(processors * PERIOD_MICROSECONDS))
        if self._legacy:
            (self.path / "cpu.cfs_quota_us").write_text("-1")
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")

    @property
    def apart(self) -> bool:
        """Whether a program in this group can be in another that counts."""
        return self._legacy

    def add(self, pid: int) -> None:
        """Move a program that runs into the group."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Remove the group, with what is left in it where it is of version 2."""
        remove_group(self.path)


class Competition:
    """One stopped program for each processor and share, that is let run around a repetition."""

    def __init__(self, shares: Sequence[float]) -> None:
        self._programs: dict[float, list[Talking]] = {}
        for share in shares:
            self._programs[share] = [_competitor(cpu, share) for cpu in sorted(os.sched_getaffinity(0))]

    @contextmanager
    def running(self, share: float) -> Iterator[None]:
        """Take `share` of every processor while the block runs."""
        programs = self._programs[share]
        with ExitStack() as stack:
            for program in programs:
                stack.callback(program.send, signal.SIGSTOP)
                program.send(signal.SIGCONT)
            yield

    @property
    def seconds(self) -> float:
        """Processor time that the competitors have used so far."""
        running = (program.pid for programs in self._programs.values() for program in programs)
        return sum(map(own_seconds, running))

    def close(self) -> None:
        """End the competitors."""
        for programs in self._programs.values():
            for program in programs:
                program.end()


def _competitor(cpu: int, share: float) -> Talking:
    place = f"competitor on processor {cpu}"
    program = Talking([sys.executable, "-I", "-S", str(WORKLOADS), "compete", str(cpu), str(share)], place)
    if not program.heard(LIMIT):
        raise program.failed()
    program.send(signal.SIGSTOP)
    return program
