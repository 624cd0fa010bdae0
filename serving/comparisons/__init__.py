"""Serving verdicts on comparisons of two results."""

from __future__ import annotations

from serving.comparisons.commands import DECIDING, JUDGING, SERVING, Assumed, add
from serving.supply import FamilyPlugin, Importing, Judging, Pages, Registered, deferred, named

MODEL = Registered("model", "Judges comparisons.", DECIDING)
SUPPLY = FamilyPlugin(
    page=deferred("serving.comparisons.page.page"),
    importing=Importing(
        "comparisons",
        deferred("serving.comparisons.command.imported"),
        lambda: named("data.comparisons.formats.FORMATS"),
        {"better": Assumed},
    ),
    judging=Judging("comparisons", deferred("serving.comparisons.command.judge_source"), JUDGING),
    models=(MODEL,),
    doors=deferred("serving.comparisons.endpoints.doors"),
    pages=Pages(
        deferred("serving.comparisons.labelling.pages.install"),
        SERVING,
        deferred("serving.comparisons.labels.endpoints.begun"),
        deferred("serving.comparisons.labels.endpoints.unseen"),
    ),
    commands=add,
    labels=deferred("serving.comparisons.labels.command.counts"),
    words=deferred("serving.comparisons.mistakes.told_of"),
)
