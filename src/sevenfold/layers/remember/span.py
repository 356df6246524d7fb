"""A stretch of a conversation that has not been looked at for lasting facts, in this session or another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.remember.look import Neighbours, message_as_shown
from sevenfold.memory.statements import statements
from sevenfold.ports import Log
from sevenfold.record import blocks
from sevenfold.record.authorship import QUOTED, typed_lines, typed_words
from sevenfold.record.blocks import Block, ToolResult, ToolUse, read_fields
from sevenfold.record.decisions import Remarked
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

MOST_SHOWN = 96 * 1024
"""The most bytes of messages that one look shows, with what is around them: below the cap of the instruction, which
would cut the last ones away unseen."""
ASKS = "AskUser"
"""The agent's tool that asks the user. Tools of MCP servers have other names."""


class SearchSpan(Struct, frozen=True):
    """The user's words in it, and what is around them."""

    messages: Mapping[str, str]
    """The user's words, by record."""
    covered: str
    """The last record of the span."""
    days: Mapping[str, date] = {}
    times: Mapping[str, float] = {}
    """The date and the time of each of these records, where known."""
    around: Mapping[str, Neighbours] = {}
    wrote: bool = False
    """Whether the agent itself wrote to memory in it."""
    hidden: bool = False
    """Whether more of the session may have left the context without having been looked at."""


def span_of(records: Sequence[Said], remarks: Mapping[str, str] = {}) -> SearchSpan:
    """The span of these records; ``remarks`` are what the user said when they refused calls, by call."""
    messages = _spoken(records, remarks)
    days: dict[str, date] = {}
    times: dict[str, float] = {}
    around: dict[str, Neighbours] = {}
    answer = waiting = ""
    for record in records:
        if record.uuid in messages:
            around[record.uuid] = Neighbours(before=_sentence(answer, last=True))
            answer = ""
            waiting = record.uuid
            if (time := time_of(record.timestamp)) is not None:
                days[record.uuid] = time.date()
                times[record.uuid] = time.timestamp()
        elif record.role == "assistant" and (text := _text(record)):
            answer = text
            if waiting:
                around[waiting] = replace(around[waiting], after=_sentence(text, last=False))
                waiting = ""
    covered = records[-1].uuid if records else ""
    return SearchSpan(messages, covered, days, times, around)


def others_in(records: Sequence[Said]) -> bool:
    """Whether any of these records has text that neither the user typed nor the model wrote with nothing else in view.

    In doubt it has: this decides whether a sentence of the model's may repeat what others wrote.
    """
    for record in records:
        if record.role == "assistant":
            if record.calls:
                return True
            continue
        if record.attachment or record.meta or record.summary or record.answers or record.origin:
            return True
        text = "\n".join(map(blocks.words_of, record.blocks))
        if any(block.kind != "text" for block in record.blocks) or users_typed(record) != text:
            return True
        if QUOTED in typed_lines(text):
            return True
    return False


def remarks_in(log: Log) -> dict[str, str]:
    """What the user said in a session when they refused tool calls, by call."""
    return {remark.call: remark.words for _, remark in log.decisions(Remarked)}


def records_after(items: Sequence[Item], covered: Collection[str]) -> list[Said]:
    """The records behind the last one that a look covered; all of them if none was covered."""
    start = 0
    for number, item in enumerate(items, 1):
        if item.record.uuid in covered:
            start = number
    return [item.record for item in items[start:]]


def portion_of(span: SearchSpan) -> SearchSpan:
    """The beginning of a span, with as many messages as one look can show."""
    shown: dict[str, str] = {}
    room = MOST_SHOWN
    for number, (record, message) in enumerate(span.messages.items(), 1):
        around = span.around.get(record, Neighbours())
        room -= len(message_as_shown(number, message, span.days.get(record), around).encode())
        if shown and room < 0:
            return replace(span, messages=shown, covered=next(reversed(shown)))
        shown[record] = message
    return span


def _spoken(records: Sequence[Said], remarks: Mapping[str, str]) -> dict[str, str]:
    """What the user typed in these records, answered to questions and remarked on refused calls, by record."""
    calls: dict[str, ToolUse] = {}
    messages: dict[str, str] = {}
    for record in records:
        for block in record.blocks if record.calls else ():
            body = block.body()
            if isinstance(body, ToolUse) and body.name == ASKS and record.own:
                calls[body.id] = body
        results = (block for block in record.blocks if block.id in calls and block.id in record.answers)
        answers = [_answers(result, calls[result.id]) for result in results]
        refusals = [remarks[call] for call in record.answers if call in remarks]
        message = "\n".join(filter(None, (users_typed(record), *answers, *refusals)))
        if message.strip():
            messages[record.uuid] = message
    return messages


def _answers(result: Block, call: ToolUse) -> str:
    """The user's answers in the result of a call that asked them: a line of ours separates each from its question.

    The model wrote the questions, so their texts are taken from the call: a question cannot pass for an answer.
    """
    body = result.body()
    questions = read_fields(call.input).get("questions")
    if not isinstance(body, ToolResult) or body.is_error or not isinstance(questions, list):
        return ""
    questions_asked = [
        str(question.get("question", "")) for question in questions if isinstance(question, dict)
    ]
    text = blocks.words_of(result)
    starts: list[tuple[int, int]] = []
    at = 0
    for question in questions_asked:
        opening = f"{question}\n> "
        begins = text.find(opening, at)
        if begins < 0:
            return ""
        starts.append((begins, begins + len(opening)))
        at = begins + len(opening)
    ends = [*(begins for begins, _ in starts[1:]), len(text)]
    return "\n".join(text[start:end].strip() for (_, start), end in zip(starts, ends, strict=True))


def users_typed(record: Said) -> str:
    """What the user typed in a message; what a program attached to it is not theirs."""
    return "" if record.attachment else typed_words(record)


def time_of(timestamp: str) -> datetime | None:
    """The local time of a record; None if its timestamp cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone()
    except ValueError:
        return None


def _text(record: Said) -> str:
    text_blocks = (block for block in record.blocks if block.kind == "text")
    return "\n".join(map(blocks.words_of, text_blocks)).strip()


def _sentence(text: str, *, last: bool) -> str:
    """The first or the last sentence of a text."""
    sentences = statements(text) if text else ()
    if not sentences:
        return ""
    return sentences[-1 if last else 0].own
