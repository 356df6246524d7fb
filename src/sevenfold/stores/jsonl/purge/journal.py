"""What was purged, and when: written before it is done, and never what it was."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from sevenfold.stores.atomic import private_folder
from sevenfold.stores.home import Home
from sevenfold.stores.jsonl.log import JsonlLog

_WAIT_SECONDS = 5.0


class Purge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the journal."""

    at: str
    what: str
    """session or secret"""
    project: str = ""
    session: str = ""
    masks: list[str] = []
    """What stands in the place of secrets now."""
    places: int = 0
    """How often they stood there."""
    files: int = 0
    bytes: int = 0


def note(home: Home, *purges: Purge) -> None:
    """Write down what is about to be purged."""
    private_folder(home.root)
    log = JsonlLog.open(home.journal, wait=_WAIT_SECONDS)
    try:
        log.append([msgspec.json.encode(purge) + b"\n" for purge in purges], durable=True)
    finally:
        log.close()
