"""Maps every failure of a provider to one class of `sevenfold.errors`.

Errors of both SDKs, both formats of error bodies and errors inside a stream first become an `ErrorReport`. The class
depends on the provider's code, then on the status, then on the error's type, and on the wording only as a last resort,
because wordings change. What is still unclear is a refusal if the provider blames the request, else a provider failure.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sevenfold import errors
from sevenfold.errors import ModelError, Network, ProviderFailed
from sevenfold.wire.error_report import ErrorAnswer, ErrorReport, MalformedAnswer, report_of

if TYPE_CHECKING:
    from sevenfold.providers.sdk import Vendor

TRANSPORTS = ("httpx", "httpx2")
"""The HTTP libraries that the SDKs use; programs that send bytes themselves may use them directly."""
WITHOUT_A_KEY = "`sevenfold simulate` serves a simulated provider on this machine"


class Endpoint(Struct, frozen=True):
    """The vendor, address and model of a request, for error texts."""

    vendor: Vendor
    url: str
    model: str = ""


_SIGNS: Mapping[type[ModelError], tuple[str | int, ...]] = {
    errors.PromptTooLong: ("context_length_exceeded", "exceed_context_size_error"),
    errors.BodyTooLarge: ("request_too_large", "request_body_too_large_after_decoding", 413),
    errors.RateLimited: (
        *("rate_limit_error", "rate_limit_exceeded", "ramp_limit_exceeded", "insufficient_quota"),
        429,
    ),
    errors.Overloaded: ("overloaded_error", "compaction_unavailable", 503, 529),
    errors.NotAuthenticated: ("authentication_error", "invalid_api_key", 401),
    errors.NotPermitted: ("permission_error", "billing_error", 402, 403),
    errors.ModelNotServed: ("model_not_found",),
    errors.BoundThinking: ("invalid_encrypted_content",),
    errors.ThreadLost: (
        *("previous_response_not_found", "thread_not_found", "thread_already_continued"),
        *("thread_continue_in_flight", "thread_fingerprint_mismatch", "thread_unsupported_request"),
    ),
    ProviderFailed: ("api_error", "timeout_error", "server_error", 408, 409),
}
"""The codes, types and statuses that identify each class of error."""


def _by_sign() -> dict[str | int, type[ModelError]]:
    class_of: dict[str | int, type[ModelError]] = {}
    for kind, signs in _SIGNS.items():
        class_of.update(dict.fromkeys(signs, kind))
    return class_of


_BY_SIGN = _by_sign()
_REMEDIED = (errors.PromptTooLong, errors.BodyTooLarge, errors.BoundThinking)
"""Errors after which a changed request is sent; the same one would be refused again."""
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a limit that only a payment lifts."""
_UNSEEN = re.compile(
    r"\b(?:images?|image_url|vision|multimodal)\b.*\b(?:not support|unsupported|not enabled|not a multimodal)"
    r"|\b(?:not support|unsupported|not a)\w*\b.*\b(?:images?|image_url|vision|multimodal)\b",
    re.I | re.S,
)
"""Wordings of servers whose model does not accept images."""
_BOUND = re.compile("bound to a different conversation")
_TOO_LONG = [
    re.compile(wording, re.S)
    for wording in (
        r"prompt is too long: (?P<used>\d+) tokens > (?P<limit>\d+) maximum",
        r"exceed context limit: (?P<used>\d+) \+ (?P<output>\d+) > (?P<limit>\d+)",
        r"is too large: (?P<output>\d+)\..*?maximum context length is (?P<limit>\d+) tokens "
        r"and your request has (?P<used>\d+)",
        r"maximum context length is (?P<limit>\d+) tokens\b.*?"
        r"(?:requested \d+ tokens \((?P<used>\d+) in (?:the|your) \w+[,;] (?P<output>\d+) |"
        r"requested (?P<room>\d+) output tokens and your prompt contains at least (?P<prompt>\d+))",
        r"maximum context length is (?P<limit>\d+) tokens\b.*?"
        r"(?:resulted in|request has|requested) (?P<used>\d+)\b",
        r"\((?P<used>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)",
        r"exceeds the (?:available )?context (?:size|window)",
        r"(?i:maximum context length|(?:prompt|input) is too long)",
    )
]
"""Wordings of "too long", those with figures first; ``output`` is the room requested for the answer."""


def explain(report: ErrorReport, at: Endpoint) -> ModelError:
    """Our error for a report, with a text that says what to do."""
    kind = _class_of(report)
    text = _text(kind, report, at)
    code = report.code or report.kind
    error = kind(text, status=report.status, code=code, request_id=report.request_id)
    if isinstance(error, errors.PromptTooLong):
        error.used, error.limit = _sizes(report)
    error.retry_after = report.retry_after
    if report.retry is not None and not isinstance(error, _REMEDIED):
        error.retryable = report.retry
    elif report.code in _SPENT:
        error.retryable = False
    return error


def error_of(error: Exception, at: Endpoint) -> ModelError | None:
    """Our error for an exception of an SDK or its transport; None for any other exception."""
    if isinstance(error, ErrorAnswer):
        return explain(error.report, at)
    if isinstance(error, MalformedAnswer | JSONDecodeError):
        return ProviderFailed(f"{at.url} answered in a way that cannot be read: {error}. Ask again")
    if is_of(error, TRANSPORTS):
        return _connection_error(error, at) if "RequestError" in _names(error) else None
    return _sdk_error(error, at) if is_of(error, (at.vendor.sdk,)) else None


def is_of(value: object, packages: Collection[str]) -> bool:
    """Whether a value's class, or one of its base classes, comes from one of these packages."""
    return any(base.__module__.partition(".")[0] in packages for base in type(value).__mro__)


