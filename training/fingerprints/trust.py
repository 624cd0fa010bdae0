"""How far a profile can be trusted (seed 003, section 7: profiles must be falsifiable)."""

from __future__ import annotations

from dataclasses import dataclass

from data.fingerprints.params import TrustLimits


@dataclass(frozen=True)
class Trust:
    """What speaks for and against a profile.

    Attributes
    ----------
    machines, cpus : int
        Distinct machines, and distinct CPU models.
    r2 : float
        Of the logarithm of the performance, with whole CPU models held out; negative is worse than the mean.
    median_error : float
        Median relative error of the same predictions.
    stability : float
        Mean overlap (Jaccard) of the top five stressors between bootstrap resamples of the machines.
    reasons : tuple of str
        Why the answer is "not enough diversity"; empty where the profile can be trusted.
    """

    machines: int
    cpus: int
    r2: float
    median_error: float
    stability: float
    reasons: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether the machines are diverse enough."""
        return not self.reasons

    @property
    def verdict(self) -> str:
        """One line for people."""
        return "trusted" if self.enough else f"not enough diversity: {'; '.join(self.reasons)}"


def reasons(machines: int, cpus: int, r2: float, stability: float, limits: TrustLimits) -> tuple[str, ...]:
    """Say which limits are not met."""
    found = (
        (machines < limits.machines, f"{machines} machines, fewer than {limits.machines}"),
        (cpus < limits.cpus, f"{cpus} CPU models, fewer than {limits.cpus}"),
        (
            not r2 >= limits.r2,
            f"R2 {r2:.2f} on held-out CPU models, less than {limits.r2:g}",
        ),
        (
            not stability >= limits.stability,
            f"the top five overlap by {stability:.2f} between resamples, less than {limits.stability:g}",
        ),
    )
    return tuple(reason for failed, reason in found if failed)
