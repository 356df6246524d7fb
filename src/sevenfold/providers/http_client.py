"""Sends requests to a provider over plain HTTP, for programs that cannot wait for an SDK to load.

`HttpClient` implements the part of an SDK client that `sevenfold.providers.sdk` uses: it sends the same bytes with the
same keys, retries in the same cases and has the same timeouts. The HTTP library is loaded with the first request.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from sevenfold import __version__
from sevenfold.record.decoding import NOT_JSON
from sevenfold.wire.error_report import ErrorAnswer, report_of, retry_after

if TYPE_CHECKING:
    from httpx2 import Client, Response

NAME = f"sevenfold/{__version__}"
RETRIES = 2
"""How often a request is retried before its answer begins."""
TIMEOUT = 600.0
CONNECT_TIMEOUT = 5.0
"""Seconds without data, and without a connection, after which a request fails."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
"""Seconds before the first retry, and the most before any, if the server does not say how long to wait."""
LONGEST_RETRY_AFTER = 120.0
"""If a server asks for a longer wait, the request is not retried; its error says how long."""
MOST_ERROR_BYTES = 1_000_000
_RETRIED = (408, 409, 429)


class HttpClient:
    """A client for the server at ``base_url`` that always sends ``headers``; ``options`` go to `httpx2.Client`."""

    def __init__(
        self, base_url: str, headers: Mapping[str, str], *, max_retries: int = RETRIES, **options: Any
    ) -> None:
        self.base_url = base_url.rstrip("/")
        common = {"accept": "application/json", "content-type": "application/json", "user-agent": NAME}
        self._headers = common | dict(headers)
        self._max_retries = max_retries
        self._options = options
        self._http: Client | None = None
        self._lock = threading.Lock()

    def get(self, path: str, **options: Any) -> Response:
        """Send a GET request to a path or a full URL; returns the complete response."""
        return self.post(path, method="GET", **options)

    def post(
        self,
        path: str,
        *,
        content: bytes | None = None,
        body: object = None,
        options: Mapping[str, Any] = {},
        stream: bool = False,
        method: str = "POST",
        **_: object,
    ) -> Response:
        """Send bytes, or a body as JSON, to a path or a full URL; with ``stream``, the response is returned unread.

        Raises `ErrorAnswer` for an error status, and httpx2's errors for a failed connection.
        """
        arguments: dict[str, Any] = {"headers": {**self._headers, **options.get("headers", {})}}
        arguments["content"] = (
            msgspec.json.encode(body) if content is None and body is not None else content
        )
        if "timeout" in options:
            arguments["timeout"] = options["timeout"]
        retries: int = options.get("max_retries", self._max_retries)
        response = self._send(
            method, path if "://" in path else f"{self.base_url}{path}", arguments, retries
        )
        if not stream:
            response.read()
        return response

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._http is not None:
                self._http.close()

    def _send(self, method: str, url: str, arguments: Mapping[str, Any], retries: int) -> Response:
        from httpx2 import TransportError  # takes a tenth of a second: longer than all other imports here

        http = self._opened()
        for retry in range(retries + 1):
            wish: float | None = None
            try:
                response = http.send(http.build_request(method, url, **arguments), stream=True)
            except TransportError:
                if retry == retries:
                    raise
            else:
                if response.is_success:
                    return response
                wish = retry_after(response.headers)
                if retry == retries or not _may_repeat(response, wish):
                    raise _refusal(response)
                response.close()
            # Random, so that clients that were refused together do not all come back together.
            wait = min(FIRST_WAIT * 2**retry, LONGEST_WAIT) * random.uniform(0.75, 1)
            time.sleep(wish if wish and wish > 0 else wait)
        raise AssertionError("unreachable")

    def _opened(self) -> Client:
        from httpx2 import Client, Limits, Timeout

        with self._lock:
            if self._http is None:
                timeout = Timeout(TIMEOUT, connect=CONNECT_TIMEOUT)
                limits = Limits(max_connections=1_000, max_keepalive_connections=100)
                options: dict[str, Any] = {"timeout": timeout, "limits": limits, "follow_redirects": True}
                self._http = Client(**options | self._options)
            return self._http


def _may_repeat(response: Response, asked_wait: float | None) -> bool:
    """Whether the server asks for, or at least allows, an early retry of a refused request."""
    if asked_wait is not None and asked_wait > LONGEST_RETRY_AFTER:
        return False
    wish = response.headers.get("x-should-retry")
    if wish in ("true", "false"):
        return bool(wish == "true")
    return response.status_code in _RETRIED or response.status_code >= 500


def _refusal(response: Response) -> ErrorAnswer:
    """The error for a refused request; reads its body, up to a limit, and closes the response."""
    raw = b""
    with closing(response):
        for chunk in response.iter_bytes():
            raw += chunk
            if len(raw) > MOST_ERROR_BYTES:
                break
    text = raw.decode(errors="replace").strip()
    body: object = text or f"Error code: {response.status_code}"
    with suppress(*NOT_JSON):
        body = msgspec.json.decode(text)
    return ErrorAnswer(report_of(body, response.status_code, response.headers))
