"""What a program asks a server by: ``from serving.client import Judge``."""

from __future__ import annotations

from serving.asking import Answers, JudgeError
from serving.comparisons.client import AsksComparisons
from serving.corun.client import AsksCoruns
from serving.fingerprints.client import AsksProfiles
from serving.matrices.client import AsksMatrices

__all__ = ["Answers", "Judge", "JudgeError"]


class Judge(AsksComparisons, AsksMatrices, AsksCoruns, AsksProfiles):
    """A server of perfjudge, which answers what the families answer.

    Parameters as of `serving.asking.Asking`. The one place where families stand beside each other by name:
    their types are known before anything runs.
    """
