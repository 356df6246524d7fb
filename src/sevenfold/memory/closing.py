"""Closes what the user took back: "forget that", "change that to …", "from now on … instead".

A model names the later statement and the earlier one. Code does not judge their grammar, which differs in every
language; it checks whose they are and in which order they were made:

- whoever named them was shown nothing but the user's own words and entries: text of others in view could make any
  model pair an innocent sentence of the user's with a rule of theirs;
- both are the user's own words, found to the letter (a word that may be misspelt ends nothing);
- the later one is in the stretch of conversation that was just examined, so nothing old is closed again and again;
- the earlier one was said before it, and is not pinned;
- one statement ends one other, unless its own words name several.

The earlier entry is closed, never deleted, with the day before the later statement as its last, in a change of its own
that can be undone alone. Nothing else may close what the user said.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from datetime import date, timedelta

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import Refused, SevenfoldError
from sevenfold.memory.entry import MemoryEntry, free_file, new_entry, quoted, shortened, slug
from sevenfold.memory.generation import Provenance, digest
from sevenfold.memory.memory import EntryEdit, KnownEntry, Memory
from sevenfold.memory.quotation import nearest
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import UsersStatement, Witness
from sevenfold.memory.words import distinctive_words, shared

LONGEST_REASON = 120
"""The most characters of each statement in the reason of a change."""


class Closing(Struct, frozen=True):
    """An earlier statement that a later one was said to end."""

    earlier: str
    later: str
    """The user's words that end it."""
    name: str = ""
    """The name of the entry that was closed."""
    change: int = 0
    """The number of the change that closed it, with which it can be undone; 0 if nothing was closed."""
    refused: str = ""
    """Why it was not closed; empty if it was, or if there was nothing to close."""


def close_earlier(
    memory: Memory,
    fact: LastingFact,
    witness: Witness,
    now: float,
    *,
    own_file: str = "",
    ended: Container[str] = (),
) -> Iterator[Closing]:
    """Close what a fact says it ends, each in a change of its own.

    ``own_file`` is the entry of the fact itself; ``ended`` are the statements that ended another one in this look.
    """
    if not witness.only_users_words:
        for earlier in fact.replaces:
            quotation = " ".join(fact.quotations)
            yield Closing(
                earlier,
                quotation,
                refused="only a look that shows nothing but your words ends what you said",
            )
        return
    later = _later(fact, witness)
    if later is None:
        quotation = " ".join(fact.quotations)
        for earlier in fact.replaces:
            yield Closing(
                earlier,
                quotation,
                refused="only the user's own words, to the letter, end what the user said",
            )
        return
    targets: dict[str, str] = {}
    for named in fact.replaces:
        try:
            entry = _earlier(memory, named, later, witness, now, own_file)
            if entry is not None:
                targets[entry.entry.file] = named
        except SevenfoldError as error:
            yield Closing(named, later.text, refused=str(error))
    for file in _meant(memory, targets, later.text, limit=0 if later.text in ended else 1):
        yield _close(memory, file, later, witness, now)
        targets.pop(file)
    for named in targets.values():
        yield Closing(named, later.text, refused="one statement ends one other, unless it names several")


def _later(fact: LastingFact, witness: Witness) -> UsersStatement | None:
    """The statement that ends others, if the user made it in the stretch that was just examined."""
    for quotation in fact.quotations:
        statement = witness.statement(quotation, fact.message, forgiving=False)
        if statement is not None and witness.is_new(statement.record):
            return statement
    return None


