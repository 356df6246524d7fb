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
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING

from sevenfold.memory.dates import DATES
from sevenfold.memory.entry import shortened
from sevenfold.memory.words import same_fact, shortens

if TYPE_CHECKING:
    from sevenfold.memory.memory import KnownEntry

MAX_LINES = 200
MAX_BYTES = 25_000
LINE_CHARS = 150
"""Characters in a line of the index; fewer if pinned entries and rules would not fit otherwise."""
_WIDTHS = (LINE_CHARS, 120, 100, 80, 60)
_NOTICE_LINES = 6
"""Lines kept free at the end: the heading and a blank line, a blank line, two notices, and one to spare."""
_NOTICE_BYTES = 200
"""Bytes kept free for the notices at the end."""
_MIN_STATEMENT_CHARS = 40
"""An annotation that leaves a statement less room than this is not worth it."""
_MAX_DAY_CHARS = len("2025-03-07")
"""Anybody may write anything else as the last day of an entry."""
_HEADING = "# Memory\n\n"

# Keys that a dream, the engine's tidying of memory between sessions, adds to an entry's front matter:
SHORT_KEY = "short"
"""A shorter form of the statement, as in ``short: "Deploy on Fridays … with run.sh"``."""
DATES_KEY = "dates"
"""The dates of days in the statement, as in ``dates: next Friday is 2025-03-07``."""
GONE_KEY = "gone"
"""Paths, commands and flags in the statement that do not exist any more, as in ``gone: run.sh, --fast in make.py``."""
MAX_SHORT_CHARS = 110
"""The most characters of a shorter form; a statement with fewer needs none."""

_DATE = re.compile(r"(.{1,120}) is (\d{4}-\d\d-\d\d)")
_RULE_WORDS = (
    # English
    r"always|never|must(?:n't)?|do not|don't|please|prefer|only|every time|from now on|instead of|avoid",
    # German
    r"immer|nie|niemals|muss|müssen|darf|dürfen|bitte|nur|ab jetzt|ab sofort|künftig|stets|kein\w*|nicht",
    # French
    r"toujours|jamais|doit|doivent|veuillez|merci de|désormais|dorénavant|uniquement|évite\w*|ne \w+ pas",
    # Spanish
    r"siempre|nunca|jamás|debe|por favor",
    # Italian; "mai" alone is also a month in German and French
    r"sempre|non \w+ mai",
    # Portuguese shares "sempre" with Italian, and "nunca" and "por favor" with Spanish.
)
_CHINESE_RULE_WORDS = (
    r"以后|从现在起|今后|总是|一律|必须|务必|永远|绝不|不要|不得|不许|禁止|别|请|只用|每次|都要"
)
# Chinese has no spaces between words, hence no word boundaries.
_RULES = re.compile(rf"\b(?:{'|'.join(_RULE_WORDS)})\b|{_CHINESE_RULE_WORDS}", re.IGNORECASE)


class _Rank(IntEnum):
    """What is listed first, and is the last to go."""

    PINNED = 0
    RULE = 1
    ORDINARY = 2


def render_index(entries: Iterable[KnownEntry], today: str) -> str:
    """The text of ``MEMORY.md``, within limits, with a note on how many entries are left out."""
    valid = [known_entry for known_entry in entries if not known_entry.entry.has_expired(today)]
    trusted = sorted(
        (known_entry for known_entry in valid if known_entry.stamp.trusted), key=_last_to_go_first
    )
    width = _width([known_entry for known_entry in trusted if _rank(known_entry) < _Rank.ORDINARY])
    shown: list[str] = []
    listed = 0
    for known_entry in trusted:
        lines = _lines(known_entry, width)
        if not _fit([*shown, *lines]):
            # Strict order: a smaller, less useful entry must not jump ahead.
            break
        shown += lines
        listed += 1
    notices = _notices(len(trusted) - listed, len(valid) - len(trusted))
    sections = ["\n".join(section) for section in (shown, notices) if section]
    return _HEADING + "\n\n".join(sections) + "\n" if sections else ""


