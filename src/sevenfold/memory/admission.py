"""Decides which facts enter memory, and with which origin.

A model, or a rule, proposes facts and quotes the user's words for each. This module decides what happens to them. Words
from a record of the user's (`sevenfold.memory.quotation`) make an entry that counts as the user's, with the user's own
text; anything else is stored as unconfirmed, under the least trusted source in view. Secrets are refused, and so is
anything the model is given anyway. If a fact is repeated, its evidence is added to the existing entry, and so is its
wording if that is new, so nothing is lost if the two facts were not the same after all. What a fact ends is closed
afterwards, in a change of its own (`sevenfold.memory.closing`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import Refused, SevenfoldError
from sevenfold.memory.closing import Closing, close_earlier
from sevenfold.memory.consolidation import merge
from sevenfold.memory.dates import DATES, checked_dates, dates_line, names_day
from sevenfold.memory.entry import (
    MemoryEntry,
    free_file,
    new_entry,
    parse_entry,
    quoted,
    shortened,
    slug,
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
    memory: Memory, facts: Sequence[LastingFact], witness: Witness, now: float, alike: Alike | None = None
) -> list[Admission]:
    """Store facts in one change, and close what they end; returns the outcome for each, in this order.

    ``alike`` also compares them by meaning.
    """
    stored = _store(memory, [fact for fact in facts if not fact.lifts_only], witness, now, alike)
    remaining = iter(stored)
    results = []
    ended: set[str] = set()
    """The statements of the user's that ended something already."""
    for fact in facts:
        result = Admission(fact) if fact.lifts_only else next(remaining)
        if fact.replaces and not result.refused:
            closed = tuple(close_earlier(memory, fact, witness, now, own_file=result.file, ended=ended))
            ended.update(closing.later for closing in closed if closing.change)
            result = replace(result, closed=closed)
        results.append(result)
    return results


def admit_apart(
    memory: Memory,
    stated: Sequence[LastingFact],
    ending: Sequence[LastingFact],
    witness: Witness,
    now: float,
    alike: Alike | None = None,
) -> list[Admission]:
    """Store what one look says is stated, and close what another one, which showed only the user's words, says ends."""
    plain = [replace(fact, replaces=()) for fact in stated if not fact.lifts_only]
    alone = replace(witness, only_users_words=True)
    return [*admit(memory, plain, witness, now, alike), *admit(memory, ending, alone, now, alike)]


def _store(
    memory: Memory, facts: Sequence[LastingFact], witness: Witness, now: float, alike: Alike | None
) -> list[Admission]:
    for _ in range(TRIES):
        base = memory.generation()
        present = {known_entry.entry.file: known_entry for known_entry in memory.entries()}
        edits: dict[str, EntryEdit] = {}
        results = []
        for fact in facts:
            try:
                entry = _entry_of(memory, fact, witness, now)
                file, edit = _stated_already(entry, present, alike) or _as_new_entry(
                    fact, entry, witness, present
                )
            except (SevenfoldError, ValueError) as refusal:  # one odd fact must not take the others with it
                results.append(Admission(fact, refused=str(refusal)))
                continue
            origin = edit.stamp.origin if edit is not None else present[file].stamp.origin
            results.append(Admission(fact, file, new=file not in present, origin=origin))
            if edit is not None:
                present[file] = KnownEntry(parse_entry(file, edit.content), edit.stamp)
                edits[file] = edit
        if not edits:
            return results
        reason = "; ".join(shortened(present[file].entry.description, 60) for file in edits)
        committed = memory.commit(edits, "remember", reason, session=witness.session, based_on=base)
        # An edit is skipped if another process changed its entry meanwhile: then try again with the new entries.
        if all(committed.entries.get(file) == edit.stamp for file, edit in edits.items()):
            return results
    raise Refused("other processes keep changing memory; try again later")


class _Claim(Struct, frozen=True):
    """A proposed fact, compared with what the user really said."""

    fact: LastingFact
    statements: Mapping[str, UsersStatement]
    """The user's whole statements that its quotations are from, by their text; empty if the user said none of them."""
    note: str
    """The model's own words about it, escaped: they must never look like the user's."""

    @classmethod
    def of(cls, fact: LastingFact, witness: Witness) -> _Claim:
        """Look for the statements that a fact's quotations are from."""
        matches = [witness.statement(quoted_text, fact.message) for quoted_text in fact.quotations]
        statements = {statement.text: statement for statement in matches if statement is not None}
        return cls(fact, statements, as_data(fact.note)[:MOST_NOTE])

    @property
    def assertions(self) -> tuple[str, ...]:
        """What the fact says: in the user's words if it has any, else as the model quoted or noted it."""
        return tuple(self.statements) or self.fact.quotations or (self.note,)

    @property
    def text(self) -> str:
        """All that the fact says."""
        return "\n".join(self.assertions)

    def body(self, named_days: Mapping[str, str]) -> str:
        """The body of the entry: only the user's words are quoted, so nothing else can pass for them."""
        note = "\n\n".join(filter(None, (self.note, dates_line(named_days))))
        if self.statements:
            return f"{quoted(self.statements)}\n\n{note}"
        return "\n\n".join((*map(as_data, self.fact.quotations), note))


