"""One look for lasting facts: the user's messages it is about, how they are shown to a model, and what it answers.

The model names messages by number and earlier statements by a short handle, so both are shown with these. A fork sees
the conversation and needs only the beginning of each message; a plain call is shown the messages, and a sentence of the
answers around each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.remember.answers import Tagged, tagged
from sevenfold.memory.entry import KINDS, Kind, shortened
from sevenfold.memory.index import day_of_entry
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import UsersStatement
from sevenfold.memory.words import distinctive_words, shared
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record.authorship import PASTED, QUOTED, typed_lines

SHOWN = 120
"""Characters shown of a message that the model can read in the conversation: enough to recognise it."""
LONGEST_HEAD = 8_000
LONGEST_TAIL = 4_000
"""Characters shown of the beginning and the end of a message that the model cannot read."""
LONGEST_CONTEXT = 200
"""Characters shown of the answer before a message, and of the one after it."""
MOST_KNOWN = 40
"""The most entries shown, those first that share words with the messages."""
LONGEST_KNOWN = 160
LONGEST_SENTENCE = 600
"""Characters shown of a sentence that is to be quoted again."""
MOST_FACTS = 100
"""The most facts taken from one answer."""
MOST_NAMED = 8
"""The most earlier statements that one fact may name."""

OMITTED = "[quoted or pasted text is left out]"
"""Replaces text of others that a message quotes."""

_NOTHING = re.compile(r"<nothing\s*/?>", re.IGNORECASE)
_HANDLE = re.compile(r"\[?(m\d{1,3})\]?", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Neighbours(Struct, frozen=True):
    """What the model said around a message of the user's, a sentence each."""

    before: str = ""
    after: str = ""


class Look(Struct, frozen=True):
    """The messages to look at, and the entries that they may change."""

    messages: Mapping[str, str]
    """The user's messages, by record, in order."""
    days: Mapping[str, date] = {}
    around: Mapping[str, Neighbours] = {}
    entries: tuple[KnownEntry, ...] = ()
    inexact: tuple[UsersStatement, ...] = ()
    """The statements that an earlier answer did not quote to the letter."""

    def alone(self) -> Look:
        """The same look at nothing but the user's words: without the model's sentences, which may repeat others'."""
        return replace(self, around={})

    @classmethod
    def at(
        cls,
        messages: Mapping[str, str],
        days: Mapping[str, date],
        around: Mapping[str, Neighbours],
        entries: Iterable[KnownEntry],
        today: str,
    ) -> Look:
        """A look at these messages, with the valid entries of the user's that fit them best."""
        valid = [entry for entry in entries if entry.stamp.trusted and not entry.entry.has_expired(today)]
        topics = distinctive_words("\n".join(messages.values()))

        def relevance(entry: KnownEntry) -> tuple[int, float]:
            common_words = shared(distinctive_words(entry.entry.statement), topics)
            return len(common_words), entry.when

        most_relevant = sorted(valid, key=relevance, reverse=True)[:MOST_KNOWN]
        return cls(messages, days, around, tuple(most_relevant))

    def instruction(self, *, in_view: bool, reading: Sequence[str] = ()) -> RememberFacts:
        """The instruction for a model that sees the conversation, or only this.

        ``reading`` names the tools with which it may look at files first.
        """
        show = self._heading if in_view else self._whole
        listed = [
            show(number, record, message)
            for number, (record, message) in enumerate(self.messages.items(), 1)
        ]
        lines = []
        for number, known in enumerate(self.entries, 1):
            words = in_quotes(known.entry.statement, LONGEST_KNOWN)
            lines.append(f'm{number}: "{words}" ({day_of_entry(known)})')
        tools = ""
        if reading:
            names = ", ".join(reading)
            tools = (
                f"call no tool but {names}, all calls in one turn and only to see what files already say"
            )
        numbers = {record: number for number, record in enumerate(self.messages, 1)}
        inexact = []
        for statement in self.inexact:
            sentence = in_quotes(statement.text, LONGEST_SENTENCE)
            inexact.append(f'- in message {numbers[statement.record]}: "{sentence}"')
        return RememberFacts.of(
            ("\n" if in_view else "\n\n").join(listed),
            known="\n".join(lines),
            inexact="\n".join(inexact),
            tools=tools,
        )

    def read(self, answer: str) -> list[LastingFact] | None:
        """The facts in a model's answer about this look; None if it does not follow the format."""
        facts = list(islice(map(self._fact, tagged(answer)), MOST_FACTS + 1))
        return facts if facts or _NOTHING.search(answer) else None

    def _heading(self, number: int, record: str, message: str) -> str:
        return f'[{number}] {_day_in_words(self.days.get(record))}: "{in_quotes(message, SHOWN)}"'

    def _whole(self, number: int, record: str, message: str) -> str:
        return message_as_shown(
            number, message, self.days.get(record), self.around.get(record, Neighbours())
        )

    def _fact(self, tag: Tagged) -> LastingFact:
        record = self._record(tag.attributes.get("message", ""))
        if not record:
            # A model may name the message at the quotation instead of at the fact.
            quotes = (part for part in tag.parts if part.name == "quote")
            quoted = (self._record(quote.attributes.get("message", "")) for quote in quotes)
            record = next(filter(None, quoted), "")
        until = tag.attributes.get("until", "")
        dates = ((part.attributes.get("words", ""), part.text) for part in tag.parts if part.name == "date")
        return LastingFact(
            quotations=tag.texts("quote"),
            kind=_kind(tag.attributes.get("type", "")),
            note="\n".join(tag.texts("note")),
            until=until if _DAY.fullmatch(until) else "",
            message=record,
            dates=tuple((phrase, day) for phrase, day in dates if phrase and _DAY.fullmatch(day)),
            replaces=tuple(map(self._named, tag.texts("replaces", "earlier")))[:MOST_NAMED],
            lifts_only=tag.name == "forget",
        )

    def _record(self, number: str) -> str:
        """The record of the message with this number; empty if there is none."""
        digits = number.strip("[]# ")
        index = int(digits) - 1 if digits.isascii() and digits.isdecimal() and len(digits) < 6 else -1
        return list(self.messages)[index] if 0 <= index < len(self.messages) else ""

    def _named(self, earlier: str) -> str:
        """The file of the entry with this handle; any other text as it is."""
        handle = _HANDLE.fullmatch(earlier.strip())
        index = int(handle[1][1:]) - 1 if handle else -1
        return self.entries[index].entry.file if 0 <= index < len(self.entries) else earlier


