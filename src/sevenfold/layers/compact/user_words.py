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
wording; and names of old messages count only up to the size of what the user said since (`heeded`). A message of one
of the first four ranks is at least kept with its lasting statements, if it is not short. Of
the others each is at first shown up to one length, as long as all of them together allow: a pasted log never takes the
room of messages that were typed. The rest of what is long comes last, in the same order, and a message never takes
more than a quarter of the budget: its lasting statements, its beginning and its end. A model can add to the first
ranks and never remove: nothing but words of the user, and only by taking room, ever makes another message of the user
give way.

**What the summarising call is asked.** If the words exceed the budget, `listing` puts into the instruction every
message that is not yet lasting: a line `[id] text`, or for a long message a line `[id.n] text` for each of its
statements, numbered from 1; lines are cut where room is short, and if even short lines find none, messages that were
offered least often and are the oldest come first. The model answers behind its summary:

    <lasting>
    [3f2a91c4] forbids
    [77aa0b12.4] decides
    [90bc11ef] corrects [3f2a91c4]
    </lasting>

An id of the list, a word for what the message does (sets a rule, allows, forbids, decides, corrects, defines: any word
is stored as given), and optionally the id of an earlier message that it replaces. `named` reads those lines; ids that
are not in the list are ignored, so is everything else, and code copies the words from the record.
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
from msgspec.structs import replace

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
_HEAD = 2 / 3
"""Share of the room for both ends of a cut message that its beginning gets."""
_LISTED_WHOLE = 150
"""A message of more tokens is listed statement by statement."""
_LEAST_LISTED = 24
"""The tokens to which a line of the list for the model is cut at most."""
_NAME = 8
"""Tokens of the id in front of such a line."""
_TRIES = 8
_TIGHTER = 0.8
_ASKS = re.compile(r"(?:[?？؟]|(?<=[\u0370-\u03ff])[;\u037e])[\"'”’»」』)\]]*$")
"""The end of a question; in Greek its mark looks like a semicolon."""
_NAMED = re.compile(
    r"^[\s>*-]*\[?(?P<id>[^\[\]\s:]+)\]?[\s:–—-]*(?P<kind>[^\[\]\n]{0,40})[^\[\]\n]*(?:\[(?P<old>[^\[\]\s]+)\].*)?$"
)


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


class Kept(Struct, frozen=True):
    """A message that is shown, and how."""

    message: UserMessage
    text: str
    rank: Rank
    lost: int = 0
    """How many of its characters are left out."""
    spans: tuple[Span, ...] = ()
    """The parts of it that are shown."""

    @classmethod
    def whole(cls, message: UserMessage, rank: Rank) -> Kept:
        """A message that is shown whole."""
        return cls(message, message.text, rank, spans=((0, len(message.text)),))

    @classmethod
    def cut(cls, message: UserMessage, rank: Rank, spans: Sequence[Span]) -> Kept:
        """A message of which these parts are shown."""
        lost = len(message.text) - sum(end - start for start, end in spans)
        return cls(message, excerpt(message.text, spans), rank, lost, tuple(spans))


class Selection(Struct, frozen=True):
    """Which of the user's messages are shown, in the order of the record, and which are not."""

    kept: tuple[Kept, ...] = ()
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
        return Selection(tuple(Kept.whole(message, Rank.OTHER) for message in messages))
    if all(message.shown for message in messages):
        # The user has said nothing since the last compaction, so nothing is chosen again: neither what a model names
        # nor an estimate of sizes that has changed takes out what was shown.
        return Selection(tuple(Kept.cut(message, Rank.OTHER, message.shown) for message in messages))
    choice = _Choice(messages, budget, count, recognise)
    choice.take(choice.least, Rank.CARRIED)
    for rank in (Rank.NAMED, Rank.RECOGNISED, Rank.NAMED_LATE):
        # A little of each comes first: a pasted manual full of such statements costs no other message its rule.
        choice.take(partial(choice.brief, _SHORTEST), rank)
        choice.take(choice.least, rank)
    choice.take(choice.least, Rank.NEWEST)
    rest = (Rank.ANSWER, Rank.INSTRUCTION, Rank.OTHER, Rank.REPEATED)
    choice.take(partial(choice.brief, choice.level(rest)), *rest)
    choice.take(choice.most, *Rank)
    return choice.selection()


