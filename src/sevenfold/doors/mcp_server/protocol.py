"""The Model Context Protocol for a server that only has tools: requests and answers as bytes, without I/O.

Two generations of the protocol are served. The older one opens with a handshake; since 2026-07-28 there is none, and
each request carries the version in its metadata. A client of either kind may come first, and both on one connection do
no harm: nothing is kept between requests.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from sevenfold import __version__
from sevenfold.doors.mcp_server import tools
from sevenfold.doors.mcp_server.tools import ServedTool, ToolAnswer

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = ("2026-07-28",)
"""Those without a handshake."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_VERSION = -32022
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_SERVER = {"name": "sevenfold", "title": "Sevenfold", "version": __version__}
_CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": False}}

RequestId = str | int


class ToolRequest(Struct, frozen=True):
    """A call of a tool, to be answered by `answered`."""

    id: RequestId
    tool: ServedTool
    arguments: object
    bare: bool
    """Whether the client speaks the protocol without a handshake."""


class Cancelled(Struct, frozen=True):
    """The client does not want the answer to this request any more."""

    id: RequestId


class ProtocolError(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def take(line: bytes) -> bytes | ToolRequest | Cancelled | None:
    """What to do about one message: send this, answer a call, forget one, or nothing."""
    if not line.strip():
        return None
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error(None, PARSE_ERROR, "the message is not valid JSON")
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "a message must be one JSON object")
    number = message.get("id")
    method = message.get("method")
    params = message.get("params")
    if not isinstance(method, str):
        # An answer to a request of ours, of which there are none, or nothing that can be answered.
        return None if "result" in message or "error" in message else _invalid(number)
    if "id" not in message:
        return _notified(method, params)
    if isinstance(number, bool) or not isinstance(number, str | int):
        return _error(None, INVALID_REQUEST, "the id of a request must be a string or a whole number")
    try:
        return _requested(number, method, {} if params is None else params)
    except ProtocolError as refusal:
        return _error(number, refusal.code, str(refusal), refusal.data)


def answered(call: ToolRequest, answer: ToolAnswer) -> bytes:
    """The answer to a call."""
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": answer.text}],
        "isError": answer.is_error,
    }
    if not answer.is_error:
        result["structuredContent"] = answer.data
    return _result(call.id, result, bare=call.bare)


def _requested(number: RequestId, method: str, params: object) -> bytes | ToolRequest:
    if not isinstance(params, dict):
        raise ProtocolError(INVALID_PARAMS, "params must be an object")
    bare = _is_bare(params)
    match method:
        case "initialize":
            return _result(number, _handshake(params))
        case "server/discover":
            result = {
                "supportedVersions": list(VERSIONS),
                "capabilities": _CAPABILITIES,
                "instructions": tools.INSTRUCTIONS,
            }
            return _result(number, {**result, **_CACHED}, bare=True)
        case "ping":
            return _result(number, {}, bare=bare)
        case "tools/list":
            listed = {"tools": [tool.listed() for tool in tools.TOOLS]}
            return _result(number, {**listed, **_CACHED} if bare else listed, bare=bare)
        case "tools/call":
            tool = tools.find(params.get("name"))
            if tool is None:
                names = ", ".join(tool.name for tool in tools.TOOLS)
                raise ProtocolError(
                    INVALID_PARAMS, f"there is no tool {params.get('name')!r}; there are: {names}"
                )
            return ToolRequest(number, tool, params.get("arguments"), bare)
        case _:
            raise ProtocolError(METHOD_NOT_FOUND, f"this server does not have the method {method!r}")


_CACHED = {"ttlMs": 0, "cacheScope": "private"}


def _is_bare(params: dict[str, Any]) -> bool:
    """Whether a request names its version itself; raises `ProtocolError` for one that is not served."""
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if version is None:
        return False
    if version not in VERSIONS:
        about = {"supported": list(VERSIONS), "requested": str(version)}
        raise ProtocolError(UNSUPPORTED_VERSION, f"the protocol version {version!r} is not served", about)
    return True


def _handshake(params: dict[str, Any]) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return {
        "protocolVersion": version,
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER,
        "instructions": tools.INSTRUCTIONS,
    }


def _notified(method: str, params: object) -> Cancelled | None:
    if method == "notifications/cancelled" and isinstance(params, dict):
        number = params.get("requestId")
        if isinstance(number, str | int):
            return Cancelled(number)
    return None


def _result(number: RequestId, result: dict[str, Any], *, bare: bool = False) -> bytes:
    if bare:
        result = {**result, "resultType": "complete", "_meta": {_SERVER_KEY: _SERVER}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result})


def _invalid(number: object) -> bytes:
    usable_number = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return _error(usable_number, INVALID_REQUEST, "the message has no method")


def _error(number: RequestId | None, code: int, message: str, data: object = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error})
