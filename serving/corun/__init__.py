"""Plugin of the family corun."""

from __future__ import annotations

from serving.corun.commands import group
from serving.supply import FamilyPlugin, Importing, Registered, deferred, named

STATIC = Registered("corun_static", "Predicts co-runs before they run.")
ONLINE = Registered("corun_online", "Predicts co-runs from first seconds.")
SUPPLY = FamilyPlugin(
    page=deferred("serving.corun.page.page"),
    importing=Importing(
        "co-runs", deferred("serving.corun.body.imported"), lambda: named("data.corun.formats.FORMATS")
    ),
    models=(STATIC, ONLINE),
    doors=deferred("serving.corun.body.doors", STATIC, ONLINE),
    commands=lambda app: app.add_typer(group, name="corun"),
)