def _notices(left_out: int, unconfirmed: int) -> list[str]:
    notices = []
    if left_out:
        counted = "1 more entry is" if left_out == 1 else f"{left_out} more entries are"
        notices.append(f"{counted} not listed: the index is full.")
    if unconfirmed:
        noun = "entry" if unconfirmed == 1 else "entries"
        notices.append(f"{unconfirmed} unconfirmed {noun}: see `sevenfold memory list`.")
    return notices


def day_of_entry(known_entry: KnownEntry) -> str:
    """The local date on which an entry was last stated or confirmed; empty if unknown."""
    return datetime.fromtimestamp(known_entry.when).date().isoformat() if known_entry.when else ""


def _rank(known_entry: KnownEntry) -> _Rank:
    if known_entry.entry.pinned:
        return _Rank.PINNED
    is_rule = known_entry.entry.kind == "feedback" or _RULES.search(known_entry.entry.statement)
    return _Rank.RULE if is_rule else _Rank.ORDINARY


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
    size = sum(len(line.encode()) + 1 for line in lines)
    return len(lines) <= MAX_LINES - _NOTICE_LINES and size + len(_HEADING) <= MAX_BYTES - _NOTICE_BYTES


def _lines(known_entry: KnownEntry, width: int) -> list[str]:
    """A line for each statement of an entry that does not say the same as an earlier one."""
    entry = known_entry.entry
    statements: list[str] = []
    # If there are no quotations, the description is listed instead. Only trusted entries are listed: the user stated or
    # confirmed all of such an entry, its description included.
    for statement in entry.quotations or (entry.description,):
        if not any(same_fact(statement, earlier) for earlier in statements):
            statements.append(statement)
    return [_line(known_entry, statement, width) for statement in statements]


def _line(known_entry: KnownEntry, statement: str, width: int) -> str:
    about = _about(known_entry, statement, width)
    room = width - len("- ") - len(about)
    plain = " ".join(statement.split())
    short = known_entry.entry.page.values.get(SHORT_KEY, "")
    if len(plain) > room and short and shortens(short, plain):
        plain = short
    return f"- {shortened(plain, room)}{about}"


def _about(known_entry: KnownEntry, statement: str, width: int) -> str:
    """What is said about a statement in parentheses: its days, and what else leaves room enough for it."""
    annotations = [day_of_entry(known_entry)] if known_entry.when else []
    if known_entry.entry.until:
        annotations.append(f"until {known_entry.entry.until[:_MAX_DAY_CHARS]}")
    needed = min(len(" ".join(statement.split())), _MIN_STATEMENT_CHARS)
    for annotation in (*_dates(known_entry, statement), *_gone(known_entry, statement)):
        more = _in_parentheses([*annotations, annotation])
        if len("- ") + needed + len(more) <= width:
            annotations.append(annotation)
    return _in_parentheses(annotations)


def _in_parentheses(annotations: Sequence[str]) -> str:
    return f" ({', '.join(annotations)})" if annotations else ""


def _dates(known_entry: KnownEntry, statement: str) -> list[str]:
    """The dates of the relative days in a statement, from the note or the front matter of its entry.

    A line of the note is ``Dates: next Friday is 2025-03-07, tomorrow is 2025-03-02.``
    """
    dated_lines = (line for line in known_entry.entry.note.splitlines() if line.startswith(DATES))
    noted = [line.removeprefix(DATES).rstrip(".") for line in dated_lines]
    listed = ", ".join([*noted, known_entry.entry.page.values.get(DATES_KEY, "")]).split(", ")
    plain = " ".join(statement.split()).casefold()
    dates = filter(None, map(_DATE.fullmatch, listed))
    return [match[0] for match in dates if match[1].casefold() in plain]


def _gone(known_entry: KnownEntry, statement: str) -> list[str]:
    """What a statement names and a dream could no longer find."""
    claims = filter(None, known_entry.entry.page.values.get(GONE_KEY, "").split(", "))
    # A claim may be "--flag in script.sh": the statement must name both.
    named = [claim for claim in claims if all(name in statement for name in claim.split(" in "))]
    return [f"gone: {' '.join(named)}"] if named else []
