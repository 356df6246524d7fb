"""The prefix invariant: each request extends the one before it, cache markers aside.

Both the prompt cache and bound thinking depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sevenfold.lab.rules.base import Json, blocks_of, inner_blocks, without_marker


def extends(previous: bytes | Json, body: bytes | Json) -> str | None:
    """None if a request body extends the previous one; otherwise a description of the first difference."""
    earlier, later = (
        msgspec.json.decode(request) if isinstance(request, bytes) else request
        for request in (previous, body)
    )
    if earlier.get("model") != later.get("model"):
        return f"model changed from {earlier.get('model')} to {later.get('model')}"
    for level in ("tools", "system", "messages"):
        level_parts = (list(_parts(body, level)) for body in (earlier, later))
        if moved := _compare(*level_parts, whole=level != "messages"):
            return moved
    return None


def _compare(
    earlier: list[tuple[str, bytes]], later: list[tuple[str, bytes]], *, whole: bool
) -> str | None:
    for index, (path, earlier_bytes) in enumerate(earlier):
        if index >= len(later):
            return f"{path} is gone"
        if later[index][0] != path:
            return f"{later[index][0]} was put in before {path}"
        if later[index][1] != earlier_bytes:
            return f"{path} changed from {_short(earlier_bytes)} to {_short(later[index][1])}"
    if whole and len(later) > len(earlier):
        return f"{later[len(earlier)][0]} was added"
    return None


def _parts(body: Json, level: str) -> Iterator[tuple[str, bytes]]:
    if level != "messages":
        for index, block in enumerate(blocks_of({"content": body.get(level)})):
            yield f"{level}.{index}", _bare(block)
        return
    for number, message in enumerate(body.get("messages") or ()):
        other_fields = {key: value for key, value in message.items() if key != "content"}
        yield f"messages.{number}", msgspec.json.encode(other_fields, order="sorted")
        for index, block in enumerate(blocks_of(message)):
            yield f"messages.{number}.content.{index}", _bare(block)


def _bare(block: Json) -> bytes:
    """The bytes of a block without its cache markers; the order of all keys matters."""
    bare = without_marker(block)
    if inside := inner_blocks(block):
        bare["content"] = [without_marker(inner) for inner in inside]
    return msgspec.json.encode(bare)


def _short(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return text if len(text) <= 120 else f"{text[:80]}…{text[-30:]}"
