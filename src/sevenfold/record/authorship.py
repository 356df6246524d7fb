"""Who wrote a text: decided here, for every format and every part that treats the user's words specially.

Much is sent in the user's role that no user typed: reminders, hook output, notices of background work, the output of a
client's own commands, summaries. Clients flag some of it, wrap some in tags of their own, and write a command the user
typed as several tags. On the other hand, users also speak outside their messages: in a queue while the agent works,
in the remark with which they refuse a tool call, in the answer to a question.

Flags decide first. Tags count only at the ends of a text, and only in records of other tools: in our own records,
everything a program added is flagged, so tags were typed by the user. In doubt, words are the user's, so none are lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult, ToolUse
from sevenfold.record.entries import Entry, Queued, Said

Author = Literal["user", "model", "program", "summary"]

_CLARIFIES = "The user wants to clarify these questions"
_AFTER_A_REMARK = "\n\nNote: The user's next message may contain"
_AFTER_ANSWERS = ("You can now continue with", "Read the answers carefully")


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A pattern of `authorship.toml`."""
    import tomllib

    table = tomllib.loads(Path(__file__).with_name("authorship.toml").read_text("utf-8"))
    return re.compile(table["patterns"][name].replace("{tags}", "|".join(table["tags"])))


def author(said: Said, block: Block) -> Author:
    """Who wrote the text in a block of a record; the user if any of it is the user's."""
    if said.summary:
        return "summary"
    if said.role == "assistant":
        return "program" if said.synthetic else "model"
    if from_user(said) and typed(said, block):
        return "user"
    return "summary" if not said.own and is_summary(blocks.words_of(block)) else "program"


def users_words(said: Said) -> str:
    """The user's own words in a message; empty if there are none. See `reply` for tool results."""
    if not from_user(said):
        return ""
    return "\n".join(filter(None, [typed(said, block) for block in said.blocks if block.kind == "text"]))


def from_user(said: Said) -> bool:
    """Whether a message can contain the user's words, judging by its flags alone."""
    return said.role == "user" and not (said.meta or said.summary or said.synthetic)


def is_users(said: Said) -> bool:
    """Whether a record contains anything from the user, in words or images."""
    if not from_user(said) or said.answers:
        return bool(users_words(said))
    return any(block.kind != "text" or typed(said, block) for block in said.blocks)


def is_summary(text: str) -> bool:
    """Whether a text begins like a summary by another tool."""
    return bool(_pattern("summary").match(text))


def typed(said: Said, block: Block) -> str:
    """The part of a text block in a user message that the user typed."""
    words = blocks.words_of(block)
    if not words.strip():
        return ""
    return words if said.own else _unwrapped(words)


def reply(block: Block, tool: str) -> str:
    """The user's words in the result of a call of this tool: why it was refused, or the answer to a question.

    Only two kinds of results are trusted: those of tools that ask the user, and the sentence with which a client
    reports that a call was refused.
    """
    body = block.body()
    if not isinstance(body, ToolResult):
        return ""
    words = blocks.words_of(block)
    if body.is_error:
        refused = _pattern("refused").match(words)
        remark = words[refused.end() :].partition(_AFTER_A_REMARK)[0].strip() if refused else ""
        if not remark.startswith(_CLARIFIES):
            return remark
        # If the user wants to discuss a question, the client adds its own words around the answers given so far.
        return "\n".join(_pattern("partly_answered").findall(remark))
    if not _pattern("asks").search(tool):
        return ""
    if answered := _pattern("answered").match(words):
        ends = [end for mark in _AFTER_ANSWERS if (end := words.rfind(mark)) > 0]
        words = words[answered.end() : min(ends, default=len(words))].strip().removesuffix(".")
    return words.strip()