class _Wanted(Struct, frozen=True):
    """A message that would be shown if there is room."""

    message: UserMessage
    place: int
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
        return self.rank, -self.place


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
        self._last_said = {message.text: place for place, message in enumerate(messages)}
        self._wanted = [self._want(message, place) for place, message in enumerate(messages)]
        self._order = sorted(self._wanted, key=lambda wanted: wanted.key)
        self._chosen: dict[str, tuple[Kept, int]] = {}

    def _want(self, message: UserMessage, place: int) -> _Wanted:
        spans: Sequence[Span] = [(mark.start, mark.end) for mark in message.marks]
        if not spans:
            spans = recognised(message.text, self._recognise)
        size = self._size(message, message.text)
        return _Wanted(message, place, self._rank(message, place, spans), tuple(merged(spans)), size)

    def _rank(self, message: UserMessage, place: int, spans: Sequence[Span]) -> Rank:
        if message.lasting:
            return Rank.CARRIED
        if message.named:
            is_sure = message.is_new or bool(recognised(message.text, self._recognise))
            return Rank.NAMED if is_sure else Rank.NAMED_LATE
        if spans:
            return Rank.RECOGNISED
        if place == self._newest:
            return Rank.NEWEST
        if place < self._last_said[message.text]:
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
        return min(self._longest, _level(sizes, self._room, self._short))

    def brief(self, most: int, wanted: _Wanted) -> Kept:
        """A message in at most this many tokens, if need be by its first lasting statements or by its two ends."""
        if wanted.size <= most:
            return Kept.whole(wanted.message, wanted.rank)
        return self._cut(wanted, most, ends=not wanted.spans)

    def least(self, wanted: _Wanted) -> Kept:
        """The shortest form that keeps what lasts: a short message whole, of others only the lasting statements."""
        if wanted.size <= self._short:
            return Kept.whole(wanted.message, wanted.rank)
        return self._cut(wanted, self._longest, ends=False)

    def most(self, wanted: _Wanted) -> Kept:
        """The longest form it may have."""
        if wanted.size <= self._longest:
            return Kept.whole(wanted.message, wanted.rank)
        return self._cut(wanted, self._longest, ends=True)

    def take(self, form: Callable[[_Wanted], Kept], *ranks: Rank) -> None:
        """Show the messages of these ranks, in their order, in this form, as far as there is room.

        A message that another form was chosen for already is shown in the longer of both, if there is room for it.
        """
        for wanted in self._order:
            if wanted.rank in ranks:
                self._take(wanted, form(wanted))

    def _take(self, wanted: _Wanted, kept: Kept) -> None:
        _, taken = self._chosen.get(wanted.message.record, (None, 0))
        size = self._size(wanted.message, kept.text)
        if taken < size <= taken + self._room:
            self._room -= size - taken
            self._chosen[wanted.message.record] = kept, size

    def selection(self) -> Selection:
        """What is shown and what is not, in the order of the record."""
        kept: list[Kept] = []
        left_out: list[tuple[UserMessage, Rank]] = []
        for wanted in self._wanted:
            if wanted.message.record in self._chosen:
                kept.append(self._chosen[wanted.message.record][0])
            else:
                left_out.append((wanted.message, wanted.rank))
        return Selection(tuple(kept), tuple(left_out))

    def _cut(self, wanted: _Wanted, most: int, *, ends: bool) -> Kept:
        """A message cut to ``most`` tokens: its lasting parts, with ``ends`` also its beginning and its end."""
        text = wanted.message.text
        each = len(text) / max(1, wanted.size)  # characters in a token
        room = most
        for _ in range(_TRIES):
            spans = _first_that_fit(wanted.spans, int(room * each))
            if ends or not spans:
                spare = max(0, int(room * each) - sum(end - start for start, end in spans))
                spans = merged([*spans, *_ends(text, spare)])
            shown = excerpt(text, spans)
            if self._size(wanted.message, shown) <= most:
                break
            room = int(room * _TIGHTER)
        return Kept.cut(wanted.message, wanted.rank, spans)


def _ends(text: str, characters: int) -> tuple[Span, Span]:
    """The beginning and the end of a text in this many characters, cut between statements or at least words."""
    head = int(characters * _HEAD)
    tail = len(text) - (characters - head)
    spans = [statement.span for statement in statements(text)]
    # Where a border is too far away, more would be lost than a cut sentence is worth.
    head_ends = [end for _, end in spans if head / 2 <= end <= head]
    tail_starts = [start for start, _ in spans if tail <= start <= (tail + len(text)) / 2]
    beginning = max(head_ends, default=0) or _word_end(text, head)
    end = min(tail_starts, default=0) or _word_start(text, tail)
    return (0, beginning), (end, len(text))


