"""Several processes that answer at one address."""

from __future__ import annotations

import logging
import signal
from functools import cached_property

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from serving.doors.ending import Draining

LOG = logging.getLogger("perfjudge")


class Worker(Process):
    """A process that answers."""

    @cached_property
    def server(self) -> Draining:
        """What answers, in the process."""
        return Draining(self.config)


class Workers(Multiprocess):
    """Keeps a number of processes that answer, until it is told to end."""

    def init_processes(self) -> None:
        """Start all processes."""
        self.processes = [self._started() for _ in range(self.processes_num)]

    def keep_subprocess_alive(self) -> None:
        """Put another process in the place of one that ended, or no longer says that it runs."""
        for place, process in enumerate(self.processes):
            if process.is_alive(self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                LOG.error("a worker cannot start; the server ends")
                self.should_exit.set()
                return
            LOG.warning("worker %s ended (%s); another takes its place", process.pid, process.exitcode)
            self.processes[place] = self._started()

    def terminate_all(self) -> None:
        """Let all processes end, and nobody wait for an answer that none of them will give."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait until all have ended; told a second time to end, end them at once."""
        for worker in self.processes:
            while worker.exitcode is None:
                worker.process.join(0.1)
                if {signal.SIGINT, signal.SIGTERM}.intersection(self.signal_queue):
                    for one in self.processes:
                        one.process.kill()

    def handle_hup(self) -> None:
        """Who hangs up wants no server any more."""
        self.handle_term()

    def handle_ttin(self) -> None:
        """Leave the number of processes as it is."""

    handle_ttou = handle_ttin

    def _started(self) -> Worker:
        worker = Worker(self.config, self.sockets)
        worker.start()
        return worker
