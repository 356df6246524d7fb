"""Finds a store by the scheme of its URL.

Register your own store under a scheme, with `register` or with an entry point in the group ``sevenfold.stores``, and
name it like any other: ``Session.open(…, store="sqlite:///var/lib/sessions.db")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.stores.jsonl.log import Sync
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.memory import MemoryStore

MakeStore = Callable[[str], Store]
"""Creates a store from its full URL."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def register(scheme: str, make: MakeStore) -> None:
    """Use ``make`` to create the store for every URL with this scheme."""
    _SCHEMES[scheme.lower()] = make


def open_store(store: Store | Path | str, *, sync: Sync = Sync.DURABLE) -> Store:
    """Return the store for an object, a URL, or a folder of transcripts; ``sync`` applies to folders only."""
    if not isinstance(store, Path | str):
        _check_store(store)
        return store
    url = _URL.match(str(store)) if isinstance(store, str) else None
    if url is None:
        return JsonlStore(Path(store).expanduser().resolve(), sync=sync)
    scheme = url[1].lower()
    if scheme in _SCHEMES:
        return _SCHEMES[scheme](str(store))
    from importlib.metadata import entry_points  # slow to import, and most programs name no store

    for entry_point in entry_points(group="sevenfold.stores", name=scheme):
        make: MakeStore = entry_point.load()
        return make(str(store))
    raise InputError(
        f"no store is known for {scheme}://; known are {', '.join(sorted(_SCHEMES))}. A store of your own is made "
        "known with sevenfold.stores.registry.register"
    )


def _check_store(store: object) -> None:
    """Raise `InputError` if an object lacks methods of a `sevenfold.ports.Store`."""
    methods = [name for name in vars(Store) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(store, name, None))]
    if len(missing) == len(methods):
        raise InputError(f"store is a {type(store).__name__}; pass a folder, a URL or a Store")
    if missing:
        raise InputError(
            f"store is a {type(store).__name__} without {', '.join(missing)}; a store needs all methods of "
            "sevenfold.ports.Store"
        )


_shared_memory: dict[str, MemoryStore] = {}


def _memory(url: str) -> Store:
    """Return the store for this URL, shared by everything in the process that names it; a tenant has one of its own."""
    from urllib.parse import parse_qs, urlsplit  # most programs name no store

    tenant = parse_qs(urlsplit(url).query).get("tenant", [""])[0]
    return _shared_memory.setdefault(url, MemoryStore(tenant))


def _postgres(url: str) -> Store:
    try:
        from sevenfold.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise InputError(
            "keeping sessions in PostgreSQL needs psycopg: pip install 'sevenfold[postgres]'"
        ) from error
    return PostgresStore.at(url)


_SCHEMES: dict[str, MakeStore] = {"memory": _memory, "postgresql": _postgres, "postgres": _postgres}
