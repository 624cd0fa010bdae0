"""Counters of one serving process, for Prometheus."""

from __future__ import annotations

from contextlib import AbstractContextManager

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from serving.judge import Judgement


class Metrics:
    """Verdicts given, and how long judging took."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._verdicts = Counter("perfjudge_verdicts", "Verdicts given", ["verdict"], registry=self._registry)
        self._seconds = Histogram(
            "perfjudge_judging_seconds", "Time from a body to its answer", registry=self._registry
        )

    def timed(self) -> AbstractContextManager[object]:
        """Measure the time of the block."""
        return self._seconds.time()

    def count(self, judgement: Judgement) -> None:
        """Count the verdicts of one answer."""
        for answer in ("pass", "fail", "invalid"):
            self._verdicts.labels(answer).inc(judgement.count(answer))

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
