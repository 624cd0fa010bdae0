import fcntl
import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import preloaded, short_pipeline

CHECKOUT = Path(__file__).parents[1]
TESTS = Path(__file__).parent
#: Folders whose tests are slow: they start servers, browsers, pipelines and collectors, or train models.
SLOW_FOLDERS = ("model", "system")
#: Fixtures that make tests of the other folders slow: they train models, or read public data.
SLOW_FIXTURES = {"champion", "champion_registry", "made_once", "shared_data"}
#: Fixtures that train all families, which takes minutes.
PROJECTS = ("clone", "short_project")
# stores of MLflow and DVC wait for a disk at every commit; tests run programs of their directories, too
if (memory := Path("/dev/shm")).is_dir():
    status = os.statvfs(memory)
    if status.f_bavail * status.f_frsize > 8 * 2**30 and not status.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
# many small products, on a machine that others use, too: more threads would wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# tests begin hundreds of processes, each of which would compile pandas and scikit-learn anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# the default of 700 objects takes 10 % of the time of tests
gc.set_threshold(20_000, 20, 20)
# on a machine that others use, too, an example may take any time; many examples call a model or a reader
settings.register_profile("brief", deadline=None, max_examples=25)
settings.load_profile("brief")
# a shell's background jobs ignore Ctrl-C, which programs of tests would inherit
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data():
    """The public data sets that lie beside the checkout."""
    given = os.environ.get("PERFJUDGE_SHARED")
    path = Path(given) if given else CHECKOUT.parent / "shared/data"
    if not path.is_dir():
        pytest.skip(f"the public data sets are not there ({path})")
    return path


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory):
    """Return a directory that all workers share; their own ones stand side by side."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def made_once(shared_directory):
    """Return what fills a directory once for all workers; what is made takes long, and is only read."""

    def made(name, fill):
        directory, whole = shared_directory / name, shared_directory / f"{name} is whole"
        with (shared_directory / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not whole.exists():
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                with pytest.MonkeyPatch.context() as patch:
                    patch.chdir(directory)
                    fill(directory)
                whole.touch()
        return directory

    return made


@pytest.fixture(scope="session")
def preloaded_programs(made_once):
    """Return the folder of programs that have imported the heavy libraries, until this session ends."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()

    def fill(directory):
        (directory / "programs").symlink_to(preloaded.serve_apart(CHECKOUT, owner))

    return made_once("preloaded", fill) / "programs"


@pytest.fixture(scope="session")
def empty_store(made_once):
    """Return the file of an empty store of MLflow: to make one takes most of a second."""

    def fill(directory):
        from training.registry import champions

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{directory / 'empty.db'}")
            champions.client()

    return made_once("mlflow", fill) / "empty.db"


@pytest.fixture
def mlflow_store(empty_store, tmp_path, monkeypatch):
    """Return the file of MLflow's store, which is this test's own and empty at first."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return shutil.copy(empty_store, tmp_path / "mlflow.db")


@pytest.fixture
def impatient_mlflow(monkeypatch):
    """Let MLflow ask a server again at once that does not answer."""
    for name in ("FACTOR", "JITTER"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_BACKOFF_{name}", "0")


@pytest.fixture(scope="session")
def champion_registry(made_once):
    """Return the address of a registry whose champion was trained on the shipped comparisons.

    The stages run in a directory of their own: neither the checkout nor what others test is touched.
    """

    def fill(root):
        short_pipeline.prepare(root)
        short_pipeline.link_raw_data(root, "measured")
        # the report is not read from here
        short_pipeline.run_stages(root, {"comparisons": short_pipeline.STAGES["comparisons"][:-1]})

    return short_pipeline.registry(made_once("champion", fill))


@pytest.fixture(scope="session")
def champion(champion_registry):
    """Return the champion of that registry, as commands load it."""
    from serving.comparisons.model import load_judge

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", champion_registry)
        return load_judge().model


def pytest_ignore_collect(collection_path, config):
    """Do not even import the slow folders where only the other tests are selected."""
    slow = collection_path in {TESTS / name for name in SLOW_FOLDERS}
    return True if slow and config.option.markexpr == "not slow" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark slow tests; begin the halves of two workers with the tests of one of `PROJECTS` each.

    So each worker trains one project, and none waits for the other's. Tests that measure speed run before
    one of them, while the other one keeps only one processor busy. Quick tests are last, so that both workers
    end at the same time.
    """
    in_slow_folder = {item: item.path.relative_to(TESTS).parts[0] in SLOW_FOLDERS for item in items}
    for item in items:
        if in_slow_folder[item] or SLOW_FIXTURES.intersection(item.fixturenames):
            item.add_marker(pytest.mark.slow)
    first, second = ([item for item in items if name in item.fixturenames] for name in PROJECTS)
    second = [item for item in items if item.get_closest_marker("speed")] + second
    placed = {*first, *second}
    others = [item for item in items if item not in placed]
    others.sort(key=in_slow_folder.get, reverse=True)
    middle = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *others[:middle], *second, *others[middle:]]