def _earlier(
    memory: Memory, named: str, later: UsersStatement, witness: Witness, now: float, own_file: str
) -> KnownEntry | None:
    """The entry that is to be closed, made if the statement is not in memory yet; None if there is nothing to close."""
    entries = [entry for entry in memory.entries() if entry.entry.file != own_file]
    named_entry = _named_entry(entries, named)
    if named_entry is not None:
        _must_be_closable(named_entry, later, witness, now)
        return None if named_entry.entry.has_expired(memory.today()) else named_entry
    statement = witness.statement(named, forgiving=False)
    if statement is None:
        raise Refused("no earlier statement of the user contains these words")
    if (
        statement.text == later.text
        or not witness.is_new(statement.record)
        or witness.order(statement.record) > witness.order(later.record)
    ):
        return None
    taken_names = {entry.entry.file for entry in memory.entries()}
    file = free_file(f"{slug(statement.text)}.md", taken_names)
    entry = new_entry(file.removesuffix(".md"), "project", statement.text, quoted([statement.text]))
    if problem := memory.refuses(entry.render()):
        raise Refused(problem)
    said_at = witness.times.get(statement.record, now)
    stamp = Provenance(
        digest(entry.render()),
        "user",
        (f"{witness.session}/{statement.record}",),
        created=said_at,
        verified=said_at,
    )
    reason = shortened(statement.text, LONGEST_REASON)
    memory.commit({file: EntryEdit(entry.render(), stamp)}, "remember", reason, session=witness.session)
    return KnownEntry(entry, stamp)


def _named_entry(entries: list[KnownEntry], named: str) -> KnownEntry | None:
    """The entry with this name, or else the newest valid one of the user's that says these words."""
    plain = named.strip()
    for entry in entries:
        if plain in (entry.entry.name, entry.entry.file):
            return entry
    holding = [entry for entry in entries if entry.stamp.trusted and _says(entry.entry, plain)]
    return max(holding, key=lambda entry: (not entry.entry.until, entry.when), default=None)


def _says(entry: MemoryEntry, statement: str) -> bool:
    return nearest("\n\n".join(entry.quotations) or entry.body, statement, forgiving=False) is not None


def _must_be_closable(earlier: KnownEntry, later: UsersStatement, witness: Witness, now: float) -> None:
    """Raise `Refused` if a statement must not close this entry."""
    if not earlier.stamp.trusted:
        raise Refused("it is unconfirmed; `sevenfold memory forget` removes it")
    if earlier.entry.pinned:
        raise Refused("it is pinned; `sevenfold memory unpin` lets it be closed")
    records = [
        record for record in witness.messages if f"{witness.session}/{record}" in earlier.stamp.evidence
    ]
    if records:
        if witness.order(records[-1]) > witness.order(later.record):
            raise Refused("the user said it again after that")
    elif earlier.when > witness.times.get(later.record, now):
        raise Refused("the user said it, or confirmed it, after that")


def _meant(memory: Memory, targets: Mapping[str, str], later: str, *, limit: int) -> list[str]:
    """Those of the entries that a statement may end: all that its words name, or else at most so many."""
    if len(targets) <= limit:
        return list(targets)
    named_words = distinctive_words(later)
    entries = {entry.entry.file: entry for entry in memory.entries()}
    named = [
        file
        for file in targets
        if file in entries and shared(named_words, distinctive_words(entries[file].entry.statement))
    ]
    return named or list(targets)[:limit]


def _close(memory: Memory, file: str, later: UsersStatement, witness: Witness, now: float) -> Closing:
    base = memory.generation()
    earlier_entry = memory.entry(file)
    earlier = " ".join(earlier_entry.entry.statement.split())
    said_on = witness.days.get(later.record) or date.fromtimestamp(witness.times.get(later.record, now))
    edit = closed_on(earlier_entry, min(said_on.isoformat(), memory.today()))
    earlier_text, later_text = (shortened(text, LONGEST_REASON) for text in (earlier, later.text))
    reason = f'closed "{earlier_text}": the user said "{later_text}"'
    done = memory.commit({file: edit}, "remember", reason, session=witness.session, based_on=base)
    if done.entries.get(file) != edit.stamp:
        return Closing(earlier, later.text, earlier_entry.entry.name, refused="it was changed meanwhile")
    return Closing(earlier, later.text, earlier_entry.entry.name, done.number)


def closed_on(known_entry: KnownEntry, day: str) -> EntryEdit:
    """The entry, valid for the last time on the day before this one."""
    last = date.fromisoformat(day) - timedelta(days=1)
    content = known_entry.entry.with_until(last.isoformat()).render()
    return EntryEdit(content, replace(known_entry.stamp, sha256=digest(content)))
