import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.install import build_wheel, install_wheel
from data.measure.kernel_counts import with_descendants
from features.comparisons.vectors import SEED_FEATURES
from tests import short_pipeline
from tests.commands import PROGRAM
from tests.imports import ROOT
from tests.postgres import Postgres
from tests.preloaded import Fork
from tests.system.corun import inputs as corun_inputs
from tests.system.matrices import inputs as matrix_inputs
from tests.system.measuring import running
from training.comparisons.stored import Card, TrainedModel

#: For files that ask MLflow 3.17: both warnings come from inside of it, and may go with it.
MLFLOW_WARNINGS = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]


def comparison(name="x", target=100.0, **changes):
    """One comparison as requests hold it: five samples around 100 before, and around `target` after."""
    before, after = ([level + s for s in (-1.0, -0.5, 0.0, 0.5, 1.0)] for level in (100, target))
    configuration = {"threads": 1, "baseline": before, "target": after}
    return {
        "comparison_id": name, "benchmark": "b", "operation": name, "machine": "m", "unit": "ops/s",
        "better": "higher", "configurations": [configuration], **changes,
    }  # fmt: skip


def fitted(classifier):
    """Fit on vectors whose medians are 3 % to 30 % worse where they fail."""
    rng = np.random.default_rng(5)
    columns = rng.normal(0, 0.1, (400, len(SEED_FEATURES)))
    status = np.arange(400) % 4 == 0
    columns[status, :3] -= np.sqrt(rng.uniform(0.03, 0.3, (100, 1)))
    steps = [("impute", SimpleImputer()), ("scale", StandardScaler()), ("classify", classifier)]
    pipeline = Pipeline(steps).fit(columns, status.astype(int))
    reference = dict(zip(SEED_FEATURES, np.median(columns[~status], axis=0).tolist(), strict=True))
    card = Card(type(classifier).__name__, SEED_FEATURES, 0.5, {}, reference, "ab" * 32, 5)
    return TrainedModel(pipeline, card)


def refused(done, told):
    """Check that a command ended with one line that says why."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def output_of(*command, **options):
    """Run a program in a process of its own, which has to end well, and return what it prints."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def problem(answer, status, told):
    """Check that an answer has problem details of one line."""
    content = answer.json()
    assert (answer.status_code, content["status"], content["title"] != "") == (status, status, True)
    assert answer.headers["content-type"] == "application/problem+json"
    assert told in content["detail"]
    assert "\n" not in content["detail"]


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory):
    """A small model that is on disk as training leaves it."""
    directory = tmp_path_factory.mktemp("model")
    fitted(LogisticRegression()).write(directory)
    return directory


@pytest.fixture
def request_file(tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"comparisons": [comparison("same"), comparison("slow", 80.0)]}))
    return path


