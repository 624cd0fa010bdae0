"""The pages ``/comparisons``: reports of two results, one comparison, and what to label first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from data.comparisons.labels.label_store import AwayError, KeptLabel, LabelStore
from serving.comparisons.labelling.offered import Offered, OfferedReport
from serving.comparisons.labelling.pool import LabelOrder, LabelPool, LabelsGiven, Reader
from serving.comparisons.labelling.rows import ContentsLine, Heading, ShownComparison, rows_of
from serving.comparisons.labels import endpoints
from serving.http.authentication import holder
from serving.http.browser_pages import page
from serving.http.schemas import RefusedError
from serving.reports.rendering import render

T = TypeVar("T")
#: Pages that are made at once.
THREADS = 4
#: Reports that the contents list at once, and rows that a page of a report has.
LISTED, ROWS = 300, 400
#: Comparisons that are handed out at once, to be labelled one after the other.
QUEUED = 100
#: Those of them that are named where there are no scripts.
_FIRST = 10
#: Letters of a search that count.
_LETTERS = 200
_AWAY = "their store did not answer when it was last asked"
#: Cookies that pages set: as whom a person without a token labels, and whether they see everything.
_NAME, _SHOW = "perfjudge.name", "perfjudge.show"
#: How long after their last label people count as being at it.
AT_WORK = timedelta(minutes=15)
#: What scripts and forms of the pages may ask: this server.
_OWN = {"connect-src": "'self'", "form-action": "'self'"}


def install(app: FastAPI) -> None:
    """Let `app` take labels and show comparisons; its ``state`` gets ``labels`` and the ``pool``."""
    endpoints.install(app)
    source = app.state.settings.options.get("comparisons")
    app.state.pool = LabelPool(None if source is None else Path(source), app.state.models.get("model"))
    pages, threads = _Pages(app), CapacityLimiter(THREADS)
    for path, shown in (
        ("/comparisons", pages.contents),
        ("/comparisons/next", pages.next),
        ("/comparisons/queue", pages.queue),
        ("/comparisons/{report}", pages.report),
        ("/comparisons/{report}/{comparison}", pages.comparison),
    ):
        app.get(path, include_in_schema=False)(_patient(shown, threads))


@dataclass(frozen=True)
class _Pages:
    """What answers at each address."""

    app: FastAPI

    def contents(self, request: Request) -> Response:
        """List the reports, those first that want attention."""
        offered, reader = self._pool.offered(), self._reader(request)
        # the order must not tell verdicts that are hidden
        answers = self._pool.verdicts() if reader.sees_all else None
        find = request.query_params.get("find", "")[:_LETTERS].strip()
        every = (ContentsLine.of(offered, report, answers, reader) for report in offered.reports.values())
        lines = sorted(
            (line for line in every if line.has(find, _operations(offered, line.report, reader))),
            key=lambda line: (-line.open, line.labelled - len(line.report.rows)),
        )
        return self._page(
            request,
            "contents",
            reader,
            lines=lines[:LISTED],
            found=len(lines),
            find=find,
            reports=len(offered.reports),
            comparisons=len(offered),
            labels=len(reader.given.decided),
            undecided=len(reader.given.table) - len(reader.given.decided),
            judged=answers is not None,
            troubles=self._pool.troubles(),
        )

    def next(self, request: Request) -> Response:
        """Show what to label first, one after the other; scripts ask for them."""
        offered, reader = self._pool.offered(), self._reader(request)
        order = self._pool.order(reader.given.decided)
        names = [] if order is None else _free(order, reader)[:_FIRST]
        first = [_queued(offered, name) for name in names]
        return self._page(request, "next", reader, first=first, troubles=self._pool.troubles())

    def queue(self, request: Request) -> Response:
        """Name what to label first, as JSON: without what somebody has labelled, or the reader answered."""
        offered, reader = self._pool.offered(), self._reader(request)
        order = self._pool.order(reader.given.decided, anew="anew" in request.query_params)
        if order is None:
            told = next(iter(self._pool.troubles()), "what to label first is being computed")
            return JSONResponse({"detail": told}, HTTPStatus.ACCEPTED)
        free = shared(_free(order, reader), reader.given, reader.name)
        content = {
            "left": len(free),
            "labels": len(reader.given.decided),
            "learnt": order.labels,
            "comparisons": [_queued(offered, name) for name in free[:QUEUED]],
        }
        return JSONResponse(content)

    def report(self, request: Request) -> Response:
        """Show figure 6.2: operations by configurations, with the form to label them."""
        offered, reader = self._pool.offered(), self._reader(request)
        report = _found(offered.reports, request.path_params["report"])
        start = _number(request.query_params.get("from", "0"), len(report.rows))
        rows = report.rows[start : start + ROWS]
        seen = [row for row in rows.tolist() if reader.sees(offered.named.identifiers[row])]
        judgement = self._pool.judgement(np.array(seen)) if seen else None
        verdicts = {} if judgement is None else dict(zip(seen, judgement.verdicts, strict=True))
        shown = list(rows_of(offered, rows, verdicts, reader))
        return self._page(
            request,
            "report",
            reader,
            report=report,
            heading=Heading.of(offered, report, reader),
            rows=shown,
            threads=sorted({threads for row in shown for threads in row.cells}),
            benchmarks=sorted({row.benchmark for row in shown}),
            start=start,
            pages=range(0, len(report.rows), ROWS),
        )

    def comparison(self, request: Request) -> Response:
        """Show one comparison with all that helps to decide; what gives the answer away comes after it."""
        offered, reader = self._pool.offered(), self._reader(request)
        place = _found(offered.by_key, request.path_params["comparison"])
        report = offered.report_of(place)
        if report.key != request.path_params["report"]:
            raise _lost()
        name, in_row = offered.named.identifiers[place], "row" in request.query_params
        sees = reader.sees(name)
        judgement = self._pool.judgement(np.array([place])) if sees else None
        # the versions of a row are those of all rows of its report
        versions = Heading.of(offered, report, reader).shown if in_row else sees
        return self._page(
            request,
            "comparison",
            reader,
            one=ShownComparison.of(offered, place, judgement, reader, versions=versions),
            history=self._history(name) if sees else [],
            in_row=in_row,
        )

    @property
    def _pool(self) -> LabelPool:
        pool: LabelPool = self.app.state.pool
        return pool

    @property
    def _store(self) -> LabelStore | None:
        store: LabelStore | None = self.app.state.labels
        return store

    def _given(self) -> LabelsGiven:
        """Return the labels; where their store does not answer, none, which every page says."""
        if self._store is not None and self._store.away:
            return LabelsGiven.none(_AWAY)
        try:
            return LabelsGiven.none() if self._store is None else LabelsGiven.of(self._store.current())
        except AwayError as exc:
            return LabelsGiven.none(str(exc))

    def _history(self, comparison_id: str) -> list[KeptLabel]:
        with suppress(AwayError):
            return [] if self._store is None else self._store.history(comparison_id)
        return []

    def _reader(self, request: Request) -> Reader:
        """Return who asks: by their token, else as they call themselves in this browser."""
        token, cookies = holder(request.scope), request.cookies
        name = unquote(cookies.get(_NAME, "")) if token is None else token.name
        wanted = request.query_params.get("show", cookies.get(_SHOW))
        return Reader(name, self._given(), wanted == "all")

    def _page(self, request: Request, name: str, reader: Reader, **content: Any) -> Response:
        token, store = holder(request.scope), self._store
        why = "perfjudge serve was started without a place for labels" if store is None else ""
        if token is not None and "label" not in token.scopes:
            why = f'the token of "{token.name}" does not allow to label'
        return page(
            render(
                f"labelling/{name}.html",
                csrf=self.app.state.csrf.token(request.scope),
                person="" if token is None else token.name,
                refused=why,
                away=reader.given.away,
                reader=reader,
                **content,
            ),
            further=_OWN,
        )


def _queued(offered: Offered, name: str) -> Mapping[str, str]:
    """Return what scripts need to know of a comparison: its key, its address, and what was measured."""
    row = offered.places[name]
    key = offered.keys[row]
    operation = offered.masked(offered.named.operations[row], row)
    return {
        "comparison": key,
        "href": f"/comparisons/{offered.report_of(row).key}/{key}",
        "name": operation,
    }


def shared(names: Sequence[str], given: LabelsGiven, person: str) -> Sequence[str]:
    """Put first what falls to a person if all who label now take turns: nobody need look at the same."""
    now = datetime.now(UTC)
    recent = given.table["labelled_at"] > now - AT_WORK
    people = sorted({*given.table["labelled_by"][recent], person} - {""})
    if person not in people:
        return names
    turn, many = people.index(person), len(people)
    return [*names[turn::many], *(name for at, name in enumerate(names) if at % many != turn)]


def _patient(
    shown: Callable[[Request], Response], threads: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    """Answer in threads that nobody else waits for, and let people wait for what is still being read."""

    async def answer(request: Request) -> Response:
        try:
            return await to_thread.run_sync(shown, request, limiter=threads)
        except RefusedError as exc:
            browses = "text/html" in request.headers.get("accept", "")
            if not browses or "retry-after" not in (exc.headers or {}):
                raise
            sent = page(render("labelling/wait.html", detail=exc.detail), exc.status_code)
            sent.headers.update(exc.headers or {})
            return sent

    return answer


def _free(order: LabelOrder, reader: Reader) -> list[str]:
    """Return what nobody has labelled and the reader has not answered, in the order."""
    given = reader.given
    return [name for name in order.identifiers if not given.is_decided(name) and not reader.answer(name)]


def _operations(offered: Offered, report: OfferedReport, reader: Reader) -> Iterator[str]:
    for row in report.rows.tolist():
        name = offered.named.operations[row]
        yield name if reader.sees_all else offered.masked(name, row)


def _found(known: Mapping[str, T], key: str) -> T:
    found = known.get(key)
    if found is None:
        raise _lost()
    return found


def _lost() -> RefusedError:
    return RefusedError(
        HTTPStatus.NOT_FOUND, "no such comparison is offered here; GET /comparisons says which"
    )


def _number(text: str, most: int) -> int:
    """Return the first row of a page; 0 for what is none."""
    number = int(text) if text.isdecimal() and len(text) < len("1000000000") else 0
    return number if number < most else 0
