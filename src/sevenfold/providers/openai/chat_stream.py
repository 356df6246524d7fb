"""An answer of Chat Completions put together as one of the Messages API, without any I/O.

Text, tool calls and, where a server shows it, reasoning become blocks in the order in which the Messages
API would give them; reasoning is a thinking block without a signature. Usage is counted the other way
round: there cached tokens are part of the prompt, here they stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.providers import failures
from sevenfold.providers.failures import Complained, Garbled
from sevenfold.providers.partial_block import decoded, tool_input
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, encode_json
from sevenfold.record.log import Answer

STOPPED = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
SURELY_UNIQUE = 16
"""Characters from which an id is taken for one that nobody else has; small servers count, or draw lots."""


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Called(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


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


class _Details(Struct, frozen=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class _Chunk(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Raw = Raw(b"null")


_chunk = msgspec.json.Decoder(_Chunk)


class _Call:
    """A tool call whose arguments are still coming."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.name = ""
        self.arguments: list[str] = []

    def block(self) -> Block:
        return tool_use(self.id, self.name, "".join(self.arguments))


class ChatReader:
    """Reads an answer of Chat Completions; ``seed`` makes names for what the server did not name."""

    def __init__(self, seed: Callable[[], str]) -> None:
        self._seed = seed
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
        """The reason for stopping has come, or the mark at the end; a server that chose nothing has not answered."""
        return self._spoke and (self._ended or self._stop is not None)

    def event(self, data: bytes) -> list[Piece]:
        """Take one chunk of a stream."""
        if data.strip() == b"[DONE]":
            self._ended = True
            return []
        return list(self._take(data))

    def body(self, raw: bytes) -> list[Piece]:
        """Take an answer that came in one piece: a stream of a single chunk."""
        pieces = list(self._take(raw))
        if not self._spoke:
            raise Garbled("it has no choice with a message")
        self._ended = True
        return pieces

    def reply(self, request_id: str | None) -> Reply:
        """The finished answer."""
        return Reply(self._answer(self._blocks(len(self._calls)), request_id))

    def partial(self, request_id: str | None) -> Answer | None:
        """What is safe to keep: a call is known to be complete only once another thing has followed it."""
        if self._head is None:
            return None
        done = len(self._calls) if self._stop else len(self._calls) - 1
        return self._answer(self._blocks(max(0, done)), request_id)

    def _take(self, data: bytes) -> Iterator[Piece]:
        chunk = decoded(_chunk, data)
        if bytes(chunk.error) != b"null":
            raise Complained(failures.read(msgspec.json.decode(data)))
        self._head = self._head or chunk
        if chunk.usage is not None:
            self._usage = _counted(chunk.usage)
        for choice in chunk.choices[:1]:
            if said := choice.delta or choice.message:
                self._spoke = True
                yield from self._hear(said)
            if choice.finish_reason:
                self._stop = STOPPED.get(choice.finish_reason, "end_turn")

    def _hear(self, said: _Said) -> Iterator[Piece]:
        if thought := said.reasoning_content or said.reasoning:
            self._thoughts.append(thought)
            yield Piece("thinking", thought)
        if words := said.content or said.refusal:
            self._refused = self._refused or bool(said.refusal)
            self._texts.append(words)
            yield Piece("text", words)
        for called in said.tool_calls or ():
            yield from self._called(called)

    def _called(self, called: _Called) -> Iterator[Piece]:
        opens = called.id or called.function.name or not self._calls
        index = len(self._calls) - (not opens) if called.index is None else called.index
        call = self._by_index.get(index)
        # Some servers number every call 0: a new id is a new call.
        if call is None or (called.id and called.id != call.id and call.name):
            call = _Call(called.id or f"call_{self._seed()}_{len(self._calls)}")
            self._by_index[index] = call
            self._calls.append(call)
        if called.function.name and not call.name:
            call.name = called.function.name
            yield Piece("tool", call.name)
        if called.function.arguments:
            call.arguments.append(called.function.arguments)
            yield Piece("input", called.function.arguments)

    def _blocks(self, calls: int) -> tuple[Block, ...]:
        """The blocks so far, with that many calls; thinking nothing has followed may be cut."""
        found = []
        followed = self._texts or calls or self._stop
        if self._thoughts and followed:
            found.append(thinking("".join(self._thoughts)))
        if words := "".join(self._texts):
            found.append(blocks.text(words))
        found += [call.block() for call in self._calls[:calls]]
        return tuple(block for block in found if not block.blank)

    def _answer(self, found: tuple[Block, ...], request_id: str | None) -> Answer:
        if self._head is None:
            raise Garbled("there is nothing in it")
        name = self._head.id or "chatcmpl"
        stop = "tool_use" if self._stop == "end_turn" and self._calls else self._stop
        return Answer(
            id=name if len(name) >= SURELY_UNIQUE else f"{name}-{self._seed()}",
            model=self._head.model or "",
            blocks=found,
            usage=self._usage,
            stop_reason="refusal" if self._refused and stop else stop,
            request_id=request_id,
        )


def tool_use(id_: str, name: str, arguments: str) -> Block:
    """A tool call as a block."""
    given = Raw(tool_input(arguments))
    fields = {"type": "tool_use", "id": id_, "name": name, "input": given}
    return Block("tool_use", encode_json(fields), id_)


def thinking(words: str) -> Block:
    """Reasoning that nobody signed, as a block."""
    fields = {"type": "thinking", "thinking": words, "signature": ""}
    return Block("thinking", encode_json(fields))


def usage(prompt: int, cached: int, written: int, output: int, reasoning: int | None) -> Raw:
    """Counts of OpenAI, where the prompt includes what was cached, as the Messages API would give them."""
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    counts: dict[str, Any] = {
        "input_tokens": prompt - cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }
    if reasoning is not None:
        counts["output_tokens_details"] = {"thinking_tokens": reasoning}
    return Raw(encode_json(counts))


def _counted(reported: _Usage) -> Raw:
    prompt, answer = reported.prompt_tokens_details or _Details(), reported.completion_tokens_details
    return usage(
        reported.prompt_tokens or 0,
        prompt.cached_tokens or reported.prompt_cache_hit_tokens or 0,
        prompt.cache_write_tokens or 0,
        reported.completion_tokens or 0,
        answer.reasoning_tokens if answer else None,
    )
