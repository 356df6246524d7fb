"""Rules for when to look for lasting facts, and how memory entries are shown to a model. This module is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import chain
from typing import TYPE_CHECKING

from sevenfold.memory.dates import DATES, absolute_dates
from sevenfold.memory.entry import shortened
from sevenfold.memory.generation import MOST_TRUSTED_FIRST, Origin, least_trusted
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.search import FittingEntry
from sevenfold.memory.statements import facts, statements, too_short
from sevenfold.memory.tree import stale
from sevenfold.profiles import Price
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.quoting import quotation
from sevenfold.record.usage import Account

if TYPE_CHECKING:
    from sevenfold.memory.admission import Admission
    from sevenfold.memory.closing import Closing

USUAL_SHARE = 0.015
"""The most of a session's bill that may go to looks before its end; those at the end are always allowed."""
OUTPUT_TOKENS = 300
"""Tokens of a usual answer to a look, for an estimate of its cost."""
INSTRUCTION_TOKENS = 1_200
MOST_OUTPUT = 8_000
"""The most tokens of the answer to a plain call."""
PLAIN_TOKENS = 2_500
"""Tokens of a plain call without the user's messages."""
IDLE_SECONDS = 600.0
"""After how long without a turn a session is looked at as if it had ended."""
LONGEST_SOURCE = 80
"""The most characters of an entry's source."""
LOGGED = 120
"""The most characters of a question, and of its answer, in the daily log."""

_DAY = re.compile(r"\b\d{4}-\d\d-\d\d(?!\d)")
_DATED = ("modified", "updated", "date", "created")
"""Front-matter keys with which other tools date a file."""
_NO_NAME = re.compile(r"[^\w./:@-]+")

ATTACHMENT = "recalled_memory"
_UNCONFIRMED = re.compile(r"^- \S+ \(unconfirmed, from (\w+)", re.MULTILINE)
MESSAGE_ORIGINS: Mapping[str, Origin] = {"pasted": "outside", "command": "file", "agent": "agent"}
"""The origin of a message that the user did not type, by its recorded origin; for any other it is ``outside``."""
ORIGINS: Mapping[str, Origin] = {"read": "file", "web": "web", "shell": "tool", "search": "tool"}
"""The origin of a tool's output, by the kind of tool; for any other kind it is ``tool``."""


def share_of(spent: float, bill: float | None) -> float:
    """The share of a session's bill spent on memory; 0 if the bill is not known."""
    return spent / bill if bill else 0.0


def may_read(spent: float, account: Account) -> bool:
    """Whether one more look, with an extra turn to read files, stays within memory's usual share of the bill."""
    request = (account.usd or 0.0) / max(1, account.requests)
    return share_of(spent + 2 * request, account.usd) <= USUAL_SHARE


def affordable(spent: float, expected: float | None, bill: float | None) -> bool:
    """Whether a look before the end of the session stays within memory's usual share of the bill."""
    return not bill or share_of(spent + (expected or 0.0), bill) <= USUAL_SHARE


def sounds_lasting(messages: Mapping[str, str]) -> bool:
    """Whether the user's words sound lasting in English, so that looking need not wait for the end."""
    return any(True for _ in facts(messages))


def cost_of_fork(price: Price | None, size: int) -> float | None:
    """The expected cost of a look by a fork of a conversation of this size, whose prefix is cached."""
    if price is None:
        return None
    return (size * price.read + INSTRUCTION_TOKENS * price.input + OUTPUT_TOKENS * price.output) / 1e6


def cost_of_plain_call(price: Price | None, size: int) -> float | None:
    """The expected cost of a look by a plain call with an instruction of this size."""
    return None if price is None else (size * price.input + OUTPUT_TOKENS * price.output) / 1e6


def worth_asking(messages: Mapping[str, str]) -> bool:
    """Whether the user said anything that can be quoted: "yes" and "go on" prove nothing."""
    user_statements = chain.from_iterable(map(statements, messages.values()))
    return any(not too_short(statement.own) for statement in user_statements)


def log_line(time: float, session: str, prompt: str, answer: str) -> str:
    """A finished turn as a line of the daily log."""
    minute = datetime.fromtimestamp(time).strftime("%H:%M")
    return f"- {minute} {session}: {shortened(prompt, LOGGED)} → {shortened(answer, LOGGED)}"


def least_trusted_origin(kinds: Iterable[str]) -> Origin:
    """The least trusted origin of the output of tools of these kinds."""
    return least_trusted("model", *(ORIGINS.get(kind, "tool") for kind in kinds))


