"""The server's answers. All requests read; no request changes anything.

Pages of stored runs may come from anybody. They are served with a policy that gives them an origin of their
own (`sandbox`), so that a script in one reads no other page.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.errors import AckedError, BadDataError, UsageError
from harness.openmetrics import CONTENT_TYPE
from report.assessment import read_assessment
from report.model.compare_assessments import compare_assessments
from report.model.shapes import ASSESSMENT
from report.page.comparison import assessments_page
from report.page.frame import inner, placed
from report.page.live import live_fragment, live_page, message_fragment
from report.page.shelf import Listing, message_page, shelf_page
from run.metrics import openmetrics
from studies.browse.live import LiveRun
from studies.browse.pages import series_page
from studies.browse.shelf import DATA, MOST, PAGES, Entry, Selection, Shelf, plain_file, selected

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names by which a browser here asks. Another name means that a page elsewhere asks (DNS rebinding)."""
EVENTS_S = 1.0
"""How often the folder is looked at for whoever watches the list."""
_STORED = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:"
)
_COOKIE = "acked-token"
_LARGEST_BYTES = 16_000_000
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"cache-control": b"no-store",
}


def application(shelf: Shelf, *, host: str = "127.0.0.1", token: str = "") -> Starlette:
    """The ASGI application.

    With a ``token``, only requests that have it are answered, as `?token=` or as a cookie.
    """
    server = _Server(shelf)
    middleware = [Middleware(_Guard, token=token)]
    if not token:
        middleware.append(
            Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, host], www_redirect=False)
        )
    run = "/runs/{address:path}"
    return Starlette(
        routes=[
            Route("/", server.listing),
            Route("/events", server.events),
            Route("/runs.json", server.as_json),
            Route("/compare", server.comparison),
            Route("/metrics", server.metrics),
            Route(f"{run}/", server.page),
            Route(f"{run}/live", server.live),
            Route(f"{run}/live/events", server.live_events),
            Route(f"{run}/history.edn", server.edn),
            Route(f"{run}/report.json", server.report),
            Route(f"{run}/tables/{{table}}.parquet", server.table),
            Route(f"{run}/tables/{{table}}.zip", server.table),
            Route(f"{run}/{{file}}", server.file),
        ],
        middleware=middleware,
        exception_handlers={AckedError: _refused, 404: _absent},
    )


