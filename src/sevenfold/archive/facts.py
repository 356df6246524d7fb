"""What left the context and matters, as text of a given length: for an agent whose own compaction hid it.

The facts come from the whole history, not from the context: what was brought back after an earlier compaction is gone
after the next one. Nothing is listed that the context still shows, and nothing twice. No model is asked; the same
records give the same text.

There are three parts, because programs limit the text of each hook, not of all of them:

words   what the user said and allowed, and the work that is open
things  changed and used files, and names that must be spelt exactly
state   failures, the current step, and how each piece of work ended

What finds no room in its own part may stand in another one that has room left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, get_args

from msgspec import Struct

from sevenfold.layers.compact.extract import facts as extracted
from sevenfold.layers.compact.extract.notation import Facts, File, FoundError, QuotedMessage
from sevenfold.layers.compact.recogniser import by_word_lists
from sevenfold.layers.compact.user_words import excerpt, merged, recognised
from sevenfold.record.blocks import THINKING, ToolUse, read_fields, words_of
from sevenfold.record.layout import Item
from sevenfold.record.view import View

Part = Literal["words", "things", "state"]
PARTS: tuple[Part, ...] = get_args(Part)
SHARES: Mapping[Part, float] = {"words": 0.5, "things": 0.25, "state": 0.25}
"""The shares of the parts where one text has to hold all three."""

SHORT = 14
"""A message of at most this many characters occurs elsewhere by chance, so only a whole line counts as the same."""
_RESERVED = 0.12
"""Share of the room for the user's words that is kept for sentences of messages that had to be cut."""
_LEAST_SHOWN = 240
"""Characters of a message below which it is not cut further; the oldest messages give way instead."""
_EDGE = 90
"""Characters of the beginning and the end of a cut message that are shown at least."""
_STEP_LINES = 12
"""How many of the newest events the current step takes before failures get room."""

_MESSAGES = "What the user said, oldest first:"
_ANSWERS = "What the user answered when asked:"
_AGREED = "What the user allowed or refused:"
_OPEN = "Open work:"
_WISHES = "Sentences of the user that correct or rule something:"
_CHANGED = "Files changed:"
_USED = "Files used:"
_NAMES = "Names, to the letter:"
_FAILURES = "Failures not settled since:"
_SETTLED = "Failures settled since:"
_STEP = "The newest events before this point, oldest first:"
_NEXT = "What the model said it would do next:"
_ENDED = "The model's last words in each piece of work, newest first:"
_COMMANDS = "Commands and how their last run ended:"
_SAID_IN_EVENT = re.compile(r"the (?:user|model) said: “(.*?)…?” \[[^\]]*\]$", re.DOTALL)
_ORDER = (
    *(_MESSAGES, _ANSWERS, _AGREED, _OPEN, _WISHES),
    *(_CHANGED, _USED, _NAMES),
    *(_FAILURES, _STEP, _NEXT, _SETTLED, _ENDED, _COMMANDS),
)
_SECONDARY = frozenset({_USED, _SETTLED, _ENDED, _COMMANDS})
"""Lists that get room only when everything else had its chance."""
_INLINE = frozenset({_NAMES})
"""Lists whose entries stand behind each other instead of each on a line of its own."""
_FILLED_FROM_THE_END = frozenset({_STEP})
"""Lists whose newest entries get room first, and that are shown oldest first."""


class Entry(Struct, frozen=True):
    """An entry of a list in a part."""

    heading: str
    text: str
    looked_for: str
    """The text which, if the context has it, need not be brought back."""
    exact: bool = False
    """Whether only a whole word counts, as for files and names."""
    record: str = ""
    """The record that says it, if the text here is not the text there."""
    cut: Callable[[], Entry] | None = None
    """Makes the entry that is shown, for one that takes long to cut: until then, no more of the text than it has."""


