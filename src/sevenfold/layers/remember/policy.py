"""Rules for when to look for lasting facts, and how memory entries are shown to a model. This module is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.memory.entry import KINDS, Kind, shortened
from sevenfold.memory.generation import MOST_TRUSTED_FIRST, Origin, least_trusted
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.search import FittingEntry
from sevenfold.memory.statements import DATES, LastingFact, absolute_dates, facts
from sevenfold.prompts.memory import RememberFacts
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.quoting import quotation
from sevenfold.record.usage import Account

if TYPE_CHECKING:
    from sevenfold.memory.admission import Admission

GROWTH = 6_000
"""Tokens of conversation after which the user's words are searched for facts, even if nothing sounds lasting."""
USUAL_SHARE, MOST_SHARE = 0.02, 0.04
"""The most of a session's bill that may go to memory: usually, and if something sounds lasting."""
FREE_USD = 0.02
"""What memory may cost in a session before its share of the bill counts: short sessions cost little anyway."""
MOST_FACTS = 40
"""The most facts taken from one answer."""
MOST_CLAIMS = 8
SHOWN = 120
"""Characters quoted from the message at which the model is asked to begin."""
MOST_EARLIER = 16_000
"""The most characters of messages that left the context to show in one request."""
LONGEST_EARLIER = 2_000
"""The most characters of each of those messages."""
LONGEST_SOURCE = 80
"""The most characters of an entry's source."""
LOGGED = 120
"""The most characters of a question, and of its answer, in the daily log."""

_FACT = re.compile(r"<fact\b([^>\n]{0,200})>(.*?)</fact>", re.DOTALL | re.IGNORECASE)
_QUOTE = re.compile(r"<quote>(.*?)</quote>", re.DOTALL | re.IGNORECASE)
_NOTE = re.compile(r"<note>(.*?)</note>", re.DOTALL | re.IGNORECASE)
_TYPE = re.compile(r'\btype="([a-z]+)"')
_UNTIL = re.compile(r'\buntil="(\d{4}-\d\d-\d\d)"')
_NOTHING = re.compile(r"<nothing\s*/?>", re.IGNORECASE)
_SPAN = re.compile(r"`([^`\n]{2,120})`")
_PATH = re.compile(
    r"(?<![\w/:.])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/])[\w-]+\.(?:py|js|ts|toml|json|ya?ml|md|sh|cfg|ini)\b"
)
_FLAG = re.compile(r"(?<=\s)--?[a-zA-Z][\w-]*")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d(?!\d)")
_DATED = ("modified", "updated", "date", "created")
"""Front-matter keys with which other tools date a file."""
_NO_NAME = re.compile(r"[^\w./:@-]+")
_COMMAND = re.compile(r"[a-z][\w.+-]{1,40}")

ATTACHMENT = "recalled_memory"
_UNCONFIRMED = re.compile(r"^- \S+ \(unconfirmed, from (\w+)", re.MULTILINE)
MESSAGE_ORIGINS: Mapping[str, Origin] = {"pasted": "outside", "command": "file", "agent": "agent"}
"""The origin of a message that the user did not type, by its recorded origin; for any other it is ``outside``."""
ORIGINS: Mapping[str, Origin] = {"read": "file", "web": "web", "shell": "tool", "search": "tool"}
"""The origin of a tool's output, by the kind of tool; for any other kind it is ``tool``."""


class SearchSpan(Struct, frozen=True):
    """A part of the conversation that has not been searched for facts yet."""

    said: Mapping[str, str]
    """The user's words, by record."""
    covered: str
    """The last record of the span."""
    tokens: int = 0
    wrote: bool = False
    """Whether the agent itself wrote to memory in it."""
    whole: bool = False
    """Whether it begins where the view begins."""
    earlier: bool = False
    """Whether all of it has left the context."""


def share_of(spent: float, bill: float | None) -> float:
    """The share of a session's bill spent on memory; 0 while that is only a few cents."""
    return spent / bill if bill and spent > FREE_USD else 0.0


def may_read(spent: float, account: Account) -> bool:
    """Whether one more search, with an extra turn to read files, stays within memory's usual share of the bill."""
    request = (account.usd or 0.0) / max(1, account.requests)
    return share_of(spent + 2 * request, account.usd) <= USUAL_SHARE


def due(span: SearchSpan, *, pause: int = 1, share: float = 0.0) -> bool:
    """Whether it is time to search for facts.

    At once if the user said something that sounds lasting, otherwise after enough conversation: after failures,
    ``pause`` times as much. Neither applies while memory's ``share`` of the session's bill is too large.
    """
    if not span.said or share > MOST_SHARE:
        return False
    lasting = pause == 1 and any(True for _ in facts(span.said))
    return lasting or (span.tokens >= GROWTH * pause and share <= USUAL_SHARE)


def instruction(span: SearchSpan, reading: Sequence[str] = ()) -> RememberFacts:
    """The instruction to find facts in a span; ``reading`` names the tools with which the model may read files."""
    since = None if span.earlier else shortened(next(iter(span.said.values())), SHOWN)
    told = "\n".join(f"- {shortened(words, LONGEST_EARLIER)}" for words in span.said.values())
    asked = RememberFacts(since, earlier=told if span.earlier else None)
    if not reading:
        return asked
    names = ", ".join(reading)
    tools = f"call no tool but {names}, all calls in one turn and only to see what files already say"
    return replace(asked, tools=tools)


def portion(said: Mapping[str, str]) -> dict[str, str]:
    """As many of these messages, from the first on, as fit into one request."""
    taken: dict[str, str] = {}
    room = MOST_EARLIER
    for record, words in said.items():
        room -= min(len(words), LONGEST_EARLIER)
        if taken and room < 0:
            break
        taken[record] = words
    return taken


