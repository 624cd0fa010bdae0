"""Stage evaluate: ``python -m training.evaluate FAMILY...``."""

from functools import partial

from data.paths import FamilyPaths
from data.stage import Stage, run_stage
from training.plugins import TrainingPlugin, family_plugin


def _evaluate_and_print(plugin: TrainingPlugin, family: str) -> None:
    plugin.evaluate()
    if plugin.printed is not None:
        from data.tables.documents import written
        from training.evaluation.figures import print_scores

        print_scores(written(FamilyPaths(family).metrics, "evaluate"), *plugin.printed)


def _stage_of(family: str) -> Stage:
    return partial(_evaluate_and_print, family_plugin(family), family)


if __name__ == "__main__":
    run_stage("evaluate", _stage_of)
