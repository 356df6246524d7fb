"""The offline model: no network, no weights, the same answers every time.

It plays a script, or the assistant's side of a recorded conversation, and answers if no model is configured. Ids and
token counts depend only on the request, so two runs agree to the byte. For requests that other parts of the engine make
(a summary, notes), functions can answer, by the source of the call; without one, the script answers those too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw

from sevenfold import profiles
from sevenfold.errors import InputError, RequestRefused
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers.provider import Provider, Put
from sevenfold.record import blocks, weight
from sevenfold.record.blocks import Block, encode_json
from sevenfold.record.log import Answer
from sevenfold.record.usage import OFFLINE
from sevenfold.record.weight import Estimator
from sevenfold.wire.reader import pieces_of

NAME = "offline model: no network, no weights"

Json = Mapping[str, Any]
Said = str | Sequence[Json | Block]
"""A text, or blocks: either JSON values, or recorded blocks, whose bytes are kept."""
Job = Callable[[Json], Said]
"""A function that answers a request, which it gets decoded."""
Signer = Callable[[Json, Sequence[Block], Block], str]
"""Signs a thinking block, given the request, the blocks before it in the answer, and the block itself."""


class _Request(msgspec.Struct):
    messages: list[_Message]
    model: str = ""
    system: Raw = Raw(b"")
    tools: Raw = Raw(b"")


class _Message(msgspec.Struct):
    content: str | list[Raw]


_request = msgspec.json.Decoder(_Request)
_TAGS = re.compile(r"</?[a-z-]+>")
_TAGGED = re.compile(r"\s*<([a-z-]+)>.*</\1>\s*\Z", re.DOTALL)


class Script:
    """The offline model's answers: steps in order, and jobs by the source of a call."""

    def __init__(
        self,
        steps: Iterable[Said | Job],
        *,
        jobs: Mapping[str, Job] | None = None,
        sign: Signer | None = None,
    ) -> None:
        self._steps = list(steps)
        self._jobs = dict(jobs or {})
        self._sign = sign
        self.played = 0

    @property
    def unused(self) -> int:
        """How many steps have not been played yet."""
        return len(self._steps) - self.played

    def check_finished(self) -> None:
        """Raise `InputError` if steps are left."""
        if self.unused:
            raise InputError(f"{self.unused} of the script's {len(self._steps)} steps were never asked for")

    def answer(self, call: Call) -> Reply:
        """The answer to a call."""
        request_fields = msgspec.json.decode(call.body)
        step = self._said(call, request_fields)
        seed = sha256(call.body).hexdigest()[:24]
        answer: list[Block] = []
        for block in [blocks.text(step)] if isinstance(step, str) else step:
            answer.append(
                self._signed(request_fields, answer, _named(block, f"toolu_{seed}_{len(answer)}"))
            )
        kinds = {block.kind for block in answer}
        request = _request.decode(call.body)
        stop = next((kind for kind in ("tool_use", "compaction") if kind in kinds), "end_turn")
        return Reply(Answer(f"msg_{seed}", request.model, tuple(answer), _usage(request, answer), stop))

    def _said(self, call: Call, request_fields: Json) -> Said:
        kind = call.source.partition(":")[0]
        if kind in self._jobs:
            return self._jobs[kind](request_fields)
        if not self.unused:
            raise RequestRefused(
                f"The offline model's script has {len(self._steps)} steps, and this is request "
                f"{self.played + 1} ({call.source}): add a step, or look for the unexpected extra request"
            )
        step = self._steps[self.played]
        self.played += 1
        return step(request_fields) if callable(step) else step

    def _signed(self, request_fields: Json, answer: Sequence[Block], block: Block) -> Block:
        if self._sign is None or block.kind not in blocks.THINKING:
            return block
        fields = msgspec.json.decode(block.raw, type=dict[str, Raw])
        field = "signature" if block.kind == "thinking" else "data"
        fields[field] = Raw(encode_json(self._sign(request_fields, answer, block)))
        return blocks.read(encode_json(fields))


class OfflineClient:
    """A client that plays a script."""

    name = NAME

    def __init__(self, script: Script) -> None:
        self.script = script

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """The script's next answer."""
        reply = self.script.answer(call)
        if watch is not None:
            for block in reply.answer.blocks:
                for piece in pieces_of(block):
                    watch(piece)
        return reply

    def close(self) -> None:
        """Do nothing: there are no connections."""


class AsyncOfflineClient:
    """Like `OfflineClient`, for asyncio."""

    name = NAME

    def __init__(self, script: Script) -> None:
        self.script = script
        self._player = OfflineClient(script)

    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """The script's next answer."""
        return self._player.ask(call, watch)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class Offline(Provider):
    """The provider used if no other is configured; ``jobs`` answer the engine's own requests, by the call's source."""

    name = "offline"

    def __init__(self, jobs: Mapping[str, Job] | None = None) -> None:
        self._jobs = dict(jobs or {})

    def script(self) -> Script:
        """The default script: the model says what it is, and repeats the user's message or the agent's task."""
        return Script(
            [], jobs={"main": _repeat_message, "sdk": _repeat_message, "agent": _repeat_task, **self._jobs}
        )

    def client(self, given: Any = None, wire: str | None = None) -> OfflineClient:
        """A client that plays the script."""
        return OfflineClient(self.script())

    def async_client(self, given: Any = None, wire: str | None = None) -> AsyncOfflineClient:
        """Like `client`, for asyncio."""
        return AsyncOfflineClient(self.script())

    def put(self, call: Call, *, stream: bool = False) -> Put:
        """The request unchanged."""
        return Put("", call.body)


def _repeat_task(request: Json) -> str:
    """The answer of an agent: its task, as the program gave it."""
    return f"({NAME}) The task was: {_TAGS.sub('', _user_texts(request)[-1]).strip()}"


def _user_texts(request: Json) -> list[str]:
    texts = []
    for message in request["messages"]:
        if message["role"] == "user":
            texts += [block["text"] for block in message["content"] if block.get("type") == "text"]
    return texts


def _repeat_message(request: Json) -> str:
    texts = _user_texts(request)
    # Text from a program is in a tag, next to the user's words.
    texts = [text for text in texts if not _TAGGED.match(text)] or texts
    return f"({NAME}) You said: {texts[-1] if texts else 'nothing in words'}"


def _named(block: Json | Block, name: str) -> Block:
    """The block itself, or JSON as a block, with an id for a tool call and a signature for thinking if missing."""
    if isinstance(block, Block):
        return block
    if block["type"] == "tool_use" and "id" not in block:
        block = {"type": "tool_use", "id": name, **block}
    if block["type"] == "thinking" and "signature" not in block:
        block = {**block, "signature": ""}
    return blocks.read(encode_json(block))


def _usage(request: _Request, answer: Sequence[Block]) -> Raw:
    """Estimated counts: there is no tokenizer here, and nothing is cached."""
    estimator = Estimator.of(profiles.find(request.model).tokenizer)
    shown = weight.opening(bytes(request.system), bytes(request.tools))
    for message in request.messages:
        content = message.content
        held = [blocks.text(content)] if isinstance(content, str) else map(_read, content)
        shown += weight.total(held)
    counts = {
        "input_tokens": max(1, round(estimator.tokens(shown))),
        "output_tokens": max(1, round(estimator.tokens(weight.total(answer)))),
        "service_tier": OFFLINE,
    }
    return Raw(encode_json(counts))


def _read(raw: Raw) -> Block:
    return blocks.read(bytes(raw))
