"""Dates that a statement names by the day it was made on: "tomorrow", "by Friday", "in two weeks".

Only what has one meaning is resolved. "Next Friday" has two, "on Friday" may be past, and "by Friday" may be today if
it is said on a Friday: they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

_DAYS = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NUMBER = rf"\d{{1,3}}|{'|'.join(_NUMBERS)}"
_RELATIVE = re.compile(
    rf"\b(?:(?P<day>the day after tomorrow|today|tonight|tomorrow|yesterday)"
    rf"|(?:by|until|before|this) (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|in (?P<ahead>{_NUMBER}) (?P<unit>day|week)s?|(?P<back>{_NUMBER}) (?P<past>day|week)s? ago)\b",
    re.IGNORECASE,
)


def absolute_dates(words: str, said_on: date) -> dict[str, str]:
    """What the words call a day, each with its date, if they were said on that day."""
    return {found: day.isoformat() for found, day in _resolved(words, said_on)}


def _resolved(words: str, said_on: date) -> Iterator[tuple[str, date]]:
    for found in _RELATIVE.finditer(" ".join(words.split())):
        part = {name: value.casefold() for name, value in found.groupdict().items() if value}
        if "day" in part:
            yield found[0], said_on + timedelta(days=_DAYS[part["day"]])
        elif "ahead" in part:
            yield found[0], said_on + _span(part["ahead"], part["unit"])
        elif "back" in part:
            yield found[0], said_on - _span(part["back"], part["past"])
        elif ahead := (_WEEKDAYS.index(part["weekday"]) - said_on.weekday()) % 7:
            yield found[0], said_on + timedelta(days=ahead)


def _span(number: str, unit: str) -> timedelta:
    count = _NUMBERS.get(number) or int(number)
    return timedelta(days=count * (7 if unit == "week" else 1))
