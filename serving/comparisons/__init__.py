"""Answers about comparisons of two results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from data.tables.formats import Format
from serving.comparisons.commands import DECIDING, JUDGING, SERVING, Assumed, add
from serving.supply import Importing, Judging, Pages, Registered, ServingSupply

if TYPE_CHECKING:
    from fastapi import FastAPI


def _lazy(dotted: str) -> Callable[..., Any]:
    """Return a function that imports the function of this name when it is called."""
    module, _, name = dotted.rpartition(".")

    def called(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return called


def _formats() -> Mapping[str, Format[Any]]:
    from data.comparisons.formats import FORMATS

    return FORMATS


def _add_pages(app: FastAPI) -> None:
    from serving.comparisons.labelling import pages
    from serving.comparisons.labels import endpoints

    endpoints.install(app)
    pages.install(app)


MODEL = Registered("model", "Judges comparisons.", DECIDING)
SUPPLY = ServingSupply(
    page=_lazy("serving.comparisons.page.page"),
    importing=Importing(
        "comparisons",
        _lazy("serving.comparisons.command.imported"),
        _formats,
        {"better": Assumed},
    ),
    judging=Judging("comparisons", _lazy("serving.comparisons.command.judge_source"), JUDGING),
    models=(MODEL,),
    doors=_lazy("serving.comparisons.endpoints.doors"),
    pages=Pages(
        _add_pages,
        SERVING,
        _lazy("serving.comparisons.labels.endpoints.begun"),
        _lazy("serving.comparisons.labels.endpoints.unseen"),
    ),
    commands=add,
    labels=_lazy("serving.comparisons.labels.command.counts"),
    words=_lazy("serving.comparisons.mistakes.told_of"),
)
