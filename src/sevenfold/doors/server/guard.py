"""Which requests are answered at all.

In front of everything: the header ``Host`` has to name this server, and no page in a browser may ask. Then how much is
taken on: requests at the same time, for all and for each tenant, bytes of a body, seconds in which it has to arrive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sevenfold.doors.addresses import OwnAddress
from sevenfold.doors.server import problems
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.options import ServerLimits
from sevenfold.doors.server.problems import Problem

SEND_SECONDS = 60.0
"""How long a program may take to read what was sent to it, before it counts as gone."""
_OWN_SITES = (b"same-origin", b"none")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_log = logging.getLogger(__name__)


class ServerGuard:
    """Refuses what is not for us, or more than we take on; every refusal says why in JSON."""

    def __init__(
        self, app: ASGIApp, address: Callable[[], OwnAddress], limits: ServerLimits, metrics: ServerMetrics
    ) -> None:
        self._app = app
        self._address = address
        self._limits = limits
        self._metrics = metrics
        self._requests = 0
        self._of_tenants: Counter[str] = Counter()
        metrics.gauge("requests_open", "Requests that are being answered", lambda: self._requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send, scope, self._metrics)
        self._requests += 1
        try:
            self._check(scope)
            await self._app(scope, receive, answer)
        except Problem as problem:
            await self._refuse(problem, scope, answer)
        except (TimeoutError, ConnectionError):
            # The client is gone, so no answer is needed; the server below closes the connection.
            return
        except Exception as error:  # noqa: BLE001 (whatever it is, the program gets an answer)
            # What was answered is in the log already.
            if not answer.begun:
                _log.exception("a request failed: %s %s", scope["method"], scope["path"])
                await self._refuse(problems.of(error), scope, answer)
        finally:
            self._requests -= 1

    async def _refuse(self, problem: Problem, scope: Scope, answer: _Answer) -> None:
        self._metrics.count("refusals", type=problem.kind)
        if answer.begun:
            return
        body = problem.body()
        if scope["method"] == "HEAD":
            body = b""
        headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()
        ]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await answer({"type": "http.response.start", "status": problem.status, "headers": headers})
        await answer({"type": "http.response.body", "body": body})

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        address = self._address()
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not address.is_ours(hosts[0].decode("latin-1")):
            raise Problem(
                421,
                "wrong_host",
                "the header Host does not name this server; a name that a proxy in front of it has must be given to "
                "sevenfold serve as --name",
            )
        from_page = any(
            not address.is_our_origin(origin.decode("latin-1")) for origin in headers.get(b"origin", [])
        )
        if from_page or any(site not in _OWN_SITES for site in headers.get(b"sec-fetch-site", [])):
            raise Problem(
                403,
                "web_page",
                "requests of pages in a browser are refused: a token is not for browsers, so let your own server ask",
            )
        if self._requests > self._limits.requests + self._limits.streams:
            raise problems.busy(
                "server_busy", "this server answers as many requests as it takes", status=503
            )


class _Answer:
    """Sends an answer with our headers, and gives up on a program that does not read it."""

    def __init__(self, send: Send, scope: Scope, metrics: ServerMetrics) -> None:
        self._send = send
        self._scope = scope
        self._metrics = metrics
        self._began = time.monotonic()
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message.get("headers", []), *_HEADERS]
            route = self._scope.get("route")
            named = getattr(route, "path", "none")
            self._metrics.count("requests", route=named, status=str(message["status"]))
            self._metrics.took("request_seconds", time.monotonic() - self._began, route=named)
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)
