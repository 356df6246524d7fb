"""Known mistakes of other MCP servers, none of which ours may make. Each test has the id of an advisory."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from sevenfold.cli.main import main
from sevenfold.doors.mcp_server import http, protocol, tools
from sevenfold.doors.mcp_server.sessions import SessionShelf
from sevenfold.doors.plugins import claude_code
from sevenfold.errors import InputError
from sevenfold.stores import token_file
from tests.doors.serving import served

pytestmark = pytest.mark.spec("S23.34")
SECRET = "a-token-of-more-than-thirty-two-characters"
PORT = 8765
NAME = f"127.0.0.1:{PORT}"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Authorization": f"Bearer {SECRET}",
    "Host": NAME,
    "MCP-Protocol-Version": "2025-11-25",
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    shelf = SessionShelf(tmp_path, lambda: None)
    app = http.application(shelf, SECRET, "127.0.0.1", PORT)
    with TestClient(app, base_url=f"http://{NAME}", follow_redirects=False) as client:
        yield client


def status(client: TestClient, path: str = http.PATH, **headers: str) -> int:
    """The status of a request for the list of tools, with some headers changed; an empty one is left out."""
    changed = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    sent = {name: value for name, value in changed.items() if value}
    return client.post(path, json=LIST, headers=sent).status_code


def test_a_request_with_the_token_is_served(client: TestClient) -> None:
    answer = client.post(http.PATH, json=LIST, headers=HEADERS).json()
    assert [tool["name"] for tool in answer["result"]["tools"]] == [tool.name for tool in tools.TOOLS]
    assert status(client, Host=f"localhost:{PORT}", Origin=f"http://localhost:{PORT}") == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1:{PORT}.evil.example"],
)
def test_cve_2025_66416_a_domain_that_leads_here_is_refused(client: TestClient, host: str) -> None:
    assert status(client, Host=host) == 421


@pytest.mark.parametrize("path", ["/", "/mcp", "/mcp/", "/anything"])
def test_cve_2026_35568_the_host_is_checked_on_every_path(client: TestClient, path: str) -> None:
    assert status(client, path, Host="evil.example") == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"https://{NAME}", "http://127.0.0.1:1"]
)
def test_cve_2026_34742_a_web_page_of_another_origin_is_refused(client: TestClient, origin: str) -> None:
    assert status(client, Origin=origin) == 403


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "HEAD"])
def test_cve_2026_35577_the_host_is_checked_for_every_method(client: TestClient, method: str) -> None:
    assert client.request(method, http.PATH, headers={**HEADERS, "Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", f"Basic {SECRET}", f"Bearer {SECRET}x"]
)
def test_cve_2026_52869_a_session_id_is_worth_nothing_without_the_token(
    client: TestClient, authorization: str
) -> None:
    answer = client.post(http.PATH, json=LIST, headers=HEADERS)
    assert "mcp-session-id" not in answer.headers
    assert status(client, Authorization=authorization, MCP_Session_Id="0123456789abcdef") == 401


@pytest.mark.parametrize(
    "name", ["write_memory", "Recall", "recall ", "", None, ["recall"], {"name": "recall"}]
)
def test_cve_2026_77243_a_tool_that_is_not_listed_cannot_be_called(
    client: TestClient, tmp_path: Path, name: object
) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
    refused = protocol.take(json.dumps(asked).encode())
    assert isinstance(refused, bytes)
    assert json.loads(refused)["error"]["code"] == protocol.INVALID_PARAMS
    answer = client.post(http.PATH, json=asked, headers=HEADERS).json()
    assert "error" in answer or answer["result"]["isError"]


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "evil.example", "127.0.0.1.evil.example", ""]
)
def test_cve_2026_77242_no_address_that_others_reach_is_listened_on(host: str) -> None:
    with pytest.raises(InputError, match="an address of this machine"):
        http.loopback(host)


def test_cve_2026_77265_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(*_: Any) -> Any:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    assert http.loopback("localhost") == "127.0.0.1"
    assert http.loopback("::1") == "::1"
    with pytest.raises(InputError):
        http.loopback("rebinding.example")


@pytest.mark.parametrize(
    "host",
    [f"{NAME}\\@evil.example", f"evil.example\\{NAME}", f"evil.example@{NAME}", f"{NAME}/", f"{NAME}#"],
)
def test_cve_2026_77274_a_backslash_in_the_host_is_no_way_around(client: TestClient, host: str) -> None:
    assert status(client, Host=host) == 421


@pytest.mark.parametrize("path", ["/mcp/", "//mcp", "/mcp//", "/mcp/%2e%2e/mcp"])
def test_cve_2026_77261_nobody_is_sent_elsewhere(client: TestClient, path: str) -> None:
    answer = client.post(path, json=LIST, headers=HEADERS)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_cve_2026_77268_the_token_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        secret = token_file.token(tmp_path / "home" / "mcp-token")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "home" / "mcp-token").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert len(secret) >= 32
    assert token_file.token(tmp_path / "home" / "mcp-token") == secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_cve_2026_77256_a_token_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "mcp-token"
    token_file.token(path)
    path.chmod(mode)
    with pytest.raises(InputError, match="can be read by others"):
        token_file.token(path)
    path.unlink()
    path.write_text("short\n")
    path.chmod(0o600)
    with pytest.raises(InputError, match="holds no token"):
        token_file.token(path)


def test_cve_2025_54135_files_of_the_project_do_not_change_what_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "open('pwned', 'w').close()\n"
    (tmp_path / "json.py").write_text(hostile)
    (tmp_path / "msgspec.py").write_text(hostile)
    (tmp_path / "sevenfold").mkdir()
    (tmp_path / "sevenfold" / "__init__.py").write_text(hostile)
    started = {"command": "touch", "args": ["pwned"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"sevenfold": started}}))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    with served(tmp_path) as line:
        assert line.call("memory")["entries"] == []
    assert not (tmp_path / "pwned").exists()


def test_cve_2025_54136_a_server_entry_that_was_swapped_is_shown_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    main(["install", "claude-code"])
    assert f'"command": "{sys.executable}"' in capsys.readouterr().out
    entry = next(
        file.path
        for file in claude_code.changes(with_status_line=False).files
        if file.path.name == ".mcp.json"
    )
    entry.write_text(entry.read_text().replace(sys.executable, "/tmp/other"))
    assert main(["install", "claude-code"]) == 2
    assert "is not from this installation" in capsys.readouterr().err
    assert "/tmp/other" in entry.read_text()
