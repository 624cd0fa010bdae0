"""Training for the model family ``matrices``: from raw metrics of several runs to models."""

from training.plugins import TrainingPlugin, deferred_call

_TRUSTED = (
    "training.evaluation.thresholds.GuaranteedRate",
    "features.matrices.forms.MetricStatistics",
    "features.matrices.projection.Projection",
    "training.matrices.engine.engine.FittedEngine",
    "training.matrices.schemes.Scheme",
    "training.matrices.engine.search.Calibration",
    "training.matrices.engine.search.SearchResult",
    "training.matrices.engine.grouping.Grouping",
    "training.matrices.engine.judges.GroupClassifiers",
    "training.matrices.engine.models.Blend",
    "training.matrices.engine.models.Nearest",
    "training.matrices.engine.validity_tree.ValidityTree",
)
PLUGIN = TrainingPlugin(
    train=deferred_call("training.matrices.stages:train_stage"),
    evaluate=deferred_call("training.matrices.stages:evaluate_stage"),
    promote=deferred_call("training.matrices.promote:promote_stage"),
    out_of_fold=deferred_call("training.matrices.promote:out_of_fold_source"),
    trusted=_TRUSTED,
)
