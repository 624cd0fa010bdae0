"""Requests to an application in this process, without the network."""

from contextlib import nullcontext

import anyio
import httpx


def ask(app, *requests, base="http://here", started=False, raising=True):
    """Send requests one after the other, each a method, a path and keywords of httpx; return the answers.

    started : whether the application is started before, and ended after.
    raising : whether an error inside of it is raised here.
    """

    async def asked():
        lifespan = app.router.lifespan_context(app) if started else nullcontext()
        transport = httpx.ASGITransport(app, raise_app_exceptions=raising)
        async with lifespan, httpx.AsyncClient(transport=transport, base_url=base) as client:
            return [await client.request(*one[:2], **dict(*one[2:])) for one in requests]

    return anyio.run(asked)
