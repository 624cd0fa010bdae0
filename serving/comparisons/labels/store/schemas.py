"""What requests and answers about labels are as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from data.comparisons.labels.store.given import Status

#: What cannot be seen, or changes how the rest is seen: controls, marks of direction, odd blanks.
_UNSEEN = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufe00-\ufe0f\ufeff\ufff0-\uffff"
)
#: A person's name.
PERSON = rf"^[^ {_UNSEEN}]([^{_UNSEEN}]{{0,62}}[^ {_UNSEEN}])?$"
KEY = r"^[A-Za-z0-9._:-]{1,100}$"
Person = Annotated[str, StringConstraints(pattern=PERSON)]
Key = Annotated[str, StringConstraints(pattern=KEY)]


class LabelRequest(BaseModel):
    """What a person says of a comparison."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"status": "fail", "key": "4f0c2b7e", "labelled_by": "anna", "saw_verdict": False}]
        },
    )

    status: Status | None = Field(
        description="null withdraws what the person said before; cannot_tell never counts as pass or fail."
    )
    key: Key = Field(
        description="Chosen by who sends it: sent again with the same key, it is the same label."
    )
    labelled_by: Person | None = Field(
        default=None, description="Who says so: the token's name, also if it is left out."
    )
    saw_verdict: bool | None = Field(
        default=None, description="Whether the model's verdict was shown before; null: nobody knows."
    )


class SignedLabelRequest(LabelRequest):
    """What a person says of a comparison, where no token tells who that is."""

    labelled_by: Person = Field(description="Who says so.")


class LabelEntry(BaseModel):
    """A label that is kept."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    comparison_id: str
    status: Status | None
    labelled_by: str
    labelled_at: datetime
    saw_verdict: bool | None
    model: str = Field(description="Whose verdict was shown; empty if none was.")


class LabelHistory(BaseModel):
    """All that people said of a comparison, the oldest first."""

    comparison_id: str
    history: list[LabelEntry]


class LabelAnswer(BaseModel):
    """The label that is kept, and all that people said of the comparison, the oldest first."""

    model_config = ConfigDict(from_attributes=True)

    label: LabelEntry
    history: list[LabelEntry]


class CurrentLabel(BaseModel):
    """What a person says of a comparison now."""

    comparison_id: str
    status: Status
    labelled_by: str
    labelled_at: datetime


class CurrentLabels(BaseModel):
    """What everybody says now; withdrawn labels are left out."""

    labels: list[CurrentLabel]
