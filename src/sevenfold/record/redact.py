"""Masking secrets: one filter, the same everywhere, that gives the same bytes for the same text.

A mask names the kind of the secret and a few digits of its hash, ``[masked github-token 3fa9]``: two places
where the same secret stood still look the same, and nobody can tell what it was. Masking what is masked
changes nothing. The text is walked once; a secret is looked for only where the beginning of one stands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.secret_patterns import RULES

DIGITS_IN_MASK = 4
"""Hex digits of the hash that a mask shows."""
DIGITS_OF_DIGEST = 8
"""Hex digits by which a secret is named to somebody who looks for it."""

_BY_HINT = MappingProxyType({hint: rule for rule in RULES for hint in rule.hints})
_ENDS = "-_."
_BEFORE_A_TOKEN = re.compile(r"[-_.](?=[A-Za-z0-9]{4}[A-Za-z0-9_.-]{12})")
"""Most tokens are a name, one of these signs, and a long word. Looking for that is faster than for each name."""
_NAMES = frozenset(hint for hint in _BY_HINT if hint[-1] in _ENDS and not _BY_HINT[hint].in_context)
_TAIL = min(map(len, _NAMES))
_TAILS = frozenset(name[-_TAIL:] for name in _NAMES)
_LENGTHS = tuple(sorted({len(name) for name in _NAMES}))
_LITERALS = tuple(hint for hint in _BY_HINT if hint not in _NAMES)
_WORD = re.compile("[A-Za-z0-9_]")
_SEPARATED = re.compile(r"(?:\\[nrt]|\x1b\[[0-9;]{0,8}m)\Z")
"""Ends in a letter, and yet a new word may begin: a line end written as text, or a colour."""
_LAYOUT = re.compile(r"\\[nrt]|\s")


class Finding(Struct, frozen=True):
    """A secret in a text: where it is, never what it is."""

    kind: str
    digest: str
    start: int
    end: int


class Redacted(Struct, frozen=True):
    """A text without its secrets, and what was found in it as it had been."""

    text: str
    findings: tuple[Finding, ...] = ()


class MaskedBlocks(Struct, frozen=True):
    """Content blocks without their secrets; each finding's place is within the text it stood in."""

    blocks: list[Block]
    findings: tuple[Finding, ...] = ()


def mask(text: str) -> Redacted:
    """The text with every secret in it masked."""
    findings = find(text)
    if not findings:
        return Redacted(text)
    parts, place = [], 0
    for found in findings:
        parts += [text[place : found.start], label(found.kind, found.digest)]
        place = found.end
    return Redacted("".join([*parts, text[place:]]), tuple(findings))


def find(text: str) -> list[Finding]:
    """The secrets in the text, in order; they do not overlap.

    It is walked from its end, because where a token ends may depend on one that follows it, and never the
    other way round. So a text in which all have been masked holds no other.
    """
    beginnings = _beginnings(text)
    keys = _keys(text, beginnings)
    found = list(keys)
    limit = len(text)
    for start, hint in reversed(beginnings):
        while keys and start < keys[-1].start:
            limit = min(limit, keys.pop().start)
        if (not keys or keys[-1].end <= start) and (one := _at(text, start, hint, limit)):
            found.append(one)
            limit = one.start
    return sorted(found, key=lambda one: one.start)


def digest(secret: str) -> str:
    """The name of a secret. Line breaks, also such as are written as text, make no difference to it."""
    essence = _LAYOUT.sub("", secret).encode(errors="surrogatepass")
    return hashlib.sha256(essence).hexdigest()[:DIGITS_OF_DIGEST]


def label(kind: str, digest: str) -> str:
    """What stands in the place of a secret."""
    return f"[masked {kind} {digest[:DIGITS_IN_MASK]}]"


def mask_blocks(content: Sequence[Block]) -> MaskedBlocks:
    """Blocks of the user's side with their texts masked; one without a secret is the very same block.

    Only texts and the contents of tool results are looked at. What the model said passes as it is.
    """
    masked: list[Block] = []
    findings: list[Finding] = []
    for block in content:
        raw, found = _raw(block)
        masked.append(Block(block.kind, raw, block.id) if found else block)
        findings += found
    return MaskedBlocks(masked, tuple(findings))


def _beginnings(text: str) -> list[tuple[int, str]]:
    """Where secrets may begin, in order, and how."""
    found = []
    for hint in _LITERALS:
        place = text.find(hint)
        while place >= 0:
            found.append((place, hint))
            place = text.find(hint, place + len(hint))
    for sign in _BEFORE_A_TOKEN.finditer(text):
        end = sign.end()
        if text[end - _TAIL : end] in _TAILS:
            names = [(end - length, text[end - length : end]) for length in _LENGTHS if length <= end]
            found += [(start, name) for start, name in names if name in _NAMES]
    return sorted(found)


def _keys(text: str, beginnings: list[tuple[int, str]]) -> list[Finding]:
    """Secrets of many lines, from the start on: whatever looks like another inside one is part of it."""
    keys: list[Finding] = []
    for start, hint in beginnings:
        if _BY_HINT[hint].many_lines and (not keys or keys[-1].end <= start):
            one = _at(text, start, hint, len(text))
            keys += [one] if one else []
    return keys


def _at(text: str, start: int, hint: str, limit: int) -> Finding | None:
    """The secret that begins here and ends before ``limit``."""
    rule = _BY_HINT[hint]
    if not (rule.in_context or rule.many_lines or _begins_word(text, start)):
        return None
    rest = rule.rest.match(text, start + len(hint), limit)
    if rest is None:
        return None
    first, end = rest.span("secret") if "secret" in rule.rest.groupindex else (start, rest.end())
    secret = text[first:end]
    return Finding(rule.kind, digest(secret), first, end) if rule.is_real(secret) else None


def _begins_word(text: str, place: int) -> bool:
    if place == 0 or not _WORD.match(text, place - 1):
        return True
    return _SEPARATED.search(text, max(0, place - 12), place) is not None


_fields = msgspec.json.Decoder(dict[str, Raw])
_encoder = msgspec.json.Encoder()


def _raw(block: Block) -> tuple[bytes, tuple[Finding, ...]]:
    """The block's bytes without its secrets: nothing but the strings that held them is written anew."""
    match block.body():
        case blocks.Text(text=words):
            return _replaced(block.raw, "text", mask(words))
        case blocks.ToolResult(content=str() as words):
            return _replaced(block.raw, "content", mask(words))
        case blocks.ToolResult(content=list() as parts):
            inner = mask_blocks([blocks.read(bytes(part)) for part in parts])
            if not inner.findings:
                return block.raw, ()
            joined = b"[" + b",".join(part.raw for part in inner.blocks) + b"]"
            return _with_field(block.raw, "content", joined), inner.findings
        case _:
            return block.raw, ()


def _replaced(raw: bytes, name: str, masked: Redacted) -> tuple[bytes, tuple[Finding, ...]]:
    if not masked.findings:
        return raw, ()
    return _with_field(raw, name, _encoder.encode(masked.text)), masked.findings


def _with_field(raw: bytes, name: str, value: bytes) -> bytes:
    return _encoder.encode({**_fields.decode(raw), name: Raw(value)})
