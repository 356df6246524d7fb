"""``MEMORY.md``: the user's statements, one per line, each with its day; the most useful first.

The index is part of the system prompt, which a model obeys. So it lists only the user's words; what came from tools,
web pages and elsewhere is counted, not quoted. When there is more than fits, lines become shorter, then the entries
that were least used and are oldest give way; pinned entries and rules are the last to go. What counts as a rule only
decides about this order, so lists of words are good enough for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from sevenfold.memory.dates import DATES
from sevenfold.memory.entry import shortened
from sevenfold.memory.words import same_fact, shortens

if TYPE_CHECKING:
    from sevenfold.memory.memory import KnownEntry

INDEX_LINES = 200
INDEX_BYTES = 25_000
INDEX_LINE = 150
"""Characters per line of the index, approximately."""
_WIDTHS = (INDEX_LINE, 120, 100, 80, 60)
_NOTICES = 6, 200
"""The lines and bytes kept free for what is said at the end."""
_HEADING = "# Memory\n\n"
SHORT = "short"
DATED = "dates"
GONE = "gone"
"""Keys in an entry's head: a shorter form of its statement, the dates of days in it, and what in it does not exist."""
LONGEST_SHORT = 110
"""The most characters of a shorter form; a statement with fewer needs none."""
_DATE = re.compile(r"(.{1,120}) is (\d{4}-\d\d-\d\d)")
_RULES = re.compile(
    r"\b(?:always|never|must(?:n't)?|do not|don't|please|prefer|only|every time|from now on|instead of|avoid"
    r"|immer|nie|niemals|muss|müssen|darf|dürfen|bitte|nur|ab jetzt|ab sofort|künftig|stets|kein\w*|nicht"
    r"|toujours|jamais|doit|doivent|veuillez|merci de|désormais|dorénavant|uniquement|évite\w*|ne \w+ pas"
    r"|siempre|nunca|jamás|debe|por favor|sempre|mai|nunca)\b"
    r"|以后|从现在起|今后|总是|一律|必须|务必|永远|绝不|不要|不得|不许|禁止|别|请|只用|每次|都要",
    re.IGNORECASE,
)


def write_index(entries: Iterable[KnownEntry], today: str) -> str:
    """The text of ``MEMORY.md``, within limits, with a note on how many entries are left out."""
    valid = [known_entry for known_entry in entries if not known_entry.entry.over(today)]
    trusted = sorted(
        (known_entry for known_entry in valid if known_entry.stamp.trusted), key=_last_to_go_first
    )
    unconfirmed = len(valid) - len(trusted)
    width = _width([known_entry for known_entry in trusted if _rank(known_entry) < _ORDINARY])
    shown: list[str] = []
    listed = 0
    for known_entry in trusted:
        lines = _lines(known_entry, width)
        if not _fit([*shown, *lines]):
            break
        shown += lines
        listed += 1
    notices = []
    if listed < len(trusted):
        notices.append(f"{len(trusted) - listed} more entries are not listed: the index is full.")
    if unconfirmed:
        noun = "entries" if unconfirmed > 1 else "entry"
        notices.append(f"{unconfirmed} unconfirmed {noun}: see `sevenfold memory list`.")
    if not shown and not notices:
        return ""
    return _HEADING + "\n".join([*shown, *([""] if notices and shown else []), *notices]) + "\n"


def day_of_entry(known_entry: KnownEntry) -> str:
    """The local date on which an entry was last stated or confirmed; empty if unknown."""
    return datetime.fromtimestamp(known_entry.when).date().isoformat() if known_entry.when else ""


_PINNED, _RULE, _ORDINARY = range(3)


def _rank(known_entry: KnownEntry) -> int:
    if known_entry.entry.pinned:
        return _PINNED
    is_rule = known_entry.entry.kind == "feedback" or _RULES.search(known_entry.entry.words)
    return _RULE if is_rule else _ORDINARY


def _last_to_go_first(known_entry: KnownEntry) -> tuple[int, int, float, str]:
    usage = known_entry.usage
    return _rank(known_entry), -usage.used - usage.helped, -known_entry.when, known_entry.entry.file


def _width(protected: Sequence[KnownEntry]) -> int:
    """The greatest length of lines at which all pinned entries and rules fit, if there is one."""
    for width in _WIDTHS:
        lines = list(chain.from_iterable(_lines(known_entry, width) for known_entry in protected))
        if _fit(lines):
            return width
    return _WIDTHS[-1]


def _fit(lines: Sequence[str]) -> bool:
    free_lines, free_bytes = _NOTICES
    size = sum(len(line.encode()) + 1 for line in lines)
    return len(lines) <= INDEX_LINES - free_lines and size + len(_HEADING) <= INDEX_BYTES - free_bytes


def _lines(known_entry: KnownEntry, width: int) -> list[str]:
    """A line for each statement of an entry that does not say the same as an earlier one."""
    entry = known_entry.entry
    statements: list[str] = []
    for statement in entry.quotations or (entry.description,):
        if not any(same_fact(statement, earlier) for earlier in statements):
            statements.append(statement)
    return [_line(known_entry, statement, width) for statement in statements]


def _line(known_entry: KnownEntry, statement: str, width: int) -> str:
    facts = [day_of_entry(known_entry)]
    if known_entry.entry.until:
        facts.append(f"until {known_entry.entry.until}")
    facts += [*_dates(known_entry, statement), *_gone(known_entry, statement)]
    annotations = ", ".join(filter(None, facts))
    about = f" ({annotations})" if annotations else ""
    short = known_entry.entry.page.values.get(SHORT, "")
    plain = " ".join(statement.split())
    if len(plain) > width - len(about) and short and shortens(short, plain):
        plain = short
    return f"- {shortened(plain, max(width - len(about) - 2, 40))}{about}"


def _dates(known_entry: KnownEntry, statement: str) -> list[str]:
    """The dates of the relative days in a statement, from the note or the head of its entry."""
    dated_lines = (line for line in known_entry.entry.note.splitlines() if line.startswith(DATES))
    noted = [line.removeprefix(DATES).rstrip(".") for line in dated_lines]
    listed = ", ".join([*noted, known_entry.entry.page.values.get(DATED, "")]).split(", ")
    plain = " ".join(statement.split()).casefold()
    dates = filter(None, map(_DATE.fullmatch, listed))
    return [match[0] for match in dates if match[1].casefold() in plain]


def _gone(known_entry: KnownEntry, statement: str) -> list[str]:
    """What a statement names and a dream did not find any more."""
    claims = filter(None, known_entry.entry.page.values.get(GONE, "").split(", "))
    # A claim may be "--flag in script.sh": the statement must name both.
    named = [claim for claim in claims if all(name in statement for name in claim.split(" in "))]
    return [f"gone: {' '.join(named)}"] if named else []
