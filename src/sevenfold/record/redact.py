"""Masking secrets: one filter, used everywhere, that gives the same bytes for the same text.

A mask contains the kind of the secret and a few digits of its hash, ``[masked github-token 3fa9]``: the same secret
gets the same mask everywhere, and cannot be recovered from it. Masking a text twice changes nothing more. Secrets are
searched for only after a hint, the fixed text one begins with, in the text as it is and as it reads without colours,
invisible characters and percent-encoding. Known values are also found in other encodings and across line breaks.
"""

from __future__ import annotations

import hashlib
import re
import string
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct

from sevenfold.record.blocks import THINKING, Block
from sevenfold.record.known_secrets import KnownSecrets
from sevenfold.record.secret_patterns import occurrences, patterns

DIGITS_IN_MASK = 4
"""Hex digits of the hash in a mask."""
DIGITS_OF_DIGEST = 8
"""Hex digits of the hash by which a user can look for a secret."""

_BEFORE_A_TOKEN = re.compile(r"[-_.](?=[A-Za-z0-9][A-Za-z0-9_.-]{11})")
KNOWN = "known-secret"
NONE_KNOWN = KnownSecrets()
_BEFORE_CONTEXTS = frozenset({"private-key", KNOWN})
"""Kinds with the same priority as formats: they win over a secret recognised only by its context."""
_LOWER = MappingProxyType({ord(letter): ord(letter.lower()) for letter in string.ascii_uppercase})
_LONGEST_BEFORE = 40
_ENOUGH = 120
"""How many characters of a secret are checked to tell it from an example."""
_WORD_BEFORE = re.compile(r"(?<!\\)[A-Za-z0-9-]")
_DATA = re.compile("[A-Za-z0-9+/_-]")
_LAYOUT = re.compile(r"\\[nrt]|\s")
_COVER = re.compile(
    # Colours and other terminal escape sequences, raw and written as text
    r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)"
    r"|\\(?:x1[bB]|u001[bB]|033|e)\[[0-9;]{0,16}m"
    # Invisible characters
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
    # Characters written as their codes
    r"|%(?P<percent>[2-6][0-9a-fA-F]|7[0-9a-eA-E])|\\u00(?P<unicode>[2-6][0-9a-fA-F]|7[0-9a-eA-E])"
)
_BREAK = re.compile(r"""(?:["'`]?[ \t]{0,8}[+\\]?[ \t]{0,8}(?:\r?\n|\\r?\\?n)[ \t]{0,80}["'`]?)""")
"""A line break within a value that spans several lines, in prose, code or a shell command."""


class Finding(Struct, frozen=True):
    """A secret found in a text: its place and kind, never its value."""

    kind: str
    digest: str
    start: int
    end: int


class Redacted(Struct, frozen=True):
    """A masked text, and the secrets found in it."""

    text: str
    findings: tuple[Finding, ...] = ()


class MaskedBlocks(Struct, frozen=True):
    """Masked content blocks; a finding's position is relative to the text it was found in."""

    blocks: list[Block]
    findings: tuple[Finding, ...] = ()


def mask(text: str, secrets: KnownSecrets = NONE_KNOWN) -> Redacted:
    """The text with every secret in it masked; masking it again changes nothing."""
    everything: list[Finding] = []
    # A mask may reveal another secret. Every pass removes some of the text, so this ends.
    while findings := find(text, secrets):
        pieces = []
        position = 0
        for finding in findings:
            pieces += [text[position : finding.start], label(finding.kind, finding.digest)]
            position = finding.end
        text = "".join([*pieces, text[position:]])
        everything += findings
    return Redacted(text, tuple(everything))


def mask_text(text: str) -> str:
    """The masked text alone, without known values."""
    return mask(text).text


