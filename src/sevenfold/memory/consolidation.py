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

import msgspec
from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.memory.annotation import annotated
from sevenfold.memory.contradiction import ends
from sevenfold.memory.entry import MOST_BYTES, MemoryEntry, quoted, read_entry
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


def merge(first: KnownEntry, parts: Sequence[KnownEntry]) -> EntryEdit:
    """The first entry extended with the content of all parts; its origin is the least trusted of theirs."""
    quotations = dict.fromkeys(quotation for part in parts for quotation in part.entry.quotations)
    rest = dict.fromkeys(part.entry.note for part in parts if part.entry.note)
    body = "\n\n".join(filter(None, (quoted(quotations), *rest)))
    page = Page(first.entry.page.head, f"\n{body}\n", first.entry.page.fences)
    content = MemoryEntry(first.entry.file, page).render()
    stamp = msgspec.structs.replace(
        first.stamp,
        sha256=digest(content),
        origin=least_trusted(*(part.stamp.origin for part in parts)),
        evidence=tuple(dict.fromkeys(record for part in parts for record in part.stamp.evidence)),
        verified=max(part.stamp.verified for part in parts),
    )
    return EntryEdit(content, stamp)


def by_rules(known: Sequence[KnownEntry]) -> Proposal:
    """The proposal that can be made without a model."""
    groups: list[list[str]] = []
    closed: list[tuple[str, str]] = []
    taken: set[str] = set()
    texts = [entry.entry.words for entry in known]
    roots = [frozenset(word[:ROOT] for word in distinctive_words(text)) for text in texts]
    for number, entry in enumerate(known):
        if entry.entry.file in taken:
            continue
        group = [entry.entry.file]
        for next_place in range(number + 1, len(known)):
            # Most pairs have nothing in common, and comparing all word by word would take minutes in a large memory.
            if 2 * len(roots[number] & roots[next_place]) < max(len(roots[number]), len(roots[next_place])):
                continue
            if same_fact(texts[number], texts[next_place]):
                group.append(known[next_place].entry.file)
                continue
            older, newer = sorted((number, next_place), key=lambda at: known[at].when)
            if ends(texts[older], texts[newer]):
                closed.append((known[older].entry.file, known[newer].entry.file))
        if len(group) > 1:
            groups.append(group)
            taken.update(group)
    return Proposal(tuple(map(tuple, groups)), tuple(closed))


def read_proposal(answer: str, known: Iterable[KnownEntry]) -> Proposal | None:
    """Parse a model's answer; None if it did not follow the format. Unknown names are ignored."""
    files = {entry.entry.name: entry.entry.file for entry in known}
    same = []
    for names in _SAME.findall(answer):
        group = tuple(dict.fromkeys(files[name] for name in _names(names) if name in files))
        if len(group) > 1:
            same.append(group)
    replaced = [
        (files[name], files[by])
        for by, names in _REPLACED.findall(answer)
        for name in _names(names)
        if name in files and by in files and name != by
    ]
    dates = [(files[name], phrase, day) for name, phrase, day in _DATE.findall(answer) if name in files]
    short = [(files[name], phrase) for name, phrase in _SHORT.findall(answer) if name in files]
    tags = (_SAME, _REPLACED, _DATE, _SHORT, _NOTHING)
    if not any(tag.search(answer) for tag in tags):
        return None
    return Proposal(tuple(same), tuple(replaced), tuple(dates), tuple(short))


def plan(
    known: Sequence[KnownEntry], proposal: Proposal, today: str, there: Callable[[str], bool] | None = None
) -> Consolidation:
    """The part of a proposal that may be carried out, within the budget of one dream.

    ``there`` checks whether a path or command that an entry names still exists.
    """
    held = {entry.entry.file: entry for entry in known}
    budget = max(LEAST_BUDGET, int(len(known) * SHARE))
    edits: dict[str, EntryEdit | None] = {}
    done: list[str] = []
    refused: list[str] = []
    for group in proposal.same:
        parts = [held[file] for file in group if file in held and file not in edits]
        over = "the budget of this dream is spent" if len(edits) + len(parts) > budget else ""
        if problem := _unlike(parts, today) or over:
            refused.append(f"{_listed(group)}: {problem}")
            continue
        oldest = min(parts, key=lambda entry: entry.when)
        merged = merge(oldest, parts)
        if len(merged.content) > MOST_BYTES:
            refused.append(f"{_listed(group)}: together they would be too large")
            continue
        edits |= {part.entry.file: None for part in parts}
        edits[oldest.entry.file] = merged
        done.append(f"merged {_listed(group)}")
    others = [entry for entry in known if entry.entry.file not in edits and not entry.entry.over(today)]
    added = _annotations(others, proposal, there)
    if added:
        done.append(f"added dates, missing files or shorter lines to {_listed(added)}")
    return Consolidation(
        {**edits, **added}, tuple(done), tuple(refused), _contradicted(held, proposal, today)
    )


