"""A single run without a screen: `sevenfold chat -p "…"`, for scripts and pipes.

There is no user to ask for permission, so every call that the mode and rules do not allow is denied. The model gets
the denial as a tool result; the caller sees it in the exit code and in ``permission_denials``.
Standard output carries only the answer, or JSON; everything else goes to the error stream.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from shutil import get_terminal_size
from typing import Any, Literal, TextIO
from uuid import uuid4

import msgspec
from msgspec import Struct

from sevenfold.agent import agent_events as events
from sevenfold.agent.agent import Agent
from sevenfold.agent.agent_events import AgentEvent
from sevenfold.agent.tools.output import Denied
from sevenfold.cli.chat.reports import Spending, event_line, wait_line
from sevenfold.cli.text import clean, complain, one_line
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import ModelError, Refused, UserError
from sevenfold.events import Answered, Failed, Waiting
from sevenfold.ports import Piece
from sevenfold.record.authorship import PASTED, UserPrompt
from sevenfold.record.decoding import NOT_JSON

Format = Literal["text", "json", "stream-json"]
DONE = 0
NOT_DONE = 1
NOT_PERMITTED = 3
INTERRUPTED = 130
RUN_SOURCES = ("main", "sdk", "compact")
"""The query sources of a run that the caller waits for."""
MOST_PIPED = 10_000_000
"""Characters of standard input that can be added to a prompt."""
PATIENCE = 3.0
"""Seconds of waiting for standard input before a message says so."""
WAITING = "waiting for standard input to end (if there is none: < /dev/null)"


def read_prompt(argument: str, stdin: TextIO | None) -> UserPrompt:
    """The prompt with any piped input, which the user did not type.

    Raises `UserError` if it is empty, too long, or cannot be read.
    """
    piped = _piped(stdin)
    if argument in ("", "-"):
        if piped.strip():
            return UserPrompt(piped, "pasted")
        argument = ""
    if not argument.strip():
        raise Refused("the prompt is empty; give it with -p, or pipe it in")
    if not piped.strip():
        return UserPrompt(argument)
    # Fenced, so that an @ in the piped text is not taken for a file to attach.
    fence = max(re.findall(r"`{3,}", piped), default="``") + "`"
    return UserPrompt(
        f"{argument}\n\n{fence}\n{piped.rstrip()}\n{fence}", "pasted", f"{argument}\n\n{PASTED}"
    )


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


def run(
    agent: Agent,
    prompt: str | UserPrompt,
    how: Format,
    *,
    session: str,
    offline: bool,
    out: TextIO,
    verbose: bool = False,
) -> int:
    """Run the agent on one prompt and print the result; returns the exit code.

    With ``verbose``, a run in the format ``text`` tells each tool call on the error stream.
    """
    spent = Spending()
    finished = events.Finished("interrupted")
    error = ""
    denials: list[dict[str, Any]] = []
    messages = MessageLines(session) if how == "stream-json" else None
    waits = WaitLines(sys.stderr)
    if messages is not None:
        _write_json(init_line(agent, session), out)
    began = time.monotonic()
    try:
        for event in agent.stream(prompt):
            waits.show(event)
            if isinstance(event, events.Happened):
                spent = spent.add(event.event)
            if isinstance(event, events.ToolEnded):
                facts = event.output.facts
                denials += [_denial(event.call, fact.reason) for fact in facts if isinstance(fact, Denied)]
            if isinstance(event, events.Ended):
                finished = event.finished
            _show(event, messages, out)
            if verbose and messages is None:
                _tell_call(event)
    except ModelError as wrong:
        error = str(wrong)
    except KeyboardInterrupt:
        error = "interrupted"
    finally:
        waits.end()
    end = "error" if error and error != "interrupted" else finished.end
    result: dict[str, Any] = {
        **_figures(spent, 0.0 if offline else spent.usd),
        **_outcome(finished, end, error),
        "session": session,
        "session_id": session,
        "model": agent.model,
        "offline": offline,
        "permission_denials": denials,
        "duration_ms": round(1000 * (time.monotonic() - began)),
    }
    if how == "text":
        _print(result, out)
    else:
        _write_json(result, out)
    return _exit_code(end, error, denials)


def _exit_code(end: str, error: str, denials: list[dict[str, Any]]) -> int:
    if error == "interrupted":
        return INTERRUPTED
    if end != "done":
        return NOT_DONE
    return NOT_PERMITTED if denials else DONE


def _outcome(finished: events.Finished, end: str, error: str) -> dict[str, Any]:
    """How a run ended, under our names and those that scripts for Claude Code expect."""
    return {
        "type": "result",
        "end": end,  # done, or why it stopped early: interrupted, max_turns, budget, refused, blocked, cut or error
        "text": finished.text,  # the last answer
        "error": error or finished.detail,
        "turns": finished.turns,
        "subtype": SUBTYPES.get(end, "error_during_execution"),
        "is_error": end != "done",
        "result": finished.text or error or finished.detail,
        "num_turns": finished.turns,
    }


def _figures(spent: Spending, usd: float | None) -> dict[str, Any]:
    """What a run used, under our names and those that scripts for Claude Code expect."""
    return {
        "prompt_tokens": spent.prompt,
        "cache_read_tokens": spent.cache_read_tokens,
        "output_tokens": spent.output_tokens,
        "usd": usd,  # the cost of the run; null if a price is unknown
        "total_cost_usd": usd,
        "usage": usage_fields(spent),
    }


def _denial(call: ToolCall, reason: str) -> dict[str, Any]:
    """A denied tool call, with each field under two names, because scripts for Claude Code expect different ones."""
    ours = {"tool": call.name, "id": call.id, "input": call.input, "reason": reason}
    return {**ours, "tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input}


def _print(result: Mapping[str, Any], out: TextIO) -> None:
    if result["text"]:
        _write(clean(result["text"]), out)
    if result["end"] != "done":
        complain(f"not done ({result['end']}): {result['error'] or 'see above'}")
    for denial in result["permission_denials"]:
        call = one_line(f"{denial['tool']} {msgspec.json.encode(denial['input']).decode()}", 200)
        complain(f"not permitted: {call}: {one_line(denial['reason'], 400)}")


def _write_json(line: Mapping[str, Any], out: TextIO) -> None:
    _write(msgspec.json.encode(line).decode(), out)


def _write(line: str, out: TextIO) -> None:
    try:
        out.write(f"{line}\n")
        out.flush()
    except BrokenPipeError:
        # The reader closed its end; `main` handles that.
        raise
    except OSError as error:
        raise UserError(f"cannot write the answer to standard output: {error.strerror}") from error


def _show(event: AgentEvent, messages: MessageLines | None, out: TextIO) -> None:
    """Print an event: as JSON lines with ``messages``, else only warnings and errors, to the error stream."""
    if messages is not None:
        for each in filter(None, (as_json(event), *messages.lines(event))):
            _write_json(each, out)
        return
    if isinstance(event, events.Mentioned) and event.output.is_error:
        complain(f"@{clean(event.path)} was not read: {clean(event.output.text)}")
    line = event_line(event.event) if isinstance(event, events.Happened) else None
    if line is not None and line.level in ("warning", "error"):
        complain(f"{line.level}: {clean(line.line)}")


def _tell_call(event: AgentEvent) -> None:
    """Tell a finished tool call in a line on the error stream."""
    if isinstance(event, events.ToolEnded):
        given = msgspec.json.encode(event.call.input).decode()
        end = "failed" if event.output.is_error else "done"
        complain(f"{event.call.name} {one_line(given, 160)}: {end} in {event.seconds:.1f} s")


def as_json(event: AgentEvent) -> dict[str, Any] | None:
    """An event as a line of ``stream-json``; None if it is not printed."""
    match event:
        case Piece(kind="text" | "thinking" as kind, words=words):
            return {"type": kind, "text": words}
        case events.ToolBegan(call=call):
            return {"type": "tool_began", "id": call.id, "tool": call.name, "input": call.input}
        case events.ToolProgress(call=call, text=text):
            return {"type": "tool_progress", "id": call.id, "text": text}
        case events.ToolEnded(call=call, output=output, seconds=seconds):
            ended = {"type": "tool_ended", "id": call.id, "tool": call.name, "is_error": output.is_error}
            return {**ended, "text": output.text, "seconds": round(seconds, 3)}
        case events.Mentioned(path=path, output=output):
            return {"type": "mentioned", "path": path, "is_error": output.is_error, "text": output.text}
        case events.Happened(event=Answered() as answered):
            return {"type": "answered", **msgspec.to_builtins(answered)}
        case events.Happened(event=Waiting() as waiting):
            return {
                "type": "waiting",
                "text": wait_line(waiting, waiting.seconds),
                **msgspec.to_builtins(waiting),
            }
        case events.Happened(event=happened):
            line = event_line(happened)
            if line is None:
                return None
            return {"type": "told", "level": line.level, "text": line.line, **msgspec.to_builtins(happened)}
        case _:
            return None


class WaitLines:
    """The pauses of a run on the error stream: one line that counts down on a terminal, else a line for each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._counts = stream.isatty()
        self._over = threading.Event()
        self._counting: threading.Thread | None = None

    def show(self, event: AgentEvent) -> None:
        """Show a pause of the run itself; any other event ends the one that is shown."""
        if not isinstance(event, events.Happened) or event.event.source not in RUN_SOURCES:
            return
        self.end()
        wait = event.event
        if not isinstance(wait, Waiting):
            return
        if not self._counts:
            complain(wait_line(wait, wait.seconds))
            return
        self._over = threading.Event()
        self._counting = threading.Thread(target=self._count, args=(wait, self._over), daemon=True)
        self._counting.start()

    def end(self) -> None:
        """Remove the line."""
        if self._counting is None:
            return
        self._over.set()
        self._counting.join()
        self._counting = None
        self._stream.write("\r\x1b[K")
        self._stream.flush()

    def _count(self, wait: Waiting, over: threading.Event) -> None:
        until = time.monotonic() + wait.seconds
        while True:
            line = wait_line(wait, until - time.monotonic())
            room = get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{line[:room]}")
            self._stream.flush()
            if over.wait(1.0):
                return