def origin_of(record: Said) -> Origin:
    """The origin of a record that is neither the user's words nor a tool result."""
    if record.origin:
        return MESSAGE_ORIGINS.get(record.origin, "outside")
    text = "\n".join(map(blocks.words_of, record.blocks)) if record.attachment or record.meta else ""
    if record.attachment == ATTACHMENT:
        named = set(_UNCONFIRMED.findall(text))
        return least_trusted("model", *(origin for origin in MOST_TRUSTED_FIRST if origin in named))
    if text.startswith("<agent-"):
        return "agent"
    if text.startswith("<command-output") or record.attachment.startswith("hook"):
        return "tool"
    return "file" if record.attachment in ("file", "directory") else "model"


def outcome(admitted: Sequence[Admission]) -> str:
    """The names of the new entries, as one line that says which are unconfirmed; empty if there are none."""
    names = []
    for admission in admitted:
        if admission.new and admission.file:
            doubt = (
                "" if admission.confirmed else f" (unconfirmed: from {admission.origin}, not your words)"
            )
            names.append(f"{admission.file.removesuffix('.md')}{doubt}")
    return f"remembered: {', '.join(names)}" if names else ""


def closed(closing: Closing) -> str:
    """What was closed, by which words, and how to undo it, as one line."""
    earlier, later = (
        shortened(statement, LONGEST_SOURCE * 2) for statement in (closing.earlier, closing.later)
    )
    return f'closed "{earlier}": you said "{later}"; `sevenfold memory undo {closing.change}` reverts it'


def shown(fits: Sequence[FittingEntry], there: Callable[[str], bool] | None) -> str:
    """Recalled entries as shown to the model; ``there`` checks whether a path or command still exists."""
    return "\n".join(chain.from_iterable(_lines(fit.known_entry, there) for fit in fits))


def reason(fit: FittingEntry) -> str:
    """Which entry was recalled, its source and the reason, as text."""
    source = "your words" if fit.known_entry.stamp.trusted else f"unconfirmed, {_source(fit.known_entry)}"
    why = f"shares {', '.join(fit.words[:4])}" if fit.words else "alike in meaning"
    return f"{fit.known_entry.entry.name} ({source} of {_day(fit.known_entry)}; {why})"


def day_of(timestamp: str) -> date | None:
    """The local date of a record; None if its timestamp cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().date()
    except ValueError:
        return None


def _lines(known_entry: KnownEntry, there: Callable[[str], bool] | None) -> Iterator[str]:
    entry = known_entry.entry
    stamp = known_entry.stamp
    day = _day(known_entry)
    gone = stale(entry.body, there) if there is not None else []
    doubt = f" Not there any more: {quotation(', '.join(gone), 600)}." if gone else ""
    doubt = f"{doubt}{_dates(known_entry)}"
    if not stamp.trusted:
        source = f"unconfirmed, from {_source(known_entry)}, {day}"
        yield f"- {entry.name} ({source}): {quotation(entry.body, 600)}{doubt}"
        return
    for statement in entry.quotations or (entry.body,):
        yield f"- {entry.name}: the user said on {day}: {quotation(statement, 1_500)}{doubt}"
    if entry.quotations and entry.note:
        yield f"  unconfirmed note of that session: {quotation(entry.note, 600)}"


def _source(known_entry: KnownEntry) -> str:
    """The source of an entry, sanitised: a name chosen by others must not pass for our own text."""
    return f"{known_entry.stamp.origin} {_NO_NAME.sub('_', known_entry.stamp.source)[:LONGEST_SOURCE]}".rstrip()


def _day(known_entry: KnownEntry) -> str:
    """The day the user last confirmed an entry, or the day it was created."""
    return (
        datetime.fromtimestamp(known_entry.stamp.verified or known_entry.stamp.created, UTC)
        .date()
        .isoformat()
    )


def _dates(known_entry: KnownEntry) -> str:
    """The dates meant by words such as "tomorrow", unless the entry gives them; empty for undated imported entries."""
    entry = known_entry.entry
    stamp = known_entry.stamp
    if DATES in entry.note:
        return ""
    day = datetime.fromtimestamp(stamp.created).date() if stamp.created else None
    if stamp.origin == "import":
        head = (entry.page.values.get(key, "") for key in _DATED)
        dated = _DAY.search(" ".join((*head, stamp.source)))
        day = day_of(dated[0]) if dated else None
    dates = absolute_dates(entry.body, day) if day else {}
    return (
        f" {DATES}{', '.join(f'{named} is {day_meant}' for named, day_meant in dates.items())}."
        if dates
        else ""
    )
