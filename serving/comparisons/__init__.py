"""Serving verdicts on comparisons of two results."""

from __future__ import annotations

from pkgutil import resolve_name

from serving.comparisons.commands import DECIDING, JUDGING, SERVING, Direction, add_commands
from serving.plugins import FamilyPlugin, Importing, Judging, Pages, Registered, deferred_function

MODEL = Registered("model", "Model that judges comparisons.", DECIDING)
PLUGIN = FamilyPlugin(
    page=deferred_function("serving.comparisons.page:page"),
    importing=Importing(
        "comparisons",
        deferred_function("serving.comparisons.command:imported"),
        lambda: resolve_name("data.comparisons.formats:FORMATS"),
        {"better": Direction},
    ),
    judging=Judging("comparisons", deferred_function("serving.comparisons.command:judge_source"), JUDGING),
    models=(MODEL,),
    endpoints=deferred_function("serving.comparisons.endpoints:comparison_endpoints"),
    pages=Pages(
        deferred_function("serving.comparisons.labelling.pages:install"),
        SERVING,
        deferred_function("serving.comparisons.labels.endpoints:begun"),
        deferred_function("serving.comparisons.labels.endpoints:count_new_labels"),
    ),
    commands=add_commands,
    labels=deferred_function("serving.comparisons.labels.review:counts"),
    describe_cases=deferred_function("serving.comparisons.mistakes:describe_measurements"),
)
