"""Extracts facts from a conversation by code alone: messages, files, commands, errors and open tasks.

The extractive engine writes a summary from them, a model's summary is completed with them, and the offline model
answers from them. Records are read in their original form, even if only a part is still shown; records hidden by a
decision are left out; facts in earlier summaries are carried over.
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
    """Extract all facts from these records; ``kinds`` maps tools to what they do, where known."""
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
    """The facts in the summaries among these records; usually there is one, at the beginning."""
    known = Facts()
    for item in items:
        if item.said.summary:
            # The user's messages behind a summary are never read back: they come from their records.
            parts = (block for block in item.said.blocks if not words.is_words_block(block))
            text = "\n".join(map(blocks.words_of, parts))
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
    """Join the prose of summaries section by section; a text without sections counts as section 1."""
    said = dict(new) if len(new) > 1 or 0 not in new else {1: new[0]}
    said.pop(0, None)
    both = ((number, old.get(number), said.get(number)) for number in sorted({*old, *said}))
    return {number: "\n\n".join(filter(None, texts)) for number, *texts in both}


def _still_true(prose: Mapping[int, str], items: Sequence[Item], made: Sequence[Call]) -> Mapping[int, str]:
    """Update the prose of earlier summaries after more work has been done.

    The "current work" (8) of that time becomes part of the history (5), the "next step" (9) is dropped, and so are
    pending tasks (7) that a later record reports as done.
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
    """Every suffix of each file's path: names in the list of files are not repeated as identifiers."""
    found: set[str] = set()
    for file in touched:
        parts = file.path.replace("\\", "/").split("/")
        found.add(file.path)
        found.update("/".join(parts[place:]) for place in range(len(parts)))
    return frozenset(found)


def _once(entries: Iterable[_FACT], by: str = "text") -> tuple[_FACT, ...]:
    """The entries without duplicates: the first of those with the same value in the field ``by``."""
    kept: dict[str, _FACT] = {}
    for entry in entries:
        kept.setdefault(getattr(entry, by), entry)
    return tuple(kept.values())
