"""Drift: how far the inputs of the served models differ from their training data.

The population stability index of a feature is the sum over its bins of (a - e) ln(a / e), where a is the
share of the requests' values in the bin and e that of the training rows. Up to 0.1 little has changed, from
0.25 on much (Siddiqi, Credit Risk Scorecards, Wiley 2006). Without drift its mean is about
(bins - 1) (1 / n_requests + 1 / n_training) (Yurdakul, Statistical Properties of Population Stability Index,
2018), so that few rows are not informative.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from data.tables.files import read_json, write_json
from serving.http.models import HotReloadingModel
from serving.http.request_context import RequestContext
from serving.models import ModelRef
from training.registry.stored import Deciles, smooth_counts

#: Minimum number of rows of an informative index.
FEWEST = 200
#: Maximum number of features per model that Prometheus gets, those with the largest drift.
MOST = 64
#: Maximum number of queued rows, and of rows that are binned at a time.
WAITING, AT_ONCE = 20_000, 1000


@dataclass(frozen=True)
class ModelDrift:
    """Drift of one model version: the number of its input rows, and its features by descending index.

    ``features`` has name and population stability index of each; empty with fewer than `FEWEST` rows.
    """

    ref: ModelRef
    rows: int
    features: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class InputCounts:
    """Counts of one model's inputs per feature and bin, as a worker writes them; the last bin: missing."""

    ref: ModelRef
    deciles: dict[str, Deciles]
    counts: list[list[int]]


class Bins:
    """The bins of all features of one model, and the number of input rows in each."""

    def __init__(self, ref: ModelRef, deciles: dict[str, Deciles]) -> None:
        self.ref, self._deciles = ref, deciles
        max_edges = max(len(feature.edges) for feature in deciles.values())
        # features with fewer edges have empty bins at the end
        self._edges = np.array(
            [(*feature.edges, *[np.inf] * (max_edges - len(feature.edges))) for feature in deciles.values()]
        )
        self._counts = np.zeros((len(deciles), max_edges + 2), np.int64)

    @classmethod
    def from_card(cls, served: Any) -> Bins | None:
        """Return the bins in the card of a served model; None if those of a feature are missing."""
        usual: dict[str, Deciles] = getattr(served.card, "usual", {})
        names = getattr(served.card, "features", ())
        if not names or not usual.keys() >= {*names}:
            return None
        return cls(served.ref, {name: usual[name] for name in names})

    def count_rows(self, vectors: NDArray[np.float64]) -> None:
        """Count rows of shape (n_rows, n_features), NaN as missing; arrays of other shapes are ignored."""
        features, width = self._counts.shape
        if vectors.shape[1:] != (features,):
            return
        for start in range(0, len(vectors), AT_ONCE):
            part = vectors[start : start + AT_ONCE]
            bins = (part[:, :, None] > self._edges).sum(axis=2)
            bins[~np.isfinite(part)] = width - 1
            flat_bins = (bins + np.arange(features) * width).ravel()
            self._counts += np.bincount(flat_bins, minlength=self._counts.size).reshape(features, width)

    @property
    def input_counts(self) -> InputCounts:
        """The counts so far."""
        return InputCounts(self.ref, self._deciles, self._counts.tolist())


class Drift(Collector):
    """Collects the inputs of a server's models, over all its workers, and computes their drift."""

    def __init__(self, models: Mapping[str, HotReloadingModel], shared: str | None = None) -> None:
        self._models = models
        self._shared = None if shared is None else Path(shared)
        self._bins: dict[str, Bins] = {}
        self._queued: deque[tuple[str, Any, NDArray[np.float64]]] = deque()
        self._rows = 0
        self._lock = Lock()

    def queue_inputs(self, context: RequestContext) -> None:
        """Queue the model inputs of one request, if it has any, for `count_queued`."""
        endpoint, answered = context.endpoint, context.answered
        if endpoint is None or endpoint.model is None or answered is None or answered.vectors is None:
            return
        self._queued.append((endpoint.model.key, context.served, answered.vectors))
        self._rows += len(answered.vectors)
        if self._rows > WAITING:
            self.count_queued()

    def count_queued(self) -> None:
        """Count the queued inputs, and write the counts to a file for the other workers."""
        with self._lock:
            if not self._queued:
                return
            self._rows = 0
            while self._queued:
                key, served, vectors = self._queued.popleft()
                bins = self._bins_of(key, served)
                if bins is not None:
                    bins.count_rows(vectors)
            if self._shared is not None:
                counts = {key: asdict(bins.input_counts) for key, bins in self._bins.items()}
                write_json(self._shared / f"inputs-{os.getpid()}.json", counts)

    def by_model(self) -> dict[str, ModelDrift]:
        """Return by key the drift of each model that had inputs, over all workers, including ended ones."""
        self.count_queued()
        with self._lock:
            workers = [{key: bins.input_counts for key, bins in self._bins.items()}]
        if self._shared is not None:
            paths = self._shared.glob("inputs-*.json")
            others = [path for path in paths if path.name != f"inputs-{os.getpid()}.json"]
            workers += [read_json(path, dict[str, InputCounts]) for path in others]
        drifts = {}
        for key in {key for worker in workers for key in worker}:
            parts = [worker[key] for worker in workers if key in worker]
            model = self._models.get(key)
            current = [part for part in parts if model is not None and part.ref == model.ref] or parts
            drifts[key] = _joined_drift(current)
        return drifts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield three gauges: rows, largest index, and index of each feature (at most `MOST` per model)."""
        labels = ["key", "model", "version"]
        description = "Number of input rows of the version in use"
        rows = GaugeMetricFamily("perfjudge_judged_rows", description, labels=labels)
        largest = GaugeMetricFamily("perfjudge_drift_max", "The largest drift of a feature", labels=labels)
        description = "Population stability index of a feature"
        index = GaugeMetricFamily("perfjudge_drift", description, labels=[*labels, "feature"])
        for key, drift in self.by_model().items():
            named = key, drift.ref.name, drift.ref.version
            rows.add_metric(named, drift.rows)
            for feature, stability in drift.features[:MOST]:
                index.add_metric((*named, feature), stability)
            for _, stability in drift.features[:1]:
                largest.add_metric(named, stability)
        yield from (rows, largest, index)

    def _bins_of(self, key: str, served: Any) -> Bins | None:
        """Return the bins of a model; None if its card has none, or if it has been replaced."""
        bins = self._bins.get(key)
        if bins is None or bins.ref != served.ref:
            model = self._models.get(key)
            bins = Bins.from_card(served) if model is None or model.ref == served.ref else None
            if bins is not None:
                self._bins[key] = bins
        return bins


def _joined_drift(parts: list[InputCounts]) -> ModelDrift:
    """Return the drift of the first part's version; parts of other versions are ignored."""
    first = parts[0]
    counts = np.sum([part.counts for part in parts if part.ref == first.ref], axis=0)
    rows = int(counts[0].sum())
    if rows < FEWEST:
        return ModelDrift(first.ref, rows, ())
    features = zip(first.deciles, map(_stability_index, first.deciles.values(), counts), strict=True)
    return ModelDrift(first.ref, rows, sorted(features, key=lambda feature: -feature[1]))


def _stability_index(trained: Deciles, counts: NDArray[np.int64]) -> float:
    requested = smooth_counts(np.append(counts[: len(trained.edges) + 1], counts[-1]))
    shares = np.array(trained.shares)
    return float(((requested - shares) * np.log(requested / shares)).sum())
