"""Who may use the gateway, and what it refuses; the ids are those of advisories about other gateways."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold.doors.addresses import is_loopback
from sevenfold.doors.follower.secret import secret_of
from sevenfold.doors.gateway.guard import (
    ELSEWHERE,
    GatewayRefusal,
    Guard,
    names_another_server,
)
from sevenfold.doors.gateway.relay import read_head
from sevenfold.doors.gateway.upstreams import Upstream, Upstreams
from sevenfold.errors import InputError
from tests.gateway.cases import Case, playing
from tests.gateway.standing import standing

pytestmark = pytest.mark.spec("S30.3")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def case(number: int = 0, answer: bytes = OK) -> Case:
    return Case("POST", (), "/", b"", None, (answer,), "stay")


def exchange(port: int, raw: bytes) -> bytes:
    """What a server sends until it ends the connection, or until one small answer is whole."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(raw)
        got = b""
        while piece := connection.recv(65_536):
            got += piece
            if got.endswith(b"\r\n\r\nok"):
                break
        return got


def request(
    port: int, *headers: str, target: str = "/v1/messages", body: bytes = b"{}", host: str = ""
) -> bytes:
    named = host or f"127.0.0.1:{port}"
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {named}",
        "X-Case: 0",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def passed_through(tmp_path: Path, *headers: str, **parts: Any) -> tuple[bytes, int]:
    """The answer to a request through a gateway, and how many requests its upstream got."""
    with (
        playing({0: case()}) as (port, server),
        standing(tmp_path, f"http://127.0.0.1:{port}") as gateway,
    ):
        parts = {
            name: value(gateway.gateway.port) if callable(value) else value for name, value in parts.items()
        }
        answer = exchange(gateway.gateway.port, request(gateway.gateway.port, *headers, **parts))
        return answer, len(server.seen)


def test_a_request_of_a_program_on_this_machine_passes(tmp_path: Path) -> None:
    assert passed_through(tmp_path) == (OK, 1)


@pytest.mark.parametrize(
    "host", ["evil.example", "api.anthropic.com", "127.0.0.1", "127.0.0.1:1", "a@127.0.0.1"]
)
def test_cve_2026_48710_a_host_header_that_names_something_else_is_refused(
    tmp_path: Path, host: str
) -> None:
    answer, reached = passed_through(tmp_path, host=host)
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert reached == 0


@pytest.mark.parametrize(
    "target",
    ["http://evil.example/v1/messages", "//evil.example/v1/messages", "evil.example:443", "/v1\\messages"],
)
def test_cve_2026_49468_a_target_that_names_a_server_is_refused(tmp_path: Path, target: str) -> None:
    answer, reached = passed_through(tmp_path, target=target)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert reached == 0


def test_a_name_that_was_made_to_lead_here_is_refused(tmp_path: Path) -> None:
    answer, reached = passed_through(tmp_path, host=lambda port: f"rebound.example:{port}")
    assert (answer[:12], reached) == (b"HTTP/1.1 421", 0)


