"""Brains: stand-ins for the model, which decide what the simulated model says.

A brain gets the prompt as the model would see it and returns content blocks; the simulator adds ids, signatures, token
counts and the wire format. The same brain answers on all three APIs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, repeat
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from sevenfold.errors import UserError
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.faults import Fault, refusal

Json = Mapping[str, Any]


class ModelPrompt(Struct, frozen=True):
    """The prompt as the model sees it."""

    model: str
    system: str
    tools: Sequence[Json]
    messages: Sequence[Json]
    """Messages with content blocks, after everything the server edited."""
    max_tokens: int
    body: Json
    """The request body, for brains that need more."""

    @property
    def last_text(self) -> str:
        """The user's last text block; empty if there is none."""
        for message in reversed(self.messages):
            for block in reversed(message["content"]):
                if message["role"] == "user" and block.get("type") == "text":
                    return str(block["text"])
        return ""


class ReportedUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens to report in place of the simulator's own count; None keeps it."""

    input: int | None = None
    """Tokens of the prompt that were neither read from the cache nor written to it."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


class ModelReply(Struct, frozen=True):
    """The model's reply: its blocks, and the stop reason if the blocks do not imply it."""

    blocks: Sequence[Json]
    stop_reason: str | None = None
    usage: ReportedUsage | None = None


class Brain(Protocol):
    """Anything that can answer a prompt."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """The model's answer to a prompt."""


Said = str | Sequence[Json] | ModelReply
Step = Said | Callable[[ModelPrompt], Said]


class ScriptExhausted(Exception):
    """The script has no step left for another request."""


class ScriptUnfinished(Exception):
    """The script has steps left."""


class EchoBrain:
    """Repeats the user's words: enough to try a client."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Repeat the user's last words."""
        return ModelReply([text(f"You said: {prompt.last_text or 'nothing in words'}")])


class ScriptedBrain:
    """Plays steps in order: a text, blocks, a whole reply, or a function from prompt to one of these."""

    remedy = "look for the unexpected extra request"
    """What the error of an exhausted script suggests besides adding a step."""

    def __init__(self, steps: Iterable[Step] | Callable[[ModelPrompt], Said]) -> None:
        listed = [] if callable(steps) else list(steps)
        self._steps: Iterator[Step] = repeat(steps) if callable(steps) else iter(listed)
        self._count = None if callable(steps) else len(listed)
        self.played = 0

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Play the next step; raises `ScriptExhausted` if none is left."""
        if self.played == self._count:
            raise ScriptExhausted(
                f"the script has {self._count} steps, and this is request {self.played + 1}; "
                f"add a step, or {self.remedy}"
            )
        step = next(self._steps)
        self.played += 1
        return as_reply(step(prompt) if callable(step) else step)

    def check_finished(self) -> None:
        """Raise `ScriptUnfinished` if steps are left."""
        if self._count is not None and (steps_left := self._count - self.played):
            raise ScriptUnfinished(f"{steps_left} of {self._count} steps were never asked for")


class RecordedBrain(ScriptedBrain):
    """Plays the assistant side of a recorded conversation; the simulator signs its thinking again."""

    def __init__(self, answers: Iterable[Sequence[Json]]) -> None:
        super().__init__(
            [{key: block[key] for key in block if key != "signature"} for block in blocks]
            for blocks in answers
        )


def as_reply(answer: Said) -> ModelReply:
    """Convert a step's text, blocks or reply to a reply."""
    if isinstance(answer, ModelReply):
        return answer
    return ModelReply([text(answer)]) if isinstance(answer, str) else ModelReply(answer)


def text(content: str) -> Json:
    """A text block."""
    return {"type": "text", "text": content}


def thinking(content: str) -> Json:
    """A thinking block; the simulator signs it."""
    return {"type": "thinking", "thinking": content}


def tool_use(name: str, arguments: Mapping[str, Any], call_id: str | None = None) -> Json:
    """A tool call; without an id, the simulator gives it one."""
    block: dict[str, Any] = {"type": "tool_use", "name": name, "input": dict(arguments)}
    return block if call_id is None else {**block, "id": call_id}


def server_tool_use(name: str, given: Mapping[str, Any]) -> Json:
    """A call of one of the server's own tools, such as its search for tools; the simulator gives it an id."""
    return {"type": "server_tool_use", "name": name, "input": dict(given)}


class SummaryRequest(Struct, frozen=True):
    """A conversation to summarise."""

    model: str
    system: str
    messages: Sequence[Json]
    instructions: str | None


