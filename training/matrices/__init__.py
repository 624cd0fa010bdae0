"""Training for the model family ``matrices``: from raw metrics of several runs to models."""

from training.supply import TrainingSupply, lazily

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
SUPPLY = TrainingSupply(
    train=lazily("training.matrices.stages:train_stage"),
    evaluate=lazily("training.matrices.stages:evaluate_stage"),
    promote=lazily("training.matrices.promote:promote_stage"),
    unseen=lazily("training.matrices.promote:unseen"),
    trusted=_TRUSTED,
)
