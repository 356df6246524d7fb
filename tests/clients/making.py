"""Answers of the Messages API as a provider may write them: whole, and as the events of a stream.

Spacing and escapes are the provider's choice, so both are drawn: what a client keeps must not depend on
whether an answer was streamed, nor on how it was cut.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)
pieces = st.lists(st.text(max_size=12), max_size=4)


class Style(Struct, frozen=True):
    """How a provider writes its JSON."""

    ascii: bool
    spaced: bool

    def write(self, value: Any) -> bytes:
        separators = (", ", ": ") if self.spaced else (",", ":")
        return json.dumps(value, ensure_ascii=self.ascii, separators=separators).encode()


class Written(Struct, frozen=True):
    """A block: as it stands in a body, as it opens in a stream, and what follows there."""

    whole: dict[str, Any]
    opening: dict[str, Any]
    deltas: tuple[dict[str, Any], ...] = ()

    @property
    def words(self) -> str:
        return str(self.whole["text"]) if self.whole["type"] == "text" else ""


def _grown(base: dict[str, Any], field: str, parts: list[str], kind: str) -> Written:
    """A block one of whose strings comes in parts."""
    deltas = tuple({"type": kind, field: part} for part in parts)
    return Written({**base, field: "".join(parts)}, {**base, field: ""}, deltas)


@st.composite
def texts(draw: st.DrawFn) -> Written:
    cited = draw(st.lists(objects, max_size=2))
    base: dict[str, Any] = {"type": "text", "text": ""}
    made = _grown(base, "text", draw(pieces), "text_delta")
    if not cited:
        return made
    citations = tuple({"type": "citations_delta", "citation": each} for each in cited)
    opening = {**made.opening, "citations": []}
    return Written({**made.whole, "citations": cited}, opening, (*citations, *made.deltas))


@st.composite
def thoughts(draw: st.DrawFn) -> Written:
    signature = draw(st.text("abc+/=", min_size=1))
    base = {"type": "thinking", "thinking": "", "signature": ""}
    made = _grown(base, "thinking", draw(pieces), "thinking_delta")
    signed = {"type": "signature_delta", "signature": signature}
    return Written({**made.whole, "signature": signature}, made.opening, (*made.deltas, signed))


@st.composite
def calls(draw: st.DrawFn) -> Written:
    given = draw(objects)
    kind = draw(st.sampled_from(["tool_use", "server_tool_use"]))
    base = {"type": kind, "id": draw(st.text("toolu_0123456789", min_size=4)), "name": "Read"}
    spelt = json.dumps(given, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 2])))
    cuts = sorted(draw(st.lists(st.integers(0, len(spelt)), max_size=4)))
    parts = [spelt[a:b] for a, b in zip([0, *cuts], [*cuts, len(spelt)], strict=True)]
    deltas = tuple({"type": "input_json_delta", "partial_json": part} for part in parts)
    return Written({**base, "input": Spelt(spelt)}, {**base, "input": {}}, deltas)


class Spelt(str):
    """JSON that must be written as it is spelt."""


def _at_once(block: dict[str, Any]) -> Written:
    return Written(block, block)


others = st.one_of(
    st.text(max_size=9).map(lambda data: _at_once({"type": "redacted_thinking", "data": data})),
    st.text(min_size=1).map(
        lambda said: _at_once({"type": "compaction", "content": said, "signature": "s"})
    ),
    st.text(min_size=1).map(
        lambda said: Written(
            {"type": "compaction", "content": said},
            {"type": "compaction", "content": None},
            ({"type": "compaction_delta", "content": said, "encrypted_content": None},),
        )
    ),
    objects.map(lambda more: _at_once({**more, "type": "hologram", "depth": 3})),
    pieces.map(lambda parts: _grown({"type": "hologram", "tune": ""}, "tune", parts, "tune_delta")),
)
written = st.lists(st.one_of(texts(), thoughts(), calls(), others), max_size=5)
styles = st.builds(Style, st.booleans(), st.booleans())


def block_bytes(block: dict[str, Any], style: Style) -> bytes:
    """A block as a provider writes it; the input of a call in its own spelling."""
    spelt = {key: value for key, value in block.items() if isinstance(value, Spelt)}
    raw = style.write({key: "@" if key in spelt else value for key, value in block.items()})
    for key, value in spelt.items():
        raw = raw.replace(style.write({key: "@"})[1:-1], style.write(key) + b":" + value.encode())
    return raw


USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 100,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
    "output_tokens": 1,
    "service_tier": "standard",
}
HEAD = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "diagnostics": {"cache_miss_reason": None},
    "input_transformations": [{"type": "thinking_dropped", "path": "messages.1.content.0"}],
}
ENDING = {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": {"type": "refusal"}}
EDITS: dict[str, Any] = {"applied_edits": []}


def body_of(blocks: list[Written], style: Style) -> bytes:
    """The answer in one piece."""
    content = b"[" + b" , ".join(block_bytes(block.whole, style) for block in blocks) + b"]"
    head = style.write(
        {**HEAD, **ENDING, "usage": {**USAGE, "output_tokens": 9}, "context_management": EDITS}
    )
    return head[:-1] + b',"content":' + content + b"}"


def events_of(blocks: list[Written], style: Style) -> list[bytes]:
    """The answer as the data of events."""
    start = {**HEAD, "content": [], "stop_reason": None, "usage": USAGE}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        made.append({"type": "content_block_start", "index": index, "content_block": block.opening})
        made += [{"type": "content_block_delta", "index": index, "delta": each} for each in block.deltas]
        made.append({"type": "content_block_stop", "index": index})
    ended = {"output_tokens": 9, "input_tokens": None}
    made.append({"type": "message_delta", "delta": ENDING, "usage": ended, "context_management": EDITS})
    made += [{"type": "of_tomorrow", "index": 99}, {"type": "message_stop"}]
    return [style.write(each) for each in made]
