"""Training for the model family ``fingerprints``: profiles of applications, and forecasts."""

from training.supply import TrainingSupply, lazily

SUPPLY = TrainingSupply(
    profile=lazily("training.fingerprints.stages:profile_stage"),
    evaluate=lazily("training.fingerprints.stages:evaluate_stage"),
    promote=lazily("training.fingerprints.stages:promote_stage"),
    unseen=lazily("training.fingerprints.stages:unseen"),
)
