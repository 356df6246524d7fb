"""The facts that code extracts from a conversation, and how they are written into a summary and read back.

Every fact names the record it was taken from, so that the reader of a summary can look up the original text. A fact
carried over from an earlier summary names its record in the short form used there.

Summaries chain: all that the next compaction knows about the messages before this one comes from the summary. So each
list is enclosed in a tag, and each entry is a line of fixed form that ends with the record it comes from. A user
message states its number of lines, so that nothing inside it can be mistaken for the tags. Every form is both written
and read here, and reading gives back the facts that were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

WAYS: Final = ("edited", "written", "read", "mentioned")
"""The ways a file can be used."""


class QuotedMessage(Struct, frozen=True):
    """A user message: whole, or its beginning and end with ``lost`` characters left out between them."""

    record: str
    head: str
    tail: str = ""
    lost: int = 0


class Quote(Struct, frozen=True):
    """Words of the user or the model, copied from a record."""

    text: str
    record: str


class Permission(Struct, frozen=True):
    """Words in which the user allows or refuses something; for a short yes or no, also the proposal it answers."""

    granted: bool
    text: str
    record: str
    proposal: str = ""
    proposed: str = ""
    """The record that contains the proposal."""


class File(Struct, frozen=True):
    """A file that was used: how, how often, and the first and last record that used it."""

    path: str
    first: str
    last: str = ""
    read: int = 0
    edited: int = 0
    written: int = 0
    mentioned: int = 0

    @property
    def changed(self) -> bool:
        """Whether the file was edited or written."""
        return bool(self.edited or self.written)


class Command(Struct, frozen=True):
    """A command line, how its last run ended, and how often it ran."""

    line: str
    state: str
    """One of: ok, failed, exit N, no result."""
    record: str
    count: int = 1


class FoundError(Struct, frozen=True):
    """A failed tool call: the characteristic lines of the error, and whether the same act succeeded later."""

    tool: str
    lines: str
    record: str
    settled: bool = False


class Task(Struct, frozen=True):
    """An unfinished entry of the to-do list."""

    text: str
    record: str
    doing: bool = False
    number: str = ""
    """Its number in the list, if the list numbers its entries."""


class Identifier(Struct, frozen=True):
    """Something that is useful only if spelt exactly: an id, an address, a version, a figure."""

    text: str
    kind: str
    record: str
    count: int = 1
    by_user: bool = False


class Facts(Struct, frozen=True):
    """All extracted facts. Messages, replies and outcomes are in conversation order; the rest most relevant first."""

    messages: tuple[QuotedMessage, ...] = ()
    replies: tuple[Quote, ...] = ()
    """The user's replies in tool results: answers to questions and plans, and remarks on refused calls."""
    permissions: tuple[Permission, ...] = ()
    """What the user allowed and refused, newest first."""
    corrections: tuple[Quote, ...] = ()
    files: tuple[File, ...] = ()
    commands: tuple[Command, ...] = ()
    problems: tuple[FoundError, ...] = ()
    tasks: tuple[Task, ...] = ()
    pending: tuple[Quote, ...] = ()
    """Sentences of the model's newest answer about what is still to be done."""
    identifiers: tuple[Identifier, ...] = ()
    outcomes: tuple[Quote, ...] = ()
    """The model's last words in each turn."""
    current: tuple[str, ...] = ()
    """The newest rounds, one line for each event."""
    prose: Mapping[int, str] = {}
    """The prose in each of the nine sections of an earlier summary."""
    left_out: Mapping[str, int] = {}
    """How many entries of each list earlier summaries had to leave out."""
    names: Mapping[str, str] = {}
    """Short forms of record ids."""

    def name(self, record: str) -> str:
        """The form in which a record is cited."""
        return self.names.get(record, record)


# -- in a summary ---------------------------------------------------------------------------

Listed: TypeAlias = Quote | Permission | File | Command | FoundError | Task | Identifier
"""A fact that is written as a line of a list."""
_FACT = TypeVar("_FACT", bound=Listed)
_OF_THIS_SUMMARY = frozenset({"request", "current", "next"})
"""Lists that every summary makes afresh, so that what an earlier one left out no longer counts."""
APART = "(The messages of the user stand behind this summary, in the block user-words.)"
"""The text of the section for the user's messages if they are shown behind the summary."""
EARLIER = "(From an earlier summary:)"
"""Precedes prose carried over from an earlier summary."""
NOTHING = "(nothing recorded)"
"""The text of an empty section."""
MORE = "[More was said here; it found no room.]"
"""Follows prose that was partly left out."""

_SHORT = (8, 13, 18, 23)
"""Lengths to which an id may be cut: after each group of a UUID."""

