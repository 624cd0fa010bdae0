"""Programs that start as forks of a process which has imported the heavy libraries: importing takes seconds.

``python tests/preloaded.py ADDRESS OWNER`` starts that process, which ends with the process OWNER.
`serve_apart` makes the programs `python`, `perfjudge` and `dvc`, for a folder that comes first on PATH. Each
fork has the arguments, the directory, the variables and the streams of its caller, and takes
the code from where PYTHONPATH points to. The process itself is such a fork if another one has imported the
libraries.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("python", "perfjudge", "dvc")
ROOMS = ("data", "features", "training", "serving")
#: What the commands import when they run, beside the modules of this project.
LIBRARIES = (
    "alembic", "distributed.cli.dask_worker", "dvc.cli", "dvc.repo", "dvc.repo.experiments", "fastapi",
    "lxml.etree", "matplotlib.figure", "mlflow.tracking", "optuna", "pyarrow.parquet", "scipy.stats",
    "skops.io", "sklearn.ensemble", "sklearn.linear_model", "sklearn.model_selection", "sklearn.neighbors",
    "sqlalchemy", "uvicorn", "xgboost",
)  # fmt: skip
#: Sends the call to that process, passes signals on to the fork, and ends as the fork does. Options of the
#: interpreter, and workers that inherit pipes, need one that starts anew.
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
workers = any("joblib" in word or "multiprocessing" in word for word in sys.argv[1:3])
if {program!r} == "python" and (workers or sys.argv[1][0] == "-" and sys.argv[1] not in ("-c", "-m")):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"x"], [0, 1, 2])
call = [{program!r}, *sys.argv[1:]], os.getcwd(), dict(os.environ)
server.sendall(json.dumps(call).encode())
server.shutdown(socket.SHUT_WR)
answer = server.makefile()
process = int(answer.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(process, number))
status = int(answer.readline())
sys.exit(status if status >= 0 else 128 - status)
"""


class Preloaded:
    """A process that has imported the code of a directory, and a folder with programs that are its forks.

    python : the program of another one, which has imported the libraries
    """

    def __init__(self, root, python=sys.executable):
        # it ends with this process, too
        self._owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.path = f"{serve_apart(root, self._owner.pid, python)}{os.pathsep}{os.environ['PATH']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._owner.communicate()


class Fork:
    """A program that runs as a fork, with what `subprocess.Popen` has of processes.

    folder : the folder with the programs
    stdout, stderr : the numbers of open files; None discards what is written
    """

    def __init__(self, folder, program, *arguments, env, cwd=".", stdout=None, stderr=None):
        self.returncode = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(str((folder / "socket").resolve()))
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno() if one is None else one for one in (None, stdout, stderr)]
            socket.send_fds(self._server, [b"x"], streams)
        call = [program, *map(str, arguments)], str(Path(cwd).resolve()), dict(env)
        self._server.sendall(json.dumps(call).encode())
        self._server.shutdown(socket.SHUT_WR)
        self.pid = self._number()

    def _number(self):
        line = b""
        while not line.endswith(b"\n"):
            line += self._server.recv(1)
        return int(line)

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout)
            with self._server:
                self.returncode = self._number()
        return self.returncode


def serve_apart(root, owner, python=sys.executable):
    """Start such a process, which nobody has to end or wait for; return its folder once it listens."""
    # the path of a socket has to be short
    folder = Path(tempfile.mkdtemp(prefix="preloaded"))
    address = str(folder / "socket")
    for program in PROGRAMS:
        path = folder / program
        path.write_text(CLIENT.format(python=sys.executable, address=address, program=program))
        path.chmod(0o755)
    command, environment = [python, __file__, address, str(owner)], os.environ | {"PYTHONPATH": str(root)}
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return folder


def load():
    for name in LIBRARIES:
        importlib.import_module(name)
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            # what lies beside the folders, and what is run, is no library
            if module.name.count(".") > 1 and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def answer(address, owner):
    """Wait apart for calls until the process `owner` ends; return the arguments of one in each fork."""
    ended = os.pidfd_open(int(owner))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        # its caller goes on as soon as it listens
        if os.fork():
            os._exit(0)
        # nobody waits for the supervisors
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while ended not in select.select([listener, ended], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
        else:
            shutil.rmtree(Path(address).parent, ignore_errors=True)
            os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection:
        return supervised(connection)


def supervised(connection):
    """Fork once more; return the arguments there, and here wait for the end and send the exit code."""
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    arguments, directory, environment = json.load(connection.makefile())
    process = os.fork()
    if process:
        for stream in (*streams, 0, 1, 2):
            os.close(stream)
        connection.sendall(f"{process}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        connection.sendall(f"{status}\n".encode())
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    # what a command starts is a fork, too, if its caller wants that
    sys.executable = environment.get("PRELOADED_PYTHON", sys.executable)
    # the code is that of the caller: modules of another directory are forgotten
    paths = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    if sys.path[: len(paths)] != paths:
        sys.path[:0] = paths
        for name in [name for name in sys.modules if name.partition(".")[0] in ROOMS]:
            del sys.modules[name]
    from data import stage

    # NumPy has been imported
    stage.pin_arithmetic = lambda: None
    return arguments


def run(program, *arguments):
    sys.argv = [program, *arguments]
    if program == "perfjudge":
        sys.exit(importlib.import_module("serving.cli").main())
    if program == "dvc":
        sys.exit(importlib.import_module("dvc.cli").main())
    what, *rest = arguments
    if what == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.argv = [what, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = [*arguments]
        runpy.run_path(what, run_name="__main__")


def ended(program, *arguments):
    """Run a program and end without freeing what was imported, which takes longer than most commands."""
    try:
        run(program, *arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    # the folder of this file; what PYTHONPATH names comes after it
    if sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]
    load()
    ended(*answer(*sys.argv[1:]))
