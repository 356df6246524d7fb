"""Dreaming: merges entries that state the same fact, and writes down what can be checked about the others.

A model, or a rule, only names entries; it writes nothing. What happens to them depends on their own words: a merged
entry has all the user's words of its parts, trust is never raised, and an entry is deleted only if another one now says
the same. Dates, what is gone from the project, and shorter lines for the index go into an entry's head
(`sevenfold.memory.annotation`). That a later entry contradicts an earlier one is proposed and never carried out: only
the user, or a look at the words with which the user took it back, ends what the user said. So a misbehaving model can
waste a dream, but not damage memory. Only `dream` changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.memory.annotation import annotated
from sevenfold.memory.contradiction import ends
from sevenfold.memory.entry import MAX_BYTES, MemoryEntry, parse_entry, quoted
from sevenfold.memory.front_matter import Page
from sevenfold.memory.generation import digest, least_trusted
from sevenfold.memory.memory import Edits, EntryEdit, KnownEntry, Memory
from sevenfold.memory.search import fitting
from sevenfold.memory.words import ROOT, distinctive_words, names_something, same_fact, shared

LEAST_BUDGET = 3
SHARE = 0.2
"""The share of all entries that one dream may change, with `LEAST_BUDGET` as the minimum."""
TRIES = 3
"""How often a dream is attempted if memory keeps changing meanwhile."""
ALIKE = 0.6
"""The share of words that each entry of a group must have in common with the first, of the one that has more."""
LEAST_SHARED = 2
"""The fewest words that they share: one word is a topic."""
MOST_ANNOTATED = 20
"""The most entries to whose heads one dream adds something."""

_SAME = re.compile(r"<same>([^<]{1,2000})</same>", re.IGNORECASE)
_REPLACED = re.compile(r'<replaced by="([^"<>\n]{1,100})">([^<]{1,2000})</replaced>', re.IGNORECASE)
_DATE = re.compile(
    r'<date name="([^"<>\n]{1,100})" words="([^"<>\n]{1,120})">\s*(\d{4}-\d\d-\d\d)\s*</date>',
    re.IGNORECASE,
)
_SHORT = re.compile(r'<short name="([^"<>\n]{1,100})">([^<>]{1,400})</short>', re.IGNORECASE)
_NOTHING = re.compile(r"<nothing\s*/?>", re.IGNORECASE)


class Proposal(Struct, frozen=True):
    """Entries that could be merged or closed, by file."""

    same: tuple[tuple[str, ...], ...] = ()
    """Groups of entries that state the same fact."""
    replaced: tuple[tuple[str, str], ...] = ()
    """Pairs of an entry and the later one that contradicts it."""
    dates: tuple[tuple[str, str, str], ...] = ()
    """Entries, each with words in it that name a day, and the date."""
    short: tuple[tuple[str, str], ...] = ()
    """Entries, each with a shorter form of its statement."""

    def plus(self, other: Proposal) -> Proposal:
        """Both proposals together, without duplicates."""
        return Proposal(
            tuple(dict.fromkeys((*self.same, *other.same))),
            tuple(dict.fromkeys((*self.replaced, *other.replaced))),
            (*self.dates, *other.dates),
            (*self.short, *other.short),
        )


class Consolidation(Struct, frozen=True):
    """What a dream would do, or did."""

    edits: Edits
    done: tuple[str, ...] = ()
    """Descriptions of what it does."""
    refused: tuple[str, ...] = ()
    """Suggestions that were rejected, and why."""
    proposed: tuple[str, ...] = ()
    """What only the user can decide: entries that a later one seems to contradict."""
    change: int = 0
    """The number of the change; 0 if nothing was changed."""


def merge(first: KnownEntry, merging: Sequence[KnownEntry]) -> EntryEdit:
    """The first entry extended with the content of all parts; its origin is the least trusted of theirs."""
    quotations = dict.fromkeys(chain.from_iterable(entry.entry.quotations for entry in merging))
    notes = dict.fromkeys(entry.entry.note for entry in merging if entry.entry.note)
    body = "\n\n".join(filter(None, (quoted(quotations), *notes)))
    page = Page(first.entry.page.head, f"\n{body}\n", first.entry.page.fences)
    content = MemoryEntry(first.entry.file, page).render()
    stamp = msgspec.structs.replace(
        first.stamp,
        sha256=digest(content),
        origin=least_trusted(*(entry.stamp.origin for entry in merging)),
        evidence=tuple(dict.fromkeys(chain.from_iterable(entry.stamp.evidence for entry in merging))),
        verified=max(entry.stamp.verified for entry in merging),
    )
    return EntryEdit(content, stamp)


def by_rules(entries: Sequence[KnownEntry]) -> Proposal:
    """The proposal that can be made without a model."""
    groups: list[list[str]] = []
    closed: list[tuple[str, str]] = []
    grouped: set[str] = set()
    texts = [entry.entry.statement for entry in entries]
    roots = list(map(_roots, texts))
    for number, entry in enumerate(entries):
        if entry.entry.file in grouped:
            continue
        group = [entry.entry.file]
        for next_place in range(number + 1, len(entries)):
            # Most pairs have nothing in common, and comparing all word by word would take minutes in a large memory.
            if 2 * len(roots[number] & roots[next_place]) < max(len(roots[number]), len(roots[next_place])):
                continue
            if same_fact(texts[number], texts[next_place]):
                group.append(entries[next_place].entry.file)
                continue
            older, newer = sorted((number, next_place), key=lambda at: entries[at].when)
            if ends(texts[older], texts[newer]):
                closed.append((entries[older].entry.file, entries[newer].entry.file))
        if len(group) > 1:
            groups.append(group)
            grouped.update(group)
    return Proposal(tuple(map(tuple, groups)), tuple(closed))


def _roots(text: str) -> frozenset[str]:
    return frozenset(word[:ROOT] for word in distinctive_words(text))


def read_proposal(answer: str, entries: Iterable[KnownEntry]) -> Proposal | None:
    """Parse a model's answer; None if it did not follow the format. Unknown names are ignored."""
    files = {entry.entry.name: entry.entry.file for entry in entries}
    groups = []
    for names in _SAME.findall(answer):
        group = tuple(dict.fromkeys(files[name] for name in _names(names) if name in files))
        if len(group) > 1:
            groups.append(group)
    replaced = []
    for newer, names in _REPLACED.findall(answer):
        older_names = (name for name in _names(names) if name in files and name != newer)
        if newer in files:
            replaced += [(files[older], files[newer]) for older in older_names]
    dates = [(files[name], phrase, day) for name, phrase, day in _DATE.findall(answer) if name in files]
    short = [(files[name], phrase) for name, phrase in _SHORT.findall(answer) if name in files]
    tags = (_SAME, _REPLACED, _DATE, _SHORT, _NOTHING)
    if not any(tag.search(answer) for tag in tags):
        return None
    return Proposal(tuple(groups), tuple(replaced), tuple(dates), tuple(short))