class _Server:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._rendering = asyncio.Semaphore(1)
        self._live: dict[str, LiveRun] = {}
        self._metered: dict[str, LiveRun] = {}
        """What was under way when a collector asked last."""
        self._watchers: Counter[str] = Counter()

    async def listing(self, request: Request) -> Response:
        wanted = _selection(request.query_params)
        entries = await run_in_threadpool(self._shelf.entries)
        chosen = selected(entries.values(), wanted)
        ticked = frozenset(request.query_params.getlist("run"))
        lines = await run_in_threadpool(lambda: [_line(entry, ticked) for entry in chosen[:MOST]])
        listing = Listing(
            folder=str(self._shelf.runs),
            entries=lines,
            more=max(0, len(chosen) - MOST),
            every=len(entries),
            wanted=vars(wanted),
            choices=_choices(entries.values()),
        )
        text, policy = shelf_page(listing)
        return HTMLResponse(text, headers={"content-security-policy": policy})

    async def events(self, request: Request) -> Response:
        async def changes() -> AsyncIterator[str]:
            before = None
            while not await request.is_disconnected():
                now = await run_in_threadpool(self._shelf.state)
                yield ": \n\n" if now == before else f"event: changed\ndata: {now}\n\n"
                before = now
                await asyncio.sleep(EVENTS_S)

        return StreamingResponse(changes(), media_type="text/event-stream")

    async def as_json(self, request: Request) -> Response:
        entries = await run_in_threadpool(self._shelf.entries)
        chosen = selected(entries.values(), _selection(request.query_params))
        lines = await run_in_threadpool(lambda: [_line(entry, frozenset()) for entry in chosen])
        return JSONResponse(lines)

    async def metrics(self, request: Request) -> Response:
        """All runs that are under way, as OpenMetrics."""
        entries = await run_in_threadpool(self._shelf.entries)
        followed = [entry for entry in entries.values() if entry.under_way and not entry.series]
        self._metered = {
            entry.address: self._live.get(entry.address)
            or self._metered.get(entry.address)
            or LiveRun(entry.folder)
            for entry in followed
        }
        text = await run_in_threadpool(_metrics, dict(self._metered))
        return Response(text, media_type=CONTENT_TYPE)

    async def page(self, request: Request) -> Response:
        """The page that a command left; if there is none, it is made for this answer, and not stored."""
        entry = await self._entry(request)
        if entry.under_way and not request.path_params.get("file"):
            return RedirectResponse("live")
        around = await run_in_threadpool(self._shelf.around, entry)
        for name in PAGES:
            try:
                return await run_in_threadpool(_stored_page, plain_file(entry, name), around)
            except BadDataError:
                continue
        if not entry.series and not entry.judged:
            raise BadDataError(f"{entry.address} has no page yet: it is {entry.outcome}.")
        async with self._rendering:
            if entry.series:
                page = await run_in_threadpool(series_page, entry.folder, self._shelf.link(entry))
            else:
                page = await run_in_threadpool(_rendered, entry.folder)
        return HTMLResponse(placed(page, around), headers={"content-security-policy": _STORED})

    async def live(self, request: Request) -> Response:
        entry = await self._entry(request)
        if not entry.under_way:
            return RedirectResponse("./")
        text, policy = live_page(entry.address, entry.name, entry.title, entry.kafka, entry.mode)
        return HTMLResponse(text, headers={"content-security-policy": policy})

    async def live_events(self, request: Request) -> Response:
        """Pictures of a run under way, each time that they have changed; then that it is over."""
        followed = await self._entry(request)
        run = self._live.setdefault(followed.address, LiveRun(followed.folder))

        async def pictures() -> AsyncIterator[str]:
            self._watchers[followed.address] += 1
            try:
                before = ""
                while not await request.is_disconnected():
                    if not await run_in_threadpool(self._under_way, followed.address):
                        yield "event: over\ndata: \n\n"
                        return
                    shown = await run_in_threadpool(self._shown, followed, run)
                    yield ": \n\n" if shown == before else f"data: {json.dumps(shown)}\n\n"
                    before = shown
                    await asyncio.sleep(EVENTS_S)
            finally:
                self._watchers[followed.address] -= 1
                if not self._watchers[followed.address]:
                    self._live.pop(followed.address, None)

        return StreamingResponse(pictures(), media_type="text/event-stream")

    def _shown(self, entry: Entry, run: LiveRun) -> str:
        """What the live page shows: the pictures of a run, or the page of a series as far as it has grown."""
        if not entry.series:
            return _pictures(run)
        try:
            return inner(series_page(entry.folder, self._shelf.link(entry)))
        except AckedError as error:
            return message_fragment(error.message)

    def _under_way(self, address: str) -> bool:
        with suppress(BadDataError):
            return self._shelf.entry(address).under_way
        return False

    async def file(self, request: Request) -> Response:
        entry = await self._entry(request)
        name = request.path_params["file"]
        if name in PAGES:
            return await self.page(request)
        if name not in DATA:
            raise BadDataError(f"{entry.address} has no file of this name that is served.")
        file = plain_file(entry, *(known for known in DATA if known == name))
        return FileResponse(file, media_type=DATA[name], filename=_download(entry, name))

    async def table(self, request: Request) -> Response:
        """A table as one Parquet file, or as a ZIP archive of its files."""
        entry = await self._entry(request)
        name = request.path_params["table"]
        if name not in entry.tables:
            has = ", ".join(entry.tables) or "none"
            raise BadDataError(f"{entry.address} has no such table; it has {has}.")
        files = [plain_file(entry, *parts) for parts in entry.tables[name]]
        if request.url.path.endswith(".zip"):
            return StreamingResponse(
                _archive(name, files),
                media_type="application/zip",
                headers=_attachment(_download(entry, f"{name}.zip")),
            )
        if len(files) > 1:
            return RedirectResponse(f"{quote(name)}.zip")
        return FileResponse(
            files[0],
            media_type="application/vnd.apache.parquet",
            filename=_download(entry, f"{name}.parquet"),
        )

    async def report(self, request: Request) -> Response:
        entry = await self._entry(request)
        async with self._rendering:
            text = await run_in_threadpool(_report, entry.folder)
        headers = _attachment(_download(entry, "report.json"))
        return Response(text, media_type="application/json", headers=headers)

    async def edn(self, request: Request) -> Response:
        entry = await self._entry(request)
        file = Path(tempfile.mkstemp(prefix="acked-", suffix=".edn")[1])
        remove = BackgroundTask(file.unlink, missing_ok=True)
        try:
            async with self._rendering:
                await run_in_threadpool(_export, entry.folder, file)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return FileResponse(
            file, media_type="application/edn", filename=_download(entry, "history.edn"), background=remove
        )

    async def comparison(self, request: Request) -> Response:
        chosen = request.query_params.getlist("run")
        entries = await run_in_threadpool(self._shelf.entries)
        compared = [entries[address] for address in chosen if address in entries]
        fit = len(chosen) == len(compared) == 2 and all(one.comparable for one in compared)
        if not fit or compared[0].series != compared[1].series:
            raise UsageError(
                "Two judged runs are compared, or two assessments, that are stored here; tick exactly two."
            )
        compare = _compared_assessments if compared[0].series else _compared
        async with self._rendering:
            text = await run_in_threadpool(compare, compared[0], compared[1])
        page = placed(text, [("all results", "/")])
        return HTMLResponse(page, headers={"content-security-policy": _STORED})

    async def _entry(self, request: Request) -> Entry:
        return await run_in_threadpool(self._shelf.entry, request.path_params["address"])


