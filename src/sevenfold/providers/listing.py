"""What a server's list of models says about one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

WINDOWS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")
"""What providers, vLLM, routers and local servers call a model's window."""
ANSWERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What they call the most tokens of an answer."""
ABILITIES = ("thinking", "context_management", "compaction")
"""The capabilities that are kept: those that `sevenfold.profiles.Profile.listed` reads."""
_PRIVATE = re.compile(
    r"127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|.*\.(local|localhost|internal|lan)$"
)


class Listing(Struct, frozen=True):
    """What a server says about a model; None or empty where it says nothing."""

    window: int | None = None
    answer: int | None = None
    capabilities: Mapping[str, Any] = {}


def read(raw: bytes, model: str) -> Listing | None:
    """What a server's answer, one entry or a list of them, says about this model; None if it is not there."""
    body = msgspec.json.decode(raw)
    listed = body.get("data", [body]) if isinstance(body, dict) else []
    entry = next((one for one in listed if isinstance(one, dict) and one.get("id") == model), None)
    if entry is None:
        return None
    capabilities = entry.get("capabilities")
    said = capabilities if isinstance(capabilities, dict) else {}
    return Listing(
        _count(entry, WINDOWS) or _count(entry.get("meta"), ("n_ctx",)),
        _count(entry, ANSWERS),
        {name: said[name] for name in ABILITIES if name in said},
    )


def is_local(address: str) -> bool:
    """Whether a server is on this machine or in its own network."""
    host = urlsplit(address).hostname or ""
    return bool(host) and ("." not in host or _PRIVATE.match(host) is not None)


def _count(entry: object, names: tuple[str, ...]) -> int | None:
    values = (entry.get(name) for name in names) if isinstance(entry, dict) else ()
    return next((value for value in values if type(value) is int and value > 0), None)
