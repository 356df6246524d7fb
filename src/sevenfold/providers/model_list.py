"""What servers say of their models, and the last copy of it.

Providers and local servers list the models they serve, some with the size of their windows. What one said is kept in
the user's home, so that a session can go by it without waiting for anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.errors import TranscriptError
from sevenfold.stores.files import private_folder, write_whole

WINDOWS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")
"""What providers, vLLM, routers and local servers call a model's window."""
ANSWERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What they call the most tokens of an answer."""

ABILITIES = ("thinking", "context_management", "compaction")
"""What is kept of what a model can do: what `sevenfold.profiles.Profile.listed` goes by."""
MOST = 100
"""Copies that are kept, the newest."""


class Listing(Struct, frozen=True):
    """What a server says of a model; None or empty where it says nothing."""

    window: int | None = None
    answer: int | None = None
    capabilities: Mapping[str, Any] = {}


class _Copy(Struct, frozen=True):
    listing: Listing
    at: float
    """Seconds since 1970."""


def read(raw: bytes, model: str) -> Listing | None:
    """What a server's answer says of this model: one entry, or a list of which it is one; None if it is not there."""
    body = msgspec.json.decode(raw)
    listed = body.get("data", [body]) if isinstance(body, dict) else []
    entry = next((one for one in listed if isinstance(one, dict) and one.get("id") == model), None)
    if entry is None:
        return None
    capabilities = entry.get("capabilities")
    said = capabilities if isinstance(capabilities, dict) else {}
    return Listing(
        _count(entry, WINDOWS) or _count(entry.get("meta"), ("n_ctx", "n_ctx_train")),
        _count(entry, ANSWERS),
        {name: said[name] for name in ABILITIES if name in said},
    )


class Copies:
    """The last copy of what each server said, in a file; without one nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def last(self, address: str, model: str) -> tuple[Listing, float] | None:
        """What the server at this address said last, and when; None if it was never asked."""
        found = self._all().get(_key(address, model))
        return (found.listing, found.at) if found else None

    def keep(self, address: str, model: str, listing: Listing, at: float) -> None:
        """Keep what it says now; where that cannot be written, the next session asks again."""
        if self._path is None:
            return
        copies = {**self._all(), _key(address, model): _Copy(listing, at)}
        newest = sorted(copies, key=lambda key: copies[key].at)[-MOST:]
        copies = {key: copies[key] for key in newest}
        try:
            private_folder(self._path.parent)
            write_whole(self._path, msgspec.json.encode(copies))
        except TranscriptError:
            return

    @property
    def kept(self) -> bool:
        """Is there a place to keep them?"""
        return self._path is not None

    def _all(self) -> dict[str, _Copy]:
        try:
            raw = self._path.read_bytes() if self._path else b"{}"
            return msgspec.json.decode(raw, type=dict[str, _Copy])
        except (OSError, msgspec.DecodeError):
            return {}


def _key(address: str, model: str) -> str:
    return f"{address} {model}"


def _count(entry: object, names: tuple[str, ...]) -> int | None:
    values = (entry.get(name) for name in names) if isinstance(entry, dict) else ()
    return next((value for value in values if type(value) is int and value > 0), None)
