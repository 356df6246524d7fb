"""What of the user's words a summary message shows: pure functions over the user's messages.

The user's words have a budget of their own. As long as they fit, every message is kept to the letter, and nothing
here looks at what they say. Only beyond the budget is anything chosen, in the order of `Rank`:

1. what a model named as lasting in an earlier compaction, what was named first coming first;
2. what the model that writes this summary names as lasting among what the user said since the last one;
3. messages with a statement that the recogniser takes for lasting, each at first with little more than that;
4. what the model names only now, of messages that a compaction before this one has seen;
5. the newest message;
6. answers to questions of a tool;
7. other messages, the newest first;
8. messages of questions alone and very short ones, the newest first;
9. what the user said again later in the same words.

So a model that obeys a hostile page can promote old small talk, but not above a rule that stands in the block by its
wording; and names of old messages count only up to the size of what the user said since (`naming.heeded`). A message
of one of the first four ranks is at least kept with its lasting statements, if it is not short. Of the others each is
at first shown up to one length, as long as all of them together allow: a pasted log never takes the room of messages
that were typed. The rest of what is long comes last, in the same order, and a message never takes more than a quarter
of the budget: its lasting statements, its beginning and its end. A model can add to the first ranks and never remove:
nothing but words of the user, and only by taking room, ever makes another message of the user give way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Literal

from msgspec import Struct

from sevenfold.layers.compact.recogniser import Recogniser, by_word_lists
from sevenfold.layers.compact.statements import Span, statements
from sevenfold.record.decisions import Lasting

Count = Callable[[str], int]
"""Counts the tokens of a text."""

_LONG_SHARE = 4
"""A message of more than the budget divided by this is never shown whole, unless everything fits."""
_SHORT_SHARE = 100
_SHORTEST = 60
"""A message of at most this many tokens, or a hundredth of the budget if that is more, is shown whole or not at all."""
_SMALL_TALK = 4
"""The most tokens of a message that counts as too short to instruct anything."""
HEAD = 2 / 3
"""Share of the room for both ends of a cut message that its beginning gets."""
_TRIES = 8
_TIGHTER = 0.8
_ASKS = re.compile(r"(?:[?？؟]|(?<=[\u0370-\u03ff])[;\u037e])[\"'”’»」』)\]]*$")
"""The end of a question; in Greek its mark looks like a semicolon."""


class Rank(IntEnum):
    """In which order messages get room when not all of them fit."""

    CARRIED = 0
    NAMED = 1
    RECOGNISED = 2
    NAMED_LATE = 3
    NEWEST = 4
    ANSWER = 5
    INSTRUCTION = 6
    OTHER = 7
    REPEATED = 8

    @property
    def plural(self) -> str:
        """What messages of this rank are called when they are counted."""
        return _PLURALS[self]


_PLURALS = {
    Rank.CARRIED: "lasting",
    Rank.NAMED: "lasting",
    Rank.RECOGNISED: "rules or decisions by their wording",
    Rank.NAMED_LATE: "lasting",
    Rank.NEWEST: "the newest",
    Rank.ANSWER: "answers",
    Rank.INSTRUCTION: "other requests",
    Rank.OTHER: "questions and short remarks",
    Rank.REPEATED: "said again later in the same words",
}


class UserMessage(Struct, frozen=True):
    """A message of the user as the record has it."""

    record: str
    text: str
    name: str
    """The short form of the record's id by which it is cited."""
    kind: Literal["message", "answer"] = "message"
    date: str = ""
    lasting: tuple[Lasting, ...] = ()
    """The parts that models named as lasting in earlier compactions."""
    named: tuple[Lasting, ...] = ()
    """The parts that the model of this compaction named."""
    shown: tuple[Span, ...] = ()
    """The parts that the summary message before showed; none if it is new, or if that is not known."""
    is_new: bool = True
    """Whether it was said since the last compaction."""
    offered: int = 0
    """In how many compactions before a model was asked whether it lasts, if it was left out there."""

    @property
    def marks(self) -> tuple[Lasting, ...]:
        """All parts named as lasting."""
        return (*self.lasting, *self.named)


