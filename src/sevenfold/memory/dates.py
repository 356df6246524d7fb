"""The days that words name: "tomorrow", "by Friday", "am Freitag", "dans deux semaines", "周五之前".

Code resolves only what has one meaning, in English, German, French and Chinese. "Next Friday" has two, "by Friday" on a
Friday may be today, and "on Friday" may be past, so it counts only in a sentence about what is or will be. For the
rest, in any language, a model may say which day is meant; code accepts that date if nothing in the words or in the
calendar speaks against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta

DATES = "Dates: "
"""The beginning of the line that gives the dates of relative days in the user's words."""
NEAR = 14
"""The most days between the day on which something was said, and a day of the week that it names."""
FAR = 800
"""The most days between the day on which something was said, and any day that it names."""

_DAYS = {
    "today": 0,
    "tonight": 0,
    "tomorrow": 1,
    "yesterday": -1,
    "the day after tomorrow": 2,
    "heute": 0,
    "morgen": 1,
    "übermorgen": 2,
    "gestern": -1,
    "vorgestern": -2,
    "aujourd'hui": 0,
    "demain": 1,
    "après-demain": 2,
    "hier": -1,
    "avant-hier": -2,
    "今天": 0,
    "今晚": 0,
    "明天": 1,
    "后天": 2,
    "後天": 2,
    "昨天": -1,
    "前天": -2,
}


def _numbered(*series: str, start: int) -> dict[str, int]:
    """The names in each of these series, numbered from ``start``."""
    numbers: dict[str, int] = {}
    for names in series:
        numbers.update((name, number) for number, name in enumerate(names.split(), start))
    return numbers


_WEEKDAYS = _numbered(
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "周一 周二 周三 周四 周五 周六 周日",
    "星期一 星期二 星期三 星期四 星期五 星期六 星期日",
    "礼拜一 礼拜二 礼拜三 礼拜四 礼拜五 礼拜六 礼拜天",
    start=0,
) | {"周天": 6, "星期天": 6, "sonnabend": 5}
_MONTHS = _numbered(
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    start=1,
)
_NUMBERS = {
    "a": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "einem": 1,
    "einer": 1,
    "zwei": 2,
    "drei": 3,
    "vier": 4,
    "fünf": 5,
    "sechs": 6,
    "un": 1,
    "une": 1,
    "deux": 2,
    "trois": 3,
    "quatre": 4,
    "cinq": 5,
    "一": 1,
    "两": 2,
    "二": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
}
_UNITS = {"day": 1, "week": 7, "tag": 1, "woche": 7, "jour": 1, "semaine": 7, "天": 1, "周": 7, "个星期": 7}


