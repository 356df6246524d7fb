"""Interim answers (`102 Processing`), and which programs they are sent to.

A program that waits for a summary may give up after some seconds of silence. An interim answer starts its clock again,
and leaves the provider's own answer as it is. HTTP/1.1 asks every client to read over it, but Python's ``http.client``
(so ``requests`` and ``urllib``, too) and Java's ``HttpURLConnection`` take it for the answer itself. So it is sent only
to programs that name themselves as one that was seen to read over it; any other waits without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"
_READ_OVER_IT = (
    "claude-cli/",
    "codex",
    "anthropic/python",
    "asyncanthropic/python",
    "openai/python",
    "asyncopenai/python",
    "anthropic/js",
    "openai/js",
    "python-httpx/",
    "curl/",
)
"""Beginnings of the header ``User-Agent``, in lower case; `bench/interim_answers.py` tries them."""


def reads_over_interim_answers(http_version: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a program is known to wait for the answer behind an interim one."""
    return http_version == b"1.1" and headers.get("user-agent", "").lower().startswith(_READ_OVER_IT)