def wait_until(holds, seconds=60):
    """Ask again and again until something holds; return what was asked for, or fail."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def answers(address):
    """Return whether a server is there that answers with success."""
    try:
        return httpx.get(address, timeout=2).is_success
    except httpx.TransportError:
        return False


class Repository:
    def __init__(self, root):
        self.root = root
        self.git("init", "--quiet", "--initial-branch", "main")
        for who in ("name", "email"):
            self.git("config", f"user.{who}", "nobody")

    def git(self, *words):
        return subprocess.check_output(["git", *words], cwd=self.root, text=True)

    def commit(self, message, *paths):
        """Commit all that has changed; `paths` are those of ``git add``."""
        self.git("add", "--all", *paths)
        self.git("commit", "--quiet", "--message", message)


class Listening:
    """A server in a process of its own, and where it listens; as a block, until that ends.

    One process is a fork if `preloaded`, the folder of such programs, is there: importing takes longer than
    most tests. Several processes cannot be forks, since the first one starts `program` again.
    """

    preloaded = Path("/nowhere")

    def __init__(self, *arguments, program=PROGRAM):
        command = ["serve", "--port", "0", *arguments]
        # a pipe that nobody empties would stop a server that has much to say
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by stop
        reading, writing = os.pipe()
        streams = {"stdout": writing, "stderr": self.said.fileno()}
        if program == PROGRAM and "--workers" not in arguments and self.preloaded.exists():
            self.process = Fork(self.preloaded, "perfjudge", *command, env=os.environ, **streams)
        else:
            self.process = subprocess.Popen([program, *command], **streams)
        os.close(writing)
        self.stdout = os.fdopen(reading)
        self.announced = self.stdout.readline()
        self.url = self.announced.rsplit(" ", 1)[-1].strip()
        if not self.url.startswith("http"):
            raise AssertionError(self.stop())
        wait_until(lambda: answers(f"{self.url}/healthz") or self.process.poll() is not None, 120)
        if self.process.poll() is not None:
            raise AssertionError(self.stop())

    def children(self, word):
        """Return the processes that it started, and these, whose commands hold a word."""
        return {*running(word)} & {*with_descendants(self.process.pid)}

    def connect(self):
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def begin_request(self, *header, is_read=False):
        """Begin a request whose body is yet to come; `header` is about its length.

        With `is_read`, wait until the server reads the body.
        """
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        connection.putrequest("POST", "/v1/comparisons/judge")
        connection.putheader("Content-Type", "application/json")
        connection.putheader(*header)
        if is_read:
            connection.putheader("Expect", "100-continue")
        connection.endheaders()
        if is_read:
            assert connection.sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        return connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.said.closed:
            self.stop()

    def stop(self):
        """Ask it to end, and return its exit code and what it said on stderr."""
        self.process.terminate()
        try:
            self.process.wait(timeout=120)
        finally:
            self.process.kill()
            self.process.wait()
        with self.stdout, self.said:
            self.said.seek(0)
            return self.process.returncode, self.said.read()


@pytest.fixture(scope="session", autouse=True)
def forked_servers(shared_directory):
    """Let servers of one process be forks, as soon as there are preloaded programs."""
    Listening.preloaded = shared_directory / "preloaded/programs"


@pytest.fixture(scope="session")
def listening(model_directory):
    with Listening("--model", model_directory) as server:
        yield server


def new_environment(directory, package):
    """Make a virtual environment with nothing but a package and what that needs."""
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, directory], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", directory, package], check=True)


@pytest.fixture(scope="session")
def needs_uv():
    if shutil.which("uv") is None:
        pytest.skip("needs uv on PATH")


@pytest.fixture(scope="session")
def wheel(made_once, needs_uv, champion_registry):
    """The path of a wheel of the working tree; the champion inside was trained in short."""

    def fill(directory):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", champion_registry)
            build_wheel(directory)

    return next(made_once("wheel", fill).glob("*.whl"))


@pytest.fixture(scope="session")
def installed(made_once, wheel):
    """The folder of programs of a fresh environment, outside of the checkout, with the wheel and no extra."""
    return made_once("installed", lambda directory: install_wheel(wheel, directory / "environment")) / (
        "environment/bin"
    )


@pytest.fixture(scope="session")
def client_package(made_once, needs_uv):
    """The client's wheel, and the interpreter of a fresh environment with nothing else installed."""

    def fill(directory):
        build = ["uv", "build", "--quiet", "--package", "perfjudge-client", "--wheel", "--out-dir", directory]
        subprocess.run(build, cwd=ROOT, check=True)
        (built,) = directory.glob("*.whl")
        new_environment(directory / "environment", built)

    directory = made_once("client", fill)
    return SimpleNamespace(wheel=next(directory.glob("*.whl")), python=directory / "environment/bin/python")


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def short_project(made_once):
    """A directory in which a short pipeline of all families ran, reports included."""

    def fill(root):
        seconds = short_pipeline.run_all(root)
        # pytest shows it with -rP, or where a test fails
        sys.stdout.write(f"training took {sum(seconds.values()):.0f} s of one processor: {seconds}\n")

    return made_once("golden", fill)


@pytest.fixture(scope="session")
def corun_project(made_once):
    """A directory in which the stages up to train have run on made-up co-runs."""

    def fill(root):
        corun_inputs.project(root, corun_inputs.tables())
        corun_inputs.staged()

    return made_once("corun", fill)


@pytest.fixture(scope="session")
def small_models(model_directory, corun_project, made_once):
    """The directory of a small model of each kind, by the server's option."""
    return {
        "model": str(model_directory),
        "matrices": str(made_once("engine", matrix_inputs.engine)),
        "corun_static": str(corun_project / "models/corun/random-forest"),
        "corun_online": str(corun_project / "models/corun/online"),
    }


@pytest.fixture(scope="session")
def browser():
    from selenium import webdriver

    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for switch in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "hide-scrollbars",
                   "disable-background-networking", "disable-component-update", "disable-sync"):  # fmt: skip
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()
