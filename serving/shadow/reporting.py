"""What challengers said in the shadow of the champions, over HTTP and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from data.errors import InputError
from serving.http import schemas
from serving.shadow.kept import HTTP, ShadowReport, place, report


def install(app: FastAPI) -> None:
    """Let `app` tell what is kept of the shadow."""

    @app.get("/v1/shadow", responses=schemas.responses(422))
    def shadow() -> ShadowReport:
        """Tell how often challengers say what champions say, and of which cases they don't."""
        return report(place(), running=app.state.settings.shadow is not None)


class ShadowCollector(Collector):
    """Counts what both said of requests."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield this for Prometheus."""
        labels = ["model", "champion", "challenger", "said", "would_say"]
        counted = CounterMetricFamily(
            "perfjudge_shadow_verdicts", "Verdicts of champions, and what challengers say", labels=labels
        )
        # figures that cannot be read are told at /v1/shadow
        with suppress(InputError):
            for pair in report(place()).figures:
                for one in pair.said if pair.source == HTTP else ():
                    versions = pair.name, pair.champion, pair.challenger
                    counted.add_metric((*versions, one.champion, one.challenger), one.count)
        yield counted