class StillSeen(Struct, frozen=True):
    """What the model still sees."""

    texts: Sequence[str] = ()
    records: frozenset[str] = frozenset()
    """The ids of the records that it sees unchanged."""

    @classmethod
    def of(cls, view: View) -> StillSeen:
        """What the model sees in this view."""
        visible = (item.record.uuid for item in view.items if view.fate(item.record.uuid).state == "seen")
        return cls(tuple(_visible_texts(view)), frozenset(visible))


class ShownTexts:
    """What the model sees already, and what was chosen so far."""

    def __init__(self, context: StillSeen) -> None:
        self._records = context.records
        self._folded = "\n".join(map(folded, context.texts))
        self._lines = {*map(folded, chain.from_iterable(map(str.splitlines, context.texts)))}

    def holds(self, entry: Entry) -> bool:
        """Whether this entry need not be brought back."""
        return entry.record in self._records or self.has(entry.looked_for, exact=entry.exact)

    def has(self, text: str, *, exact: bool = False) -> bool:
        """Whether this text is shown, case and white space aside."""
        wanted = folded(text)
        if not exact and len(wanted) <= SHORT:
            return wanted in self._lines
        start = self._folded.find(wanted)
        while start >= 0 and exact and _inside_a_word(self._folded, start, start + len(wanted)):
            start = self._folded.find(wanted, start + 1)
        return start >= 0

    def add(self, text: str) -> None:
        """Count this text as shown."""
        self._folded += f"\n{folded(text)}"
        self._lines.add(folded(text))


class _Block:
    """A part as it is filled."""

    def __init__(self, room: int) -> None:
        self._lists: dict[str, list[str]] = {}
        self.room = room

    def add(self, entry: Entry) -> bool:
        """Add an entry if there is room for it; returns whether there was."""
        if not self.fits(entry):
            return False
        self.room -= self._size(entry)
        self._lists.setdefault(entry.heading, []).append(entry.text)
        return True

    def fits(self, entry: Entry) -> bool:
        """Whether there is room for an entry."""
        return self._size(entry) <= self.room

    def _size(self, entry: Entry) -> int:
        separator = " · " if entry.heading in _INLINE else "\n- "
        size = len(entry.text) + len(separator)
        if entry.heading not in self._lists:
            size += len(entry.heading) + len("\n\n")
        return size

    def text(self) -> str:
        """The lists of this part, in their order."""
        lists = []
        for heading in _ORDER:
            entries = self._lists.get(heading)
            if not entries:
                continue
            if heading in _FILLED_FROM_THE_END:
                entries = entries[::-1]
            if heading in _INLINE:
                lists.append(f"{heading}\n{' · '.join(entries)}")
            else:
                lists.append("\n".join([heading, *(f"- {entry}" for entry in entries)]))
        return "\n\n".join(lists)


def parts(items: Sequence[Item], context: StillSeen, rooms: Mapping[Part, int]) -> dict[Part, str]:
    """What left the context, within so many characters in each part; empty where nothing did.

    ``items`` are the records of the whole conversation.
    """
    return select(extracted(items), items[-1].record.uuid if items else "", context, rooms)


def select(facts: Facts, newest: str, context: StillSeen, rooms: Mapping[Part, int]) -> dict[Part, str]:
    """Like `parts`, of facts that were extracted before; ``newest`` is the id of the newest record."""
    shown = ShownTexts(context)
    blocks = {part: _Block(rooms.get(part, 0)) for part in PARTS}
    entries_by_part: dict[Part, Iterable[Entry]] = {
        "words": _words(facts, shown, rooms.get("words", 0)),
        "things": _things(facts),
        "state": _state(facts, step_left=newest not in context.records),
    }
    primary: list[tuple[Part, Entry]] = []
    secondary: list[tuple[Part, Entry]] = []
    for part, entries in entries_by_part.items():
        for entry in entries:
            (secondary if entry.heading in _SECONDARY else primary).append((part, entry))
    for chosen in (primary, secondary):
        left_over = _fill(blocks, chosen, shown)
        # What finds no room in its own part may stand in another.
        for entry in left_over:
            for part in PARTS:
                if not _fill(blocks, [(part, entry)], shown):
                    break
    return {part: block.text() for part, block in blocks.items()}


