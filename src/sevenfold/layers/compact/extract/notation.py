"""What can be known of a conversation without asking a model, and how it is written into a summary and read back.

Every fact names the record it was taken from, so that the reader of a summary can go back to the words
themselves. A fact that an earlier summary handed on names its record in the short form that summary used.

Summaries chain: what the next compaction knows of the messages before this one, it knows from here. So
each list is framed by a tag and each entry is a line of fixed form that ends in the records it rests on;
a message of the user says how many lines it has, so that nothing it holds can be mistaken for the frame.
Each form is written and read here, and reading what was written gives the same facts again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

WAYS: Final = ("edited", "written", "read", "mentioned")
"""How a file may have been worked with."""


class Words(Struct, frozen=True):
    """A message of the user: whole, or its beginning and end with so many characters left out between."""

    record: str
    head: str
    tail: str = ""
    lost: int = 0


class Quote(Struct, frozen=True):
    """Words of the user or the model, copied from a record."""

    text: str
    record: str


class Permission(Struct, frozen=True):
    """Words in which the user allows or refuses something, and what they answer, if they are a short yes or no."""

    given: bool
    text: str
    record: str
    proposal: str = ""
    proposed: str = ""
    """The record of the proposal."""


class File(Struct, frozen=True):
    """A file that was worked with: how, how often, and the first and last record that did."""

    path: str
    first: str
    last: str = ""
    read: int = 0
    edited: int = 0
    written: int = 0
    mentioned: int = 0

    @property
    def changed(self) -> bool:
        """Did the work change it?"""
        return bool(self.edited or self.written)


class Command(Struct, frozen=True):
    """A command line, how its last run ended, and how often it ran."""

    line: str
    state: str
    """ok, failed, exit N, or no result"""
    record: str
    count: int = 1


class FoundError(Struct, frozen=True):
    """A call that failed: the lines by which the error is known, and whether the like succeeded later."""

    tool: str
    lines: str
    record: str
    settled: bool = False


class Task(Struct, frozen=True):
    """An entry of the to-do list that is not done."""

    text: str
    record: str
    doing: bool = False
    number: str = ""
    """What the list itself calls it, where it numbers its entries."""


class Identifier(Struct, frozen=True):
    """Something that is of use only if it is spelt exactly: an id, an address, a version, a figure."""

    text: str
    kind: str
    record: str
    count: int = 1
    by_user: bool = False


class Facts(Struct, frozen=True):
    """All of it. Messages and outcomes are in the order of the conversation; the rest most telling first."""

    messages: tuple[Words, ...] = ()
    replies: tuple[Quote, ...] = ()
    """What the user answered through a tool, as its result tells it: to a question, or refusing a call."""
    permissions: tuple[Permission, ...] = ()
    """What the user allowed and refused, newest first."""
    corrections: tuple[Quote, ...] = ()
    files: tuple[File, ...] = ()
    commands: tuple[Command, ...] = ()
    problems: tuple[FoundError, ...] = ()
    tasks: tuple[Task, ...] = ()
    pending: tuple[Quote, ...] = ()
    """What the model said, last, was still to be done."""
    identifiers: tuple[Identifier, ...] = ()
    outcomes: tuple[Quote, ...] = ()
    """How the model closed each of its turns."""
    current: tuple[str, ...] = ()
    """The newest rounds, a line for each thing that happened."""
    prose: Mapping[int, str] = {}
    """What an earlier summary says in each of its nine sections, besides such facts."""
    left_out: Mapping[str, int] = {}
    """How many entries of each list earlier summaries had no room for."""
    names: Mapping[str, str] = {}
    """The short form of every record's id."""

    def name(self, record: str) -> str:
        """How a record is cited."""
        return self.names.get(record, record)


# -- in a summary ---------------------------------------------------------------------------

Listed: TypeAlias = Quote | Permission | File | Command | FoundError | Task | Identifier
"""A fact that is a line of a list."""
_FACT = TypeVar("_FACT", bound=Listed)
_OF_THIS_SUMMARY = frozenset({"request", "current", "next"})
"""Lists that no summary takes over from the one before it."""
EARLIER = "(From an earlier summary:)"
"""Precedes prose that a summary took over from the one before it."""
NOTHING = "(nothing recorded)"
"""The text of a section that is empty."""
MORE = "[More was said here; it found no room.]"
"""Follows prose that was not taken over whole."""

_SHORT = (8, 13, 18, 23)
"""Lengths at which an id may be cut: behind the groups of a UUID."""

