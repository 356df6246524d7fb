"""Chat Completions: translates requests of the Messages API, and reads answers into its format.

Chat Completions has no content blocks: tool calls are separate from the text, results are separate messages, and
caching is up to the server. The translation is a pure function of the request: the same history gives the same bytes,
and a longer one begins with them. Fields that only steer the provider (cache markers, thinking settings, metadata) are
dropped; fields that change the question are refused.

In an answer, text, tool calls and, if a server shows it, reasoning become blocks in the order that the Messages API
uses; reasoning becomes a thinking block without a signature. Usage is counted differently: in Chat Completions cached
tokens are part of the prompt, in the Messages API they are counted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.errors import InputError, RequestRefused
from sevenfold.ports import Piece, Reply
from sevenfold.providers.failures import MalformedAnswer
from sevenfold.providers.openai import written
from sevenfold.providers.reader import NULL, AskedFor, decoded, error_answer, id_from
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block, read_field, read_fields, tool_input
from sevenfold.record.log import Answer
from sevenfold.record.usage import counted
from sevenfold.record.wire import SERVER_CALLS

Json = Mapping[str, Any]

SAME = ("temperature", "top_p")
"""Fields with the same name and meaning in all APIs."""
EXPRESSED = frozenset(SAME) | (
    {"model", "max_tokens", "system", "messages", "tools", "tool_choice", "stop_sequences", "output_config"}
)
DROPPED_FIELDS = frozenset(
    {"stream", "thinking", "cache_control", "diagnostics", "metadata", "service_tier", "speed"}
    | {"inference_geo", "user_profile_id", "workspace_id"}
)
"""Fields that are dropped because they do not change the question."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
STOPPED = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
SURELY_UNIQUE = 16
"""Ids of at least this length count as unique; small servers use counters, or short random ids."""


def chat_request(
    body: bytes, *, stream: bool, room: str, reasoning: str | None, cache_key: str = ""
) -> bytes:
    """The equivalent Chat Completions request body.

    ``room`` is the server's name for the most tokens in an answer; ``reasoning`` is its field for earlier
    reasoning, or None if it accepts none.
    """
    asked = expressible(body, "Chat Completions")
    said: list[Json] = [{"role": "system", "content": asked["system"]}] if asked["system"] else []
    said += _results_first(
        one
        for place, message in enumerate(asked["messages"])
        for one in _messages(message, f"messages.{place}", reasoning)
    )
    effort, schema = effort_and_schema(asked)
    strict = {"type": "json_schema", "json_schema": {**schema, "strict": True}} if schema else None
    return encoded(
        model=asked["model"],
        **{name: asked.get(name) for name in SAME},
        messages=said,
        **tool_fields(asked, lambda made: {"type": "function", "function": made}),
        stop=asked.get("stop_sequences") or None,
        reasoning_effort=effort,
        response_format=strict,
        **{room: asked["max_tokens"]},
        prompt_cache_key=cache_key or None,
        stream=stream or None,
        stream_options={"include_usage": True} if stream else None,
    )


def expressible(body: bytes, api: str, also: frozenset[str] = frozenset()) -> Json:
    """The decoded request, with its system prompt as text.

    Raises `RequestRefused` for fields that ``api`` cannot express, except those in ``also``.
    """
    asked = msgspec.json.decode(body)
    if foreign := sorted(set(asked) - EXPRESSED - DROPPED_FIELDS - also):
        raise RequestRefused(f"{api} has nothing like {', '.join(foreign)}: leave it out for this model")
    return {**asked, "system": text_of(asked.get("system") or "", "system")}


def encoded(**fields: Any) -> bytes:
    """A request body with these fields; None values are left out."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def tool_fields(asked: Json, wrapped: Callable[[Json], Json], defaults: Mapping[str, Any] = {}) -> Json:
    """The tools and the tool choice; ``wrapped`` puts a function, or its name, into the API's form."""
    fields: dict[str, Any] = {
        "tools": [wrapped({**defaults, **function(tool)}) for tool in asked.get("tools") or ()] or None
    }
    if choice := asked.get("tool_choice"):
        fields["tool_choice"] = CHOICES.get(choice["type"]) or wrapped({"name": choice["name"]})
        if choice.get("disable_parallel_tool_use"):
            fields["parallel_tool_calls"] = False
    return fields