def _fill(
    blocks: Mapping[Part, _Block], chosen: Iterable[tuple[Part, Entry]], shown: ShownTexts
) -> list[Entry]:
    """Put entries that are not shown yet into their parts; returns those for which there is no room."""
    left_over = []
    for part, candidate in chosen:
        entry = candidate
        # Whether it fits comes first, because cutting it or looking for it among what is shown takes far longer.
        if entry.cut and blocks[part].fits(entry):
            entry = entry.cut()
        if not blocks[part].fits(entry):
            left_over.append(entry)
        elif not shown.holds(entry):
            blocks[part].add(entry)
            shown.add(entry.text)
    return left_over


def rooms(characters: int, *, split: bool) -> dict[Part, int]:
    """The room of each part: so many characters each or, if they are ``split``, together."""
    if not split:
        return dict.fromkeys(PARTS, characters)
    between = 2 * len("\n\n")
    return {part: int(max(0, characters - between) * share) for part, share in SHARES.items()}


def _visible_texts(view: View) -> Iterator[str]:
    """The texts that the model sees, one for each block that has any."""
    for item in view.items:
        for block in item.shown:
            if isinstance(body := block.body(), ToolUse):
                yield from _strings(read_fields(body.input))
            elif block.kind not in THINKING:
                yield words_of(block)


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for field in value.values():
                yield from _strings(field)
        case list():
            for element in value:
                yield from _strings(element)


# -- the user's words, permissions, open work -----------------------------------------------------


def _words(facts: Facts, shown: ShownTexts, room: int) -> Iterator[Entry]:
    opening = [*_open_work(facts), *_agreements(facts)]
    yield from opening
    used = sum(len(entry.text) + 3 for entry in opening if not shown.has(entry.looked_for))
    newest: dict[str, QuotedMessage] = {}
    for message in facts.messages:
        newest.pop(folded(message.head), None)
        newest[folded(message.head)] = message
    messages = [message for text, message in newest.items() if not shown.has(text)]
    answers = [
        QuotedMessage(reply.record, reply.text) for reply in facts.replies if not shown.has(reply.text)
    ]
    remaining = int((room - used) * (1 - _RESERVED)) - len(_MESSAGES) - len(_ANSWERS)
    longest = _longest([*messages, *answers], remaining)
    # Where not even short excerpts of all messages fit, the oldest are the last to get room.
    for message in _kept_in_order(messages, longest, remaining):
        yield _message(_MESSAGES, message, facts, longest)
    for answer in answers:
        yield _message(_ANSWERS, answer, facts, longest)
    for correction in facts.corrections:
        yield Entry(_WISHES, _line(correction.text), correction.text)
    for permission in facts.permissions:
        if not permission.proposal:
            yield Entry(_WISHES, _line(permission.text), permission.text)


def _open_work(facts: Facts) -> Iterator[Entry]:
    for task in facts.tasks:
        doing = " (under way)" if task.doing else ""
        yield Entry(_OPEN, f"{_line(task.text)}{doing}", task.text)


def _agreements(facts: Facts) -> Iterator[Entry]:
    for permission in facts.permissions:
        if permission.proposal:
            answer = "yes" if permission.granted else "no"
            text = f"{answer}: “{_line(permission.text)}” to “{_line(permission.proposal)}”"
            yield Entry(_AGREED, text, permission.proposal)


def _longest(messages: Sequence[QuotedMessage], room: int) -> int:
    """The length to which messages are cut so that all of them fit; short ones leave their room to long ones."""
    sizes = sorted(len(message.head) + 3 for message in messages)
    for number, size in enumerate(sizes):
        fair_share = room // (len(sizes) - number)
        if size > fair_share:
            return max(_LEAST_SHOWN, fair_share)
        room -= size
    return sizes[-1] if sizes else 0


