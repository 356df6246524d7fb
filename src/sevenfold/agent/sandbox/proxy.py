"""The way out of the sandbox: a proxy on a socket, which connects to allowed hosts and to nothing else.

It understands CONNECT, which HTTPS uses, and plain requests with a whole address. It resolves names itself and connects
to the address it has checked, so that a second answer of the name's server changes nothing. One connection serves one
request. What goes through a tunnel to an allowed host is not looked at.
"""

from __future__ import annotations

import ipaddress
import re
import selectors
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from sevenfold.agent.tools.web import Resolve, is_public, system_resolve
from sevenfold.errors import InputError

CHUNK = 65_536
MOST_HEAD = 65_536
CONNECT_SECONDS = 20.0
HEAD_SECONDS = 60.0
_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[?[0-9a-f:.]+\]?|\*")
_WEB_PORTS = (80, 443)


class AllowedHost(Struct, frozen=True):
    """An entry of the setting ``sandbox_hosts``."""

    pattern: str
    port: int | None = None
    """The one port that may be reached; None: those of the web."""

    @classmethod
    def parse(cls, entry: str) -> AllowedHost:
        """Parse ``example.com``, ``*.example.com``, ``localhost:8080`` or ``*``; raises `InputError`."""
        text = entry.strip().lower().rstrip(".")
        host, colon, port = text.rpartition(":")
        if not colon or (":" in host and not host.endswith("]")):
            host = text
            port = ""
        valid = _HOST.fullmatch(host) and (
            not port or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
        )
        if not valid:
            raise InputError(
                f"sandbox_hosts: {entry!r} is not a host; write example.com, *.example.com or localhost:8080"
            )
        return cls(host.strip("[]"), int(port) if port else None)

    @property
    def may_be_private(self) -> bool:
        """Whether the host may be on this machine or in a private network: the user named an address or a port."""
        return self.port is not None or self.pattern == "localhost" or _is_address(self.pattern)

    def covers(self, host: str, port: int) -> bool:
        """Whether it allows this host and port."""
        right_port = port == self.port if self.port is not None else port in _WEB_PORTS
        wildcard = self.pattern.startswith("*") and not _is_address(host)
        return right_port and (host == self.pattern or (wildcard and fnmatchcase(host, self.pattern)))


class HostRules:
    """Decides about the hosts that commands may reach."""

    def __init__(self, entries: Sequence[str], resolve: Resolve = system_resolve) -> None:
        self._hosts = [AllowedHost.parse(entry) for entry in entries]
        self._resolve = resolve

    def address(self, host: str, port: int) -> str:
        """The IP address to connect to; raises `InputError` if the host is not allowed."""
        host = host.lower().rstrip(".")
        covering = [entry for entry in self._hosts if entry.covers(host, port)]
        if not covering:
            raise InputError(f"{host}:{port} is not an allowed host of the sandbox (setting sandbox_hosts)")
        addresses = [host] if _is_address(host) else self._resolve(host, port)
        if not addresses:
            raise InputError(f"there is no host {host}")
        private = next((address for address in addresses if not is_public(address)), None)
        if private is not None and not any(entry.may_be_private for entry in covering):
            raise InputError(
                f"{host} resolves to {private}, which is not public; name it with its port to allow that"
            )
        return addresses[0]


