"""Interrupting a measurement in the middle of a run, however busy the machine is."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from data.measure.kernel_counts import with_descendants

ROOT = Path(__file__).parents[2]
needs_corun_programs = pytest.mark.skipif(
    shutil.which("stress-ng") is None or shutil.which("perf") is None or (os.cpu_count() or 1) < 2,
    reason="stress-ng, perf or a second processor is not there",
)
#: Collects, and once enough is kept stays in the middle of a run until it is told to end.
STAYING = """
import sys, time
from pathlib import Path
from data import collect
from data.measure.child import Child
from data.measure.kernel_counts import ProcessTree

suite, out, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
journal, stayed = out / "journal.jsonl", []

def staying(look):
    def looked(*given):
        if not stayed and journal.exists() and journal.read_text().count("\\n") > after:
            stayed.append(True)
            print("stays", flush=True)
            # not `signal.pause`, which would miss a signal that comes just before it
            while True:
                time.sleep(1)
        return look(*given)
    return looked

Child.wait, ProcessTree.counts = staying(Child.wait), staying(ProcessTree.counts)
sys.exit(collect.main(suite, out))
"""


def collecting(suite, out):
    """Return the command that measures a suite."""
    return [sys.executable, "-m", "data.collect", str(suite), "-o", str(out)]


def running(token):
    """Return the processes whose command holds a word that no other's does."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if token.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def kept(out):
    """Count the entries and notes of a journal."""
    journal = out / "journal.jsonl"
    return journal.read_text().count("\n") - 1 if journal.exists() else 0


def commands(process):
    """Return the commands of what a process has started that still runs, as lists of words."""
    found = []
    for pid in [*with_descendants(process)][1:]:
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    return found


def own_groups(*processes):
    """Return the control groups of measurements, by the numbers of their processes."""
    own_names = {f"perfjudge-{process}" for process in processes}
    # unlike a glob, a walk goes on when a group of another measurement disappears
    return [
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if "-".join(name.split("-")[:2]) in own_names
    ]


def collected(suite, out, *before):
    """Measure a suite to its end; no control group of it is left, nor of the measurements `before` it."""
    with subprocess.Popen(collecting(suite, out), cwd=ROOT, text=True, stderr=subprocess.PIPE) as begun:
        told = begun.communicate(timeout=300)[1]
    assert begun.returncode == 0, told
    assert own_groups(begun.pid, *before) == []
    return told


def interrupt(suite, out, request, after):
    """Collect until `after` lines are kept and send `request` in the middle of the next run.

    Returns what was told on standard error, the exit code, and the number of the process.
    """
    command = [sys.executable, "-c", STAYING, str(suite), str(out), str(after)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as begun:
        said = begun.stdout.readline()
        begun.send_signal(request)
        told = begun.communicate(timeout=60)[1]
    assert said == "stays\n", told
    return told, begun.returncode, begun.pid