_WRAPPED = re.compile(r"^<summary>\n(.*)\n</summary>$", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r'^<recorded kind="([\w-]+)">\n(.*?)^</recorded>$', re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r'^<said record="([^"\n]*)" lines="(\d+)"(?: cut-at="(\d+)")?>$')
_GAP = re.compile(r"^\[(\d+) characters left out here; record [^\]\n]* has all of it\]$")
_LEFT_OUT = re.compile(r"^\((\d+) more not listed here; the transcript has them\)$")
_CITED = r" \[(?P<record>[^\[\]\s]+)\]"
_QUOTE = re.compile(rf"^- “(?P<text>.*)”{_CITED}$")
_PERMISSION = re.compile(
    rf"^- (?P<given>allowed|refused): “(?P<text>.*?)”{_CITED}(?: to “(?P<proposal>.*)” \[(?P<proposed>[^\[\]\s]+)\])?$"
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
"""What means no in a field that is yes or no."""


def short_names(records: Iterable[str]) -> Mapping[str, str]:
    """For each id the shortest beginning, cut where a UUID may be cut, that no other id here has."""
    names: dict[str, str] = {}
    waiting = list(dict.fromkeys(records))
    for length in (*_SHORT, None):
        taken: dict[str, list[str]] = {}
        for record in waiting:
            taken.setdefault(record[:length], []).append(record)
        names |= {group[0]: name for name, group in taken.items() if len(group) == 1}
        waiting = [record for group in taken.values() if len(group) > 1 for record in group]
    return names


def framed(kind: str, lines: Iterable[str], left_out: int = 0) -> str:
    """A list as a summary shows it; empty when there is nothing to list."""
    lines = [*lines]
    if left_out:
        lines.append(f"({left_out} more not listed here; the transcript has them)")
    return "\n".join([f'<recorded kind="{kind}">', *lines, "</recorded>"]) if lines else ""


def said(words: Words, facts: Facts) -> str:
    """A message of the user, with what was left out of it stated in its place."""
    name, lines, cut = facts.name(words.record), words.head.split("\n"), ""
    if words.lost:
        cut = f' cut-at="{len(lines) + 1}"'
        gap = f"[{words.lost} characters left out here; record {name} has all of it]"
        lines = [*lines, gap, *words.tail.split("\n")]
    return "\n".join([f'<said record="{name}" lines="{len(lines)}"{cut}>', *lines, "</said>"])


def entry(one: Listed, facts: Facts) -> str:
    """A fact as a line of its list, with the record it rests on."""
    name = facts.name(one.first if isinstance(one, File) else one.record)
    match one:
        case Quote():
            return f"- “{_flat(one.text)}” [{name}]"
        case Permission():
            way = "allowed" if one.given else "refused"
            answers = f" to “{_flat(one.proposal)}” [{facts.name(one.proposed)}]" if one.proposal else ""
            return f"- {way}: “{_flat(one.text)}” [{name}]{answers}"
        case File():
            how = ", ".join(f"{way} {n}×" for way in WAYS if (n := getattr(one, way)))
            last = f" to {facts.name(one.last)}" if facts.name(one.last) != name else ""
            return f"- {_flat(one.path)}: {how} [{name}{last}]"
        case Command():
            times = f", {one.count}×" if one.count > 1 else ""
            return f"- {one.state}{times}: {_flat(one.line)} [{name}]"
        case FoundError():
            settled, tool = ", settled later" if one.settled else "", re.sub(r"[\s:,]", "_", one.tool)
            return f"- {tool}{settled}: {_flat(one.lines)} [{name}]"
        case Task():
            number = f"#{one.number} " if one.number else ""
            return f"- [{'>' if one.doing else ' '}] {number}{_flat(one.text)} [{name}]"
        case Identifier():
            users = ", by the user" if one.by_user else ""
            return f"- {_flat(one.text)} ({one.kind}{users}, {one.count}×) [{name}]"


def read_back(text: str) -> tuple[Facts, str]:
    """The facts a summary of ours hands on, and the rest of its text."""
    lists: dict[str, list[str]] = {}
    left_out: dict[str, int] = {}
    # The note it is wrapped in is no part of a summary.
    wrapped = _WRAPPED.search(text)
    messages, rest = _read_messages(wrapped[1] if wrapped else text)
    for kind, body in _FRAME.findall(rest):
        for line in body.splitlines():
            if more := _LEFT_OUT.match(line):
                left_out[kind] = 0 if kind in _OF_THIS_SUMMARY else int(more[1])
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
    prose = [line for line in _FRAME.sub("", rest).split("\n") if line not in (EARLIER, NOTHING)]
    return facts, "\n".join(prose)


def _entries(
    lists: Mapping[str, list[str]], kind: str, shape: type[_FACT], pattern: re.Pattern[str]
) -> tuple[_FACT, ...]:
    """The entries of a list: the groups of the pattern are the fields."""
    flags = {field.name for field in msgspec.structs.fields(shape) if field.type is bool}
    read = []
    for line in lists.get(kind, ()):
        if found := pattern.match(line):
            given = {name: value for name, value in found.groupdict().items() if value is not None}
            given |= {name: found[name] not in _UNSET for name in flags}
            read.append(msgspec.convert(given, shape, strict=False))
    return tuple(read)


def said_last(current: Iterable[str]) -> list[Quote]:
    """The model's last words in the newest rounds as a summary shows them; none if it said nothing."""
    found = [said for line in current if (said := _SAID_LAST.match(line))]
    return [Quote(found[-1][1], found[-1]["record"])] if found else []


def _read_messages(text: str) -> tuple[list[Words], str]:
    """The user's messages, and the text without them; what is inside one is not looked at."""
    found: list[Words] = []
    rest: list[str] = []
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        if begins := _MESSAGE.match(lines[place]):
            end = place + 1 + int(begins[2])
            found.append(_words(begins[1], lines[place + 1 : end], int(begins[3] or 0)))
            place = end + 1
        else:
            rest.append(lines[place])
            place += 1
    return found, "\n".join(rest)


def _words(record: str, lines: list[str], cut_at: int) -> Words:
    gap = _GAP.match(lines[cut_at - 1]) if 0 < cut_at <= len(lines) else None
    if gap is None:
        return Words(record, "\n".join(lines))
    return Words(record, "\n".join(lines[: cut_at - 1]), "\n".join(lines[cut_at:]), int(gap[1]))


def _flat(text: str) -> str:
    return " ".join(text.split())
