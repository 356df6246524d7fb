"""An answer of the Messages API put together, from events or from one body, without any I/O.

Every block ends up as the bytes the provider sent, insignificant whitespace aside: a block of a body is a
slice of it, and a block of a stream is put together by `growing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.providers import failures
from sevenfold.providers.failures import Complained, Garbled
from sevenfold.providers.partial_block import (
    NULL,
    Fields,
    GrowingBlock,
    decoded,
    fields_of,
    words_in,
)
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, minify
from sevenfold.record.log import Answer

_SHOWN = {"text": "text", "thinking": "thinking", "partial_json": "input"}
"""Fields of a delta that somebody may watch, and the kind of piece they are."""


class Reader(Protocol):
    """Puts one answer together; one is made for each request."""

    @property
    def whole(self) -> bool:
        """Whether nothing is missing any more."""
        ...

    def event(self, data: bytes) -> Iterable[Piece]:
        """Take one event of a stream; gives what a watcher may see."""
        ...

    def body(self, raw: bytes) -> Iterable[Piece]:
        """Take an answer that came in one piece."""
        ...

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer; only when it is whole."""
        ...

    def partial(self, request_id: str | None) -> Answer | None:
        """What is safe to keep of an unfinished answer; None when not even its head arrived."""
        ...


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


class _Ending(Struct, frozen=True):
    stop_reason: str | None = None
    stop_details: Raw = NULL


_event = msgspec.json.Decoder(_Event)
_message = msgspec.json.Decoder(_Message)
_ending = msgspec.json.Decoder(_Ending)
_encoder = msgspec.json.Encoder()


class MessagesReader:
    """Reads an answer of the Messages API."""

    def __init__(self) -> None:
        self._head: _Message | None = None
        self._usage: Fields = {}
        self._growing: dict[int, GrowingBlock] = {}
        self._blocks: dict[int, Block] = {}
        self._ended = False

    @property
    def whole(self) -> bool:
        """Every block is closed and the end has come, or at least the reason for it."""
        if self._head is None or self._growing:
            return False
        return self._ended or self._head.stop_reason is not None

    def event(self, data: bytes) -> list[Piece]:
        """Take one event; kinds that are not known are passed over, as the API asks of its clients."""
        event = decoded(_event, data)
        match event.type:
            case "message_start":
                self._begin(decoded(_message, event.message))
            case "content_block_start":
                self._growing[event.index] = block = GrowingBlock(bytes(event.content_block))
                return _opening(block.fields)
            case "content_block_delta":
                delta = decoded(fields_of, event.delta) or {}
                self._block(event.index).grow(delta)
                return [
                    Piece(kind, words)
                    for name, kind in _SHOWN.items()
                    if name in delta and (words := words_in(delta[name]))
                ]
            case "content_block_stop":
                self._blocks[event.index] = blocks.read(self._block(event.index).raw())
                del self._growing[event.index]
            case "message_delta":
                self._end(event)
            case "message_stop":
                self._ended = True
            case "error":
                raise Complained(failures.read(msgspec.json.decode(data)))
        return []

    def body(self, raw: bytes) -> list[Piece]:
        """Take an answer that came in one piece."""
        head = decoded(_message, raw)
        if head.type == "error":
            raise Complained(failures.read(msgspec.json.decode(raw)))
        self._begin(head)
        self._ended = True
        return [piece for block in self._blocks.values() for piece in pieces_of(block)]

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer and what came with it."""
        head = self._begun()
        return Reply(
            self._answer(self._blocks, request_id),
            diagnostics=_kept(head.diagnostics),
            context_management=_kept(head.context_management),
            input_transformations=_kept(head.input_transformations),
            stop_details=_kept(head.stop_details),
        )

    def partial(self, request_id: str | None) -> Answer | None:
        """Closed blocks, and text that was not closed; other open blocks lack what makes them valid."""
        if self._head is None:
            return None
        texts = {index: blocks.read(block.raw()) for index, block in self._growing.items() if block.is_text}
        unfinished = {index: block for index, block in texts.items() if not block.blank}
        return self._answer({**self._blocks, **unfinished}, request_id)

    def _begin(self, head: _Message) -> None:
        self._head = head
        self._usage = decoded(fields_of, head.usage) or {}
        self._blocks = {index: blocks.read(minify(bytes(raw))) for index, raw in enumerate(head.content)}

    def _begun(self) -> _Message:
        if self._head is None:
            raise Garbled("an event came before the one that begins a message")
        return self._head

    def _block(self, index: int) -> GrowingBlock:
        try:
            return self._growing[index]
        except KeyError:
            raise Garbled(f"an event continues block {index}, which is not open") from None

    def _end(self, event: _Event) -> None:
        head, ending = self._begun(), decoded(_ending, event.delta)
        head.stop_reason = ending.stop_reason or head.stop_reason
        if bytes(ending.stop_details) != b"null":
            head.stop_details = ending.stop_details
        if bytes(event.context_management) != b"null":
            head.context_management = event.context_management
        # The counts are totals up to here; what is left out, such as the split by lifetime, stands.
        counted = decoded(fields_of, event.usage) or {}
        self._usage |= {name: value for name, value in counted.items() if bytes(value) != b"null"}

    def _answer(self, found: Mapping[int, Block], request_id: str | None) -> Answer:
        head = self._begun()
        return Answer(
            id=head.id,
            model=head.model,
            blocks=tuple(block for _, block in sorted(found.items())),
            usage=_kept(Raw(_encoder.encode(self._usage))),
            stop_reason=head.stop_reason,
            request_id=request_id,
        )


def pieces_of(block: Block) -> list[Piece]:
    """A whole block as a watcher sees it."""
    fields = decoded(fields_of, block.raw) or {}
    given = bytes(fields.get("input", b""))
    return [*_opening(fields), *([Piece("input", given.decode())] if given else [])]


def _opening(fields: Fields) -> list[Piece]:
    """What the opening of a block shows: often nothing but a tool's name."""
    if "input" in fields:
        return [Piece("tool", words_in(fields.get("name", NULL)))]
    shown = [(kind, words_in(fields[name])) for name, kind in _SHOWN.items() if name in fields]
    return [Piece(kind, words) for kind, words in shown if words]


def _kept(raw: Raw) -> Raw:
    """The value without whitespace and without the event it came in, which it would keep in memory."""
    return Raw(minify(bytes(raw)))
