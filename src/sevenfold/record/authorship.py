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
    def of(cls, prompt: str | UserPrompt) -> UserPrompt:
        """A plain text counts as typed."""
        return prompt if isinstance(prompt, UserPrompt) else cls(prompt)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A pattern of `authorship.toml`."""
    import tomllib

    table = tomllib.loads(Path(__file__).with_name("authorship.toml").read_text("utf-8"))
    return re.compile(table["patterns"][name].replace("{tags}", "|".join(table["tags"])))


def author(record: Said, block: Block) -> Author:
    """Who wrote the text in a block of a record; the user if any of it is the user's."""
    if record.summary:
        return "summary"
    if record.role == "assistant":
        return "program" if record.synthetic else "model"
    if from_user(record) and typed(record, block):
        return "user"
    return "summary" if not record.own and is_summary(blocks.words_of(block)) else "program"


def users_words(record: Said) -> str:
    """The user's own words in a message; empty if there are none. See `reply` for tool results."""
    if not from_user(record):
        return ""
    texts = [typed(record, block) for block in record.blocks if block.kind == "text"]
    return "\n".join(filter(None, texts))


def typed_words(record: Said) -> str:
    """What the user typed in a message, with `PASTED` in place of the rest; empty if nothing was."""
    if record.typed is not None:
        return record.typed if from_user(record) and record.typed.strip(f"{PASTED} \n") else ""
    return "" if record.origin else users_words(record)


def typed_lines(message: str) -> Iterator[str]:
    """The lines of a message, with `QUOTED` in place of those that only quote others."""
    lines = list(_unfenced(message))
    yield from _untagged(lines)


def from_user(record: Said) -> bool:
    """Whether a message can contain the user's words, judging by its flags and its recorded origin alone."""
    return (
        record.role == "user"
        and not (record.meta or record.summary or record.synthetic)
        and record.origin != "program"
    )


def is_users(record: Said) -> bool:
    """Whether a record contains anything from the user, in words or images."""
    if not from_user(record) or record.answers:
        return bool(users_words(record))
    return any(block.kind != "text" or typed(record, block) for block in record.blocks)


def is_summary(text: str) -> bool:
    """Whether a text begins like a summary by another tool."""
    return bool(_pattern("summary").match(text))


def typed(record: Said, block: Block) -> str:
    """The part of a text block in a user message that the user typed."""
    text = blocks.words_of(block)
    if not text.strip():
        return ""
    return text if record.own else _unwrapped(text)


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
    text = blocks.words_of(block)
    if body.is_error:
        refused = _pattern("refused").match(text)
        remark = text[refused.end() :].partition(_AFTER_A_REMARK)[0].strip() if refused else ""
        if not remark.startswith(_CLARIFIES):
            return remark
        # If the user wants to discuss a question, the client adds its own words around the answers given so far.
        return "\n".join(_pattern("partly_answered").findall(remark))
    if answered := _pattern("answered").match(text):
        ends = [end for mark in _AFTER_ANSWERS if (end := text.rfind(mark)) > 0]
        text = text[answered.end() : min(ends, default=len(text))].strip().removesuffix(".")
    return text.strip()


def spoken(records: Iterable[Said]) -> Iterator[tuple[str, str]]:
    """The user's words in each of these records, replies included, with the id of the record."""
    tools: dict[str, str] = {}
    for record in records:
        if record.calls:
            tools.update(_tools_called(record))
        results = (block for block in record.blocks if block.id in record.answers)
        replies = [reply(result, tools.get(result.id, "")) for result in results]
        if text := "\n".join(filter(None, [users_words(record), *replies])):
            yield record.uuid, text


