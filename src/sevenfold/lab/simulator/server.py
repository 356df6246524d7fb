"""The HTTP server: routes, keys, bodies, headers and faults, in process, in a thread or in the foreground."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from sevenfold.lab.simulator.brains import Json, ScriptExhausted
from sevenfold.lab.simulator.chat import chunks, complete
from sevenfold.lab.simulator.errors import ApiError, internal, invalid
from sevenfold.lab.simulator.faults import Fault, refusal, with_fault
from sevenfold.lab.simulator.messages import FinishedMessage, answer, count
from sevenfold.lab.simulator.parameters import ApiFeatures
from sevenfold.lab.simulator.preparation import PreparedRequest, prepare
from sevenfold.lab.simulator.provider import Received, Simulator, model_info, model_list
from sevenfold.lab.simulator.responses import compact, respond
from sevenfold.lab.simulator.responses import count as count_input
from sevenfold.lab.simulator.responses import events as response_events
from sevenfold.lab.simulator.schema import check_shape
from sevenfold.wire.messages_events import message_events

try:
    import uvicorn
    from anyio import CapacityLimiter, to_thread
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the simulator's server needs {error.name}, which is not installed; run: pip install 'sevenfold[simulator]'",
        name=error.name,
    ) from error

STOPPING = 10.0
"""Seconds a server in a thread may take to stop."""
MOST_AT_ONCE = 1_000
"""How many requests are processed at the same time; further ones wait."""
T = TypeVar("T")
VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
Endpoint = Callable[["HttpExchange"], Awaitable[Response]]


class HttpExchange:
    """One HTTP request and its answer."""

    def __init__(self, sim: Simulator, request: Request, raw: bytes) -> None:
        self.sim = sim
        self.request = request
        url = request.url
        headers = dict(request.headers)
        arrived = Received(sim.clock.now(), request.method, url.path, url.query, headers, raw)
        self.received = sim.requests.add(arrived)
        self.fault: Fault | None = None
        self.request_id = sim.new_id("req_")

    @property
    def anthropic(self) -> bool:
        """Whether the client uses the Messages API rather than one of OpenAI's."""
        return "anthropic-version" in self.request.headers or "/messages" in self.received.path

    @property
    def headers(self) -> dict[str, str]:
        """The headers sent with every answer."""
        if not self.anthropic:
            return {"x-request-id": self.request_id}
        return {"request-id": self.request_id, **self.sim.meter.headers(self.sim.clock.now())}

    async def work(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread, one request at a time, then wait if a fault delays the first byte.

        While a brain is thinking, other requests are processed.
        """

        def locked() -> T:
            with self.sim.alone():
                return work()

        done = await to_thread.run_sync(locked, limiter=self.request.app.state.limiter)
        if self.fault is not None and self.fault.kind == "slow_first_byte":
            await self.sim.clock.sleep(self.fault.seconds)
        return done

    def json(self, body: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
        """Build a JSON answer; a fault may cut it short."""
        raw = msgspec.json.encode(body)
        self.received.status = status
        self.received.answer = body
        if self.fault is not None and self.fault.kind == "truncated_body":
            raw = raw[: len(raw) // 2]
        return Response(raw, status, {**self.headers, **headers}, "application/json")

    def answer(self, whole: dict[str, Any], events: Iterator[bytes] | None = None) -> Response:
        """Build an answer with usage, as JSON or, given ``events``, as a stream; a fault may break it."""
        self.received.usage = whole["usage"]
        if events is None:
            return self.json(whole)
        self.received.status = 200
        self.received.answer = whole
        return StreamingResponse(with_fault(events, self.fault), 200, self.headers, "text/event-stream")


def create_app(sim: Simulator) -> Starlette:
    """Build an ASGI application that serves the simulator."""

    def route(path: str, endpoint: Endpoint, method: str = "POST", *, asks: bool = False) -> Route:
        async def handle(request: Request) -> Response:
            return await _exchange(HttpExchange(sim, request, await request.body()), endpoint, asks)

        return Route(path, handle, methods=[method])

    app = Starlette(
        routes=[
            Route("/", _alive, methods=["GET", "HEAD"]),
            route("/v1/messages", _messages, asks=True),
            route("/v1/messages/count_tokens", _count_tokens),
            route("/v1/models", _models, "GET"),
            route("/v1/models/{name:path}", _model, "GET"),
            route("/v1/chat/completions", _openai(complete, chunks), asks=True),
            route("/v1/responses", _openai(respond, response_events), asks=True),
            route("/v1/responses/compact", _openai(compact), asks=True),
            route("/v1/responses/input_tokens", _count_input),
            route("/{path:path}", _nothing),
            route("/{path:path}", _nothing, "GET"),
        ]
    )
    app.state.limiter = CapacityLimiter(MOST_AT_ONCE)
    return app


async def _alive(request: Request) -> Response:
    """Answer the probe with which clients check that a server is up; it needs no key."""
    return Response()


async def _exchange(exchange: HttpExchange, endpoint: Endpoint, asks: bool) -> Response:
    """Apply the request's fault, answer it, and turn every error into the provider's error body."""
    sim = exchange.sim
    try:
        _check_key(exchange)
        if len(exchange.received.raw) > sim.setup.body_bytes:
            raise ApiError(413, "request_too_large", "Request exceeds the maximum size")
        if asks:
            sim.meter.admit(sim.clock.now())
            exchange.fault = sim.faults.next()
            await _apply_fault(exchange)
        return await endpoint(exchange)
    except (ApiError, ScriptExhausted) as raised:
        error = raised if isinstance(raised, ApiError) else internal(str(raised), retry=False)
        exchange.fault = None
        body = error.messages_body(exchange.request_id) if exchange.anthropic else error.openai_body()
        return exchange.json(body, error.status, error.headers)


def _check_key(exchange: HttpExchange) -> None:
    headers = exchange.request.headers
    expected = exchange.sim.setup.api_key
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    key = headers.get("x-api-key") or bearer
    if key and expected in (None, key):
        return
    if exchange.anthropic:
        message = "invalid x-api-key" if key else "x-api-key header is required"
        raise ApiError(401, "authentication_error", message)
    message = "Incorrect API key provided." if key else "You didn't provide an API key."
    raise ApiError(401, "invalid_request_error", message, code="invalid_api_key")


async def _apply_fault(exchange: HttpExchange) -> None:
    """Apply a fault that takes effect before the answer."""
    fault = exchange.fault
    if fault is None:
        return
    if (error := refusal(fault)) is not None:
        raise error
    if fault.kind == "no_answer":
        while (await exchange.request.receive())["type"] != "http.disconnect":
            continue
        raise internal("the client gave up")
    if fault.kind == "cache_eviction":
        exchange.sim.cache.evict()


def _decode(exchange: HttpExchange) -> Any:
    """Decode the body as JSON; raises the real server's error if it is invalid."""
    raw = exchange.received.raw
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"The request body is not valid JSON: {_json_problem(raw, error)}") from None


