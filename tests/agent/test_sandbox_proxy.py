"""Which hosts the proxy of the sandbox connects to."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.sandbox.proxy import AllowedHost, HostRules, Proxy
from sevenfold.errors import InputError

pytestmark = pytest.mark.spec("S38.5")


def rules(*entries: str, addresses: Sequence[str] = ("93.184.215.14",)) -> HostRules:
    return HostRules(entries, lambda host, port: list(addresses))


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("example.com", "EXAMPLE.com.", 80),
        ("*.example.com", "a.b.example.com", 443),
        ("git.corp:2222", "git.corp", 2222),
        ("*", "example.org", 443),
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::1]:8080", "::1", 8080),
    ],
)
def test_what_is_allowed_is_reached(entry: str, host: str, port: int) -> None:
    assert rules(entry).address(host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.com", "evil.com", 443),
        ("example.com", "example.com.evil.com", 443),
        ("example.com", "a.example.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "badexample.com", 443),
        ("example.com", "example.com", 22),
        ("git.corp:2222", "git.corp", 443),
        ("*", "127.0.0.1", 443),
        ("*", "::1", 443),
    ],
)
def test_nothing_else_is(entry: str, host: str, port: int) -> None:
    with pytest.raises(InputError, match="not an allowed host"):
        rules(entry).address(host, port)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::ffff:127.0.0.1", "fd00::1"]
)
def test_cve_2026_77242_a_name_that_leads_into_a_private_network_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="not public"):
        rules("example.com", addresses=["93.184.215.14", address]).address("example.com", 443)


def test_a_private_host_is_reached_if_it_is_named_with_its_port() -> None:
    assert rules("git.corp:443", addresses=["10.0.0.1"]).address("git.corp", 443) == "10.0.0.1"


@pytest.mark.parametrize(
    "entry", ["", "http://example.com", "a b", "example.com:0", "example.com:x", "a/b", "*x.com"]
)
def test_an_entry_that_is_no_host_is_an_error_that_names_it(entry: str) -> None:
    with pytest.raises(InputError, match="sandbox_hosts"):
        AllowedHost.parse(entry)


@given(st.binary(max_size=300))
def test_whatever_a_command_sends_the_proxy_reaches_nothing_and_goes_on(request_bytes: bytes) -> None:
    connected: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        connected.append(host)
        return []

    proxy = Proxy(HostRules(["allowed.example"], resolve))
    try:
        for sent in (request_bytes + b"\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n\r\n"):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(proxy.socket))
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := client.recv(4096):
                    answer += chunk
        assert answer.startswith(b"HTTP/1.1 403")
    finally:
        proxy.close()
    assert connected == []


def test_the_socket_is_the_users_alone_and_removed_at_the_end() -> None:
    proxy = Proxy(rules())
    folder: Path = proxy.socket.parent
    assert folder.stat().st_mode & 0o077 == 0
    proxy.close()
    assert not folder.exists()
