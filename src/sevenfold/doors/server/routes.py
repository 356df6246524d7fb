"""The requests that are answered."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sevenfold.doors.server import definition as bodies
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Caller
from sevenfold.doors.server.definition import checked_name, read
from sevenfold.doors.server.events import Cursor
from sevenfold.doors.server.live import LiveSession, SessionKey, described
from sevenfold.doors.server.metrics import CONTENT_TYPE, ServerMetrics
from sevenfold.doors.server.openapi import document
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.requests import RequestReader, whole_number
from sevenfold.doors.server.sessions import Sessions
from sevenfold.doors.server.streams import STREAM_TYPE, Streams
from sevenfold.errors import InputError, SevenfoldError, TranscriptMissing

MOST_LISTED = 1_000
MOST_FOUND = 100
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
        self.streams = Streams(sessions, metrics)
        self._sessions = sessions
        self._metrics = metrics
        self._reader = RequestReader(sessions)

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
                self._reader.answered(request)

        return Route(path, answer, methods=[method], name=f"{method} {path}")

    # -- the server ------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Whether the server is alive."""
        return ApiAnswer({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent to this server."""
        if self._sessions.runs.draining:
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
        caller = await self._reader.caller(request)
        since = whole_number(request, "since", 0, 10**12)
        limit = whole_number(request, "limit", 100, MOST_LISTED)
        listed = await self._sessions.in_thread(partial(self._sessions.stored.listed, caller, since, limit))
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
        caller = await self._reader.caller(request)
        body = read(await self._reader.body(request), bodies.CreateBody)
        if body.id:
            checked_name(body.id)
        definition = body.definition()
        models = self._sessions.options.models
        if not definition.model:
            if not models:
                raise InputError("say which model: this server has no usual one")
            definition = msgspec.structs.replace(definition, model=models[0])
        key = _key(caller, body.id or secrets.token_hex(12))
        new = await self._sessions.in_thread(partial(self._sessions.stored.create, key, definition, caller))
        return ApiAnswer(await self._described(key), 201 if new else 200)

    async def session(self, request: Request) -> Response:
        """What a session is made of and what it is doing."""
        caller = await self._reader.caller(request)
        return ApiAnswer(await self._described(_key_of(request, caller), gauge=True))

    async def erase(self, request: Request) -> Response:
        """Remove a session for good."""
        caller = await self._reader.caller(request)
        await self._sessions.open.erase(_key_of(request, caller))
        return Response(status_code=204)

    async def _described(self, key: SessionKey, *, gauge: bool = False) -> dict[str, Any]:
        live = self._sessions.open.live(key)
        in_thread = self._sessions.in_thread
        definition = await in_thread(partial(self._sessions.stored.definition_of, key))
        shown = {"id": key.name, **msgspec.to_builtins(definition)}
        if live is None:
            standing = await in_thread(partial(self._sessions.stored.recorded_standing, key))
            return {**shown, **described(standing)}
        shown |= described(await in_thread(live.standing))
        if live.last is not None and not live.working:
            shown["last_run"] = msgspec.to_builtins(live.last)
        return {**shown, "gauge": await in_thread(live.gauge)} if gauge else shown

    # -- working ---------------------------------------------------------------------------------

    async def say(self, request: Request) -> Response:
        """Say something, and let the agent work."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)
        body = read(await self._reader.body(request), bodies.SayBody)
        if not body.text.strip():
            raise Problem(422, "invalid_body", "the text has to have at least one visible character")
        message = body.key or secrets.token_hex(16)

        def begin(live: LiveSession) -> bool:
            state = live.recorded()
            known = bool(body.key) and live.knows(message)
            if live.working and not known:
                raise problems.busy(
                    "session_working",
                    "the session is working; read its events, interrupt it, or wait for the run to end",
                    status=409,
                )
            if state.status == "input_required" and not live.working and not known:
                ids = ", ".join(call.id for call in state.waiting)
                raise Problem(
                    409,
                    "input_required",
                    f"the run waits for the results of {ids}: send them to …/results, or interrupt the session to go "
                    "on without",
                )
            if not known:
                live.say(body, message)
            return not known or (state.status == "unfinished" and not live.working)

        return await self._begin(request, key, caller, begin, wait=body.wait, more={"key": message})

    async def results(self, request: Request) -> Response:
        """Record results of calls that the run waits for; with the last one, it continues."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)
        body = read(await self._reader.body(request), bodies.ResultsBody)

        def begin(live: LiveSession) -> bool:
            if live.working:
                raise problems.busy(
                    "session_working", "the session is working, and waits for nothing", status=409
                )
            live.results(body.results)
            # Also if all of them were on record before: the server may have died before it went on.
            return live.recorded().status == "unfinished"

        return await self._begin(request, key, caller, begin, wait=body.wait)

    async def go_on(self, request: Request) -> Response:
        """Continue a run that ended before the model was done."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)
        body = read(await self._reader.body(request), bodies.ContinueBody)

        def begin(live: LiveSession) -> bool:
            state = live.recorded()
            if live.working:
                return False
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
        self._sessions.runs.check_room(key)
        async with self._sessions.open.using(key, caller) as live:
            position = live.place
            run = self._sessions.runs.run_of(key)
            if live.run_due:
                # An earlier server left it, and this one has not come to it yet.
                run = await self._sessions.runs.start(live)
            # What is recorded now is work at once: a stream must not end before the run begins.
            live.run_due = True
            try:
                if await in_thread(partial(begin, live)):
                    # Another request of this tenant may have taken the last place; what was said is on record all the
                    # same.
                    self._sessions.runs.check_room(key)
                    run = await self._sessions.runs.start(live)
            finally:
                live.clear_due_run()
        if STREAM_TYPE in request.headers.get("accept", ""):
            return self.streams.open(request, key, position, until_idle=True)
        if wait and run is not None:
            await asyncio.wait([run.done])
        state = await in_thread(live.standing)
        answer = {"id": key.name, **described(state), "after": str(position), **(more or {})}
        if wait and live.last is not None and not live.working:
            answer["run"] = msgspec.to_builtins(live.last)
        return ApiAnswer(answer, 202 if state.status == "working" else 200)

    async def interrupt(self, request: Request) -> Response:
        """Stop the run; calls that it waits for get no results any more."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)
        read(await self._reader.body(request), bodies.InterruptBody)
        live = self._sessions.open.live(key)
        run = self._sessions.runs.run_of(key)
        if live is not None and run is not None:
            await self._sessions.runs.interrupt(live, run)
            return ApiAnswer({"id": key.name, "interrupted": True, **described(live.standing())})
        async with self._sessions.open.using(key, caller) as live:
            if live.run_due:
                await self._sessions.runs.disown(live)
                return ApiAnswer({"id": key.name, "interrupted": True, **described(live.standing())})
            state = await self._sessions.in_thread(live.standing)
            waited = state.status == "input_required"
            if waited:
                await self._sessions.in_thread(live.give_up)
                state = await self._sessions.in_thread(live.standing)
        return ApiAnswer({"id": key.name, "interrupted": waited, **described(state)})

    async def compact(self, request: Request) -> Response:
        """Summarise the conversation."""
        caller = await self._reader.caller(request)
        body = read(await self._reader.body(request), bodies.CompactBody)
        async with self._idle(request, caller) as live:
            return ApiAnswer(await self._sessions.in_thread(partial(live.compact, body.instructions)))

    async def undo(self, request: Request) -> Response:
        """Undo a decision of the layers."""
        caller = await self._reader.caller(request)
        body = read(await self._reader.body(request), bodies.UndoBody)
        async with self._idle(request, caller) as live:
            return ApiAnswer({"undone": await self._sessions.in_thread(partial(live.undo, body.decision))})

    # -- reading ---------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """What happened and happens, as a stream."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)
        await self._sessions.in_thread(partial(self._sessions.stored.definition_of, key))
        position = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        until = request.query_params.get("until", "")
        if until not in ("", "idle"):
            raise Problem(400, "invalid_query", f"until has to be idle or left out, got {until!r:.40}")
        return self.streams.open(request, key, Cursor.of(position), until_idle=until == "idle")

    async def recall(self, request: Request) -> Response:
        """Search everything that was said in a session."""
        caller = await self._reader.caller(request)
        query = request.query_params.get("query", "")
        if not query.strip():
            raise Problem(400, "invalid_query", "say what to look for: …/recall?query=words")
        most = whole_number(request, "most", 10, MOST_FOUND)
        async with self._sessions.open.using(_key_of(request, caller), caller) as live:
            hits = await self._sessions.in_thread(partial(live.recall, query[:1_000], most))
        return ApiAnswer({"hits": hits})

    async def export(self, request: Request) -> Response:
        """The whole log of a session, line by line."""
        caller = await self._reader.caller(request)
        key = _key_of(request, caller)

        def lines() -> Iterator[bytes]:
            self._sessions.stored.definition_of(key)
            try:
                yield from self._sessions.stored.store_of(key.tenant, key.user).export(key.name)
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
        caller = await self._reader.caller(request)

        def names() -> list[str]:
            store = self._sessions.stored.store_of(caller.tenant.name, caller.user)
            return [
                *(f"project/{name}" for name in store.memory().names()),
                *(f"user/{name}" for name in store.user_memory().names()),
            ]

        return ApiAnswer({"memory": await self._sessions.in_thread(names)})

    async def memory(self, request: Request) -> Response:
        """A part of what is remembered."""
        caller = await self._reader.caller(request)
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
        caller = await self._reader.caller(request)
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
        store = self._sessions.stored.store_of(caller.tenant.name, caller.user)
        scope, _, file = name.partition("/")
        folder = store.user_memory() if scope == "user" else store.memory()
        there = scope in ("project", "user") and file in folder.names()
        return folder, file if there else None

    async def usage(self, request: Request) -> Response:
        """What was spent of the budgets that count for the caller."""
        caller = await self._reader.caller(request)
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

    def _idle(self, request: Request, caller: Caller) -> Any:
        return _Idle(self._sessions, _key_of(request, caller), caller)


class _Idle:
    """Uses a session that is not working."""

    def __init__(self, sessions: Sessions, key: SessionKey, caller: Caller) -> None:
        self._using = sessions.open.using(key, caller)

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
