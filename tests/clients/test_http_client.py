"""Without its SDK a provider gets the same requests, and its answers and errors mean the same."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from sevenfold.cli.main import main
from sevenfold.errors import ModelError, NotAuthenticated, ProviderFailed, RateLimited
from sevenfold.lab.simulator.faults import Fault
from sevenfold.ports import Call
from sevenfold.providers import http_client, registry
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.sdk import SdkClient, SdkProvider
from tests.clients.asking import (
    KEY,
    MODELS,
    PROVIDERS,
    SAID,
    TOOLS,
    Provider,
    address,
    body,
    direct_client,
    http_of,
    sdk_client,
    words,
)

pytestmark = pytest.mark.spec("S15.6")
every_api = pytest.mark.parametrize("api", PROVIDERS)
OF_THE_SDKS = ("x-stainless-", "user-agent", "traceparent")
"""Headers in which an SDK describes itself."""
Answer = Callable[[httpx2.Request], httpx2.Response]


def headers_of(request: Any) -> dict[str, str]:
    return {
        name: value for name, value in request.headers.items() if not name.lower().startswith(OF_THE_SDKS)
    }


def both_ways(provider: SdkProvider, call: Call, answer: Answer, **options: Any) -> Iterator[Any]:
    """What happens when a call is made with the SDK, and without: its outcome and the requests it took."""
    http = http_of(provider)
    at = {"api_key": KEY, "base_url": address(provider, "http://there"), "max_retries": 0, **options}
    for direct in (False, True):
        sent: list[Any] = []

        def respond(request: Any, sent: list[Any] = sent) -> Any:
            request.read()
            sent.append(request)
            made = answer(request)
            return http.Response(made.status_code, headers=made.headers, content=made.content)

        transport = http.MockTransport(respond)
        if direct:
            sdk = direct_client(provider, **at, transport=transport, awaited=False)
        else:
            sdk = sdk_client(provider, **at, http_client=http.Client(transport=transport))
        client = provider.client(sdk, provider.name)
        try:
            with closing(sdk):
                yield client.ask(call), sent
        except ModelError as error:
            yield error, sent


def refusing(status: int, content: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx2.Response(status, headers=named, content=content)


def made(api: str, monkeypatch: pytest.MonkeyPatch, provider: Provider, **variables: str) -> Any:
    """The client a command makes in an environment with a key, this provider's address and more variables."""
    vendor = PROVIDERS[api].vendor
    at = {vendor.key_variable: KEY, vendor.url_variable: address(PROVIDERS[api], provider.url)}
    for name, value in (at | variables).items():
        monkeypatch.setenv(name, value)
    return registry.quick_client_for(MODELS[api])


@every_api
@pytest.mark.parametrize("stream", [True, False])
def test_a_request_without_the_sdk_has_the_bytes_and_the_headers_of_one_with_it(
    api: str, stream: bool, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue\nno header\nAnthropic-Beta: mine",
        "OPENAI_CUSTOM_HEADERS": "X-Team: blue",
        "OPENAI_ORG_ID": "org-1",
        "OPENAI_PROJECT_ID": "proj-1",
    }
    direct = made(api, monkeypatch, provider, **variables)
    sdk = PROVIDERS[api].client(wire=api)
    assert isinstance(direct.sdk, HttpClient)
    assert isinstance(sdk, SdkClient)
    assert not isinstance(sdk.sdk, HttpClient)
    for client in (direct, sdk):
        client.stream = stream
        with closing(client):
            asked = client.ask(Call(body(MODELS[api], tools=TOOLS), betas=("one-2026-01-01",)))
            assert words(asked.answer) == SAID
    ours, theirs = provider.simulator.requests
    assert ours.raw == theirs.raw
    assert headers_of(ours) == headers_of(theirs)
    assert headers_of(ours)["x-team"] == "blue"


@every_api
def test_a_custom_header_replaces_the_one_of_its_name(
    api: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {f"{name}_CUSTOM_HEADERS": "Authorization: Bearer other" for name in ("ANTHROPIC", "OPENAI")}
    with closing(made(api, monkeypatch, provider, **headers)) as client, pytest.raises(NotAuthenticated):
        client.ask(Call(body(MODELS[api])))
    assert provider.simulator.requests[0].headers["authorization"] == "Bearer other"


@every_api
@pytest.mark.parametrize(
    "answer",
    [
        refusing(400, b'{"error": {"type": "invalid_request_error", "message": "no", "code": "c"}}'),
        refusing(429, b'{"error": {"message": "slow down"}}', retry_after="7", request_id="req_1"),
        refusing(429, b'{"error": {"message": "slow down"}}', retry_after_ms="1500", x_request_id="req_2"),
        refusing(529, b'{"error": {"type": "overloaded_error", "message": "busy"}}', request_id="req_3"),
        refusing(502, b"<html><body><h1>Bad gateway</h1></body></html>"),
        refusing(500, b""),
        refusing(503, b"[1]"),
        refusing(500, b"\xff\xfe not text"),
        refusing(500, b'{"error":' + b"[" * 50_000),
        refusing(404, b'{"detail": "Not Found"}'),
        refusing(401, b'"who are you?"'),
        refusing(418, b'{"error": "a teapot"}'),
        refusing(200, b"not what was asked for"),
        refusing(200, b'{"error": {"message": "in an answer"}, "type": "error"}'),
        refusing(304, b""),
    ],
    ids=lambda answer: str(answer(httpx2.Request("GET", "http://x")).content[:30]),
)
def test_an_error_means_the_same_without_the_sdk(api: str, answer: Answer) -> None:
    (theirs, _), (ours, _) = both_ways(PROVIDERS[api], Call(body(MODELS[api])), answer)
    assert isinstance(theirs, ModelError)
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)
    for field in ("status", "code", "request_id", "retryable", "retry_after"):
        assert getattr(ours, field, None) == getattr(theirs, field, None)


