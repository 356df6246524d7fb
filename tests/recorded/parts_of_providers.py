"""What is made of the errors, listings and windows that providers report: the same reports in every run."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import httpx2
import msgspec

from sevenfold.providers import models
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.failures import Endpoint, error_of, explain
from sevenfold.providers.models import is_local, read_listing, running_window
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer, report_of, retry_after
from tests.recorded.parts import part, short

AT = Endpoint(MESSAGES.vendor, "https://api.example.org", "claude-opus-4-6")
MESSAGES_SAID = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease it",
    "max_tokens is too large: 9000. This model's maximum context length is 8192 tokens and your request has 7000 input",
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
    "(8000 in the messages, 1000 in the completion)",
    "This model's maximum context length is 8192 tokens. You requested 500 output tokens and your prompt contains "
    "at least 8000",
    "maximum context length is 8192 tokens, but your messages resulted in 9001 tokens",
    "the request (9000 tokens) exceeds the available context size (8192 tokens)",
    "Your input exceeds the context window of this model",
    "The prompt is too long for this model.",
    "thinking blocks are bound to a different conversation",
    "model: claude-none",
    "This model does not support image input.",
    "qwen is not a multimodal model",
    "Something else.",
    "",
)
KINDS = (
    "",
    "invalid_request_error",
    "rate_limit_error",
    "overloaded_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "api_error",
    "timeout_error",
)
CODES = (
    None,
    "context_length_exceeded",
    "insufficient_quota",
    "model_not_found",
    "invalid_encrypted_content",
    "previous_response_not_found",
    "billing_hard_limit_reached",
    "compaction_unavailable",
)
STATUSES = (None, 200, 400, 401, 403, 404, 409, 413, 429, 500, 529)
HEADERS: tuple[Mapping[str, str], ...] = (
    {},
    {"retry-after": "3"},
    {"retry-after-ms": "250", "retry-after": "9"},
    {"retry-after": "-1"},
    {"retry-after": "soon"},
    {"retry-after": "Tue, 03 Feb 2026 12:00:30 GMT", "date": "Tue, 03 Feb 2026 12:00:00 GMT"},
    {"retry-after": "Tue, 03 Feb 2026 12:00:30 GMT"},
    {"x-should-retry": "true", "request-id": "r1"},
    {"x-should-retry": "false", "x-request-id": "r2"},
    {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-02-03T12:01:00Z",
     "date": "Tue, 03 Feb 2026 12:00:00 GMT"},
    {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-requests": "0",
     "x-ratelimit-reset-requests": "1h2m3.5s"},
    {"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "6m0s"},
    {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"},
    {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"},
    {"x-ratelimit-remaining-tokens": "0"},
)  # fmt: skip


@part
def errors_explained() -> Iterator[str]:
    """Our error for every report of a provider's: its class, its advice, its sizes, and whether to ask again."""
    bodies: list[object] = [
        *(
            {"error": {"type": kind, "message": message}}
            for kind, message in product(KINDS, MESSAGES_SAID[:1] + MESSAGES_SAID[-2:-1])
        ),
        *({"error": {"code": code, "message": "no", "type": "invalid_request_error"}} for code in CODES),
        *({"message": message} for message in MESSAGES_SAID),
        {
            "error": {
                "message": "too much",
                "n_prompt_tokens": 9_000,
                "n_ctx": 8_192,
                "type": "exceed_context_size_error",
            }
        },
        {
            "error": {"details": {"error_code": "ramp_limit_exceeded"}, "message": "slow down"},
            "request_id": "r",
        },
        *({"error": "plain words"}, "<html><b>Bad gateway</b></html>", "", None, [], {"detail": "x"}),
    ]
    for body, status in product(bodies, STATUSES):
        error = explain(report_of(body, status), AT)
        sizes = getattr(error, "used", None), getattr(error, "limit", None)
        about = f"{type(error).__name__} {error.code!r} {error.retryable} {sizes}"
        yield f"{short(body)} {status}: {about} {error}"
    for headers, status in product(HEADERS, (400, 429, 529)):
        error = explain(report_of({"error": {"message": "wait"}}, status, headers), AT)
        asked = retry_after(headers), retry_after(headers, exhausted=True)
        yield f"{dict(headers)} {status}: {error.retry_after} {error.retryable} {error.request_id!r} {asked} {error}"


