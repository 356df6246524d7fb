"""An answer of the Responses API put together as one of the Messages API, without any I/O.

Messages, function calls and encrypted reasoning become blocks in the order in which they came; items of
other kinds cannot come, because nothing that would bring them is ever asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.providers import failures
from sevenfold.providers.failures import Complained, Garbled
from sevenfold.providers.openai.chat_stream import tool_use, usage
from sevenfold.providers.partial_block import decoded
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, encode_json
from sevenfold.record.log import Answer

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


class _Details(Struct, frozen=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Counted(Struct, frozen=True):
    """What the provider counted."""

    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None

    def usage(self) -> Raw:
        """The same as the Messages API counts."""
        before, after = self.input_tokens_details or _Details(), self.output_tokens_details
        return usage(
            self.input_tokens,
            before.cached_tokens or 0,
            before.cache_write_tokens or 0,
            self.output_tokens,
            after.reasoning_tokens if after else None,
        )


class _Why(Struct, frozen=True):
    reason: str = ""


class _Response(Struct, frozen=True):
    id: str = ""
    model: str = ""
    status: str = ""
    output: list[_Item] | None = None
    usage: Counted | None = None
    incomplete_details: _Why | None = None
    error: Raw = Raw(b"null")


class _Event(Struct, frozen=True):
    type: str = ""
    output_index: int = 0
    delta: str = ""
    item: _Item | None = None
    response: _Response | None = None


_event = msgspec.json.Decoder(_Event)
_response = msgspec.json.Decoder(_Response)


class ResponsesReader:
    """Reads an answer of the Responses API; ``seed`` makes names for what the server did not name."""

    def __init__(self, seed: Callable[[], str]) -> None:
        self._seed = seed
        self._response: _Response | None = None
        self._items: dict[int, _Item] = {}
        self._words: dict[int, list[str]] = {}
        self._ended = False

    @property
    def whole(self) -> bool:
        """The response has said that it is over."""
        return self._ended

    def event(self, data: bytes) -> list[Piece]:
        """Take one event; kinds that are not known are passed over."""
        event = decoded(_event, data)
        if event.type == "error":
            raise Complained(failures.read(msgspec.json.decode(data)))
        if event.response is not None:
            self._response = event.response
        if event.item is not None and event.type == "response.output_item.done":
            self._items[event.output_index] = event.item
        elif event.item is not None and event.item.type == "function_call":
            return [Piece("tool", event.item.name)]
        if event.type in ENDS and event.response is not None:
            self._end(event.response)
        kind = WATCHED.get(event.type)
        if kind == "text":
            self._words.setdefault(event.output_index, []).append(event.delta)
        return [Piece(kind, event.delta)] if kind and event.delta else []

    def body(self, raw: bytes) -> list[Piece]:
        """Take an answer that came in one piece."""
        self._response = response = decoded(_response, raw)
        self._end(response)
        if response.status in UNFINISHED:
            raise Garbled(f"its status is {response.status}")
        if response.output is None:
            raise Garbled("it has no output")
        self._items = dict(enumerate(response.output))
        return [piece for item in response.output for piece in _shown(item)]

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer."""
        found = self._answer(sorted(self._items.items()), request_id)
        if found is None:
            raise Garbled("there is nothing in it")
        return Reply(found)

    def partial(self, request_id: str | None) -> Answer | None:
        """Finished items, and words of unfinished ones."""
        words = {
            place: _Item("message", content=[_Part("".join(said))])
            for place, said in self._words.items()
            if place not in self._items
        }
        return self._answer(sorted({**self._items, **words}.items()), request_id)

    def _end(self, response: _Response) -> None:
        if response.status == "failed" or bytes(response.error) != b"null":
            raise Complained(failures.read({"error": msgspec.json.decode(response.error)}))
        self._ended = True

    def _answer(self, items: Sequence[tuple[int, _Item]], request_id: str | None) -> Answer | None:
        if self._response is None:
            return None
        found = [block for _, item in items for block in self._block(item)]
        return Answer(
            id=self._response.id or f"resp_{self._seed()}",
            model=self._response.model,
            blocks=tuple(found),
            usage=(self._response.usage or Counted()).usage(),
            stop_reason=self._stopped(items) if self._ended else None,
            request_id=request_id,
        )

    def _block(self, item: _Item) -> Iterator[Block]:
        if item.type == "function_call":
            yield tool_use(item.call_id or f"call_{self._seed()}", item.name, item.arguments)
        elif item.type == "reasoning" and item.encrypted_content:
            fields = {"type": "redacted_thinking", "data": item.encrypted_content, "id": item.id}
            yield Block("redacted_thinking", encode_json(fields), item.id or "")
        elif words := _said(item):
            yield blocks.text(words)

    def _stopped(self, items: Sequence[tuple[int, _Item]]) -> str:
        if self._response is not None and self._response.incomplete_details is not None:
            filtered = self._response.incomplete_details.reason == "content_filter"
            return "refusal" if filtered else "max_tokens"
        if any(part.refusal for _, item in items for part in item.content or ()):
            return "refusal"
        return "tool_use" if any(item.type == "function_call" for _, item in items) else "end_turn"


def _said(item: _Item) -> str:
    return (
        "".join(part.text or part.refusal for part in item.content or ()) if item.type == "message" else ""
    )


def _shown(item: _Item) -> list[Piece]:
    if item.type == "function_call":
        return [Piece("tool", item.name), Piece("input", item.arguments)]
    words = _said(item)
    return [Piece("text", words)] if words else []
