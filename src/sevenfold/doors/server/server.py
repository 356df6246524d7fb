"""The server: it listens, answers, and ends without losing what is under way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from uvicorn.protocols.http.h11_impl import H11Protocol

from sevenfold.doors.addresses import BACKLOG, OwnAddress, listening
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Accounts
from sevenfold.doors.server.guard import ServerGuard
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.options import ServerOptions
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.routes import Api
from sevenfold.doors.server.sessions import Sessions

HEAD_SECONDS = 20.0
"""In which the head of a connection's first request has to arrive."""
KEEP_ALIVE_SECONDS = 20
_MOST_HEAD = 64 * 1024
_log = logging.getLogger(__name__)
_FULL = msgspec.json.encode(
    {"error": {"type": "server_busy", "message": "too many connections; try again later"}}
)


class SessionServer:
    """A server for sessions on one port. `run` serves in this thread; as a context manager, it has its own."""

    def __init__(
        self,
        options: ServerOptions,
        accounts: Accounts,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        names: tuple[str, ...] = (),
    ) -> None:
        """Bind the port; raises `UserError` if it cannot be used. ``accounts`` are closed with the server."""
        self._listener = listening(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._host = host
        self.metrics = ServerMetrics()
        self._accounts = accounts
        self.sessions = Sessions(options, accounts, self.metrics)
        self._address = OwnAddress(host, self.port, frozenset(name.lower() for name in names))
        self._server: _Server | None = None
        self._thread = threading.Thread(target=self.run, name="sevenfold-server", daemon=True)
        self._ready = threading.Event()
        self.left = 0
        """How many runs were unfinished when the server had to stop; the next server resumes them."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}"

    def run(self, began: Callable[[], None] | None = None) -> None:
        """Serve until `stop` is called, or, in the main thread, a signal asks to end."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main(began))
        finally:
            self._ready.set()
            self._listener.close()
            self._accounts.close()

    def stop(self) -> None:
        """Drain and end; may be called from any thread."""
        if self._server is not None:
            self._server.should_exit = True

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()

    async def _main(self, began: Callable[[], None] | None) -> None:
        self.sessions.begin()
        api = Api(self.sessions, self.metrics)
        limits = self.sessions.options.limits
        self._instrument()
        handlers = {HTTPException: _unknown, Problem: _answered, Exception: _answered}
        starlette = Starlette(routes=api.routes(), exception_handlers=handlers)
        starlette.state.metrics = self.metrics
        # A redirect would be built from what the request calls this host.
        starlette.router.redirect_slashes = False
        app = ServerGuard(
            starlette,
            lambda: self._address,
            limits,
            self.metrics,
        )
        config = uvicorn.Config(
            app,
            http=_protocol(limits.requests + 2 * limits.streams),
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=_MOST_HEAD,
            lifespan="off",
        )
        self._server = _Server(config, self._drain(api))
        keeping = asyncio.create_task(self.sessions.keep_house(api.streams.stopping))
        self._server.when_started = lambda: self._started(began)
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            api.streams.stopping.set()
            await keeping

    def _started(self, began: Callable[[], None] | None) -> None:
        self._ready.set()
        if began is not None:
            began()

    def _drain(self, api: Api) -> Callable[[], Any]:
        async def drain() -> None:
            self.left = await self.sessions.runs.drain()
            await api.streams.end()
            await self.sessions.close()

        return drain

    def _instrument(self) -> None:
        """Show the metrics to OpenTelemetry, if it is installed; without exporters that costs nothing."""
        with contextlib.suppress(ModuleNotFoundError):
            from opentelemetry.metrics import get_meter

            self.metrics.instruments(get_meter("sevenfold.server"))


class _Server(uvicorn.Server):
    """Drains before it ends: new runs are refused, and those under way may come to their end."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Any]) -> None:
        super().__init__(config)
        self._drain = drain
        self.when_started: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on signals, and return from `run` then: uvicorn's own would end the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {name: signal.signal(name, self.handle_exit) for name in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.when_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while requests are still answered, then end."""
        await self._drain()
        await super().shutdown(sockets)


def _protocol(most: int) -> type[H11Protocol]:
    class BoundedProtocol(H11Protocol):
        """A connection; refused if there are too many, and closed if its first request does not come."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= most:
                transport.write(
                    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
                )
                transport.close()
                self.transport = transport
                return
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(HEAD_SECONDS, self._check_head)

        def _check_head(self) -> None:
            waiting: object = self.cycle
            if waiting is None and not self.transport.is_closing():
                self.transport.close()

    return BoundedProtocol


async def _unknown(request: Request, error: Exception) -> Response:
    """The answer to a request that no route answers."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        message = f"{request.method} is not possible here; see /openapi.json"
        allowed = {"Allow": ", ".join(sorted(_methods(request)))}
        return await _answered(request, Problem(405, "method_not_allowed", message, headers=allowed))
    message = "there is no such address; see /openapi.json"
    return await _answered(request, Problem(404, "no_such_address", message))


def _methods(request: Request) -> set[str]:
    """The methods that an address has, over all of its routes."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods


async def _answered(request: Request, error: Exception) -> Response:
    """The answer to a request that failed."""
    problem = problems.of(error)
    if problem.status == 500:
        _log.error("a request failed: %s %s", request.method, request.url.path, exc_info=error)
    request.app.state.metrics.count("refusals", type=problem.kind)
    body = b"" if request.method == "HEAD" else problem.body()
    return Response(body, problem.status, problem.headers, "application/json")