def plan(
    entries: Sequence[KnownEntry],
    proposal: Proposal,
    today: str,
    there: Callable[[str], bool] | None = None,
) -> Consolidation:
    """The part of a proposal that may be carried out, within the budget of one dream.

    ``there`` checks whether a path or command that an entry names still exists.
    """
    by_file = {entry.entry.file: entry for entry in entries}
    budget = max(LEAST_BUDGET, int(len(entries) * SHARE))
    edits: dict[str, EntryEdit | None] = {}
    done: list[str] = []
    refused: list[str] = []
    for group in proposal.same:
        merging = [by_file[file] for file in group if file in by_file and file not in edits]
        over = "the budget of this dream is spent" if len(edits) + len(merging) > budget else ""
        if problem := _unlike(merging, today) or over:
            refused.append(f"{_listed(group)}: {problem}")
            continue
        oldest = min(merging, key=lambda entry: entry.when)
        merged = merge(oldest, merging)
        if len(merged.content) > MAX_BYTES:
            refused.append(f"{_listed(group)}: together they would be too large")
            continue
        edits |= {merged_entry.entry.file: None for merged_entry in merging}
        edits[oldest.entry.file] = merged
        done.append(f"merged {_listed(group)}")
    unmerged = [
        entry for entry in entries if entry.entry.file not in edits and not entry.entry.has_expired(today)
    ]
    added = _annotations(unmerged, proposal, there)
    if added:
        done.append(f"added dates, missing files or shorter lines to {_listed(added)}")
    return Consolidation(
        {**edits, **added}, tuple(done), tuple(refused), _contradicted(by_file, proposal, today)
    )


def _annotations(
    entries: Sequence[KnownEntry], proposal: Proposal, there: Callable[[str], bool] | None
) -> dict[str, EntryEdit]:
    """What a dream adds to the heads of entries."""
    dates: dict[str, list[tuple[str, str]]] = {}
    for file, phrase, day in proposal.dates:
        dates.setdefault(file, []).append((phrase, day))
    short: Mapping[str, str] = dict(proposal.short)
    added: dict[str, EntryEdit] = {}
    for entry in entries:
        file = entry.entry.file
        edit = annotated(entry, dates.get(file, ()), short.get(file, ""), there)
        if edit is not None and len(added) < MOST_ANNOTATED:
            added[file] = edit
    return added


