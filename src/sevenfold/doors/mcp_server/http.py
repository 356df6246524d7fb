"""The server on a port of this machine, with the MCP SDK, for programs that cannot start it themselves.

Every request needs the token, and must name this very address: a web page in the user's browser can send requests to
any port here, and a domain of its own that leads to this machine makes it look like the same origin. Nothing is kept
between requests, so there are no session ids to steal.
"""

from __future__ import annotations

import hmac
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sevenfold import __version__
from sevenfold.doors.mcp_server import tools
from sevenfold.doors.mcp_server.sessions import SessionShelf, shelf_of
from sevenfold.errors import InputError

PATH = "/mcp"


def loopback(host: str) -> str:
    """The address to listen on; raises `InputError` for any that other machines can reach.

    A name is never looked up: it might lead elsewhere the next time.
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        is_local = ip_address(address).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise InputError(
            f"--host must be an address of this machine, such as 127.0.0.1 or ::1; got {host!r}"
        )
    return address


def application(shelf: SessionShelf, secret: str, host: str, port: int) -> ASGIApp:
    """The server as an ASGI application for one address."""
    lock = anyio.Lock()

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        listed = [types.Tool.model_validate(tool.listed()) for tool in tools.TOOLS]
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.find(params.name)
        if tool is None:
            answer = tools.ToolAnswer(None, f"there is no tool {params.name!r}", is_error=True)
        else:
            # Sessions are shared by all clients, and are read by one thread at a time.
            async with lock:
                answer = await anyio.to_thread.run_sync(partial(tools.call, tool, params.arguments, shelf))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=None if answer.is_error else answer.data,
            is_error=answer.is_error,
        )

    server: Server[Any] = Server(
        "sevenfold",
        version=__version__,
        instructions=tools.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    names = _names(host, port)
    security = TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )
    app: Starlette = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=security
    )
    # A redirect would be built from what the request calls this host.
    app.router.redirect_slashes = False
    return _Guard(app, secret, frozenset(names))


def _names(host: str, port: int) -> list[str]:
    bare = f"[{host}]" if ":" in host else host
    return [f"{bare}:{port}", f"localhost:{port}"]


class _Guard:
    """Refuses what has no token, names another host, or comes from a page of another origin."""

    def __init__(self, app: ASGIApp, secret: str, names: frozenset[str]) -> None:
        self._app = app
        self._secret = secret.encode()
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refused(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refused(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1") not in self._names:
            return PlainTextResponse("this server has another address\n", 421)
        for origin in headers.get(b"origin", []):
            if origin.decode("latin-1") not in {f"http://{name}" for name in self._names}:
                return PlainTextResponse("requests from web pages are refused\n", 403)
        credentials = headers.get(b"authorization", [])
        expected = b"Bearer " + self._secret
        if len(credentials) != 1 or not hmac.compare_digest(credentials[0], expected):
            return PlainTextResponse("the token is missing or wrong\n", 401, {"WWW-Authenticate": "Bearer"})
        return None


def serve(folder: Path, host: str, port: int, secret: str, store: str | None = None) -> None:
    """Serve until interrupted."""
    # No program started this server, so there is no window whose session could be meant.
    shelf = shelf_of(folder, lambda: None, store)
    app = application(shelf, secret, host, port)
    uvicorn.run(app, host=host, port=port, log_level="warning", proxy_headers=False, server_header=False)
