"""The prefix invariant: each request extends the one before it, cache markers aside.

Both the prompt cache and bound thinking depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sevenfold.lab.rules.base import Json, blocks_of, inner_blocks


def extends(previous: bytes | Json, body: bytes | Json) -> str | None:
    """None if a request body extends the previous one; otherwise a description of the first difference."""
    before, now = (msgspec.json.decode(one) if isinstance(one, bytes) else one for one in (previous, body))
    if before.get("model") != now.get("model"):
        return f"model changed from {before.get('model')} to {now.get('model')}"
    for level in ("tools", "system", "messages"):
        parts = (list(_parts(body, level)) for body in (before, now))
        if moved := _compare(*parts, whole=level != "messages"):
            return moved
    return None


def _compare(before: list[tuple[str, bytes]], now: list[tuple[str, bytes]], *, whole: bool) -> str | None:
    for place, (path, was) in enumerate(before):
        if place >= len(now):
            return f"{path} is gone"
        if now[place][0] != path:
            return f"{now[place][0]} was put in before {path}"
        if now[place][1] != was:
            return f"{path} changed from {_short(was)} to {_short(now[place][1])}"
    if whole and len(now) > len(before):
        return f"{now[len(before)][0]} was added"
    return None


def _parts(body: Json, level: str) -> Iterator[tuple[str, bytes]]:
    if level != "messages":
        for index, block in enumerate(blocks_of({"content": body.get(level)})):
            yield f"{level}.{index}", _bare(block)
        return
    for number, message in enumerate(body.get("messages") or ()):
        rest = {key: value for key, value in message.items() if key != "content"}
        yield f"messages.{number}", msgspec.json.encode(rest, order="sorted")
        for index, block in enumerate(blocks_of(message)):
            yield f"messages.{number}.content.{index}", _bare(block)


def _bare(block: Json) -> bytes:
    """The bytes of a block without its cache markers; the order of all keys matters."""
    bare = _unmarked(block)
    if inside := inner_blocks(block):
        bare["content"] = [_unmarked(inner) for inner in inside]
    return msgspec.json.encode(bare)


def _unmarked(block: Json) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _short(raw: bytes) -> str:
    words = raw.decode(errors="replace")
    return words if len(words) <= 120 else f"{words[:80]}…{words[-30:]}"
