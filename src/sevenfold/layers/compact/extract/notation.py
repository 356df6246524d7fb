"""How facts are written into a summary, and read back out of it.

Summaries chain: what the next compaction knows of the messages before this one, it knows from here. So
each list is framed by a tag and each entry is a line of fixed form that ends in the records it rests on;
a message of the user says how many lines it has, so that nothing it holds can be mistaken for the frame.
Writing and reading stand side by side, and reading what was written gives the same facts again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sevenfold.layers.compact.extract.facts import (
    Command,
    Facts,
    File,
    Identifier,
    Permission,
    Problem,
    Quote,
    Task,
    Words,
)

_FACT = TypeVar("_FACT")
_MADE_ANEW = frozenset({"request", "current", "next"})
"""Lists that no summary takes over from the one before it."""
EARLIER = "(From an earlier summary:)"
"""Stands before prose that a summary took over from the one before it."""
NOTHING = "(nothing recorded)"
"""Stands in a section that is empty."""
MORE = "[More was said here; it found no room.]"
"""Stands behind prose that was not taken over whole."""

_SHORT = (8, 13, 18, 23)
"""Lengths at which an id may be cut: behind the groups of a UUID."""

_WRAPPED = re.compile(r"^<summary>\n(.*)\n</summary>$", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r'^<recorded kind="([\w-]+)">\n(.*?)^</recorded>$', re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r'^<said record="([^"\n]*)" lines="(\d+)"(?: cut-at="(\d+)")?>$')
_GAP = re.compile(r"^\[(\d+) characters left out here; record [^\]\n]* has all of it\]$")
_LEFT_OUT = re.compile(r"^\((\d+) more not listed here; the transcript has them\)$")
_CITED = r" \[([^\[\]\s]+)\]"
_QUOTE = re.compile(rf"^- “(.*)”{_CITED}$")
_PERMISSION = re.compile(rf"^- (allowed|refused): “(.*?)”{_CITED}(?: to “(.*)”{_CITED})?$")
_SAID_LAST = re.compile(rf"^- the model said: “(.*)”{_CITED}$")
_FILE = re.compile(
    r"^- (.*): ((?:(?:read|edited|written|mentioned) \d+×(?:, )?)+) \[([^\[\]\s]+?)(?: to ([^\[\]\s]+))?\]$"
)
_WAYS = ("edited", "written", "read", "mentioned")
_HOW = re.compile(r"(read|edited|written|mentioned) (\d+)×")
_COMMAND = re.compile(rf"^- (ok|failed|no result|exit -?\d+)(?:, (\d+)×)?: (.*){_CITED}$")
_PROBLEM = re.compile(rf"^- ([^\s:,]*)(, settled later)?: (.*){_CITED}$")
_TASK = re.compile(rf"^- \[([ >])\] (?:#(\w+) )?(.*){_CITED}$")
_IDENTIFIER = re.compile(rf"^- (.*) \((\w+)(, by the user)?, (\d+)×\){_CITED}$")


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
    """A list as it stands in a summary; empty when there is nothing to list."""
    lines = [*lines, *([left_out_line(left_out)] if left_out else [])]
    return "\n".join([f'<recorded kind="{kind}">', *lines, "</recorded>"]) if lines else ""


def left_out_line(count: int) -> str:
    """Says how many entries found no room."""
    return f"({count} more not listed here; the transcript has them)"


def said(words: Words, facts: Facts) -> str:
    """A message of the user, with what was left out of it stated in its place."""
    name, lines, cut = facts.name(words.record), words.head.split("\n"), ""
    if words.lost:
        cut = f' cut-at="{len(lines) + 1}"'
        gap = f"[{words.lost} characters left out here; record {name} has all of it]"
        lines = [*lines, gap, *words.tail.split("\n")]
    return "\n".join([f'<said record="{name}" lines="{len(lines)}"{cut}>', *lines, "</said>"])


def quote(one: Quote, facts: Facts) -> str:
    """Words as they were said, and where."""
    return f"- “{_flat(one.text)}” [{facts.name(one.record)}]"


def permission(one: Permission, facts: Facts) -> str:
    """Words that allow or refuse something, and what they answer."""
    way = "allowed" if one.given else "refused"
    answers = f" to “{_flat(one.proposal)}” [{facts.name(one.proposed)}]" if one.proposal else ""
    return f"- {way}: “{_flat(one.text)}” [{facts.name(one.record)}]{answers}"


def file(one: File, facts: Facts) -> str:
    """A file, what was done with it how often, and where that began and ended."""
    how = ", ".join(f"{name} {n}×" for name in _WAYS if (n := getattr(one, name)))
    first, last = facts.name(one.first), facts.name(one.last)
    return f"- {_flat(one.path)}: {how} [{first if first == last else f'{first} to {last}'}]"


def command(one: Command, facts: Facts) -> str:
    """A command line behind how it ended."""
    times = f", {one.count}×" if one.count > 1 else ""
    return f"- {one.state}{times}: {_flat(one.line)} [{facts.name(one.record)}]"


def problem(one: Problem, facts: Facts) -> str:
    """An error, and whether it was got over."""
    settled = ", settled later" if one.settled else ""
    tool = re.sub(r"[\s:,]", "_", one.tool)
    return f"- {tool}{settled}: {_flat(one.lines)} [{facts.name(one.record)}]"


def task(one: Task, facts: Facts) -> str:
    """An open entry of the to-do list; one being worked on is marked."""
    number = f"#{one.number} " if one.number else ""
    return f"- [{'>' if one.doing else ' '}] {number}{_flat(one.text)} [{facts.name(one.record)}]"


def identifier(one: Identifier, facts: Facts) -> str:
    """An identifier, what it is and how often it was used."""
    users = ", by the user" if one.by_user else ""
    return f"- {_flat(one.text)} ({one.kind}{users}, {one.count}×) [{facts.name(one.record)}]"


def read_back(text: str) -> tuple[Facts, str]:
    """The facts a summary of ours hands on, and the rest of its text."""
    lists: dict[str, list[str]] = {}
    left_out: dict[str, int] = {}
    messages, rest = _read_messages(_inside(text))
    for kind, body in _FRAME.findall(rest):
        for line in body.splitlines():
            if more := _LEFT_OUT.match(line):
                left_out[kind] = 0 if kind in _MADE_ANEW else int(more[1])
            else:
                lists.setdefault(kind, []).append(line)
    facts = Facts(
        messages=tuple(messages),
        replies=_entries(lists, "replies", _read_quote),
        permissions=_entries(lists, "permissions", _read_permission),
        corrections=_entries(lists, "corrections", _read_quote),
        files=_entries(lists, "files", _read_file),
        commands=_entries(lists, "commands", _read_command),
        problems=_entries(lists, "errors", _read_problem),
        tasks=_entries(lists, "tasks", _read_task),
        pending=_entries(lists, "tasks", _read_quote),
        identifiers=_entries(lists, "identifiers", _read_identifier),
        outcomes=(*_entries(lists, "outcomes", _read_quote), *said_last(lists.get("current", ()))),
        current=tuple(lists.get("current", ())),
        left_out=left_out,
    )
    prose = [line for line in _FRAME.sub("", rest).split("\n") if line not in (EARLIER, NOTHING)]
    return facts, "\n".join(prose)


def _entries(
    lists: Mapping[str, list[str]], kind: str, read: Callable[[str], _FACT | None]
) -> tuple[_FACT, ...]:
    return tuple(one for line in lists.get(kind, ()) if (one := read(line)) is not None)


def _inside(text: str) -> str:
    """The summary without the note it is wrapped in."""
    found = _WRAPPED.search(text)
    return found[1] if found else text


def said_last(current: Iterable[str]) -> list[Quote]:
    """The model's last words in the newest rounds as they stand in a summary; none if it said nothing."""
    found = [said for line in current if (said := _SAID_LAST.match(line))]
    return [Quote(found[-1][1], found[-1][2])] if found else []