class Proxy:
    """A proxy on a socket in a folder of its own, served by threads until it is closed."""

    def __init__(self, rules: HostRules, refused: Callable[[str], None] = lambda reason: None) -> None:
        """``refused`` is called with the reason for each request that is not passed on."""
        self._rules = rules
        self._refused = refused
        self._folder = Path(tempfile.mkdtemp(prefix="sevenfold-proxy-"))
        self.socket = self._folder / "p"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen(64)
        self._open = True
        threading.Thread(target=self._serve, daemon=True, name="sevenfold sandbox proxy").start()

    def close(self) -> None:
        """Accept no more connections."""
        self._open = False
        with suppress(OSError):
            # Closing alone does not wake a thread that waits for a connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with suppress(OSError):
            self.socket.unlink()
            self._folder.rmdir()

    def _serve(self) -> None:
        while self._open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one_request, args=(client,), daemon=True).start()

    def _one_request(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(HEAD_SECONDS)
            head, rest = _read_head(client)
            if not head:
                return
            try:
                host, port, forwarded = _target(head)
                address = self._rules.address(host, port)
                out = socket.create_connection((address, port), CONNECT_SECONDS)
            except InputError as error:
                self._refused(str(error))
                _answer(client, "403 Forbidden", str(error))
                return
            except OSError as error:
                _answer(client, "502 Bad Gateway", f"the host cannot be reached: {error}")
                return
            with out:
                client.settimeout(None)
                out.settimeout(None)
                if forwarded is None:
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    out.sendall(rest)
                    _tunnel(client, out)
                else:
                    _exchange(client, out, forwarded, rest)


class _PlainRequest(Struct, frozen=True):
    """A request to pass on to a server, and how many bytes follow it."""

    head: bytes
    body: int


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what was read behind it; an empty head if there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = client.recv(CHUNK)
        if not chunk or len(received) > MOST_HEAD:
            return b"", b""
        received += chunk
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _target(head: bytes) -> tuple[str, int, _PlainRequest | None]:
    """The host and port a request is for, and what to pass on; None: a tunnel. Raises `InputError`."""
    first, *fields = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise InputError("this is not a request to a proxy")
    method, target, _ = words
    try:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host = parts.hostname
        port = parts.port
    except ValueError as error:
        raise InputError(f"the address is not valid: {error}") from None
    if not host or "@" in parts.netloc or "\\" in target or (method == "CONNECT" and port is None):
        raise InputError(f"{target[:100]!r} is not an address that can be reached")
    if method == "CONNECT":
        return host, port or 443, None
    if parts.scheme != "http":
        raise InputError(f"{parts.scheme or 'no'} scheme; only http and https can be reached")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, port or 80, _plain_request(method, path, parts.netloc, fields)


def _plain_request(method: str, path: str, netloc: str, fields: Sequence[str]) -> _PlainRequest:
    """The request as the server gets it: for the host in the address, whatever its fields say."""
    headers = []
    length = 0
    for field in fields:
        name, _, value = field.partition(":")
        match name.strip().lower():
            case (
                "host"
                | "connection"
                | "proxy-connection"
                | "keep-alive"
                | "proxy-authorization"
                | "upgrade"
            ):
                continue
            case "transfer-encoding":
                raise InputError("bodies in pieces are not passed on over plain http; use https")
            case "content-length":
                if not value.strip().isdigit():
                    raise InputError("the length of the body is not a number")
                length = int(value)
        headers.append(field)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {netloc}", *headers, "Connection: close", "", ""]
    return _PlainRequest("\r\n".join(lines).encode("latin-1"), length)


def _exchange(client: socket.socket, out: socket.socket, request: _PlainRequest, rest: bytes) -> None:
    """Pass one request and its body on, and the answer back."""
    out.sendall(request.head)
    remaining = request.body
    chunk = rest[:remaining]
    while True:
        out.sendall(chunk)
        remaining -= len(chunk)
        if remaining <= 0:
            break
        chunk = client.recv(min(CHUNK, remaining))
        if not chunk:
            return
    while answer := out.recv(CHUNK):
        client.sendall(answer)


def _tunnel(client: socket.socket, out: socket.socket) -> None:
    """Pass bytes on in both directions until one side ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ, out)
        selector.register(out, selectors.EVENT_READ, client)
        while selector.get_map():
            for key, _ in selector.select():
                source: socket.socket = key.fileobj  # type: ignore[assignment]  # only sockets are registered
                chunk = source.recv(CHUNK)
                if chunk:
                    key.data.sendall(chunk)
                    continue
                selector.unregister(source)
                with suppress(OSError):
                    key.data.shutdown(socket.SHUT_WR)


def _answer(client: socket.socket, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    client.sendall(head.encode() + body)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def proxy_variables(port: int) -> dict[str, str]:
    """The variables that tell programs in the sandbox about the proxy."""
    address = f"http://127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
    here = "localhost,127.0.0.1,::1"
    return {**dict.fromkeys(names, address), "no_proxy": here, "NO_PROXY": here}


def without_proxies(environ: dict[str, str]) -> dict[str, str]:
    """The environment without proxies of the outer network, which cannot be reached."""
    return {name: value for name, value in environ.items() if not name.lower().endswith("_proxy")}