# -- formats that scripts for Claude Code use ---------------------------------------------------

SUBTYPES = {"done": "success", "max_turns": "error_max_turns", "budget": "error_max_budget_usd"}
"""Claude Code's names for the ends of a run; any other end is ``error_during_execution``."""


def init_line(agent: Agent, session: str) -> dict[str, Any]:
    """The first line of ``stream-json``: the session, model, tools and mode the run begins with."""
    return {
        "type": "system",
        "subtype": "init",
        "session_id": session,
        "uuid": str(uuid4()),
        "cwd": str(agent.assembly.store.cwd),
        "model": agent.model,
        "tools": [tool.name for tool in agent.assembly.box],
        "mcp_servers": [],
        "permissionMode": agent.grants.mode,
    }


class MessageLines:
    """The message lines of a run in Claude Code's format: one line per block of an answer, or per tool result."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._blocks: list[tuple[str, str]] = []
        """The kind and text of each text or thinking block of the answer that is arriving."""
        self._answered: Answered | None = None

    def lines(self, event: AgentEvent) -> Iterator[dict[str, Any]]:
        """The lines an event completes."""
        match event:
            case Piece(kind=("text" | "thinking") as kind, words=words):
                if self._blocks and self._blocks[-1][0] == kind:
                    words = self._blocks.pop()[1] + words
                self._blocks.append((kind, words))
            case events.Happened(event=Failed(source="main")):
                self._blocks = []  # a retry gets the whole answer again
            case events.Happened(event=Answered(source="main") as answered):
                self._answered = answered
                for name, whole in self._blocks:
                    yield self._answer({"type": name, name: whole})
                self._blocks = []
            case events.ToolBegan(call=call):
                use = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
                yield self._answer(use)
            case events.ToolEnded(call=call, output=output):
                result = {"type": "tool_result", "tool_use_id": call.id, "content": output.text}
                content = [{**result, "is_error": output.is_error}]
                yield {"type": "user", "message": {"role": "user", "content": content}, **self._frame()}

    def _answer(self, block: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [block]}
        if said := self._answered:
            message |= {"id": said.response, "model": said.model, "stop_reason": said.stop_reason or None}
            message["usage"] = usage_fields(said)
        return {"type": "assistant", "message": message, **self._frame()}

    def _frame(self) -> dict[str, Any]:
        return {"session_id": self._session, "parent_tool_use_id": None, "uuid": str(uuid4())}


def usage_fields(counted: Answered | Spending) -> dict[str, int]:
    """Token counts under the field names of the Messages API."""
    return {
        "input_tokens": counted.input_tokens,
        "cache_creation_input_tokens": counted.cache_write_tokens,
        "cache_read_input_tokens": counted.cache_read_tokens,
        "output_tokens": counted.output_tokens,
    }


class _Text(Struct):
    text: str
    type: Literal["text"] = "text"


class _Message(Struct):
    content: str | list[_Text]
    role: Literal["user"] = "user"


class _Input(Struct):
    message: _Message
    type: Literal["user"] = "user"


def read_prompts(lines: TextIO) -> Iterator[str]:
    """The prompts of ``--input-format stream-json``, one per line; raises `Refused` for any other line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            content = msgspec.json.decode(line, type=_Input).message.content
        except NOT_JSON as error:
            raise Refused(
                f"line {number} of the input is not a user message: {error}; write a line such as "
                '{"type": "user", "message": {"role": "user", "content": "…"}}'
            ) from error
        words = content if isinstance(content, str) else "\n".join(part.text for part in content)
        if not words.strip():
            raise Refused(f"line {number} of the input: the prompt is empty")
        yield words
