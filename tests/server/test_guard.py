"""What the server refuses, and that every refusal is JSON that says what to do."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sevenfold.doors.server import requests, server
from sevenfold.doors.server.accounts import Tenant
from sevenfold.doors.server.options import ServerLimits
from sevenfold.lab.simulator.brains import EchoBrain
from tests.server.serving import Served, served

HOSTILE = (
    "../../etc",
    "..",
    "a/../../b",
    "a\\b",
    "x;DROP TABLE tenant",
    "%2e%2e",
    "ﬀ",
    "user:ann",
    "",
    "a" * 150,
)
ANONYMOUS = ("/healthz", "/readyz", "/openapi.json", "/metrics")


def heard(line: socket.socket, until: bytes = b"\0") -> bytes:
    """What comes over a connection until it ends, or until something has come."""
    answer = b""
    while until not in answer and (piece := line.recv(65_536)):
        answer += piece
    return answer


def error_of(answer: httpx2.Response) -> str:
    assert answer.headers["content-type"] == "application/json", answer.text
    error = answer.json()["error"]
    assert len(error["message"]) > 15
    return str(error["type"])


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    limits = ServerLimits(body_bytes=10_000, drain_seconds=5)
    with served(
        tmp_path_factory.mktemp("guard"), EchoBrain(), limits=limits, names=("agents.example",)
    ) as one:
        one.http().post("/v1/sessions", json={"id": "s", "memory": False})
        yield one


@pytest.mark.spec("S36.8")
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer\tx",
        "Basic abc",
        "Bearer svf_0000000000000000_" + "A" * 43,
        "Bearer x y",
        "bearer \x7f",
    ],
)
def test_nobody_is_answered_without_a_good_token(here: Served, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    with httpx2.Client(base_url=here.url, headers=headers) as http:
        for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions/s/say"), ("GET", "/v1/usage")):
            answer = http.request(method, path)
            assert (answer.status_code, error_of(answer)) == (401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert [http.get(path).status_code for path in ANONYMOUS] == [200] * len(ANONYMOUS)


@pytest.mark.spec("S36.8")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "a@127.0.0.1:{port}",
    ],
)
def test_a_request_that_names_another_server_is_refused(here: Served, host: str) -> None:
    for path in ("/healthz", "/v1/sessions"):
        answer = here.http().get(path, headers={"Host": host.format(port=here.server.port)})
        assert (answer.status_code, error_of(answer)) == (421, "wrong_host")


@pytest.mark.spec("S36.8")
def test_the_name_of_a_proxy_is_ours(here: Served) -> None:
    headers = {"Host": "agents.example", "Origin": "https://agents.example"}
    assert here.http().get("/v1/sessions", headers=headers).status_code == 200


@pytest.mark.spec("S36.8")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_in_a_browser_are_refused(here: Served, headers: dict[str, str]) -> None:
    answer = here.http().post("/v1/sessions", headers=headers, json={})
    assert (answer.status_code, error_of(answer)) == (403, "web_page")


@pytest.mark.spec("S36.8")
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/nowhere", None, 404, "no_such_address"),
        ("PUT", "/v1/sessions", None, 405, "method_not_allowed"),
        ("GET", "/v1/sessions/s/", None, 404, "no_such_address"),
        ("POST", "/v1/sessions", b"{", 400, "invalid_json"),
        ("POST", "/v1/sessions", b"\xff\xfe", 400, "invalid_json"),
        ("POST", "/v1/sessions", b"[" * 5_000, 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"mdoel": "x"}', 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"id": "../x"}', 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"max_tokens": 0}', 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"max_turns": "many"}', 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"model": "gpt-99"}', 400, "invalid_request"),
        ("POST", "/v1/sessions", b'{"effort": "much"}', 422, "invalid_body"),
        ("POST", "/v1/sessions", b'{"effort": "minimal"}', 400, "invalid_request"),
        ("POST", "/v1/sessions", b'{"max_tokens": 900000}', 400, "invalid_request"),
        ("POST", "/v1/sessions", b'{"server_tools": ["rm"]}', 400, "invalid_request"),
        ("POST", "/v1/sessions", b'{"tools": [{"name": "a b"}]}', 422, "invalid_body"),
        (
            "POST",
            "/v1/sessions",
            b'{"tools": [{"name": "a", "input_schema": {"type": 3}}]}',
            400,
            "invalid_request",
        ),
        ("POST", "/v1/sessions/s/say", b"{}", 422, "invalid_body"),
        ("POST", "/v1/sessions/s/say", b'{"text": ""}', 422, "invalid_body"),
        ("POST", "/v1/sessions/s/say", b'{"text": " \\n"}', 422, "invalid_body"),
        ("POST", "/v1/sessions/s/say", b'{"text": "\\ud800"}', 400, "invalid_json"),
        ("POST", "/v1/sessions/s/say", b'{"text": "x", "key": 3}', 422, "invalid_body"),
        ("POST", "/v1/sessions/s/results", b'{"results": []}', 422, "invalid_body"),
        ("POST", "/v1/sessions/s/results", b'{"results": [{"id": "c9"}]}', 400, "invalid_request"),
        ("POST", "/v1/sessions/s/undo", b"", 409, "not_now"),
        ("POST", "/v1/sessions/none/say", b'{"text": "x"}', 404, "session_not_found"),
        ("GET", "/v1/sessions/none/events", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/none/export", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/none/recall?query=x", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/s/recall", None, 400, "invalid_query"),
        ("GET", "/v1/sessions/s/recall?query=x&most=many", None, 400, "invalid_query"),
        ("GET", "/v1/sessions/s/events?until=never", None, 400, "invalid_query"),
        ("GET", "/v1/sessions?limit=-1", None, 400, "invalid_query"),
        ("GET", "/v1/memory/project/none", None, 404, "memory_not_found"),
        ("DELETE", "/v1/memory/user/none", None, 404, "memory_not_found"),
    ],
)
def test_every_error_says_what_is_wrong(
    here: Served, method: str, path: str, body: bytes | None, status: int, kind: str
) -> None:
    answer = here.http().request(method, path, content=body)
    assert (answer.status_code, error_of(answer)) == (status, kind), answer.text


@pytest.mark.spec("S36.8")
def test_an_address_says_which_methods_it_has(here: Served) -> None:
    allowed = here.http().patch("/v1/sessions/s").headers["allow"]
    assert allowed.split(", ") == ["DELETE", "GET", "HEAD"]


@pytest.mark.spec("S36.8")
def test_a_body_may_be_so_long_and_no_longer(here: Served) -> None:
    http = here.http()
    for content in (b"x" * 10_001, iter([b"x" * 6_000, b"x" * 6_000])):
        answer = http.post("/v1/sessions/s/say", content=content)
        assert (answer.status_code, error_of(answer)) == (413, "body_too_large")


@pytest.mark.spec("S36.8")
def test_a_body_that_never_comes_is_not_waited_for(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.2)
    head = f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{here.server.port}\r\nAuthorization: Bearer {here.token}\r\n"
    with socket.create_connection(("127.0.0.1", here.server.port)) as line:
        line.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        answer = heard(line, b"body_too_slow")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"body_too_slow" in answer


@pytest.mark.spec("S36.8")
def test_a_connection_that_says_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    with (
        served(tmp_path, EchoBrain()) as here,
        socket.create_connection(("127.0.0.1", here.server.port)) as line,
    ):
        line.sendall(b"GET /heal")
        assert line.recv(1_000) == b""


@pytest.mark.spec("S36.8")
def test_connections_streams_and_requests_are_bounded(tmp_path: Path) -> None:
    limits = ServerLimits(requests=2, streams=1, drain_seconds=5)
    with served(tmp_path, EchoBrain(), limits=limits) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        with http.stream("GET", "/v1/sessions/s/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: status"
            second = here.http().get("/v1/sessions/s/events")
            assert (second.status_code, error_of(second)) == (503, "server_busy")
            assert second.headers["retry-after"]
            held = [socket.create_connection(("127.0.0.1", here.server.port)) for _ in range(6)]
            try:
                refused = [heard(line) for line in held[3:]]
            finally:
                for line in held:
                    line.close()
            assert all(
                answer.startswith(b"HTTP/1.1 503") and b"server_busy" in answer for answer in refused
            )


@pytest.mark.spec("S36.8", "S36.7")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_session_ids_reach_nothing(here: Served, name: str) -> None:
    http = here.http()
    created = http.post("/v1/sessions", json={"id": name}) if name else None
    if created is not None:
        assert created.status_code in (400, 422)
    for path in (f"/v1/sessions/{name}/say", f"/v1/sessions/{name}/export"):
        answer = http.post(path, json={"text": "x"}) if path.endswith("say") else http.get(path)
        assert answer.status_code in (400, 404, 405), (path, answer.text)


@pytest.mark.spec("S36.7")
def test_tenants_and_users_with_hostile_names_share_nothing(tmp_path: Path) -> None:
    names = ["acme", "ACME", "acme ", "../acme", "acme/users/ann", "a'; DROP TABLE token; --", "sessions"]
    users = ["", "ann", "ANN", "../ann", "user:ann", "ben%2F..%2Fann"]
    with served(tmp_path, EchoBrain(), tenant=Tenant("other")) as here:
        said: dict[tuple[str, str], str] = {}
        for number, name in enumerate(names):
            token = here.tenant(name)
            for user in users if number < 2 else users[:2]:
                http = here.http(user, token)
                assert http.post("/v1/sessions", json={"id": "s", "memory": False}).status_code == 201
                secret = f"secret {len(said)} of this one"
                answer = http.post("/v1/sessions/s/say", json={"text": secret, "wait": True}).json()
                assert answer["run"]["end"] == "done"
                memory = here.server.sessions.stored.store_of(name, httpx_unquoted(user)).user_memory()
                memory.write("facts.md", secret.encode())
                said[token, user] = secret
        for (token, user), secret in said.items():
            http = here.http(user, token)
            exported = http.get("/v1/sessions/s/export").text
            assert [other for other in said.values() if other in exported] == [secret]
            assert http.get("/v1/memory/user/facts.md").text == secret
            assert [session["id"] for session in http.get("/v1/sessions").json()["sessions"]] == ["s"]
        (token, user), *_ = said
        assert here.http(user, token).delete("/v1/sessions/s").status_code == 204
        left = [here.http(user, token).get("/v1/sessions/s").status_code for token, user in said]
        assert left == [404] + [200] * (len(said) - 1)


def httpx_unquoted(user: str) -> str:
    from urllib.parse import unquote

    return unquote(user)


@pytest.mark.spec("S36.7")
@pytest.mark.parametrize("user", ["x" * 201, "%00", "%FF", "a%0Ab"])
def test_a_user_has_a_name_that_can_be_written(here: Served, user: str) -> None:
    answer = here.http(user).get("/v1/sessions")
    assert (answer.status_code, error_of(answer)) == (400, "invalid_user")


@pytest.mark.spec("S36.5")
def test_a_token_for_one_user_reaches_that_users_sessions_alone(here: Served) -> None:
    token = here.accounts.make_token("acme", user="ann")
    assert here.http("ann", token).get("/v1/sessions").status_code == 200
    assert here.http("", token).post("/v1/sessions", json={"id": "mine"}).status_code == 201
    assert here.http("ann").get("/v1/sessions/mine").status_code == 200
    refused = here.http("ben", token).get("/v1/sessions")
    assert (refused.status_code, error_of(refused)) == (401, "unauthorized")


@pytest.mark.spec("S36.8")
def test_a_failure_of_ours_says_so_and_is_logged(
    here: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(here.server.sessions.stored, "listed", broken)
    answer = here.http().get("/v1/sessions")
    assert (answer.status_code, error_of(answer)) == (500, "internal")
    assert "fault" not in answer.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.spec("S36.8")
def test_headers_keep_answers_out_of_caches_and_pages(here: Served) -> None:
    for answer in (here.http().get("/v1/sessions"), here.http().get("/nowhere")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


@pytest.mark.spec("S36.2")
def test_a_provider_that_refuses_is_told_from_a_server_that_fails(tmp_path: Path) -> None:
    from sevenfold.lab.simulator.provider import Setup, Simulator

    simulator = Simulator(EchoBrain(), setup=Setup(api_key="another"))
    with served(tmp_path, simulator) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        run = http.post("/v1/sessions/s/say", json={"text": "x", "wait": True}).json()["run"]
        assert (run["end"], run["error"]["type"]) == ("failed", "provider_refused")
        assert "key of this server" in run["error"]["message"]
        assert http.get("/v1/sessions/s").json()["status"] == "unfinished"


@pytest.mark.spec("S36.8")
def test_one_tenant_cannot_take_all_runs(tmp_path: Path) -> None:
    import threading

    from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, text

    let = threading.Event()

    class Slow:
        """Answers only when it is let."""

        def reply(self, prompt: ModelPrompt) -> ModelReply:
            let.wait(30)
            return ModelReply([text("Late.")])

    limits = ServerLimits(runs=4, tenant_runs=1, waiting=2, drain_seconds=5)
    with served(tmp_path, Slow(), limits=limits) as here:
        http = here.http()
        other = here.http(token=here.tenant("other"))
        status = []
        for number in range(3):
            http.post("/v1/sessions", json={"id": f"s{number}", "memory": False})
            status.append(http.post(f"/v1/sessions/s{number}/say", json={"text": "x"}))
        assert [answer.status_code for answer in status] == [202, 202, 429]
        assert error_of(status[2]) == "tenant_busy"
        other.post("/v1/sessions", json={"id": "s", "memory": False})
        assert other.post("/v1/sessions/s/say", json={"text": "x"}).status_code == 202
        # One that waits for another one to end is never begun when it is interrupted.
        assert http.post("/v1/sessions/s1/interrupt").json()["interrupted"] is True
        let.set()
        for client, name in ((http, "s0"), (other, "s")):
            assert "Late." in client.get(f"/v1/sessions/{name}/events?until=idle").text
        assert "Late." not in http.get("/v1/sessions/s1/events?until=idle").text
