"""Run a program of this folder: ``python runner.py MODULE NAME WORK [KEY=VALUE...]``.

A program is a function that prepares and returns a function for one unit of work. Runs on Python 3.8 and
later, without site-packages.
"""

import os
import sys
import time
from importlib import import_module


def peak():
    """Return the peak memory of this process in KiB, without that of its parent before the start."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def repeat(unit, work):
    """Call `unit` `work` times."""
    for _ in range(work):
        unit()


def together(unit, work, threads):
    """Call `unit` `work` times in `threads` processes that start at once; return seconds until the last ends.

    SystemExit if a process fails.
    """
    ready, start = os.pipe(), os.pipe()
    children = []
    for number in range(threads):
        pid = os.fork()
        if not pid:
            os.close(start[1])
            os.write(ready[1], b"r")
            os.read(start[0], 1)
            repeat(unit, work // threads + (number < work % threads))
            os._exit(0)
        children.append(pid)
    for _ in children:
        os.read(ready[0], 1)
    begin = time.perf_counter()
    os.close(start[1])
    if any([os.waitpid(pid, 0)[1] for pid in children]):
        raise SystemExit("a process failed")
    return time.perf_counter() - begin


def main(module, name, work, *options):
    """Run `work` units of a program, print their seconds and the peak memory in KiB, and end the process.

    `options` are ``KEY=VALUE`` of the program, and ``threads=`` processes that share the units. A first unit
    is not timed.
    """
    values = dict(option.split("=", 1) for option in options)
    values = {key: int(value) if value.lstrip("-").isdigit() else value for key, value in values.items()}
    threads = values.pop("threads", 1)
    unit = getattr(import_module(module), name)(**values)
    unit()
    if threads > 1:
        seconds = together(unit, int(work), threads)
    else:
        begin = time.perf_counter()
        repeat(unit, int(work))
        seconds = time.perf_counter() - begin
    print(repr(seconds), peak())
    sys.stdout.flush()
    os._exit(0)  # servers need not be ended


if __name__ == "__main__":
    main(*sys.argv[1:])
