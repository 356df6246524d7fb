"""The inspector's server: its page, what the page asks for, and streams of what is new."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sevenfold.archive.lifetimes import LaneHistory
from sevenfold.doors.addresses import listening
from sevenfold.doors.inspector import (
    compaction_view,
    content_view,
    memory_view,
    orders,
    proposal_view,
    replay_view,
    request_view,
    session_view,
    whatif_view,
)
from sevenfold.doors.inspector.guard import InspectorGuard
from sevenfold.doors.inspector.list_view import sessions_view
from sevenfold.doors.inspector.orders import MemoryOrder, Ordered, SessionOrder
from sevenfold.doors.inspector.shelf import InspectorShelf, OpenSession
from sevenfold.doors.inspector.wording import shown
from sevenfold.errors import SevenfoldError, UserError
from sevenfold.record.decoding import NOT_JSON

ASSETS = Path(__file__).parent / "assets"
POLL = 0.25
"""Seconds between two checks of a file that a page watches."""
LIST_POLL = 1.0
SENTENCES = 3.0
"""Seconds between two updates of what is said in words."""
HEARTBEAT = 15.0
"""Seconds after which a silent stream says that it is alive."""
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_MOST_TOOLS = 5
LONGEST_QUERY = compaction_view.QUERY
LONGEST_ORDER = 4_096
"""In bytes."""
T = TypeVar("T")
OrderBody = TypeVar("OrderBody", SessionOrder, MemoryOrder)


class JsonAnswer(Response):
    """JSON by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The encoded content."""
        return msgspec.json.encode(content)


class Inspector:
    """The routes over one shelf."""

    def __init__(self, shelf: InspectorShelf) -> None:
        self.shelf = shelf
        self.stopping = asyncio.Event()

    def routes(self) -> list[Route]:
        """Every address that is answered."""
        assets = [
            Route(f"/assets/{path.relative_to(ASSETS).as_posix()}", _file(path))
            for path in sorted(ASSETS.rglob("*"))
            if path.suffix in _TYPES
        ]
        return [
            Route("/", _file(ASSETS / "index.html")),
            *assets,
            Route("/api/sessions", self.sessions),
            Route("/api/sessions/stream", self.sessions_stream),
            Route("/api/s/{key}", self.session),
            Route("/api/s/{key}/progress", self.progress),
            Route("/api/s/{key}/series", self.series),
            Route("/api/s/{key}/stream", self.stream),
            Route("/api/s/{key}/r/{number:int}", self.request),
            Route("/api/s/{key}/r/{number:int}/bytes", self.bytes),
            Route("/api/s/{key}/r/{number:int}/body", self.body),
            Route("/api/s/{key}/record", self.record),
            Route("/api/s/{key}/item", self.item),
            Route("/api/s/{key}/recall", self.recall),
            Route("/api/s/{key}/compactions", self.compactions),
            Route("/api/s/{key}/whatif", self.whatif),
            Route("/api/s/{key}/replay", self.replay),
            Route("/api/s/{key}/undo", self.undo, methods=["POST"]),
            Route("/api/s/{key}/stop", self.stop, methods=["POST"]),
            Route("/api/s/{key}/proposals", self.proposals),
            Route("/api/s/{key}/agree", self.agree, methods=["POST"]),
            Route("/api/s/{key}/decline", self.decline, methods=["POST"]),
            Route("/api/memory", self.memory),
            Route("/api/memory/forget", self.forget, methods=["POST"]),
            Route("/api/memory/undo", self.undo_change, methods=["POST"]),
            Route("/api/tasks", self.tasks),
        ]

    # -- the list ----------------------------------------------------------------------------------

    async def sessions(self, request: Request) -> Response:
        """All sessions."""
        return JsonAnswer(await _in_thread(sessions_view, self.shelf))

    async def sessions_stream(self, request: Request) -> Response:
        """The list again, whenever it changed."""

        async def events() -> AsyncIterator[bytes]:
            seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
            spoke = time.monotonic()
            while not self.stopping.is_set() and not await request.is_disconnected():
                await _in_thread(self.shelf.listed)
                if self.shelf.state != seen:
                    seen = self.shelf.state
                    yield _event(await _in_thread(sessions_view, self.shelf), seen)
                    spoke = time.monotonic()
                elif time.monotonic() - spoke > HEARTBEAT:
                    yield b": alive\n\n"
                    spoke = time.monotonic()
                await self._pause(LIST_POLL)

        return _stream(events())

    # -- a session ---------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """A session."""
        running = self._running(request)
        return await self._read(
            request, lambda session: session_view.session_view(session, running=running)
        )

    async def progress(self, request: Request) -> Response:
        """How far a session has been read that is read for the first time."""
        session = self.shelf.open(request.path_params["key"])
        return JsonAnswer(
            {"done": session.done if session else 0, "total": session.total if session else 0}
        )

    async def series(self, request: Request) -> Response:
        """Some of its requests."""
        start = _whole(request, "from", 0)
        end = _whole(request, "to", 2**31)
        tools = _tools(request)

        def view(session: OpenSession) -> dict[str, Any]:
            lane = session.reader.history.main
            return session_view.series_view(lane, session_view.named_bands(lane, tools), start, end)

        return await self._read(request, view)

    async def request(self, request: Request) -> Response:
        """One request."""
        return await self._read(
            request, lambda session: request_view.request_view(session, _number(request))
        )

    async def bytes(self, request: Request) -> Response:
        """How the bytes of a request differ from those of the one before."""
        return await self._read(request, lambda session: request_view.bytes_view(session, _number(request)))

    async def body(self, request: Request) -> Response:
        """The exact bytes of a request, but for secrets."""
        session = self.shelf.open(request.path_params["key"])
        found = None
        if session is not None:
            found = await _in_thread(
                _held, session, lambda opened: request_view.body_view(opened, _number(request))
            )
        if found is None:
            return PlainTextResponse("the bytes of this request are not known\n", 404)
        body, masked = found
        return Response(body, media_type="application/octet-stream", headers={"X-Masked": str(masked)})

    async def record(self, request: Request) -> Response:
        """The content of a message."""
        uuid = request.query_params.get("id", "")
        return await self._read(request, lambda session: content_view.record_view(session, uuid))

    async def item(self, request: Request) -> Response:
        """The life of an item."""
        uuid = request.query_params.get("id", "")
        return await self._read(request, lambda session: content_view.life_view(session, uuid))

    async def recall(self, request: Request) -> Response:
        """A search over everything that was said."""
        query = request.query_params.get("q", "")[:LONGEST_QUERY]
        kinds = [kind for kind in request.query_params.get("kind", "").split(",") if kind]
        return await self._read(request, lambda session: content_view.recall_view(session, query, kinds))

    async def compactions(self, request: Request) -> Response:
        """What each compaction kept, and what it lost."""
        return await self._read(request, compaction_view.compactions_view)

    async def whatif(self, request: Request) -> Response:
        """What the session would have cost otherwise."""
        return await self._read(request, whatif_view.whatif_view)

    async def memory(self, request: Request) -> Response:
        """What is remembered."""
        return JsonAnswer(await _in_thread(memory_view.memory_view))

    async def tasks(self, request: Request) -> Response:
        """What runs in the background."""
        return JsonAnswer(await _in_thread(memory_view.tasks_view))

    async def proposals(self, request: Request) -> Response:
        """What a gateway proposes for a session."""
        listed = self.shelf.find(request.path_params["key"])
        if listed is None or listed.stored.tool != "Sevenfold":
            return JsonAnswer({"proposals": []})
        return JsonAnswer(await _in_thread(proposal_view.proposals_view, listed.stored.path))

    # -- orders ------------------------------------------------------------------------------------

    async def undo(self, request: Request) -> Response:
        """Undo a decision of a session."""
        return await self._order_session(request, orders.undo)

    async def stop(self, request: Request) -> Response:
        """Stop a task of a session."""
        return await self._order_session(request, orders.stop)

    async def agree(self, request: Request) -> Response:
        """Agree to what a gateway proposes."""
        return await self._order_session(request, orders.agree)

    async def decline(self, request: Request) -> Response:
        """Decline what a gateway proposes."""
        return await self._order_session(request, orders.decline)

    async def forget(self, request: Request) -> Response:
        """Forget an entry of memory."""
        return await self._order(request, MemoryOrder, orders.forget)

    async def undo_change(self, request: Request) -> Response:
        """Undo a change of memory."""
        return await self._order(request, MemoryOrder, orders.undo_change)

    async def _order_session(self, request: Request, act: Callable[[Path, str], Ordered]) -> Response:
        listed = self.shelf.find(request.path_params["key"])
        if listed is None:
            return JsonAnswer({"error": "There is no such session on this machine any more."}, 404)
        stored = listed.stored
        if reason := orders.why_not(stored.path, stored.tool):
            return JsonAnswer({"error": reason}, 422)
        return await self._order(request, SessionOrder, lambda order: act(stored.path, order.target))

    async def _order(
        self, request: Request, kind: type[OrderBody], act: Callable[[OrderBody], Ordered]
    ) -> Response:
        try:
            order = msgspec.json.decode(await _body(request), type=kind)
            ordered = await _in_thread(act, order)
        except NOT_JSON as error:
            return JsonAnswer({"error": f"This is no order: {shown(str(error), 200)}"}, 422)
        except SevenfoldError as error:
            return JsonAnswer({"error": shown(str(error), 400)}, 422)
        return JsonAnswer({"done": ordered.done, "text": shown(ordered.text, 400)})

    # -- live --------------------------------------------------------------------------------------

    async def stream(self, request: Request) -> Response:
        """What is new in a session, from a cursor on: the id of the last event, or what the page was opened with."""
        session = self.shelf.open(request.path_params["key"])
        if session is None:
            return PlainTextResponse("there is no such session\n", 404)
        cursor = request.headers.get("last-event-id") or request.query_params.get("cursor", "")
        follower = Following(session, _tools(request), cursor, _whole(request, "revised", 0))

        async def events() -> AsyncIterator[bytes]:
            running: bool | None = None
            spoke = time.monotonic()
            while not self.stopping.is_set() and not await request.is_disconnected():
                try:
                    news = await _in_thread(_locked, session, follower.news)
                except UserError as error:
                    yield _event({"error": shown(str(error), 400)}, "")
                    return
                now_running = self._running(request)
                if news or now_running != running:
                    running = now_running
                    yield _event({**(news or {}), "running": running}, follower.cursor)
                    spoke = time.monotonic()
                elif time.monotonic() - spoke > HEARTBEAT:
                    yield b": alive\n\n"
                    spoke = time.monotonic()
                await self._pause(POLL)

        return _stream(events())

    def _running(self, request: Request) -> bool:
        listed = self.shelf.find(request.path_params["key"])
        return listed is not None and listed.running

    async def replay(self, request: Request) -> Response:
        """What the session would have cost under other policies."""
        session = self.shelf.open(request.path_params["key"])
        if session is None:
            return JsonAnswer({"error": "There is no such session on this machine any more."}, 404)
        try:
            head = await _in_thread(_held, session, session_view.head_view)
            # Without the session's lock: a replay takes seconds, and reads the file for itself.
            return JsonAnswer(
                await _in_thread(replay_view.replay_view, session.stored.path, head["window"])
            )
        except UserError as error:
            return JsonAnswer({"error": shown(str(error), 400)}, 422)

    async def _read(self, request: Request, view: Callable[[OpenSession], Any]) -> Response:
        session = self.shelf.open(request.path_params["key"])
        if session is None:
            return JsonAnswer({"error": "There is no such session on this machine any more."}, 404)
        try:
            answer = await _in_thread(_held, session, view)
        except UserError as error:
            return JsonAnswer({"error": shown(str(error), 400)}, 422)
        if answer is None:
            return JsonAnswer({"error": "There is no such request or record in this session."}, 404)
        return JsonAnswer(answer)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)


class Following:
    """What one page already has of a session."""

    def __init__(self, session: OpenSession, tools: list[str], cursor: str, revised: int) -> None:
        """``cursor`` is where another one, perhaps of another process, had come to."""
        self._session = session
        self._tools = tools
        self._have, self._mark = _read_cursor(cursor)
        self._version = 0
        self._revised = revised
        self._records = -1
        self._told = time.monotonic()
        self._unsaid = False
        """Whether there was news since the sentences were last sent."""

    @property
    def cursor(self) -> str:
        """Where to continue after the connection, or this process, was lost."""
        return f"{self._have}:{self._mark}"

    def news(self) -> dict[str, Any] | None:
        """What the page does not have yet; None if there is nothing."""
        session = self._session
        session.catch_up()
        reader = session.reader
        lane = reader.history.main
        if self._is_another(reader.version, lane):
            return {"reload": True}
        if reader.history.records == self._records:
            return self._sentences()
        first = self._records < 0
        self._records = reader.history.records
        if first and len(lane.requests) == self._have and lane.revised == self._revised:
            return None
        start = max(0, min(self._have, len(lane.requests)) - 1)
        self._have = len(lane.requests)
        self._mark = session.mark(self._have)
        self._revised = lane.revised
        bands = session_view.named_bands(lane, self._tools)
        self._unsaid = True
        return {
            "series": session_view.series_view(lane, bands, start),
            "head": session_view.head_view(session),
            "breaks": [session_view.break_view(lost) for lost in session_view.breaks_of(session)[:200]],
            "marks": session_view.marks_view(session)[-200:],
        }

    def _is_another(self, version: int, lane: LaneHistory) -> bool:
        """Whether what the page has is not the beginning of what there is, as after a file was replaced."""
        if version == self._version:
            return False
        if self._version:
            return True
        self._version = version
        return len(lane.requests) < self._have or self._session.mark(self._have) != self._mark

    def _sentences(self) -> dict[str, Any] | None:
        """What is to be said in words: it takes a look at every item, so it comes after the figures."""
        if not self._unsaid or time.monotonic() - self._told < SENTENCES:
            return None
        self._unsaid = False
        self._told = time.monotonic()
        items = session_view.dearest(self._session.reader.history.main, 1)
        return {"head": session_view.head_view(self._session, items)}


def _read_cursor(cursor: str) -> tuple[int, str]:
    count, _, mark = cursor.partition(":")
    return (int(count), mark) if count.isdecimal() and len(count) < 11 else (0, "")


def _held(session: OpenSession, view: Callable[[OpenSession], T]) -> T:
    """Look at a session that is up to date."""
    with session.lock:
        session.catch_up()
        return view(session)


def _locked(session: OpenSession, act: Callable[[], T]) -> T:
    with session.lock:
        return act()


async def _in_thread(act: Callable[..., T], *arguments: Any) -> T:
    return await anyio.to_thread.run_sync(partial(act, *arguments))


def _event(data: Any, cursor: str) -> bytes:
    name = f"id: {cursor}\n".encode() if cursor else b""
    return name + b"data: " + msgspec.json.encode(data) + b"\n\n"


def _stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream")


def _file(path: Path) -> Callable[[Request], Any]:
    async def send(request: Request) -> Response:
        return FileResponse(path, media_type=_TYPES[path.suffix])

    return send


async def _body(request: Request) -> bytes:
    """The body of an order; what is longer than any order is cut off, and so is none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_ORDER:
            return b""
    return body


