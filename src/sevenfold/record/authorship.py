"""Who wrote a text: decided here, for every format and every part that treats the user's words specially.

Much is sent in the user's role that no user typed: reminders, hook output, notices of background work, the output of a
client's own commands, summaries. Clients flag some of it, wrap some in tags of their own, and write a command the user
typed as several tags. On the other hand, users also speak outside their messages: in a queue while the agent works,
in the remark with which they refuse a tool call, in the answer to a question.

Two questions are asked. What did the user *say*? All of a message, pasted text included (`users_words`): a summary must
not lose what the user showed. What did the user *type*? Only that may be remembered or allowed in their name
(`typed_words`): a paste, a piped file, the text of a custom command and the task of a sub-agent were written by others.
Our records say which is which; within what was typed, fences, lines behind ``>`` and text between tags are quotations
(`typed_lines`).

Flags decide first. Tags count only at the ends of a text, and only in records of other tools: in our own records,
everything a program added is flagged, so tags were typed by the user. In doubt, words are the user's, so none are lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult, ToolUse
from sevenfold.record.entries import Entry, Queued, Said
from sevenfold.record.quoting import visible

Author = Literal["user", "model", "program", "summary"]
MessageOrigin = Literal["typed", "pasted", "command", "agent", "program"]
"""Where the text of a message with the user role comes from.

``typed``    the user's keyboard; also what a program passes on without saying otherwise
``pasted``   pasted by the user, or piped into the program
``command``  the text of a custom command that the user called
``agent``    the task that an agent gives to another
``program``  anything else that no user said: a page, a ticket, a file
"""
MESSAGE_ORIGINS: tuple[MessageOrigin, ...] = get_args(MessageOrigin)

PASTED = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for each part that was not typed in the record of what was."""
QUOTED = "\f"
"""A line that replaces each line that is only quoted; no line of a text can be this."""

_CLARIFIES = "The user wants to clarify these questions"
_AFTER_A_REMARK = "\n\nNote: The user's next message may contain"
_AFTER_ANSWERS = ("You can now continue with", "Read the answers carefully")


class UserPrompt(Struct, frozen=True):
    """A message for a model, and which of it the user typed."""

    text: str
    origin: MessageOrigin = "typed"
    """Where its text comes from, except for what was typed."""
    typed: str | None = None
    """What the user typed of it, with `PASTED` in place of the rest.

    None: all of a typed message, nothing of any other.
    """
    outputs: tuple[tuple[str, str], ...] = ()
    """Command lines that were run for it, each with its output: shown to the model, and never the user's words."""

    @classmethod
    def of(cls, given: str | UserPrompt) -> UserPrompt:
        """A plain text counts as typed."""
        return given if isinstance(given, UserPrompt) else cls(given)


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


def typed_words(said: Said) -> str:
    """What the user typed in a message, with `PASTED` in place of the rest; empty if nothing was."""
    if said.typed is not None:
        return said.typed if from_user(said) and said.typed.strip(f"{PASTED} \n") else ""
    return "" if said.origin else users_words(said)


def typed_lines(message: str) -> Iterator[str]:
    """The lines of a message, with `QUOTED` in place of those that only quote others."""
    lines = list(_unfenced(message))
    yield from _untagged(lines)


def from_user(said: Said) -> bool:
    """Whether a message can contain the user's words, judging by its flags and its recorded origin alone."""
    return (
        said.role == "user"
        and not (said.meta or said.summary or said.synthetic)
        and said.origin != "program"
    )


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
    if not body.is_error and not _pattern("asks").search(tool):
        return ""
    words = blocks.words_of(block)
    if body.is_error:
        refused = _pattern("refused").match(words)
        remark = words[refused.end() :].partition(_AFTER_A_REMARK)[0].strip() if refused else ""
        if not remark.startswith(_CLARIFIES):
            return remark
        # If the user wants to discuss a question, the client adds its own words around the answers given so far.
        return "\n".join(_pattern("partly_answered").findall(remark))
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


_FENCE = re.compile(r"(`{3,}|~{3,})")
_LIST_MARKER = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:\s[^<>]*)?(?<!/)>")
_QUOTES_A_LINE = (">", "＞", "&gt;")


def _unfenced(message: str) -> Iterator[str]:
    """The lines of a message, with `QUOTED` in place of fenced blocks, of lines behind ``>``, and of bare pastes."""
    fence = ""
    for line in message.splitlines():
        bare = visible(line).strip()
        while marker := _LIST_MARKER.match(bare):
            bare = bare[marker.end() :]
        opened = _FENCE.match(bare)
        if fence:
            if opened and opened[1].startswith(fence) and not bare.strip(fence[0]):
                fence = ""
            yield QUOTED
        elif opened and opened[1][0] not in bare[opened.end() :]:
            fence = opened[1]
            yield QUOTED
        else:
            yield QUOTED if bare.startswith(_QUOTES_A_LINE) or bare == PASTED else line


def _untagged(lines: list[str]) -> Iterator[str]:
    """The lines, with `QUOTED` in place of what is between two tags that are on several lines or fill one."""
    text = "\n".join(lines)
    tags = list(_TAG.finditer(text))
    last_close = {tag[2]: number for number, tag in enumerate(tags) if tag[1]}
    kept: list[str] = []
    shown_until = number = 0
    while number < len(tags):
        tag = tags[number]
        if tag[1] or last_close.get(tag[2], -1) < number:
            number += 1
            continue
        end = _closing(tags, number, last_close[tag[2]])
        start = tag.start()
        behind = tags[end].end()
        alone = not _of_line(text, start, -1).strip() and not _of_line(text, behind, 1).strip()
        if alone or "\n" in text[start:behind]:
            kept += [text[shown_until:start], f"\n{QUOTED}\n"]
            shown_until = behind
            number = end + 1
        else:
            number += 1
    kept.append(text[shown_until:])
    # Not `splitlines`, which would split at the marks for quoted lines as well.
    yield from "".join(kept).split("\n")


def _closing(tags: list[re.Match[str]], opening: int, last: int) -> int:
    """The number of the tag that closes this one; the last of its name if tags are not balanced."""
    depth = 0
    for number in range(opening, last + 1):
        if tags[number][2] == tags[opening][2]:
            depth += -1 if tags[number][1] else 1
            if depth == 0:
                return number
    return last


def _of_line(text: str, place: int, direction: int) -> str:
    """The part of a line before or behind a place in it."""
    if direction < 0:
        return text[text.rfind("\n", 0, place) + 1 : place]
    end = text.find("\n", place)
    return text[place : end if end >= 0 else len(text)]


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
