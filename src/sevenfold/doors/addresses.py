"""The addresses of our servers: listening there, and whether a request names the server it reached.

A page in a browser can send requests to any address, under a name of its own that leads there: to the browser it then
looks like that server's own page. So the header ``Host`` of a request has to name this server.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from msgspec import Struct

from sevenfold.errors import UserError

BACKLOG = 256
"""How many connections may wait to be accepted."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; raises `UserError` if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
        ) from error
    # The pieces of an answer are sent at once, not when the one before was acknowledged, up to 40 ms later. Connections
    # inherit this; asyncio sets it only on those of sockets that it opened itself.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class OwnAddress(Struct, frozen=True):
    """The address of a server."""

    host: str
    """What it listens on."""
    port: int
    names: frozenset[str] = frozenset()
    """Names under which others reach it, at any port: those of a proxy in front of it."""

    def is_ours(self, authority: str) -> bool:
        """Whether the value of a header ``Host`` names this server."""
        try:
            parts = urlsplit(f"//{authority}")
            name = parts.hostname or ""
            port = parts.port
        except ValueError:
            return False
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        if name in self.names:
            return True
        if (port or 80) != self.port:
            return False
        return name == "localhost" or name == self.host.strip("[]").lower() or _leads_here(name, self.host)

    def is_our_origin(self, origin: str) -> bool:
        """Whether the value of a header ``Origin`` is a page of this server's."""
        scheme, _, authority = origin.partition("://")
        if scheme == "https":
            # Only a proxy speaks TLS for us.
            return urlsplit(f"//{authority}").hostname in self.names
        return scheme == "http" and self.is_ours(authority)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _leads_here(name: str, bound: str) -> bool:
    """Whether a name is an address of this machine that leads to a server bound there."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # No page can have an address of this kind as its own name; names can be made to lead anywhere.
    return address.is_loopback or not is_loopback(bound)
