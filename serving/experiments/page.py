"""What two states of the project differ in, as a page."""

from __future__ import annotations

from serving.experiments import told
from serving.reports.rendering import render
from training.registry.experiments import ExperimentsDifference


def page(found: ExperimentsDifference) -> str:
    """Return what differs as one self-contained HTML text."""
    return render("experiments.html", found=found, told=told)