def find(text: str, secrets: KnownSecrets = NONE_KNOWN) -> list[Finding]:
    """The secrets in a text, in order and without overlaps."""
    findings = [*_find(text), *_find_known(text, secrets)]
    if _COVER.search(text):
        bare = Uncovered(text, _COVER, _uncover)
        findings += [
            bare.finding(finding) for finding in (*_find(bare.text), *_find_known(bare.text, secrets))
        ]
    if secrets.value_by_form and _BREAK.search(text):
        joined = Uncovered(text, _BREAK, lambda _: "")
        findings += [joined.finding(finding) for finding in _find_known(joined.text, secrets)]
    return _apart(findings)


def _find_known(text: str, secrets: KnownSecrets) -> list[Finding]:
    findings = []
    for position, form in occurrences(text, secrets.value_by_form):
        value = secrets.value_by_form[form]
        findings.append(Finding(KNOWN, digest(value), position, position + len(form)))
    return findings


class Uncovered:
    """A text with some parts replaced, which maps positions back to the original."""

    def __init__(
        self, text: str, pattern: re.Pattern[str], meaning: Callable[[re.Match[str]], str]
    ) -> None:
        self._covered = text
        self._pattern = pattern
        pieces: list[str] = []
        self._new_positions = [0]
        self._original_positions = [0]
        length = end = 0
        for cover in pattern.finditer(text):
            plain = text[end : cover.start()]
            pieces += [plain, meaning(cover)]
            length += len(plain) + len(pieces[-1])
            end = cover.end()
            self._new_positions.append(length)
            self._original_positions.append(end)
        self.text = "".join([*pieces, text[end:]])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original positions of a non-empty span of the new text."""
        last = self._original_position(end - 1)
        covered = self._pattern.match(self._covered, last)
        return self._original_position(start), covered.end() if covered else last + 1

    def finding(self, shifted: Finding) -> Finding:
        """A finding in the new text, with its original positions."""
        return Finding(shifted.kind, shifted.digest, *self.span(shifted.start, shifted.end))

    def _original_position(self, at: int) -> int:
        mark = bisect_right(self._new_positions, at) - 1
        return self._original_positions[mark] + at - self._new_positions[mark]


def _uncover(cover: re.Match[str]) -> str:
    number = cover["percent"] or cover["unicode"]
    return chr(int(number, 16)) if number else ""


def _find(text: str) -> list[Finding]:
    """The secrets that patterns find in a text as it is."""
    lower = text.lower()
    if len(lower) != len(text):
        # A few letters become two in lower case, which would shift every position behind them.
        lower = text.translate(_LOWER)
    table = patterns()
    hints = [*_names(text), *occurrences(text, table.literals), *occurrences(lower, table.contexts)]
    candidates = []
    for start, hint in hints:
        if candidate := _at(text, start, hint):
            candidates.append(candidate)
    findings = []
    for finding in _apart(candidates):
        secret = text[finding.start : finding.end]
        findings.append(Finding(finding.kind, digest(secret), finding.start, finding.end))
    return findings


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without overlaps: formats win over contexts, and within each, longer findings over shorter."""
    first = patterns().format_kinds | _BEFORE_CONTEXTS
    formats = _longest(finding for finding in findings if finding.kind in first)
    ends = [0, *(finding.end for finding in formats), sys.maxsize]
    starts = [*(finding.start for finding in formats), sys.maxsize]
    by_context = _longest(finding for finding in findings if finding.kind not in first)
    free = [
        finding
        for finding in by_context
        if ends[at := bisect_right(ends, finding.start) - 1] <= finding.start and finding.end <= starts[at]
    ]
    return sorted([*formats, *free], key=lambda finding: finding.start)


def _longest(findings: Iterable[Finding]) -> list[Finding]:
    chosen: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if not chosen or chosen[-1].end <= finding.start:
            chosen.append(finding)
        elif finding.end - finding.start > chosen[-1].end - chosen[-1].start:
            chosen[-1] = finding
    return chosen


