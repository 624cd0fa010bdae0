"""perfjudge's models: run the pipeline's stages on a data set in a separate folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.human_labels.cases import Cases, Judge
from benchmarks.human_labels.reference_tools import run_or_raise
from benchmarks.table import time_call
from data.comparisons.params import Comparisons
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import FamilyPaths
from data.stage import BYTECODE
from data.tables.files import digest_of, write_text
from features.comparisons.vectors import feature_vectors
from training.comparisons.stored import TrainedModel
from training.estimators.catalogue import fail_probability

ROOT = Path(__file__).parents[2]
STAGES = (
    *("data.ingest", "data.validate", "features.featurize"),
    *("training.tune", "training.evaluate", "training.train"),
)
#: The random split is not reported here, so it is as small as the stages allow.
FEWEST = {"n_folds": 2, "n_repeats": 1}
#: Comparisons used to time models: nearest neighbours would take a minute for all.
TIMED = 1000


@dataclass(frozen=True)
class PipelineRun:
    """The output of the stages in a folder: tables, models and out-of-fold predictions."""

    root: Path
    verdicts: pd.DataFrame

    @property
    def paths(self) -> FamilyPaths:
        return FamilyPaths("comparisons", self.root)

    @cached_property
    def tables(self) -> ComparisonTables:
        """The tables with the judged comparisons only, in the order of the cases."""
        tables = ComparisonTables.read(self.paths.interim)
        chosen = tables.comparisons.set_index("comparison_id").loc[list(self.cases.ids)].reset_index()
        return replace(tables, comparisons=chosen)

    @cached_property
    def cases(self) -> Cases:
        rows = self._entry_rows(str(self.verdicts["entry"].iloc[0]))
        failed = (rows["status"] == "fail").to_numpy(bool)
        return Cases(rows.index.tolist(), failed, rows["fold"].to_numpy(np.int64))

    def about(self, source: Path) -> str:
        """Describe data, split, features and seed in one sentence."""
        how, cases = load(Comparisons, self.root / "params.yaml"), self.cases
        operations = len({case_id.rpartition("/")[0] for case_id in cases.ids})
        return (
            f"Data: {source.name}, {len(cases.ids)} comparisons of {operations} operations, "
            f"{cases.failed.sum()} fails; {len(cases.folds)} folds of whole operations, "
            f"the pipeline's; features: {how.section.featurize.feature_set}; seed {how.seed}."
        )

    def _entry_rows(self, entry: str) -> pd.DataFrame:
        rows = self.verdicts[self.verdicts["entry"] == entry]
        return rows.set_index("comparison_id").sort_index()

    def judges(self) -> Iterator[Judge]:
        """Yield the models as judges; their seconds are those of vectors and probabilities."""
        sides = Sides.from_tables(self.tables)
        seconds, _ = time_call(lambda: feature_vectors(sides), time.process_time)
        table = pd.read_parquet(self.paths.processed / "features.parquet")
        for name in self.verdicts.loc[self.verdicts["kind"] == "model", "entry"].unique():
            trained, rows = TrainedModel.read(self.paths.models / name), self._entry_rows(name)
            vectors = table[list(trained.card.features)].head(TIMED).to_numpy(np.float64)
            took, _ = time_call(partial(fail_probability, trained.model, vectors), time.process_time)
            took = seconds + took * len(table) / len(vectors)
            probability = rows["probability"].to_numpy(np.float64)
            judged = probability >= rows["threshold"].to_numpy(np.float64)
            yield Judge(name, "model", "from inside", judged, probability, took)


def run_pipeline(source: Path, cache: Path, chosen: str, jobs: int) -> PipelineRun:
    """Run the stages, or reuse their output if params, code and data are unchanged; a search is resumed."""
    root = cache / f"{source.name}-{chosen}"
    params: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params.pop("n_jobs")
    section = params["comparisons"]
    section["ingest"] |= {"format": "sap-hana", "path": str(source.resolve()), "keep_going": True}
    section["featurize"] |= {"feature_set": chosen}
    section["evaluate"] |= FEWEST
    write_text(root / "params.yaml", yaml.safe_dump(params | {"n_jobs": jobs}))
    code = [path for room in ("data", "features", "training") for path in (ROOT / room).rglob("*.py")]
    key = yaml.safe_dump([params, digest_of(*sorted(code), *sorted(source.rglob("*.[cj]s*")))])
    made = root / "made"
    evaluated = FamilyPaths("comparisons", root).evaluated / "oof.parquet"
    if not (made.is_file() and evaluated.is_file() and made.read_text(encoding="utf-8") == key):
        bytecode = str((ROOT / BYTECODE).resolve())
        environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for stage in STAGES:
            # -P: the folder `data` of this run has the name of a package
            command = [sys.executable, "-P", "-m", stage, "comparisons"]
            run_or_raise(f"{stage} failed", command, environment, root)
        write_text(made, key)
    verdicts = pd.read_parquet(evaluated)
    return PipelineRun(root, verdicts[verdicts["split"] == "grouped"])
