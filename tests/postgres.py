"""A real PostgreSQL server in a directory of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest


def programs():
    """Return the directory of PostgreSQL's programs, those of the newest version; None if there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    found += [Path(on_path).parent] if on_path else []
    return max(found, default=None, key=lambda path: [int(part) for part in path.parts if part.isdigit()])


class Postgres:
    """A server that listens at a socket in its directory; several databases, each for one test."""

    def __init__(self):
        self._programs = programs()
        if self._programs is None:
            pytest.skip("needs PostgreSQL's initdb and postgres")
        # it refuses to run as root; the directory is short, as the path of a socket has to be
        self._as = {}
        self.directory = Path(tempfile.mkdtemp(prefix="pg"))
        if os.geteuid() == 0:
            try:
                owner = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("needs a user postgres, as PostgreSQL does not run as root")
            self._as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        self._run(
            "initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"
        )
        self.start()

    def _run(self, program, *arguments):
        command = [self._programs / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.directory, **self._as)

    def start(self):
        """Start it; after a crash it waits until the processes of before have ended."""
        # written pages outlive the process without fsync, which takes a minute on a busy disk after a crash
        settings = ["-c", "listen_addresses=", "-c", "fsync=off"]
        command = [self._programs / "postgres", "-D", "data", "-k", self.directory, *settings]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        deadline = time.monotonic() + 60
        self.process = None
        while self.process is None or not self._answers():
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(command, cwd=self.directory, **quiet, **self._as)
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _answers(self):
        command = [self._programs / "pg_isready", "-q", "-h", self.directory, "-U", "postgres"]
        return not subprocess.run(command, check=False).returncode

    def kill(self):
        """End it as the kernel does if memory is exhausted."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def url(self, name):
        self._run("createdb", "-h", self.directory, "-U", "postgres", name)
        return f"postgresql://postgres:geheim@/{name}?host={self.directory}"

    def stop(self):
        """End it at once: nothing of it is needed any more."""
        self.process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
