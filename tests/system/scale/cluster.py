"""A real Dask scheduler and real workers, each a process of its own; and what they are asked to do."""

import os
import time

from data.parallel import Compute
from tests.imports import ROOT
from tests.ports import free_port
from tests.preloaded import Fork


class Cluster:
    """A scheduler on this machine and the workers that were started for it, forks of preloaded programs."""

    def __init__(self, directory, programs):
        self.directory, self.programs, self.processes = directory, programs, []
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        options = ["--host", "127.0.0.1", "--port", port, "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self._start("scheduler", *options)

    def work(self, threads=1, code=ROOT, **environment):
        """Start a worker, of this code or of a copy, with further variables of its environment."""
        options = ["--nthreads", threads, "--no-nanny", "--no-dashboard", "--memory-limit", 0]
        return self._start("worker", self.address, *options, code=code, **environment)

    def _start(self, what, *options, code=ROOT, **environment):
        path = f"{code}{os.pathsep}{ROOT}"
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
        command = ["python", "-m", "dask", what, *options]
        # what a worker finds beside it is not what tasks are about
        process = Fork(self.programs, *command, cwd=self.directory, env=environment)
        self.processes.append(process)
        return process

    @property
    def compute(self):
        return Compute(scheduler=self.address)

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def squared(task):
    """Square the number of a task; the first time, say where, and wait for the end, if that is asked for."""
    number, sign = task
    if sign is not None and not sign.exists():
        sign.write_text(str(os.getpid()))
        time.sleep(600)
    return number**2, os.getpid()