@part
def failures_explained() -> Iterator[str]:
    """Our error for every way in which a connection fails."""
    causes: tuple[BaseException | None, ...] = (
        None,
        socket.gaierror(-2, "Name or service not known"),
        ssl.SSLCertVerificationError("certificate has expired"),
        ConnectionRefusedError(111, "refused"),
        ExceptionGroup("all failed", [OSError("first"), ConnectionRefusedError("second")]),
        TimeoutError("later"),
    )
    kinds: tuple[type[Exception], ...] = (
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.ReadTimeout,
        httpx2.ReadError,
        httpx2.RemoteProtocolError,
        httpx2.ProxyError,
        httpx2.UnsupportedProtocol,
        httpx2.InvalidURL,
    )
    for kind, cause, words in product(kinds, causes, ("it failed", "")):
        failure = kind(words)
        failure.__cause__ = cause
        error = error_of(failure, AT)
        told = error and f"{type(error).__name__} {error.network} {error.retryable} {error}"
        yield f"{kind.__name__} because of {cause!r}: {told}"
    others: tuple[Exception, ...] = (
        ErrorAnswer(report_of({"error": {"type": "overloaded_error", "message": "busy"}})),
        MalformedAnswer("no message_start"),
        ValueError("ours"),
    )
    for other in others:
        error = error_of(other, AT)
        yield f"{other!r}: {error and (type(error).__name__, error.retryable, str(error))}"


@part
def windows_listed() -> Iterator[str]:
    """What listings and local servers say of a model's window."""
    entries: tuple[Any, ...] = (
        {"id": "m", "context_length": 8_192, "max_output_tokens": 500},
        {"id": "m", "max_model_len": 4_096, "meta": {"n_ctx": 99}},
        {
            "id": "m",
            "meta": {"n_ctx": 2_048},
            "capabilities": {"effort": {"supported": True}, "thinking": 1},
        },
        {"id": "m", "max_input_tokens": 200_000, "max_tokens": 64_000},
        {"id": "m", "context_length": 0, "context_window": True, "max_tokens": "many"},
        {"id": "other", "context_length": 1},
        "odd",
    )
    for entry in entries:
        shapes: tuple[Any, ...] = (entry, {"data": [entry, {"id": "n"}]}, {"data": []}, [entry])
        for listed in shapes:
            listing = read_listing(msgspec.json.encode(listed), "m")
            yield f"{short(listed)}: {listing and short(listing)}"
    yield f"{models.WINDOWS} {models.ANSWERS}"
    answers: tuple[dict[str, Any], ...] = (
        {"/api/ps": {"models": [{"name": "m:latest", "context_length": 4_096}]}},
        {"/api/ps": {"models": [{"model": "m:7b", "context_length": 2_048}]}},
        {
            "/api/ps": {"models": [{"name": "m:latest", "context_length": 0}]},
            "/api/show": {"parameters": "num_ctx 1234\nstop x"},
        },
        {"/api/ps": {}, "/api/show": {"parameters": None}},
        {"/props": {"default_generation_settings": {"n_ctx": 777}}},
        {
            "/api/v0/models": {
                "data": [{"id": "m", "loaded_context_length": 555}, {"id": "n", "loaded_context_length": 5}]
            }
        },
        {},
    )
    for known, model in product(answers, ("m", "m:7b", "n")):
        asked: list[str] = []

        def fetch(
            path: str, body: object, known: dict[str, Any] = known, asked: list[str] = asked
        ) -> bytes:
            asked.append(f"{path} {body}")
            return msgspec.json.encode(known[path.partition("?")[0]])

        yield f"{list(known)} {model}: {running_window(model, fetch)} {asked}"
    for host in (
        "http://localhost:1",
        "http://10.0.0.7/v1",
        "http://192.168.1.2",
        "https://api.example.org",
        "http://box:80",
        "",
        "http://127.0.0.1",
        "http://172.20.0.1",
        "http://172.40.0.1",
    ):
        yield f"{host}: {is_local(host)}"
