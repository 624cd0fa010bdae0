"""The labelling pages ``/comparisons``: reports, single comparisons, and the labelling queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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

from data.comparisons.labels.label_store import LabelStore, StoredLabel, UnreachableError
from serving.comparisons.labelling.offered import OfferedComparisons
from serving.comparisons.labelling.pool import LabelOrder, LabelPool, Reader, StoredLabels
from serving.comparisons.labelling.rows import ContentsLine, Heading, ShownComparison, report_rows
from serving.comparisons.labels import endpoints
from serving.http.authentication import request_token
from serving.http.browser_pages import page_response
from serving.http.schemas import RefusedError
from serving.reports.rendering import render

T = TypeVar("T")
#: Threads that render pages.
THREADS = 4
#: Most reports in the contents, and most rows on one page of a report.
LISTED, ROWS = 300, 400
#: Most comparisons per answer of the queue.
QUEUED = 100
#: Most of them in a list for browsers without scripts.
_FIRST = 10
#: Most letters of a search.
_LETTERS = 200
_AWAY = "their store did not answer when it was last asked"
#: Cookies: the name of a person without a token, and whether they see everything.
_NAME, _SHOW = "perfjudge.name", "perfjudge.show"
#: Annotators with a label of at most this age share the queue.
AT_WORK = timedelta(minutes=15)
#: The content security policy lets scripts and forms send requests to this server.
_SAME_ORIGIN = {"connect-src": "'self'", "form-action": "'self'"}


def install(app: FastAPI) -> None:
    """Add the labelling pages and the endpoints of labels; sets ``labels`` and ``pool`` of `app`'s state.

    ``labels`` is the label store, None if the settings have no address of one. Before the call, the state
    must have ``settings``, ``models`` and ``failure_checks``. InputError if the address of the label store is
    invalid; source, store and model are not read here.
    """
    endpoints.install_endpoints(app)
    source = app.state.settings.options.get("comparisons")
    app.state.pool = LabelPool(None if source is None else Path(source), app.state.models.get("model"))
    pages, threads = _Pages(app), CapacityLimiter(THREADS)
    for path, shown in (
        ("/comparisons", pages.show_contents),
        ("/comparisons/next", pages.show_next),
        ("/comparisons/queue", pages.list_queue),
        ("/comparisons/{report}", pages.show_report),
        ("/comparisons/{report}/{comparison}", pages.show_comparison),
    ):
        app.get(path, include_in_schema=False)(_in_threads(shown, threads))


@dataclass(frozen=True)
class _Pages:
    app: FastAPI

    def show_contents(self, request: Request) -> Response:
        """List the reports, those with most unlabelled comparisons first."""
        offered, reader = self._label_pool.offered_comparisons(), self._page_reader(request)
        # the order must not reveal hidden verdicts
        answers = self._label_pool.offered_verdicts() if reader.sees_all else None
        find = request.query_params.get("find", "")[:_LETTERS].strip()
        lines = []
        for report in offered.reports.values():
            line = ContentsLine.from_report(offered, report, answers, reader)
            operations = (
                name if reader.sees_all else offered.mask_name(name, row)
                for row in report.rows.tolist()
                for name in [offered.named.operations[row]]
            )
            if line.contains_text(find, operations):
                lines.append(line)
        lines.sort(key=lambda line: (-line.open, line.labelled - len(line.report.rows)))
        return self._render_page(
            request,
            "contents",
            reader,
            lines=lines[:LISTED],
            found=len(lines),
            find=find,
            reports=len(offered.reports),
            comparisons=len(offered),
            labels=len(reader.labels.decided_rows),
            undecided=len(reader.labels.table) - len(reader.labels.decided_rows),
            judged=answers is not None,
        )

    def show_next(self, request: Request) -> Response:
        """Show the comparisons to label first, one after the other; scripts request them."""
        offered, reader = self._label_pool.offered_comparisons(), self._page_reader(request)
        order = self._label_pool.labelling_order(reader.labels.decided_rows)
        names = [] if order is None else _unlabelled_names(order, reader)[:_FIRST]
        first = [_queue_entry(offered, name) for name in names]
        return self._render_page(request, "next", reader, first=first)

    def list_queue(self, request: Request) -> Response:
        """Return the comparisons to label first as JSON, without labelled ones."""
        offered, reader = self._label_pool.offered_comparisons(), self._page_reader(request)
        order = self._label_pool.labelling_order(
            reader.labels.decided_rows, use_all_labels="anew" in request.query_params
        )
        if order is None:
            detail = self._label_pool.order_failure or "the order is being computed"
            return JSONResponse({"detail": detail}, HTTPStatus.ACCEPTED)
        names = order_by_share(_unlabelled_names(order, reader), reader.labels, reader.name)
        content = {
            "left": len(names),
            "labels": len(reader.labels.decided_rows),
            "learnt": order.labels,
            "comparisons": [_queue_entry(offered, name) for name in names[:QUEUED]],
        }
        return JSONResponse(content)

    def show_report(self, request: Request) -> Response:
        """Show a report as in figure 6.2: operations by configurations, with forms to label them."""
        offered, reader = self._label_pool.offered_comparisons(), self._page_reader(request)
        report = _require_key(offered.reports, request.path_params["report"])
        from_ = request.query_params.get("from", "0")
        start = int(from_) if from_.isdecimal() and len(from_) < len("1000000000") else 0
        start = start if start < len(report.rows) else 0
        rows = report.rows[start : start + ROWS]
        seen = [row for row in rows.tolist() if reader.may_see(offered.named.identifiers[row])]
        judgement = self._label_pool.judge_rows(np.array(seen)) if seen else None
        verdicts = {} if judgement is None else dict(zip(seen, judgement.verdicts, strict=True))
        shown = list(report_rows(offered, rows, verdicts, reader))
        return self._render_page(
            request,
            "report",
            reader,
            report=report,
            heading=Heading.from_report(offered, report, reader),
            rows=shown,
            threads=sorted({threads for row in shown for threads in row.cells}),
            benchmarks=sorted({row.benchmark for row in shown}),
            start=start,
            pages=range(0, len(report.rows), ROWS),
        )

    def show_comparison(self, request: Request) -> Response:
        """Show one comparison in detail; versions and verdict only if the reader may see them."""
        offered, reader = self._label_pool.offered_comparisons(), self._page_reader(request)
        place = _require_key(offered.by_key, request.path_params["comparison"])
        report = offered.report_of(place)
        _require_key({report.key: report}, request.path_params["report"])
        name, in_row = offered.named.identifiers[place], "row" in request.query_params
        sees = reader.may_see(name)
        judgement = self._label_pool.judge_rows(np.array([place])) if sees else None
        # in a row, the versions would reveal those of all rows of the report
        versions = Heading.from_report(offered, report, reader).shown if in_row else sees
        history: list[StoredLabel] = []
        if sees and self._label_store is not None:
            with suppress(UnreachableError):
                history = self._label_store.label_history(name)
        return self._render_page(
            request,
            "comparison",
            reader,
            one=ShownComparison.from_row(offered, place, judgement, reader, versions=versions),
            history=history,
            in_row=in_row,
        )

    @property
    def _label_pool(self) -> LabelPool:
        pool: LabelPool = self.app.state.pool
        return pool

    @property
    def _label_store(self) -> LabelStore | None:
        store: LabelStore | None = self.app.state.labels
        return store

    def _current_labels(self) -> StoredLabels:
        """Return the current labels; none if their store does not answer, which every page says."""
        if self._label_store is not None and self._label_store.is_unreachable:
            return StoredLabels.empty_labels(_AWAY)
        try:
            return (
                StoredLabels.empty_labels()
                if self._label_store is None
                else StoredLabels.from_current(self._label_store.current_labels())
            )
        except UnreachableError as exc:
            return StoredLabels.empty_labels(str(exc))

    def _page_reader(self, request: Request) -> Reader:
        token, cookies = request_token(request.scope), request.cookies
        name = unquote(cookies.get(_NAME, "")) if token is None else token.name
        wanted = request.query_params.get("show", cookies.get(_SHOW))
        return Reader(name, self._current_labels(), wanted == "all")

    def _render_page(self, request: Request, name: str, reader: Reader, **content: Any) -> Response:
        token = request_token(request.scope)
        refused = (
            "" if self._label_store is not None else "perfjudge serve was started without a place for labels"
        )
        if token is not None and "label" not in token.scopes:
            refused = f'the token of "{token.name}" does not allow to label'
        return page_response(
            render(
                f"labelling/{name}.html",
                csrf=self.app.state.csrf.page_token(request.scope),
                person="" if token is None else token.name,
                refused=refused,
                away=reader.labels.away,
                failures=self._label_pool.failure_reasons(),
                reader=reader,
                **content,
            ),
            extra_sources=_SAME_ORIGIN,
        )


def _queue_entry(offered: OfferedComparisons, name: str) -> Mapping[str, str]:
    row = offered.positions[name]
    key = offered.keys[row]
    return {
        "comparison": key,
        "href": f"/comparisons/{offered.report_of(row).key}/{key}",
        "name": offered.mask_name(offered.named.operations[row], row),
    }


def order_by_share(names: Sequence[str], labels: StoredLabels, person: str) -> Sequence[str]:
    """Return all `names`, first the share of `person`, so that annotators label different comparisons.

    Of n annotators, sorted by name (those with a label of the last 15 minutes, and `person`), the i-th gets
    every n-th name from the i-th on; the other names follow. Without a `person` (empty), the order is
    unchanged.
    """
    now = datetime.now(UTC)
    recent = labels.table["labelled_at"] > now - AT_WORK
    people = sorted({*labels.table["labelled_by"][recent], person} - {""})
    if person not in people:
        return names
    turn, count = people.index(person), len(people)
    return [*names[turn::count], *(name for at, name in enumerate(names) if at % count != turn)]


def _in_threads(
    shown: Callable[[Request], Response], threads: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that runs in `threads`; while data is read, browsers get a page that reloads."""

    async def answer_in_thread(request: Request) -> Response:
        try:
            return await to_thread.run_sync(shown, request, limiter=threads)
        except RefusedError as exc:
            browses = "text/html" in request.headers.get("accept", "")
            if not browses or "retry-after" not in (exc.headers or {}):
                raise
            response = page_response(render("labelling/wait.html", detail=exc.detail), exc.status_code)
            response.headers.update(exc.headers or {})
            return response

    return answer_in_thread


def _unlabelled_names(order: LabelOrder, reader: Reader) -> list[str]:
    labels = reader.labels
    return [
        name for name in order.identifiers if not labels.is_decided(name) and not reader.reader_label(name)
    ]


def _require_key(values: Mapping[str, T], key: str) -> T:
    if key not in values:
        raise RefusedError(
            HTTPStatus.NOT_FOUND, "no such comparison is offered here; GET /comparisons says which"
        )
    return values[key]
