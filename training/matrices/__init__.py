"""From vectors of matrices of raw metrics to models."""

from training.supply import TrainingSupply, UnseenSupply


def _train() -> None:
    from training.matrices.stages import train_stage

    train_stage()


def _evaluate() -> None:
    from training.matrices.stages import evaluate_stage

    evaluate_stage()


def _promote() -> None:
    from training.matrices.promote import promote_stage

    promote_stage()


def _unseen() -> UnseenSupply:
    from training.matrices.promote import UNSEEN

    return UNSEEN


_TRUSTED = (
    "training.evaluation.thresholds.Promised",
    "features.matrices.forms.Known",
    "features.matrices.projection.Projection",
    "training.matrices.engine.engine.FittedEngine",
    "training.matrices.engine.engine.Scheme",
    "training.matrices.engine.search.Calibration",
    "training.matrices.engine.search.Chosen",
    "training.matrices.engine.grouping.Grouping",
    "training.matrices.engine.judges.Judges",
    "training.matrices.engine.models.Nearest",
    "training.matrices.engine.validity_tree.ValidityTree",
)
SUPPLY = TrainingSupply(train=_train, evaluate=_evaluate, promote=_promote, trusted=_TRUSTED, unseen=_unseen)