def _entry_of(memory: Memory, fact: LastingFact, witness: Witness, now: float) -> KnownEntry:
    """The entry that a fact would become, with its provenance; raises `Refused` if it must not be stored."""
    claim = _Claim.of(fact, witness)
    _check_not_considered_before(claim, witness)
    _check_content(memory, claim)
    named_days = _named_days(claim, witness)
    until = _until(claim, named_days, witness)
    _check_lasting(claim, until)
    entry = new_entry(slug(claim.text), fact.kind, claim.text, claim.body(named_days))
    if until:
        entry = entry.with_until(until)
    return KnownEntry(entry, _provenance(claim, witness, now))


def _check_not_considered_before(claim: _Claim, witness: Witness) -> None:
    """Raise `Refused` if all statements are from messages that an earlier look examined.

    The model that proposes facts sees those messages too. Without this check, an entry that the user removed would come
    back with the next look.
    """
    records = {statement.record for statement in claim.statements.values()}
    if records and witness.unread and witness.unread.isdisjoint(records):
        raise Refused("you said it earlier, and it was considered then")


def _check_content(memory: Memory, claim: _Claim) -> None:
    """Raise `Refused` if there is nothing to store, or a secret in it."""
    if not claim.text.strip():
        raise Refused("it is empty")
    # The model's quotations too: one that misspells the user's words may contain a secret that they do not.
    everything = "\n".join((claim.text, *claim.fact.quotations, claim.note))
    if problem := memory.refuses(everything.encode(errors="replace")):
        raise Refused(problem)


def _check_lasting(claim: _Claim, until: str) -> None:
    """Raise `Refused` for what will not matter later; a last day makes even temporary words worth storing till then."""
    if not until and all(map(is_temporary, claim.assertions)):
        raise Refused("it applies only for now")
    if all(map(finished, claim.assertions)):
        raise Refused("it reports finished debugging")


def _provenance(claim: _Claim, witness: Witness, now: float) -> Provenance:
    """Whose words the entry has, and the messages that prove it."""
    if not claim.statements:
        return Provenance("", least_trusted("model", witness.least_trusted), created=now)
    records = [statement.record for statement in claim.statements.values()]
    evidence = tuple(dict.fromkeys(f"{witness.session}/{record}" for record in records))
    last_said = max(witness.times.get(record, now) for record in records)
    return Provenance("", "user", evidence, created=last_said, verified=last_said)


def _named_days(claim: _Claim, witness: Witness) -> dict[str, str]:
    """The dates of "tomorrow", "by Friday" and the like in the user's words, by these words."""
    named: dict[str, str] = {}
    for text, statement in claim.statements.items():
        said_on = witness.days.get(statement.record)
        if said_on is not None:
            named |= checked_dates(text, claim.fact.dates, said_on)
    return named


def _until(claim: _Claim, named_days: Mapping[str, str], witness: Witness) -> str:
    """The last day on which a fact is valid, if the user's own words name that day and it was not past then."""
    last_day = claim.fact.until
    if not last_day:
        return ""
    for text, statement in claim.statements.items():
        said_on = witness.days.get(statement.record)
        past = said_on is not None and last_day < said_on.isoformat()
        if names_day(text, last_day, named_days, said_on) and not past:
            return last_day
    return ""


def _stated_already(
    new: KnownEntry, present: Mapping[str, KnownEntry], alike: Alike | None
) -> tuple[str, EntryEdit | None] | None:
    """The entry that already states this fact, and an edit that adds what it lacks, if anything; else None."""
    for file, earlier in present.items():
        stamp_before = earlier.stamp
        # In a less trusted entry the user's words would no longer count as theirs, so they get an entry of their own.
        as_trusted = least_trusted(stamp_before.origin, new.stamp.origin) == new.stamp.origin
        if not as_trusted or earlier.entry.until != new.entry.until:
            continue
        if not same_fact(_carried(earlier.entry), _carried(new.entry), alike):
            continue
        merged = merge(earlier, (earlier, new))
        # A model's wording is never added to an entry; neither is one of the user's that is there already.
        if not new.stamp.trusted or holds(earlier.entry.statement, new.entry.statement):
            if merged.stamp.evidence == stamp_before.evidence or earlier.entry.pinned:
                return file, None
            stamp = replace(stamp_before, evidence=merged.stamp.evidence, verified=merged.stamp.verified)
            return file, EntryEdit(earlier.entry.render(), stamp)
        if not earlier.entry.pinned and len(earlier.entry.quotations) < MOST_WORDINGS:
            return file, merged
    return None


def _as_new_entry(
    fact: LastingFact, new: KnownEntry, witness: Witness, taken_names: Container[str]
) -> tuple[str, EntryEdit | None]:
    """A new entry for the fact; raises `Refused` if the model knows it without memory."""
    stated = new.entry.quotations or fact.quotations or (new.entry.body,)
    if _all_said(stated, witness.always_shown):
        raise Refused("the model sees this in every session anyway")
    if not new.stamp.trusted and _all_said(stated, witness.shown):
        raise Refused("a file, a command or memory already says it")
    file = free_file(new.entry.file, taken_names)
    content = MemoryEntry(file, new.entry.page.with_value("name", file.removesuffix(".md"))).render()
    return file, EntryEdit(content, replace(new.stamp, sha256=digest(content)))


def _all_said(statements: Iterable[str], texts: Collection[str]) -> bool:
    """Whether each of these statements is in one of the texts."""
    return all(any(says(text, statement) for text in texts) for statement in statements)


def _carried(entry: MemoryEntry) -> str:
    """The words that state an entry's fact, with the dates that they refer to."""
    dates = [line for line in entry.note.splitlines() if line.startswith(DATES)]
    return "\n".join((entry.statement, *dates)) if entry.quotations else entry.statement
