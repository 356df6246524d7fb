"""What servers say about their models, over what our table says.

Providers and local servers list the models they serve, some with the size of their windows. The last copy of each
listing is kept in the user's home. A session goes by that copy from its opening to its end, so that no threshold and
no byte changes in between; servers are asked in the background, for the next session. Only for a model that is neither
in the table nor in a copy, or is unknown and served locally, does the opening wait, and not for long. Nothing fails
because a server does not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from sevenfold.errors import TranscriptError
from sevenfold.profiles import Profile, find
from sevenfold.providers.listing import Listing, is_local, read
from sevenfold.stores.files import private_folder, write_whole

_log = logging.getLogger(__name__)
MOST = 100
"""How many listings are kept, the newest."""
WAIT_SECONDS = 2.0
"""How long the opening of a session waits for the listing of an unknown model."""
ASK_SECONDS = 10.0
"""How long a server may take if no session waits for it."""
FRESH_SECONDS = 24 * 3_600
"""How old a copy may be before the server is asked again."""


class _Copy(Struct, frozen=True):
    listing: Listing
    at: float
    """Seconds since 1970."""


class ListingCache:
    """The last listing of each server, in a file; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def last(self, address: str, model: str) -> tuple[Listing, float] | None:
        """What the server at this address said last, and when; None if it was never asked."""
        found = self._all().get(_key(address, model))
        return (found.listing, found.at) if found else None

    def keep(self, address: str, model: str, listing: Listing, at: float) -> None:
        """Keep a listing; if it cannot be written, the next session asks again."""
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
        """Whether listings are kept at all."""
        return self._path is not None

    def _all(self) -> dict[str, _Copy]:
        try:
            raw = self._path.read_bytes() if self._path else b"{}"
            return msgspec.json.decode(raw, type=dict[str, _Copy])
        except (OSError, msgspec.DecodeError):
            return {}


@runtime_checkable
class Lister(Protocol):
    """A client whose server lists its models."""

    @property
    def address(self) -> str:
        """Where the server is."""
        ...

    def listing(self, model: str, seconds: float) -> bytes:
        """What the server says about a model, undecoded; raises whatever goes wrong."""
        ...


class ListingClient:
    """Looks models up through a client, and does nothing else with it."""

    def __init__(self, client: Lister) -> None:
        self.address = client.address
        self.listing = client.listing


class Listings:
    """Looks models up for one session."""

    def __init__(self, copies: ListingCache, *, switched_on: bool) -> None:
        self._copies = copies
        self._on = switched_on

    def profile(self, model: str, address: str, client: Any) -> Profile:
        """The profile of a model at this address; waits a moment for the server if nothing is known about it."""
        found = find(model)
        if not self._on:
            return found
        last = self._copies.last(address, found.model)
        # A local server may have been started again with another window, so its last word does not count.
        if not found.known and (last is None or is_local(address)) and isinstance(client, Lister):
            asked = self._begin(client, found.model)
            asked.join(WAIT_SECONDS)
            came = asked.came if asked.came is not None or last is None else last[0]
            return _over(found, came) if came is not None else found
        self.refresh(found.model, client)
        return _over(found, last[0]) if last is not None else found

    def refresh(self, model: str, client: Any) -> None:
        """Ask the server in the background, for the next session, if the listing is old or there is none."""
        if not (self._on and self._copies.kept and isinstance(client, Lister)):
            return
        last = self._copies.last(client.address, model)
        if last is None or not 0 <= time.time() - last[1] < FRESH_SECONDS:
            self._begin(client, model)

    def _begin(self, client: Lister, model: str) -> _Asking:
        def ask() -> Listing:
            # A server that does not list the model need not be asked again at once either.
            came = read(client.listing(model, ASK_SECONDS), model) or Listing()
            self._copies.keep(client.address, model, came, time.time())
            return came

        asking = _Asking(ask)
        asking.start()
        return asking


class _Asking(threading.Thread):
    """Asks a server in the background."""

    def __init__(self, ask: Callable[[], Listing]) -> None:
        super().__init__(daemon=True, name="sevenfold-listing")
        self._ask = ask
        self.came: Listing | None = None

    def run(self) -> None:
        """Ask; if anything goes wrong, what was known before holds."""
        try:
            self.came = self._ask()
        except Exception:  # noqa: BLE001 (any client, any server: none of it may reach the session)
            _log.info("the server did not list its model; what was known before holds", exc_info=True)


def _over(profile: Profile, listing: Listing) -> Profile:
    return profile.listed(
        max_input_tokens=listing.window, max_tokens=listing.answer, capabilities=listing.capabilities
    )


def _key(address: str, model: str) -> str:
    return f"{address} {model}"
