"""A leaked secret, and how it is masked in bytes that must otherwise stay as they are.

The same secret is written in many ways: as it is, escaped inside JSON, escaped again inside JSON that is
quoted in JSON. All of them are found. In JSON the strings are looked at one by one, as what they mean, so
that a mask never begins in the middle of an escape.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right

from sevenfold.errors import InputError
from sevenfold.record import redact

SHORTEST = 8
"""Characters. Something shorter stands in too many places by chance."""

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN_RUN = re.compile(r"[A-Za-z0-9_]+")


class Leak:
    """One secret that must not stay."""

    def __init__(self, secret: str, kind: str = "") -> None:
        """``kind`` is what it is called in its mask; left out, it is what the secret looks like."""
        if len(secret) < SHORTEST:
            raise InputError(
                f"the secret has {len(secret)} characters; below {SHORTEST} it could stand anywhere by chance, "
                "so give all of it"
            )
        found = next(iter(redact.find(secret)), None)
        if not kind and found and (found.start, found.end) == (0, len(secret)):
            kind = found.kind
        self.mask = redact.label(kind or "secret", redact.digest(secret))
        self._pattern = re.compile("".join(map(_character, secret)))
        self._anchor = max(_PLAIN_RUN.findall(secret) or [""], key=len)

    def in_text(self, text: str) -> tuple[str, int]:
        """The text without the secret, and how often it stood there."""
        if not self.may_be_in(text):
            return text, 0
        return self._pattern.subn(self.mask, text)

    def in_json(self, text: str) -> tuple[str, int]:
        """The same for one or more JSON values; nothing outside their strings changes."""
        if not self.may_be_in(text):
            return text, 0
        masked = 0

        def replace(string: re.Match[str]) -> str:
            nonlocal masked
            if not self.may_be_in(string[0]):
                return string[0]
            inside, times = self._in_string(string[0][1:-1])
            masked += times
            return f'"{inside}"'

        return _STRING.sub(replace, text), masked

    def may_be_in(self, text: str) -> bool:
        """A quick look that never overlooks it."""
        return self._anchor in text or "\\u" in text

    def _in_string(self, body: str) -> tuple[str, int]:
        meant, meanings, places = _unescaped(body)
        parts, end = [], 0
        for found in self._pattern.finditer(meant):
            start, stop = (_place(at, meanings, places) for at in found.span())
            parts += [body[end:start], self.mask]
            end = stop
        return "".join([*parts, body[end:]]), len(parts) // 2


def _character(letter: str) -> str:
    """A pattern for one character, written as it is or escaped, up to five times over."""
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    escaped = "".join(rf"\\{{1,32}}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    if letter == "\\":
        plain = r"\\{1,32}"
    elif letter in '"/':
        plain = rf"\\{{0,32}}{letter}"
    elif letter in _SHORT:
        plain = rf"{letter}|\\{{1,32}}{_SHORT[letter]}"
    else:
        plain = re.escape(letter)
    return f"(?:{plain}|(?i:{escaped}))"


def _unescaped(body: str) -> tuple[str, list[int], list[int]]:
    """What the inside of a JSON string means; and where, behind each escape, one is in meaning and in body."""
    parts: list[str] = []
    meanings, places = [0], [0]
    length = end = 0
    for escape in _ESCAPE.finditer(body):
        plain = body[end : escape.start()]
        parts += [plain, _meaning(escape[0])]
        length += len(plain) + len(parts[-1])
        end = escape.end()
        meanings.append(length)
        places.append(end)
    return "".join([*parts, body[end:]]), meanings, places


def _meaning(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape


def _place(at: int, meanings: list[int], places: list[int]) -> int:
    mark = bisect_right(meanings, at) - 1
    return places[mark] + at - meanings[mark]
