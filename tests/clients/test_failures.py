"""Whatever a provider complains about becomes one class of error, by its code first and its words last."""

from __future__ import annotations

import json
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from sevenfold.errors import (
    BodyTooLarge,
    BoundThinking,
    ModelError,
    ModelNotServed,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    PromptTooLong,
    ProviderFailed,
    RateLimited,
    RequestRefused,
    ThreadLost,
    Unreachable,
)
from sevenfold.providers import failures
from sevenfold.providers.anthropic import ANTHROPIC
from sevenfold.providers.failures import Endpoint
from sevenfold.providers.openai.client import OPENAI
from sevenfold.wire.error_report import report_of

PLACE = Endpoint(ANTHROPIC, "http://here", "some-model")


def explained(body: Any, status: int | None = None, **headers: str) -> ModelError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failures.explain(report_of(body, status, named), PLACE)


def said(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_9"}


def told(message: str, kind: str = "invalid_request_error", code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("message", "used", "limit"),
    [
        ("prompt is too long: 208310 tokens > 200000 maximum", 208_310, 200_000),
        (
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input "
            "length or `max_tokens` and try again",
            178_959,
            136_000,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
            "tokens. Please reduce the length of the messages.",
            9_000,
            8_192,
        ),
        (
            "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in "
            "the messages, 500 in the completion). Please reduce the length of the messages or completion.",
            3_703,
            3_597,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 1000 output tokens "
            "and your prompt contains at least 3097 input tokens, for a total of at least 4097 tokens.",
            3_097,
            3_096,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length "
            "is 8192 tokens and your request has 4000 input tokens (5000 > 8192 - 4000).",
            4_000,
            3_192,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, your request has 9001 input tokens.",
            9_001,
            8_192,
        ),
        (
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            5_000,
            4_096,
        ),
        ("the request exceeds the available context size, try increasing it", None, None),
        (
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            None,
            None,
        ),
        ("Input is too long for requested model.", None, None),
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_every_wording_with_its_figures(
    message: str, used: int | None, limit: int | None
) -> None:
    for body in (
        said(message),
        told(message, code=400),
        {"object": "error", "message": message, "code": 400},
    ):
        error = explained(body, 400)
        assert type(error) is PromptTooLong
        assert (error.used, error.limit) == (used, limit)
        assert error.gap == (None if used is None or limit is None else used - limit)


def test_a_server_may_give_the_figures_apart_and_any_status() -> None:
    body = {"error": {"code": 500, "message": "too much", "type": "exceed_context_size_error"}}
    body["error"] |= {"n_prompt_tokens": 1_407, "n_ctx": 256}
    error = explained(body, 500)
    assert type(error) is PromptTooLong
    assert error.gap == 1_151


BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (said(BOUND), 400, BoundThinking),
        (said("messages.1.content.0: Invalid `signature` in `thinking` block"), 400, RequestRefused),
        (said("messages: text content blocks must be non-empty"), 400, RequestRefused),
        (said("no", code="compaction_signature_invalid"), 400, RequestRefused),
        (said("Not now", "rate_limit_error"), 429, RateLimited),
        (said("Slower", "rate_limit_error", code="ramp_limit_exceeded"), 429, RateLimited),
        (told("You exceeded your current quota", code="insufficient_quota"), 429, RateLimited),
        (said("Overloaded", "overloaded_error"), 529, Overloaded),
        (said("Overloaded", "overloaded_error"), None, Overloaded),
        (said("Overloaded", "overloaded_error"), 200, Overloaded),
        (said("Retry", "overloaded_error", code="compaction_unavailable"), 529, Overloaded),
        (said("Busy", "api_error"), 503, Overloaded),
        (said("Oops", "api_error"), 500, ProviderFailed),
        (said("Oops", "api_error"), None, ProviderFailed),
        (said("Late", "timeout_error"), 504, ProviderFailed),
        (told("gone", "of_tomorrow"), None, ProviderFailed),
        (told("too long", code="context_length_exceeded"), None, PromptTooLong),
        (
            {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
            413,
            BodyTooLarge,
        ),
        (said("Large", code="request_body_too_large_after_decoding"), 400, BodyTooLarge),
        (said("invalid x-api-key", "authentication_error"), 401, NotAuthenticated),
        (said("not yours", "permission_error"), 403, NotPermitted),
        (said("pay first", "billing_error"), 402, NotPermitted),
        (told("Incorrect API key", code="invalid_api_key"), 401, NotAuthenticated),
        (said("model: claude-none", "not_found_error"), 404, ModelNotServed),
        (told("The model `x` does not exist", code="model_not_found"), 404, ModelNotServed),
        (told('model "x" not found, try pulling it first', "api_error"), 404, ModelNotServed),
        (said("gone", "not_found_error", code="thread_not_found"), 404, ThreadLost),
        (said("gone", "not_found_error", code="file_not_found"), 404, RequestRefused),
        ({"detail": "Not Found"}, 404, Unreachable),
        ("<html><h1>404</h1> nothing here</html>", 404, Unreachable),
        ("<html>Bad Gateway</html>", 502, ProviderFailed),
        (None, 500, ProviderFailed),
        (None, 400, RequestRefused),
        ({"error": "unauthorized"}, 401, NotAuthenticated),
        (said("wait for it", "conflict_error"), 409, ProviderFailed),
    ],
)
def test_a_complaint_becomes_its_class(body: Any, status: int | None, expected: type[ModelError]) -> None:
    error = explained(body, status)
    assert type(error) is expected
    assert "\n" not in str(error)
    assert error.status == (status if status != 200 else None)


def test_an_error_knows_the_providers_name_for_it_and_the_request() -> None:
    error = explained(said("no", code="compaction_signature_invalid"), 400, request_id="req_1")
    assert (error.code, error.request_id) == ("compaction_signature_invalid", "req_1")
    assert explained(said("no"), 400).request_id == "req_9"
    assert explained(told("no"), 500, x_request_id="req_2").request_id == "req_2"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "12"}, 12.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "250", "retry_after": "1"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_told_where_the_provider_says_so(headers: Any, seconds: float | None) -> None:
    error = explained(said("Not now", "rate_limit_error"), 429, **headers)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds
    assert ("spending limit" in str(error)) == (seconds is None)


@pytest.mark.spec("S22.9")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "Wed, 18 Nov 2026 12:00:30 GMT", "date": "Wed, 18 Nov 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 18 Nov 2026 11:59:00 GMT", "date": "Wed, 18 Nov 2026 12:00:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 18 Nov 2026 12:00:30 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-18T12:00:40Z",
                "anthropic-ratelimit-requests-remaining": "12",
                "anthropic-ratelimit-requests-reset": "2026-11-18T13:00:00Z",
                "date": "Wed, 18 Nov 2026 12:00:00 GMT",
            },
            40.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "250ms"}, 0.25),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "6m0s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
    ],
)
def test_the_time_to_wait_is_read_from_dates_and_from_the_limits_that_are_used_up(
    headers: dict[str, str], seconds: float | None
) -> None:
    report = report_of(said("Not now", "rate_limit_error"), 429, headers)
    assert report.retry_after == seconds