def _one_of(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_NUMBER = rf"\d{{1,3}}|{_one_of(_NUMBERS)}"
_WEEKDAY = _one_of(_WEEKDAYS)
_NAMED_DAY = re.compile(_WEEKDAY, re.IGNORECASE)
_NO_MORNING = "".join(
    rf"(?<!{word}\ )" for word in ("guten", "heute", "gestern", "tag", "woch", "am", "jeden")
)
"""What precedes the German "morgen" where it does not mean tomorrow."""
# In Chinese there are no word boundaries, and a day of every week has a 每 before it.
_RELATIVE = re.compile(
    rf"""
    (?<![\w-])(?P<day>the\ day\ after\ tomorrow|today|tonight|tomorrow|yesterday
        |heute|{_NO_MORNING}(?-i:morgen)|übermorgen|gestern|vorgestern
        |aujourd'hui|demain|après-demain|hier|avant-hier)(?![\w-])
  | (?P<dense_day>今天|今晚|明天|后天|後天|昨天|(?<![0-9一二三四五六七八九十])前天)
  | \b(?:by|until|before|this|bis(?:\ zum)?|vor|diesen|d'ici(?:\ à)?|avant|jusqu'à|ce)\ (?P<weekday>{_WEEKDAY})\b
  | (?P<dense_weekday>(?:本|这)?(?:周|星期|礼拜)[一二三四五六日天](?=之前|以前|前))
  | (?P<this_week>(?:本|这)(?:周|星期|礼拜)[一二三四五六日天])
  | \b(?P<on>on\ (?:{_WEEKDAY})|am\ (?:{_WEEKDAY})|(?<!le\ )(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche))\b
  | (?P<dense_on>(?<![每下上])(?:周|星期|礼拜)[一二三四五六日天])
  | \b(?:in|dans)\ (?P<ahead>{_NUMBER})\ (?P<unit>day|week|tag|woche|jour|semaine)(?:s|en|n)?\b
  | \b(?P<back>{_NUMBER})\ (?P<past>day|week)s?\ ago\b
  | \b(?:vor|il\ y\ a)\ (?P<back_2>{_NUMBER})\ (?P<past_2>tag|woche|jour|semaine)(?:s|en|n)?\b
  | (?P<dense_number>\d{{1,3}}|[一两二三四五六])(?P<dense_unit>天|周|个星期)(?P<dense_way>之?后|之?後|以后|前|以前)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_COMING = re.compile(
    r"\b(?:is|are|will|'ll|due|ist|sind|wird|werden|findet|est|sont|sera|seront|aura|a lieu)\b|[是在会將将要]",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|\w+ed|war|waren|hatte|wurde|était|étaient)\b|[了过]", re.IGNORECASE
)
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_FIGURE = re.compile(r"\d+")


def absolute_dates(text: str, said_on: date) -> dict[str, str]:
    """The phrases that name a day relative to ``said_on``, each with its date."""
    return {phrase: day.isoformat() for phrase, day in _resolved(text, said_on)}


def dates_line(named: Mapping[str, str]) -> str:
    """A line with the dates of such phrases; empty if there are none."""
    return f"{DATES}{', '.join(f'{phrase} is {day}' for phrase, day in named.items())}." if named else ""


def checked_dates(text: str, proposed: Iterable[tuple[str, str]], said_on: date) -> dict[str, str]:
    """The phrases with a date in a statement: those that code resolves, and those a model proposed rightly."""
    plain = " ".join(text.split())
    named = absolute_dates(plain, said_on)
    for phrase, day in proposed:
        phrase = " ".join(phrase.split())
        at = plain.casefold().find(phrase.casefold()) if phrase else -1
        day_meant = _day(day)
        is_covered = any(_overlap(phrase, named_phrase) for named_phrase in named)
        if (
            at < 0
            or day_meant is None
            or is_covered
            or _ISO.search(phrase)
            or not _can_mean(phrase, day_meant, said_on)
        ):
            continue
        named[plain[at : at + len(phrase)]] = day
    return named


def _overlap(phrase: str, other_phrase: str) -> bool:
    """Whether one of two phrases is a part of the other."""
    shorter, longer = sorted((phrase.casefold(), other_phrase.casefold()), key=len)
    return shorter in longer


def names_day(text: str, day: str, named: Mapping[str, str], said_on: date | None) -> bool:
    """Whether a statement itself names this day: by its date, by a day of the week, or relative to ``said_on``."""
    date_named = _day(day)
    if date_named is None:
        return False
    weekdays = {_WEEKDAYS[name.casefold()] for name in _NAMED_DAY.findall(text)}
    near = said_on is None or 0 <= (date_named - said_on).days <= NEAR
    return (
        day in named.values()
        or _is_written(text, date_named, said_on)
        or (near and date_named.weekday() in weekdays)
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _can_mean(phrase: str, candidate: date, said_on: date) -> bool:
    """Whether a phrase can mean this date, judging by what it says itself."""
    away = (candidate - said_on).days
    if weekdays := {_WEEKDAYS[name.casefold()] for name in _NAMED_DAY.findall(phrase)}:
        return candidate.weekday() in weekdays and abs(away) <= NEAR
    if _FIGURE.search(phrase) and any(month in phrase.casefold() for month in _MONTHS):
        return _is_written(phrase, candidate, said_on)
    return abs(away) <= FAR


def _is_written(text: str, candidate: date, said_on: date | None) -> bool:
    """Whether words give this date: as 2026-12-31, 31.12., 12/31, 31 December or 12月31日."""
    if any(
        tuple(map(int, numbers)) == (candidate.year, candidate.month, candidate.day)
        for numbers in _ISO.findall(text)
    ):
        return True
    near = said_on is None or 0 <= (candidate - said_on).days <= 366
    figures = [int(figure) for figure in _FIGURE.findall(text)]
    years = [figure for figure in figures if figure > 1900]
    if candidate.day not in figures or (years and candidate.year not in years) or not (years or near):
        return False
    months = {_MONTHS[month] for month in re.findall(r"[^\W\d_]+", text.casefold()) if month in _MONTHS}
    written = re.search(rf"(?<!\d)0?{candidate.day}\s*[./]\s*0?{candidate.month}(?!\d)", text)
    american = re.search(rf"(?<!\d)0?{candidate.month}/0?{candidate.day}(?!\d)", text)
    chinese = re.search(rf"(?<!\d){candidate.month}\s*月\s*{candidate.day}\s*[日号號]", text)
    return candidate.month in months or bool(written or american or chinese)


def _resolved(text: str, said_on: date) -> Iterator[tuple[str, date]]:
    plain = " ".join(text.split()).replace("’", "'")
    coming = bool(_COMING.search(plain)) and not _PAST.search(plain)
    for match in _RELATIVE.finditer(plain):
        groups = {name: value.casefold() for name, value in match.groupdict().items() if value}
        if name := groups.get("day") or groups.get("dense_day"):
            yield match[0], said_on + timedelta(days=_DAYS[name])
        elif "ahead" in groups:
            yield match[0], said_on + _span(groups["ahead"], groups["unit"])
        elif "back" in groups or "back_2" in groups:
            number = groups.get("back") or groups["back_2"]
            unit = groups.get("past") or groups["past_2"]
            yield match[0], said_on - _span(number, unit)
        elif "dense_number" in groups:
            span = _span(groups["dense_number"], groups["dense_unit"])
            yield match[0], said_on - span if "前" in groups["dense_way"] else said_on + span
        elif "this_week" in groups:
            monday = said_on - timedelta(days=said_on.weekday())
            yield match[0], monday + timedelta(days=_weekday(groups["this_week"]))
        elif ("on" in groups or "dense_on" in groups) and not coming:
            continue
        elif ahead := (_weekday(match[0]) - said_on.weekday()) % 7:
            yield match[0], said_on + timedelta(days=ahead)


def _weekday(phrase: str) -> int:
    return next(_WEEKDAYS[name.casefold()] for name in _NAMED_DAY.findall(phrase))


def _span(number: str, unit: str) -> timedelta:
    count = _NUMBERS.get(number) or int(number)
    return timedelta(days=count * _UNITS[unit])