def _word_end(text: str, place: int) -> int:
    """The last end of a word up to a place; the place itself in a script without spaces."""
    border = max(text.rfind(" ", place // 2, place), text.rfind("\n", place // 2, place))
    return place if border < 0 else border


def _word_start(text: str, place: int) -> int:
    """The first beginning of a word from a place on; the place itself in a script without spaces."""
    until = (place + len(text)) // 2
    borders = [border for space in " \n" if (border := text.find(space, place, until)) >= 0]
    return min(borders) + 1 if borders else place


def _only_asks(text: str) -> bool:
    """Whether a message is nothing but questions; a rule with a question behind it is none."""
    parts = [text[start:end] for start, end in (statement.span for statement in statements(text))]
    return all(_ASKS.search(part.rstrip()) for part in parts)


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
    place = 0
    for start, end in (*spans, (len(text), len(text))):
        if text[place:start].strip():
            pieces.append(f"[… {start - place:,} characters …]")
        pieces.append(text[start:end])
        place = end
    return " ".join(piece for piece in pieces if piece)


def recognised(text: str, recognise: Recogniser) -> list[Span]:
    """The parts of a message whose statements look lasting."""
    spans: list[Span] = []
    for statement in statements(text):
        if recognise(statement.text(text)):
            spans += statement.spans
    return merged(spans)


# -- what the model of a summary is asked ------------------------------------------------------------


class OfferedWords(Struct, frozen=True):
    """The list of messages of which a model is asked to name those that last."""

    text: str = ""
    records: frozenset[str] = frozenset()
    """The records of the messages in it."""
    is_complete: bool = True
    """Whether every message that is not lasting yet found room in it."""


def listing(
    messages: Sequence[UserMessage],
    budget: int,
    count: Count,
    room: int,
    most: int,
    records: Collection[str] | None = None,
) -> OfferedWords:
    """What could be left out, by id; nothing if everything fits into the budget.

    Long lines are cut until all take about ``room`` tokens; if short ones take more than ``most``, some find no room.

    Everything that is not lasting yet is listed, not only what would be left out as things stand: what a model names
    takes the room of something else, which must have had its chance too. ``records`` limits it to some of them.
    """
    if fits(messages, budget, count):
        return OfferedWords()
    asked = [message for message in messages if records is None or message.record in records]
    lines_of = {message.record: lines for message in asked if (lines := _lines(message, count))}
    sizes_of = {record: [count(text) for _, text in lines] for record, lines in lines_of.items()}
    left = most
    listed: set[str] = set()
    for message in sorted(asked, key=_times_offered):
        if message.record in lines_of:
            least = sum(min(size, _LEAST_LISTED) + _NAME for size in sizes_of[message.record])
            if least <= left:
                left -= least
                listed.add(message.record)
    sizes = [size for record in lines_of if record in listed for size in sizes_of[record]]
    most = _level(sizes, room - _NAME * len(sizes), _LEAST_LISTED)
    text = "\n".join(
        f"[{name}] {_shortened(line, most, count)}"
        for record, lines in lines_of.items()
        if record in listed
        for name, line in lines
    )
    return OfferedWords(text, frozenset(listed), len(listed) == len(lines_of))


def _times_offered(message: UserMessage) -> int:
    """How often a model has seen it in such a list; what a summary showed was listed when it was new."""
    return message.offered + bool(message.shown)


def _lines(message: UserMessage, count: Count) -> list[tuple[str, str]]:
    """A message in the list: the ids of what is not lasting yet, each with its text."""
    if count(message.text) <= _LISTED_WHOLE:
        return [] if message.lasting else [(message.name, " ".join(message.text.split()))]
    lines: list[tuple[str, str]] = []
    for number, statement in enumerate(statements(message.text), 1):
        start, end = statement.span
        if not any(mark.start <= start and end <= mark.end for mark in message.lasting):
            lines.append((f"{message.name}.{number}", " ".join(message.text[start:end].split())))
    return lines


def _level(sizes: Sequence[int], room: int, least: int) -> int:
    """The largest size to which the larger ones can be cut so that all fit together, but never less than ``least``."""
    levels = range(least, max(sizes, default=0) + 1)
    if not levels or sum(min(size, least) for size in sizes) > room:
        return least
    return levels[bisect_right(levels, room, key=lambda level: sum(min(size, level) for size in sizes)) - 1]


def _shortened(text: str, most: int, count: Count) -> str:
    size = count(text)
    if size <= most:
        return text
    characters = int(len(text) * most / size)
    head = int(characters * _HEAD)
    return f"{text[:head]} … {text[len(text) - (characters - head) :]}"


def named(lines: Iterable[str], messages: Sequence[UserMessage]) -> list[UserMessage]:
    """The messages with the marks that a model's lines give them; the lines that name none of them are ignored."""
    by_name = {message.name: place for place, message in enumerate(messages)}
    marked = list(messages)
    number = 1 + max((mark.number for message in messages for mark in message.marks), default=0)
    for told in lines:
        match = _NAMED.match(told.strip())
        place, spans = _meant(match["id"], messages, by_name) if match else (-1, ())
        if match is None or place < 0:
            continue
        older = by_name.get(match["old"] or "", place)
        # Only an earlier message can be replaced.
        replaces = messages[older].record if older < place else ""
        kind = match["kind"].strip(" :.,–—-")
        known = [(mark.start, mark.end) for mark in marked[place].marks]
        new = [
            span for span in spans if not any(start <= span[0] and span[1] <= end for start, end in known)
        ]
        if new:
            marks = (Lasting(*span, kind=kind, replaces=replaces, number=number) for span in new)
            marked[place] = replace(marked[place], named=(*marked[place].named, *marks))
            number += 1
    return marked


def heeded(
    messages: Sequence[UserMessage], count: Count, recognise: Recogniser = by_word_lists
) -> list[UserMessage]:
    """The messages without the names that a model gives too late: to more of the older ones than the user said since.

    A model that obeys a hostile page may call all old small talk lasting, in this compaction and in the next ones. So
    names of what a compaction before this one has seen count only up to the size of what is new: whatever a model
    names, no more gives way to it than to the user's own words.
    """
    room = sum(count(line(message, message.text)) for message in messages if message.is_new)
    late: list[tuple[bool, int, int, Lasting]] = []
    for place, message in enumerate(messages):
        for mark in () if message.is_new else message.named:
            statement = message.text[mark.start : mark.end]
            late.append((not recognise(statement), count(line(message, statement)), place, mark))
    marked = list(messages)
    # Rules are short, and a pasted log has many lines.
    for _, size, place, mark in sorted(late, key=lambda entry: entry[:3]):
        if size <= room:
            room -= size
        else:
            kept = tuple(other for other in marked[place].named if other is not mark)
            marked[place] = replace(marked[place], named=kept)
    return marked


def _meant(
    name: str, messages: Sequence[UserMessage], by_name: Mapping[str, int]
) -> tuple[int, tuple[Span, ...]]:
    """The place of the message that an id names, and the parts of it; -1 if there is none."""
    if (place := by_name.get(name)) is not None:
        return place, ((0, len(messages[place].text)),)
    name, _, number = name.rpartition(".")
    place = by_name.get(name, -1)
    parts = statements(messages[place].text) if place >= 0 and number.isdecimal() else []
    if not parts or not 0 < int(number) <= len(parts):
        return -1, ()
    return place, parts[int(number) - 1].spans


# -- the block -----------------------------------------------------------------------------------


def block(selection: Selection) -> str:
    """The lines of the block; a later word that replaces an earlier one stands right behind it, with its date."""
    later: dict[str, list[Kept]] = {}
    shown = {kept.message.record: kept for kept in selection.kept}
    follows: set[str] = set()
    for kept in selection.kept:
        older = next((mark.replaces for mark in kept.message.marks if mark.replaces in shown), "")
        if older:
            later.setdefault(older, []).append(kept)
            follows.add(kept.message.record)
    lines: list[str] = []

    def put(kept: Kept, *, dated: bool) -> None:
        message = kept.message
        shown_name = f"{message.name}, {message.date}" if dated and message.date else message.name
        lines.append(f"[{shown_name}] {kept.text}")
        for newer in later.get(message.record, ()):
            put(newer, dated=True)

    for kept in selection.kept:
        if kept.message.record not in follows:
            put(kept, dated=False)
    return "\n".join(lines)
