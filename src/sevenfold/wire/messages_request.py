"""The Messages API: requests, in the format that the engine itself uses."""

from __future__ import annotations

STREAM = b',"stream":true}'


def streaming(body: bytes) -> bytes:
    """The body with ``"stream": true`` added at its end; all other bytes are unchanged."""
    end = body.rindex(b"}")
    empty = body.find(b'"', 0, end) < 0
    return b"".join((memoryview(body)[:end], STREAM[1:] if empty else STREAM))
