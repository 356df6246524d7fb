"""What servers report about their models, in addition to our table.

Providers and local servers list the models they serve, some with window sizes. The last copy of each listing is stored
in the user's home. A session uses that copy from start to end, so that no threshold and no byte changes in between;
servers are queried in the background, for the next session. Opening a session waits, briefly, only for a model that is
not in the table and either has no copy or is served locally. A server that does not answer never causes a failure.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from sevenfold.errors import TranscriptError
from sevenfold.profiles import Listing, Profile, find
from sevenfold.stores.files import private_folder, write_whole

_log = logging.getLogger(__name__)
MAX_LISTINGS = 100
"""The most listings stored; the oldest are dropped."""
WAIT_SECONDS = 2.0
"""How long opening a session waits for the listing of an unknown model."""
ASK_SECONDS = 10.0
"""How long a server may take to answer, whether or not a session waits."""
FRESH_SECONDS = 24 * 3_600
"""The age at which a copy is refreshed."""
WINDOWS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")
"""Names for a model's window, used by providers, vLLM, routers and local servers."""
ANSWERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names for the most tokens in an answer."""
ABILITIES = ("thinking", "context_management", "compaction")
"""The capabilities that are stored: those that `sevenfold.profiles.Profile.listed` reads."""
Fetch = Callable[[str, Any], bytes]
"""Requests a path or URL from the server, with a body to post or None; raises any error of the client."""
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)", re.M)
_PRIVATE = re.compile(
    r"127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|.*\.(local|localhost|internal|lan)$"
)


class _Copy(Struct, frozen=True):
    listing: Listing
    at: float
    """Seconds since 1970."""


@runtime_checkable
class Lister(Protocol):
    """A client whose server lists its models."""

    @property
    def address(self) -> str:
        """The server's address."""

    def listing(self, model: str, seconds: float) -> bytes:
        """The server's data about a model, undecoded; raises any error of the client."""


class ListingClient:
    """The part of a client that looks up models."""

    def __init__(self, client: Lister) -> None:
        self.address = client.address
        self.listing = client.listing


class Listings:
    """Looks up models for one session, and stores the listings in a file; without a path, nowhere."""

    def __init__(self, path: Path | None, *, switched_on: bool = True) -> None:
        self._path = path
        self._on = switched_on

    def profile(self, model: str, address: str, client: Any) -> Profile:
        """The profile of a model at this address; waits briefly for the server if the model is unknown."""
        profile = find(model)
        if not self._on:
            return profile
        listing, _ = self.last(address, profile.model) or (None, 0.0)
        # A local server may have been restarted with another window, so its stored listing is not enough.
        if not profile.known and (listing is None or is_local(address)) and isinstance(client, Lister):
            listing = self._ask(client, profile.model, WAIT_SECONDS) or listing
        else:
            self.refresh(profile.model, client)
        return profile if listing is None else profile.listed(listing)

    def refresh(self, model: str, client: Any) -> None:
        """Query the server in the background, for the next session, if the listing is old or missing."""
        if not (self._on and self._path and isinstance(client, Lister)):
            return
        last = self.last(client.address, model)
        if last is None or not 0 <= time.time() - last[1] < FRESH_SECONDS:
            self._ask(client, model, 0.0)

    def last(self, address: str, model: str) -> tuple[Listing, float] | None:
        """The last listing from the server at this address, and its time; None if there is none."""
        copy = self._stored().get(f"{address} {model}")
        return (copy.listing, copy.at) if copy else None

    def keep(self, address: str, model: str, listing: Listing, at: float) -> None:
        """Store a listing; if it cannot be written, the next session queries the server again."""
        if self._path is None:
            return
        copies = {**self._stored(), f"{address} {model}": _Copy(listing, at)}
        newest = sorted(copies, key=lambda key: copies[key].at)[-MAX_LISTINGS:]
        with suppress(TranscriptError):
            private_folder(self._path.parent)
            write_whole(self._path, msgspec.json.encode({key: copies[key] for key in newest}))

    def _stored(self) -> dict[str, _Copy]:
        try:
            raw = self._path.read_bytes() if self._path else b"{}"
            return msgspec.json.decode(raw, type=dict[str, _Copy])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}

    def _ask(self, client: Lister, model: str, wait: float) -> Listing | None:
        """Query a server in the background and store its listing; returns it if it arrives within ``wait`` seconds."""
        listings: list[Listing] = []

        def ask() -> None:
            try:
                # Also stored if the server does not list the model, so that it is not queried again at once.
                listings.append(read_listing(client.listing(model, ASK_SECONDS), model) or Listing())
                self.keep(client.address, model, listings[0], time.time())
            except Exception:  # noqa: BLE001 (any client, any server: none of it may reach the session)
                _log.info("the server did not list its model; what was known before holds", exc_info=True)

        asking = threading.Thread(target=ask, daemon=True, name="sevenfold-listing")
        asking.start()
        asking.join(wait)
        return listings[0] if listings else None