@every_api
@pytest.mark.parametrize(
    "error",
    [
        httpx2.ConnectError("refused"),
        httpx2.ConnectTimeout("late"),
        httpx2.ReadTimeout("late"),
        httpx2.ReadError("gone"),
        httpx2.RemoteProtocolError("half"),
        httpx2.ProxyError("no proxy"),
        httpx2.UnsupportedProtocol("ftp"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_connection_that_fails_means_the_same_without_the_sdk(api: str, error: Exception) -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error

    (theirs, _), (ours, _) = both_ways(PROVIDERS[api], Call(body(MODELS[api])), fail)
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)


@every_api
@pytest.mark.parametrize(
    ("status", "headers", "asked"),
    [
        (408, {}, 3),
        (409, {}, 3),
        (429, {"retry-after": "0.001"}, 3),
        (500, {}, 3),
        (529, {"x-should-retry": "false"}, 1),
        (400, {}, 1),
        (400, {"x-should-retry": "true"}, 3),
    ],
)
def test_the_same_requests_are_repeated_without_the_sdk(
    api: str, status: int, headers: dict[str, str], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    answer: Answer = lambda request: httpx2.Response(status, headers=headers, content=b"{}")  # noqa: E731
    found = both_ways(PROVIDERS[api], Call(body(MODELS[api])), answer, max_retries=2)
    assert [len(sent) for _, sent in found] == [asked, asked]


def test_retries_wait_as_the_server_asks_or_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    headers = iter([{"retry-after": "3"}, {"retry-after": "soon"}, {}, {}])

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500, headers=next(headers), content=b"{}")

    client = HttpClient("http://there", {}, max_retries=3, transport=httpx2.MockTransport(answer))
    with pytest.raises(Exception, match=r"Error code|status"):
        client.post("/v1/messages", content=b"{}")
    assert waited[0] == 3
    assert 0.75 <= waited[1] <= 1
    assert 1.5 <= waited[2] <= 2
    assert len(waited) == 3


@every_api
def test_a_wait_of_hours_is_the_callers_decision(api: str) -> None:
    answer = refusing(429, b'{"error": {"message": "no more today"}}', retry_after="7200")
    provider, sent = PROVIDERS[api], []

    def respond(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return answer(request)

    at = address(provider, "http://there")
    sdk = direct_client(
        provider, api_key=KEY, base_url=at, transport=httpx2.MockTransport(respond), awaited=False
    )
    with closing(sdk), pytest.raises(RateLimited) as raised:
        provider.client(sdk, api).ask(Call(body(MODELS[api])))
    assert raised.value.retry_after == 7_200
    assert len(sent) == 1


def test_an_error_that_never_ends_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_ERROR_BYTES", 10_000)
    taken: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield b"x" * 1_000

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500, content=endless())

    sdk = HttpClient("http://there", {}, max_retries=0, transport=httpx2.MockTransport(answer))
    with pytest.raises(ProviderFailed, match="xxx"):
        PROVIDERS["messages"].client(sdk).ask(Call(body()))
    assert len(taken) <= 12


@every_api
def test_a_model_is_looked_up_without_the_sdk_as_with_it(
    api: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, sdk = made(api, monkeypatch, provider), PROVIDERS[api].client(wire=api)
    assert isinstance(sdk, SdkClient)
    with closing(direct), closing(sdk):
        assert direct.listing(MODELS[api], 5.0) == sdk.listing(MODELS[api], 5.0)
        assert direct.address == sdk.address


@every_api
def test_after_a_cut_the_next_request_has_a_connection_of_its_own(
    api: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(made(api, monkeypatch, provider)) as client:
        for fault in (Fault("cut_stream", after=4), Fault("cut_stream", after=4, clean=True)):
            provider.fails(fault)
            with pytest.raises(ProviderFailed):
                client.ask(Call(body(MODELS[api])))
            assert words(client.ask(Call(body(MODELS[api]))).answer) == SAID


def test_without_a_key_anthropic_is_asked_through_its_sdk_which_knows_other_credentials(
    monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    with closing(registry.quick_client_for("claude-sonnet-5-5")) as client:
        assert isinstance(client, SdkClient)
        assert not isinstance(client.sdk, HttpClient)
        assert words(client.ask(Call(body())).answer) == SAID


@every_api
def test_a_run_loads_neither_an_sdk_nor_what_draws(api: str, provider: Provider, tmp_path: Any) -> None:
    provider.says("done")
    vendor = PROVIDERS[api].vendor
    script = (
        "import sys; from sevenfold.cli.main import main;"
        f"code = main(['chat', '-p', 'hi', '--model', {MODELS[api]!r}]);"
        "print(code, sorted({'anthropic', 'openai', 'pydantic', 'mcp', 'rich.console'} & sys.modules.keys()))"
    )
    env = {vendor.key_variable: KEY, vendor.url_variable: address(PROVIDERS[api], provider.url)}
    env |= {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    given: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "stdin": subprocess.DEVNULL,
        "timeout": 60,
    }
    shown = subprocess.run([sys.executable, "-c", script], env=env, cwd=tmp_path, check=False, **given)
    assert shown.stdout.splitlines()[-1] == "0 []", shown.stderr


def test_an_address_without_a_key_ends_a_run_with_a_line_that_names_the_variable(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "SEVENFOLD_HOME", "ANTHROPIC_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["chat", "-p", "hi", "--folder", str(tmp_path)]) == 2
    said = capsys.readouterr().err.strip()
    assert "ANTHROPIC_API_KEY" in said
    assert "\n" not in said