_WRAPPED = re.compile(r"^<summary>\n(.*)\n</summary>$", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r'^<recorded kind="([\w-]+)">\n(.*?)^</recorded>$', re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r'^<said record="([^"\n]*)" lines="(\d+)"(?: cut-at="(\d+)")?>$')
_GAP = re.compile(r"^\[(\d+) characters left out here; record [^\]\n]* has all of it\]$")
_LEFT_OUT = re.compile(r"^\((\d+) more not listed here; the transcript has them\)$")
_CITED = r" \[(?P<record>[^\[\]\s]+)\]"
_QUOTE = re.compile(rf"^- “(?P<text>.*)”{_CITED}$")
_PERMISSION = re.compile(
    rf"^- (?P<granted>allowed|refused): “(?P<text>.*?)”{_CITED}"
    r"(?: to “(?P<proposal>.*)” \[(?P<proposed>[^\[\]\s]+)\])?$"
)
_SAID_LAST = re.compile(rf"^- the model said: “(.*)”{_CITED}$")
_USED = "".join(rf"(?:{way} (?P<{way}>\d+)×(?:, )?)?" for way in WAYS)
_FILE = re.compile(
    rf"^- (?P<path>.*): (?=\w){_USED} \[(?P<first>[^\[\]\s]+?)(?: to (?P<last>[^\[\]\s]+))?\]$"
)
_COMMAND = re.compile(
    rf"^- (?P<state>ok|failed|no result|exit -?\d+)(?:, (?P<count>\d+)×)?: (?P<line>.*){_CITED}$"
)
_PROBLEM = re.compile(rf"^- (?P<tool>[^\s:,]*)(?P<settled>, settled later)?: (?P<lines>.*){_CITED}$")
_TASK = re.compile(rf"^- \[(?P<doing>[ >])\] (?:#(?P<number>\w+) )?(?P<text>.*){_CITED}$")
_IDENTIFIER = re.compile(
    rf"^- (?P<text>.*) \((?P<kind>\w+)(?P<by_user>, by the user)?, (?P<count>\d+)×\){_CITED}$"
)
_UNSET = ("refused", " ", None)
"""Matched values that mean False in a boolean field."""


def short_names(records: Iterable[str]) -> Mapping[str, str]:
    """For each id, its shortest unique prefix, cut after a group of the UUID."""
    names: dict[str, str] = {}
    waiting = list(dict.fromkeys(records))
    for length in (*_SHORT, None):
        by_prefix: dict[str, list[str]] = {}
        for record in waiting:
            by_prefix.setdefault(record[:length], []).append(record)
        waiting = []
        for prefix, sharing in by_prefix.items():
            if len(sharing) == 1:
                names[sharing[0]] = prefix
            else:
                waiting += sharing
    return names


def framed(kind: str, lines: Iterable[str], left_out: int = 0) -> str:
    """A list in its tag, as written in a summary; empty if there is nothing to list."""
    lines = [*lines]
    if left_out:
        lines.append(f"({left_out} more not listed here; the transcript has them)")
    return "\n".join([f'<recorded kind="{kind}">', *lines, "</recorded>"]) if lines else ""


def quoted(message: QuotedMessage) -> str:
    """A user message that only an earlier summary has, as prose."""
    return "\n".join(filter(None, [message.head, "[…]" if message.lost else "", message.tail]))


def said(message: QuotedMessage, facts: Facts) -> str:
    """A user message as written in a summary, with a note in place of what was left out."""
    name = facts.name(message.record)
    lines = message.head.split("\n")
    cut = ""
    if message.lost:
        cut = f' cut-at="{len(lines) + 1}"'
        gap = f"[{message.lost} characters left out here; record {name} has all of it]"
        lines = [*lines, gap, *message.tail.split("\n")]
    return "\n".join([f'<said record="{name}" lines="{len(lines)}"{cut}>', *lines, "</said>"])


