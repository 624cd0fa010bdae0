"""A registry of MLflow with small models of comparisons, whose aliases a test moves."""

import shutil
from contextlib import contextmanager

import pytest
from sklearn.linear_model import LogisticRegression

from tests.system.conftest import fitted
from training.registry import champions
from training.registry.champions import CHAMPION, DIGEST, files_digest, find_version

NAME = "regression-comparison"


class Registry:
    def __init__(self, root):
        self.root, self.store = root, champions.client()
        self.store.create_registered_model(NAME)
        self.versions = 0

    def add(self, model=None, spoil=None):
        """Register another version, whose files `spoil` damages before."""
        self.versions += 1
        directory = self.root / f"model-{self.versions}"
        (model or fitted(LogisticRegression())).write(directory)
        if spoil is not None:
            spoil(directory)
        tags = {DIGEST: files_digest(directory), "model": "logistic"}
        return str(self.store.create_model_version(NAME, directory.as_uri(), tags=tags).version)

    def lead(self, version):
        self.store.set_registered_model_alias(NAME, CHAMPION, version)

    def files(self, version):
        return find_version(f"models:/{NAME}/{version}").directory

    def go(self):
        """Take the store away, as a disk that is not there any more."""
        for part in sorted(self.root.glob("mlflow.db*")):
            part.rename(self.root / part.name.replace("mlflow", "away"))

    def come_back(self):
        # the database comes last, when all that belongs to it is there
        for part in sorted(self.root.glob("away.db*"), reverse=True):
            part.rename(self.root / part.name.replace("away", "mlflow"))


@contextmanager
def registry_in(root, empty_store):
    """Let the registry of this process be an empty one in a directory."""
    shutil.copy(empty_store, root / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root / 'mlflow.db'}")
        yield Registry(root)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_another_card(before, after):
    """Return a function that replaces words on the card of a model."""

    def spoil(directory):
        card = directory / "card.json"
        card.write_text(card.read_text().replace(before, after))

    return spoil


#: Lets a model take a feature that this code does not compute.
with_a_feature_of_tomorrow = with_another_card("medians_min", "medians_tomorrow")
