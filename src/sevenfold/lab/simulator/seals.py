"""Signatures that need no memory: what must be known later is inside them, under the simulator's own key.

A seal is a small record, packed, authenticated and written as base64. A restarted simulator with the same
key reads the seals of the one before. They stand in for the providers' opaque signatures and resemble them
in nothing but use.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

_MAC = 16


class ThoughtSeal(Struct, frozen=True, array_like=True, tag="t"):
    """What a thinking block's signature says about the moment it was made."""

    model: str
    organisation: str
    prefix: bytes
    """The hash of everything sent before the block, thinking apart."""
    system: bytes
    tools: bytes
    text: bytes
    """The hash of the text the block was given with."""
    name: bytes
    before: bytes
    """The name of the thinking block before it, empty for the first."""
    place: int
    """How many blocks of the same run stand before it."""
    start: int
    """The place of the first block of the run that was still there."""
    tokens: int
    bulk: bytes = b""
    """Nothing but length: real signatures grow with the reasoning behind them, and estimates rely on it."""


class SummarySeal(Struct, frozen=True, array_like=True, tag="c"):
    """What the signature of a compaction block says about what it summarised."""

    model: str
    organisation: str
    bound: bool
    """Whether the model that made it binds thinking: only then can kept thinking stay valid."""
    content: bytes
    changes: bytes
    """The hash of its `tool_changes`."""
    system: bytes
    tools: bytes
    prefixes: tuple[bytes, ...]
    """The hashes of the whole range, by every way thinking inside it may have come about."""
    last_role: str


class OpaqueSeal(Struct, frozen=True, array_like=True, tag="o"):
    """A summary that only who made it can read."""

    model: str
    organisation: str
    summary: str


Seal = TypeVar("Seal", ThoughtSeal, SummarySeal, OpaqueSeal)


class Sealer:
    """Makes and reads seals."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, seal: ThoughtSeal | SummarySeal | OpaqueSeal) -> str:
        """The seal as a string to send."""
        packed = msgspec.msgpack.encode(seal)
        return b64encode(self._mac(packed) + packed).decode()

    def open(self, text: object, kind: type[Seal]) -> Seal | None:
        """The seal in a string that came back; None when it is no seal of that kind or was altered."""
        try:
            raw = b64decode(str(text), validate=True)
            if not hmac.compare_digest(self._mac(raw[_MAC:]), raw[:_MAC]):
                return None
            return msgspec.msgpack.decode(raw[_MAC:], type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def _mac(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, sha256)[:_MAC]
