"""A content block that is still coming, and how its pieces are joined without being read.

Strings are continued as they were written, escapes and all, so the finished block has the bytes it would
have had in one piece. That holds for kinds of blocks and deltas nobody here has heard of: a delta's strings
continue the block's field of the same name, and anything else in it replaces that field.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from sevenfold.providers.failures import Garbled
from sevenfold.record.blocks import encode_json, minify

INVALID_INPUT = "INVALID_JSON"
"""The one key of a tool input that was no JSON object: its value is the text that came instead."""

NULL = Raw(b"null")
Fields = dict[str, Raw]
T = TypeVar("T")
fields_of = msgspec.json.Decoder(Fields | None)
_string = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()


class GrowingBlock:
    """A block whose deltas are still coming."""

    def __init__(self, opening: bytes) -> None:
        self._opening = opening
        self.fields = decoded(fields_of, opening) or {}
        self._strings: dict[str, list[bytes]] = {}
        self._input: list[str] = []
        self._citations: list[bytes] = []
        self._touched = False

    @property
    def is_text(self) -> bool:
        """Whether it can be kept although its end is missing."""
        return bytes(self.fields.get("type", NULL)) == b'"text"'

    def grow(self, delta: Fields) -> None:
        """Take a delta."""
        self._touched = True
        for name, value in delta.items():
            raw = bytes(value)
            if name == "partial_json":
                self._input.append(words_in(value))
            elif name == "citation":
                self._citations.append(raw)
            elif raw.startswith(b'"') and name != "type":
                self._strings.setdefault(name, []).append(raw[1:-1])
            elif raw != b"null" and name != "type":
                self.fields[name] = value

    def raw(self) -> bytes:
        """The block so far."""
        if not self._touched:
            return minify(self._opening)
        fields = {name: bytes(value) for name, value in self.fields.items()}
        for name, parts in self._strings.items():
            before = fields.get(name, b"")
            start = before[1:-1] if before.startswith(b'"') else b""
            fields[name] = b'"' + start + b"".join(parts) + b'"'
        if text := "".join(self._input):
            fields["input"] = tool_input(text)
        if self._citations:
            before = fields.get("citations", b"")
            start = before[1:-1].strip() if before.startswith(b"[") else b""
            fields["citations"] = b"[" + b",".join(filter(None, [start, *self._citations])) + b"]"
        return minify(_encoder.encode({name: Raw(value) for name, value in fields.items()}))


def tool_input(text: str) -> bytes:
    """The input of a tool call as a JSON object; what is none is wrapped, so that it can be answered."""
    try:
        raw = minify(text.encode() or b"{}")
    except (msgspec.DecodeError, RecursionError):
        raw = b""
    return raw if raw.startswith(b"{") else encode_json({INVALID_INPUT: text})


def words_in(value: Raw) -> str:
    """The string in some JSON; empty when it is anything else."""
    return decoded(_string, value) if bytes(value).startswith(b'"') else ""


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decoded data of a provider; what is not as its API promises is garbled."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Garbled(f"{error}: {bytes(data)[:80]!r}") from error
    except RecursionError:
        raise Garbled(f"it is nested too deeply: {bytes(data)[:80]!r}") from None