def _read_messages(text: str) -> tuple[list[Words], str]:
    """The user's messages, and the text without them; what stands inside one is not looked at."""
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


def _read_quote(line: str) -> Quote | None:
    found = _QUOTE.match(line)
    return Quote(found[1], found[2]) if found else None


def _read_permission(line: str) -> Permission | None:
    found = _PERMISSION.match(line)
    return (
        Permission(found[1] == "allowed", found[2], found[3], found[4] or "", found[5] or "")
        if found
        else None
    )


def _read_file(line: str) -> File | None:
    if not (found := _FILE.match(line)):
        return None
    ways = {name: int(count) for name, count in _HOW.findall(found[2])}
    return File(found[1], found[3], found[4] or found[3], **ways)


def _read_command(line: str) -> Command | None:
    found = _COMMAND.match(line)
    return Command(found[3], found[1], found[4], int(found[2] or 1)) if found else None


def _read_problem(line: str) -> Problem | None:
    found = _PROBLEM.match(line)
    return Problem(found[1], found[3], found[4], bool(found[2])) if found else None


def _read_task(line: str) -> Task | None:
    found = _TASK.match(line)
    return Task(found[3], found[4], found[1] == ">", found[2] or "") if found else None


def _read_identifier(line: str) -> Identifier | None:
    found = _IDENTIFIER.match(line)
    return Identifier(found[1], found[2], found[5], int(found[4]), bool(found[3])) if found else None


def _flat(text: str) -> str:
    return " ".join(text.split())
