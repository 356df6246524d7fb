"""Who said something, and on which day: in the words that the index keeps of it, and as a query names the day."""

from __future__ import annotations

import re

_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in _MONTHS)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(rf"\b(?:{_DAY}(?: of)? )?({_MONTH})\b\.?(?: {_DAY}\b)?(?:,? (\d{{4}})\b)?")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b")
_WORD = re.compile(r"\w+")


def labels(text: str, timestamp: str) -> str:
    """Who speaks in a text, if it begins with a name and a colon, and the day, in words that no text holds."""
    speaker = _SPEAKER.match(text, 0, 80)
    year, month, day = timestamp[:4], timestamp[5:7], timestamp[8:10]
    when = f"y{year} m{month} d{day}" if day and (year + month + day).isdecimal() else ""
    return f"{speaker[1] if speaker else ''} {when}".strip()


def days(query: str) -> tuple[tuple[str, ...], str]:
    """The months and days that a query names, as `labels` writes them; and the words it names them with."""
    named = {found[0]: found.groups(default="") for found in _ISO_DATE.finditer(query)}
    for found in _DATE.finditer(query):
        before, name, after, year = found.groups(default="")
        month = 1 + next(place for place, full in enumerate(_MONTHS) if full.startswith(name[:3]))
        named[found[0]] = (year, f"{month:02}", (after or before).zfill(2) if after or before else "")
    months = [f"y{year} m{month}" if year else f"m{month}" for year, month, _ in named.values()]
    exact = [f"m{month} d{day}" for _, month, day in named.values() if day]
    return tuple(dict.fromkeys([*months, *exact])), " ".join(_WORD.findall(" ".join(named)))