def _json_problem(raw: bytes, error: Exception) -> str:
    try:
        json.loads(raw)
    except ValueError as problem:
        return str(problem)
    match = re.search(rb"\\u[dD][89abAB]", raw)
    if match is None:
        return str(error)
    return f"no low surrogate in string: line 1 column {match.start() + 1} (char {match.start()})"


def _prepared(exchange: HttpExchange, *, counting: bool) -> PreparedRequest:
    sim = exchange.sim
    headers = exchange.request.headers
    version = headers.get("anthropic-version")
    if version is None:
        raise invalid("anthropic-version: header is required")
    if version not in VERSIONS:
        raise invalid(f'anthropic-version: "{version}" is not a valid version')
    body = _decode(exchange)
    setup = sim.setup
    sent = ",".join(headers.getlist("anthropic-beta")).split(",")
    betas = frozenset(filter(None, map(str.strip, sent)))
    features = ApiFeatures(version, betas, counting, setup.pinned_edits, setup.extra_blocks)
    if setup.threads:
        body = sim.histories.whole(body, betas)
    check_shape(body, features)
    profile = sim.messages_profile(body["model"])
    if profile is None:
        raise ApiError(404, "not_found_error", f"model: {body['model']}")
    return prepare(sim, body, profile, features)


async def _messages(exchange: HttpExchange) -> Response:
    sim = exchange.sim

    def answered() -> tuple[FinishedMessage, PreparedRequest]:
        request = _prepared(exchange, counting=False)
        return answer(sim, request), request

    (message, plans), ready = await exchange.work(answered)
    with sim.alone():
        for plan in plans:
            sim.cache.commit(plan)
    if sim.setup.threads:
        sim.histories.hold(_decode(exchange), ready.body, message)
    usage = message["usage"]
    charged = usage["input_tokens"] + usage["cache_creation_input_tokens"]
    sim.meter.spend(exchange.received.at, charged, usage["output_tokens"])
    streams = _decode(exchange).get("stream")
    return exchange.answer(message, message_events(message, sim.setup.chunk) if streams else None)


async def _count_tokens(exchange: HttpExchange) -> Response:
    return exchange.json(count(_prepared(exchange, counting=True)))


async def _count_input(exchange: HttpExchange) -> Response:
    body = _decode(exchange)
    return exchange.json(await exchange.work(lambda: count_input(exchange.sim, body)))


async def _models(exchange: HttpExchange) -> Response:
    return exchange.json(model_list(exchange.sim, anthropic=exchange.anthropic))


async def _model(exchange: HttpExchange) -> Response:
    name = exchange.request.path_params["name"]
    return exchange.json(model_info(exchange.sim, name, anthropic=exchange.anthropic))


def _openai(
    answer: Callable[[Simulator, Any], dict[str, Any]],
    events: Callable[[Json, Json, int], Iterator[bytes]] | None = None,
) -> Endpoint:
    """Build the endpoint of an OpenAI API; without ``events`` it never streams."""

    async def endpoint(exchange: HttpExchange) -> Response:
        sim = exchange.sim
        body = _decode(exchange)
        whole = await exchange.work(lambda: answer(sim, body))
        streamed = events(whole, body, sim.setup.chunk) if events and body.get("stream") else None
        return exchange.answer(whole, streamed)

    return endpoint


async def _nothing(exchange: HttpExchange) -> Response:
    raise ApiError(404, "not_found_error", f"{exchange.received.path}: not simulated")


@contextmanager
def serve(sim: Simulator, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Run a simulator in a thread, yield its base URL, and stop it on exit."""
    listener = socket.create_server((host, port))
    # Connections inherit it: what is written in two pieces is sent at once, not 40 ms later.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = uvicorn.Server(_config(sim))
    server_arguments = {"sockets": [listener]}
    thread = threading.Thread(target=server.run, kwargs=server_arguments, name="simulator", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STOPPING)
        listener.close()


def run(port: int = 8_000, host: str = "127.0.0.1", sim: Simulator | None = None) -> None:
    """Run a simulator in the foreground until it is interrupted."""
    uvicorn.Server(_config(sim or Simulator(), host, port)).run()


def _config(sim: Simulator, host: str = "127.0.0.1", port: int = 0) -> uvicorn.Config:
    # Faults break connections on purpose, which uvicorn logs as errors: show only `critical`.
    return uvicorn.Config(
        create_app(sim),
        host=host,
        port=port,
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
