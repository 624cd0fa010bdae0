"""From vectors of fingerprints to models."""

from training.supply import TrainingSupply, UnseenSupply


def _profile() -> None:
    from training.fingerprints.stages import profile_stage

    profile_stage()


def _evaluate() -> None:
    from training.fingerprints.stages import evaluate_stage

    evaluate_stage()


def _promote() -> None:
    from training.fingerprints.stages import promote_stage

    promote_stage()


def _unseen() -> UnseenSupply:
    from training.fingerprints.stages import UNSEEN

    return UNSEEN


SUPPLY = TrainingSupply(profile=_profile, evaluate=_evaluate, promote=_promote, unseen=_unseen)
