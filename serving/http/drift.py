"""Drift: how far the inputs of the served models differ from their training data.

The population stability index of a feature is the sum over its bins of (a - e) ln(a / e), with a the share of
the
requests' values and e that of the training rows. Up to 0.1 little has changed, from 0.25 on much (Siddiqi,
Credit
Risk Scorecards, Wiley 2006). Without drift its mean is about (bins - 1) (1 / n_requests + 1 / n_training)
(Yurdakul, Statistical Properties of Population Stability Index, 2018), so that few rows are not informative.
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
from training.registry.stored import Deciles, smoothed

#: Rows below which an index says nothing.
FEWEST = 200
#: Features of a model that Prometheus hears of, the strongest.
MOST = 64
#: Rows that may wait to be counted, and that are counted at a time.
WAITING, AT_ONCE = 20_000, 1000
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class FeatureDrift:
    """The population stability index of one feature."""

    feature: str
    index: float


@dataclass(frozen=True)
class ModelDrift:
    """Drift of one model version: number of rows judged, and the index of each feature."""

    ref: ModelRef
    rows: int
    features: tuple[FeatureDrift, ...]


@dataclass(frozen=True)
class AskedRows:
    """Histogram counts of one model's inputs, as a worker writes them to a file."""

    ref: ModelRef
    deciles: dict[str, Deciles]
    counts: list[list[int]]

    def drift(self, others: Sequence[AskedRows]) -> ModelDrift:
        """Return the drift of these counts plus those in `others` of the same model version."""
        same = (one.counts for one in others if one.ref == self.ref)
        counts = sum((np.array(one) for one in same), np.array(self.counts))
        rows = int(counts[0].sum())
        found = map(FeatureDrift, self.deciles, map(_index, self.deciles.values(), counts))
        return ModelDrift(self.ref, rows, tuple(sorted(found, key=_strength)) if rows >= FEWEST else ())


def _index(trained: Deciles, counts: Counts) -> float:
    asked = smoothed(np.append(counts[: len(trained.edges) + 1], counts[-1]))
    shares = np.array(trained.shares)
    return float(((asked - shares) * np.log(asked / shares)).sum())


def _strength(one: FeatureDrift) -> float:
    return -one.index


class Bins:
    """The bins of all features of one model, and how many rows fell into each."""

    def __init__(self, ref: ModelRef, deciles: dict[str, Deciles]) -> None:
        self.ref, self._deciles = ref, deciles
        most = max(len(one.edges) for one in deciles.values())
        # a feature with fewer edges never gets beyond its own
        self._edges = np.array(
            [(*one.edges, *[np.inf] * (most - len(one.edges))) for one in deciles.values()]
        )
        self._counts = np.zeros((len(deciles), most + 2), np.int64)

    @classmethod
    def of(cls, served: Any) -> Bins | None:
        """Read them off the card of a model; None if training wrote none."""
        usual: dict[str, Deciles] = getattr(served.card, "usual", {})
        names = getattr(served.card, "features", ())
        return (
            cls(served.ref, {name: usual[name] for name in names})
            if usual.keys() >= {*names} and names
            else None
        )

    def count(self, vectors: NDArray[np.float64]) -> None:
        """Count rows of shape (n_rows, n_features); others are passed over."""
        features, width = self._counts.shape
        if vectors.shape[1:] != (features,):
            return
        for start in range(0, len(vectors), AT_ONCE):
            part = vectors[start : start + AT_ONCE]
            bins = (part[:, :, None] > self._edges).sum(axis=2)
            bins[~np.isfinite(part)] = width - 1
            places = (bins + np.arange(features) * width).ravel()
            self._counts += np.bincount(places, minlength=self._counts.size).reshape(features, width)

    @property
    def asked(self) -> AskedRows:
        """The counts so far."""
        return AskedRows(self.ref, self._deciles, self._counts.tolist())


class Drift(Collector):
    """Collects the inputs of a server's models, over all its workers, and computes their drift."""

    def __init__(self, models: Mapping[str, HotReloadingModel], shared: str | None = None) -> None:
        self._models = models
        self._shared = None if shared is None else Path(shared)
        self._bins: dict[str, Bins] = {}
        self._waiting: deque[tuple[str, Any, NDArray[np.float64]]] = deque()
        self._rows = 0
        self._lock = Lock()

    def asked(self, exchange: RequestContext) -> None:
        """Queue the model inputs of one request; `count` processes them later, in batches."""
        door, answered = exchange.door, exchange.answered
        if door is None or door.model is None or answered is None or answered.vectors is None:
            return
        self._waiting.append((door.model.key, exchange.served, answered.vectors))
        self._rows += len(answered.vectors)
        if self._rows > WAITING:
            self.count()

    def count(self) -> None:
        """Count the queued inputs, and write the counts to a file for the other workers."""
        with self._lock:
            if not self._waiting:
                return
            self._rows = 0
            while self._waiting:
                key, served, vectors = self._waiting.popleft()
                bins = self._of(key, served)
                if bins is not None:
                    bins.count(vectors)
            if self._shared is not None:
                told = {key: asdict(bins.asked) for key, bins in self._bins.items()}
                write_json(self._shared / f"asked-{os.getpid()}.json", told)

    def found(self) -> dict[str, ModelDrift]:
        """Return the drift of each model by its key, over all workers."""
        self.count()
        with self._lock:
            own = {key: bins.asked for key, bins in self._bins.items()}
        others = list(self._others())
        keys = {key for one in [own, *others] for key in one}
        return {key: self._joined([one[key] for one in [own, *others] if key in one], key) for key in keys}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield this for Prometheus."""
        labels = ["key", "model", "version"]
        rows = GaugeMetricFamily("perfjudge_asked_rows", "Rows that it was asked about", labels=labels)
        most = GaugeMetricFamily("perfjudge_drift_max", "The largest drift of a feature", labels=labels)
        index = GaugeMetricFamily(
            "perfjudge_drift", "Population stability index of a feature", labels=[*labels, "feature"]
        )
        for key, drift in self.found().items():
            named = key, drift.ref.name, drift.ref.version
            rows.add_metric(named, drift.rows)
            for one in drift.features[:1]:
                most.add_metric(named, one.index)
            for one in drift.features[:MOST]:
                index.add_metric((*named, one.feature), one.index)
        yield from (rows, most, index)

    def _of(self, key: str, served: Any) -> Bins | None:
        """Return the bins of a model; None of one that training wrote none of, or that answers no more."""
        known = self._bins.get(key)
        if known is not None and known.ref == served.ref:
            return known
        lazy = self._models.get(key)
        bins = Bins.of(served) if lazy is None or lazy.ref == served.ref else None
        if bins is not None:
            self._bins[key] = bins
        return bins

    def _others(self) -> Iterator[dict[str, AskedRows]]:
        """Yield the counts written by other workers, including those that have ended."""
        if self._shared is not None:
            for path in self._shared.glob("asked-*.json"):
                if path.name != f"asked-{os.getpid()}.json":
                    yield read_json(path, dict[str, AskedRows])

    def _joined(self, found: Sequence[AskedRows], key: str) -> ModelDrift:
        lazy = self._models.get(key)
        now = [one for one in found if lazy is not None and one.ref == lazy.ref]
        first, *others = now or found
        return first.drift(others)