def digest(secret: str) -> str:
    """The hash that identifies a secret; it ignores whitespace, line breaks written as text, and colours."""
    essence = _LAYOUT.sub("", _COVER.sub(_uncover, secret)).encode(errors="surrogatepass")
    return hashlib.sha256(essence).hexdigest()[:DIGITS_OF_DIGEST]


def label(kind: str, digest: str) -> str:
    """The mask that replaces a secret."""
    return f"[masked {kind} {digest[:DIGITS_IN_MASK]}]"


def _names(text: str) -> Iterator[tuple[int, str]]:
    """Where a hint begins that ends in ``-``, ``_`` or ``.`` and is followed by a long word; and the hint."""
    table = patterns()
    shortest = table.lengths[0]
    for sign in _BEFORE_A_TOKEN.finditer(text):
        end = sign.end()
        if text[end - shortest : end] in table.tails:
            for length in table.lengths:
                if length <= end and (name := text[end - length : end]) in table.names:
                    yield end - length, name


def _at(text: str, start: int, hint: str) -> Finding | None:
    """The secret whose hint is at ``start``, without its digest; None if there is none."""
    rule = patterns().by_hint[hint]
    remainder = rule.rest.match(text, start + len(hint))
    if remainder is None:
        return None
    inside = (rule.begins_word or rule.at_edge) and start and _WORD_BEFORE.match(text, start - 1)
    if inside and (rule.begins_word or _DATA.match(text, remainder.end())):
        return None
    first = start
    end = remainder.end()
    if rule.before is not None:
        preceding = rule.before.search(text, max(0, start - _LONGEST_BEFORE), start)
        if preceding is None:
            return None
        first = preceding.start()
    elif "secret" in rule.rest.groupindex:
        first, end = remainder.span("secret")
    looked_at = end if rule.many_lines else min(end, first + _ENOUGH)
    return Finding(rule.kind, "", first, end) if rule.is_real(text[first:looked_at]) else None


# -- streams ---------------------------------------------------------------------------------------

LONGEST_KEY = 32 * 1024
"""Up to this many bytes, a key that spans lines is kept in one piece."""
LONGEST_LINE = 64 * 1024
"""Up to this many bytes, an unfinished line is held back."""
_KEY_BEGINS = b"-----BEGIN "
_KEY_ENDS = b"-----END "


def safe_cut(output: bytes, hold: int = 0) -> int:
    """Where incomplete output can be cut without splitting a secret: after a line, but before an unfinished key.

    A piece without a line break is cut after a word, or at its end, unless it is shorter than ``hold``.
    """
    cut = output.rfind(b"\n") + 1
    if not cut and len(output) >= hold:
        cut = output.rfind(b" ") + 1 or len(output)
    key = output.rfind(_KEY_BEGINS, max(0, cut - LONGEST_KEY), cut)
    if key < 0 or output.find(_KEY_ENDS, key, cut) >= 0:
        return cut
    return key if key or len(output) < min(hold, LONGEST_KEY) else cut


class MaskedStream:
    """Masks output that arrives in chunks. What may be part of a secret is held back until the rest arrives."""

    def __init__(self, secrets: KnownSecrets = NONE_KNOWN) -> None:
        self._secrets = secrets
        self._left = b""

    def add(self, chunk: bytes) -> bytes:
        """Add a chunk; returns the masked output that can be written now."""
        output = self._left + chunk
        cut = safe_cut(output, LONGEST_LINE)
        self._left = output[cut:]
        return mask_bytes(output[:cut], self._secrets)

    def end(self) -> bytes:
        """The rest of the output, masked."""
        held_back = self._left
        self._left = b""
        return mask_bytes(held_back, self._secrets)


def mask_bytes(raw: bytes, secrets: KnownSecrets = NONE_KNOWN) -> bytes:
    """The content of a file with every secret masked."""
    masked = mask(raw.decode(errors="surrogateescape"), secrets)
    return masked.text.encode(errors="surrogateescape") if masked.findings else raw


