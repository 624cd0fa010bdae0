"""Counters of one serving process, for Prometheus."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from serving.pages.verdict_lines import ANSWERS, Answer


class Countable(Protocol):
    """Verdicts of any family."""

    def count(self, answer: Answer) -> int:
        """Return how many there are of `answer`."""


class Metrics:
    """Verdicts given, and how long judging took."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._verdicts = Counter("perfjudge_verdicts", "Verdicts given", ["verdict"], registry=self._registry)
        self._seconds = Histogram(
            "perfjudge_judging_seconds", "Time from a body to its answer", registry=self._registry
        )

    def count(self, judged: Countable, seconds: float) -> None:
        """Count the verdicts of one answer, and the time that it took."""
        self._seconds.observe(seconds)
        for answer in ANSWERS:
            self._verdicts.labels(answer).inc(judged.count(answer))

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
