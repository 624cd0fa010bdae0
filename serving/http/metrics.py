"""Prometheus counters of a server, over all its workers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from serving.http.models import HotReloadingModel
from serving.http.request_context import RequestContext

#: Bucket limits of the histogram of request durations, in seconds.
BUCKETS = (0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60)


class ServerCounters:
    """The counters of one worker, and the sums over all workers."""

    def __init__(self, shared: str | None, *collectors: Collector) -> None:
        self._shared, self._collectors = shared, collectors
        self._registry = registry = CollectorRegistry()
        self._models: dict[str, tuple[str, ...]] = {}
        histogram, counter = partial(Histogram, registry=registry), partial(Counter, registry=registry)
        live = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        worst = partial(Gauge, registry=registry, multiprocess_mode="livemax")
        description = "Time from the head of a request to the end of its answer"
        labels = ["route", "status", "model", "version"]
        self._requests = histogram("perfjudge_request_seconds", description, labels, buckets=BUCKETS)
        self._judging = histogram("perfjudge_judging_seconds", "Time from a body to its answer")
        self._verdicts = counter("perfjudge_verdicts", "Verdicts given", ["endpoint", "verdict"])
        description = "Questions unlike what the model was trained on"
        self._out_of_distribution = counter(
            "perfjudge_out_of_distribution", description, ["endpoint", "model", "version"]
        )
        self.labels = counter("perfjudge_labels", "Labels given", ["status"])
        self.dropped = counter("perfjudge_shadow_dropped", "Requests that challengers did not hear of")
        self.in_flight = live("perfjudge_requests_in_flight", "Requests that wait for their answer")
        description = "How many workers answer with this version"
        self._version = live("perfjudge_model_info", description, ["key", "model", "version"])
        description = "1: what the alias names does not answer, the last good version does"
        self._load_failure = worst("perfjudge_model_load_failure", description, ["key"])
        description = "How often the version that answers has changed"
        self._swaps = worst("perfjudge_model_swaps", description, ["key"])

    def count_request(self, context: RequestContext, route: str, verdicts: Mapping[str, int]) -> None:
        """Count an answered request by its path's template `route`, and `verdicts` by kind."""
        now, ref = perf_counter(), context.ref
        name, version = ("", "") if ref is None else (ref.name, ref.version)
        labels = route, f"{context.status // 100}xx", name, version
        self._requests.labels(*labels).observe(now - context.began)
        if verdicts:
            self._judging.observe(now - (context.body_complete_at or context.began))
            for verdict, number in verdicts.items():
                self._verdicts.labels(route, verdict).inc(number)
            out_of_distribution = 0 if context.answered is None else context.answered.n_out_of_distribution
            self._out_of_distribution.labels(route, name, version).inc(out_of_distribution)

    def update_gauges(self, models: Mapping[str, HotReloadingModel]) -> None:
        """Update by model key the version in use, the number of changes, and whether loading failed."""
        for key, model in models.items():
            labels = () if model.ref is None else (key, model.ref.name, model.ref.version)
            before = self._models.get(key, ())
            if labels != before:
                self._models[key] = labels
                if before:
                    self._version.labels(*before).set(0)
                if labels:
                    self._version.labels(*labels).set(1)
            self._load_failure.labels(key).set(getattr(model, "load_failure", None) is not None)
            self._swaps.labels(key).set(getattr(model, "swaps", 0))

    def prometheus_text(self) -> bytes:
        """Return the counts of all workers in the Prometheus text format."""
        registry = self._registry
        if self._shared is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._shared)  # type: ignore[no-untyped-call]
        extra_registry = CollectorRegistry()
        for collector in self._collectors:
            extra_registry.register(collector)
        return generate_latest(registry) + generate_latest(extra_registry)
