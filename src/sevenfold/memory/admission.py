"""What may enter memory, and as what.

A model, or a rule, proposes facts and says which words of the user carry them. Here it is decided what becomes of each:
words that are in a record of the user's make an entry of the user's; anything else is kept apart, under the least
trusted source that was seen. A secret, and what the model is given anyway, is refused. The same fact said again adds
its evidence to the entry there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import msgspec
from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.memory.dates import absolute_dates
from sevenfold.memory.entry import Kind, MemoryEntry, free_name, quoted, shortened, slug, write_entry
from sevenfold.memory.generation import Origin, Provenance, digest, least_trusted
from sevenfold.memory.memory import EntryEdit, Memory
from sevenfold.memory.words import finished, holds, passing, same_fact, says

LEAST_CHARACTERS = 8
"""Shorter quotations prove nothing: anyone says "yes" or "do it"."""
MOST_NOTE = 2_000
TRIES = 8
"""How often a change is made again because another process was quicker."""


class LastingFact(Struct, frozen=True):
    """Something worth remembering, as it was proposed."""

    quotations: tuple[str, ...]
    """The words of the user that carry it."""
    kind: Kind = "project"
    note: str = ""
    """Why it matters and how to apply it, in the words of the one who proposes it."""
    until: str = ""


class Witness(Struct, frozen=True):
    """What the one who proposes facts could read."""

    said: Mapping[str, str]
    """What the user said, by record."""
    days: Mapping[str, date] = {}
    """The day each of these records is of, where that is known."""
    new: frozenset[str] = frozenset()
    """Which of these records were not looked at before; empty: all of them."""
    session: str = ""
    least: Origin = "model"
    """The least trusted source of anything else there."""
    given: tuple[str, ...] = ()
    """Texts the model is given in every session: instruction files, the system prompt."""
    shown: tuple[str, ...] = ()
    """What files, commands and memory have shown: not worth keeping unless the user says it."""


class Admission(Struct, frozen=True):
    """What became of a fact."""

    fact: LastingFact
    file: str = ""
    """The entry that holds it now; empty if it was refused."""
    new: bool = False
    refused: str = ""
    """Why it was not stored."""


def admit(memory: Memory, facts: Sequence[LastingFact], seen: Witness, now: float) -> list[Admission]:
    """Store facts, all in one change; returns what became of each."""
    for _ in range(TRIES):
        base = memory.generation()
        there = {one.entry.file: (one.entry, one.stamp) for one in memory.entries()}
        edits: dict[str, EntryEdit] = {}
        results = []
        for fact in facts:
            judged = _judge(memory, fact, seen, now)
            results.append(
                Admission(fact, refused=judged)
                if isinstance(judged, str)
                else _repeated(fact, *judged, there, edits) or _kept(fact, *judged, seen, there, edits)
            )
        if not edits:
            return results
        reason = "; ".join(shortened(there[file][0].description, 60) for file in edits)
        made = memory.commit(edits, "remember", reason, session=seen.session, based_on=base)
        if all(made.entries.get(file) == edit.stamp for file, edit in edits.items()):
            return results
    raise Refused("other processes keep changing memory; try again later")


def _judge(
    memory: Memory, fact: LastingFact, seen: Witness, now: float
) -> tuple[MemoryEntry, Provenance] | str:
    """The entry a fact would make, and its stamp; or why it is refused."""
    found = {
        " ".join(words.split()): record for words in fact.quotations if (record := _record(words, seen))
    }
    if found and seen.new and seen.new.isdisjoint(found.values()):
        return "it was said earlier, and looked at then"
    note = fact.note.strip()[:MOST_NOTE]
    text = "\n".join(found or fact.quotations) or note
    if not text.strip():
        return "it says nothing"
    if problem := memory.refuses("\n".join((*fact.quotations, note)).encode(errors="replace")):
        return problem
    if not fact.until and all(map(passing, fact.quotations or (note,))):
        return "it holds for the moment only"
    if all(map(finished, fact.quotations or (note,))):
        return "it reports finished debugging"
    note = "\n\n".join(filter(None, (note, _dates(found, seen))))
    body = f"{quoted(found)}\n\n{note}" if found else "\n\n".join((*fact.quotations, note))
    entry = write_entry(slug(text), fact.kind, text, body)
    if fact.until:
        entry = entry.until_day(fact.until)
    evidence = tuple(dict.fromkeys(f"{seen.session}/{record}" for record in found.values()))
    if not found:
        return entry, Provenance("", least_trusted("model", seen.least), created=now)
    return entry, Provenance("", "user", evidence, created=now, verified=now)


def _dates(found: Mapping[str, str], seen: Witness) -> str:
    """What the user's words call tomorrow, by Friday and the like, as dates; the words themselves stay as they are."""
    days = {
        named: day
        for words, record in found.items()
        if record in seen.days
        for named, day in absolute_dates(words, seen.days[record]).items()
    }
    return f"Dates: {', '.join(f'{named} is {day}' for named, day in days.items())}." if days else ""


def _record(words: str, seen: Witness) -> str:
    """The newest record of the user's that holds these words; empty if none does."""
    if len(words.strip()) < LEAST_CHARACTERS:
        return ""
    return next((record for record in reversed(list(seen.said)) if holds(seen.said[record], words)), "")


def _repeated(
    fact: LastingFact,
    entry: MemoryEntry,
    stamp: Provenance,
    there: dict[str, tuple[MemoryEntry, Provenance]],
    edits: dict[str, EntryEdit],
) -> Admission | None:
    """Add the fact's evidence to the entry that says the same; None if none does."""
    for file, (known, before) in there.items():
        as_trusted = least_trusted(before.origin, stamp.origin) == stamp.origin
        if as_trusted and same_fact(_carried(known), _carried(entry)):
            evidence = tuple(dict.fromkeys((*before.evidence, *stamp.evidence)))
            if evidence != before.evidence and not known.pinned:
                verified = max(before.verified, stamp.verified)
                again = msgspec.structs.replace(before, evidence=evidence, verified=verified)
                there[file], edits[file] = (known, again), EntryEdit(known.render(), again)
            return Admission(fact, file)
    return None


def _kept(
    fact: LastingFact,
    entry: MemoryEntry,
    stamp: Provenance,
    seen: Witness,
    there: dict[str, tuple[MemoryEntry, Provenance]],
    edits: dict[str, EntryEdit],
) -> Admission:
    """Make an entry of the fact, unless it is known without memory."""
    words = entry.quotations or fact.quotations or (entry.body,)
    if all(any(says(text, one) for text in seen.given) for one in words):
        return Admission(fact, refused="the model is given this in every session")
    if not stamp.trusted and all(any(says(text, one) for text in seen.shown) for one in words):
        return Admission(fact, refused="a file, a command or memory shows it")
    file = free_name(entry.file, there)
    entry = MemoryEntry(file, entry.page.with_value("name", file.removesuffix(".md")))
    content = entry.render()
    stamp = msgspec.structs.replace(stamp, sha256=digest(content))
    there[file], edits[file] = (entry, stamp), EntryEdit(content, stamp)
    return Admission(fact, file, new=True)


def _carried(entry: MemoryEntry) -> str:
    """The words that carry an entry's fact."""
    return "\n".join(entry.quotations) or entry.body
