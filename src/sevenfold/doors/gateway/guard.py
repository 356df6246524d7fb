"""Who may use the gateway, and what it refuses.

A page in a browser can send requests to this machine, under a name of its own that leads here. So the header ``Host``
must name the gateway, and a request that a page sent is refused. Where others can reach the gateway, each path begins
with a token. A request never decides where it goes: neither its target, nor its ``Host``, nor its body.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from itertools import chain

import msgspec
from msgspec import Struct

from sevenfold.doors.addresses import OwnAddress
from sevenfold.wire.reader import Fields

TOKEN_PREFIX = "/~"
"""How the path begins behind which the token follows."""
ELSEWHERE = frozenset(
    {"api_base", "api_url", "base_url", "openai_api_base", "azure_endpoint", "aws_bedrock_runtime_endpoint"}
)
"""Fields with which a body asks some servers to send it to another one."""
NESTED = ("extra_body", "litellm_params")
_fields = msgspec.json.Decoder(Fields)


class GatewayRefusal(Struct, frozen=True):
    """Our own answer to a request that is not passed on."""

    status: int
    reason: str
    message: str

    def raw(self) -> bytes:
        """The answer in bytes; the connection is closed behind it."""
        body = msgspec.json.encode(
            {"type": "error", "error": {"type": "gateway_error", "message": f"sevenfold: {self.message}"}}
        )
        upgrade = b"Upgrade: HTTP/1.1\r\n" if self.status == 426 else b""
        head = (
            f"HTTP/1.1 {self.status} {self.reason}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        ).encode()
        return head + upgrade + b"\r\n" + body


class Guard(Struct, frozen=True):
    """The rules for requests to a gateway at this address."""

    host: str
    port: int
    token: str = ""

    def admitted(self, method: str, target: str, headers: Mapping[str, str]) -> str | GatewayRefusal:
        """The target of a request without the token, or why the request is refused.

        ``headers`` have names in lower case.
        """
        if method == "CONNECT" or not target.startswith("/") or target.startswith("//"):
            return GatewayRefusal(400, "Bad Request", f"the target must be a path, got {target[:80]!r}")
        if "\\" in target or any(character <= " " for character in target):
            return GatewayRefusal(400, "Bad Request", "the target has characters that no path has")
        address = OwnAddress(self.host, self.port)
        if not address.is_ours(headers.get("host", "")):
            return GatewayRefusal(421, "Misdirected Request", "the header Host does not name this gateway")
        if (origin := headers.get("origin")) is not None and not address.is_our_origin(origin):
            return GatewayRefusal(403, "Forbidden", "requests of web pages are not passed on")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return GatewayRefusal(403, "Forbidden", "requests of web pages are not passed on")
        if self.token:
            token, _, rest = target.removeprefix(TOKEN_PREFIX).partition("/")
            if not target.startswith(TOKEN_PREFIX) or not hmac.compare_digest(
                token.encode(), self.token.encode()
            ):
                return GatewayRefusal(
                    401, "Unauthorized", "the path must begin with the token of this gateway"
                )
            target = f"/{rest}"
        if "upgrade" in headers:
            return GatewayRefusal(426, "Upgrade Required", "websockets are not passed on; use HTTP")
        return target


def names_another_server(body: bytes) -> str:
    """The field with which a body asks to be sent elsewhere; empty if there is none."""
    try:
        # The program waits for this. Reading the names of the fields is faster than any search in all bytes.
        fields = _fields.decode(body)
        inner = [
            _fields.decode(fields[name]) for name in NESTED if bytes(fields.get(name, b""))[:1] == b"{"
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    named = ELSEWHERE.intersection({*fields, *chain.from_iterable(inner)})
    return min(named, default="")