def _kept_in_order(messages: Sequence[QuotedMessage], longest: int, room: int) -> list[QuotedMessage]:
    """The newest messages that fit if each is cut to ``longest``, in the order of the record, then the others."""
    fitting = len(messages)
    for message in reversed(messages):
        room -= min(len(message.head), longest) + 3
        if room < 0:
            break
        fitting -= 1
    return [*messages[fitting:], *reversed(messages[:fitting])]


def _message(heading: str, message: QuotedMessage, facts: Facts, longest: int) -> Entry:
    text = message.head
    if len(text) <= longest:
        return Entry(heading, _indented(text), text)

    def cut() -> Entry:
        record = f"[{facts.name(message.record)}] "
        return Entry(heading, _indented(record + _cut(text, longest - len(record))), text)

    return Entry(heading, text[:_EDGE], text, cut=cut)


def _indented(text: str) -> str:
    return "\n  ".join(line.rstrip() for line in text.splitlines() if line.strip())


def _cut(text: str, longest: int) -> str:
    """The beginning, the end and the lasting statements of a message, each to the letter."""
    ends = [(0, _EDGE), (len(text) - _EDGE, len(text))]
    spans = merged(ends)
    for span in recognised(text, by_word_lists):
        with_span = merged([*spans, span])
        if len(excerpt(text, with_span)) <= longest:
            spans = with_span
    spare = longest - len(excerpt(text, spans))
    if spare > 0:
        widened = merged([*spans, (0, _EDGE + spare)])
        if len(excerpt(text, widened)) <= longest:
            spans = widened
    return excerpt(text, spans)


# -- files and names --------------------------------------------------------------------------------


def _things(facts: Facts) -> Iterator[Entry]:
    changed = [file for file in facts.files if file.changed]
    for file in changed:
        yield _file(_CHANGED, file)
    for name in facts.identifiers:
        yield Entry(_NAMES, name.text, name.text, exact=True)
    for file in facts.files:
        if not file.changed:
            yield _file(_USED, file)


def _file(heading: str, file: File) -> Entry:
    return Entry(heading, file.path, file.path, exact=True)


# -- failures and the current step ------------------------------------------------------------------


def _state(facts: Facts, *, step_left: bool) -> Iterator[Entry]:
    # While the newest record is in the context, so is the current step.
    if step_left:
        for event in facts.current[: -_STEP_LINES - 1 : -1]:
            yield _event(event.removeprefix("- "))
    for problem in facts.problems:
        if not problem.settled:
            yield _failure(_FAILURES, problem)
    for problem in facts.problems:
        if problem.settled:
            yield _failure(_SETTLED, problem)
    for announced in facts.pending if step_left else ():
        yield Entry(_NEXT, _line(announced.text), announced.text)
    for outcome in reversed(facts.outcomes):
        text = outcome.text.removesuffix("…")
        yield Entry(_ENDED, _line(outcome.text), text, record=outcome.record)
    for command in facts.commands:
        yield Entry(_COMMANDS, f"{command.state}: {command.line}", command.line, record=command.record)


def _event(event: str) -> Entry:
    """A line about an event; what was said in it is not repeated if it is shown anyway."""
    quotation = _SAID_IN_EVENT.match(event)
    return Entry(_STEP, event, quotation[1] if quotation else event)


def _failure(heading: str, problem: FoundError) -> Entry:
    return Entry(heading, f"{problem.tool}: {problem.lines}", problem.lines, record=problem.record)


# -- texts ---------------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """The text with its white space joined, without regard to case."""
    return " ".join(text.split()).casefold()


def _line(text: str) -> str:
    return " ".join(text.split())


def _inside_a_word(text: str, start: int, end: int) -> bool:
    """Whether a stretch of text begins or ends within a longer name."""
    character_before = text[start - 1 : start] if start else ""
    character_behind = text[end : end + 1]
    return (character_before.isalnum() and text[start].isalnum()) or (
        character_behind.isalnum() and text[end - 1].isalnum()
    )
