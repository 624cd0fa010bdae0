"""From vectors of comparisons of two results to models."""

from training.supply import TrainingSupply, UnseenSupply


def _tune() -> None:
    from training.comparisons.family import bound
    from training.comparisons.tune import tune

    tune(bound())


def _train() -> None:
    from training.comparisons.family import bound
    from training.comparisons.train import train

    train(bound())


def _evaluate() -> None:
    from training.comparisons.evaluate import evaluate
    from training.comparisons.family import bound

    evaluate(bound())


def _promote() -> None:
    from training.comparisons.family import bound
    from training.comparisons.promote import promote

    promote(bound())


def _unseen() -> UnseenSupply:
    from training.comparisons.promote import UNSEEN

    return UNSEEN


SUPPLY = TrainingSupply(tune=_tune, train=_train, evaluate=_evaluate, promote=_promote, unseen=_unseen)
