"""Reads answers without I/O: server-sent events, JSON that may be malformed, and what all readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import chain
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.ports import Piece, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, tool_input
from sevenfold.record.log import Answer
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer, report_of

NULL = Raw(b"null")
Fields = dict[str, Raw]
"""A JSON object whose values are still bytes."""
SHOWN = {"text": "text", "thinking": "thinking", "partial_json": "input"}
"""The fields of a block or a delta that a watcher sees, and the kind of piece each becomes."""

T = TypeVar("T")
fields_of = msgspec.json.Decoder(Fields | None)
_string = msgspec.json.Decoder(str)
# A carriage return at the very end may be half of a line end, so it has to wait for the next chunk.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")


class AskedFor(Struct, frozen=True):
    """The parts of a request that matter for sending it or for reading its answer."""

    model: str = ""
    tools: list[Raw] | None = None
    compaction: Raw = NULL

    @classmethod
    def of(cls, body: bytes) -> AskedFor:
        """Parse a request in the format of the Messages API."""
        return _asked_for.decode(body or b"{}")


_asked_for = msgspec.json.Decoder(AskedFor)


class Reader(Protocol):
    """Assembles one answer; each request needs a new reader."""

    @property
    def whole(self) -> bool:
        """Whether the answer is complete."""

    def event(self, data: bytes) -> Iterable[Piece]:
        """Process one event of a stream; returns the pieces for a watcher."""

    def body(self, raw: bytes) -> Iterable[Piece]:
        """Process a complete response body; returns the pieces for a watcher."""

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer; call it only when `whole` is true."""

    def partial(self, request_id: str | None) -> Answer | None:
        """The usable part of an unfinished answer; None if not even its head arrived."""


class BodyReader:
    """Reads an answer that is never streamed; ``read`` turns the body into the reply."""

    def __init__(self, read: Callable[[bytes], Reply]) -> None:
        self._read = read
        self._reply: Reply | None = None

    @property
    def whole(self) -> bool:
        """Whether the body has arrived."""
        return self._reply is not None

    def event(self, data: bytes) -> list[Piece]:
        """Raise `MalformedAnswer`: no events are expected."""
        raise MalformedAnswer("it came as a stream")

    def body(self, raw: bytes) -> list[Piece]:
        """Read the body; raises `MalformedAnswer` if ``read`` finds something else than it expects."""
        try:
            self._reply = self._read(raw)
        except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            raise MalformedAnswer(f"{type(error).__name__}: {error}: {bytes(raw)[:80]!r}") from error
        return list(chain.from_iterable(map(pieces_of, self._reply.answer.blocks)))

    def reply(self, request_id: str | None) -> Reply:
        """The reply, with the request id."""
        assert self._reply is not None
        return replace(self._reply, answer=replace(self._reply.answer, request_id=request_id))

    def partial(self, request_id: str | None) -> Answer | None:
        """None: an incomplete body cannot be read."""
        return None


class EventLines:
    """Splits bytes, in chunks of any size, into the data of server-sent events."""

    def __init__(self) -> None:
        self._unfinished = [b""]
        """The chunks since the last line end."""
        self._data: list[bytes] = []
        """The data lines of the event that has not ended yet."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in this chunk; event names and ids are dropped."""
        if b"\n" not in chunk and b"\r" not in chunk and not self._unfinished[-1].endswith(b"\r"):
            # Not joined yet: otherwise an unfinished line would be copied with every chunk.
            self._unfinished.append(chunk)
            return []
        *lines, unfinished = _LINE_END.split(b"".join((*self._unfinished, chunk)))
        self._unfinished = [unfinished]
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


class GrowingBlock:
    """A block whose deltas are still arriving.

    Strings are joined exactly as received, including escapes, so the finished block has the bytes it would have had in
    one piece. This also holds for unknown kinds of blocks and deltas: a delta's strings extend the block's field of the
    same name, and any other value replaces that field.
    """

    def __init__(self, opening: bytes) -> None:
        self._opening = opening
        self.fields = decoded(fields_of, opening) or {}
        self._strings: dict[str, list[bytes]] = {}
        """What deltas add to each string, without quotation marks."""
        self._input: list[str] = []
        """The pieces of a tool's input, which together are JSON."""
        self._citations: list[bytes] = []
        self._has_grown = False

    @property
    def is_text(self) -> bool:
        """Whether it is text, which can be kept even if its end is missing."""
        return bytes(self.fields.get("type", NULL)) == b'"text"'

    def grow(self, delta: Fields) -> None:
        """Apply a delta."""
        self._has_grown = True
        for name, value in delta.items():
            raw = bytes(value)
            if name == "partial_json":
                # JSON within a string, so its escapes are resolved; other strings are joined as they came.
                self._input.append(string_value(value))
            elif name == "citation":
                self._citations.append(raw)
            elif raw.startswith(b'"') and name != "type":
                self._strings.setdefault(name, []).append(raw[1:-1])
            elif raw != b"null" and name != "type":
                self.fields[name] = value

    def raw(self) -> bytes:
        """The block so far."""
        if not self._has_grown:
            # Nothing is added, so the block has to keep the bytes with which it came.
            return blocks.minify(self._opening)
        fields = {name: bytes(value) for name, value in self.fields.items()}
        for name, continuations in self._strings.items():
            opening = fields.get(name, b"")
            start = opening[1:-1] if opening.startswith(b'"') else b""
            fields[name] = b'"' + start + b"".join(continuations) + b'"'
        if text := "".join(self._input):
            fields["input"] = tool_input(text)
        if self._citations:
            opening = fields.get("citations", b"")
            start = opening[1:-1].strip() if opening.startswith(b"[") else b""
            fields["citations"] = b"[" + b",".join(filter(None, [start, *self._citations])) + b"]"
        return blocks.minify(msgspec.json.encode({name: Raw(value) for name, value in fields.items()}))


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decode data from a server; raises `MalformedAnswer` if it does not have the expected form."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"{error}: {bytes(data)[:80]!r}") from error
    except RecursionError:
        raise MalformedAnswer(f"it is nested too deeply: {bytes(data)[:80]!r}") from None


def error_answer(data: bytes) -> ErrorAnswer:
    """The exception for an error that arrived instead of an answer, or in the middle of one."""
    return ErrorAnswer(report_of(msgspec.json.decode(data)))


def string_value(value: Raw) -> str:
    """The string in a JSON value; empty if it is not a string."""
    return decoded(_string, value) if bytes(value).startswith(b'"') else ""


def pieces_of(block: Block) -> list[Piece]:
    """The pieces that a watcher sees of a complete block."""
    fields = decoded(fields_of, block.raw) or {}
    arguments = bytes(fields.get("input", b""))
    return [*pieces_in(fields), *([Piece("input", arguments.decode())] if arguments else [])]


def pieces_in(fields: Fields) -> list[Piece]:
    """The pieces that a watcher sees of a delta, or of a block's opening (often only a tool's name)."""
    if "input" in fields:
        return [Piece("tool", string_value(fields.get("name", NULL)))]
    pieces = []
    for name, kind in SHOWN.items():
        if text := string_value(fields.get(name, NULL)):
            pieces.append(Piece(kind, text))
    return pieces


def id_from(request: bytes) -> str:
    """An id for what a server left unnamed; derived from the request, so that reading an answer twice agrees."""
    return sha256(request).hexdigest()[:12]
