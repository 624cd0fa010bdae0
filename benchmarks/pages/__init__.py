"""The pages of docs/results: what each is about, which command writes it, and what that command needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from data.families import FAMILIES

RESULTS = Path("docs/results")
#: What a page's figures depend on. Reports, documents and tests are not among it.
LAYERS = ("data", "features", "training", "serving")
CODE = (*LAYERS, "benchmarks", "dvc.yaml", "params.yaml", "uv.lock")
_FOOTER = re.compile(r"^Written on (\d{4}-\d\d-\d\d) from commit `(\w+)`( with changes)?\.", re.MULTILINE)
#: Commits that a page is taken to be behind which names none.
MANY = 10_000
#: What a command may need, and how a person gets it.
NEEDS = {
    "data": "the public data sets in ../shared/data",
    "models": "the trained models and reports that uv run dvc repro leaves",
    "wrk": "wrk, a load generator: apt-get install wrk",
    "peers": "the packages pgmpy and pyagrum: uv sync --group benchmarks",
    "idle": "an idle machine: other programs keep its processors busy, and --busy ignores that",
}


@dataclass(frozen=True)
class ResultPage:
    """One page of docs/results.

    Attributes
    ----------
    section, family, name : str
        The section of the index, the model family whose code is measured (empty: several), and the name of
        the file without ``.md``.
    about, data, held_out, seed : str
        What was measured, on which data set, what was held out of training, and the random seed.
    command : str
        The command that writes the page, which is also printed in it. One that begins with ``dvc exp run``
        runs in a clone, so that the models and reports of this checkout stay as they are.
    minutes : float
        How long the command takes on two idle processors.
    needs : sequence of str
        Keys of `NEEDS`.
    why_long : str
        What takes so long, of a command that does not fit in the budget of one run.
    """

    section: str
    family: str
    name: str
    about: str
    data: str
    held_out: str
    seed: str
    command: str
    minutes: float
    needs: Sequence[str] = ()
    why_long: str = ""

    def path(self, root: Path = Path()) -> Path:
        """Return the page's file below `root`."""
        return root / RESULTS / f"{self.name}.md"

    def origin(self, root: Path = Path()) -> Origin | None:
        """Return the date and the commit that the page names, or None where it names none."""
        path = self.path(root)
        named = _FOOTER.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        return Origin(date.fromisoformat(named[1]), named[2], bool(named[3])) if named else None

    def commits_since(self, root: Path = Path()) -> int:
        """Return how many commits have changed the family's code since; `MANY` where that is not known.

        Of a page about several families it is the mean over all of them.
        """
        origin = self.origin(root)
        since = f"{origin.commit}..HEAD" if origin else "unknown..HEAD"
        families = [self.family] if self.family else FAMILIES
        code = [f"{layer}/{family}" for layer in LAYERS for family in families]
        count = _git(root, "rev-list", "--count", since, "--", *code).stdout.strip()
        return int(count) // len(families) if count else MANY


@dataclass(frozen=True)
class Origin:
    """The day on which a page was written, and the commit whose code wrote it.

    Attributes
    ----------
    day : date
    commit : str
    changed : bool
        Whether the code had changes that were not committed.
    """

    day: date
    commit: str
    changed: bool

    def is_current(self, root: Path = Path()) -> bool:
        """Tell whether the code below `root` is still that of the commit."""
        return not self.changed and _git(root, "diff", "--quiet", self.commit, "--", *CODE).returncode == 0


def footer(name: str, root: Path = Path()) -> str:
    """Return the paragraph that ends a page: day, commit, data set, what was held out, and seed.

    Parameters
    ----------
    name : str
        The page's name; where `PAGES` lacks it, day and commit are all that is said.
    root : Path
        The checkout whose code wrote the page.
    """
    commit = _git(root, "rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
    changed = " with changes" if _git(root, "status", "--porcelain", "--", *CODE).stdout else ""
    written = f"Written on {datetime.now(UTC):%Y-%m-%d} from commit `{commit}`{changed}."
    page = next((page for page in PAGES if page.name == name), None)
    if page is None:
        return f"\n{written}\n"
    return f"\n{written} Data: {page.data}. Held out: {page.held_out}. Seed: {page.seed}.\n"


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)


