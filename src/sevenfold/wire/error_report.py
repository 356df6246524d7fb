"""What a server says instead of an answer, read from the error bodies of every API.

Two exceptions say that there is no answer to read: `ErrorAnswer` carries the server's own error, `MalformedAnswer` says
how the answer breaks the API's promise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite, nan
from typing import Any

from msgspec import Struct


class ErrorReport(Struct, frozen=True):
    """What a provider said instead of an answer."""

    message: str
    kind: str = ""
    """The error's type, such as ``overloaded_error``."""
    code: str = ""
    status: int | None = None
    """The HTTP status; None for an error that came after the answer had begun."""
    retry_after: float | None = None
    retry: bool | None = None
    """Whether the server asks for a retry (header ``x-should-retry``); None if it does not say."""
    request_id: str = ""
    used: int | None = None
    limit: int | None = None


class ErrorAnswer(Exception):
    """An error that a server sent instead of an answer, or in the middle of one; carries its report."""

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report.message)
        self.report = report


class MalformedAnswer(Exception):
    """The answer does not have the form that the API promises; the text says how."""


class MalformedRequest(Exception):
    """A client's request does not have the form that the API asks for; the text says how."""


_WISHES = {"true": True, "false": False}
_LIMIT = re.compile(r"(?:anthropic|x)-ratelimit-(?:remaining-[a-z-]+|[a-z-]+-remaining)")
_DURATION_PART = re.compile(r"([0-9.]+)(ms|[dhms])")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def report_of(
    body: object, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ErrorReport:
    """Parse the body of an error, decoded or not, from any provider."""
    headers = headers or {}
    outer: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    inner = outer.get("error")
    if isinstance(inner, str):
        outer = {}
        inner = {"message": inner}
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else outer
    details = fields.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else fields.get("code")
    return ErrorReport(
        message=str(fields.get("message") or _plain(body, status)),
        kind=str(fields.get("type") or ""),
        code=code if isinstance(code, str) else "",
        # An error inside a stream comes with the status 200 that the stream began with.
        status=status if status is not None and status >= 400 else None,
        retry_after=retry_after(headers, exhausted=status == 429),
        retry=_WISHES.get(headers.get("x-should-retry") or ""),
        request_id=str(
            headers.get("request-id") or headers.get("x-request-id") or outer.get("request_id") or ""
        ),
        used=_count(fields.get("n_prompt_tokens")),
        limit=_count(fields.get("n_ctx")),
    )


def retry_after(headers: Mapping[str, str], *, exhausted: bool = False) -> float | None:
    """The seconds that a server asks its client to wait; None if it does not say.

    With ``exhausted``, a limit was reached: if the server does not say how long to wait, the times count at which its
    exhausted limits are reset.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            # A date is allowed too; the server's own clock says how far off it is.
            seconds = _seconds_between(headers.get("date"), value)
        if isfinite(seconds) and seconds >= 0:
            return seconds
    return _reset(headers) if exhausted else None


def _reset(headers: Mapping[str, str]) -> float | None:
    """The seconds until the last of the exhausted limits is reset; None if the headers do not say."""
    waits: list[float] = []
    for name, value in headers.items():
        limit = _LIMIT.fullmatch(name.lower())
        if limit is None or value.strip() != "0":
            continue
        # Anthropic: anthropic-ratelimit-tokens-remaining; OpenAI: x-ratelimit-remaining-tokens.
        reset = limit[0].replace("remaining", "reset")
        seconds = _seconds_until(headers.get(reset), headers.get("date"))
        if seconds is not None:
            waits.append(seconds)
    return max(waits, default=None)


def _seconds_until(reset: str | None, date: str | None) -> float | None:
    """The seconds until a reset, given as a duration (``6m0s``, ``250ms``) or as a time."""
    if reset is None:
        return None
    if _DURATION.fullmatch(reset.strip()):
        amounts = _DURATION_PART.findall(reset)
        return sum(float(number) * _UNITS[unit] for number, unit in amounts)
    seconds = _seconds_between(date, reset)
    return seconds if seconds >= 0 else None


def _seconds_between(start: str | None, end: str) -> float:
    """The seconds between two times, as HTTP dates or in the format of RFC 3339; not finite if one cannot be read."""
    first = _time(start or "")
    last = _time(end)
    if first is None or last is None:
        return nan
    return max(0.0, (last - first).total_seconds())


def _time(text: str) -> datetime | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
        except ValueError:
            continue
        return moment.replace(tzinfo=moment.tzinfo or UTC)
    return None


def _plain(body: object, status: int | None) -> str:
    """The first words of a body that is not JSON, such as a proxy's page."""
    text = " ".join(re.sub(r"<[^>]*>", " ", body).split())[:200] if isinstance(body, str) else ""
    return text or (f"status {status}" if status else "no reason given")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