def effort_and_schema(asked: Json) -> tuple[str | None, Json | None]:
    """The reasoning effort, and the schema that the answer must follow."""
    wanted = asked.get("output_config") or {}
    schema = {"name": "answer", "schema": wanted["format"]["schema"]} if wanted.get("format") else None
    return wanted.get("effort") or None, schema


def text_of(content: str | Sequence[Json], where: str) -> str:
    """The text of content that may contain only text; raises `RequestRefused` for anything else."""
    if isinstance(content, str):
        return content
    for place, block in enumerate(content):
        if block["type"] != "text":
            raise inexpressible(block, f"{where}.{place}")
    return "\n\n".join(str(block["text"]) for block in content)


def function(tool: Json) -> dict[str, Any]:
    """A tool definition as an OpenAI function; raises `RequestRefused` for a tool that runs at Anthropic."""
    if tool.get("type") not in (None, "custom"):
        raise RequestRefused(f"the tool {tool.get('name') or tool['type']} runs at Anthropic: leave it out")
    made = {"name": tool["name"], "parameters": tool["input_schema"]}
    return made | {key: tool[key] for key in ("description", "strict") if key in tool}


def from_function(tool: Json) -> Json:
    """A tool definition from a function of either OpenAI API; any other definition is returned unchanged."""
    if tool.get("type") != "function":
        return tool
    told = tool.get("function", tool)
    if not isinstance(told, Mapping) or not told.get("name"):
        raise InputError(
            'a tool of type "function" has a name: {"type": "function", "function": {"name": …}}'
        )
    made = {key: told[key] for key in ("name", "description") if told.get(key) is not None}
    made["input_schema"] = told.get("parameters") or {"type": "object", "properties": {}}
    return made if told.get("strict") is None else made | {"strict": told["strict"]}


def image_url(source: Json) -> str:
    """The URL of an image or a document, possibly a data URL; empty if the provider stores it."""
    if source.get("type") == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return str(source.get("url", ""))


def result_parts(block: Json) -> tuple[str, list[Json]]:
    """The text of a tool result, and its other parts, which a tool message cannot contain."""
    parts = blocks_of(block.get("content") or "")
    words = [str(part["text"]) for part in parts if part["type"] == "text"]
    return "\n\n".join(words), [part for part in parts if part["type"] != "text"]


