"""Progress lines of three to five words about what an agent is doing: by code, or by a model if that is switched on.

Code builds its line from the newest tool call and names that call's file, command, pattern or address; this costs
nothing and is always current. A model's line can say what the call is for. It is requested every 30 s, with the cheaper
of two requests: a fork of the agent, which reads its whole prompt from the cache, or the most recent messages, sent to
the model for summaries.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from sevenfold.agent.texts import AskProgress
from sevenfold.conversation.flow import Flow, Signal, Wait, locked, unguarded
from sevenfold.conversation.fork import fork
from sevenfold.conversation.plain_call import plain_call
from sevenfold.conversation.turn import turn
from sevenfold.ports import Clock
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse, read_fields, words_of
from sevenfold.record.wire import Message

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.record.layout import Item
    from sevenfold.record.view import View

R = TypeVar("R")
SOURCE = "agent_summary"
EVERY = 30.0
"""Seconds between two lines that a model writes about an agent."""
LONGEST_WAIT = 60.0
ANSWER_TOKENS = 100
FEW = 6
LONGEST_PIECE = 600
"""How many records the model for summaries sees, and how many characters of each block in them."""
_LINE = re.compile(r"[A-Z]\w*ing(?: [^\s<>]{1,60}){1,7}")
"""Matches a few words that start with a verb in the -ing form."""
LONGEST_NAME = 40
LOOKED_AT = 40
"""How many of the newest records are searched for a tool call."""


class ProgressLine:
    """The progress line of a working agent, with a model's line if there is one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requested_at = clock.now()
        """When a line was last requested, or the agent started."""
        self._tip: str | None = None
        """The newest record when a line was last requested."""
        self._line = ""
        self._under_way: Signal | None = None
        self._settled = False

    def line(self, view: View) -> str:
        """Return the model's line if it is under 30 s old or nothing has happened since; otherwise the code's line."""
        is_current = self._tip == view.tip or self._clock.now() - self._requested_at < EVERY
        return self._line if self._line and is_current else progress_line(view)

    def request_if_due(self, c: Conversation, run: Callable[..., None]) -> None:
        """Request a line if 30 s have passed and there are new records; ``run`` runs a flow in the background."""
        now = self._clock.now()
        tip = c.transcript.view.tip
        if self._settled or self._under_way or self._tip == tip or now - self._requested_at < EVERY:
            return
        self._requested_at = now
        self._tip = tip
        finished = Signal()
        self._under_way = finished

        def done(came: str | Exception) -> None:
            self._line = "" if isinstance(came, Exception) else came
            self._under_way = None
            finished.happen()

        run(unguarded(locked(write_line(c), c.lock)), done)

    def settle(self) -> Flow[None]:
        """Request no more lines, and wait for one in progress, because the agent must be charged for it."""
        self._settled = True
        if self._under_way is not None:
            yield from Wait(self._under_way, LONGEST_WAIT)


def write_line(c: Conversation) -> Flow[str]:
    """Ask a model for a progress line about a conversation; empty if its answer is not a valid line."""
    recent = _recent(c)
    model = c.profile.companion(c.settings.summary_model) or c.profile
    tokens = c.size().tokens
    own_price = c.profile.price(tokens)
    other_price = model.price(0)
    fork_is_cheaper = (
        own_price is not None
        and other_price is not None
        and tokens * own_price.read < c.count(recent) * other_price.input
    )
    if fork_is_cheaper:
        line_fork = fork(c, SOURCE)
        line_fork.user(AskProgress().render())
        outcome = yield from line_fork.turn()
    else:
        message = Message.of("user", (blocks.text(AskProgress(recent).render()),))
        outcome = yield from turn(plain_call(c, model, [message], SOURCE, ANSWER_TOKENS))
    line = blocks.text_of(outcome.reply.answer.blocks).strip().strip("\"'“”.")
    return line if _LINE.fullmatch(line) else ""


def _recent(c: Conversation) -> str:
    """Return the most recent messages as plain text."""
    lines = []
    for item in tuple(c.transcript.view.items[-FEW:]):
        for block in item.record.blocks:
            text = block.raw.decode(errors="replace") if block.kind == "tool_use" else words_of(block)
            if text:
                lines.append(f"{item.record.role}: {text[:LONGEST_PIECE]}")
    return "\n".join(lines)


def progress_line(view: View) -> str:
    """Return what an agent is doing, from its newest tool call; empty if there is no recent call."""
    # A copy of the last items, because the agent continues to work meanwhile.
    return next((_in_words(call) for call in _calls(tuple(view.items[-LOOKED_AT:]))), "")


def _calls(items: Sequence[Item]) -> Iterator[ToolUse]:
    """Yield the tool calls, newest first."""
    for item in reversed(items):
        for block in reversed(item.record.blocks) if item.record.role == "assistant" else ():
            body = block.body() if block.kind == "tool_use" else None
            if isinstance(body, ToolUse):
                yield body


@cache
def _doing() -> dict[str, tuple[str, str]]:
    """For each tool: the words for using it, and the input field that names what it is used on."""
    return tomllib.loads(Path(__file__).with_name("progress.toml").read_text(encoding="utf-8"))


def _in_words(call: ToolUse) -> str:
    doing, field = _doing().get(call.name, (f"Using the tool {call.name}", ""))
    argument = str(read_fields(call.input).get(field, "")) if field else ""
    return f"{doing} {_named(field, argument)}".strip()


def _named(field: str, argument: str) -> str:
    """Return one word for what a tool is used on: a file's name, the host of a URL, or the first word."""
    words = argument.split()
    if not words:
        return ""
    if field == "path":
        return PurePath(argument).name[:LONGEST_NAME]
    if field == "url":
        return (urlsplit(argument).hostname or argument)[:LONGEST_NAME]
    return words[0][:LONGEST_NAME]
