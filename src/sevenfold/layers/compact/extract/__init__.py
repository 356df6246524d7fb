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
from sevenfold.layers.compact.extract.notation import Facts, File, FoundError, QuotedMessage
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
    names = dict(notation.short_names(item.record.uuid for item in live))
    carried_over = _handed_on(live)
    texts = ((item.record.uuid, users_words(item)) for item in live)
    messages = [QuotedMessage(uuid, text) for uuid, text in texts if text]
    tool_calls = calls(live, kinds)
    touched = [*work.merged([*reversed(carried_over.files), *reversed(work.files(tool_calls))])][::-1]
    errors = work.problems(tool_calls)
    allowed = _once([*reversed(list(words.permissions(live))), *carried_over.permissions])
    allowed_texts = {entry.text for entry in allowed}
    corrections = (*reversed(list(words.corrections(messages))), *carried_over.corrections)
    rounds_since = any(item.record.role == "assistant" for item in live)
    announced = tuple(state.announced(live)[-_MOST_PENDING:])
    return Facts(
        messages=(*carried_over.messages, *messages),
        replies=_once([*carried_over.replies, *replies(tool_calls)]),
        permissions=allowed,
        corrections=_once(entry for entry in corrections if entry.text not in allowed_texts),
        files=tuple(sorted(touched, key=lambda file: (not file.changed, not file.read))),
        commands=_once([*work.commands(tool_calls), *carried_over.commands], "line"),
        problems=_once([*errors, *carried_over.problems], "lines"),
        tasks=tuple(state.open_tasks(tool_calls, carried_over.tasks)),
        pending=announced if rounds_since else carried_over.pending,
        identifiers=tuple(
            identifiers(_sources(live, tool_calls, errors), carried_over.identifiers, _spellings(touched))
        ),
        outcomes=_once([*carried_over.outcomes, *state.outcomes(live)]),
        current=tuple(state.newest(live, tool_calls, names)) if rounds_since else carried_over.current,
        prose=_still_true(carried_over.prose, live, tool_calls) if rounds_since else carried_over.prose,
        left_out=carried_over.left_out,
        names=names,
    )


def _handed_on(items: Sequence[Item]) -> Facts:
    """The facts in the summaries among these records; usually there is one, at the beginning."""
    handed_on = Facts()
    for item in items:
        if item.record.summary:
            # The user's messages behind a summary are never read back: they come from their records.
            text_blocks = (block for block in item.record.blocks if not words.is_words_block(block))
            text = "\n".join(map(blocks.words_of, text_blocks))
            listed, prose = notation.read_back(text)
            handed_on = _with(handed_on, listed, outline.split(prose))
    return handed_on


def _with(earlier: Facts, later: Facts, prose: Mapping[int, str]) -> Facts:
    lists: dict[str, Any] = {
        name: (*getattr(later, name), *getattr(earlier, name)) for name in _NEWEST_FIRST
    }
    lists |= {name: (*getattr(earlier, name), *getattr(later, name)) for name in _OLDEST_FIRST}
    left_out = Counter(earlier.left_out) + Counter(later.left_out)
    return Facts(
        **lists,
        pending=later.pending or earlier.pending,
        current=later.current or earlier.current,
        prose=_joined(earlier.prose, prose),
        left_out=dict(left_out),
    )


def _joined(earlier: Mapping[int, str], later: Mapping[int, str]) -> Mapping[int, str]:
    """Join the prose of summaries section by section; a text without sections counts as section 1."""
    later_sections = dict(later) if len(later) > 1 or 0 not in later else {1: later[0]}
    later_sections.pop(0, None)
    joined = {}
    for number in sorted({*earlier, *later_sections}):
        texts = (earlier.get(number), later_sections.get(number))
        joined[number] = "\n\n".join(filter(None, texts))
    return joined


def _still_true(
    prose: Mapping[int, str], items: Sequence[Item], tool_calls: Sequence[Call]
) -> Mapping[int, str]:
    """Update the prose of earlier summaries after more work has been done.

    The "current work" (8) of that time becomes part of the history (5), the "next step" (9) is dropped, and so are
    pending tasks (7) that a later record reports as done.
    """
    history = "\n\n".join(filter(None, (prose.get(5, ""), prose.get(8, ""))))
    pending = state.still_open(prose.get(7, ""), items, tool_calls)
    updated = {**prose, 5: history, 7: pending}
    return {number: text for number, text in updated.items() if number < 8 and text.strip()}


def _sources(
    items: Iterable[Item], tool_calls: Iterable[Call], errors: Iterable[FoundError]
) -> Iterator[IdentifierSource]:
    from_tools: dict[str, list[IdentifierSource]] = {}
    for call in tool_calls:
        from_tools.setdefault(call.record, []).append(
            IdentifierSource(call.about, call.record, from_tool=True)
        )
    for problem in errors:
        from_tools.setdefault(problem.record, []).append(IdentifierSource(problem.lines, problem.record))
    for item in items:
        if text := users_words(item):
            yield IdentifierSource(text, item.record.uuid, by_user=True)
        elif text := models_words(item):
            yield IdentifierSource(text, item.record.uuid)
        yield from from_tools.get(item.record.uuid, ())


def _spellings(touched: Iterable[File]) -> frozenset[str]:
    """Every suffix of each file's path: names in the list of files are not repeated as identifiers."""
    spellings: set[str] = set()
    for file in touched:
        segments = file.path.replace("\\", "/").split("/")
        spellings.add(file.path)
        spellings.update("/".join(segments[start:]) for start in range(len(segments)))
    return frozenset(spellings)


def _once(entries: Iterable[_FACT], by: str = "text") -> tuple[_FACT, ...]:
    """The entries without duplicates: the first of those with the same value in the field ``by``."""
    first_with: dict[str, _FACT] = {}
    for entry in entries:
        first_with.setdefault(getattr(entry, by), entry)
    return tuple(first_with.values())