# -- JSON ------------------------------------------------------------------------------------------

MODELS_BLOCKS = THINKING | {"tool_use", "server_tool_use", "compaction"}
"""Blocks made by a model or its provider; they must be sent back unchanged."""
_NO_TEXT = frozenset(
    {"signature", "encrypted_content", "tool_use_id", "tool_use_ids", "compactedToolIds", "cache_reference"}
)
"""Fields that are never masked: the provider verifies them, or they pair a call with its result."""
_BY_CALL = "sevenfold_results"
"""The field with an object whose keys are ids of tool calls."""
_fields = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_string = msgspec.json.Decoder(str)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class MaskedJson(Struct, frozen=True):
    """Masked JSON; a finding's position is relative to the string it was found in."""

    raw: bytes
    findings: tuple[Finding, ...] = ()


def mask_json(raw: bytes, secrets: KnownSecrets = NONE_KNOWN, *, whole: bool = False) -> MaskedJson:
    """JSON with every string masked except in what the model said; with ``whole``, there too.

    Only strings that contain a secret are encoded again. Signatures, images and the ids of calls stay. What is not
    JSON is masked as text.
    """
    walk = _Walk(secrets, whole)
    try:
        masked = walk.value(raw.strip())
    except RecursionError:
        masked = _STRING.sub(lambda string: walk.text(string[0]), raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        plain = mask(raw.decode(errors="surrogateescape"), secrets)
        return MaskedJson(plain.text.encode(errors="surrogateescape"), plain.findings)
    return MaskedJson(masked, tuple(walk.findings)) if walk.findings else MaskedJson(raw)


def mask_blocks(content: Sequence[Block], secrets: KnownSecrets = NONE_KNOWN) -> MaskedBlocks:
    """Blocks with their texts masked, except the model's own; a block without a secret stays the same object."""
    masked_blocks: list[Block] = []
    findings: list[Finding] = []
    for block in content:
        masked = mask_json(block.raw, secrets)
        masked_blocks.append(Block(block.kind, masked.raw, block.id) if masked.findings else block)
        findings += masked.findings
    return MaskedBlocks(masked_blocks, tuple(findings))


class _Walk:
    """Masks a JSON value as bytes, so that what is not changed keeps its bytes."""

    def __init__(self, secrets: KnownSecrets, whole: bool) -> None:
        self._secrets = secrets
        self._whole = whole
        self.findings: list[Finding] = []

    def value(self, raw: bytes, *, names: bool = True) -> bytes:
        """The masked value; ``names`` says whether the keys of an object are masked too."""
        match raw[:1]:
            case b'"':
                return self.text(raw)
            case b"{":
                return self._object(raw, names)
            case b"[":
                items = [bytes(item) for item in _items.decode(raw)]
                masked = [self.value(item) for item in items]
                return raw if masked == items else b"[" + b",".join(masked) + b"]"
            case _:
                return raw

    def text(self, raw: bytes) -> bytes:
        masked = mask(_string.decode(raw), self._secrets)
        self.findings += masked.findings
        return msgspec.json.encode(masked.text) if masked.findings else raw

    def _object(self, raw: bytes, names: bool) -> bytes:
        fields = {name: bytes(value) for name, value in _fields.decode(raw).items()}
        kind = fields.get("type", b"")[1:-1].decode(errors="replace")
        if not self._whole and (fields.get("role") == b'"assistant"' or kind in MODELS_BLOCKS):
            return raw
        masked = {}
        for name, value in fields.items():
            if name in _NO_TEXT or (name == "data" and kind in ("base64", "redacted_thinking")):
                masked[name] = value
            else:
                named = mask(name, self._secrets) if names else Redacted(name)
                self.findings += named.findings
                masked[named.text] = self.value(value, names=name != _BY_CALL)
        if masked == fields:
            return raw
        return msgspec.json.encode({name: Raw(value) for name, value in masked.items()})
