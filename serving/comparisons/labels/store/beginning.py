"""What a server is told of labels, looked at before it listens."""

from __future__ import annotations

import logging
from pathlib import Path

from data.comparisons.labels.store.given import AwayError, NewerError
from data.comparisons.labels.store.kept import LabelStore
from data.errors import InputError
from data.places import Places
from serving.supply import Options
from training.registry.store_file import project_root

LOG = logging.getLogger("perfjudge")
#: Labels that one person may give in a minute: more than anybody reads.
RATE = 240


def default_address() -> str:
    """Return where the project keeps its labels."""
    return f"sqlite:///{project_root() / 'labels.db'}"


def begun(options: Options) -> Options:
    """Add what is taken by default, and look whether labels can be kept.

    Raises
    ------
    InputError
        If the address is none, a newer perfjudge has written the database, the file is none of SQLite, its
        directory is missing, or there are no such comparisons. PostgreSQL that does not answer may do so
        later.
    """
    taken = {"labels": default_address(), "comparisons": ingested(), "label_rate": RATE, **options}
    store = LabelStore(taken["labels"])
    file = store.place.file
    if file is not None and not file.absolute().parent.is_dir():
        raise InputError(
            "there is no such directory; expected one in which labels are kept", file=file.parent
        )
    try:
        store.look()
    except AwayError as exc:
        if isinstance(exc, NewerError) or file is not None:
            raise
        LOG.warning("%s; until then, labels are refused", exc)
    finally:
        store.close()
    if taken["comparisons"] is not None and not Path(taken["comparisons"]).exists():
        raise InputError("no such file or directory", file=taken["comparisons"])
    return taken


def ingested() -> str | None:
    """Return where the project's pipeline keeps its comparisons; None before it has any."""
    directory = Places("comparisons", project_root()).interim
    return str(directory) if (directory / "comparisons.parquet").is_file() else None
