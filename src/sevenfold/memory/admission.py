"""Decides which facts enter memory, and with which origin.

A model, or a rule, proposes facts and quotes the user's words for each. This module decides what happens to them. Words
from a record of the user's (`sevenfold.memory.quotation`) make an entry that counts as the user's, with the user's own
text; anything else is stored as unconfirmed, under the least trusted source in view. Secrets are refused, and so is
anything the model is given anyway. If a fact is repeated, its evidence is added to the existing entry, and so is its
wording if that is new, so nothing is lost if the two facts were not the same after all. What a fact ends is closed
afterwards, in a change of its own (`sevenfold.memory.closing`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import Refused, SevenfoldError
from sevenfold.memory.closing import Closing, close_earlier
from sevenfold.memory.consolidation import merge
from sevenfold.memory.dates import DATES, checked_dates, dates_line, names_day
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
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import UsersStatement, Witness
from sevenfold.memory.words import Alike, finished, holds, is_temporary, same_fact, says
from sevenfold.record.quoting import as_data

MOST_NOTE = 2_000
MOST_WORDINGS = 4
"""The most wordings of its fact that an entry collects; a further wording becomes a separate entry."""
TRIES = 8
"""How often a change is retried because another process was faster."""


class Admission(Struct, frozen=True):
    """The outcome for one proposed fact."""

    fact: LastingFact
    file: str = ""
    """The entry that contains the fact now; empty if it was refused."""
    new: bool = False
    refused: str = ""
    """Why it was refused; empty if it was stored."""
    origin: Origin = "user"
    """Whose words the entry has."""
    closed: tuple[Closing, ...] = ()
    """The earlier statements that it was said to end."""

    @property
    def confirmed(self) -> bool:
        """Whether the entry counts as the user's words."""
        return self.origin == "user"


def admit(
    memory: Memory, facts: Sequence[LastingFact], seen: Witness, now: float, alike: Alike | None = None
) -> list[Admission]:
    """Store facts in one change, and close what they end; returns the outcome for each, in this order.

    ``alike`` also compares them by meaning.
    """
    stored = _store(memory, [fact for fact in facts if not fact.lifts_only], seen, now, alike)
    remaining = iter(stored)
    results = []
    ended: set[str] = set()
    """The statements of the user's that ended something already."""
    for fact in facts:
        result = Admission(fact) if fact.lifts_only else next(remaining)
        if fact.replaces and not result.refused:
            closed = tuple(close_earlier(memory, fact, seen, now, own=result.file, ended=ended))
            ended.update(closing.later for closing in closed if closing.change)
            result = replace(result, closed=closed)
        results.append(result)
    return results


def admit_apart(
    memory: Memory,
    stated: Sequence[LastingFact],
    ending: Sequence[LastingFact],
    seen: Witness,
    now: float,
    alike: Alike | None = None,
) -> list[Admission]:
    """Store what one look says is stated, and close what another one, which showed only the user's words, says ends."""
    plain = [replace(fact, replaces=()) for fact in stated if not fact.lifts_only]
    alone = replace(seen, only_users_words=True)
    return [*admit(memory, plain, seen, now, alike), *admit(memory, ending, alone, now, alike)]


def _store(
    memory: Memory, facts: Sequence[LastingFact], seen: Witness, now: float, alike: Alike | None
) -> list[Admission]:
    for _ in range(TRIES):
        base = memory.generation()
        there = {known.entry.file: known for known in memory.entries()}
        edits: dict[str, EntryEdit] = {}
        results = []
        for fact in facts:
            try:
                new = _judge(memory, fact, seen, now)
                file, edit = _repeated(new, there, alike) or _kept(fact, new, seen, there)
            except (SevenfoldError, ValueError) as refusal:  # one odd fact must not take the others with it
                results.append(Admission(fact, refused=str(refusal)))
                continue
            origin = edit.stamp.origin if edit is not None else there[file].stamp.origin
            results.append(Admission(fact, file, new=file not in there, origin=origin))
            if edit is not None:
                there[file] = KnownEntry(read_entry(file, edit.content), edit.stamp)
                edits[file] = edit
        if not edits:
            return results
        reason = "; ".join(shortened(there[file].entry.description, 60) for file in edits)
        after = memory.commit(edits, "remember", reason, session=seen.session, based_on=base)
        if all(after.entries.get(file) == edit.stamp for file, edit in edits.items()):
            return results
    raise Refused("other processes keep changing memory; try again later")


