"""Composes a summary: nine sections, each with its prose, if any, followed by the recorded lists.

The user's messages get room first, beginning with the newest. If they do not all fit, the longest are cut first, each
keeping its beginning and its end; if that is not enough, the oldest except the very first are left out, and the summary
says how many. Everything else gets a share of the remaining room. What one list does not need, the others may use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.notation import Facts, QuotedMessage
from sevenfold.layers.compact.extract.outline import TITLES, heading

Count = Callable[[str], int]
"""Counts the tokens of a text."""

_SHORT = 160
"""A user message of at most this many tokens, including its frame, is shown whole or left out, never cut."""
_FRAME = 48
"""Tokens taken by the frame of a cut message and the note in it."""
_FOR_THE_FIRST = 0.5
"""Share of the room left by the newest message that the first one may take when others are left out."""
_HEAD = 2 / 3
"""Share of a cut message that comes from its beginning."""


_MOST = {
    "corrections": 30,
    "permissions": 30,
    "identifiers": 60,
    "errors": 25,
    "outcomes": 40,
    "commands": 20,
}
"""The most entries of each list: beyond that it is better to look them up than to read them in every request."""


class Entries(Struct, frozen=True):
    """The candidate entries for a section, the most important first."""

    section: int
    kind: str
    """The name of the list; empty for prose."""
    entries: tuple[str, ...]
    share: float
    label: str = ""
    """A line shown before them if any of them fits."""
    oldest_first: bool = False
    """Show them in reverse: the newest are the most important, but are shown in conversation order."""

    @property
    def most(self) -> int:
        """The most entries to show."""
        return _MOST.get(self.kind, len(self.entries))


def share_out(claims: Sequence[Entries], room: int, count: Count) -> list[list[str]]:
    """For each claim, the entries that fit: first within each claim's share, then in order into the remaining room."""
    sizes = [[count(entry) + 1 for entry in claim.entries] for claim in claims]
    chosen_by_claim: list[set[int]] = [set() for _ in claims]
    room_left = room
    for within_share in (True, False):
        for claim, size, chosen in zip(claims, sizes, chosen_by_claim, strict=True):
            room_here = min(room_left, int(claim.share * room)) if within_share else room_left
            for index, tokens in enumerate(size):
                if index not in chosen and tokens <= room_here and len(chosen) < claim.most:
                    chosen.add(index)
                    room_here -= tokens
                    room_left -= tokens
    fitting = []
    for claim, chosen in zip(claims, chosen_by_claim, strict=True):
        in_order = sorted(chosen, reverse=claim.oldest_first)
        fitting.append([claim.entries[index] for index in in_order])
    return fitting


def fit_messages(facts: Facts, room: int, count: Count) -> tuple[QuotedMessage, ...]:
    """Fit the user's messages into ``room`` tokens: whole if possible, otherwise cut, or with the oldest left out."""
    messages = facts.messages
    sizes = [_size(message, facts, count) for message in messages]
    if sum(sizes) <= room:
        return messages
    longest = max(_level(sizes, room), _SHORT)
    cut = [_cut(message, size, longest) for message, size in zip(messages, sizes, strict=True)]
    for index, (message, original) in enumerate(zip(cut, messages, strict=True)):
        if message.lost != original.lost:
            sizes[index] = _size(message, facts, count)
    if sizes[-1] > room:
        # The newest message alone is too large: show only that one, cut to both its ends.
        newest = _cut(messages[-1], _size(messages[-1], facts, count), room)
        return (newest,) if room > _FRAME and _size(newest, facts, count) <= room else ()
    return tuple(cut) if sum(sizes) <= room else _newest(cut, sizes, room)


def _size(message: QuotedMessage, facts: Facts, count: Count) -> int:
    return count(notation.said(message, facts)) + 1


def _list_size(entries: Iterable[str], count: Count) -> int:
    """Tokens of the lines of a list, with their line breaks."""
    return sum(count(entry) + 1 for entry in entries)


def _level(sizes: Sequence[int], room: int) -> int:
    """The largest size to which the long messages can be cut so that all fit together."""
    levels = range(1, max(sizes, default=0) + 1)
    return bisect_right(levels, room, key=lambda level: sum(min(size, level) for size in sizes))


def _newest(
    messages: Sequence[QuotedMessage], sizes: Sequence[int], room: int
) -> tuple[QuotedMessage, ...]:
    """The newest message, the first one, which states the goal, and as many before the newest as fit."""
    room_left = room - sizes[-1]
    first = 1 if len(messages) > 1 and sizes[0] <= room_left * _FOR_THE_FIRST else 0
    room_left -= sum(sizes[:first])
    start = len(messages) - 1
    while start > first and sizes[start - 1] <= room_left:
        start -= 1
        room_left -= sizes[start]
    return (*messages[:first], *messages[start:])


def _cut(message: QuotedMessage, size: int, limit: int) -> QuotedMessage:
    """A message cut to about ``limit`` tokens, including its frame and the note about the cut."""
    if size <= limit:
        return message
    characters = len(message.head) + len(message.tail)
    keep = max(0, int(characters * (limit - _FRAME) / size))
    head = min(len(message.head), int(keep * _HEAD))
    tail = keep - head
    end = (message.tail or message.head[head:])[-tail:] if tail else ""
    return QuotedMessage(
        message.record, message.head[:head], end, message.lost + characters - head - len(end)
    )


# -- the whole summary ---------------------------------------------------------------------------

_FOR_MESSAGES = 0.6
"""Share of the room that the user's messages may take before anything else."""
_FILLED = 0.97
"""Share of the budget to fill, as token counts are estimates."""
_TRIES = 8
_TIGHTER = 0.85
_PARAGRAPH = re.compile(r"\n\s*\n")
_LONG = 600
"""Longer paragraphs, in characters, may be left out line by line instead of as a whole."""


