"""What two models say of the same cases, held against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from data.errors import InputError
from serving.supply import Opinion

#: The longest text of a disagreement that is kept, in letters.
LETTERS = 200


@dataclass(frozen=True)
class Contenders:
    """Who is compared, on what."""

    name: str
    champion: str
    challenger: str
    source: str


@dataclass(frozen=True)
class Disagreement:
    """A case of which the two give different verdicts."""

    case: str
    about: str
    champion: str
    challenger: str
    champion_probability: float | None
    challenger_probability: float | None

    @classmethod
    def of(cls, own: Opinion, other: Opinion) -> Disagreement:
        """Keep what the champion and what the challenger says."""
        case, about = own.case[:LETTERS], own.about[:LETTERS]
        return cls(case, about, own.verdict, other.verdict, own.probability, other.probability)


@dataclass(frozen=True)
class HeldTogether:
    """How often the champion said one thing and the challenger another, and where they disagree."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, champion: Sequence[Opinion], challenger: Sequence[Opinion]) -> None:
        """Hold what they say of the same cases, in the same order, against each other."""
        if [one.case for one in champion] != [one.case for one in challenger]:
            raise InputError("the challenger was not asked about the same cases as the champion")
        pairs = list(zip(champion, challenger, strict=True))
        self.counts.update((own.verdict, other.verdict) for own, other in pairs)
        differ = (pair for pair in pairs if pair[0].verdict != pair[1].verdict)
        self.disagreements.extend(Disagreement.of(*pair) for pair in differ)
