"""Rules by which a provider drops cached messages although they are sent again as they were.

What is sent only grows, and still the cache is lost: with the first image of a conversation, with the first document
that asks for citations, and, on models that leave out the reasoning of earlier turns, with new words of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from sevenfold.profiles import Profile
from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.weight import measure
from sevenfold.record.wire import Message


class RuleLoss(Struct, frozen=True):
    """A loss that a rule of the provider brings about."""

    cause: str
    """image, citations or reasoning"""
    part: str
    """The same, as a person reads it."""
    keeps_system: bool = True
    """Whether the system prompt stays cached."""
    messages: int = 0
    """How many of the oldest messages stay cached."""


def first_loss(
    last_sent: Sequence[Message], sending: Sequence[Message], profile: Profile
) -> RuleLoss | None:
    """The first rule that breaks the cache of the messages sent before; None if none does."""
    # The newest message may have grown, so it counts as new. Older ones matter only if there is something to compare.
    new_messages = sending[max(0, len(last_sent) - 1) :]
    shrunk = len(sending) < len(last_sent)
    if (
        profile.cache.citations
        and (shrunk or _cites(new_messages))
        and (had := _cites(last_sent)) != _cites(sending)
    ):
        description = (
            "the last document with citations is gone" if had else "the first document with citations"
        )
        return RuleLoss("citations", description, keeps_system=False)
    if (
        profile.cache.images
        and (shrunk or _pictures(new_messages))
        and (had := _pictures(last_sent)) != _pictures(sending)
    ):
        return RuleLoss("image", "the last image is gone" if had else "the first image")
    if not profile.thinking.kept and any(_begins_turn(message) for message in sending[len(last_sent) :]):
        return _reasoning_left_out(last_sent)
    return None


def _reasoning_left_out(last_sent: Sequence[Message]) -> RuleLoss | None:
    """The loss when reasoning since the user's last words is left out, because the user speaks again."""
    began = max((index for index, message in enumerate(last_sent) if _begins_turn(message)), default=0)
    for index, message in enumerate(last_sent[began:], began):
        if any(part.kind in THINKING for part in message.parts):
            return RuleLoss("reasoning", "the reasoning of earlier turns is left out", messages=index)
    return None


def _begins_turn(message: Message) -> bool:
    """Whether the user speaks in a message, rather than only tools."""
    return message.role == "user" and any(part.kind != "tool_result" for part in message.parts)


def _parts(messages: Iterable[Message]) -> Iterator[Block]:
    return chain.from_iterable(message.parts for message in messages)


def _pictures(messages: Iterable[Message]) -> bool:
    return any(_is_picture(part) for part in _parts(messages))


def _is_picture(part: Block) -> bool:
    return part.kind == "image" or (part.kind == "tool_result" and measure(part).images > 0)


def _cites(messages: Iterable[Message]) -> bool:
    documents = (part for part in _parts(messages) if part.kind == "document")
    return any(b'"citations"' in part.raw and b'"enabled":true' in part.raw for part in documents)
