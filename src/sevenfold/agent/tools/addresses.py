"""Which addresses may be fetched: only such as anybody on the internet could reach.

A name can lead anywhere, so the machine addresses behind it are looked at, all of them, and the one that was looked at
is the one connected to: a name that leads elsewhere a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from sevenfold.errors import InputError, Refused

Resolve = Callable[[str, int], list[str]]
"""From a host and a port to machine addresses."""


class Target(Struct, frozen=True):
    """An address that can be asked for."""

    url: str
    host: str
    port: int
    secure: bool
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """Host and port as a request names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target(address: str) -> Target:
    """An http or https address taken apart; raises `InputError` for anything that could be read in two ways."""
    if any(sign <= " " or sign in "\\\x7f" for sign in address):
        raise InputError(f"{address!r} is no address: it holds blanks, control characters or backslashes.")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{address!r} is no address: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"{address!r} cannot be fetched: give an address that begins with http:// or https://."
        )
    if "@" in parts.netloc:
        raise InputError(f"{address!r} holds a user name, which is not sent; leave it out.")
    return _target(parts, port)


def _target(parts: SplitResult, port: int | None) -> Target:
    host = (parts.hostname or "").rstrip(".")
    try:
        if not _is_machine(host):
            host = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise InputError(f"{host!r} is no name of a host.") from None
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    made = Target("", host, port or (443 if secure else 80), secure, path)
    return Target(f"{parts.scheme}://{made.authority}{path}", made.host, made.port, secure, path)


def machine(wanted: Target, resolve: Resolve, allowed: Callable[[str], bool]) -> str:
    """The machine to connect to; refuses a host any of whose machines is not public, unless ``allowed(host)``."""
    machines = [wanted.host] if _is_machine(wanted.host) else resolve(wanted.host, wanted.port)
    if not machines:
        raise Refused(f"There is no host {wanted.host}; check the address.")
    if not allowed(wanted.host):
        for one in machines:
            if not is_public(one):
                raise Refused(
                    f"{wanted.host} leads to {one}, not on the public internet; that is not fetched."
                )
    return machines[0]


def is_public(address: str) -> bool:
    """Could anybody reach this machine? Addresses that hold another one are judged by that too."""
    try:
        one = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(one, ipaddress.IPv6Address):
        held = [one.ipv4_mapped, one.sixtofour, *(one.teredo or ())]
        if one in ipaddress.ip_network("64:ff9b::/96"):
            held.append(ipaddress.IPv4Address(int(one) & 0xFFFFFFFF))
        if any(inner is not None and not inner.is_global for inner in held):
            return False
    return one.is_global and not one.is_multicast and not one.is_reserved


def resolve(host: str, port: int) -> list[str]:
    """The machines behind a name, as this system knows them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"The host {host} was not found ({error}); check the address.") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _is_machine(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
