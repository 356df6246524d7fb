"""Facts from a conversation, by code alone: what was said, touched, run, met and left to do.

This is what the extractive compactor writes, what a model's summary is completed with, and what an
offline model answers from. It reads records as they were said, whatever of them is still shown, leaves
out what a decision took out of sight, and takes up what earlier summaries hand on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sevenfold.layers.compact.extract import notation, outline, state, words, work
from sevenfold.layers.compact.extract.identifiers import IdentifierSource, identifiers
from sevenfold.layers.compact.extract.notation import Facts, File, FoundError, Words
from sevenfold.layers.compact.extract.words import models_words, users_words
from sevenfold.layers.compact.extract.work import Call, calls, replies
from sevenfold.record import blocks
from sevenfold.record.layout import Item

_MOST_PENDING = 3
_NEWEST_FIRST = ("permissions", "corrections", "files", "commands", "problems", "identifiers")
_OLDEST_FIRST = ("messages", "replies", "tasks", "outcomes")
_FACT = TypeVar("_FACT")


def facts(items: Iterable[Item], kinds: Mapping[str, str] = {}) -> Facts:
    """Everything that can be known of these records; ``kinds`` says what each tool does, if known."""
    live = [item for item in items if not item.hidden_by]
    names = dict(notation.short_names(item.said.uuid for item in live))
    before = _handed_on(live)
    said = [Words(item.said.uuid, text) for item in live if (text := users_words(item))]
    made = calls(live, kinds)
    touched = [*work.merged([*reversed(before.files), *reversed(work.files(made))])][::-1]
    met = work.problems(made)
    allowed = _once([*reversed(list(words.permissions(live))), *before.permissions])
    told = {one.text for one in allowed}
    corrections = (*reversed(list(words.corrections(said))), *before.corrections)
    rounds_since = any(item.said.role == "assistant" for item in live)
    announced = tuple(state.announced(live)[-_MOST_PENDING:])
    return Facts(
        messages=(*before.messages, *said),
        replies=_once([*before.replies, *replies(made)]),
        permissions=allowed,
        corrections=_once(one for one in corrections if one.text not in told),
        files=tuple(sorted(touched, key=lambda file: (not file.changed, not file.read))),
        commands=_once([*work.commands(made), *before.commands], "line"),
        problems=_once([*met, *before.problems], "lines"),
        tasks=tuple(state.open_tasks(made, before.tasks)),
        pending=announced if rounds_since else before.pending,
        identifiers=tuple(identifiers(_sources(live, made, met), before.identifiers, _spellings(touched))),
        outcomes=_once([*before.outcomes, *state.outcomes(live)]),
        current=tuple(state.newest(live, made, names)) if rounds_since else before.current,
        prose=_still_true(before.prose, live, made) if rounds_since else before.prose,
        left_out=before.left_out,
        names=names,
    )


def _handed_on(items: Sequence[Item]) -> Facts:
    """What the summaries among these records say; there is one as a rule, at the beginning."""
    known = Facts()
    for item in items:
        if item.said.summary:
            text = "\n".join(blocks.words_of(block) for block in item.said.blocks)
            found, prose = notation.read_back(text)
            known = _with(known, found, outline.split(prose))
    return known


def _with(old: Facts, new: Facts, prose: Mapping[int, str]) -> Facts:
    both: dict[str, Any] = {name: (*getattr(new, name), *getattr(old, name)) for name in _NEWEST_FIRST}
    both |= {name: (*getattr(old, name), *getattr(new, name)) for name in _OLDEST_FIRST}
    left_out = Counter(old.left_out) + Counter(new.left_out)
    return Facts(
        **both,
        pending=new.pending or old.pending,
        current=new.current or old.current,
        prose=_joined(old.prose, prose),
        left_out=dict(left_out),
    )


def _joined(old: Mapping[int, str], new: Mapping[int, str]) -> Mapping[int, str]:
    """What several summaries say, section by section; a text without sections is kept as the first."""
    said = dict(new) if len(new) > 1 or 0 not in new else {1: new[0]}
    said.pop(0, None)
    both = ((number, old.get(number), said.get(number)) for number in sorted({*old, *said}))
    return {number: "\n\n".join(filter(None, texts)) for number, *texts in both}


def _still_true(prose: Mapping[int, str], items: Sequence[Item], made: Sequence[Call]) -> Mapping[int, str]:
    """What earlier summaries say, now that the work went on.

    Where it was then is a part of its history, what was to be next is settled, and so is a pending task that a later
    record says is done.
    """
    history = "\n\n".join(filter(None, (prose.get(5, ""), prose.get(8, ""))))
    pending = state.still_open(prose.get(7, ""), items, made)
    now = {**prose, 5: history, 7: pending}
    return {number: text for number, text in now.items() if number < 8 and text.strip()}


def _sources(
    items: Iterable[Item], made: Iterable[Call], met: Iterable[FoundError]
) -> Iterator[IdentifierSource]:
    asked: dict[str, list[IdentifierSource]] = {}
    for call in made:
        asked.setdefault(call.record, []).append(IdentifierSource(call.about, call.record, from_tool=True))
    for problem in met:
        asked.setdefault(problem.record, []).append(IdentifierSource(problem.lines, problem.record))
    for item in items:
        if said := users_words(item):
            yield IdentifierSource(said, item.said.uuid, by_user=True)
        elif said := models_words(item):
            yield IdentifierSource(said, item.said.uuid)
        yield from asked.get(item.said.uuid, ())


def _spellings(touched: Iterable[File]) -> frozenset[str]:
    """Every way to name a file from some folder above it: what the list of files says need not be repeated."""
    found: set[str] = set()
    for file in touched:
        parts = file.path.replace("\\", "/").split("/")
        found.add(file.path)
        found.update("/".join(parts[place:]) for place in range(len(parts)))
    return frozenset(found)


def _once(entries: Iterable[_FACT], by: str = "text") -> tuple[_FACT, ...]:
    """Each entry once, the first of those that say the same."""
    kept: dict[str, _FACT] = {}
    for entry in entries:
        kept.setdefault(getattr(entry, by), entry)
    return tuple(kept.values())
