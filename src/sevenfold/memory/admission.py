"""Decides which facts enter memory, and with which origin.

A model, or a rule, proposes facts and quotes the user's words for each. This module decides what happens to them. Words
found in a record of the user's make an entry that counts as the user's; anything else is stored as unconfirmed, under
the least trusted source in view. Secrets are refused, and so is anything the model is given anyway. If a fact is
repeated, its evidence is added to the existing entry, and so is its wording if that is new, so nothing is lost if the
two facts were not the same after all.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import Refused
from sevenfold.memory.consolidation import merge
from sevenfold.memory.entry import (
    MemoryEntry,
    free_name,
    quoted,
    read_entry,
    shortened,
    slug,
    write_entry,
)
from sevenfold.memory.generation import Origin, Provenance, digest, least_trusted
from sevenfold.memory.memory import EntryEdit, KnownEntry, Memory
from sevenfold.memory.statements import DATES, LEAST_CHARACTERS, LastingFact, absolute_dates, whole
from sevenfold.memory.words import Alike, finished, holds, is_temporary, same_fact, says
from sevenfold.record.quoting import as_data

MOST_NOTE = 2_000
MOST_WORDINGS = 4
"""The most wordings of its fact that an entry collects; a further wording becomes a separate entry."""
TRIES = 8
"""How often a change is retried because another process was faster."""


class Witness(Struct, frozen=True):
    """Everything that the proposer of facts could read."""

    said: Mapping[str, str]
    """The user's messages, by record id."""
    days: Mapping[str, date] = {}
    """The dates of these records, where known."""
    new: frozenset[str] = frozenset()
    """The records that were not examined before; if empty, all of them."""
    session: str = ""
    least: Origin = "model"
    """The least trusted source of any other content in view."""
    given: tuple[str, ...] = ()
    """Texts that the model gets in every session: instruction files, the system prompt."""
    shown: tuple[str, ...] = ()
    """Output of files, commands and memory: not worth storing unless the user says it."""


class Admission(Struct, frozen=True):
    """The outcome for one proposed fact."""

    fact: LastingFact
    file: str = ""
    """The entry that contains the fact now; empty if it was refused."""
    new: bool = False
    refused: str = ""
    """Why it was refused; empty if it was stored."""


def admit(
    memory: Memory, facts: Sequence[LastingFact], seen: Witness, now: float, alike: Alike | None = None
) -> list[Admission]:
    """Store facts in one change; returns the outcome for each. ``alike`` also compares them by meaning."""
    for _ in range(TRIES):
        base = memory.generation()
        there = {one.entry.file: one for one in memory.entries()}
        edits: dict[str, EntryEdit] = {}
        results = []
        for fact in facts:
            try:
                new = _judge(memory, fact, seen, now)
                file, edit = _repeated(new, there, alike) or _kept(fact, new, seen, there)
            except Refused as refusal:
                results.append(Admission(fact, refused=str(refusal)))
                continue
            results.append(Admission(fact, file, new=file not in there))
            if edit is not None:
                there[file], edits[file] = KnownEntry(read_entry(file, edit.content), edit.stamp), edit
        if not edits:
            return results
        reason = "; ".join(shortened(there[file].entry.description, 60) for file in edits)
        after = memory.commit(edits, "remember", reason, session=seen.session, based_on=base)
        if all(after.entries.get(file) == edit.stamp for file, edit in edits.items()):
            return results
    raise Refused("other processes keep changing memory; try again later")