class Summary(Struct, frozen=True):
    """A finished summary, and what did not fit into it."""

    text: str
    left_out: tuple[str, ...] = ()
    """A phrase for each thing left out; empty if everything is in it."""


def compose(
    facts: Facts,
    lists: Sequence[Entries],
    budget: int,
    count: Count,
    titles: Mapping[int, str] = TITLES,
    *,
    apart: bool = False,
) -> Summary:
    """Compose the summary of the user's messages and these lists; it never exceeds the budget.

    ``apart``: the messages stand behind the summary, which only points to them.
    """
    if apart:
        facts = replace(facts, messages=(), left_out={**facts.left_out, "messages": 0})
    draft = _Composition(facts, lists, titles, apart)
    nothing = [list[str]() for _ in lists]
    empty = replace(draft, facts=replace(facts, messages=()))
    frame = count(empty.text((), nothing)) + 12 * len(lists)
    room = int(_FILLED * budget) - frame
    for _ in range(_TRIES):
        if room <= 0:
            break
        messages, chosen = draft.choose(room, count)
        text = draft.text(messages, chosen)
        if count(text) <= budget:
            return Summary(text, tuple(draft.missing(messages, chosen)))
        room = int(room * _TIGHTER)
    # There is no room for content: only the headings and the counts of what is missing, cut to fit.
    text = draft.text((), nothing)
    while text and count(text) > budget:
        text = text[: len(text) * 3 // 4]
    return Summary(text, tuple(draft.missing((), nothing)))


def paragraphs(text: str) -> tuple[str, ...]:
    """Split a text into pieces that may be left out one by one; a code block is one piece."""
    blocks: list[str] = []
    for block in _PARAGRAPH.split(text.strip()):
        if blocks and blocks[-1].count("```") % 2:
            blocks[-1] += f"\n\n{block}"
        elif block.strip():
            blocks.append(block)
    pieces: list[str] = []
    for block in blocks:
        ended = f"{block}\n"
        is_one_piece = len(block) <= _LONG or "```" in block
        pieces += [ended] if is_one_piece else ended.splitlines(keepends=True)
    return tuple(pieces)


class _Composition(Struct, frozen=True):
    """The material of a summary, and the choice of messages and entries that fit."""

    facts: Facts
    lists: Sequence[Entries]
    titles: Mapping[int, str]
    apart: bool = False

    def choose(self, room: int, count: Count) -> tuple[tuple[QuotedMessage, ...], list[list[str]]]:
        """Choose the messages first, then the list entries; give the messages any room left over."""
        wanted = sum(_list_size(candidates.entries[: candidates.most], count) for candidates in self.lists)
        messages = fit_messages(self.facts, max(int(_FOR_MESSAGES * room), room - wanted), count)
        used = sum(_size(message, self.facts, count) for message in messages)
        chosen = share_out(self.lists, max(0, room - used), count)
        if messages != self.facts.messages:
            spent = sum(_list_size(entries, count) for entries in chosen)
            messages = fit_messages(self.facts, max(0, room - spent), count)
        return messages, chosen

    def text(self, messages: Sequence[QuotedMessage], chosen: Sequence[Sequence[str]]) -> str:
        """The text of the summary with these messages and entries."""
        quoted = [notation.said(message, self.facts) for message in messages]
        listed = notation.framed("messages", quoted, self._messages_left_out(messages))
        message_list = notation.APART if self.apart else listed
        contents: dict[int, list[str]] = {number: [] for number in self.titles}
        for candidates, entries in zip(self.lists, chosen, strict=True):
            contents[candidates.section].append(self._shown(candidates, entries))
        contents[6].append(message_list)
        sections: list[str] = []
        for number, texts in contents.items():
            # Prose comes first, then the lists; sorting keeps the order within both.
            texts = sorted(filter(None, texts), key=lambda text: text.startswith("<recorded"))
            sections.append("\n".join([heading(number, self.titles), *(texts or [notation.NOTHING])]))
        return "\n\n".join(sections)

    def missing(self, messages: Sequence[QuotedMessage], chosen: Sequence[Sequence[str]]) -> Iterable[str]:
        """Describe what is not in the summary, one phrase for each list or cut message."""
        if gone := self._messages_left_out(messages):
            yield f"{gone} {'message' if gone == 1 else 'messages'} of the user"
        for message in messages:
            if message.lost:
                yield f"{message.lost} characters of the user's message {self.facts.name(message.record)}"
        for candidates, entries in zip(self.lists, chosen, strict=True):
            if gone := self._entries_left_out(candidates, entries):
                name = candidates.kind or f"the prose of “{TITLES[candidates.section]}”"
                yield f"{gone} {'entry' if gone == 1 else 'entries'} of {name}"

    def _shown(self, candidates: Entries, entries: Sequence[str]) -> str:
        missing = self._entries_left_out(candidates, entries)
        if candidates.kind:
            return notation.framed(candidates.kind, entries, missing)
        prose = "".join([f"{candidates.label}\n" if candidates.label and entries else "", *entries])
        return prose.rstrip() if not missing or notation.MORE in prose else f"{prose}{notation.MORE}"

    def _messages_left_out(self, messages: Sequence[QuotedMessage]) -> int:
        """Number of user messages left out, here or in earlier summaries."""
        return len(self.facts.messages) - len(messages) + self.facts.left_out.get("messages", 0)

    def _entries_left_out(self, candidates: Entries, entries: Sequence[str]) -> int:
        """Number of entries left out, here or in earlier summaries."""
        return len(candidates.entries) - len(entries) + self.facts.left_out.get(candidates.kind, 0)