def _sdk_error(error: Any, at: Endpoint) -> ModelError | None:
    sdk = import_module(at.vendor.sdk)
    if isinstance(error, sdk.APIStatusError):
        # Subclasses of the SDK's class may have no body; then their text has what the provider said.
        headers = getattr(getattr(error, "response", None), "headers", None)
        return explain(report_of(error.body or str(error), error.status_code, headers), at)
    if isinstance(error, sdk.APIConnectionError):
        return _connection_error(error.__cause__ or error, at)
    if hasattr(sdk, "CredentialsError") and isinstance(error, sdk.CredentialsError):
        return at.vendor.bad_credentials(error)
    return explain(report_of(error.body), at) if isinstance(error, sdk.APIError) else None


def transport_of(sdk: Any) -> Any:
    """The HTTP library that an SDK uses: httpx for OpenAI's before version 3, httpx2 for all later ones."""
    return import_module(sdk.DefaultHttpxClient.__base__.__module__.partition(".")[0])


def _class_of(report: ErrorReport) -> type[ModelError]:
    status = report.status
    if status == 404 and report.code not in _BY_SIGN:
        return _not_found(report)
    signs = (report.code, status or "", report.kind)
    named = next((_BY_SIGN[sign] for sign in signs if sign in _BY_SIGN), None) or _by_wording(
        report.message
    )
    if named is not None:
        return named
    blamed = report.kind == "invalid_request_error" if status is None else status < 500
    return errors.RequestRefused if blamed else ProviderFailed


def _not_found(report: ErrorReport) -> type[ModelError]:
    """The class for a 404: an unknown model, something else the provider lacks, or an address without this API."""
    if re.search(r"\bmodels?\b", report.message):
        return errors.ModelNotServed
    return errors.RequestRefused if report.code or report.kind else errors.Unreachable


def _by_wording(message: str) -> type[ModelError] | None:
    if _BOUND.search(message):
        return errors.BoundThinking
    return errors.PromptTooLong if any(pattern.search(message) for pattern in _TOO_LONG) else None


def _sizes(report: ErrorReport) -> tuple[int | None, int | None]:
    """The tokens of the prompt, and the most it may have next to the room for the answer."""
    if report.used is not None and report.limit is not None:
        return report.used, report.limit
    hits = (wording.search(report.message) for wording in _TOO_LONG)
    overflow = next(filter(None, hits), None)
    counts = overflow.groupdict() if overflow else {}
    used = counts.get("used") or counts.get("prompt")
    output = counts.get("output") or counts.get("room") or 0
    return (int(used), int(counts["limit"]) - int(output)) if used else (None, None)


def _text(kind: type[ModelError], report: ErrorReport, at: Endpoint) -> str:
    reason = report.message.rstrip(".")
    vendor = at.vendor
    if kind is errors.NotAuthenticated:
        return (
            f"{at.url} does not accept the key ({reason}). Set {vendor.key_variable} to a key that is valid there: "
            "it may be misspelt, revoked, or of another provider"
        )
    if kind is errors.NotPermitted:
        return (
            f"{at.url} refuses this to the account of the key ({reason}). The key itself is accepted: check what its "
            f"account and workspace may use ({at.model or 'the model'}, this region, a balance), not the key"
        )
    if kind is errors.ModelNotServed:
        return f"{at.url} has no model {at.model!r} ({reason}). Check the name against its list of models"
    if kind is errors.Unreachable:
        return (
            f"There is no such API at {at.url} ({reason}). Check the address: base_url=… or "
            f"{vendor.url_variable}"
        )
    if kind is errors.RateLimited and report.retry_after is None:
        return (
            f"{at.url} accepts no more requests ({reason}) and does not say for how long: look at the "
            "account's spending limit"
        )
    if kind in (errors.RequestRefused, ProviderFailed) and _UNSEEN.search(reason):
        return (
            f"{at.url}: {reason}. The model {at.model!r} takes no pictures: go back to before the one that was sent "
            "(/rewind in the chat), or use a model that does (/model)"
        )
    return f"{at.url}: {reason}"


def _connection_error(cause: BaseException, at: Endpoint) -> ModelError:
    """The error for a failed connection: no server there, or broken off before the answer was complete."""
    reason = str(cause) or type(cause).__name__
    network = _network(cause)
    error: ModelError
    if network in ("reset", "silent"):
        happened = "took too long" if network == "silent" else "broke off"
        error = ProviderFailed(f"{at.url} {happened} ({reason}). Ask again")
    else:
        error = errors.Unreachable(
            f"No server answers at {at.url} ({reason}). {_NETWORK_ADVICE[network]}: base_url=… or "
            f"{at.vendor.url_variable}; {WITHOUT_A_KEY}"
        )
    error.network = network
    return error


_NETWORK_ADVICE: Mapping[Network, str] = {
    "name": "The name is not known: check the network and the address",
    "refused": "It refuses the connection: check that it runs, and the address",
    "secure": "No secure connection: check its certificate, the proxy and the address",
    "proxy": "Check the proxy, the network and the address",
    "connect": "Check the network and the address",
}


def _network(cause: BaseException) -> Network:
    """What failed, by the class of the transport's error and of the system's error behind it."""
    names = _names(cause)
    if not names & {"ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError"}:
        return "silent" if "TimeoutException" in names else "reset"
    if "ProxyError" in names:
        return "proxy"
    for error in _behind(cause):
        if isinstance(error, socket.gaierror):
            return "name"
        if isinstance(error, ssl.SSLError):
            return "secure"
        if isinstance(error, ConnectionRefusedError):
            return "refused"
    return "connect"


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that caused it."""
    visited: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def _names(error: BaseException) -> set[str]:
    """The names of an error's class and its base classes; both transports use the same names."""
    return {base.__name__ for base in type(error).__mro__}
