"""Stage evaluate: ``python -m training.evaluate FAMILY...``."""

from functools import partial

from data.paths import FamilyPaths
from data.stage import Stage, run_stage
from training.plugins import family_plugin

#: By family, the split of metrics.json whose scores are printed after the evaluation, and the noun for cases.
PRINTED = {"comparisons": ("grouped", "comparisons"), "matrices": ("test-cases", "pairs")}


def _evaluate_and_print(evaluate: Stage, family: str) -> None:
    evaluate()
    if family in PRINTED:
        from data.tables.documents import written
        from training.evaluation.figures import print_scores

        print_scores(written(FamilyPaths(family).metrics, "evaluate"), *PRINTED[family])


if __name__ == "__main__":
    run_stage("evaluate", lambda family: partial(_evaluate_and_print, family_plugin(family).evaluate, family))
