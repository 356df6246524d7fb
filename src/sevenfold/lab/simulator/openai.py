"""What the two OpenAI APIs share: a prompt in the simulator's own terms, a reply, and its usage.

---

The tools of OpenAI's two APIs: the same functions, in one nested in a field of their own, in the other not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.lab.simulator.errors import ApiError, bad
from sevenfold.lab.simulator.output import Output, Room, limit
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.tokens import BlockDigest, digest
from sevenfold.profiles import Profile

Json = Mapping[str, Any]


class OpenAiRequest(Struct, frozen=True):
    """A request of either API, in the simulator's own terms."""

    body: Json
    profile: Profile
    tools: Sequence[Json]
    """Function definitions with `name`, `description` and `input_schema`."""
    messages: Sequence[Json]
    """Messages with content blocks, system messages among them."""
    max_tokens: int | None
    overflow: str
    """How this API says that the prompt is too long."""
    stops: Sequence[str] = ()

    @property
    def system(self) -> str:
        """The words of all system messages."""
        parts = [message for message in self.messages if message["role"] == "system"]
        return "\n".join(str(block.get("text", "")) for part in parts for block in part["content"])

    @property
    def spoken(self) -> list[Json]:
        """The messages of user and model."""
        return [message for message in self.messages if message["role"] != "system"]


class SizedPrompt(Struct, frozen=True):
    """A prompt that fits, weighed."""

    pieces: Sequence[BlockDigest]
    tokens: int

    def cached(self, sim: Simulator, asked: OpenAiRequest) -> int:
        """How much of it was cached; all of it is from now on."""
        root = digest(str(asked.body["model"]).encode())
        return sim.prefixes.read(root, self.pieces, asked.profile.cache, sim.clock.now())


class OpenAiReply(Struct, frozen=True):
    """A reply with what it cost."""

    output: Output
    prompt_tokens: int
    cached_tokens: int


def ask(sim: Simulator, asked: OpenAiRequest) -> OpenAiReply:
    """Let the brain answer; the prompt is counted, cached and held against the window."""
    profile = asked.profile
    taken = take(sim, asked)
    size = taken.tokens
    prompt = ModelPrompt(
        model=asked.body["model"],
        system=asked.system,
        tools=asked.tools,
        messages=asked.spoken,
        max_tokens=asked.max_tokens or profile.max_output,
        body=asked.body,
    )
    reply = sim.brain.reply(prompt)
    room = Room(min(prompt.max_tokens, profile.max_output), profile.window - size)
    output = limit(reply, asked.stops, room, sim.scales.counter, profile.tokenizer)
    return OpenAiReply(output, size, taken.cached(sim, asked))


def take(sim: Simulator, asked: OpenAiRequest) -> SizedPrompt:
    """Weigh a prompt; raises when it is larger than the window."""
    pieces = _pieces(sim, asked)
    size = sum(piece.tokens for piece in pieces)
    if size > asked.profile.window:
        raise _overflow(asked, size)
    return SizedPrompt(pieces, size)


def check_body(body: Any, shape: type[Struct]) -> None:
    """Raise when a body has not the shape of its API; fields nobody knows are let pass, as servers do."""
    try:
        msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        complaint, _, place = str(error).partition(" - at `$.")
        path = place.rstrip("`")
        if "missing required field" in complaint:
            name = complaint.split("`")[1]
            words = f"Missing required parameter: '{f'{path}.{name}'.lstrip('.')}'."
            raise bad(words, param=name, code="missing_required_parameter") from None
        raise bad(f"Invalid type for '{path}': {complaint}.", param=path, code="invalid_type") from None


def call_arguments(block: Json) -> str:
    """The input of a tool call as the JSON text OpenAI sends."""
    return msgspec.json.encode(block["input"]).decode()


def decoded_arguments(arguments: Any) -> Any:
    """A call's arguments as an object; text that is no JSON object is kept as it is."""
    try:
        given = msgspec.json.decode(str(arguments or "{}"))
    except msgspec.DecodeError:
        given = None
    return given if isinstance(given, dict) else {"arguments": str(arguments)}


def content_blocks(content: Any) -> list[Json]:
    """The content of a message of either API as blocks."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list):
        raise bad("Invalid type for 'content': expected a string or an array.", param="content")
    return [_block(part) for part in content if isinstance(part, dict)]


def _block(part: Json) -> Json:
    if "text" in part:
        return {"type": "text", "text": str(part["text"])}
    return (
        {"type": "image", "source": part} if "image_url" in part else {"type": "document", "source": part}
    )


def _overflow(asked: OpenAiRequest, size: int) -> ApiError:
    words = asked.overflow.format(window=asked.profile.window, tokens=size)
    return bad(
        words, param="messages" if "messages" in asked.body else "input", code="context_length_exceeded"
    )


def _pieces(sim: Simulator, asked: OpenAiRequest) -> list[BlockDigest]:
    scales, generation = sim.scales, asked.profile.tokenizer
    pieces = [scales.weigh(tool, generation, "tools") for tool in asked.tools]
    for message in asked.messages:
        start = len(pieces)
        pieces += [scales.weigh(block, generation, message["role"]) for block in message["content"]]
        if len(pieces) > start:
            first = pieces[start]
            pieces[start] = BlockDigest(first.digest, first.tokens + scales.counter.per_message)
    return pieces


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_tools(tools: Sequence[Json], *, nested: bool) -> None:
    """Raise where a tool is none, such as one in the shape of another API."""
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        kind = _required(tool, "type", where)
        if nested and kind != "function":
            words = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
            raise bad(words, param=f"{where}.type", code="invalid_value")
        if nested:
            _check_function(_required(tool, "function", where), f"{where}.function")
        elif kind == "function":
            _check_function(tool, where)


def _check_function(function: Json, where: str) -> None:
    name = _required(function, "name", where)
    if not NAME.fullmatch(name):
        raise bad(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            param=f"{where}.name",
            code="invalid_value",
        )
    kind = (function.get("parameters") or {"type": "object"}).get("type")
    if kind != "object":
        raise bad(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got "
            f"'type: \"{kind}\"'.",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )


def _required(given: Json, name: str, where: str) -> Any:
    if given.get(name) is None:
        param = f"{where}.{name}"
        words = f"Missing required parameter: '{param}'."
        raise bad(words, param=param, code="missing_required_parameter")
    return given[name]
