"""What a program sent and got, small enough to be played by tests.

Long texts are cut to their ends with a hash of the rest in between, so that equal texts stay equal and different ones
different; of system prompts and tools, which are the program's own, only their beginnings are kept. Headers are kept
only where they name the conversation.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from backports import zstd

from sevenfold.lab.simulator.provider import Received

ELSEWHERE = "/projects/harbour"
NAMING = ("x-claude-code-", "session-id", "thread-id", "x-codex-window-id")
HEAD = 300
TAIL = 120
"""Characters that are kept of a long text."""
OF_THE_PROGRAM = 60
"""Characters that are kept of texts in system prompts and tools."""
WINDOW_LOG = 27
"""Requests repeat what came megabytes before."""


def save(requests: Iterable[Received], path: Path, folder: Path) -> None:
    """Write the requests to models and their answers, one on each line; nothing names the machine or ``folder``."""
    renamed = {str(folder): ELSEWHERE, folder.name: Path(ELSEWHERE).name, platform.release(): "6.0"}
    lines = b"".join(msgspec.json.encode(exchange) + b"\n" for exchange in _exchanges(requests, renamed))
    options = {
        int(zstd.CompressionParameter.compression_level): 19,
        int(zstd.CompressionParameter.window_log): WINDOW_LOG,
    }
    path.write_bytes(zstd.compress(lines, options=options))


def _exchanges(requests: Iterable[Received], renamed: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for request in requests:
        if not request.path.endswith(("/messages", "/responses", "/responses/compact")):
            continue
        body = _renamed(request.body, renamed)
        yield {
            "path": request.path,
            "headers": {
                name: value for name, value in request.headers.items() if name.lower().startswith(NAMING)
            },
            "body": {name: _small_field(name, value) for name, value in body.items()},
            "status": request.status,
            "answer": _small(_renamed(request.answer, renamed), HEAD),
        }


def _renamed(value: Any, renamed: Mapping[str, str]) -> Any:
    text = msgspec.json.encode(value).decode()
    for name, instead in renamed.items():
        text = text.replace(name, instead)
    return msgspec.json.decode(text)


def _small_field(name: str, value: Any) -> Any:
    if name == "client_metadata":
        return value
    return _small(value, OF_THE_PROGRAM if name in ("system", "instructions", "tools") else HEAD)


def _small(value: Any, most: int) -> Any:
    match value:
        case str() if len(value) > most + TAIL:
            digest = blake2b(value.encode(), digest_size=6).hexdigest()
            return f"{value[:most]}…{digest}…{value[-TAIL:] if most == HEAD else ''}"
        case Mapping():
            return {name: _small(each, most) for name, each in value.items()}
        case list():
            return [_small(each, most) for each in value]
        case _:
            return value
