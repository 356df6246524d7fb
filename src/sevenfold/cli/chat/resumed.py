"""What a resumed session shows: the end of the conversation, interrupted tool calls, and the cost of continuing."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.loop import calls_of
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.cli.chat import lines
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.history import title
from sevenfold.cli.chat.markdown import render_markdown
from sevenfold.cli.text import clean, money, one_line, plural, short_count
from sevenfold.conversation.request import ToolCall
from sevenfold.layers.idle import Choice
from sevenfold.record import blocks
from sevenfold.record.authorship import users_words
from sevenfold.record.blocks import ToolResult
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer

MOST_DRAWN = 40
"""How many of the newest records are redrawn."""
LONGEST = 4_000
"""Characters of one message that are redrawn."""
NAMES = {"compact": "/compact first", "new session": "/clear"}


def show_resumed(chat: Chat) -> None:
    """Redraw the end of the conversation, and show what the user should know before continuing."""
    conversation = chat.agent.session.conversation
    view = conversation.transcript.view
    items = [item for item in view.items if not item.hidden_by]
    if len(items) > MOST_DRAWN:
        left = plural(len(items) - MOST_DRAWN, "earlier record")
        chat.say("note", f"{left} not shown; Ctrl-T or /transcript shows them all")
    chat.screen.show(*_drawn(chat, items[-MOST_DRAWN:]))
    for call in _cut_off(items):
        under_way = lines.heading(call, str(chat.options.folder))
        chat.say("warning", f"cut off when the session ended: {under_way}")
    size = f"{plural(len(view), 'record')} in view, {short_count(chat.agent.session.gauge.seen)} tokens"
    named = one_line(title(chat.options.transcript()), 60)
    chat.say("note", f"resumed: {named} ({size})")
    if costs := chat.agent.session.next_costs():
        here, *others = (f"{money(cost.usd)} for {short_count(cost.tokens)} tokens" for cost in costs)
        here += _range_of(costs[0])
        other = "".join(
            f"; {NAMES[cost.name]}: {says}" for cost, says in zip(costs[1:], others, strict=True)
        )
        chat.say("note", f"the cache has expired: your next message costs about {here}{other}")


def _range_of(cost: Choice) -> str:
    """How far off a price may be, and whose work it includes."""
    notes = []
    if cost.low is not None and cost.high is not None:
        notes.append(f"{money(cost.low)} to {money(cost.high)}")
    if cost.layers:
        notes.append(f"with {', '.join(cost.layers)}")
    return f" ({', '.join(notes)})" if notes else ""


def _drawn(chat: Chat, items: list[Item]) -> Iterator[RenderableType]:
    waiting: dict[str, ToolCall] = {}
    signs = chat.screen.signs
    for item in items:
        record = item.record
        if record.summary:
            yield Text(f"{signs.layer} the conversation before this was summarised", style="dim")
        elif words := users_words(record):
            said_again = Text(f"{signs.prompt} {_short(words)}", style="bold", overflow="fold")
            yield from (Text(), said_again, Text())
        elif record.role == "assistant":
            waiting |= {call.id: call for call in _calls(item)}
            parts = (blocks.words_of(block) for block in record.blocks if block.kind == "text")
            if (text := "\n\n".join(filter(None, parts))).strip():
                yield from (render_markdown(_short(text)), Text())
        else:
            for block in record.blocks:
                if block.kind == "tool_result" and block.id in waiting:
                    body = block.body()
                    failed = isinstance(body, ToolResult) and bool(body.is_error)
                    output = ToolOutput(blocks.words_of(block), is_error=failed)
                    yield chat.drawn_call(waiting[block.id], output)


def _calls(item: Item) -> tuple[ToolCall, ...]:
    return calls_of(Answer("", "", item.record.blocks))


def _cut_off(items: list[Item]) -> list[ToolCall]:
    """The tool calls without a result, which were running when the session ended."""
    answered = {call for item in items for call in item.record.answers}
    return [call for item in items if item.record.calls for call in _calls(item) if call.id not in answered]


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… {len(text) - LONGEST:,} more characters"
