"""From vectors of comparisons of two results to models."""

from training.supply import TrainingSupply


def _tune() -> None:
    from training.comparisons.tune import tune_stage

    tune_stage()


def _train() -> None:
    from training.comparisons.train import train_stage

    train_stage()


def _evaluate() -> None:
    from training.comparisons.evaluate import evaluate_stage

    evaluate_stage()


def _promote() -> None:
    from training.comparisons.promote import promote_stage

    promote_stage()


SUPPLY = TrainingSupply(tune=_tune, train=_train, evaluate=_evaluate, promote=_promote)
