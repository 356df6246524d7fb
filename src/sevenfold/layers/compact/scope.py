"""Decides what a compaction summarises and what it keeps verbatim.

A cut never splits an answer, nor separates a tool call from its result. The messages after the last answer are what
the model must act on next, so a compaction of the whole conversation keeps them verbatim if they are small enough;
if they contain tool results, it also keeps the answer that made the calls.
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
    """How a compaction divides the conversation."""

    hidden: tuple[Item, ...]
    """The records that the summary replaces."""
    behind: tuple[Item, ...] = ()
    """The records kept after the summary."""
    span: Span = "whole"
    front: tuple[Item, ...] = ()
    """The records kept unchanged before the summary."""

    @property
    def kept(self) -> tuple[Item, ...]:
        """The records kept on either side."""
        return (*self.front, *self.behind)

    @property
    def side(self) -> Literal["nothing", "after", "before"]:
        """On which side of the summary the kept messages are; for a range, "after"."""
        if not self.kept:
            return "nothing"
        return "before" if self.span == "from" else "after"


def whole(view: View, most_kept: int, tokens: Tokens) -> Scope:
    """Summarise everything except the newest messages, which are kept if they have at most ``most_kept`` tokens.

    An answer whose calls still wait for results is always kept; otherwise the results would have no call.
    """
    items = tuple(view.items)
    start = _newest(view, items)
    if (sum(map(tokens, items[start:])) > most_kept and not view.pending_calls) or start == 0:
        start = len(items)
    return _checked(Scope(items[:start], items[start:]))


def around(view: View, record: str, span: Span) -> Scope:
    """Summarise from a record on, the record included, or with "up_to" everything before it; keep the rest."""
    start = _place(view, record)
    items = tuple(view.items)
    if span == "up_to":
        return _checked(Scope(items[:start], items[start:], span))
    if waiting := view.pending_calls:
        raise Refused(
            f"calls still wait for results: {', '.join(waiting)}; give them first, or compact up to a record"
        )
    return _checked(Scope(items[start:], span=span, front=items[:start]))


def between(view: View, first: str, last: str) -> Scope:
    """Summarise from one record to another, both included; keep everything around them."""
    items = tuple(view.items)
    start = _place(view, first)
    end = next((n for n, item in enumerate(items) if item.record.uuid == last), -1) + 1
    if end <= start:
        raise Refused(f"{first} to {last} is not a span of records in view")
    if end == len(items):
        raise Refused(
            "a range ends before the newest round: use a compaction from its first record on instead"
        )
    if not view.begins_round(items[end].record.uuid):
        raise Refused(f"{last} is followed by more of the same round; end the range where that round ends")
    return _checked(Scope(items[start:end], items[end:], "range", items[:start]))


def older(view: View, rounds: int, most_kept: int, tokens: Tokens) -> Scope:
    """Summarise all but the newest rounds: up to ``rounds`` of them are kept, with at most ``most_kept`` tokens."""
    items = tuple(view.items)
    for start in _starts(view, items)[-rounds:]:
        if sum(map(tokens, items[start:])) <= most_kept and _answered(items[:start]):
            return _checked(Scope(items[:start], items[start:], "up_to"))
    return _checked(Scope(items))


def finished(view: View, min_tokens: int, max_tokens: int, tokens: Tokens) -> tuple[str, str] | None:
    """The first and last record of the oldest finished, unfolded rounds, with about ``max_tokens`` in total.

    If those have fewer than ``min_tokens``, earlier folds are included. None if there are too few rounds besides the
    newest two, or if even then there are fewer than ``min_tokens``.
    """
    items = view.items
    starts = _starts(view, items)
    if len(starts) < 3:
        return None
    end = starts[-2]
    fresh = next((n for n in starts if items[n].shown and not items[n].hidden_by), end)
    if sum(map(tokens, items[fresh:end])) < min_tokens:
        fresh = starts[0]
    size = 0
    stop = fresh
    for here, there in pairwise(starts):
        if fresh <= here < end and (size < max_tokens or stop == fresh):
            size = size + sum(map(tokens, items[here:there]))
            stop = there
    return (items[fresh].record.uuid, items[stop - 1].record.uuid) if size >= min_tokens else None


def messages_of(view: View, items: Sequence[Item]) -> list[Message]:
    """The messages made of these records of a view, with the same bytes as in a request that begins with them."""
    wire = Wire(view.layout.unsupported)
    for number, item in enumerate(items):
        record = item.record
        wire.add(number, item.role, record.message_id, item.shown, item.begins, record.new_kinds)
    return wire.messages()


def _newest(view: View, items: Sequence[Item]) -> int:
    """Index of the first unanswered message; if tool results are among them, of the answer that made the calls."""
    answered = max((n for n, item in enumerate(items) if item.record.role == "assistant"), default=-1)
    start = answered + 1
    if view.pending_calls or any(item.record.answers for item in items[start:]):
        start = answered
        while start > 0 and not view.begins_round(items[start].record.uuid):
            start -= 1
    return start


def _starts(view: View, items: Sequence[Item]) -> list[int]:
    """Indices at which rounds begin, not counting the records before the first answer."""
    answers = ((n, item.record.uuid) for n, item in enumerate(items) if item.record.role == "assistant")
    return [n for n, uuid in answers if view.begins_round(uuid)]


def _answered(items: Sequence[Item]) -> bool:
    return any(item.record.role == "assistant" for item in items)


def _place(view: View, record: str) -> int:
    index = next((n for n, item in enumerate(view.items) if item.record.uuid == record), None)
    if index is None:
        raise Refused(f"{record} is not a record in view, so nothing can be compacted around it")
    if not view.begins_round(record):
        raise Refused(
            f"{record} belongs to the answer before it; choose that answer, or the next message of the user"
        )
    return index


def _checked(scope: Scope) -> Scope:
    if not any(item.record.role == "assistant" and item.shown for item in scope.hidden):
        raise Refused("there is nothing to compact yet: no answer of the model would be summarised")
    return scope