def log_line(now: float, session: str, asked: str, answered: str) -> str:
    """A finished turn as a line of the daily log."""
    minute = datetime.fromtimestamp(now).strftime("%H:%M")
    return f"- {minute} {session}: {shortened(asked, LOGGED)} → {shortened(answered, LOGGED)}"


def least_trusted_origin(kinds: Iterable[str]) -> Origin:
    """The least trusted origin of the output of tools of these kinds."""
    return least_trusted("model", *(ORIGINS.get(kind, "tool") for kind in kinds))


def origin_of(said: Said) -> Origin:
    """The origin of a record that is neither the user's words nor a tool result."""
    if said.origin:
        return MESSAGE_ORIGINS.get(said.origin, "outside")
    words = "\n".join(map(blocks.words_of, said.blocks)) if said.attachment or said.meta else ""
    if said.attachment == ATTACHMENT:
        named = set(_UNCONFIRMED.findall(words))
        return least_trusted("model", *(one for one in MOST_TRUSTED_FIRST if one in named))
    if words.startswith("<agent-"):
        return "agent"
    if words.startswith("<command-output") or said.attachment.startswith("hook"):
        return "tool"
    return "file" if said.attachment in ("file", "directory") else "model"


def read_facts(answer: str) -> list[LastingFact] | None:
    """Parse the facts in a model's answer; None if it does not follow the format."""
    found = []
    for attributes, inside in _FACT.findall(answer):
        kind, until, note = _TYPE.search(attributes), _UNTIL.search(attributes), _NOTE.search(inside)
        quotations = tuple(filter(None, (words.strip().strip('"“”') for words in _QUOTE.findall(inside))))
        said, last = note[1].strip() if note else "", until[1] if until else ""
        found.append(LastingFact(quotations, _kind(kind[1] if kind else ""), said, last))
    return found[:MOST_FACTS] if found or _NOTHING.search(answer) else None


def outcome(admitted: Sequence[Admission]) -> str:
    """The names of the new entries, as one line; empty if there are none."""
    new = [one.file.removesuffix(".md") for one in admitted if one.new]
    return f"remembered: {', '.join(new)}" if new else ""


def shown(fits: Sequence[FittingEntry], there: Callable[[str], bool] | None) -> str:
    """Recalled entries as shown to the model; ``there`` checks whether a path or command still exists."""
    return "\n".join(line for fit in fits for line in _lines(fit.known, there))


def reason(fit: FittingEntry) -> str:
    """Which entry was recalled, its source and the reason, as text."""
    source = "your words" if fit.known.stamp.trusted else f"unconfirmed, {_source(fit.known)}"
    why = f"shares {', '.join(fit.words[:4])}" if fit.words else "alike in meaning"
    return f"{fit.known.entry.name} ({source} of {_day(fit.known)}; {why})"


def day_of(timestamp: str) -> date | None:
    """The local date of a record; None if its timestamp cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().date()
    except ValueError:
        return None


def stale(entry: str, there: Callable[[str], bool]) -> list[str]:
    """The paths, commands and script flags named in an entry that no longer exist."""
    spans = _SPAN.findall(entry)
    # Only for scripts can flags be checked without running anything.
    scripts = filter(None, map(_PATH.search, spans))
    flags = [f"{flag} in {one[0]}" for one in scripts for flag in _FLAG.findall(one.string, one.end())]
    first = (word for span in spans for word in span.split()[:1])
    commands = filter(_COMMAND.fullmatch, first)
    claims = dict.fromkeys((*_PATH.findall(entry), *commands, *flags))
    return [claim for claim in list(claims)[:MOST_CLAIMS] if not there(claim)]


def _lines(known: KnownEntry, there: Callable[[str], bool] | None) -> Iterator[str]:
    entry, stamp = known.entry, known.stamp
    day = _day(known)
    gone = stale(entry.body, there) if there is not None else []
    doubt = f" Not there any more: {quotation(', '.join(gone), 600)}." if gone else ""
    doubt = f"{doubt}{_dates(known)}"
    if not stamp.trusted:
        whose = f"unconfirmed, from {_source(known)}, {day}"
        yield f"- {entry.name} ({whose}): {quotation(entry.body, 600)}{doubt}"
        return
    for words in entry.quotations or (entry.body,):
        yield f"- {entry.name}: the user said on {day}: {quotation(words, 1_500)}{doubt}"
    if entry.quotations and entry.note:
        yield f"  unconfirmed note of that session: {quotation(entry.note, 600)}"


def _source(known: KnownEntry) -> str:
    """The source of an entry, sanitised: a name chosen by others must not pass for our own text."""
    return f"{known.stamp.origin} {_NO_NAME.sub('_', known.stamp.source)[:LONGEST_SOURCE]}".rstrip()


def _day(known: KnownEntry) -> str:
    """The day the user last confirmed an entry, or the day it was created."""
    return datetime.fromtimestamp(known.stamp.verified or known.stamp.created, UTC).date().isoformat()


def _dates(known: KnownEntry) -> str:
    """The dates meant by words such as "tomorrow", unless the entry gives them; empty for undated imported entries."""
    entry, stamp = known.entry, known.stamp
    if DATES in entry.note:
        return ""
    day = datetime.fromtimestamp(stamp.created).date() if stamp.created else None
    if stamp.origin == "import":
        head = (entry.page.values.get(key, "") for key in _DATED)
        dated = _DAY.search(" ".join((*head, stamp.source)))
        day = day_of(dated[0]) if dated else None
    found = absolute_dates(entry.body, day) if day else {}
    return f" {DATES}{', '.join(f'{named} is {when}' for named, when in found.items())}." if found else ""


def _kind(given: str) -> Kind:
    return next((kind for kind in KINDS if kind == given), "project")
