"""Chat Completions: reads answers into the format of the Messages API.

Text, tool calls and, if a server shows it, reasoning become blocks in the order that the Messages API uses; reasoning
becomes a thinking block without a signature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, read_field
from sevenfold.record.log import Answer
from sevenfold.wire import inline_tags
from sevenfold.wire.error_report import MalformedAnswer
from sevenfold.wire.openai import thinking, tool_use, usage
from sevenfold.wire.reader import NULL, AskedFor, decoded, error_answer, id_from

STOPPED = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
SURELY_UNIQUE = 16
"""Ids of at least this length count as unique; small servers use counters, or short random ids."""


class _Called(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: inline_tags.WrittenCall = inline_tags.WrittenCall()


class _Said(Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Called] | None = None


class _Choice(Struct, frozen=True):
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Chunk(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] = []
    usage: Raw = NULL
    error: Raw = NULL


_chunk = msgspec.json.Decoder(_Chunk)


class _Call(Struct):
    """A tool call whose arguments are still arriving."""

    id: str
    name: str = ""
    arguments: list[str] = []

    def block(self) -> Block:
        return tool_use(self.id, self.name, "".join(self.arguments))


class ChatReader:
    """Reads the chat completion that answers ``asked``."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._written = inline_tags.InlineTagParser()
        self._held: list[Piece] = []
        """Calls written as text, and blanks after them, as long as no other text follows."""
        self._head: _Chunk | None = None
        self._usage = Raw(b"{}")
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._stop: str | None = None
        self._spoke = self._refused = self._ended = False

    @property
    def whole(self) -> bool:
        """Whether the stop reason or the end marker has arrived; without a choice there is no answer."""
        return self._spoke and (self._ended or self._stop is not None)

    def event(self, data: bytes) -> list[Piece]:
        """Process one chunk of a stream."""
        if data.strip() == b"[DONE]":
            self._ended = True
            return list(self._finish())
        return list(self._take(data))

    def body(self, raw: bytes) -> list[Piece]:
        """Process a complete response body, like a stream of one chunk."""
        pieces = list(self._take(raw))
        if not self._spoke:
            raise MalformedAnswer("it has no choice with a message")
        self._ended = True
        return [*pieces, *self._finish()]

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer."""
        return Reply(self._answer(self._blocks(len(self._calls)), request_id))

    def partial(self, request_id: str | None) -> Answer | None:
        """The part that is safe to keep: the last call may be incomplete until a stop reason arrives."""
        if self._head is None:
            return None
        done = len(self._calls) if self._stop else len(self._calls) - 1
        return self._answer(self._blocks(max(0, done)), request_id)

    def _take(self, data: bytes) -> Iterator[Piece]:
        chunk = decoded(_chunk, data)
        if bytes(chunk.error) != b"null":
            raise error_answer(data)
        self._head = self._head or chunk
        if bytes(chunk.usage) != b"null":
            self._usage = usage(chunk.usage)
        for choice in chunk.choices[:1]:
            if spoken := choice.delta or choice.message:
                self._spoke = True
                yield from self._hear(spoken)
            if choice.finish_reason:
                self._stop = STOPPED.get(choice.finish_reason, "end_turn")
                yield from self._finish()

    def _hear(self, spoken: _Said) -> Iterator[Piece]:
        if thought := spoken.reasoning_content or spoken.reasoning:
            self._thoughts.append(thought)
            yield Piece("thinking", thought)
        for piece in self._written.feed(spoken.content) if spoken.content else ():
            yield from self._part(piece)
        if spoken.refusal and not spoken.content:
            self._refused = True
            yield from self._say(spoken.refusal)
        for called in spoken.tool_calls or ():
            yield from self._called(called)

    def _say(self, text: str) -> Iterator[Piece]:
        self._texts.append(text)
        yield Piece("text", text)

    def _part(self, piece: Piece) -> Iterator[Piece]:
        """Process a part of the text; a written call that is followed by other text was only an example."""
        if piece.kind == "call" or (self._held and not piece.words.strip()):
            self._held.append(piece)
        elif piece.kind == "thinking":
            self._thoughts.append(piece.words)
            yield piece
        else:
            yield from self._unheld()
            yield from self._say(piece.words)

    def _unheld(self) -> Iterator[Piece]:
        held = self._held
        self._held = []
        for piece in held:
            is_call = piece.kind == "call"
            yield from self._say(
                f"{inline_tags.CALL}{piece.words}{inline_tags.CALLED}" if is_call else piece.words
            )

    def _finish(self) -> Iterator[Piece]:
        """Process the rest of the text, and the calls that were written as text."""
        for piece in self._written.end():
            yield from self._part(piece)
        tools = () if self._calls else self._tools()
        written_calls = [piece for piece in self._held if piece.kind == "call"] if tools else []
        calls = [inline_tags.call_in(piece.words) for piece in written_calls]
        if not all(calls) or not calls:
            # Not all of it can be read as calls, so it was text that only looks like one.
            yield from self._unheld()
        if not calls and tools and (alone := inline_tags.only_call("".join(self._texts), tools)):
            calls = [alone]
            self._texts = []
        self._held = []
        for number, written in enumerate(filter(None, calls) if all(calls) else ()):
            yield from self._called(_Called(index=number, function=written))

    def _tools(self) -> Collection[str]:
        """The names of the tools in the request."""
        return [read_field(bytes(tool), "name") for tool in AskedFor.of(self._request).tools or ()]

    def _called(self, called: _Called) -> Iterator[Piece]:
        opens = called.id or called.function.name or not self._calls
        index = len(self._calls) - (not opens) if called.index is None else called.index
        call = self._by_index.get(index)
        # Some servers give every call the index 0: a new id means a new call.
        if call is None or (called.id and called.id != call.id and call.name):
            call = _Call(called.id or f"call_{id_from(self._request)}_{len(self._calls)}")
            self._by_index[index] = call
            self._calls.append(call)
        if called.function.name and not call.name:
            call.name = called.function.name
            yield Piece("tool", call.name)
        if called.function.arguments:
            call.arguments.append(called.function.arguments)
            yield Piece("input", called.function.arguments)

    def _blocks(self, call_count: int) -> tuple[Block, ...]:
        """The blocks so far, with this many calls; without thinking at the very end, which may be cut off."""
        content = []
        followed = self._texts or call_count or self._stop
        thought = "".join(self._thoughts)
        text = "".join(self._texts)
        if inline_tags.THOUGHT in text and not thought:
            # Some templates open the thinking in the prompt, so the answer contains only its end tag.
            thought, _, text = text.partition(inline_tags.THOUGHT)
            text = text.lstrip()
        if thought and followed:
            content.append(thinking(thought))
        if text:
            content.append(blocks.text(text))
        content += [call.block() for call in self._calls[:call_count]]
        return tuple(block for block in content if not block.blank)

    def _answer(self, content: tuple[Block, ...], request_id: str | None) -> Answer:
        if self._head is None:
            raise MalformedAnswer("there is nothing in it")
        name = self._head.id or "chatcmpl"
        if len(name) < SURELY_UNIQUE:
            name = f"{name}-{id_from(self._request)}"
        stop = "tool_use" if self._stop == "end_turn" and self._calls else self._stop
        stop = "refusal" if self._refused and stop else stop
        return Answer(name, self._head.model or "", content, self._usage, stop, request_id)
