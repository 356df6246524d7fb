"""Mending a list of messages that the server would refuse.

Each step mends one kind of break, changes as little as it can, and says what it did. Steps repeat until
nothing changes, because one mend can uncover the next: a message that became empty goes, and its two
neighbours become one turn. A list that nothing would refuse comes back as it was. What only the caller can
mend stays: an unfinished answer at the end, too many images, a model without system messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from sevenfold.record.rules.base import (
    Json,
    Placed,
    Turn,
    blocks_of,
    is_directive,
    kind_of,
    misplaced_system,
    placed,
    signed,
    turns,
)
from sevenfold.record.rules.blocks import clean_blocks, words_of
from sevenfold.record.rules.cache import lifetime
from sevenfold.record.rules.tools import (
    calls_of,
    doubled_calls,
    leading_results,
    orphan_server_results,
    pending_server_calls,
    talk,
)
from sevenfold.record.wire import CUT_START, NO_RESULT, ORPHAN

MARKERS = 4


class RuleRepair(Struct, frozen=True):
    """One thing that was mended."""

    path: str
    """Where it was in the list as it stood at that moment."""
    what: str
    """What was done, in a few words."""


class RepairTexts(Struct, frozen=True):
    """The sentences a repair may have to put in."""

    unanswered: str = NO_RESULT
    orphan: str = ORPHAN
    opening: str = CUT_START


def repair(
    messages: Sequence[Json], texts: RepairTexts | None = None
) -> tuple[list[Json], list[RuleRepair]]:
    """The messages as the server takes them, and what had to be done for that."""
    work = _Work(messages, texts or RepairTexts())
    mended = -1
    while len(work.done) > mended:
        mended = len(work.done)
        for step in _STEPS:
            step(work)
    return work.messages, work.done


class _Work:
    """The list being mended and the account of what was done to it."""

    def __init__(self, messages: Sequence[Json], texts: RepairTexts) -> None:
        self.messages: list[Json] = list(messages)
        self.texts = texts
        self.done: list[RuleRepair] = []

    def note(self, path: str, what: str) -> None:
        self.done.append(RuleRepair(path, what))

    def drop(self, parts: Iterable[Placed], what: str) -> None:
        """Take these blocks out of their messages."""
        gone = {(part.message, part.index): part for part in parts}
        for part in gone.values():
            self.note(part.path, what)
        for number in {message for message, _ in gone}:
            blocks = enumerate(blocks_of(self.messages[number]))
            self.say(number, [block for index, block in blocks if (number, index) not in gone])

    def say(self, number: int, blocks: list[Json]) -> None:
        """Give a message other blocks."""
        self.messages[number] = {**self.messages[number], "content": blocks}

    def replace(self, turn: Turn, blocks: list[Json]) -> None:
        """Say a turn with these blocks, in one message; what only changes settings stays."""
        directives = [message for message in self.messages[turn.start : turn.end] if is_directive(message)]
        self.messages[turn.start : turn.end] = [
            {**self.messages[turn.start], "content": blocks},
            *directives,
        ]


def _drop_unknown_roles(work: _Work) -> None:
    for number in reversed(range(len(work.messages))):
        if work.messages[number].get("role") not in ("user", "assistant", "system"):
            work.note(f"messages.{number}", "message with an unknown role dropped")
            del work.messages[number]


def _begin_at_the_signed_summary(work: _Work) -> None:
    """A summary made on demand stands first and alone; what it replaced goes."""
    parts = [part for part in placed(work.messages) if part.kind == "compaction"]
    work.drop((part for part in parts if _is_void_summary(work, part)), "summary that says nothing dropped")
    parts = [part for part in placed(work.messages) if part.kind == "compaction"]
    if (last := next((part for part in reversed(parts) if signed(part.block)), None)) is None:
        return
    if any((part.message, part.index) < (last.message, last.index) for part in placed(work.messages)):
        work.note(last.path, "what the signed summary replaced dropped")
        rest = blocks_of(work.messages[last.message])[last.index :]
        work.messages = [
            {**work.messages[last.message], "content": rest},
            *work.messages[last.message + 1 :],
        ]
    later = [
        part for part in placed(work.messages) if part.kind == "compaction" and part.block.get("content")
    ]
    work.drop(later[1:], "summary beside the signed one dropped")


def _is_void_summary(work: _Work, part: Placed) -> bool:
    if work.messages[part.message].get("role") == "system" or part.block.get("content") == "":
        return True
    return signed(part.block) and part.block.get("content") is None


def _clean_messages(work: _Work) -> None:
    for number, message in enumerate(work.messages):
        blocks, done = clean_blocks(message, work.texts.orphan)
        for index, what in done:
            work.note(f"messages.{number}.content.{index}", what)
        if done:
            work.say(number, blocks)


def _drop_broken_server_calls(work: _Work) -> None:
    found = turns(work.messages)
    orphans = list(orphan_server_results(found))
    work.drop(orphans, "server tool result without its call dropped")
    if orphans:
        return
    for turn, after in pairwise(found):
        if turn.role == "assistant" and talk(after) is not None:
            work.drop(pending_server_calls(turn), "server tool call that was never finished dropped")


def _drop_empty_messages(work: _Work) -> None:
    for number in reversed(range(len(work.messages))):
        message = work.messages[number]
        if not blocks_of(message) and not is_directive(message):
            work.note(f"messages.{number}", "empty message dropped")
            del work.messages[number]


def _let_users_say_misplaced_system_texts(work: _Work) -> None:
    found = turns(work.messages)
    for number, turn in enumerate(found):
        before = found[number - 1] if number else None
        after = found[number + 1] if number + 1 < len(found) else None
        if turn.role != "system" or not misplaced_system(before, after):
            continue
        work.note(f"messages.{turn.start}", "misplaced system message said by the user instead")
        for place in range(turn.start, turn.end):
            words = [block for block in blocks_of(work.messages[place]) if kind_of(block) == "text"]
            work.messages[place] = {"role": "user", "content": words}
        return


def _open_with_the_user(work: _Work) -> None:
    spoken = [message for message in work.messages if not is_directive(message)]
    opening = blocks_of(spoken[0])[:1] if spoken else []
    starts_well = spoken and (spoken[0].get("role") == "user" or kind_of((*opening, {})[0]) == "compaction")
    if not starts_well and (spoken or not work.messages):
        work.note("messages.0", "opening message put in")
        work.messages.insert(0, {"role": "user", "content": work.texts.opening})


def _drop_doubled_calls(work: _Work) -> None:
    work.drop(doubled_calls(turns(work.messages)), "tool call with an id used before dropped")


def _pair_calls_and_results(work: _Work) -> None:
    """Backwards, so that what is put in does not move what is still to be looked at."""
    found = turns(work.messages)
    for number in reversed(range(len(found))):
        turn = found[number]
        calls = calls_of(found[number - 1]) if number else {}
        if turn.role == "user":
            _mend_results(work, turn, calls)
        after = found[number + 1] if number + 1 < len(found) else None
        if calls_of(turn) and (after is None or after.role != "user"):
            work.note(f"messages.{turn.end}", "results put in for calls without any")
            results = [_missing_result(work, call) for call in calls_of(turn).values()]
            work.messages.insert(turn.end, {"role": "user", "content": results})


def _mend_results(work: _Work, turn: Turn, calls: dict[str, Placed]) -> None:
    answers: dict[str, Json] = {}
    others: list[Json] = []
    for part in turn.blocks:
        if part.kind != "tool_result":
            others.append(part.block)
        elif part.id in calls and part.id not in answers:
            answers[part.id] = _with_toolset(part.block, calls[part.id].block)
        else:
            work.note(part.path, "result without a call to answer turned into text")
            others.append({"type": "text", "text": words_of(part.block) or work.texts.orphan})
    for name, call in calls.items():
        if name not in answers:
            work.note(f"messages.{turn.start}", f"result put in for the call {name}")
            answers[name] = _missing_result(work, call)
    blocks = [*answers.values(), *others]
    if blocks == [part.block for part in turn.blocks]:
        return
    if len(leading_results(turn)) < len(calls):
        work.note(f"messages.{turn.start}", "results put first")
    else:
        work.note(f"messages.{turn.start}", "results mended")
    work.replace(turn, blocks)


def _missing_result(work: _Work, call: Placed) -> Json:
    result = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": work.texts.unanswered,
        "is_error": True,
    }
    return _with_toolset(result, call.block)


def _with_toolset(result: Json, call: Json) -> Json:
    if result.get("toolset_name") == call.get("toolset_name"):
        return result
    bare = {key: value for key, value in result.items() if key != "toolset_name"}
    return {**bare, "toolset_name": call["toolset_name"]} if call.get("toolset_name") is not None else bare


def _thin_out_markers(work: _Work) -> None:
    """The last four stay, and once one is short-lived, so are all after it."""
    marked = [(part, inner) for part in placed(work.messages) for inner in _markers(part.block)]
    for part, inner in marked[:-MARKERS]:
        _set_marker(work, part, inner, None)
    short = False
    for part, inner in marked[-MARKERS:]:
        ttl = lifetime(_carrier(part.block, inner)["cache_control"])
        if ttl == "1h" and short:
            _set_marker(work, part, inner, {"type": "ephemeral"})
        short = short or ttl == "5m"


def _markers(block: Json) -> list[int]:
    """Where a block is marked: -1 for the block itself, else the place inside its content."""
    content = block.get("content") if kind_of(block) == "tool_result" else None
    inner = enumerate(content if isinstance(content, list) else ())
    own = [-1] if block.get("cache_control") is not None else []
    return own + [
        place for place, item in inner if isinstance(item, dict) and item.get("cache_control") is not None
    ]


def _carrier(block: Json, inner: int) -> Json:
    carrier: Json = block if inner < 0 else block["content"][inner]
    return carrier


def _set_marker(work: _Work, part: Placed, inner: int, control: dict[str, Any] | None) -> None:
    work.note(part.path, "cache marker made short-lived" if control else "cache marker too many taken off")
    blocks = blocks_of(work.messages[part.message])
    block = blocks[part.index]
    bare = {key: value for key, value in _carrier(block, inner).items() if key != "cache_control"}
    carrier = {**bare, "cache_control": control} if control else bare
    if inner < 0:
        blocks[part.index] = carrier
    else:
        content = [*block["content"][:inner], carrier, *block["content"][inner + 1 :]]
        blocks[part.index] = {**block, "content": content}
    work.say(part.message, blocks)


_STEPS: tuple[Callable[[_Work], None], ...] = (
    _drop_unknown_roles,
    _begin_at_the_signed_summary,
    _clean_messages,
    _drop_broken_server_calls,
    _drop_empty_messages,
    _let_users_say_misplaced_system_texts,
    _open_with_the_user,
    _drop_doubled_calls,
    _pair_calls_and_results,
    _thin_out_markers,
)