class _Guard:
    """Asks for the token, and adds to each answer what keeps browsers from misusing it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        given = request.query_params.get("token") or request.cookies.get(_COOKIE, "")
        cookie: list[tuple[bytes, bytes]] = []

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS.items(), *cookie]
            await send(message)

        if self._token and not hmac.compare_digest(given.encode(), self._token.encode()):
            refused = PlainTextResponse(
                "Open the address that `acked serve` printed; it has the token.\n", 401
            )
            return await refused(scope, receive, send_with_headers)
        if self._token and "token" in request.query_params:
            value = f"{_COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Lax"
            cookie.append((b"set-cookie", value.encode()))
        return await self._app(scope, receive, send_with_headers)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AckedError)
    text, policy = message_page(error.message)
    headers = {"content-security-policy": policy}
    return HTMLResponse(text, 400 if isinstance(error, UsageError) else 404, headers=headers)


async def _absent(request: Request, _error: Exception) -> Response:
    return await _refused(request, BadDataError("There is no page at this address; the list shows all runs."))


def _selection(parameters: Mapping[str, str]) -> Selection:
    return Selection(**{name: parameters.get(name, "").strip() for name in Selection.__dataclass_fields__})


def _line(entry: Entry, ticked: frozenset[str]) -> Mapping[str, object]:
    return {
        "address": entry.address,
        "name": entry.name,
        "title": entry.title,
        "time": entry.time,
        "kafka": entry.kafka,
        "mode": entry.mode,
        "outcome": entry.outcome,
        "tone": entry.headline.tone,
        "headline": entry.headline.text,
        "findings": list(entry.findings),
        "lost": entry.lost,
        "bytes": entry.size_bytes,
        "under_way": entry.under_way,
        "series": entry.series,
        "judged": entry.judged,
        "comparable": entry.comparable,
        "tables": list(entry.tables),
        "ticked": entry.address in ticked,
    }


def _choices(entries: Iterable[Entry]) -> Mapping[str, Sequence[str]]:
    every = list(entries)
    return {
        "kafka": sorted({entry.kafka for entry in every if entry.kafka}),
        "verdict": sorted({entry.outcome for entry in every if not entry.series}),
        "finding": sorted({finding for entry in every for finding in entry.findings}),
    }


def _stored_page(file: Path, around: Sequence[tuple[str, str]]) -> Response:
    """A stored page, with links to what is around it unless it is larger than any that acked writes."""
    headers = {"content-security-policy": _STORED}
    if file.stat().st_size > _LARGEST_BYTES:
        return FileResponse(file, media_type="text/html", headers=headers)
    page = file.read_text(encoding="utf-8", errors="replace")
    return HTMLResponse(placed(page, around), headers=headers)


def _metrics(runs: Mapping[str, LiveRun]) -> str:
    return openmetrics({address: run.standing() for address, run in runs.items()})


def _pictures(run: LiveRun) -> str:
    try:
        model = run.model()
    except AckedError as error:
        return message_fragment(error.message)
    return message_fragment("The run begins.") if model is None else live_fragment(model)


def _rendered(folder: Path) -> str:
    from report.model.gather import report_model
    from report.page.render import page

    return page(report_model(folder))


def _report(folder: Path) -> str:
    from report.model.gather import report_model

    return json.dumps(report_model(folder).as_json(), indent=1) + "\n"


def _compared(one: Entry, other: Entry) -> str:
    from report.model.compare import compare
    from report.model.gather import report_model
    from report.page.comparison import comparison_page

    models = report_model(one.folder), report_model(other.folder)
    return comparison_page(compare(*models), *models, _addresses(one, other))


def _compared_assessments(one: Entry, other: Entry) -> str:
    documents = read_assessment(one.folder / ASSESSMENT), read_assessment(other.folder / ASSESSMENT)
    comparison = compare_assessments(*documents, (one.address, other.address))
    return assessments_page(comparison, *documents, _addresses(one, other))


def _addresses(one: Entry, other: Entry) -> tuple[str, str]:
    return f"/runs/{quote(one.address)}/", f"/runs/{quote(other.address)}/"


def _export(folder: Path, file: Path) -> None:
    from checkers.ask.jepsen.export import export

    export(folder, file, final_log=True)


def _archive(name: str, files: Sequence[Path]) -> Iterator[bytes]:
    """A ZIP archive of Parquet files, which are compressed already, piece by piece."""
    written = _Pieces()
    with zipfile.ZipFile(written, "w") as archive:
        for file in files:
            with file.open("rb") as opened, archive.open(f"{name}.parquet/{file.name}", "w") as inside:
                while piece := opened.read(1 << 20):
                    inside.write(piece)
                    yield written.taken()
    yield written.taken()


class _Pieces(io.RawIOBase):
    """What has been written since it was taken last; it cannot seek, so an archive is written in one go."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: object) -> int:
        self._pieces.append(bytes(piece))  # type: ignore[call-overload]
        return len(self._pieces[-1])

    def taken(self) -> bytes:
        """The bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _download(entry: Entry, name: str) -> str:
    return f"{entry.address.replace('/', '-')}-{name}"


def _attachment(name: str) -> Mapping[str, str]:
    return {"content-disposition": f"attachment; filename*=utf-8''{quote(name)}"}