def message_as_shown(number: int, message: str, day: date | None, around: Neighbours) -> str:
    """A message of the user's for a model that sees nothing else of the conversation."""
    text = _typed(message)
    if len(text) > LONGEST_HEAD + LONGEST_TAIL:
        text = f"{text[:LONGEST_HEAD]}\n[…]\n{text[-LONGEST_TAIL:]}"
    lines = [f"[{number}] {_day_in_words(day)}"]
    if around.before:
        lines.append(f'the model had said: "{in_quotes(around.before, LONGEST_CONTEXT)}"')
    lines.append("the user:")
    lines += [f"> {line}" for line in text.splitlines()]
    if around.after:
        lines.append(f'the model said then: "{in_quotes(around.after, LONGEST_CONTEXT)}"')
    return "\n".join(lines)


def _day_in_words(day: date | None) -> str:
    return f"{day:%A} {day.isoformat()}" if day else "day unknown"


def read_facts(answer: str) -> list[LastingFact] | None:
    """The facts in a model's answer that names no messages; None if it does not follow the format."""
    return Look({}).read(answer)


def _typed(message: str) -> str:
    """A message without the text that it only quotes, which others wrote."""
    lines: list[str] = []
    for line in typed_lines(message.strip()):
        if line != QUOTED:
            lines.append(line)
        elif lines[-1:] != [OMITTED]:
            lines.append(OMITTED)
    return "\n".join(lines).replace(PASTED, OMITTED)


def in_quotes(text: str, limit: int) -> str:
    """The text for use between quotation marks, escaped as in JSON, so that a purge finds a secret in it."""
    return shortened(text, limit).replace("\\", "\\\\").replace('"', '\\"')


def _kind(name: str) -> Kind:
    return next((kind for kind in KINDS if kind == name.lower()), "project")