def _judge(memory: Memory, fact: LastingFact, seen: Witness, now: float) -> KnownEntry:
    """The entry that a fact would become, with its provenance; raises `Refused` if it must not be stored."""
    found = dict(filter(None, (users_statement(words, seen) for words in fact.quotations)))
    if found and seen.new and seen.new.isdisjoint(found.values()):
        raise Refused("it was said earlier, and looked at then")
    note = as_data(fact.note)[:MOST_NOTE]
    words = tuple(found) or fact.quotations or (note,)
    text = "\n".join(words)
    if not text.strip():
        raise Refused("it says nothing")
    if problem := memory.refuses("\n".join((text, *fact.quotations, note)).encode(errors="replace")):
        raise Refused(problem)
    if not fact.until and all(map(is_temporary, words)):
        raise Refused("it holds for the moment only")
    if all(map(finished, words)):
        raise Refused("it reports finished debugging")
    note = "\n\n".join(filter(None, (note, _dates(found, seen))))
    body = f"{quoted(found)}\n\n{note}" if found else "\n\n".join((*map(as_data, fact.quotations), note))
    entry = write_entry(slug(text), fact.kind, text, body)
    if fact.until:
        entry = entry.until_day(fact.until)
    evidence = tuple(dict.fromkeys(f"{seen.session}/{record}" for record in found.values()))
    if not found:
        return KnownEntry(entry, Provenance("", least_trusted("model", seen.least), created=now))
    return KnownEntry(entry, Provenance("", "user", evidence, created=now, verified=now))


def _dates(found: Mapping[str, str], seen: Witness) -> str:
    """A line with the dates of "tomorrow", "by Friday" and the like in the user's words; empty if there are none."""
    dated = ((words, seen.days[record]) for words, record in found.items() if record in seen.days)
    days = {named: day for words, said_on in dated for named, day in absolute_dates(words, said_on).items()}
    return f"{DATES}{', '.join(f'{named} is {day}' for named, day in days.items())}." if days else ""


def users_statement(words: str, seen: Witness) -> tuple[str, str] | None:
    """The user's complete statement with these words, and the newest record that has it; None if there is none."""
    if len(words.strip()) < LEAST_CHARACTERS:
        return None
    found = ((whole(seen.said[record], words), record) for record in reversed(list(seen.said)))
    return next(((text, record) for text, record in found if text), None)


def _repeated(
    new: KnownEntry, there: Mapping[str, KnownEntry], alike: Alike | None
) -> tuple[str, EntryEdit | None] | None:
    """The entry that already states this fact, and an edit that adds what it lacks, if anything; else None."""
    for file, known in there.items():
        was = known.stamp
        as_trusted = least_trusted(was.origin, new.stamp.origin) == new.stamp.origin
        if not as_trusted or known.entry.until != new.entry.until:
            continue
        if not same_fact(_carried(known.entry), _carried(new.entry), alike):
            continue
        both = merge(known, (known, new))
        if not new.stamp.trusted or holds(known.entry.words, new.entry.words):
            if both.stamp.evidence == was.evidence or known.entry.pinned:
                return file, None
            stamp = replace(was, evidence=both.stamp.evidence, verified=both.stamp.verified)
            return file, EntryEdit(known.entry.render(), stamp)
        if not known.entry.pinned and len(known.entry.quotations) < MOST_WORDINGS:
            return file, both
    return None


def _kept(
    fact: LastingFact, new: KnownEntry, seen: Witness, taken: Container[str]
) -> tuple[str, EntryEdit | None]:
    """A new entry for the fact; raises `Refused` if the model knows it without memory."""
    words = new.entry.quotations or fact.quotations or (new.entry.body,)
    if all(any(says(text, one) for text in seen.given) for one in words):
        raise Refused("the model is given this in every session")
    if not new.stamp.trusted and all(any(says(text, one) for text in seen.shown) for one in words):
        raise Refused("a file, a command or memory shows it")
    file = free_name(new.entry.file, taken)
    content = MemoryEntry(file, new.entry.page.with_value("name", file.removesuffix(".md"))).render()
    return file, EntryEdit(content, replace(new.stamp, sha256=digest(content)))


def _carried(entry: MemoryEntry) -> str:
    """The words that state an entry's fact, with the dates that they refer to."""
    dates = [line for line in entry.note.splitlines() if line.startswith(DATES)]
    return "\n".join((entry.words, *dates)) if entry.quotations else entry.words