def _tools_called(record: Said) -> Iterator[tuple[str, str]]:
    """The tool calls in an answer: the id and the tool's name."""
    for block in record.blocks:
        if isinstance(body := block.body(), ToolUse):
            yield body.id, body.name


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
            case Queued(operation="enqueue", message=message):
                if users_words(message):
                    self._waiting[message.uuid] = (position, message)
            case Queued(operation="popAll"):
                self._waiting = {}  # back in the editor: any of them that are sent will be a message
            case Queued(operation="withdraw", message=message):
                for uuid in self._leaving(users_words(message)):
                    del self._waiting[uuid]
            case Queued(operation=operation, message=message) if self._waiting:
                leaving = self._sent if operation == "dequeue" else self._removed
                leaving += self._leaving(users_words(message))
            case Said(role="assistant", sidechain=False) if self._removed:
                due = [self._waiting.pop(uuid) for uuid in self._removed if uuid in self._waiting]
                self._removed = []
                return due
            case Said(role="user") if self._waiting and (text := _plain(users_words(entry))):
                for uuid in self._with_text(text)[:1]:
                    del self._waiting[uuid]
            case _:
                pass
        return []

    def _leaving(self, text: str) -> list[str]:
        """The id that leaves the queue: of the message with these words, or without words, of the oldest."""
        matching = self._with_text(_plain(text)) if text else list(self._waiting)
        candidates = [uuid for uuid in matching if uuid not in self._removed]
        # Those that were already sent come last: the same text may have been queued twice.
        return sorted(candidates, key=lambda uuid: uuid in self._sent)[:1]

    def _with_text(self, text: str) -> list[str]:
        """The ids of the waiting messages with this text."""
        matching = []
        for uuid, (_, message) in self._waiting.items():
            if _plain(users_words(message)) == text:
                matching.append(uuid)
        return matching


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
    shown: list[str] = []
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
            shown += [text[shown_until:start], f"\n{QUOTED}\n"]
            shown_until = behind
            number = end + 1
        else:
            number += 1
    shown.append(text[shown_until:])
    # Not `splitlines`, which would split at the marks for quoted lines as well.
    yield from "".join(shown).split("\n")


def _closing(tags: list[re.Match[str]], opening: int, last: int) -> int:
    """The number of the tag that closes this one; the last of its name if tags are not balanced."""
    depth = 0
    for number in range(opening, last + 1):
        if tags[number][2] == tags[opening][2]:
            depth += -1 if tags[number][1] else 1
            if depth == 0:
                return number
    return last


def _of_line(text: str, position: int, direction: int) -> str:
    """The part of a line before or behind a position in it."""
    if direction < 0:
        return text[text.rfind("\n", 0, position) + 1 : position]
    end = text.find("\n", position)
    return text[position : end if end >= 0 else len(text)]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _unwrapped(text: str) -> str:
    """The text without what a client put around it; a command as it was typed."""
    if text.lstrip().startswith("<command-") and (command := _pattern("command").search(text)):
        return _as_typed(command[1].strip(), _pattern("arguments").search(text))
    if shell := _pattern("shell_line").match(text):
        return f"! {(shell[1] or shell[2]).strip()}"
    bare = text
    while wrapper := _pattern("in_front").match(bare):
        bare = bare[wrapper.end() :]
        if wrapper[1] == "task-notification" and (trailer := _pattern("behind_a_notice").match(bare)):
            bare = bare[trailer.end() :]
    bare = _without_tags_behind(bare)
    if context := _pattern("ide_context").match(bare):
        bare = bare[context.end() :]
    says_nothing = not bare.strip() or _pattern("notice").match(bare) or is_summary(bare)
    return "" if says_nothing else bare


def _without_tags_behind(text: str) -> str:
    if not _pattern("closed").search(text[-100:]):
        return text
    opened = list(_pattern("opened").finditer(text))
    while closed := _pattern("closed").search(text):
        while opened and (opened[-1][1] != closed[1] or opened[-1].end() > closed.start()):
            opened.pop()
        if not opened:
            return text
        text = text[: opened.pop().start()].rstrip()
    return text


def _as_typed(name: str, arguments: re.Match[str] | None) -> str:
    argument_text = arguments[1].strip() if arguments else ""
    if not argument_text and _pattern("about_the_session").fullmatch(name):
        return ""
    return f"{name} {argument_text}".strip() if name.strip("/ ") else argument_text