class ShownMessage(Struct, frozen=True):
    """A message that is shown, and how."""

    message: UserMessage
    text: str
    rank: Rank
    lost: int = 0
    """How many of its characters are left out."""
    spans: tuple[Span, ...] = ()
    """The parts of it that are shown."""

    @classmethod
    def whole(cls, message: UserMessage, rank: Rank) -> ShownMessage:
        """A message that is shown whole."""
        return cls(message, message.text, rank, spans=((0, len(message.text)),))

    @classmethod
    def cut(cls, message: UserMessage, rank: Rank, spans: Sequence[Span]) -> ShownMessage:
        """A message of which these parts are shown."""
        lost = len(message.text) - sum(end - start for start, end in spans)
        return cls(message, excerpt(message.text, spans), rank, lost, tuple(spans))


class Selection(Struct, frozen=True):
    """Which of the user's messages are shown, in the order of the record, and which are not."""

    shown: tuple[ShownMessage, ...] = ()
    left_out: tuple[tuple[UserMessage, Rank], ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many messages of each sort are left out."""
        return dict(Counter(rank.plural for _, rank in self.left_out))

    @property
    def lasting_left_out(self) -> int:
        """How many messages that a model named as lasting found no room."""
        return sum(bool(message.marks) for message, _ in self.left_out)


def line(message: UserMessage, text: str) -> str:
    """A message as a line of the block."""
    return f"[{message.name}] {text}"


def fits(messages: Sequence[UserMessage], budget: int, count: Count) -> bool:
    """Whether all of them fit into the budget whole, so that nothing has to be chosen."""
    return sum(count(line(message, message.text)) + 1 for message in messages) <= budget


def select(
    messages: Sequence[UserMessage], budget: int, count: Count, recognise: Recogniser = by_word_lists
) -> Selection:
    """Choose what is shown within ``budget`` tokens; ``messages`` are in the order of the record.

    With `recogniser.nothing` only what models named, the newest message, answers and length decide.
    """
    if fits(messages, budget, count):
        return Selection(tuple(ShownMessage.whole(message, Rank.OTHER) for message in messages))
    if all(message.shown for message in messages):
        # The user has said nothing since the last compaction, so nothing is chosen again: neither what a model names
        # nor an estimate of sizes that has changed takes out what was shown.
        return Selection(
            tuple(ShownMessage.cut(message, Rank.OTHER, message.shown) for message in messages)
        )
    choice = _Choice(messages, budget, count, recognise)
    choice.take(choice.least, Rank.CARRIED)
    for rank in (Rank.NAMED, Rank.RECOGNISED, Rank.NAMED_LATE):
        # A little of each comes first: a pasted manual full of such statements costs no other message its rule.
        choice.take(partial(choice.brief, _SHORTEST), rank)
        choice.take(choice.least, rank)
    choice.take(choice.least, Rank.NEWEST)
    unnamed = (Rank.ANSWER, Rank.INSTRUCTION, Rank.OTHER, Rank.REPEATED)
    choice.take(partial(choice.brief, choice.level(unnamed)), *unnamed)
    choice.take(choice.most, *Rank)
    return choice.selection()


class _Wanted(Struct, frozen=True):
    """A message that would be shown if there is room."""

    message: UserMessage
    index: int
    """Its number in the order of the record."""
    rank: Rank
    spans: tuple[Span, ...]
    """Its lasting parts."""
    size: int
    """The tokens of its line if it is shown whole."""

    @property
    def key(self) -> tuple[int, int]:
        """Its place in the order in which messages get room.

        Those carried come in the order in which they were named: what is named later can never cost them their place.
        """
        if self.rank is Rank.CARRIED:
            return self.rank, min(mark.number for mark in self.message.lasting)
        return self.rank, -self.index


class _Choice:
    """What was chosen so far, and the room left."""

    def __init__(
        self, messages: Sequence[UserMessage], budget: int, count: Count, recognise: Recogniser
    ) -> None:
        self._count = count
        self._recognise = recognise
        self._room = budget
        self._longest = budget // _LONG_SHARE
        self._short = min(self._longest, max(_SHORTEST, budget // _SHORT_SHARE))
        self._newest = len(messages) - 1
        self._last_said = {message.text: index for index, message in enumerate(messages)}
        self._wanted = [self._want(message, index) for index, message in enumerate(messages)]
        self._order = sorted(self._wanted, key=lambda wanted: wanted.key)
        self._chosen: dict[str, tuple[ShownMessage, int]] = {}

    def _want(self, message: UserMessage, index: int) -> _Wanted:
        spans: Sequence[Span] = [(mark.start, mark.end) for mark in message.marks]
        if not spans:
            spans = recognised(message.text, self._recognise)
        size = self._size(message, message.text)
        return _Wanted(message, index, self._rank(message, index, spans), tuple(merged(spans)), size)

    def _rank(self, message: UserMessage, index: int, spans: Sequence[Span]) -> Rank:
        if message.lasting:
            return Rank.CARRIED
        if message.named:
            is_sure = message.is_new or bool(recognised(message.text, self._recognise))
            return Rank.NAMED if is_sure else Rank.NAMED_LATE
        if spans:
            return Rank.RECOGNISED
        if index == self._newest:
            return Rank.NEWEST
        if index < self._last_said[message.text]:
            return Rank.REPEATED
        if message.kind == "answer":
            return Rank.ANSWER
        if self._count(message.text) <= _SMALL_TALK or _only_asks(message.text):
            return Rank.OTHER
        return Rank.INSTRUCTION

    def _size(self, message: UserMessage, text: str) -> int:
        return self._count(line(message, text)) + 1

    def level(self, ranks: Collection[Rank]) -> int:
        """The largest number of tokens up to which all messages of these ranks can be shown; a short one is whole."""
        sizes = [wanted.size for wanted in self._order if wanted.rank in ranks]
        return min(self._longest, level(sizes, self._room, self._short))

    def brief(self, limit: int, wanted: _Wanted) -> ShownMessage:
        """A message in at most this many tokens, if need be by its first lasting statements or by its two ends."""
        if wanted.size <= limit:
            return ShownMessage.whole(wanted.message, wanted.rank)
        return self._cut(wanted, limit, ends=not wanted.spans)

    def least(self, wanted: _Wanted) -> ShownMessage:
        """The shortest form that keeps what lasts: a short message whole, of others only the lasting statements."""
        if wanted.size <= self._short:
            return ShownMessage.whole(wanted.message, wanted.rank)
        return self._cut(wanted, self._longest, ends=False)

    def most(self, wanted: _Wanted) -> ShownMessage:
        """The longest form it may have."""
        if wanted.size <= self._longest:
            return ShownMessage.whole(wanted.message, wanted.rank)
        return self._cut(wanted, self._longest, ends=True)

    def take(self, form: Callable[[_Wanted], ShownMessage], *ranks: Rank) -> None:
        """Show the messages of these ranks, in their order, in this form, as far as there is room.

        A message that another form was chosen for already is shown in the longer of both, if there is room for it.
        """
        for wanted in self._order:
            if wanted.rank in ranks:
                self._take(wanted, form(wanted))

    def _take(self, wanted: _Wanted, shown: ShownMessage) -> None:
        _, size_before = self._chosen.get(wanted.message.record, (None, 0))
        size = self._size(wanted.message, shown.text)
        if size_before < size <= size_before + self._room:
            self._room -= size - size_before
            self._chosen[wanted.message.record] = shown, size

    def selection(self) -> Selection:
        """What is shown and what is not, in the order of the record."""
        shown: list[ShownMessage] = []
        left_out: list[tuple[UserMessage, Rank]] = []
        for wanted in self._wanted:
            if wanted.message.record in self._chosen:
                shown.append(self._chosen[wanted.message.record][0])
            else:
                left_out.append((wanted.message, wanted.rank))
        return Selection(tuple(shown), tuple(left_out))

    def _cut(self, wanted: _Wanted, limit: int, *, ends: bool) -> ShownMessage:
        """A message cut to ``limit`` tokens: its lasting parts, with ``ends`` also its beginning and its end."""
        text = wanted.message.text
        # Counting is slow, so a cut is made by characters and counted; if it is too long, a tighter one follows.
        characters_per_token = len(text) / max(1, wanted.size)
        room = limit
        for _ in range(_TRIES):
            spans = _first_that_fit(wanted.spans, int(room * characters_per_token))
            if ends or not spans:
                spare = max(0, int(room * characters_per_token) - sum(end - start for start, end in spans))
                spans = merged([*spans, *_ends(text, spare)])
            shown = excerpt(text, spans)
            if self._size(wanted.message, shown) <= limit:
                break
            room = int(room * _TIGHTER)
        return ShownMessage.cut(wanted.message, wanted.rank, spans)


def _ends(text: str, characters: int) -> tuple[Span, Span]:
    """The beginning and the end of a text in this many characters, cut between statements or at least words."""
    head = int(characters * HEAD)
    tail = len(text) - (characters - head)
    spans = [statement.span for statement in statements(text)]
    # Where a border is too far away, more would be lost than a cut sentence is worth.
    head_ends = [end for _, end in spans if head / 2 <= end <= head]
    tail_starts = [start for start, _ in spans if tail <= start <= (tail + len(text)) / 2]
    beginning = max(head_ends, default=0) or _word_end(text, head)
    end = min(tail_starts, default=0) or _word_start(text, tail)
    return (0, beginning), (end, len(text))


def _word_end(text: str, limit: int) -> int:
    """The last end of a word up to a limit; the limit itself in a script without spaces."""
    border = max(text.rfind(" ", limit // 2, limit), text.rfind("\n", limit // 2, limit))
    return limit if border < 0 else border


def _word_start(text: str, limit: int) -> int:
    """The first beginning of a word from a limit on; the limit itself in a script without spaces."""
    until = (limit + len(text)) // 2
    borders = [border for space in " \n" if (border := text.find(space, limit, until)) >= 0]
    return min(borders) + 1 if borders else limit


def level(sizes: Sequence[int], room: int, minimum: int) -> int:
    """The largest size to which the larger ones can be cut so that all fit together, but at least ``minimum``."""
    levels = range(minimum, max(sizes, default=0) + 1)
    if not levels or sum(min(size, minimum) for size in sizes) > room:
        return minimum
    return levels[bisect_right(levels, room, key=lambda level: sum(min(size, level) for size in sizes)) - 1]


def _only_asks(text: str) -> bool:
    """Whether a message is nothing but questions; a rule with a question behind it is none."""
    spans = [statement.span for statement in statements(text)]
    return all(_ASKS.search(text[start:end].rstrip()) for start, end in spans)


def _first_that_fit(spans: Iterable[Span], characters: int) -> list[Span]:
    """As many of the parts as fit, the first ones first; if not even one does, the beginning of the first."""
    chosen: list[Span] = []
    for start, end in spans:
        if end - start <= characters:
            chosen.append((start, end))
            characters -= end - start
        elif not chosen:
            chosen.append((start, start + characters))
            characters = 0
    return chosen


def merged(spans: Iterable[Span]) -> list[Span]:
    """These parts of a text in order, joined where they touch, without empty ones."""
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def excerpt(text: str, spans: Sequence[Span]) -> str:
    """Parts of a text, to the letter, with the number of characters left out between them."""
    pieces: list[str] = []
    shown_to = 0
    for start, end in (*spans, (len(text), len(text))):
        if text[shown_to:start].strip():
            pieces.append(f"[… {start - shown_to:,} characters …]")
        pieces.append(text[start:end])
        shown_to = end
    return " ".join(piece for piece in pieces if piece)


def recognised(text: str, recognise: Recogniser) -> list[Span]:
    """The parts of a message whose statements look lasting."""
    spans: list[Span] = []
    for statement in statements(text):
        if recognise(statement.text(text)):
            spans += statement.spans
    return merged(spans)


# -- the block -----------------------------------------------------------------------------------


def block(selection: Selection) -> str:
    """The lines of the block; a later word that replaces an earlier one follows it directly, with its date."""
    later: dict[str, list[ShownMessage]] = {}
    shown_records = {entry.message.record for entry in selection.shown}
    follows: set[str] = set()
    for entry in selection.shown:
        replaced = (mark.replaces for mark in entry.message.marks)
        older = next((record for record in replaced if record in shown_records), "")
        if older:
            later.setdefault(older, []).append(entry)
            follows.add(entry.message.record)
    lines: list[str] = []

    def put(entry: ShownMessage, *, dated: bool) -> None:
        message = entry.message
        name = f"{message.name}, {message.date}" if dated and message.date else message.name
        lines.append(f"[{name}] {entry.text}")
        for newer in later.get(message.record, ()):
            put(newer, dated=True)

    for entry in selection.shown:
        if entry.message.record not in follows:
            put(entry, dated=False)
    return "\n".join(lines)
