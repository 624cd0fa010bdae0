"""Plugin of the family corun."""

from __future__ import annotations

from pkgutil import resolve_name

from serving.corun.commands import group
from serving.plugins import FamilyPlugin, Importing, Registered, deferred_function

STATIC = Registered("corun_static", "Model that predicts slow-downs from solo runs.")
ONLINE = Registered(
    "corun_online", "Model that predicts slow-downs from the first seconds of a solo run and a co-run."
)
PLUGIN = FamilyPlugin(
    page=deferred_function("serving.corun.page:page"),
    importing=Importing(
        "co-runs",
        deferred_function("serving.corun.body:imported"),
        lambda: resolve_name("data.corun.formats:FORMATS"),
    ),
    models=(STATIC, ONLINE),
    endpoints=deferred_function("serving.corun.body:corun_endpoints", STATIC, ONLINE),
    commands=lambda app: app.add_typer(group, name="corun"),
)
