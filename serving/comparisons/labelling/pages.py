"""The labelling pages ``/comparisons``: reports, single comparisons, and the labelling queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from data.comparisons.labels.label_store import LabelStore, StoredLabel, UnreachableError
from data.comparisons.sides import Ints
from serving.comparisons.boxes import BoxDrawing, change_cells
from serving.comparisons.judge import Verdict
from serving.comparisons.labelling.pool import (
    HIDDEN,
    LabelOrder,
    LabelPool,
    OfferedReport,
    Reader,
    StoredLabels,
)
from serving.comparisons.labels import endpoints
from serving.http.authentication import request_token
from serving.http.browser_pages import page_response
from serving.http.schemas import RefusedError
from serving.reports.rendering import render
from serving.reports.verdict_lines import ANSWERS, Answer

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
    threads = CapacityLimiter(THREADS)
    for path, show in (
        ("/comparisons", _PageRequest.show_contents),
        ("/comparisons/next", _PageRequest.show_next),
        ("/comparisons/queue", _PageRequest.list_queue),
        ("/comparisons/{report}", _PageRequest.show_report),
        ("/comparisons/{report}/{comparison}", _PageRequest.show_comparison),
    ):
        app.get(path, include_in_schema=False)(_in_threads(show, threads))


class _PageRequest:
    """A request for a page, with the offered comparisons and the reader's permissions."""

    def __init__(self, request: Request) -> None:
        self.request, self.query, state = request, request.query_params, request.app.state
        self.pool: LabelPool = state.pool
        self.store: LabelStore | None = state.labels
        self.offered, self.token = self.pool.offered_comparisons(), request_token(request.scope)
        name = unquote(request.cookies.get(_NAME, "")) if self.token is None else self.token.name
        wanted = self.query.get("show", request.cookies.get(_SHOW))
        self.reader = Reader(name, self._current_labels(), wanted == "all")

    def show_contents(self) -> Response:
        """List the reports, those with most unlabelled comparisons first."""
        offered, reader = self.offered, self.reader
        # the order must not reveal hidden verdicts
        answers = self.pool.offered_verdicts() if reader.sees_all else None
        find = self.query.get("find", "")[:_LETTERS].strip()
        headings = ((report, self._heading(report)) for report in offered.reports.values())
        lines = [
            self._contents_line(report, heading, answers)
            for report, heading in headings
            if not find or self._contains_text(report, heading, find)
        ]
        lines.sort(key=lambda line: (-line["open"], -line["unlabelled"]))
        decided = len(reader.labels.decided_rows)
        return self._render_page(
            "contents",
            lines=lines[:LISTED],
            found=len(lines),
            find=find,
            reports=len(offered.reports),
            comparisons=len(offered),
            labels=decided,
            undecided=len(reader.labels.table) - decided,
            judged=answers is not None,
        )

    def show_next(self) -> Response:
        """Show the comparisons to label first, one after the other; scripts request them."""
        order = self.pool.labelling_order(self.reader.labels.decided_rows)
        names = [] if order is None else self._unlabelled_names(order)[:_FIRST]
        return self._render_page("next", first=list(map(self._queue_entry, names)))

    def list_queue(self) -> Response:
        """Return the comparisons to label first as JSON, without labelled ones."""
        labels = self.reader.labels
        order = self.pool.labelling_order(labels.decided_rows, use_all_labels="anew" in self.query)
        if order is None:
            detail = self.pool.order_failure or "the order is being computed"
            return JSONResponse({"detail": detail}, HTTPStatus.ACCEPTED)
        names = order_by_share(self._unlabelled_names(order), labels, self.reader.name)
        counts = {"left": len(names), "labels": len(labels.decided_rows), "learnt": order.labels}
        return JSONResponse({**counts, "comparisons": list(map(self._queue_entry, names[:QUEUED]))})

    def show_report(self) -> Response:
        """Show a report as in figure 6.2: operations by configurations, with forms to label them."""
        report = _require_key(self.offered.reports, self.request.path_params["report"])
        from_ = self.query.get("from", "0")
        start = int(from_) if from_.isdecimal() and len(from_) < len("1000000000") else 0
        start = start if start < len(report.rows) else 0
        rows = report.rows[start : start + ROWS]
        seen = [row for row in rows.tolist() if self.reader.may_see(self.offered.named.identifiers[row])]
        judgement = self.pool.judge_rows(np.array(seen)) if seen else None
        verdicts = {} if judgement is None else dict(zip(seen, judgement.verdicts, strict=True))
        shown = list(self._report_rows(rows, verdicts))
        return self._render_page(
            "report",
            report=report,
            heading=self._heading(report),
            rows=shown,
            threads=sorted({threads for row in shown for threads in row["cells"]}),
            benchmarks=sorted({row["benchmark"] for row in shown}),
            start=start,
            pages=range(0, len(report.rows), ROWS),
        )

    def show_comparison(self) -> Response:
        """Show one comparison in detail; versions and verdict only if the reader may see them."""
        offered, reader, in_row = self.offered, self.reader, "row" in self.query
        place = _require_key(offered.by_key, self.request.path_params["comparison"])
        report, rows, name = offered.report_of(place), np.array([place]), offered.named.identifiers[place]
        _require_key({report.key: report}, self.request.path_params["report"])
        sees = reader.may_see(name)
        judgement = self.pool.judge_rows(rows) if sees else None
        verdicts = {} if judgement is None else {place: judgement.verdicts[0]}
        # in a row, the versions would reveal those of all rows of the report
        versions = self._heading(report)["shown"] if in_row else sees
        history: list[StoredLabel] = []
        if sees and self.store is not None:
            with suppress(UnreachableError):
                history = self.store.label_history(name)
        sides = offered.select_comparisons(rows).sides
        comparison = {
            "row": next(self._report_rows(rows, verdicts)),
            "report": report,
            "title": report.report_title(shown=versions),
            "machine": report.machine if versions else offered.mask_name(report.machine, place),
            "unit": offered.units[place],
            "better": "lower" if len(sides.sign) and sides.sign[0] < 0 else "higher",
            "drawing": BoxDrawing.from_sides(sides),
            "verdict": verdicts.get(place),
            "model": None if judgement is None else judgement.model,
        }
        return self._render_page("comparison", one=comparison, history=history, in_row=in_row)

    def _current_labels(self) -> StoredLabels:
        """Return the current labels; none if their store does not answer, which every page says."""
        if self.store is None:
            return StoredLabels.empty_labels()
        if self.store.is_unreachable:
            return StoredLabels.empty_labels(_AWAY)
        try:
            return StoredLabels.from_current(self.store.current_labels())
        except UnreachableError as exc:
            return StoredLabels.empty_labels(str(exc))

    def _heading(self, report: OfferedReport) -> dict[str, Any]:
        """Return the names of a report; versions are masked unless the reader may see all its comparisons."""
        rows, named = report.rows.tolist(), self.offered.named
        shown = all(self.reader.may_see(named.identifiers[row]) for row in rows)
        machine, benchmarks = report.machine, {named.benchmarks[row] for row in rows}
        if not shown:
            machine = self.offered.mask_name(machine, rows[0])
            benchmarks = {self.offered.mask_name(benchmark, rows[0]) for benchmark in benchmarks}
        title = report.report_title(shown=shown)
        return {"title": title, "machine": machine, "benchmarks": sorted(benchmarks), "shown": shown}

    def _contains_text(self, report: OfferedReport, heading: Mapping[str, Any], text: str) -> bool:
        """Return whether a text occurs in the shown names of a report, ignoring case."""
        rows, operations = report.rows.tolist(), self.offered.named.operations
        shown = (
            operations[row] if self.reader.sees_all else self.offered.mask_name(operations[row], row)
            for row in rows
        )
        names = chain((heading["title"], heading["machine"], *heading["benchmarks"]), shown)
        return any(text.casefold() in name.casefold() for name in names)

    def _contents_line(
        self, report: OfferedReport, heading: Mapping[str, Any], answers: Sequence[Answer] | None
    ) -> dict[str, Any]:
        """Return the line of a report; `answers`: the verdicts on all comparisons, None if unknown."""
        rows, labels = report.rows.tolist(), self.reader.labels
        names = {row: self.offered.named.identifiers[row] for row in rows}
        unlabelled = [
            row
            for row, name in names.items()
            if not labels.is_decided(name) and name not in self.offered.labels
        ]
        fails, unsure = (
            sum(answers[row] == answer for row in rows) if answers else None for answer in ("fail", "unsure")
        )
        return {
            "report": report,
            "heading": heading,
            "fails": fails,
            "unsure": unsure,
            "labelled": len(rows) - len(unlabelled),  # pass or fail, here or in the source
            "unlabelled": len(unlabelled),
            "undecided": sum(names[row] in labels.votes for row in unlabelled),
            "open": sum(not answers or answers[row] in {"fail", "unsure"} for row in unlabelled),
        }

    def _report_rows(self, rows: Ints, verdicts: Mapping[int, Verdict]) -> Iterator[dict[str, Any]]:
        """Yield the comparisons with the indices `rows` as rows of a report (scheduler thesis, figure 6.2).

        Where the reader may not see a comparison, versions in names become an ellipsis, and labels `HIDDEN`.
        `verdicts`: the model's verdicts to show, by index; others are None.
        """
        offered, reader, named = self.offered, self.reader, self.offered.named
        sides = offered.select_comparisons(rows).sides
        cells = change_cells(sides)
        for row, count in zip(rows.tolist(), sides.per_comparison.tolist(), strict=True):
            name = named.identifiers[row]
            shown, verdict = reader.may_see(name), verdicts.get(row)
            benchmark, operation = named.benchmarks[row], named.operations[row]
            if not shown:
                benchmark, operation = (offered.mask_name(text, row) for text in (benchmark, operation))
            source = offered.labels.get(name, "")
            yield {
                "key": offered.keys[row],
                "benchmark": benchmark,
                "operation": operation,
                "cells": {cell.threads: cell for cell in islice(cells, count)},
                "shown": shown,
                "verdict": verdict and verdict.verdict,
                "probability": verdict and verdict.probability,
                "urgency": ANSWERS.index(verdict.verdict) if verdict else len(ANSWERS),
                "votes": reader.visible_votes(name),
                "source": source if shown or not source else HIDDEN,
                "answer": reader.reader_label(name),
            }

    def _unlabelled_names(self, order: LabelOrder) -> list[str]:
        decided, own = self.reader.labels.is_decided, self.reader.reader_label
        return [name for name in order.identifiers if not decided(name) and not own(name)]

    def _queue_entry(self, name: str) -> Mapping[str, str]:
        offered, row = self.offered, self.offered.positions[name]
        return {
            "comparison": offered.keys[row],
            "href": f"/comparisons/{offered.report_of(row).key}/{offered.keys[row]}",
            "name": offered.mask_name(offered.named.operations[row], row),
        }

    def _render_page(self, name: str, **content: Any) -> Response:
        token, refused = self.token, ""
        if token is not None and "label" not in token.scopes:
            refused = f'the token of "{token.name}" does not allow to label'
        elif self.store is None:
            refused = "perfjudge serve was started without a place for labels"
        html = render(
            f"labelling/{name}.html",
            csrf=self.request.app.state.csrf.page_token(self.request.scope),
            person="" if token is None else token.name,
            refused=refused,
            away=self.reader.labels.away,
            failures=self.pool.failure_reasons(),
            reader=self.reader,
            **content,
        )
        return page_response(html, extra_sources=_SAME_ORIGIN)


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
    show: Callable[[_PageRequest], Response], threads: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that runs in `threads`; while data is read, browsers get a page that reloads."""

    async def answer_in_thread(request: Request) -> Response:
        try:
            return await to_thread.run_sync(lambda: show(_PageRequest(request)), limiter=threads)
        except RefusedError as exc:
            browses = "text/html" in request.headers.get("accept", "")
            if not browses or "retry-after" not in (exc.headers or {}):
                raise
            response = page_response(render("labelling/wait.html", detail=exc.detail), exc.status_code)
            response.headers.update(exc.headers or {})
            return response

    return answer_in_thread


def _require_key(values: Mapping[str, T], key: str) -> T:
    if key not in values:
        raise RefusedError(
            HTTPStatus.NOT_FOUND, "no such comparison is offered here; GET /comparisons says which"
        )
    return values[key]
