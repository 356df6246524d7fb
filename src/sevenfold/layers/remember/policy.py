"""What is worth remembering, and how an entry is put before a model. Everything in this module is pure."""

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
from sevenfold.record.usage import Account

if TYPE_CHECKING:
    from sevenfold.memory.admission import Admission

GROWTH = 6_000
"""Tokens of conversation after which the user's words are looked through, whatever they are."""
USUAL_SHARE, MOST_SHARE = 0.02, 0.04
"""How much of a session's bill may go to memory: usually, and if something sounds lasting."""
FREE_USD = 0.02
"""What memory may cost in a session before its share of the bill counts: short sessions cost little anyway."""
MOST_FACTS = 40
"""Facts taken from one answer."""
MOST_CLAIMS = 8
SHOWN = 120
"""Characters of the message that the model is asked to begin with."""
MOST_EARLIER = 16_000
"""Characters of messages that left the context, looked at in one go."""
LONGEST_EARLIER = 2_000
"""Characters of each that are shown."""
LONGEST_SOURCE = 80
"""Characters of where an entry was found."""
LOGGED = 120
"""Characters of a question, and of its answer, in the daily log."""

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
"""Keys with which other tools say when a file was written."""
_NO_NAME = re.compile(r"[^\w./:@-]+")
_COMMAND = re.compile(r"[a-z][\w.+-]{1,40}")

ATTACHMENT = "recalled_memory"
_UNCONFIRMED = re.compile(r"^- \S+ \(unconfirmed, from (\w+)", re.MULTILINE)
ORIGINS: Mapping[str, Origin] = {"read": "file", "web": "web", "shell": "tool", "search": "tool"}
"""Where the output of a tool of each kind comes from; that of any other tool counts as ``tool``."""


class Stretch(Struct, frozen=True):
    """What happened since memory was last looked after."""

    said: Mapping[str, str]
    """The user's words, by record."""
    covered: str
    """The last record of it."""
    tokens: int = 0
    wrote: bool = False
    """Did the agent write memory itself?"""
    whole: bool = False
    """Does it begin where the view begins?"""
    earlier: bool = False
    """Has all of it left the context?"""


def share_of(spent: float, bill: float | None) -> float:
    """The part of a session's bill that memory has taken; the first cents do not count."""
    return spent / bill if bill and spent > FREE_USD else 0.0


def may_read(spent: float, account: Account) -> bool:
    """Would one more look, with a turn for reading, stay within memory's usual share? Each costs about a request."""
    request = (account.usd or 0.0) / max(1, account.requests)
    return share_of(spent + 2 * request, account.usd) <= USUAL_SHARE


def due(span: Stretch, *, pause: int = 1, share: float = 0.0) -> bool:
    """Is it time to look for facts?

    At once if the user said something that sounds lasting, otherwise when enough was said; after failures ``pause``
    times as much. Either way not while memory has taken more than its ``share`` of the session's bill.
    """
    if not span.said or share > MOST_SHARE:
        return False
    lasting = pause == 1 and any(True for _ in facts(span.said))
    return lasting or (span.tokens >= GROWTH * pause and share <= USUAL_SHARE)


def instruction(span: Stretch, reading: Sequence[str] = ()) -> RememberFacts:
    """What a model is asked about a stretch; ``reading`` are the tools with which it may read files first."""
    since = None if span.earlier else shortened(next(iter(span.said.values())), SHOWN)
    told = "\n".join(f"- {shortened(words, LONGEST_EARLIER)}" for words in span.said.values())
    asked = RememberFacts(since, earlier=told if span.earlier else None)
    if not reading:
        return asked
    names = ", ".join(reading)
    tools = f"call no tool but {names}, all calls in one turn and only to see what files already say"
    return replace(asked, tools=tools)


def portion(said: Mapping[str, str]) -> dict[str, str]:
    """As many of these messages, from the first on, as are looked at in one go."""
    taken: dict[str, str] = {}
    room = MOST_EARLIER
    for record, words in said.items():
        room -= min(len(words), LONGEST_EARLIER)
        if taken and room < 0:
            break
        taken[record] = words
    return taken


