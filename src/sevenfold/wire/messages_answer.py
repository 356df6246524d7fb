"""The Messages API: reads answers, whose format the engine itself uses.

Every block of an answer keeps the bytes that the provider sent, except insignificant whitespace: a block of a body is a
slice of it, and a block of a stream is joined from its deltas by `GrowingBlock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer
from sevenfold.record.usage import UNMANAGED
from sevenfold.wire import reader
from sevenfold.wire.error_report import MalformedAnswer
from sevenfold.wire.reader import NULL, Fields, decoded


class _Event(Struct, frozen=True):
    type: str = ""
    index: int = 0
    message: Raw = NULL
    content_block: Raw = NULL
    delta: Raw = NULL
    usage: Raw = NULL
    context_management: Raw = NULL


class _Message(Struct):
    type: str = "message"
    id: str = ""
    model: str = ""
    content: list[Raw] = []
    stop_reason: str | None = None
    usage: Raw = NULL
    diagnostics: Raw = NULL
    context_management: Raw = NULL
    input_transformations: Raw = NULL
    stop_details: Raw = NULL


_event = msgspec.json.Decoder(_Event)
_message = msgspec.json.Decoder(_Message)


class MessagesReader:
    """Reads an answer of the Messages API."""

    def __init__(self) -> None:
        self._head: _Message | None = None
        self._usage: Fields = {}
        self._growing: dict[int, reader.GrowingBlock] = {}
        self._blocks: dict[int, Block] = {}
        self._ended = False

    @property
    def whole(self) -> bool:
        """Whether all blocks are closed and the end, or at least the stop reason, has arrived."""
        if self._head is None or self._growing:
            return False
        return self._ended or self._head.stop_reason is not None

    def event(self, data: bytes) -> list[Piece]:
        """Process one event; unknown kinds are ignored, as the API requires of its clients."""
        event = decoded(_event, data)
        match event.type:
            case "message_start":
                self._begin(decoded(_message, event.message))
            case "content_block_start":
                self._growing[event.index] = block = reader.GrowingBlock(bytes(event.content_block))
                return reader.pieces_in(block.fields)
            case "content_block_delta":
                delta = decoded(reader.fields_of, event.delta) or {}
                self._block(event.index).grow(delta)
                return reader.pieces_in(delta)
            case "content_block_stop":
                self._blocks[event.index] = blocks.read(self._block(event.index).raw())
                del self._growing[event.index]
            case "message_delta":
                self._end(event)
            case "message_stop":
                self._ended = True
            case "error":
                raise reader.error_answer(data)
        return []

    def body(self, raw: bytes) -> list[Piece]:
        """Process a complete response body."""
        head = decoded(_message, raw)
        if head.type == "error":
            raise reader.error_answer(raw)
        self._begin(head)
        self._ended = True
        return list(chain.from_iterable(map(reader.pieces_of, self._blocks.values())))

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer, with the additional data that came with it."""
        head = self._begun()
        extras = head.diagnostics, head.input_transformations, head.stop_details
        return Reply(self._answer(self._blocks, request_id), *map(_compact_copy, extras))

    def partial(self, request_id: str | None) -> Answer | None:
        """Closed blocks and unclosed text; other unclosed blocks are not valid."""
        if self._head is None:
            return None
        usable = dict(self._blocks)
        for index, growing in self._growing.items():
            block = blocks.read(growing.raw())
            if growing.is_text and not block.blank:
                usable[index] = block
        return self._answer(usable, request_id)

    def _begin(self, head: _Message) -> None:
        self._head = head
        self._usage = decoded(reader.fields_of, head.usage) or {}
        self._blocks = {
            index: blocks.read(blocks.minify(bytes(raw))) for index, raw in enumerate(head.content)
        }

    def _begun(self) -> _Message:
        if self._head is None:
            raise MalformedAnswer("an event came before the one that begins a message")
        return self._head

    def _block(self, index: int) -> reader.GrowingBlock:
        if index not in self._growing:
            raise MalformedAnswer(f"an event continues block {index}, which is not open")
        return self._growing[index]

    def _end(self, event: _Event) -> None:
        head = self._begun()
        ending = decoded(_message, event.delta)
        head.stop_reason = ending.stop_reason or head.stop_reason
        if bytes(ending.stop_details) != b"null":
            head.stop_details = ending.stop_details
        if bytes(event.context_management) != b"null":
            head.context_management = event.context_management
        # The counts are running totals; values that are missing here, such as the split by lifetime, stay valid.
        counted = decoded(reader.fields_of, event.usage) or {}
        self._usage |= {name: value for name, value in counted.items() if bytes(value) != b"null"}

    def _answer(self, content: Mapping[int, Block], request_id: str | None) -> Answer:
        head = self._begun()
        ordered = tuple(block for _, block in sorted(content.items()))
        usage = _compact_copy(Raw(msgspec.json.encode(self._usage)))
        managed = head.context_management
        edits = UNMANAGED if bytes(managed) == b"null" else _compact_copy(managed)
        return Answer(head.id, head.model, ordered, usage, head.stop_reason, request_id, edits)


def _compact_copy(raw: Raw) -> Raw:
    """The value without whitespace, copied so that it does not keep its whole event in memory."""
    return Raw(blocks.minify(bytes(raw)))