class NoSummary(Struct, frozen=True):
    """Returned instead of a summary; the stop reason says why."""

    stop_reason: str = "end_turn"


Summarise = Callable[[SummaryRequest], str | NoSummary]


def simulated_summary(request: SummaryRequest) -> str:
    """A summary made without a model: the number of messages, and the beginnings of the user's last requests."""
    beginnings: list[str] = []
    for message in request.messages:
        if message["role"] == "user":
            texts = [str(block["text"]) for block in message["content"] if block.get("type") == "text"]
            beginnings += [" ".join(content.split()[:40]) for content in texts]
    lines = [f"[Simulated summary of {len(request.messages)} messages, made without a model]"]
    lines += [f"- asked: {beginning}" for beginning in beginnings[-30:]]
    return "\n".join(lines)


# -- scripts in files --------------------------------------------------------------------------

KINDS = ("rate_limited", "overloaded", "server_error", "compaction_unavailable")


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call."""

    name: str
    input: dict[str, Any] | str = {}
    """A text for a custom tool."""


class ScriptedError(Struct, frozen=True, forbid_unknown_fields=True):
    """An error response in place of an answer."""

    status: int
    message: str
    type: str = "api_error"
    code: str | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None

    def to_api_error(self) -> ApiError:
        """Build the error response."""
        headers = {} if self.retry_after is None else {"retry-after": f"{self.retry_after:g}"}
        return ApiError(self.status, self.type, self.message, code=self.code, headers=headers)


class ScriptedStep(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to one request."""

    text: str = ""
    thinking: str = ""
    calls: list[ScriptedCall] = []
    delay: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds before the answer begins."""
    error: str | ScriptedError | None = None
    """An error in place of the answer: the name of a fault, or the parts of an error response."""
    stop_reason: str | None = None
    usage: ReportedUsage | None = None
    """Tokens to report in place of the simulator's own count."""

    def refusal(self) -> ApiError | None:
        """The error response that the step asks for, if any."""
        if isinstance(self.error, ScriptedError):
            return self.error.to_api_error()
        return refusal(Fault(self.error, retry_after=1.0)) if self.error else None  # type: ignore[arg-type]

    def blocks(self) -> list[Json]:
        """The blocks of the answer."""
        blocks = [thinking(self.thinking)] if self.thinking else []
        blocks += [text(self.text)] if self.text else []
        return [*blocks, *(tool_use(call.name, _input(call.input)) for call in self.calls)]


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script."""

    step: list[ScriptedStep]
    repeat: bool = False
    """Whether it restarts at its end; if not, a request too many is an error."""
    only_with_tools: bool = False
    """Whether to echo requests without tools (such as a client's requests for titles) without using up a step."""


class FileBrain(ScriptedBrain):
    """Plays the steps of a `Script`, one for each request."""

    remedy = "set repeat = true"

    def __init__(self, script: Script, sleep: Callable[[float], None] = time.sleep) -> None:
        steps = [partial(_play, step, sleep) for step in script.step]
        again = cycle(steps)
        super().__init__((lambda prompt: next(again)(prompt)) if script.repeat else steps)
        self._only_with_tools = script.only_with_tools

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Play the next step; raises its error, or `ScriptExhausted` at the end."""
        if self._only_with_tools and not prompt.tools:
            return EchoBrain().reply(prompt)
        return super().reply(prompt)


def _play(step: ScriptedStep, sleep: Callable[[float], None], prompt: ModelPrompt) -> ModelReply:
    sleep(step.delay)
    if (refused := step.refusal()) is not None:
        raise refused
    return ModelReply(step.blocks(), step.stop_reason, step.usage)


def load_script(path: Path) -> Script:
    """Load the script in a file; raises `UserError` if it cannot be read or is not a script."""
    try:
        raw = path.read_bytes()
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        script = decode(raw, type=Script)
    except OSError as error:
        raise UserError(f"cannot read the script {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a script: {error}; see docs/simulator.md") from error
    if not script.step:
        raise UserError(f"{path} is not a script: it has no [[step]]; see docs/simulator.md")
    for number, step in enumerate(script.step, 1):
        if isinstance(step.error, str) and step.error not in KINDS:
            raise UserError(
                f"{path}: step {number} has the error {step.error!r}; choose one of {', '.join(KINDS)}, "
                "or give status and message"
            )
        if step.error is None and not step.blocks():
            raise UserError(f"{path}: step {number} says nothing; give it text, calls or error")
    return script


def _input(arguments: dict[str, Any] | str) -> dict[str, Any]:
    return {"input": arguments} if isinstance(arguments, str) else arguments
