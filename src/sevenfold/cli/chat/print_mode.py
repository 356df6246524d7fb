"""A single run without a screen: `sevenfold chat -p "…"`, for scripts and pipes.

There is no user to ask for permission, so whatever the mode and rules do not allow is refused. The model hears that,
and so does the caller, by the exit code and by ``permission_denials``.
Standard output carries only the answer, or JSON; everything else goes to the error stream.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec
from msgspec import Struct

from sevenfold.agent.events import (
    AgentEvent,
    Ended,
    Finished,
    Happened,
    Mentioned,
    ToolBegan,
    ToolEnded,
    ToolProgress,
)
from sevenfold.agent.tools.output import Denied
from sevenfold.cli.chat.reports import Spending, event_line
from sevenfold.cli.chat.stream_lines import SUBTYPES, MessageLines, init_line, usage_fields
from sevenfold.cli.text import clean, complain, one_line
from sevenfold.errors import ModelError, Refused, UserError
from sevenfold.events import Answered
from sevenfold.ports import Piece

if TYPE_CHECKING:
    from sevenfold.agent.agent import Agent

Format = Literal["text", "json", "stream-json"]
DONE, NOT_DONE, NOT_PERMITTED, INTERRUPTED = 0, 1, 3, 130
MOST_PIPED = 10_000_000
"""Characters of standard input that go with a prompt."""
PATIENCE = 3.0
"""Seconds of waiting for standard input after which it says so."""
WAITING = "waiting for standard input to end (if there is none: < /dev/null)"


class PermissionDenial(Struct, frozen=True):
    """A tool call that was not permitted."""

    tool: str
    id: str
    input: Any
    reason: str
    # The same under the names that scripts for Claude Code read.
    tool_name: str = ""
    tool_use_id: str = ""
    tool_input: Any = None


class PrintResult(Struct, frozen=True, kw_only=True):
    """The result of a run: the object that ``json`` prints, and the last line of ``stream-json``."""

    type: Literal["result"] = "result"
    end: str
    """done, or why it stopped early: interrupted, max_turns, budget, refused, blocked, cut or error."""
    text: str = ""
    """The last answer."""
    error: str = ""
    session: str
    model: str
    offline: bool
    turns: int = 0
    prompt_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """The cost of the run; null if a price is unknown."""
    permission_denials: list[PermissionDenial] = []
    # The same under the names that scripts for Claude Code read.
    subtype: str = "success"
    is_error: bool = False
    result: str = ""
    session_id: str = ""
    num_turns: int = 0
    duration_ms: int = 0
    total_cost_usd: float | None = None
    usage: dict[str, int] = {}


def read_prompt(given: str, stdin: TextIO | None) -> str:
    """The prompt with what is piped into the command; raises if there is nothing, too much, or something unreadable."""
    piped = _piped(stdin)
    if given in ("", "-"):
        given, piped = piped, ""
    if not given.strip():
        raise Refused("the prompt is empty; give it with -p, or pipe it in")
    if not piped.strip():
        return given
    # Fenced, so that an @ in it is not taken for a file to attach.
    fence = max(re.findall(r"`{3,}", piped), default="``") + "`"
    return f"{given}\n\n{fence}\n{piped.rstrip()}\n{fence}"


def _piped(stdin: TextIO | None) -> str:
    if stdin is None or stdin.isatty():
        return ""
    # A pipe that is never closed would look like a program that hangs.
    waiting = threading.Timer(PATIENCE, complain, [WAITING])
    waiting.daemon = True
    waiting.start()
    try:
        text = stdin.read(MOST_PIPED + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read standard input: {error}") from error
    finally:
        waiting.cancel()
    if len(text) > MOST_PIPED:
        raise Refused(
            f"standard input has more than {MOST_PIPED:,} characters; mention a file instead: @PATH"
        )
    return text


def run(agent: Agent, prompt: str, how: Format, *, session: str, offline: bool, out: TextIO) -> int:
    """Run once and print; returns the exit code."""
    spent, finished, error = Spending(), Finished("interrupted"), ""
    denials: list[PermissionDenial] = []
    show = _printer(how, out, agent, session)
    began = time.monotonic()
    try:
        for event in agent.stream(prompt):
            if isinstance(event, Happened):
                spent = spent.add(event.event)
            if isinstance(event, ToolEnded):
                reasons = [fact.reason for fact in event.output.facts if isinstance(fact, Denied)]
                call = event.call
                named = (call.name, call.id, call.input)
                denials += [PermissionDenial(*named, one, *named) for one in reasons]
            if isinstance(event, Ended):
                finished = event.finished
            show(event)
    except ModelError as wrong:
        error = str(wrong)
    except KeyboardInterrupt:
        error = "interrupted"
    end = "error" if error and error != "interrupted" else finished.end
    usd = 0.0 if offline else spent.usd
    result = PrintResult(
        end=end,
        text=finished.text,
        error=error or finished.detail,
        session=session,
        model=agent.model,
        offline=offline,
        turns=finished.turns,
        prompt_tokens=spent.prompt,
        cache_read_tokens=spent.read,
        output_tokens=spent.output,
        usd=usd,
        permission_denials=denials,
        subtype=SUBTYPES.get(end, "error_during_execution"),
        is_error=end != "done",
        result=finished.text or error or finished.detail,
        session_id=session,
        num_turns=finished.turns,
        duration_ms=round(1000 * (time.monotonic() - began)),
        total_cost_usd=usd,
        usage=usage_fields(spent.uncached, spent.written, spent.read, spent.output),
    )
    _print(result, how, out)
    if error == "interrupted":
        return INTERRUPTED
    if result.end != "done":
        return NOT_DONE
    return NOT_PERMITTED if denials else DONE


def _print(result: PrintResult, how: Format, out: TextIO) -> None:
    if how == "text":
        if result.text:
            _write(clean(result.text), out)
        if result.end != "done":
            complain(f"not done ({result.end}): {result.error or 'see above'}")
        for one in result.permission_denials:
            what = one_line(f"{one.tool} {msgspec.json.encode(one.input).decode()}", 200)
            complain(f"not permitted: {what}: {one_line(one.reason, 400)}")
    else:
        _write(msgspec.json.encode(result).decode(), out)


def _write(line: str, out: TextIO) -> None:
    try:
        out.write(f"{line}\n")
        out.flush()
    except BrokenPipeError:
        # The reader closed its end; `main` handles that.
        raise
    except OSError as error:
        raise UserError(f"cannot write the answer to standard output: {error.strerror}") from error


def _printer(how: Format, out: TextIO, agent: Agent, session: str) -> Callable[[AgentEvent], None]:
    """The function that prints each event as it happens."""

    messages = MessageLines(session)

    def stream(event: AgentEvent) -> None:
        for shown in (as_json(event), *messages.lines(event)):
            if shown is not None:
                _write(msgspec.json.encode(shown).decode(), out)

    def warn(event: AgentEvent) -> None:
        if isinstance(event, Mentioned) and event.output.is_error:
            complain(f"@{clean(event.path)} was not read: {clean(event.output.text)}")
        line = event_line(event.event) if isinstance(event, Happened) else None
        if line is not None and line.level in ("warning", "error"):
            complain(f"{line.level}: {clean(line.line)}")

    if how == "stream-json":
        _write(msgspec.json.encode(init_line(agent, session)).decode(), out)
        return stream
    return warn


def as_json(event: AgentEvent) -> dict[str, Any] | None:
    """An event as a line of ``stream-json``; None if it has none."""
    match event:
        case Piece(kind="text" | "thinking" as kind, words=words):
            return {"type": kind, "text": words}
        case ToolBegan(call=call):
            return {"type": "tool_began", "id": call.id, "tool": call.name, "input": call.input}
        case ToolProgress(call=call, text=text):
            return {"type": "tool_progress", "id": call.id, "text": text}
        case ToolEnded(call=call, output=output, seconds=seconds):
            ended = {"type": "tool_ended", "id": call.id, "tool": call.name, "is_error": output.is_error}
            return {**ended, "text": output.text, "seconds": round(seconds, 3)}
        case Mentioned(path=path, output=output):
            return {"type": "mentioned", "path": path, "is_error": output.is_error, "text": output.text}
        case Happened(event=Answered() as answered):
            return {"type": "answered", **msgspec.to_builtins(answered)}
        case Happened(event=happened):
            line = event_line(happened)
            if line is None:
                return None
            return {"type": "told", "level": line.level, "text": line.line, **msgspec.to_builtins(happened)}
        case _:
            return None