def spoken(records: Iterable[Said]) -> Iterator[tuple[str, str]]:
    """The user's words in each of these records, replies included, with the id of the record."""
    tools: dict[str, str] = {}
    for said in records:
        for block in said.blocks if said.calls else ():
            if isinstance(body := block.body(), ToolUse):
                tools[body.id] = body.name
        replies = [
            reply(block, tools.get(block.id, "")) for block in said.blocks if block.id in said.answers
        ]
        if words := "\n".join(filter(None, [users_words(said), *replies])):
            yield said.uuid, words


class Queue:
    """Messages typed while the agent works, until a message record contains them.

    Those taken from the queue between two turns become a user message. Those added to a running turn are recorded as an
    attachment by newer versions of Claude Code; in older versions they are only in the queue, and become a message
    here when the next answer begins.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, Said]] = {}
        self._sent: list[str] = []
        """Ids of those that left the queue to become a message."""
        self._removed: list[str] = []
        """Ids of those that were added to the running turn."""

    def due(self, position: int, entry: Entry) -> list[tuple[int, Said]]:
        """Process the next entry of a log; returns the queued messages that belong before it, with their positions."""
        match entry:
            case Queued(operation="enqueue", said=said):
                if users_words(said):
                    self._waiting[said.uuid] = (position, said)
            case Queued(operation="popAll"):
                self._waiting = {}  # back in the editor: any of them that are sent will be a message
            case Queued(operation="withdraw", said=said):
                for uuid in self._next(users_words(said)):
                    del self._waiting[uuid]
            case Queued(operation=operation, said=said) if self._waiting:
                left = self._sent if operation == "dequeue" else self._removed
                left += self._next(users_words(said))
            case Said(role="assistant", sidechain=False) if self._removed:
                due = [self._waiting.pop(uuid) for uuid in self._removed if uuid in self._waiting]
                self._removed = []
                return due
            case Said(role="user") if self._waiting and (words := _plain(users_words(entry))):
                for uuid in self._named(words)[:1]:
                    del self._waiting[uuid]
            case _:
                pass
        return []

    def _next(self, words: str) -> list[str]:
        """The id that leaves the queue: of the message with these words, or without words, of the oldest."""
        named = self._named(_plain(words)) if words else list(self._waiting)
        left = [uuid for uuid in named if uuid not in self._removed]
        return sorted(left, key=lambda uuid: uuid in self._sent)[:1]

    def _named(self, words: str) -> list[str]:
        return [uuid for uuid, (_, said) in self._waiting.items() if _plain(users_words(said)) == words]


def _plain(words: str) -> str:
    return " ".join(words.split())


def _unwrapped(words: str) -> str:
    """The text without what a client put around it; a command as it was typed."""
    if words.lstrip().startswith("<command-") and (command := _pattern("command").search(words)):
        return _as_typed(command[1].strip(), _pattern("arguments").search(words))
    if shell := _pattern("shell_line").match(words):
        return f"! {(shell[1] or shell[2]).strip()}"
    bare = words
    while found := _pattern("in_front").match(bare):
        bare = bare[found.end() :]
        if found[1] == "task-notification" and (more := _pattern("behind_a_notice").match(bare)):
            bare = bare[more.end() :]
    bare = _without_tags_behind(bare)
    if context := _pattern("ide_context").match(bare):
        bare = bare[context.end() :]
    says_nothing = not bare.strip() or _pattern("notice").match(bare) or is_summary(bare)
    return "" if says_nothing else bare


def _without_tags_behind(words: str) -> str:
    if not _pattern("closed").search(words[-100:]):
        return words
    opened = list(_pattern("opened").finditer(words))
    while closed := _pattern("closed").search(words):
        inner = next(
            (one for one in reversed(opened) if one[1] == closed[1] and one.end() <= closed.start()), None
        )
        if inner is None:
            return words
        words = words[: inner.start()].rstrip()
        opened = opened[: opened.index(inner)]
    return words


def _as_typed(name: str, arguments: re.Match[str] | None) -> str:
    given = arguments[1].strip() if arguments else ""
    if not given and _pattern("about_the_session").fullmatch(name):
        return ""
    return f"{name} {given}".strip() if name.strip("/ ") else given
