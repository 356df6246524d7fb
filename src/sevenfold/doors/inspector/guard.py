"""Which requests the inspector answers: those of its own page, which has the token.

Any web page can send requests to a port of this machine, and a domain of its own that leads here makes it look like
the same origin. So a request must name this very address, must not come from another page, and to read anything of a
session it must carry the token in a header. The token is never in a cookie, which every other server on this address
would get, nor in an address, which is logged.
"""

from __future__ import annotations

import hmac
import re

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = b"x-sevenfold-token"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
API = "/api/"
ORDERS = re.compile(r"/api/(s/[0-9a-f]+/(undo|stop|agree|decline)|memory/(forget|undo))")
"""The addresses to which the page posts what is to be done."""
_OWN_SITES = (b"same-origin", b"none")


class InspectorGuard:
    """Refuses every request that is not the page's own, and says in every answer what a page may load."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset({f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()})
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no websockets: a page elsewhere may open one without asking.
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        answer = refusal or self._app

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("this server has another address\n", 421)
        if any(origin not in self._origins for origin in headers.get(b"origin", [])):
            return PlainTextResponse("requests from other pages are refused\n", 403)
        if any(site not in _OWN_SITES for site in headers.get(b"sec-fetch-site", [])):
            return PlainTextResponse("requests from other pages are refused\n", 403)
        path = str(scope["path"])
        if ORDERS.fullmatch(path):
            if scope["method"] != "POST":
                return PlainTextResponse("orders are posted\n", 405, {"Allow": "POST"})
            if not headers.get(b"origin") or headers.get(b"content-type") != [b"application/json"]:
                return PlainTextResponse("orders come from the inspector's own page\n", 403)
        elif scope["method"] != "GET":
            return PlainTextResponse("the inspector only answers GET here\n", 405, {"Allow": "GET"})
        if path.startswith(API):
            tokens = headers.get(TOKEN_HEADER, [])
            if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
                return PlainTextResponse(
                    "the token is missing or wrong: open the address that 'sevenfold inspect' printed\n",
                    401,
                )
        return None