@pytest.mark.spec("S22.9")
def test_a_spent_quota_is_not_waited_for() -> None:
    assert not explained(told("You exceeded your quota", code="insufficient_quota"), 429).retryable
    assert explained(told("Slow down", code="rate_limit_exceeded"), 429).retryable


@pytest.mark.spec("S22.10")
def test_a_wrong_key_advises_the_key_and_a_refusal_is_not_called_a_wrong_key() -> None:
    wrong = str(explained(said("invalid x-api-key", "authentication_error"), 401))
    assert "ANTHROPIC_API_KEY" in wrong
    assert "simulate" not in wrong
    refused = explained(said("your workspace may not use this model", "permission_error"), 403)
    assert isinstance(refused, NotPermitted)
    assert "does not accept the key" not in str(refused)
    assert "The key itself is accepted" in str(refused)
    assert "ANTHROPIC_API_KEY" not in str(refused)


@pytest.mark.spec("S22.6")
@pytest.mark.parametrize(
    ("cause", "network", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "name", "The name is not known"),
        (ConnectionRefusedError(111, "Connection refused"), "refused", "It refuses the connection"),
        (ssl.SSLCertVerificationError("certificate verify failed"), "secure", "No secure connection"),
        (OSError(113, "No route to host"), "connect", "Check the network"),
    ],
)
def test_what_failed_on_the_way_to_a_server_is_told_apart(
    cause: Exception, network: str, words: str
) -> None:
    failed = httpx2.ConnectError("failed")
    failed.__cause__ = cause
    error = failures.error_of(failed, PLACE)
    assert isinstance(error, Unreachable)
    assert error.network == network
    assert words in str(error)


@pytest.mark.spec("S22.6")
def test_a_connection_that_breaks_and_one_that_falls_silent_are_told_apart() -> None:
    broken = failures.error_of(httpx2.ReadError("reset"), PLACE)
    silent = failures.error_of(httpx2.ReadTimeout("timed out"), PLACE)
    assert isinstance(broken, ProviderFailed)
    assert isinstance(silent, ProviderFailed)
    assert (broken.network, silent.network) == ("reset", "silent")


def test_what_to_do_names_the_variables_of_the_provider_that_was_asked() -> None:
    wrong = report_of(told("Incorrect API key"), 401)
    assert "OPENAI_API_KEY" in str(failures.explain(wrong, Endpoint(OPENAI, "http://there")))
    assert "ANTHROPIC_API_KEY" in str(failures.explain(wrong, PLACE))


def test_the_http_library_is_the_one_below_the_sdk_that_is_installed() -> None:
    """OpenAI's SDK is built on httpx before version 3 and on httpx2 since; any module stands for another one here."""
    older = SimpleNamespace(DefaultHttpxClient=type("Client", (json.JSONDecoder,), {}))
    assert failures.transport_of(older) is json
    assert failures.transport_of(ANTHROPIC.load()) is httpx2


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            500,
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        ),
        (400, "m is not a multimodal model"),
        (
            400,
            "Invalid content type. image_url is only supported by certain models: images are not supported.",
        ),
        (400, "this model does not support image input"),
    ],
)
def test_a_picture_for_a_model_that_cannot_see_is_named_with_the_way_out(status: int, message: str) -> None:
    """However a local server words it."""
    line = str(explained(told(message), status))
    assert "takes no pictures" in line
    assert "/rewind" in line
    assert "\n" not in line


def test_other_complaints_about_pictures_are_left_as_they_are() -> None:
    assert "takes no pictures" not in str(explained(told("image exceeds 5 MB maximum"), 400))
