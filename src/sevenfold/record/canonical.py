"""One form of bytes for values that come from Python.

What a provider or another tool wrote is kept as it was. What a caller hands us as Python objects has no
bytes yet: here it gets them, once, compact and in the order given, and from then on those bytes are
what is stored, hashed and sent. Values that JSON would bend (numbers as keys, NaN, bytes, half a
surrogate pair) are refused with the path to the culprit, because a silent conversion would make two
requests differ that look the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.errors import InputError

_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """The canonical JSON bytes of ``value``, or an `InputError` naming what JSON cannot hold."""
    try:
        _check(value, "$")
        return _encoder.encode(value)
    except RecursionError:
        raise InputError("it is nested too deeply for JSON to be read again, or holds itself") from None


def minify(raw: bytes) -> bytes:
    """The same JSON without insignificant whitespace; every token stays as it was written."""
    return msgspec.json.format(raw, indent=-1)


def field(raw: bytes, name: str) -> str:
    """The text in one field of an encoded object; empty when it has none."""
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    try:
        return msgspec.json.decode(fields[name], type=str)
    except (KeyError, msgspec.ValidationError):
        return ""


def fields(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """An encoded object as a dict, empty if it is none; numbers that no machine can hold become infinite."""
    found = json.loads(bytes(raw) or b"{}")
    return found if isinstance(found, dict) else {}


def _check(value: Any, path: str) -> None:
    match value:
        case None | bool() | int() | msgspec.Raw():
            return
        case str():
            _check_text(value, path)
        case float():
            if not math.isfinite(value):
                raise InputError(f"{path} is {value}, which JSON has no form for; send a number or null")
        case Mapping():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise InputError(
                        f"{path} has the key {key!r}; JSON keys are strings, so write {str(key)!r}"
                    )
                _check_text(key, f"{path} (a key)")
                _check(inner, f"{path}.{key}")
        case bytes() | bytearray() | memoryview():
            raise InputError(f"{path} is bytes; JSON has none, so decode it or send it as base64 text")
        case Sequence():
            for index, inner in enumerate(value):
                _check(inner, f"{path}[{index}]")
        case _:
            raise InputError(f"{path} is a {type(value).__name__}, which JSON has no form for")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path} holds half a surrogate pair at character {error.start}; "
            "it was probably cut in the middle of a character, so cut it elsewhere or replace it"
        ) from None