def _contradicted(by_file: Mapping[str, KnownEntry], proposal: Proposal, today: str) -> tuple[str, ...]:
    """The entries that a later one of the same trust seems to contradict, and what the user can do."""
    lines = []
    for older, newer in proposal.replaced:
        if (
            not {older, newer} <= by_file.keys()
            or by_file[older].entry.pinned
            or by_file[older].entry.has_expired(today)
        ):
            continue
        if not by_file[newer].stamp.trusted or by_file[newer].when <= by_file[older].when:
            continue
        name = older.removesuffix(".md")
        lines.append(
            f"{name}: {_listed((newer,))} seems to say otherwise; `sevenfold memory close {name}` ends it"
        )
    return tuple(dict.fromkeys(lines))


def losses(before: Sequence[KnownEntry], after: Sequence[KnownEntry], today: str) -> list[str]:
    """The names of entries that a search for their own words no longer finds; closed entries do not count."""
    closed = {entry.entry.file for entry in after if entry.entry.has_expired(today)}
    held = (entry.entry for entry in before if entry.entry.file not in closed)
    answerable = (entry for entry in held if _answers(entry.statement, before, today))
    return [entry.name for entry in answerable if not _answers(entry.statement, after, today)]


def after_edits(entries: Sequence[KnownEntry], edits: Edits) -> list[KnownEntry]:
    """The entries as they would be after these edits."""
    untouched = [entry for entry in entries if entry.entry.file not in edits]
    changed = {file: edit for file, edit in edits.items() if edit is not None}
    edited = [KnownEntry(parse_entry(file, edit.content), edit.stamp) for file, edit in changed.items()]
    return sorted((*untouched, *edited), key=lambda entry: entry.entry.file)


def dream(
    memory: Memory,
    suggested: Proposal | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    there: Callable[[str], bool] | None = None,
) -> Consolidation:
    """Consolidate memory in one change, unless something would be lost; starts over if memory changes meanwhile.

    ``goes_on`` is called before the change is made; raises `Refused` if it returns False. ``there`` is as in `plan`.
    """
    for _ in range(TRIES):
        base = memory.generation()
        prepared = prepare(memory, suggested, there)
        if not prepared.edits:
            return prepared
        if not goes_on():
            raise Refused("the dream was stopped, or another process took over")
        current = memory.commit(
            prepared.edits, "dream", "; ".join(prepared.done), based_on=base, whole=True
        )
        wanted = {file: edit.stamp if edit else None for file, edit in prepared.edits.items()}
        if all(current.entries.get(file) == stamp for file, stamp in wanted.items()):
            return msgspec.structs.replace(prepared, change=current.number)
    return Consolidation({}, (), ("given up: memory keeps changing",))


def prepare(
    memory: Memory, suggested: Proposal | None = None, there: Callable[[str], bool] | None = None
) -> Consolidation:
    """What a dream would do now; no edits if any entry could no longer be found afterwards."""
    entries = memory.entries()
    today = memory.today()
    planned = plan(entries, by_rules(entries).plus(suggested or Proposal()), today, there)
    if not planned.edits:
        return planned
    lost = losses(entries, after_edits(entries, planned.edits), today)
    if lost:
        reason = f"given up: {', '.join(lost)} could not be found any more"
        return Consolidation({}, (), (*planned.refused, reason), planned.proposed)
    return planned


def _answers(query: str, entries: Sequence[KnownEntry], today: str) -> bool:
    return any(words_held(fit.known_entry.entry, query) for fit in fitting(query, entries, today))


def words_held(entry: MemoryEntry, statement: str) -> bool:
    """Whether an entry contains all of these lines."""
    body = " ".join(entry.body.replace("\n> ", "\n").split())
    return all(" ".join(line.split()) in body for line in statement.splitlines())


def _unlike(merging: Sequence[KnownEntry], today: str) -> str:
    """Why entries must not be merged; empty if they may be."""
    if len(merging) < 2:
        return "there is nothing to merge"
    if any(entry.entry.pinned for entry in merging):
        return "pinned entries are the user's to change"
    if len({entry.stamp.origin for entry in merging}) > 1:
        return "they do not come from the same kind of source"
    if any(entry.entry.has_expired(today) for entry in merging):
        return "one of them no longer holds"
    first = distinctive_words(merging[0].entry.statement)
    for entry in merging[1:]:
        statement_words = distinctive_words(entry.entry.statement)
        shared_words = shared(first, statement_words)
        if len(shared_words) < LEAST_SHARED or len(shared_words) < ALIKE * max(
            len(first), len(statement_words)
        ):
            return "they speak of different things"
        if any(map(names_something, first ^ statement_words)):
            return "they name different things"
        texts = merging[0].entry.statement, entry.entry.statement
        if ends(*texts) or ends(*reversed(texts)):
            return "they contradict each other"
    return ""


def _names(text: str) -> list[str]:
    return list(filter(None, map(str.strip, re.split(r"[,\n]", text))))


def _listed(files: Iterable[str]) -> str:
    return ", ".join(file.removesuffix(".md") for file in files)
