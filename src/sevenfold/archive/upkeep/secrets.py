"""Secrets in stored files: finding text that looks like a secret, and masking a secret that leaked.

Files of any size are read a line or a few megabytes at a time. A leaked secret may be written in many ways: verbatim,
escaped inside JSON, escaped again inside JSON that is quoted in JSON. All of them are found. JSON strings are decoded
one by one before they are searched, so that a mask never begins in the middle of an escape sequence.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.record import entries, redact
from sevenfold.record.blocks import read_field
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.entries import Damaged, Entry
from sevenfold.stores.files import opened
from sevenfold.stores.jsonl import log

SIZE = 8 * 1024 * 1024
"""The approximate size of a piece in bytes."""

_UNREADABLE = frozenset({"signature", "encrypted_content"})

SHORTEST = 8
"""The fewest characters of a secret that can be masked: a shorter one occurs in too many places by chance."""

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN_RUN = re.compile(r"[A-Za-z0-9_]+")


# -- finding -------------------------------------------------------------------------------------


class SecretHit(Struct, frozen=True):
    """A secret found in a file. ``secret`` is needed to mask it and must never be shown."""

    kind: str
    digest: str
    secret: str
    line: int
    record: str = ""
    """The id of the record that holds it, in a transcript."""


def is_transcript(path: Path) -> bool:
    """Whether a file is read record by record."""
    return path.suffix == ".jsonl"


def scan(path: Path, reached: Callable[[int], None] = lambda offset: None) -> Iterator[SecretHit]:
    """The secrets in a file; raises `sevenfold.errors.TranscriptError` if it cannot be read.

    ``reached`` is called with the number of bytes searched so far.
    """
    return _in_records(path, reached) if is_transcript(path) else _in_text(path, reached)


def _in_records(path: Path, reached: Callable[[int], None]) -> Iterator[SecretHit]:
    for number, line in enumerate(log.scan(path, limit=sys.maxsize), 1):
        reached(line.offset)
        text = said_in(line.raw)
        for match in redact.find(text):
            secret = text[match.start : match.end]
            yield SecretHit(match.kind, match.digest, secret, number, _record(line.raw))


def _in_text(path: Path, reached: Callable[[int], None]) -> Iterator[SecretHit]:
    lines_before = 1
    offset = 0
    for piece in pieces(path):
        reached(offset)
        offset += len(piece)
        text = piece.decode(errors="surrogateescape")
        for match in redact.find(text):
            number = lines_before + text.count("\n", 0, match.start)
            yield SecretHit(match.kind, match.digest, text[match.start : match.end], number)
        lines_before += piece.count(b"\n")


def _record(line: bytes) -> str:
    try:
        return read_field(line, "uuid") or read_field(line, "id")
    except NOT_JSON:
        return ""


def pieces(path: Path, *, size: int = SIZE) -> Iterator[bytes]:
    """The file's bytes in order, in pieces cut where they are unlikely to split a secret."""
    held_back = b""
    with opened(path) as file:
        while chunk := file.read(size):
            piece = held_back + chunk
            cut = redact.safe_cut(piece)
            held_back = piece[cut:]
            yield piece[:cut]
    if held_back:
        yield held_back


def said_in(record: bytes) -> str:
    """All texts in a JSON record, one per line; anything that is not JSON is returned as it is."""
    for decode in (msgspec.json.decode, json.loads):
        try:
            value = decode(record)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        return "\n".join(_texts(value))
    return record.decode(errors="surrogateescape")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case {"type": "base64"}:
            pass
        case dict():
            for name, inner in value.items():
                if name not in _UNREADABLE:
                    yield name
                    yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


# -- masking -------------------------------------------------------------------------------------


Masker = Callable[[str], tuple[str, int]]


class Leak:
    """One secret that must be masked."""

    def __init__(self, secret: str, kind: str = "") -> None:
        """``kind`` names the secret in its mask; by default, the kind it looks like, or ``secret``."""
        if len(secret) < SHORTEST:
            raise InputError(
                f"the secret has {len(secret)} characters; below {SHORTEST} it could occur anywhere by chance, "
                "so give all of it"
            )
        match = next(iter(redact.find(secret)), None)
        if not kind and match and (match.start, match.end) == (0, len(secret)):
            kind = match.kind
        self.mask = redact.label(kind or "secret", redact.digest(secret))
        self._pattern = re.compile("".join(map(_character, secret)))
        self._anchor = max(_PLAIN_RUN.findall(secret) or [""], key=len)

    def in_text(self, text: str) -> tuple[str, int]:
        """The text with the secret masked, and how often it occurred."""
        if not self.may_be_in(text):
            return text, 0
        return self._pattern.subn(self.mask, text)

    def in_json(self, text: str) -> tuple[str, int]:
        """The same as `in_text` for one or more JSON values; nothing outside their strings changes."""
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
        """Whether a text may contain the secret: a quick test that never misses it."""
        return self._anchor in text or "\\u" in text

    def _in_string(self, body: str) -> tuple[str, int]:
        unescaped = redact.Uncovered(body, _ESCAPE, _meaning)
        pieces = []
        end = 0
        for match in self._pattern.finditer(unescaped.text):
            start, stop = unescaped.span(*match.span())
            pieces += [body[end:start], self.mask]
            end = stop
        return "".join([*pieces, body[end:]]), len(pieces) // 2


def _character(letter: str) -> str:
    """A pattern for one character, written verbatim or escaped, up to five levels deep."""
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


def _meaning(escape: re.Match[str]) -> str:
    try:
        return str(json.loads(f'"{escape[0]}"'))
    except ValueError:
        return escape[0]


def mask_record(leaks: Sequence[Leak], raw: bytes) -> tuple[bytes, int]:
    """A line of a transcript with these secrets masked, and how many places were masked."""
    text = raw.decode(errors="surrogateescape")
    if not any(leak.may_be_in(text) for leak in leaks):
        return raw, 0
    if isinstance(entry_of(raw), Damaged):
        return mask_text(leaks, raw)
    return _masked(raw, text, [leak.in_json for leak in leaks])


def mask_text(leaks: Sequence[Leak], raw: bytes) -> tuple[bytes, int]:
    """The same as `mask_record`, for the content of any other file."""
    return _masked(raw, raw.decode(errors="surrogateescape"), [leak.in_text for leak in leaks])


def _masked(raw: bytes, text: str, maskers: Sequence[Masker]) -> tuple[bytes, int]:
    masked = 0
    for mask in maskers:
        text, times = mask(text)
        masked += times
    return (text.encode(errors="surrogateescape"), masked) if masked else (raw, 0)


def entry_of(raw: bytes) -> Entry:
    """The entry in a line; a line too long for readers counts as damaged."""
    return entries.read(raw) if len(raw) <= log.LINE_LIMIT else Damaged("the line is too long to be read")