def blocks_of(content: str | Sequence[Json]) -> list[Json]:
    """The content of a message or a result as blocks, without those that only Anthropic's servers can read."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [plain for block in content for plain in in_words(block)]


def in_words(block: Json) -> Iterator[Json]:
    """A block of the Messages API without a counterpart, as text; any other block unchanged."""
    match block:
        case {"type": "search_result", "title": title, "source": source, "content": found}:
            said = "\n".join(str(part["text"]) for part in found)
            yield {"type": "text", "text": f"{title} ({source})\n{said}"}
        case {"type": "document", "source": {"type": "text", "data": words}}:
            yield {"type": "text", "text": words}
        case {"type": "document", "source": {"type": "content", "content": inside}}:
            yield from blocks_of(inside)
        case {"type": "compaction", "content": str() as summary}:
            yield {"type": "text", "text": summary}
        case {"type": "tool_reference" | "browser_state"}:
            yield {"type": "text", "text": msgspec.json.encode(block).decode()}
        case {"type": str() as kind} if kind in SERVER_CALLS or kind.endswith("_tool_result"):
            return  # the model's own text has the outcome
        case _:
            yield block


def is_sealed(block: Json) -> bool:
    """Whether it is a summary that only the Responses API can read; a readable one is always sent with it."""
    return block["type"] == "compaction" and block.get("content") is None and "encrypted_content" in block


def inexpressible(block: Json, where: str) -> RequestRefused:
    """The error for a block without a counterpart in this API."""
    return RequestRefused(f"{where}: this API has no {block['type']} blocks; leave it out for this model")


def _messages(message: Json, where: str, reasoning: str | None) -> Iterator[Json]:
    content = blocks_of(message["content"])
    match message["role"]:
        case "assistant":
            yield from _assistant(content, where, reasoning)
        case "system":
            yield {"role": "system", "content": text_of(content, where)}
        case _:
            yield from _user(content, where)


def _results_first(messages: Iterable[Json]) -> list[Json]:
    """The messages with all tool results directly after their calls, as this API requires.

    An image in a result becomes a user message, and more results may follow in a later message.
    """
    found, next_result = list[Json](), 0
    for message in messages:
        if message["role"] == "tool":
            found.insert(next_result, message)
            next_result += 1
        else:
            found.append(message)
            if message["role"] == "assistant":
                next_result = len(found)
    return found


def _assistant(content: Sequence[Json], where: str, reasoning: str | None) -> Iterator[Json]:
    texts, calls, thoughts = [], [], []
    for place, block in enumerate(content):
        if block["type"] == "text":
            texts.append(str(block["text"]))
        elif block["type"] == "tool_use":
            given = msgspec.json.encode(block["input"]).decode()
            called = {"name": block["name"], "arguments": given}
            calls.append({"id": block["id"], "type": "function", "function": called})
        elif block["type"] in THINKING:
            thoughts.append(str(block.get("thinking") or ""))
        else:
            raise inexpressible(block, f"{where}.content.{place}")
    said: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    if calls:
        said["tool_calls"] = calls
    if reasoning and any(thoughts):
        said[reasoning] = "".join(thoughts)
    if texts or calls:
        yield said


def _user(content: Sequence[Json], where: str) -> Iterator[Json]:
    parts: list[Json] = []
    for place, block in enumerate(content):
        path = f"{where}.content.{place}"
        if block["type"] == "tool_result":
            words, others = result_parts(block)
            parts += [_part(one, path) for one in others]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": words}
        elif not is_sealed(block):
            parts.append(_part(block, path))
    if all(part["type"] == "text" for part in parts):
        # Many servers' chat templates accept only a plain string.
        words = "\n\n".join(str(part["text"]) for part in parts)
        if words:
            yield {"role": "user", "content": words}
    else:
        yield {"role": "user", "content": parts}


def _part(block: Json, where: str) -> Json:
    match block:
        case {"type": "text", "text": words}:
            return {"type": "text", "text": words}
        case {"type": "image", "source": source} if url := image_url(source):
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "document", "source": {"type": "file", "file_id": file}}:
            return {"type": "file", "file": {"file_id": file}}
        case {"type": "document", "source": {"type": "base64"} as source}:
            named = {"filename": block.get("title") or "document.pdf"}
            return {"type": "file", "file": {**named, "file_data": image_url(source)}}
        case {"type": "image" | "document" as kind, "source": {"url": where_it_is}} | {
            "type": "image" | "document" as kind,
            "source": {"file_id": where_it_is},
        }:
            # This API cannot follow such a reference, but the model should know that something was there.
            return {"type": "text", "text": f"[{kind}: {where_it_is}]"}
        case _:
            raise inexpressible(block, where)


class _Called(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: written.WrittenCall = written.WrittenCall()


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

    def __init__(self, asked: bytes) -> None:
        self._asked = asked
        self._written = written.InlineTagParser()
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
            if said := choice.delta or choice.message:
                self._spoke = True
                yield from self._hear(said)
            if choice.finish_reason:
                self._stop = STOPPED.get(choice.finish_reason, "end_turn")
                yield from self._finish()

    def _hear(self, said: _Said) -> Iterator[Piece]:
        if thought := said.reasoning_content or said.reasoning:
            self._thoughts.append(thought)
            yield Piece("thinking", thought)
        for part in self._written.feed(said.content) if said.content else ():
            yield from self._part(part)
        if said.refusal and not said.content:
            self._refused = True
            yield from self._say(said.refusal)
        for called in said.tool_calls or ():
            yield from self._called(called)

    def _say(self, words: str) -> Iterator[Piece]:
        self._texts.append(words)
        yield Piece("text", words)

    def _part(self, part: Piece) -> Iterator[Piece]:
        """Process a part of the text; a written call that is followed by other text was only an example."""
        if part.kind == "call" or (self._held and not part.words.strip()):
            self._held.append(part)
        elif part.kind == "thinking":
            self._thoughts.append(part.words)
            yield part
        else:
            yield from self._unheld()
            yield from self._say(part.words)

    def _unheld(self) -> Iterator[Piece]:
        held, self._held = self._held, []
        for part in held:
            is_call = part.kind == "call"
            yield from self._say(f"{written.CALL}{part.words}{written.CALLED}" if is_call else part.words)

    def _finish(self) -> Iterator[Piece]:
        """Process the rest of the text, and the calls that were written as text."""
        for part in self._written.end():
            yield from self._part(part)
        tools = () if self._calls else self._tools()
        found = [written.call_in(part.words) for part in self._held if part.kind == "call"] if tools else []
        if not all(found) or not found:
            yield from self._unheld()
        if not found and tools and (alone := written.only_call("".join(self._texts), tools)):
            found, self._texts = [alone], []
        self._held = []
        for number, call in enumerate(filter(None, found) if all(found) else ()):
            yield from self._called(_Called(index=number, function=call))

    def _tools(self) -> Collection[str]:
        """The names of the tools in the request."""
        return [read_field(bytes(tool), "name") for tool in AskedFor.of(self._asked).tools or ()]

    def _called(self, called: _Called) -> Iterator[Piece]:
        opens = called.id or called.function.name or not self._calls
        index = len(self._calls) - (not opens) if called.index is None else called.index
        call = self._by_index.get(index)
        # Some servers give every call the index 0: a new id means a new call.
        if call is None or (called.id and called.id != call.id and call.name):
            call = _Call(called.id or f"call_{id_from(self._asked)}_{len(self._calls)}")
            self._by_index[index] = call
            self._calls.append(call)
        if called.function.name and not call.name:
            call.name = called.function.name
            yield Piece("tool", call.name)
        if called.function.arguments:
            call.arguments.append(called.function.arguments)
            yield Piece("input", called.function.arguments)

    def _blocks(self, calls: int) -> tuple[Block, ...]:
        """The blocks so far, with the first ``calls`` calls; without thinking at the very end, which may be cut off."""
        found = []
        followed = self._texts or calls or self._stop
        thought, words = "".join(self._thoughts), "".join(self._texts)
        if written.THOUGHT in words and not thought:
            # Some templates open the thinking in the prompt, so the answer contains only its end tag.
            thought, _, words = words.partition(written.THOUGHT)
            words = words.lstrip()
        if thought and followed:
            found.append(thinking(thought))
        if words:
            found.append(blocks.text(words))
        found += [call.block() for call in self._calls[:calls]]
        return tuple(block for block in found if not block.blank)

    def _answer(self, found: tuple[Block, ...], request_id: str | None) -> Answer:
        if self._head is None:
            raise MalformedAnswer("there is nothing in it")
        name = self._head.id or "chatcmpl"
        if len(name) < SURELY_UNIQUE:
            name = f"{name}-{id_from(self._asked)}"
        stop = "tool_use" if self._stop == "end_turn" and self._calls else self._stop
        stop = "refusal" if self._refused and stop else stop
        return Answer(name, self._head.model or "", found, self._usage, stop, request_id)


def tool_use(id_: str, name: str, arguments: str) -> Block:
    """A tool call as a block."""
    given = Raw(tool_input(arguments))
    fields = {"type": "tool_use", "id": id_, "name": name, "input": given}
    return Block("tool_use", blocks.encode_json(fields), id_)


def thinking(words: str) -> Block:
    """Reasoning without a signature, as a block."""
    fields = {"type": "thinking", "thinking": words, "signature": ""}
    return Block("thinking", blocks.encode_json(fields))


def usage(reported: Raw) -> Raw:
    """OpenAI's usage, whose prompt includes cached tokens, in the format of the Messages API.

    Each OpenAI API has its own names. A missing or invalid count becomes 0: the answer should not be lost for that.
    """
    given = read_fields(reported)
    prompt = counted(given, "prompt_tokens") or counted(given, "input_tokens")
    split = _details(given, "prompt_tokens_details", "input_tokens_details")
    # Some servers report cached tokens outside the details.
    hit = min(counted(split, "cached_tokens") or counted(given, "prompt_cache_hit_tokens"), prompt)
    stored = min(counted(split, "cache_write_tokens"), prompt - hit)
    counts: dict[str, Any] = {
        "input_tokens": prompt - hit - stored,
        "cache_creation_input_tokens": stored,
        "cache_read_input_tokens": hit,
        "output_tokens": counted(given, "completion_tokens") or counted(given, "output_tokens"),
    }
    written = _details(given, "completion_tokens_details", "output_tokens_details")
    if written.get("reasoning_tokens") is not None:
        counts["output_tokens_details"] = {"thinking_tokens": counted(written, "reasoning_tokens")}
    return Raw(blocks.encode_json(counts))


def _details(given: Json, *names: str) -> Json:
    """The breakdown of a count; empty if there is none."""
    return next((split for name in names if isinstance(split := given.get(name), dict)), {})