def _annotations(
    known: Sequence[KnownEntry], proposal: Proposal, there: Callable[[str], bool] | None
) -> dict[str, EntryEdit]:
    """What a dream adds to the heads of entries."""
    dates: dict[str, list[tuple[str, str]]] = {}
    for file, phrase, day in proposal.dates:
        dates.setdefault(file, []).append((phrase, day))
    short: Mapping[str, str] = dict(proposal.short)
    added: dict[str, EntryEdit] = {}
    for entry in known:
        file = entry.entry.file
        edit = annotated(entry, dates.get(file, ()), short.get(file, ""), there)
        if edit is not None and len(added) < MOST_ANNOTATED:
            added[file] = edit
    return added


def _contradicted(held: Mapping[str, KnownEntry], proposal: Proposal, today: str) -> tuple[str, ...]:
    """The entries that a later one of the same trust seems to contradict, and what the user can do."""
    lines = []
    for older, newer in proposal.replaced:
        if not {older, newer} <= held.keys() or held[older].entry.pinned or held[older].entry.over(today):
            continue
        if not held[newer].stamp.trusted or held[newer].when <= held[older].when:
            continue
        name = older.removesuffix(".md")
        lines.append(
            f"{name}: {_listed((newer,))} seems to say otherwise; `sevenfold memory close {name}` ends it"
        )
    return tuple(dict.fromkeys(lines))


def losses(before: Sequence[KnownEntry], after: Sequence[KnownEntry], today: str) -> list[str]:
    """The names of entries that a search for their own words no longer finds; closed entries do not count."""
    closed = {entry.entry.file for entry in after if entry.entry.over(today)}
    held = (entry.entry for entry in before if entry.entry.file not in closed)
    answerable = (entry for entry in held if _answers(entry.words, before, today))
    return [entry.name for entry in answerable if not _answers(entry.words, after, today)]


def after_edits(known: Sequence[KnownEntry], edits: Edits) -> list[KnownEntry]:
    """The entries as they would be after these edits."""
    kept = [entry for entry in known if entry.entry.file not in edits]
    changed = {file: edit for file, edit in edits.items() if edit is not None}
    edited = [KnownEntry(read_entry(file, edit.content), edit.stamp) for file, edit in changed.items()]
    return sorted((*kept, *edited), key=lambda entry: entry.entry.file)


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
        now = memory.commit(prepared.edits, "dream", "; ".join(prepared.done), based_on=base, whole=True)
        wanted = {file: edit.stamp if edit else None for file, edit in prepared.edits.items()}
        if all(now.entries.get(file) == stamp for file, stamp in wanted.items()):
            return msgspec.structs.replace(prepared, change=now.number)
    return Consolidation({}, (), ("given up: memory keeps changing",))


def prepare(
    memory: Memory, suggested: Proposal | None = None, there: Callable[[str], bool] | None = None
) -> Consolidation:
    """What a dream would do now; no edits if any entry could no longer be found afterwards."""
    known = memory.entries()
    today = memory.today()
    planned = plan(known, by_rules(known).plus(suggested or Proposal()), today, there)
    if not planned.edits:
        return planned
    lost = losses(known, after_edits(known, planned.edits), today)
    if lost:
        reason = f"given up: {', '.join(lost)} could not be found any more"
        return Consolidation({}, (), (*planned.refused, reason), planned.proposed)
    return planned


def _answers(query: str, known: Sequence[KnownEntry], today: str) -> bool:
    return any(words_held(fit.known.entry, query) for fit in fitting(query, known, today))


def words_held(entry: MemoryEntry, statement: str) -> bool:
    """Whether an entry contains all of these lines."""
    body = " ".join(entry.body.replace("\n> ", "\n").split())
    return all(" ".join(line.split()) in body for line in statement.splitlines())


def _unlike(parts: Sequence[KnownEntry], today: str) -> str:
    """Why entries must not be merged; empty if they may be."""
    if len(parts) < 2:
        return "there is nothing to merge"
    if any(part.entry.pinned for part in parts):
        return "pinned entries are the user's to change"
    if len({part.stamp.origin for part in parts}) > 1:
        return "they do not come from the same kind of source"
    if any(part.entry.over(today) for part in parts):
        return "one of them no longer holds"
    first = distinctive_words(parts[0].entry.words)
    for part in parts[1:]:
        statement_words = distinctive_words(part.entry.words)
        both = shared(first, statement_words)
        if len(both) < LEAST_SHARED or len(both) < ALIKE * max(len(first), len(statement_words)):
            return "they speak of different things"
        if any(map(names_something, first ^ statement_words)):
            return "they name different things"
        texts = parts[0].entry.words, part.entry.words
        if ends(*texts) or ends(*reversed(texts)):
            return "they contradict each other"
    return ""


def _names(text: str) -> list[str]:
    return [name.strip() for name in re.split(r"[,\n]", text) if name.strip()]


def _listed(files: Iterable[str]) -> str:
    return ", ".join(file.removesuffix(".md") for file in files)
