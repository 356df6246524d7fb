"""What a compaction summarises and what it keeps word for word.

A cut never goes through an answer, nor between a call and its result. What was said since the last answer is what
the model must act on next, so a compaction of the whole conversation keeps it as it is where it is small enough,
together with the answer whose calls it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.wire import Message, Wire

Span = Literal["whole", "from", "up_to", "range"]
Tokens = Callable[[Item], int]


class Scope(Struct, frozen=True):
    """A conversation divided."""

    hidden: tuple[Item, ...]
    """What the summary replaces."""
    behind: tuple[Item, ...] = ()
    """What is kept behind the summary."""
    span: Span = "whole"
    front: tuple[Item, ...] = ()
    """What is kept in front of the summary, as it is."""

    @property
    def kept(self) -> tuple[Item, ...]:
        """What is kept on either side."""
        return (*self.front, *self.behind)

    @property
    def side(self) -> Literal["nothing", "after", "before"]:
        """On which side of the summary the kept messages are; of a range, what follows it counts."""
        if not self.kept:
            return "nothing"
        return "before" if self.span == "from" else "after"


def whole(view: View, most_kept: int, tokens: Tokens) -> Scope:
    """Everything, but for the newest messages if they have no more than so many tokens.

    An answer whose calls still wait for results is kept in any case, or the results would answer nothing.
    """
    items = tuple(view.items)
    start = _newest(view, items)
    if (sum(map(tokens, items[start:])) > most_kept and not view.pending_calls) or start == 0:
        start = len(items)
    return _checked(Scope(items[:start], items[start:]))


def around(view: View, record: str, span: Span) -> Scope:
    """What follows a record, the record included, or for "up_to" what is before it; the rest is kept."""
    place, items = _place(view, record), tuple(view.items)
    if span == "up_to":
        return _checked(Scope(items[:place], items[place:], span))
    if waiting := view.pending_calls:
        raise Refused(
            f"calls still wait for results: {', '.join(waiting)}; give them first, or compact up to a record"
        )
    return _checked(Scope(items[place:], span=span, front=items[:place]))


def between(view: View, first: str, last: str) -> Scope:
    """From one record to another, both included; what is around them is kept."""
    items = tuple(view.items)
    start = _place(view, first)
    end = next((n for n, item in enumerate(items) if item.said.uuid == last), -1) + 1
    if end <= start:
        raise Refused(f"{first} to {last} is not a span of records in view")
    if end == len(items):
        raise Refused(
            "a range ends before the newest round: use a compaction from its first record on instead"
        )
    if not view.begins_round(items[end].said.uuid):
        raise Refused(f"{last} is followed by more of the same round; end the range where that round ends")
    return _checked(Scope(items[start:end], items[end:], "range", items[:start]))


def older(view: View, rounds: int, most_kept: int, tokens: Tokens) -> Scope:
    """Everything but the newest rounds, of which so many are kept as have no more than so many tokens."""
    items = tuple(view.items)
    for place in _starts(view, items)[-rounds:]:
        if sum(map(tokens, items[place:])) <= most_kept and _answered(items[:place]):
            return _checked(Scope(items[:place], items[place:], "up_to"))
    return _checked(Scope(items))


def finished(view: View, least: int, most: int, tokens: Tokens) -> tuple[str, str] | None:
    """The oldest rounds that are over and still in full, with about ``most`` tokens: their first and last record.

    If they have less than ``least``, what was folded before is taken in with them. None if nothing is over but the
    newest rounds.
    """
    items = view.items
    starts = _starts(view, items)
    if len(starts) < 3:
        return None
    end = starts[-2]
    fresh = next((n for n in starts if items[n].shown and not items[n].hidden_by), end)
    if sum(map(tokens, items[fresh:end])) < least:
        fresh = starts[0]
    size, stop = 0, fresh
    for here, there in pairwise(starts):
        if fresh <= here < end and (size < most or stop == fresh):
            size, stop = size + sum(map(tokens, items[here:there])), there
    return (items[fresh].said.uuid, items[stop - 1].said.uuid) if size >= least else None


def messages_of(items: Sequence[Item]) -> list[Message]:
    """The messages these records make up, the same bytes as in a request that begins with them."""
    wire = Wire()
    for number, item in enumerate(items):
        wire.add(number, item.role, item.said.message_id, item.shown, begins=item.begins)
    return wire.messages()


def _newest(view: View, items: Sequence[Item]) -> int:
    """Where that begins which the model has not answered yet, with the answer whose calls it answers."""
    answered = max((n for n, item in enumerate(items) if item.said.role == "assistant"), default=-1)
    start = answered + 1
    if view.pending_calls or any(item.said.answers for item in items[start:]):
        start = answered
        while start > 0 and not view.begins_round(items[start].said.uuid):
            start -= 1
    return start


def _starts(view: View, items: Sequence[Item]) -> list[int]:
    """Where rounds begin, the opening aside."""
    answers = ((n, item.said.uuid) for n, item in enumerate(items) if item.said.role == "assistant")
    return [n for n, uuid in answers if view.begins_round(uuid)]


def _answered(items: Sequence[Item]) -> bool:
    return any(item.said.role == "assistant" for item in items)


def _place(view: View, record: str) -> int:
    place = next((n for n, item in enumerate(view.items) if item.said.uuid == record), None)
    if place is None:
        raise Refused(f"{record} is not a record in view, so nothing can be compacted around it")
    if not view.begins_round(record):
        raise Refused(
            f"{record} belongs to the answer before it; choose that answer, or the next message of the user"
        )
    return place


def _checked(scope: Scope) -> Scope:
    if not any(item.said.role == "assistant" and item.shown for item in scope.hidden):
        raise Refused("there is nothing to compact yet: no answer of the model would be summarised")
    return scope
