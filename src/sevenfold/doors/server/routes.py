"""The requests that are answered."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sevenfold.doors.server import definition as bodies
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Caller
from sevenfold.doors.server.definition import checked_name, read
from sevenfold.doors.server.events import Cursor, recorded
from sevenfold.doors.server.live import LiveSession, SessionKey, Standing, described
from sevenfold.doors.server.metrics import CONTENT_TYPE, ServerMetrics
from sevenfold.doors.server.openapi import document
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.sessions import Sessions
from sevenfold.errors import InputError, SevenfoldError, TranscriptMissing

USER_HEADER = "sevenfold-user"
BODY_SECONDS = 30.0
"""In which the body of a request has to arrive."""
HEARTBEAT_SECONDS = 15.0
"""After which a silent stream says that it is alive."""
ELSEWHERE_SECONDS = 1.0
"""Between two looks at the log of a session that is not open here."""
STREAM_END_SECONDS = 5.0
"""In which a program has to read the rest of a stream when the server stops."""
ELSEWHERE_STATE_SECONDS = 3.0
"""Between two looks at what such a session is doing, if nothing is told of it."""
MOST_LISTED = 1_000
MOST_FOUND = 100
_BEARER = re.compile(r"[Bb]earer ([\x21-\x7e]{1,400})")
_STREAM = "text/event-stream"
Endpoint = Callable[[Request], Awaitable[Response]]


class ApiAnswer(Response):
    """JSON by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The encoded content."""
        return msgspec.json.encode(content)


class Api:
    """The requests over the sessions of a server."""

    def __init__(self, sessions: Sessions, metrics: ServerMetrics) -> None:
        self.stopping = asyncio.Event()
        """Set when all streams are to end."""
        self._sessions = sessions
        self._metrics = metrics
        self._limits = sessions.options.limits
        self._streams = 0
        self._requests_of: Counter[str] = Counter()
        metrics.gauge("streams_open", "Streams that are open", lambda: self._streams)

    async def end_streams(self) -> None:
        """Let all streams tell the rest, and end."""
        self.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_END_SECONDS):
                while self._streams:
                    await asyncio.sleep(0.01)

    def routes(self) -> list[Route]:
        """Every address that is answered."""
        session = "/v1/sessions/{id}"
        route = self._route
        return [
            route("/healthz", "GET", self.health),
            route("/readyz", "GET", self.ready),
            route("/metrics", "GET", self.metrics),
            route("/openapi.json", "GET", self.openapi),
            route("/v1/sessions", "GET", self.list_sessions),
            route("/v1/sessions", "POST", self.create),
            route(session, "GET", self.session),
            route(session, "DELETE", self.erase),
            route(f"{session}/say", "POST", self.say),
            route(f"{session}/results", "POST", self.results),
            route(f"{session}/continue", "POST", self.go_on),
            route(f"{session}/interrupt", "POST", self.interrupt),
            route(f"{session}/compact", "POST", self.compact),
            route(f"{session}/undo", "POST", self.undo),
            route(f"{session}/events", "GET", self.events),
            route(f"{session}/recall", "GET", self.recall),
            route(f"{session}/export", "GET", self.export),
            route("/v1/memory", "GET", self.list_memory),
            route("/v1/memory/{name:path}", "GET", self.memory),
            route("/v1/memory/{name:path}", "DELETE", self.forget),
            route("/v1/usage", "GET", self.usage),
        ]

    def _route(self, path: str, method: str, endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except SevenfoldError as error:
                raise problems.of(error) from error
            finally:
                self._uncount(request)

        return Route(path, answer, methods=[method], name=f"{method} {path}")

    # -- the server ------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Whether the server is alive."""
        return ApiAnswer({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent to this server."""
        if self._sessions.draining:
            raise problems.busy("server_stopping", "this server is about to stop", status=503)
        await self._sessions.in_thread(self._sessions.accounts.check)
        return ApiAnswer({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        """The description of all requests."""
        return ApiAnswer(document())

    # -- sessions --------------------------------------------------------------------------------

    async def list_sessions(self, request: Request) -> Response:
        """The caller's sessions, newest first."""
        caller = await self._caller(request)
        since = _number(request, "since", 0, 10**12)
        limit = _number(request, "limit", 100, MOST_LISTED)
        listed = await self._sessions.in_thread(partial(self._sessions.listed, caller, since, limit))
        return ApiAnswer(
            {
                "sessions": [
                    {"id": session.name, "modified": session.modified, "bytes": session.size}
                    for session in listed
                ]
            }
        )

    async def create(self, request: Request) -> Response:
        """Make a session."""
        caller = await self._caller(request)
        body = read(await self._body(request), bodies.CreateBody)
        if body.id:
            checked_name(body.id)
        definition = body.definition()
        models = self._sessions.options.models
        if not definition.model:
            if not models:
                raise InputError("say which model: this server has no usual one")
            definition = msgspec.structs.replace(definition, model=models[0])
        key = _key(caller, body.id or secrets.token_hex(12))
        new = await self._sessions.in_thread(partial(self._sessions.create, key, definition, caller))
        return ApiAnswer(await self._described(key), 201 if new else 200)

    async def session(self, request: Request) -> Response:
        """What a session is made of and what it is doing."""
        caller = await self._caller(request)
        return ApiAnswer(await self._described(_key_of(request, caller), gauge=True))

    async def erase(self, request: Request) -> Response:
        """Remove a session for good."""
        caller = await self._caller(request)
        await self._sessions.erase(_key_of(request, caller))
        return Response(status_code=204)

    async def _described(self, key: SessionKey, *, gauge: bool = False) -> dict[str, Any]:
        live = self._sessions.live(key)
        in_thread = self._sessions.in_thread
        definition = await in_thread(partial(self._sessions.definition_of, key))
        shown = {"id": key.name, **msgspec.to_builtins(definition)}
        if live is None:
            return {**shown, **described(await in_thread(partial(self._sessions.recorded_standing, key)))}
        shown |= described(await in_thread(live.standing))
        if live.last is not None and not live.working:
            shown["last_run"] = msgspec.to_builtins(live.last)
        return {**shown, "gauge": await in_thread(live.gauge)} if gauge else shown

    # -- working ---------------------------------------------------------------------------------

    async def say(self, request: Request) -> Response:
        """Say something, and let the agent work."""
        caller = await self._caller(request)
        key = _key_of(request, caller)
        body = read(await self._body(request), bodies.SayBody)
        if not body.text.strip():
            raise Problem(422, "invalid_body", "the text has to have at least one visible character")
        message = body.key or secrets.token_hex(16)

        def begin(live: LiveSession) -> bool:
            state = live.standing()
            known = bool(body.key) and live.knows(message)
            if state.status == "working" and not known:
                raise problems.busy(
                    "session_working",
                    "the session is working; read its events, interrupt it, or wait for the run to end",
                    status=409,
                )
            if state.status == "input_required" and not known:
                ids = ", ".join(call.id for call in state.waiting)
                raise Problem(
                    409,
                    "input_required",
                    f"the run waits for the results of {ids}: send them to …/results, or interrupt the session to go "
                    "on without",
                )
            if not known:
                live.say(body, message)
            return not known or state.status == "unfinished"

        return await self._begin(request, key, caller, begin, wait=body.wait, more={"key": message})

    async def results(self, request: Request) -> Response:
        """Bring results of calls that the run waits for; with the last one it goes on."""
        caller = await self._caller(request)
        key = _key_of(request, caller)
        body = read(await self._body(request), bodies.ResultsBody)

        def begin(live: LiveSession) -> bool:
            if live.working:
                raise problems.busy(
                    "session_working", "the session is working, and waits for nothing", status=409
                )
            live.results(body.results)
            # Also if all of them were on record before: the server may have died before it went on.
            return live.standing().status == "unfinished"

        return await self._begin(request, key, caller, begin, wait=body.wait)

    async def go_on(self, request: Request) -> Response:
        """Go on with a run that ended before the model was done."""
        caller = await self._caller(request)
        key = _key_of(request, caller)
        body = read(await self._body(request), bodies.ContinueBody)

        def begin(live: LiveSession) -> bool:
            state = live.standing()
            if state.status == "input_required":
                raise Problem(409, "input_required", "the run waits for results: send them to …/results")
            return state.status == "unfinished"

        return await self._begin(request, key, caller, begin, wait=body.wait)

    async def _begin(
        self,
        request: Request,
        key: SessionKey,
        caller: Caller,
        begin: Callable[[LiveSession], bool],
        *,
        wait: bool,
        more: dict[str, Any] | None = None,
    ) -> Response:
        """Begin a run if there is something to do, and answer as the program wants it: at once, at the end, or both."""
        in_thread = self._sessions.in_thread
        self._sessions.check_room(key)
        async with self._sessions.using(key, caller) as live:
            place = live.place
            run = self._sessions.run_of(key)
            if await in_thread(partial(begin, live)):
                # Another request of this tenant may have taken the last place; what was said is on record all the same.
                self._sessions.check_room(key)
                run = await self._sessions.start(live)
        if _STREAM in request.headers.get("accept", ""):
            return self._stream(request, key, place, until_idle=True)
        if wait and run is not None:
            await asyncio.wait([run.done])
        state = await in_thread(live.standing)
        answer = {"id": key.name, **described(state), "after": str(place), **(more or {})}
        if wait and live.last is not None and not live.working:
            answer["run"] = msgspec.to_builtins(live.last)
        return ApiAnswer(answer, 202 if state.status == "working" else 200)

    async def interrupt(self, request: Request) -> Response:
        """Stop the run; calls that it waits for get no results any more."""
        caller = await self._caller(request)
        key = _key_of(request, caller)
        read(await self._body(request), bodies.InterruptBody)
        live = self._sessions.live(key)
        run = self._sessions.run_of(key)
        if live is not None and run is not None:
            await self._sessions.interrupt(live, run)
            return ApiAnswer({"id": key.name, "interrupted": True, **described(live.standing())})
        async with self._sessions.using(key, caller) as live:
            state = await self._sessions.in_thread(live.standing)
            waited = state.status == "input_required"
            if waited:
                await self._sessions.in_thread(live.give_up)
                state = await self._sessions.in_thread(live.standing)
        return ApiAnswer({"id": key.name, "interrupted": waited, **described(state)})

    async def compact(self, request: Request) -> Response:
        """Summarise the conversation."""
        caller = await self._caller(request)
        body = read(await self._body(request), bodies.CompactBody)
        async with self._idle(request, caller) as live:
            return ApiAnswer(await self._sessions.in_thread(partial(live.compact, body.instructions)))

    async def undo(self, request: Request) -> Response:
        """Undo a decision of the layers."""
        caller = await self._caller(request)
        body = read(await self._body(request), bodies.UndoBody)
        async with self._idle(request, caller) as live:
            return ApiAnswer({"undone": await self._sessions.in_thread(partial(live.undo, body.decision))})

    # -- reading ---------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """What happened and happens, as a stream."""
        caller = await self._caller(request)
        key = _key_of(request, caller)
        await self._sessions.in_thread(partial(self._sessions.definition_of, key))
        place = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        until = request.query_params.get("until", "")
        if until not in ("", "idle"):
            raise Problem(400, "invalid_query", f"until has to be idle or left out, got {until!r:.40}")
        return self._stream(request, key, Cursor.of(place), until_idle=until == "idle")

    async def recall(self, request: Request) -> Response:
        """Search everything that was said in a session."""
        caller = await self._caller(request)
        query = request.query_params.get("query", "")
        if not query.strip():
            raise Problem(400, "invalid_query", "say what to look for: …/recall?query=words")
        most = _number(request, "most", 10, MOST_FOUND)
        async with self._sessions.using(_key_of(request, caller), caller) as live:
            hits = await self._sessions.in_thread(partial(live.recall, query[:1_000], most))
        return ApiAnswer({"hits": hits})

    async def export(self, request: Request) -> Response:
        """The whole log of a session, line by line."""
        caller = await self._caller(request)
        key = _key_of(request, caller)

        def lines() -> Iterator[bytes]:
            self._sessions.definition_of(key)
            try:
                yield from self._sessions.store_of(key.tenant, key.user).export(key.name)
            except TranscriptMissing:
                return

        exported = lines()
        first = await self._sessions.in_thread(partial(next, exported, b""))

        async def pieces() -> AsyncIterator[bytes]:
            yield first
            while piece := await self._sessions.in_thread(partial(_some, exported)):
                yield piece

        return StreamingResponse(pieces(), media_type="application/jsonl")

    async def list_memory(self, request: Request) -> Response:
        """What is remembered of the caller's user: the names of its parts."""
        caller = await self._caller(request)

        def names() -> list[str]:
            store = self._sessions.store_of(caller.tenant.name, caller.user)
            return [
                *(f"project/{name}" for name in store.memory().names()),
                *(f"user/{name}" for name in store.user_memory().names()),
            ]

        return ApiAnswer({"memory": await self._sessions.in_thread(names)})

    async def memory(self, request: Request) -> Response:
        """A part of what is remembered."""
        caller = await self._caller(request)
        name = request.path_params["name"]

        def content() -> bytes | None:
            folder, file = self._memory_file(caller, name)
            return None if file is None else folder.read(file)

        text = await self._sessions.in_thread(content)
        if text is None:
            raise Problem(
                404,
                "memory_not_found",
                f"nothing is remembered under {name!r:.200}; list it with /v1/memory",
            )
        return Response(text, media_type="text/markdown; charset=utf-8")

    async def forget(self, request: Request) -> Response:
        """Remove a part of what is remembered."""
        caller = await self._caller(request)
        name = request.path_params["name"]

        def remove() -> bool:
            folder, file = self._memory_file(caller, name)
            if file is None:
                return False
            with folder.lock(wait=5.0):
                folder.remove(file)
            return True

        if not await self._sessions.in_thread(remove):
            raise Problem(
                404,
                "memory_not_found",
                f"nothing is remembered under {name!r:.200}; list it with /v1/memory",
            )
        return Response(status_code=204)

    def _memory_file(self, caller: Caller, name: str) -> tuple[Any, str | None]:
        """The folder and the file's name there; None if there is no such file, whatever the name tries."""
        store = self._sessions.store_of(caller.tenant.name, caller.user)
        scope, _, file = name.partition("/")
        folder = store.user_memory() if scope == "user" else store.memory()
        there = scope in ("project", "user") and file in folder.names()
        return folder, file if there else None

    async def usage(self, request: Request) -> Response:
        """What was spent of the budgets that count for the caller."""
        caller = await self._caller(request)
        both = await self._sessions.in_thread(partial(self._sessions.accounts.spending, caller))
        shown = [
            {
                "of": of,
                "spent_usd": spending.spent,
                "reserved_usd": spending.reserved,
                "budget_usd": None if spending.budget is None else spending.budget.usd,
                "per": None if spending.budget is None else spending.budget.per,
            }
            for of, spending in zip(("tenant", "user"), both, strict=True)
        ]
        return ApiAnswer({"usage": shown})

    # -- streams ---------------------------------------------------------------------------------

    def _stream(self, request: Request, key: SessionKey, place: Cursor, *, until_idle: bool) -> Response:
        if self._streams >= self._limits.streams:
            raise problems.busy("server_busy", "as many streams are open as this server takes", status=503)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(request, key, place, until_idle=until_idle), media_type=_STREAM, headers=headers
        )

    async def _events(
        self, request: Request, key: SessionKey, place: Cursor, *, until_idle: bool
    ) -> AsyncIterator[bytes]:
        self._streams += 1
        loop = asyncio.get_running_loop()
        said = ""
        looked = 0.0
        state: Standing | None = None
        live: LiveSession | None = None
        try:
            while True:
                # Before looking for news: what is told until the server stops is not lost.
                stopping = self.stopping.is_set()
                told, place, live = await self._news(key, place, live)
                for raw in told:
                    yield raw
                if stopping or await request.is_disconnected():
                    yield b"event: closing\ndata: {}\n\n"
                    return
                if told:
                    state = None
                    continue
                # Where the session is not open here, its log has to be read for that.
                is_open = live is not None and not live.feed.closed
                if state is None or is_open or loop.time() - looked > ELSEWHERE_STATE_SECONDS:
                    state = await self._state(key, live)
                    looked = loop.time()
                    status = msgspec.json.encode(described(state)).decode()
                    if status != said:
                        said = status
                        yield f"event: status\ndata: {status}\n\n".encode()
                if until_idle and state.status != "working":
                    return
                if not await self._wait(live, place):
                    yield b": alive\n\n"
        except SevenfoldError as error:
            yield b"event: error\ndata: %s\n\n" % problems.of(error).body()
        except Problem as problem:
            yield b"event: error\ndata: %s\n\n" % problem.body()
        finally:
            self._streams -= 1

    async def _news(
        self, key: SessionKey, place: Cursor, before: LiveSession | None
    ) -> tuple[list[bytes], Cursor, LiveSession | None]:
        """The events behind a place: from the feed if the session is open here, else those that last from the log."""
        live = self._sessions.live(key)
        if before is not None and before is not live:
            # It was closed meanwhile; what it told last is not lost.
            rest = before.feed.after(place)
            if rest is not None and rest[0]:
                return [*rest[0]], rest[1], before
        fed = None if live is None else live.feed.after(place)
        if fed is not None:
            return [*fed[0]], fed[1], live

        def from_log() -> tuple[list[bytes], Cursor]:
            definition = self._sessions.definition_of(key)
            log = self._sessions.log_of(key)
            behind = Cursor(place.position, place.skip)
            raw: list[bytes] = []
            for event in () if log is None else recorded(log, behind, definition.client_tools):
                raw.append(event.encoded())
                behind = event.after
                if len(raw) >= 500:
                    break
            return raw, behind

        told, place = await self._sessions.in_thread(from_log)
        return told, place, live

    async def _state(self, key: SessionKey, live: LiveSession | None) -> Standing:
        if live is not None and not live.feed.closed:
            return await self._sessions.in_thread(live.standing)
        return await self._sessions.in_thread(partial(self._sessions.recorded_standing, key))

    async def _wait(self, live: LiveSession | None, place: Cursor) -> bool:
        """Wait for news; False if there were none for so long that the stream says that it is alive."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if live is None or live.feed.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(ELSEWHERE_SECONDS):
                    await self.stopping.wait()
            return True
        stopping = asyncio.create_task(self.stopping.wait())
        news = asyncio.create_task(live.feed.wait(place, HEARTBEAT_SECONDS))
        try:
            await asyncio.wait((stopping, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, news):
                task.cancel()
            await asyncio.gather(stopping, news, return_exceptions=True)
        return loop.time() - began < HEARTBEAT_SECONDS

    # -- who asks, and what ----------------------------------------------------------------------

    async def _caller(self, request: Request) -> Caller:
        """Who sent a request; raises `Problem` if that is nobody we know."""
        given = request.headers.getlist("authorization")
        matched = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if matched is None:
            raise _unauthorized("send a token: Authorization: Bearer svf_…")
        users = request.headers.getlist(USER_HEADER)
        try:
            user = unquote(users[0], errors="strict") if len(users) == 1 else ""
        except UnicodeDecodeError:
            user = "\x00"
        if (
            len(users) > 1
            or len(user) > 200
            or any(character < " " or character == "\x7f" for character in user)
        ):
            raise Problem(
                400,
                "invalid_user",
                "the header Sevenfold-User has to be one name of at most 200 characters, in UTF-8 and "
                "percent-encoded",
            )
        caller = await self._sessions.in_thread(partial(self._sessions.accounts.caller, matched[1], user))
        if caller is None:
            raise _unauthorized("this token is wrong or revoked, or is not good for this user")
        self._count(request, caller.tenant.name)
        return caller

    def _count(self, request: Request, tenant: str) -> None:
        """Count a request that is being answered; raises `Problem` if its tenant has too many of them."""
        most = max(1, self._limits.requests // 2)
        if self._requests_of[tenant] >= most:
            raise problems.busy(
                "tenant_busy", f"{most} requests of this tenant are being answered; send fewer at a time"
            )
        self._requests_of[tenant] += 1
        request.state.tenant = tenant

    def _uncount(self, request: Request) -> None:
        tenant = getattr(request.state, "tenant", None)
        if tenant is not None:
            self._requests_of[tenant] -= 1
            if not self._requests_of[tenant]:
                del self._requests_of[tenant]

    async def _body(self, request: Request) -> bytes:
        """The body of a request; raises `Problem` if it is too long or takes too long."""
        most = self._limits.body_bytes
        too_long = Problem(
            413,
            "body_too_large",
            f"the body has more than {most:,} bytes, which is the limit of this server",
        )
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:18]) > most:
            raise too_long
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        raise too_long
                    pieces.append(piece)
        except TimeoutError:
            raise Problem(
                408, "body_too_slow", f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
            ) from None
        except ClientDisconnect:
            raise Problem(400, "body_broken_off", "the body broke off") from None
        return b"".join(pieces)

    def _idle(self, request: Request, caller: Caller) -> Any:
        return _Idle(self._sessions, _key_of(request, caller), caller)


class _Idle:
    """Uses a session that is not working."""

    def __init__(self, sessions: Sessions, key: SessionKey, caller: Caller) -> None:
        self._using = sessions.using(key, caller)

    async def __aenter__(self) -> LiveSession:
        live = await self._using.__aenter__()
        if live.working:
            await self._using.__aexit__(None, None, None)
            raise problems.busy(
                "session_working", "the session is working; wait for the run to end", status=409
            )
        return live

    async def __aexit__(self, *error: Any) -> None:
        await self._using.__aexit__(*error)


def _key(caller: Caller, name: str) -> SessionKey:
    return SessionKey(caller.tenant.name, caller.user, name)


def _key_of(request: Request, caller: Caller) -> SessionKey:
    return _key(caller, checked_name(request.path_params["id"]))


def _unauthorized(message: str) -> Problem:
    return Problem(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})


def _number(request: Request, name: str, otherwise: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) <= most):
        raise Problem(
            400, "invalid_query", f"{name} has to be a whole number up to {most}, got {text!r:.40}"
        )
    return int(text)


def _some(lines: Iterator[bytes]) -> bytes:
    """The next lines, about a megabyte of them."""
    pieces: list[bytes] = []
    size = 0
    for line in lines:
        pieces.append(line)
        size += len(line)
        if size > 1 << 20:
            break
    return b"".join(pieces)