_COMPARISONS, _MATRICES = "Verdicts on comparisons", "Verdicts on matrices"
_OTHERS, _SPEED = "Co-runs and profiles", "Speed"
_HANA = (
    "dvc exp run -S comparisons.ingest.format=sap-hana -S comparisons.ingest.path=../shared/data/sap-hana"
    " -S comparisons.ingest.keep_going=true"
)
_PUBLIC_MATRICES = (
    "dvc exp run -S matrices.ingest.format={0} -S matrices.ingest.path=../shared/data/{0} evaluate@matrices"
    " && python -m benchmarks.matrices"
)
PAGES = (
    ResultPage(
        _COMPARISONS, "comparisons", "comparisons-measured",
        "models and rules beside each other",
        "shipped measurement", "whole operations; at random", "20261121",
        "dvc repro && python -m benchmarks.verdicts",
        0.1,
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "comparisons-sap-hana",
        "the same on engineers' marks",
        "SAP HANA", "whole operations; at random", "20261121",
        f"{_HANA} -S comparisons.evaluate.folds=2 -S comparisons.evaluate.repeats=1 evaluate@comparisons"
        " && python -m benchmarks.verdicts",
        25, ("data",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "human-labels",
        "change point tools, rules at any setting, and the engineers themselves",
        "SAP HANA", "whole operations", "20261121",
        "uv run python -m benchmarks.human_labels",
        60, ("data",),
        "two pipelines on SAP HANA, and 40 settings of change point tools, which it installs",
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "sap-hana-unseen",
        "the shipped models where they know no label",
        "trained on the shipped measurement, asked about SAP HANA", "the whole data set", "20261121",
        "python -m benchmarks.unseen",
        1, ("data", "models"),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "sap-hana-cases",
        "which verdicts are wrong, and whether anybody could know",
        "SAP HANA", "whole operations", "five, from 20261121 on",
        "python -m benchmarks.cases --path ../shared/data/sap-hana",
        6, ("data",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "few-labels",
        "how far few labels reach",
        "SAP HANA, shipped measurement", "whole operations", "20261121, 20261123, 20261125",
        "python -m benchmarks.few_labels",
        6, ("data",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "promises-measured",
        "whether promises are kept",
        "shipped measurement", "operations, 200 splits", "0 to 199",
        "python -m benchmarks.promises --name measured --model extra-trees",
        5, ("models",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "promises-sap-hana",
        "the same",
        "SAP HANA", "operations, 200 splits", "0 to 199",
        f"{_HANA} featurize@comparisons && python -m benchmarks.promises --name sap-hana --model xgboost",
        20, ("data",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "drift",
        "runs of one build that fail, and regressions that are found, as runs drift",
        "made up", "nothing is learned but by the shipped champion", "20261121",
        "python -m benchmarks.drift",
        5, ("models",),
    ),
    ResultPage(
        _COMPARISONS, "comparisons", "timelines-marked",
        "what timelines find of the changes that engineers marked",
        "SAP HANA", "nothing is learned but by the shipped champion", "20261121",
        "python -m benchmarks.timelines.engineers ../shared/data/sap-hana",
        1, ("data", "models"),
    ),
    ResultPage(
        _MATRICES, "matrices", "matrices-matrices",
        "models, remedies and opponents; the paper's tables",
        "shipped measurement", "whole test cases; whole pairs", "20261121",
        "dvc repro && python -m benchmarks.matrices",
        0.1, ("models",),
    ),
    ResultPage(
        _MATRICES, "matrices", "matrices-dbsherlock",
        "the same",
        "DBSherlock", "whole test cases; whole pairs", "20261121",
        _PUBLIC_MATRICES.format("dbsherlock"),
        7, ("data",),
    ),
    ResultPage(
        _MATRICES, "matrices", "matrices-petshop",
        "the same",
        "PetShop", "whole test cases; whole pairs", "20261121",
        _PUBLIC_MATRICES.format("petshop"),
        7, ("data",),
    ),
    ResultPage(
        _OTHERS, "corun", "corun-accuracy",
        "errors of impacts that were not seen",
        "pitot, SPEC co-runs", "pairs, families, devices", "20261121, 0, 1",
        "uv run python -m benchmarks.impact ../shared/data",
        15, ("data",),
    ),
    ResultPage(
        _OTHERS, "", "transfer",
        "what was learned on some, asked about others",
        "DBSherlock, pitot, SPEC co-runs, Spare Cores",
        "whole causes, devices, campaigns, CPU models", "20261121",
        "uv run python -m benchmarks.transfer ../shared/data",
        15, ("data",),
    ),
    ResultPage(
        _OTHERS, "corun", "progress",
        "impacts by progress, without training",
        "made up, and shipped", "nothing is learned", "20261121",
        "uv run python -m benchmarks.progress",
        2,
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-prediction",
        "predictions on CPU models that were held out",
        "Spare Cores", "whole CPU models", "20261121",
        "python -m benchmarks.profiles prediction",
        2.5, ("data",),
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-seed",
        "the quiho paper's first stressors by its settings",
        "quiho", "nothing: the paper's figures", "20261121",
        "python -m benchmarks.profiles seed",
        1, ("data",),
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-stability-quiho",
        "how stable rankings are",
        "quiho", "resamples of CPU models", "20261121",
        "python -m benchmarks.profiles stability --data quiho",
        3, ("data",),
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-stability-sparecores",
        "the same",
        "Spare Cores", "resamples of CPU models", "20261121",
        "python -m benchmarks.profiles stability --applications 40 --data sparecores",
        3, ("data",),
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-alarms-quiho",
        "false alarms of the test of two profiles",
        "quiho", "halves of the machines", "20261121",
        "python -m benchmarks.profiles alarms --data quiho",
        3, ("data",),
    ),
    ResultPage(
        _OTHERS, "fingerprints", "fingerprints-alarms-sparecores",
        "the same",
        "Spare Cores", "halves of the machines", "20261121",
        "python -m benchmarks.profiles alarms --data sparecores",
        5, ("data",),
    ),
    ResultPage(
        _SPEED, "", "pipeline",
        "the whole pipeline, and whether it repeats itself",
        "everything shipped", "as the pipeline has it", "20261121",
        "python -m benchmarks.pipeline",
        12, ("idle",),
    ),
    ResultPage(
        _SPEED, "", "kills",
        "`dvc repro`, killed at random moments",
        "some of the shipped measurements", "as the pipeline has it", "20261121",
        "python -m benchmarks.kills 20 comparisons matrices",
        40, (),
        "20 pipelines are killed and run again",
    ),
    ResultPage(
        _SPEED, "comparisons", "retraining",
        "what 50 new labels cost",
        "shipped measurement", "as the pipeline has it", "20261121",
        "python -m benchmarks.retraining",
        3, ("models", "idle"),
    ),
    ResultPage(
        _SPEED, "", "growth",
        "training at ten and a hundred times the data",
        "copies of what is shipped", "nothing is scored", "20261121",
        "uv run python -m benchmarks.growth",
        6, ("models", "idle"),
    ),
    ResultPage(
        _SPEED, "matrices", "scale",
        "2 million vectors, out of core",
        "made up", "nothing is scored", "20261121",
        "uv run python -m benchmarks.scale",
        8, ("idle",),
    ),
    ResultPage(
        _SPEED, "comparisons", "judging",
        "how long verdicts take",
        "made up", "nothing is scored", "20261121",
        "python -m benchmarks.judging",
        4, ("idle",),
    ),
    ResultPage(
        _SPEED, "matrices", "judged-matrices",
        "how long verdicts on matrices take, and what is left of them without their drivers",
        "shipped measurement", "whole test cases", "20261121",
        "python -m benchmarks.judged_matrices",
        3, ("models", "idle"),
    ),
    ResultPage(
        _SPEED, "comparisons", "serving",
        "how many questions a server answers",
        "made up", "nothing is scored", "20261121",
        "python -m benchmarks.serving",
        5, ("models", "wrk", "idle"),
    ),
    ResultPage(
        _SPEED, "comparisons", "import",
        "importing SAP's data",
        "SAP HANA", "nothing is learned", "none",
        "python -m benchmarks.imports ../shared/data/sap-hana",
        1, ("data", "idle"),
    ),
    ResultPage(
        _SPEED, "comparisons", "import-formats",
        "importing what benchmark tools write",
        "made of the samples", "nothing is learned", "20261121",
        "python -m benchmarks.imports.formats",
        3, ("idle",),
    ),
    ResultPage(
        _SPEED, "comparisons", "features",
        "features of 100,000 comparisons",
        "made up", "nothing is learned", "20261121",
        "uv run python -m benchmarks.features",
        1, ("idle",),
    ),
    ResultPage(
        _SPEED, "comparisons", "timelines",
        "pages of 200 versions",
        "made up", "nothing is learned", "20261121",
        "python -m benchmarks.timelines",
        3, ("models", "idle"),
    ),
    ResultPage(
        _SPEED, "matrices", "engine",
        "the engine of matrices beside a plain script",
        "made up", "whole test cases", "20261121",
        "uv run --group benchmarks python -m benchmarks.engine",
        6, ("peers", "idle"),
    ),
    ResultPage(
        _SPEED, "matrices", "engine-growth",
        "the engine's cost by the number of vectors",
        "made up", "whole test cases", "20261121",
        "uv run --group benchmarks python -m benchmarks.engine",
        6, ("peers", "idle"),
    ),
    ResultPage(
        _SPEED, "matrices", "tan",
        "tree-augmented naive Bayes beside two libraries",
        "made up", "20,000 other rows", "20261121",
        "uv run --group benchmarks python -m benchmarks.tan",
        8, ("peers", "idle"),
    ),
    ResultPage(
        _SPEED, "matrices", "similarity",
        "the similarity logistic beside plain EM",
        "made up", "nothing: a likelihood", "20261121",
        "uv run python -m benchmarks.similarity",
        1, ("idle",),
    ),
    ResultPage(
        _SPEED, "corun", "corun-speed",
        "models of impact",
        "made up", "nothing is scored", "20261121",
        "uv run python -m benchmarks.corun",
        3, ("idle",),
    ),
    ResultPage(
        _SPEED, "fingerprints", "profiles",
        "a profile beside refitting",
        "quiho", "nothing is scored", "20261121",
        "python -m benchmarks.profiles speed --data quiho",
        18, ("data", "idle"),
    ),
    ResultPage(
        _SPEED, "fingerprints", "profiles-sparecores",
        "all profiles of a data set",
        "Spare Cores", "nothing is scored", "20261121",
        "python -m benchmarks.profiles speed --data sparecores",
        2, ("data", "idle"),
    ),
)  # fmt: skip
