"""Where the project lies, and where MLflow keeps its runs and models."""

from __future__ import annotations

import os
from pathlib import Path


def tracking_uri() -> str:
    """Return where MLflow keeps its runs and models: MLFLOW_TRACKING_URI, or mlflow.db in the project."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{project_root() / 'mlflow.db'}"


def local_store() -> Path | None:
    """Return the SQLite file of MLflow; None where it keeps its runs and models in another way."""
    uri = tracking_uri()
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def project_root() -> Path:
    """Return the checkout that this file belongs to, or else the working directory."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "params.yaml").is_file() else Path.cwd()
