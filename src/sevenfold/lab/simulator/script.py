"""Scripts: what the model says, request by request, from a TOML or JSON file."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from sevenfold.errors import UserError
from sevenfold.lab.simulator.brains import (
    EchoBrain,
    Json,
    ModelPrompt,
    ModelReply,
    ReportedUsage,
    ScriptedBrain,
    text,
    thinking,
    tool_use,
)
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.faults import Fault, refusal

KINDS = ("rate_limited", "overloaded", "server_error", "compaction_unavailable")


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call."""

    name: str
    input: dict[str, Any] | str = {}
    """A text for a custom tool."""


class ScriptedError(Struct, frozen=True, forbid_unknown_fields=True):
    """A refusal in place of an answer."""

    status: int
    message: str
    type: str = "api_error"
    code: str | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None

    def made(self) -> ApiError:
        """The refusal."""
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
    """A refusal in place of the answer: its name, or its parts."""
    stop_reason: str | None = None
    usage: ReportedUsage | None = None
    """Tokens to report in place of the simulator's own count."""

    def refusal(self) -> ApiError | None:
        """The refusal that the step asks for."""
        if isinstance(self.error, ScriptedError):
            return self.error.made()
        return refusal(Fault(self.error, retry_after=1.0)) if self.error else None  # type: ignore[arg-type]

    def blocks(self) -> list[Json]:
        """The blocks of the answer."""
        said = [thinking(self.thinking)] if self.thinking else []
        said += [text(self.text)] if self.text else []
        return [*said, *(tool_use(one.name, _input(one.input)) for one in self.calls)]


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script."""

    step: list[ScriptedStep]
    repeat: bool = False
    """Whether it begins again at its end; if not, a request too many is an error."""
    only_with_tools: bool = False
    """Whether requests that offer no tools (clients ask for titles and summaries so) are echoed and use up no step."""


class FileBrain(ScriptedBrain):
    """Plays the steps of a script, one for each request."""

    remedy = "set repeat = true"

    def __init__(self, script: Script, sleep: Callable[[float], None] = time.sleep) -> None:
        steps = [partial(_play, step, sleep) for step in script.step]
        again = cycle(steps)
        super().__init__((lambda prompt: next(again)(prompt)) if script.repeat else steps)
        self._only_with_tools = script.only_with_tools

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """The next step's answer; raises its refusal, or `ScriptExhausted` at the end."""
        if self._only_with_tools and not prompt.tools:
            return EchoBrain().reply(prompt)
        return super().reply(prompt)


def _play(step: ScriptedStep, sleep: Callable[[float], None], prompt: ModelPrompt) -> ModelReply:
    sleep(step.delay)
    if (refused := step.refusal()) is not None:
        raise refused
    return ModelReply(step.blocks(), step.stop_reason, step.usage)


def load_script(path: Path) -> Script:
    """The script in a file; raises `UserError` if it cannot be read or is not a script."""
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


def _input(given: dict[str, Any] | str) -> dict[str, Any]:
    return {"input": given} if isinstance(given, str) else given
