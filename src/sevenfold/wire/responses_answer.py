"""The Responses API: reads answers into the format of the Messages API.

Messages, function calls and encrypted reasoning become blocks in their original order. Any other item (a search that
the provider made, a kind that is newer than this version) is a block with the item's own bytes, and is sent back so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer
from sevenfold.wire import openai
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer, report_of
from sevenfold.wire.reader import NULL, AskedFor, BodyReader, decoded, error_answer, id_from, pieces_of

UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
WATCHED = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.function_call_arguments.delta": "input",
}


class _Part(Struct, frozen=True):
    text: str = ""
    refusal: str = ""


class _Item(Struct, frozen=True):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str = ""
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _Output(Struct, frozen=True):
    """An item of the output, with its bytes."""

    item: _Item
    raw: bytes = b""


class _IncompleteDetails(Struct, frozen=True):
    reason: str = ""


class _CacheReport(Struct, frozen=True):
    """What the provider says about its cache, compared with the response that the request named."""

    type: str = ""
    reason: str = ""
    cache_missed_tokens: int | None = None


class _Response(Struct, frozen=True):
    id: str = ""
    model: str = ""
    status: str = ""
    output: list[Raw] | None = None
    usage: Raw = NULL
    incomplete_details: _IncompleteDetails | None = None
    error: Raw = NULL
    prompt_cache_diagnostics: Raw = NULL


class _Event(Struct, frozen=True):
    type: str = ""
    output_index: int = 0
    delta: str = ""
    item: Raw = NULL
    response: _Response | None = None


_event = msgspec.json.Decoder(_Event)
_response = msgspec.json.Decoder(_Response)
_item = msgspec.json.Decoder(_Item)


class ResponsesReader:
    """Reads the response that answers ``asked``."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._response: _Response | None = None
        self._items: dict[int, _Output] = {}
        self._texts: dict[int, list[str]] = {}
        self._ended = False

    @property
    def whole(self) -> bool:
        """Whether the response has ended."""
        return self._ended

    def event(self, data: bytes) -> list[Piece]:
        """Process one event; unknown kinds are ignored."""
        event = decoded(_event, data)
        if event.type == "error":
            raise error_answer(data)
        if event.response is not None:
            self._response = event.response
        if event.type == "response.output_item.done":
            self._items[event.output_index] = _output(event.item)
        elif event.type == "response.output_item.added":
            announced = _output(event.item).item
            if announced.type == "function_call":
                return [Piece("tool", announced.name)]
        if event.type in ENDS and event.response is not None:
            self._end(event.response)
        kind = WATCHED.get(event.type)
        if kind == "text":
            self._texts.setdefault(event.output_index, []).append(event.delta)
        return [Piece(kind, event.delta)] if kind and event.delta else []

    def body(self, raw: bytes) -> list[Piece]:
        """Process a complete response body."""
        self._response = response = decoded(_response, raw)
        self._end(response)
        if response.status in UNFINISHED:
            raise MalformedAnswer(f"its status is {response.status}")
        if response.output is None:
            raise MalformedAnswer("it has no output")
        self._items = {index: _output(raw) for index, raw in enumerate(response.output)}
        pieces: list[Piece] = []
        for output in self._items.values():
            for block in self._block(output):
                pieces += pieces_of(block)
        return pieces

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer."""
        answer = self._answer(sorted(self._items.items()), request_id)
        if answer is None:
            raise MalformedAnswer("there is nothing in it")
        cache_report = self._response.prompt_cache_diagnostics if self._response is not None else NULL
        return Reply(answer, diagnostics=_diagnostics(cache_report))

    def partial(self, request_id: str | None) -> Answer | None:
        """Finished items, and the text of unfinished ones."""
        items = dict(self._items)
        for index, texts in self._texts.items():
            if index not in items:
                items[index] = _Output(_Item("message", content=[_Part("".join(texts))]))
        return self._answer(sorted(items.items()), request_id)

    def _end(self, response: _Response) -> None:
        if response.status == "failed" or bytes(response.error) != b"null":
            raise ErrorAnswer(report_of({"error": msgspec.json.decode(response.error)}))
        self._ended = True

    def _answer(self, items: Sequence[tuple[int, _Output]], request_id: str | None) -> Answer | None:
        if self._response is None:
            return None
        name = self._response.id or f"resp_{id_from(self._request)}"
        content = tuple(chain.from_iterable(self._block(output) for _, output in items))
        usage = openai.usage(self._response.usage)
        stop = self._stopped([output.item for _, output in items]) if self._ended else None
        return Answer(name, self._response.model, content, usage, stop, request_id)

    def _block(self, output: _Output) -> Iterator[Block]:
        item = output.item
        if item.type == "function_call":
            yield openai.tool_use(
                item.call_id or f"call_{id_from(self._request)}", item.name, item.arguments
            )
        elif item.type == "reasoning":
            if not item.encrypted_content:
                return
            fields = {"type": "redacted_thinking", "data": item.encrypted_content, "id": item.id}
            yield Block("redacted_thinking", blocks.encode_json(fields), item.id or "")
        elif item.type == "message":
            text = "".join(part.text or part.refusal for part in item.content or ())
            yield from [blocks.text(text)] if text else []
        elif item.type:
            yield blocks.read(blocks.minify(output.raw))

    def _stopped(self, items: Sequence[_Item]) -> str:
        if self._response is not None and self._response.incomplete_details is not None:
            filtered = self._response.incomplete_details.reason == "content_filter"
            return "refusal" if filtered else "max_tokens"
        messages = (item for item in items if item.type == "message")
        parts = chain.from_iterable(message.content or () for message in messages)
        if any(part.refusal for part in parts):
            return "refusal"
        return "tool_use" if any(item.type == "function_call" for item in items) else "end_turn"


def _output(raw: Raw) -> _Output:
    """An item with its bytes. Of a kind that is not known here, any field may have any shape."""
    kind = blocks.read(bytes(raw)).kind
    is_known = kind in ("message", "function_call", "reasoning")
    return _Output(decoded(_item, bytes(raw)) if is_known else _Item(kind), bytes(raw))


def _diagnostics(reported: Raw) -> Raw:
    """What the provider says about its cache, as the `diagnostics` of the Messages API; null if it was not missed."""
    try:
        report = msgspec.json.decode(reported, type=_CacheReport | None)
    except msgspec.MsgspecError:
        return NULL  # an answer is not lost over a remark about it
    if report is None or not report.type or report.type == "cache_hit":
        return NULL
    reason: dict[str, object] = {"type": report.reason or report.type}
    if report.cache_missed_tokens is not None:
        reason["cache_missed_input_tokens"] = report.cache_missed_tokens
    return Raw(msgspec.json.encode({"cache_miss_reason": reason}))


class _Compacted(Struct, frozen=True):
    id: str = ""
    output: list[Raw] = []
    usage: Raw = NULL


_compacted = msgspec.json.Decoder(_Compacted)


def summary_reader(request: bytes) -> BodyReader:
    """A reader for the provider's own summary, requested by ``request``: one item that only the provider can read.

    It comes after copies of the user's messages, which we have anyway. The item is kept byte for byte, as a compaction
    block.
    """

    def read(raw: bytes) -> Reply:
        answer = decoded(_compacted, raw)
        items = [blocks.read(blocks.minify(bytes(item))) for item in answer.output]
        sealed = [item for item in items if blocks.is_encrypted_summary(item)]
        name = answer.id or f"resp_{id_from(request)}"
        model = AskedFor.of(request).model
        stop = "compaction" if sealed else "end_turn"
        return Reply(Answer(name, model, tuple(sealed[-1:]), openai.usage(answer.usage), stop))

    return BodyReader(read)