def log_line(now: float, session: str, asked: str, answered: str) -> str:
    """A finished request as a line of the daily log."""
    minute = datetime.fromtimestamp(now).strftime("%H:%M")
    return f"- {minute} {session}: {shortened(asked, LOGGED)} → {shortened(answered, LOGGED)}"


def least(kinds: Iterable[str]) -> Origin:
    """The least trusted source of what tools of these kinds said."""
    return least_trusted("model", *(ORIGINS.get(kind, "tool") for kind in kinds))


def origin_of(said: Said) -> Origin:
    """Where a record comes from that is neither the user's words nor a tool's result."""
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
    """The facts in a model's answer; None if it did not keep to the format."""
    found = []
    for attributes, inside in _FACT.findall(answer):
        kind, until, note = _TYPE.search(attributes), _UNTIL.search(attributes), _NOTE.search(inside)
        quotations = tuple(filter(None, (words.strip().strip('"“”') for words in _QUOTE.findall(inside))))
        said, last = note[1].strip() if note else "", until[1] if until else ""
        found.append(LastingFact(quotations, _kind(kind[1] if kind else ""), said, last))
    return found[:MOST_FACTS] if found or _NOTHING.search(answer) else None


def outcome(admitted: Sequence[Admission]) -> str:
    """What became of the facts, in one line; empty if nothing did."""
    new = [one.file.removesuffix(".md") for one in admitted if one.new]
    return f"remembered: {', '.join(new)}" if new else ""


def shown(fits: Sequence[FittingEntry], there: Callable[[str], bool] | None) -> str:
    """Entries as the model reads them."""
    return "\n".join(line for fit in fits for line in _lines(fit.known, there))


def reason(fit: FittingEntry) -> str:
    """Which entry was recalled, from where and why."""
    source = "your words" if fit.known.stamp.trusted else f"unconfirmed, {_source(fit.known)}"
    why = f"shares {', '.join(fit.words[:4])}" if fit.words else "alike in meaning"
    return f"{fit.known.entry.name} ({source} of {_day(fit.known)}; {why})"


def day_of(timestamp: str) -> date | None:
    """The day of a record, where the user is; None if its time cannot be read."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().date()
    except ValueError:
        return None


def stale(entry: str, there: Callable[[str], bool]) -> list[str]:
    """The paths, commands, and flags of scripts that an entry names and that are no longer there."""
    spans = _SPAN.findall(entry)
    # Only a script can be asked for its flags without being run.
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
    doubt = f" Not there any more: {_quotation(', '.join(gone), 600)}." if gone else ""
    doubt = f"{doubt}{_dates(known)}"
    if not stamp.trusted:
        whose = f"unconfirmed, from {_source(known)}, {day}"
        yield f"- {entry.name} ({whose}): {_quotation(entry.body, 600)}{doubt}"
        return
    for words in entry.quotations or (entry.body,):
        yield f"- {entry.name}: the user said on {day}: {_quotation(words, 1_500)}{doubt}"
    if entry.quotations and entry.note:
        yield f"  unconfirmed note of that session: {_quotation(entry.note, 600)}"


def _source(known: KnownEntry) -> str:
    """Where an entry was found; a name given by others cannot pass for words of ours."""
    return f"{known.stamp.origin} {_NO_NAME.sub('_', known.stamp.source)[:LONGEST_SOURCE]}".rstrip()


def _day(known: KnownEntry) -> str:
    """When the user last said so, or when it was first kept."""
    return datetime.fromtimestamp(known.stamp.verified or known.stamp.created, UTC).date().isoformat()


def _dates(known: KnownEntry) -> str:
    """What an entry calls tomorrow and the like, as dates, unless it has them; of an imported one, if it is dated."""
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


def _quotation(words: str, most: int) -> str:
    """The words on one line in quotation marks, so that nothing in them passes for a line of ours."""
    return '"' + shortened(words, most).replace('"', "'") + '"'


def _kind(given: str) -> Kind:
    return next((kind for kind in KINDS if kind == given), "project")