@pytest.mark.parametrize(
    "header",
    [
        "Origin: https://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "origin: http://127.0.0.1:1",
    ],
)
def test_requests_of_web_pages_are_refused(tmp_path: Path, header: str) -> None:
    answer, reached = passed_through(tmp_path, header)
    assert (answer[:12], reached) == (b"HTTP/1.1 403", 0)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "api_base": "http://evil.example"},
        {"base_url": None, "messages": []},
        {"extra_body": {"api_base": "http://evil.example"}},
        {"litellm_params": {"api_url": "x"}},
    ],
)
def test_cve_2024_6587_a_body_that_names_another_upstream_is_refused(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    answer, reached = passed_through(tmp_path, body=json.dumps(body).encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"leave it out" in answer
    assert reached == 0


def test_a_field_whose_letters_are_written_as_codes_is_found() -> None:
    assert names_another_server(b'{"api\\u005fbase": "x"}') == "api_base"
    assert names_another_server(b'{"messages": [{"content": "set api_base to \\u0022x\\u0022"}]}') == ""
    assert names_another_server(b"not json, but api_base") == ""


def test_cve_2026_59822_credentials_go_to_the_upstream_as_they_came_and_no_request_gets_others(
    tmp_path: Path,
) -> None:
    with (
        playing({0: case()}) as (port, server),
        standing(tmp_path, f"http://127.0.0.1:{port}") as gateway,
    ):
        own = gateway.gateway.port
        exchange(own, request(own, "Authorization: Bearer alice-key-123456"))
        assert "Authorization: Bearer alice-key-123456" in server.seen.pop(0).head
        exchange(own, request(own))
        assert not any("alice" in line or "uthorization" in line for line in server.seen[0].head)
    assert not any(b"alice-key" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_cve_2026_42271_the_gateway_has_no_addresses_of_its_own(tmp_path: Path) -> None:
    body = json.dumps({"transport": "stdio", "command": "touch", "args": [str(tmp_path / "ran")]}).encode()
    answer, reached = passed_through(tmp_path, target="/mcp-rest/test/connection", body=body)
    assert (answer, reached) == (OK, 1)
    assert not (tmp_path / "ran").exists()


def test_cve_2026_45136_names_from_a_request_are_neither_paths_nor_code(tmp_path: Path) -> None:
    name = "../../x'; import os; '"
    asked = json.dumps(
        {"model": "m", "tools": [{"name": "R"}], "messages": [{"role": "user", "content": "hi"}]}
    )
    folder = tmp_path / "sessions"
    answer, _ = passed_through(folder, f"x-claude-code-session-id: {name}", body=asked.encode())
    assert answer == OK
    assert [path.name for path in tmp_path.iterdir()] == ["sessions"]
    [transcript] = folder.glob("*.jsonl")
    assert transcript.stem.isalnum()


def test_websockets_are_answered_so_that_clients_go_on_with_http(tmp_path: Path) -> None:
    answer, reached = passed_through(tmp_path, "Upgrade: websocket", "Connection: Upgrade")
    assert (answer[:12], reached) == (b"HTTP/1.1 426", 0)


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"\x16\x03\x01 not http\r\n\r\n",
    ],
)
def test_a_head_about_whose_end_servers_could_disagree_is_refused(tmp_path: Path, head: bytes) -> None:
    with (
        playing({0: case()}) as (port, server),
        standing(tmp_path, f"http://127.0.0.1:{port}") as gateway,
    ):
        assert exchange(gateway.gateway.port, head).startswith(b"HTTP/1.1 400 ")
        assert not server.seen


def test_the_head_that_is_passed_on_differs_in_its_host_alone() -> None:
    head = read_head(b"POST /v1/x?a=1 HTTP/1.1\r\nhOST: 127.0.0.1:9\r\nX-ODD:  v w \r\nx-odd: 2\r\n\r\n")
    raw = head.raw("/base/v1/x?a=1", "api.example")
    assert raw == b"POST /base/v1/x?a=1 HTTP/1.1\r\nhOST: api.example\r\nX-ODD: v w\r\nx-odd: 2\r\n\r\n"


def test_a_provider_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with standing(tmp_path, f"http://127.0.0.1:{port}") as gateway:
        answer = exchange(gateway.gateway.port, request(gateway.gateway.port))
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert f"no connection to http://127.0.0.1:{port}".encode() in answer


def test_where_others_reach_the_gateway_every_path_begins_with_its_token(tmp_path: Path) -> None:
    with (
        playing({0: case()}) as (port, server),
        standing(tmp_path, f"http://127.0.0.1:{port}", token="let-me-in") as gateway,
    ):
        own = gateway.gateway.port
        assert gateway.url == f"http://127.0.0.1:{own}/~let-me-in"
        assert exchange(own, request(own)).startswith(b"HTTP/1.1 401 ")
        assert exchange(own, request(own, target="/~wrong/v1/messages")).startswith(b"HTTP/1.1 401 ")
        assert not server.seen
        assert exchange(own, request(own, target="/~let-me-in/v1/messages")) == OK
        assert server.seen[0].head[0] == "POST /v1/messages HTTP/1.1"


def test_only_addresses_of_this_machine_need_no_token() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "[::1]", "localhost")] == [True] * 4
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.4", "::", "box.example")))
    guard = Guard("192.168.1.4", 80, "t")
    admitted = guard.admitted("GET", "/~t/v1/models", {"host": "192.168.1.4"})
    assert admitted == "/v1/models"
    assert isinstance(guard.admitted("GET", "/~t/v1/models", {"host": "box.example"}), GatewayRefusal)


def test_a_body_that_no_provider_takes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with standing(tmp_path, "http://127.0.0.1:1") as gateway:
        port = gateway.gateway.port
        head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 99999999\r\n\r\n"
        assert exchange(port, head.encode()).startswith(b"HTTP/1.1 413 ")


def test_requests_go_where_their_api_is() -> None:
    both = Upstreams.chosen(None, {"OPENAI_BASE_URL": "https://gw.example/codex"})
    assert both.route("/v1/messages?beta=true", {}) == (
        Upstream(True, "api.anthropic.com", 443),
        "/v1/messages?beta=true",
    )
    assert both.route("/v1/responses", {})[1] == "/codex/responses"
    assert both.route("/v1/models", {})[0].host == "gw.example"
    assert both.route("/v1/models", {"anthropic-version": "x"})[0].host == "api.anthropic.com"
    local = Upstreams.chosen("http://localhost:8000/v1/", {})
    assert local.route("/v1/chat/completions", {}) == (local.openai, "/v1/chat/completions")
    assert local.route("/v1/messages", {}) == (local.anthropic, "/v1/messages")


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://u:p@x", "http://x/?q=1", "http://x:99999"])
def test_an_upstream_that_is_no_address_is_named(url: str) -> None:
    with pytest.raises(InputError, match="the upstream must be"):
        Upstreams.chosen(url, {})


def test_the_key_of_the_hashes_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "gateway.key"
    made = secret_of(path)
    assert secret_of(path) == made
    assert path.stat().st_mode & 0o077 == 0


def test_two_requests_on_one_connection_that_go_to_two_providers_both_get_their_answers(
    tmp_path: Path,
) -> None:
    async def both(port: int) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        got = []
        for target in ("/v1/messages", "/v1/responses"):
            writer.write(request(port, target=target))
            got.append(await reader.readuntil(b"ok"))
        writer.close()
        return got

    with playing({0: case()}) as (port, _), standing(tmp_path, f"http://127.0.0.1:{port}") as gateway:
        assert asyncio.run(both(gateway.gateway.port)) == [OK, OK]


def test_our_own_answers_are_errors_that_clients_read() -> None:
    raw = GatewayRefusal(403, "Forbidden", "no").raw()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert msgspec.json.decode(body)["error"]["message"] == "sevenfold: no"


@pytest.mark.spec("S30.3")
def test_every_name_that_leads_elsewhere_is_found_however_its_letters_are_written() -> None:
    for name in ELSEWHERE:
        coded = "".join(f"\\u{ord(letter):04x}" for letter in name)
        for written in (name, coded, f"{coded[:6]}{name[1:]}", f"{name[:-1]}\\u{ord(name[-1]):04X}"):
            assert names_another_server(f'{{"{written}": "http://x"}}'.encode()) == name
            assert names_another_server(f'{{"extra_body": {{"{written}": 1}}}}'.encode()) == name