def _judge(memory: Memory, fact: LastingFact, seen: Witness, now: float) -> KnownEntry:
    """The entry that a fact would become, with its provenance; raises `Refused` if it must not be stored."""
    quoted_statements = [seen.statement(words, fact.message) for words in fact.quotations]
    own = {statement.text: statement for statement in quoted_statements if statement is not None}
    if own and seen.unread and seen.unread.isdisjoint(statement.record for statement in own.values()):
        raise Refused("you said it earlier, and it was considered then")
    note = as_data(fact.note)[:MOST_NOTE]
    words = tuple(own) or fact.quotations or (note,)
    text = "\n".join(words)
    if not text.strip():
        raise Refused("it is empty")
    if problem := memory.refuses("\n".join((text, *fact.quotations, note)).encode(errors="replace")):
        raise Refused(problem)
    named = _named_days(fact, own, seen)
    until = _until(fact, own, named, seen)
    if not until and all(map(is_temporary, words)):
        raise Refused("it applies only for now")
    if all(map(finished, words)):
        raise Refused("it reports finished debugging")
    note = "\n\n".join(filter(None, (note, dates_line(named))))
    body = f"{quoted(own)}\n\n{note}" if own else "\n\n".join((*map(as_data, fact.quotations), note))
    entry = write_entry(slug(text), fact.kind, text, body)
    if until:
        entry = entry.until_day(until)
    if not own:
        return KnownEntry(entry, Provenance("", least_trusted("model", seen.least_trusted), created=now))
    evidence = tuple(dict.fromkeys(f"{seen.session}/{statement.record}" for statement in own.values()))
    when = max(seen.times.get(statement.record, now) for statement in own.values())
    return KnownEntry(entry, Provenance("", "user", evidence, created=when, verified=when))


def _named_days(fact: LastingFact, own: Mapping[str, UsersStatement], seen: Witness) -> dict[str, str]:
    """The dates of "tomorrow", "by Friday" and the like in the user's words, by these words."""
    named: dict[str, str] = {}
    for text, statement in own.items():
        said_on = seen.days.get(statement.record)
        if said_on is not None:
            named |= checked_dates(text, fact.dates, said_on)
    return named


def _until(
    fact: LastingFact, own: Mapping[str, UsersStatement], named: Mapping[str, str], seen: Witness
) -> str:
    """The last day on which a fact is valid, if the user's own words name that day and it was not past then."""
    for text, statement in own.items() if fact.until else ():
        said_on = seen.days.get(statement.record)
        past = said_on is not None and fact.until < said_on.isoformat()
        if names_day(text, fact.until, named, said_on) and not past:
            return fact.until
    return ""


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
    stated = new.entry.quotations or fact.quotations or (new.entry.body,)
    if all(any(says(text, statement) for text in seen.always_shown) for statement in stated):
        raise Refused("the model sees this in every session anyway")
    if not new.stamp.trusted and all(
        any(says(text, statement) for text in seen.shown) for statement in stated
    ):
        raise Refused("a file, a command or memory already says it")
    file = free_name(new.entry.file, taken)
    content = MemoryEntry(file, new.entry.page.with_value("name", file.removesuffix(".md"))).render()
    return file, EntryEdit(content, replace(new.stamp, sha256=digest(content)))


def _carried(entry: MemoryEntry) -> str:
    """The words that state an entry's fact, with the dates that they refer to."""
    dates = [line for line in entry.note.splitlines() if line.startswith(DATES)]
    return "\n".join((entry.words, *dates)) if entry.quotations else entry.words