def _whole(request: Request, name: str, otherwise: int) -> int:
    value = request.query_params.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 11 else otherwise


def _number(request: Request) -> int:
    return int(request.path_params["number"])


def _tools(request: Request) -> list[str]:
    """The tools with bands of their own, as the page was told them."""
    try:
        tools = json.loads(request.query_params.get("tools", "[]"))
    except ValueError:
        tools = []
    named = tools if isinstance(tools, list) else []
    return [tool for tool in named if isinstance(tool, str)][:_MOST_TOOLS]


def application(shelf: InspectorShelf, token: str, port: int) -> tuple[InspectorGuard, Inspector]:
    """The server as an ASGI application for one port."""
    inspector = Inspector(shelf)
    return InspectorGuard(Starlette(routes=inspector.routes()), token, port), inspector


class InspectorServer:
    """A running server on a port of this machine."""

    def __init__(self, shelf: InspectorShelf, token: str, port: int = 0) -> None:
        """Bind the port; raises `UserError` if it cannot be used."""
        # Only this machine, whatever is configured: sessions are nobody else's business. From now on connections wait:
        # the address may be opened before the first is answered.
        self._listener = listening("127.0.0.1", port)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/"
        self._shelf = shelf
        self._ended = threading.Event()
        app, self._inspector = application(shelf, token, self.port)
        settings = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        self._server = _Server(settings, self._inspector.stopping)

    def run(self) -> None:
        """Serve until interrupted."""
        summarising = threading.Thread(target=self._summarise, daemon=True, name="summaries")
        summarising.start()
        try:
            self._server.run(sockets=[self._listener])
        finally:
            self._ended.set()
            self._listener.close()

    def stop(self) -> None:
        """Let `run` return; safe to call from another thread."""
        self._server.should_exit = True

    @property
    def started(self) -> bool:
        """Whether requests are answered."""
        return self._server.started

    def _summarise(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(UserError, OSError):
                self._shelf.summarise()
            self._ended.wait(LIST_POLL)


class _Server(uvicorn.Server):
    """Ends its streams when it is asked to end; otherwise it would wait for them."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the server."""
        self._stopping.set()
        await super().shutdown(sockets)