def entry(fact: Listed, facts: Facts) -> str:
    """A fact as a line of its list, ending with the record it comes from."""
    name = facts.name(fact.first if isinstance(fact, File) else fact.record)
    match fact:
        case Quote():
            return f"- “{_flat(fact.text)}” [{name}]"
        case Permission():
            verb = "allowed" if fact.granted else "refused"
            answers = f" to “{_flat(fact.proposal)}” [{facts.name(fact.proposed)}]" if fact.proposal else ""
            return f"- {verb}: “{_flat(fact.text)}” [{name}]{answers}"
        case File():
            uses = [(verb, getattr(fact, verb)) for verb in WAYS]
            how = ", ".join(f"{verb} {times}×" for verb, times in uses if times)
            last = f" to {facts.name(fact.last)}" if facts.name(fact.last) != name else ""
            return f"- {_flat(fact.path)}: {how} [{name}{last}]"
        case Command():
            times = f", {fact.count}×" if fact.count > 1 else ""
            return f"- {fact.state}{times}: {_flat(fact.line)} [{name}]"
        case FoundError():
            settled = ", settled later" if fact.settled else ""
            tool = re.sub(r"[\s:,]", "_", fact.tool)
            return f"- {tool}{settled}: {_flat(fact.lines)} [{name}]"
        case Task():
            number = f"#{fact.number} " if fact.number else ""
            return f"- [{'>' if fact.doing else ' '}] {number}{_flat(fact.text)} [{name}]"
        case Identifier():
            users = ", by the user" if fact.by_user else ""
            return f"- {_flat(fact.text)} ({fact.kind}{users}, {fact.count}×) [{name}]"


def read_back(text: str) -> tuple[Facts, str]:
    """Read the facts in one of our summaries; returns them and the rest of its text."""
    lists: dict[str, list[str]] = {}
    left_out: dict[str, int] = {}
    # The note around the summary is not part of it.
    wrapped = _WRAPPED.search(text)
    messages, remainder = _read_messages(wrapped[1] if wrapped else text)
    for kind, body in _FRAME.findall(remainder):
        for line in body.splitlines():
            if omission := _LEFT_OUT.match(line):
                left_out[kind] = 0 if kind in _OF_THIS_SUMMARY else int(omission[1])
            else:
                lists.setdefault(kind, []).append(line)
    facts = Facts(
        messages=tuple(messages),
        replies=_entries(lists, "replies", Quote, _QUOTE),
        permissions=_entries(lists, "permissions", Permission, _PERMISSION),
        corrections=_entries(lists, "corrections", Quote, _QUOTE),
        files=tuple(
            replace(file, last=file.last or file.first) for file in _entries(lists, "files", File, _FILE)
        ),
        commands=_entries(lists, "commands", Command, _COMMAND),
        problems=_entries(lists, "errors", FoundError, _PROBLEM),
        tasks=_entries(lists, "tasks", Task, _TASK),
        pending=_entries(lists, "tasks", Quote, _QUOTE),
        identifiers=_entries(lists, "identifiers", Identifier, _IDENTIFIER),
        outcomes=(*_entries(lists, "outcomes", Quote, _QUOTE), *said_last(lists.get("current", ()))),
        current=tuple(lists.get("current", ())),
        left_out=left_out,
    )
    prose = [
        line for line in _FRAME.sub("", remainder).split("\n") if line not in (APART, EARLIER, NOTHING)
    ]
    return facts, "\n".join(prose)


def _entries(
    lists: Mapping[str, list[str]], kind: str, shape: type[_FACT], pattern: re.Pattern[str]
) -> tuple[_FACT, ...]:
    """Parse the entries of a list; the named groups of the pattern are the fields of ``shape``."""
    flags = {field.name for field in msgspec.structs.fields(shape) if field.type is bool}
    read = []
    for line in lists.get(kind, ()):
        if match := pattern.match(line):
            fields = {name: value for name, value in match.groupdict().items() if value is not None}
            fields |= {name: match[name] not in _UNSET for name in flags}
            read.append(msgspec.convert(fields, shape, strict=False))
    return tuple(read)


def said_last(current: Iterable[str]) -> list[Quote]:
    """The model's last words in a summary's list of the newest rounds; empty if it said nothing."""
    quotes = [quote for quote in map(_SAID_LAST.match, current) if quote]
    return [Quote(quotes[-1][1], quotes[-1]["record"])] if quotes else []


def _read_messages(text: str) -> tuple[list[QuotedMessage], str]:
    """Extract the user's messages from a summary; returns them and the text without them."""
    messages: list[QuotedMessage] = []
    other_lines: list[str] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        if begins := _MESSAGE.match(lines[index]):
            end = index + 1 + int(begins[2])
            messages.append(_message(begins[1], lines[index + 1 : end], int(begins[3] or 0)))
            index = end + 1
        else:
            other_lines.append(lines[index])
            index += 1
    return messages, "\n".join(other_lines)


def _message(record: str, lines: list[str], cut_at: int) -> QuotedMessage:
    gap = _GAP.match(lines[cut_at - 1]) if 0 < cut_at <= len(lines) else None
    if gap is None:
        return QuotedMessage(record, "\n".join(lines))
    return QuotedMessage(record, "\n".join(lines[: cut_at - 1]), "\n".join(lines[cut_at:]), int(gap[1]))


def _flat(text: str) -> str:
    return " ".join(text.split())