def read_listing(raw: bytes, model: str) -> Listing | None:
    """Parse a server's answer, one entry or a list; None if this model is not in it."""
    body = msgspec.json.decode(raw)
    listed = body.get("data", [body]) if isinstance(body, dict) else []
    entries = (listed_model for listed_model in listed if isinstance(listed_model, dict))
    entry = next((entry for entry in entries if entry.get("id") == model), None)
    if entry is None:
        return None
    capabilities = entry.get("capabilities")
    abilities = capabilities if isinstance(capabilities, dict) else {}
    return Listing(
        _count(entry, WINDOWS) or _count(entry.get("meta"), ("n_ctx",)),
        _count(entry, ANSWERS),
        {name: abilities[name] for name in ABILITIES if name in abilities},
    )


# -- local servers ---------------------------------------------------------------------------------


def running_window(model: str, fetch: Fetch) -> int | None:
    """The window with which a model runs on a local server; None if the server does not say.

    The OpenAI-compatible listings of these servers omit it, or give the size that a model was trained with, not
    the size it was loaded with. So the servers' own endpoints are used: `/api/ps` and `/api/show` (Ollama), `/props`
    (llama.cpp), `/api/v0/models` (LM Studio). vLLM has `max_model_len` in its listing.
    """
    for ask in (_ollama, _llama_cpp, _lm_studio):
        try:
            if (window := ask(model, fetch)) is not None:
                return window
        except Exception:  # noqa: BLE001 (another server answers in another way: none of it may reach the session)
            continue
    return None


def _ollama(model: str, fetch: Fetch) -> int | None:
    """The window of the loaded model, or the one set in its file; what an unloaded model will get is unknown."""
    wanted = model if ":" in model else f"{model}:latest"
    for running in _decoded(fetch("/api/ps", None)).get("models") or ():
        if wanted in (running.get("name"), running.get("model")) and (
            size := _count(running, ("context_length",))
        ):
            return size
    shown = _decoded(fetch("/api/show", {"model": model}))
    written = _NUM_CTX.search(str(shown.get("parameters") or ""))
    return int(written[1]) if written else None


def _llama_cpp(model: str, fetch: Fetch) -> int | None:
    # A router would load the model, if the request did not forbid it.
    props = _decoded(fetch(f"/props?model={quote(model, safe='')}&autoload=false", None))
    return _count(props.get("default_generation_settings"), ("n_ctx",))


def _lm_studio(model: str, fetch: Fetch) -> int | None:
    listed = _decoded(fetch("/api/v0/models", None)).get("data") or ()
    loaded = (entry for entry in listed if entry.get("id") == model)
    sizes = (_count(entry, ("loaded_context_length",)) for entry in loaded)
    return next(filter(None, sizes), None)


def _decoded(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


def is_local(address: str) -> bool:
    """Whether a server is on this machine or in a private network."""
    host = urlsplit(address).hostname or ""
    return bool(host) and ("." not in host or _PRIVATE.match(host) is not None)


def _count(entry: object, names: tuple[str, ...]) -> int | None:
    values = (entry.get(name) for name in names) if isinstance(entry, dict) else ()
    return next((value for value in values if type(value) is int and value > 0), None)
