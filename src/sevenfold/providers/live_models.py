"""What is true of a model here: our table, and over it what its server says of it.

A session goes by the last copy of that from its opening to its end, so that no threshold and no byte changes in
between. Servers are asked beside a session, for the next one. Only of a model that our table does not know, and that
was never asked for, is the answer waited for, and that not long. Nothing fails because a server does not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from sevenfold.profiles import Profile, find
from sevenfold.providers.model_list import Copies, Listing, read

_log = logging.getLogger(__name__)
WAIT_SECONDS = 2.0
"""How long the opening of a session waits for what a server says of a model nobody knows."""
ASK_SECONDS = 10.0
"""How long a server may take when nobody waits."""
FRESH_SECONDS = 24 * 3_600
"""How old a copy may be before the server is asked again."""


@runtime_checkable
class Lister(Protocol):
    """A client whose server lists its models."""

    @property
    def address(self) -> str:
        """Where the server is."""
        ...

    def listing(self, model: str, seconds: float) -> bytes:
        """What the server says of a model, unread; raises whatever goes wrong."""
        ...


class Aside:
    """A client by which models are looked up, and nothing else."""

    def __init__(self, client: Lister) -> None:
        self.address = client.address
        self.listing = client.listing


class Listings:
    """Looks models up for one session."""

    def __init__(self, copies: Copies, *, switched_on: bool) -> None:
        self._copies = copies
        self._on = switched_on

    def profile(self, model: str, address: str, client: Any) -> Profile:
        """The profile of a model behind this address, as far as it is known at once, or soon."""
        found = find(model)
        if not self._on:
            return found
        last = self._copies.last(address, found.model)
        if last is None and not found.known and isinstance(client, Lister):
            asked = self._begin(client, found.model)
            asked.join(WAIT_SECONDS)
            return _over(found, asked.came) if asked.came is not None else found
        self.refresh(found.model, client)
        return _over(found, last[0]) if last is not None else found

    def refresh(self, model: str, client: Any) -> None:
        """Ask the server for the next session's sake, beside this one, if the copy is old or there is none."""
        if not (self._on and self._copies.kept and isinstance(client, Lister)):
            return
        last = self._copies.last(client.address, model)
        if last is None or not 0 <= time.time() - last[1] < FRESH_SECONDS:
            self._begin(client, model)

    def _begin(self, client: Lister, model: str) -> _Asking:
        def ask() -> Listing | None:
            came = read(client.listing(model, ASK_SECONDS), model)
            # A server that says nothing of it need not be asked again at once either.
            self._copies.keep(client.address, model, came or Listing(), time.time())
            return came

        asking = _Asking(ask)
        asking.start()
        return asking


class _Asking(threading.Thread):
    """A server that is being asked."""

    def __init__(self, ask: Callable[[], Listing | None]) -> None:
        super().__init__(daemon=True, name="sevenfold-listing")
        self._ask = ask
        self.came: Listing | None = None

    def run(self) -> None:
        """Ask; whatever goes wrong, what our table says holds."""
        try:
            self.came = self._ask()
        except Exception:  # noqa: BLE001 (any client, any server: none of it may reach the session)
            _log.info("the server did not list its model; what was known before holds", exc_info=True)


def _over(profile: Profile, listing: Listing) -> Profile:
    return profile.listed(
        max_input_tokens=listing.window, max_tokens=listing.answer, capabilities=listing.capabilities
    )
