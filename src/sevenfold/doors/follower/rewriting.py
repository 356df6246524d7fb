"""A program's own list of messages, with what left the context left out and what stands for it put in.

Nothing is laid out anew: a message that no decision concerns keeps its bytes, and so do all other fields of the body.
What the program sends first (its system messages and reminders) stays in its place, in front of every summary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from sevenfold.record.blocks import Block, words_of
from sevenfold.wire.client_request import Api, ClientRequest
from sevenfold.wire.reader import Fields

_fields = msgspec.json.Decoder(Fields)
_raws = msgspec.json.Decoder(list[Raw])
_RESULT_FIELDS: Mapping[Api, str] = {"messages": "content", "chat": "content", "responses": "output"}
"""The field of each API's messages, items or blocks that holds the content of a tool result."""


class NotSent(Struct, frozen=True):
    """The block is not sent."""


class ShownAs(Struct, frozen=True):
    """The tool result is sent with other content."""

    block: Block


BlockChange = NotSent | ShownAs
Changes = Mapping[tuple[int, int], BlockChange]
"""What happens to blocks, by the index of their message and their index in it; all others stay as they are."""


def rewritten(
    request: ClientRequest, counts: Sequence[int], changes: Changes, summary: Sequence[Block], at: int
) -> bytes:
    """The body with these changes; ``counts`` are the blocks of each message.

    ``summary`` is inserted in front of message ``at``.
    """
    by_message: defaultdict[int, dict[int, BlockChange]] = defaultdict(dict)
    for (number, part), change in changes.items():
        by_message[number][part] = change
    messages: list[bytes] = []
    for number, raw in enumerate(request.raw_messages()):
        if number == at:
            messages += _as_messages(summary, request.api)
        concerned = by_message.get(number, {})
        remains = len(concerned) < counts[number] or any(
            isinstance(change, ShownAs) for change in concerned.values()
        )
        if not concerned:
            messages.append(raw)
        elif remains:
            messages.append(_changed(raw, concerned, request.api))
    if at >= len(counts):
        messages += _as_messages(summary, request.api)
    if request.api == "messages":
        messages = _system_messages_placed(messages)
    return request.with_messages(messages)


def _changed(raw: bytes, changes: Mapping[int, BlockChange], api: Api) -> bytes:
    """A message in which only these blocks are changed."""
    fields = _fields.decode(raw)
    if api != "messages":
        # A tool message, or an item: it has one block, and that is the result.
        for change in changes.values():
            if isinstance(change, ShownAs):
                fields[_RESULT_FIELDS[api]] = Raw(msgspec.json.encode(words_of(change.block)))
        return msgspec.json.encode(fields)
    content: list[Raw] = []
    for part, block in enumerate(_raws.decode(fields["content"])):
        match changes.get(part):
            case None:
                content.append(block)
            case ShownAs(block=shown):
                content.append(_with_content(block, shown))
            case NotSent():
                pass
    return msgspec.json.encode({**fields, "content": content})


def _with_content(block: Raw, shown: Block) -> Raw:
    """The program's tool result with the content of another; its cache marker and all else stay."""
    fields = _fields.decode(block)
    fields["content"] = _fields.decode(shown.raw).get("content", Raw(b'""'))
    return Raw(msgspec.json.encode(fields))


def _as_messages(blocks: Sequence[Block], api: Api) -> list[bytes]:
    """A message of the user with these blocks; none if there are none."""
    if not blocks:
        return []
    if api == "messages":
        return [msgspec.json.encode({"role": "user", "content": [Raw(block.raw) for block in blocks]})]
    text = "\n\n".join(filter(None, map(words_of, blocks)))
    if api == "chat":
        return [msgspec.json.encode({"role": "user", "content": text})]
    part = {"type": "input_text", "text": text}
    return [msgspec.json.encode({"type": "message", "role": "user", "content": [part]})]


def _system_messages_placed(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with each system message behind the user's that follow it: the API takes it nowhere else."""
    placed: list[bytes] = []
    waiting: list[bytes] = []
    for raw in messages:
        role = bytes(_fields.decode(raw).get("role", b""))
        if role == b'"system"':
            waiting.append(raw)
            continue
        if role == b'"assistant"':
            placed += waiting
            waiting = []
        placed.append(raw)
    return [*placed, *waiting]
